//! A run: the load, then changes one by one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use network::{Kinds, ObjectStore};
use nlog_data::{ColumnTransaction, Evaluator as _, Schema, TableId, Value};
use nlog_dataflow::Options;
use nlog_dataflow::fused::{Engine as Fused, RawDelta};
use nlog_hooks::Hooked;
use nlog_plan::Settings;

use super::world::{Step, TUNNEL, World};
use super::{Changes, Figures, Load, PerHost, Run};
use crate::engine::Engine;
use crate::figure6::Latency;
use crate::figure6::workload::Network;
use crate::measure::{self, Clock};
use crate::nvp::random::Random;

/// Ports added at a time.
const PORTS: usize = 10;

/// The stage that checks who sends through tunnels: it has a flow for each host that may.
const TUNNEL_SOURCE: &str = "TUNNEL_SOURCE";

/// Output rows of the load, by host.
pub(super) struct Loaded {
    pub(super) flows: PerHost,
    /// Flows without those that check the sources of tunnels.
    pub(super) unchecked: PerHost,
    pub(super) buckets: PerHost,
}

/// Transactions of one kind: wall time, processor time, and rows of the delta of each.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<(Duration, Duration, usize)>);

impl Steps {
    pub(super) fn figures(&self) -> Changes {
        let wall = Latency::new(self.0.iter().map(|(wall, ..)| *wall).collect());
        let cpu = Latency::new(self.0.iter().map(|(_, cpu, _)| *cpu).collect());
        let mut rows: Vec<usize> = self.0.iter().map(|(.., rows)| *rows).collect();
        rows.sort_unstable();
        let at = |part: usize| rows.get(rows.len() * part / 100).copied().unwrap_or(0);
        Changes { wall, cpu, rows: (at(50), at(99)) }
    }
}

/// The rules with a network that has been loaded.
pub(super) struct Driver {
    engine: Hooked<Fused>,
    schema: Schema,
    store: ObjectStore,
    pub(super) world: World,
    pub(super) random: Random,
}

impl Driver {
    /// Loads a network: from JSON texts in memory to deltas in memory.
    pub(super) fn load(network: &Network, run: Run) -> Result<(Driver, Load)> {
        let mut engine = start(run.workers)?;
        let schema = engine.schema().clone();
        let mut store = store()?;
        let (world, step) = World::new(network, run.reach);
        let source_checks = stage(TUNNEL_SOURCE)?;

        let clock = Clock::start();
        let transaction = step.transaction(&mut store, &schema)?;
        let columns = ColumnTransaction::from_rows(&transaction)?;
        drop(transaction);
        let (took, cpu, peak_mib, loaded) = engine.commit_columns_by(&columns, |engine, columns| {
            let words = engine.commit_words(columns)?;
            let (took, cpu) = clock.stop();
            Ok((took, cpu, measure::peak_mib(), loaded(&words, &schema, world.hosts(), source_checks)))
        })?;
        let Loaded { flows, unchecked, buckets } = loaded?;
        drop((columns, step));
        let load = Load {
            time_s: took.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            peak_mib,
            rest_mib: measure::resident_mib(),
            flows,
            unchecked,
            buckets,
        };
        let random = Random::new(0x6e65_7477_6f72_6b73);
        Ok((Driver { engine, schema, store, world, random }, load))
    }

    /// Commits a change and adds its cost.
    pub(super) fn commit(&mut self, step: &Step, to: &mut Steps) -> Result<()> {
        let clock = Clock::start();
        let committed = self.engine.commit(&step.transaction(&mut self.store, &self.schema)?)?;
        let (took, cpu) = clock.stop();
        let tables = committed.delta.tables.values();
        let rows = tables.map(|table| table.insert.len() + table.delete.len()).sum();
        to.0.push((took, cpu, rows));
        Ok(())
    }

    /// Commits changes, each of which is undone before the next. Returns the costs of both.
    pub(super) fn each_and_back(
        &mut self,
        count: usize,
        mut change: impl FnMut(&mut World, &mut Random) -> Step,
    ) -> Result<(Changes, Changes)> {
        let (mut done, mut undone) = (Steps::default(), Steps::default());
        for _ in 0..count {
            let step = change(&mut self.world, &mut self.random);
            self.commit(&step, &mut done)?;
            self.commit(&step.inverse(), &mut undone)?;
        }
        Ok((done.figures(), undone.figures()))
    }
}

/// Ten ports of a switch, on hosts all over.
pub(super) fn ports(network: &Network, world: &mut World, random: &mut Random) -> Step {
    let switch = random.below(network.switches);
    let hosts: Vec<usize> = (0..PORTS).map(|_| random.below(world.hosts())).collect();
    world.add_ports(switch, hosts)
}

/// A switch with two ports, on different hosts.
pub(super) fn switch(world: &mut World, random: &mut Random) -> Step {
    let first = random.below(world.hosts());
    world.add_switch([first, (first + 1 + random.below(world.hosts() - 1)) % world.hosts()])
}

/// Loads a network and changes it. At the end, only the moved ports differ.
pub(super) fn run(network: &Network, run: Run) -> Result<Figures> {
    let (mut driver, load) = Driver::load(network, run)?;
    let (ports_added, ports_removed) =
        driver.each_and_back(run.steps, |world, random| ports(network, world, random))?;
    let mut moved = Steps::default();
    for _ in 0..run.steps {
        let Driver { world, random, .. } = &mut driver;
        let step = world.move_port(random.below(network.ports()), 1 + random.below(world.hosts() - 1));
        driver.commit(&step, &mut moved)?;
    }
    let (switch_added, switch_removed) = driver.each_and_back(run.steps, switch)?;
    Ok(Figures {
        load,
        ports_added,
        ports_removed,
        port_moved: moved.figures(),
        switch_added,
        switch_removed,
    })
}

/// The engine with the network's rules and no rows.
pub(super) fn start(workers: usize) -> Result<Hooked<Fused>> {
    let start = move |program, observe| {
        let options = Options { observe, ..Engine::Fused.options(workers, Settings::default()) };
        Fused::new(program, &options).map_err(|error| error.to_string())
    };
    let program = super::program()?;
    let observe = Engine::Fused.options(workers, Settings::default()).observe;
    let engine = start(Arc::clone(&program), observe).map_err(anyhow::Error::msg)?;
    Hooked::new(&program, engine, start).map_err(anyhow::Error::msg)
}

/// No objects, of the kinds that the rules declare.
fn store() -> Result<ObjectStore> {
    Ok(ObjectStore::new(&Kinds::new(super::program()?.objects.clone())))
}

/// The number of a stage of the rules.
fn stage(name: &str) -> Result<i64> {
    let program = super::program()?;
    let stage = program.stages.iter().find(|stage| stage.name == name);
    let stage = stage.with_context(|| format!("the rules have no stage {name}"))?;
    Ok(stage.number.into())
}

/// Loads a network alone.
pub(super) fn load(network: &Network) -> Result<Loaded> {
    let mut engine = start(1)?;
    let schema = engine.schema().clone();
    let (world, step) = World::new(network, None);
    let source_checks = stage(TUNNEL_SOURCE)?;
    let columns = ColumnTransaction::from_rows(&step.transaction(&mut store()?, &schema)?)?;
    let load = |engine: &mut Fused, columns: &ColumnTransaction| {
        Ok(loaded(&engine.commit_words(columns)?, &schema, world.hosts(), source_checks))
    };
    engine.commit_columns_by(&columns, load)?
}

/// Counts the output. Fails if the tunnels differ from the reported ones, or if the rules report a problem, because the
/// network is then not the intended one.
fn loaded(words: &RawDelta<'_>, schema: &Schema, hosts: usize, source_checks: i64) -> Result<Loaded> {
    let by_host = |name: &str, without: Option<i64>| {
        let wanted = schema.find(name);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let counted = |row: &[u32]| without.is_none_or(|stage| words.value(row[1]) != Value::Int(stage));
        for table in words.tables().filter(|table| Some(table.table) == wanted) {
            for (row, _) in table.rows().filter(|(row, _)| counted(row)) {
                *counts.entry(row[0]).or_default() += 1;
            }
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.resize(hosts.max(counts.len()), 0);
        PerHost::new(&counts)
    };
    let table = |name: &str| -> Option<TableId> { schema.find(name) };
    for changed in words.tables() {
        if Some(changed.table) == table("problem")
            && let Some((row, _)) = changed.rows().next()
        {
            let row: Vec<Value> = row.iter().map(|word| words.value(*word)).collect();
            bail!("the rules see a problem: {row:?}");
        }
        if Some(changed.table) == table("ovsdb_tunnel") {
            let unreported = changed.rows().find(|(row, _)| words.value(row[1]) != Value::from(TUNNEL));
            ensure!(unreported.is_none(), "the rules want tunnels that were not reported");
            ensure!(changed.len() == hosts, "{} tunnels of {hosts} hosts", changed.len());
        }
    }
    Ok(Loaded {
        flows: by_host("of_flow", None),
        unchecked: by_host("of_flow", Some(source_checks)),
        buckets: by_host("of_bucket", None),
    })
}
