//! A run: the load, then changes one by one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use network::{Kinds, ObjectStore};
use nlog_data::{ColumnTransaction, Evaluator as _, Schema, TableId, Value};
use nlog_dataflow::Options;
use nlog_dataflow::fused::{Engine as Fused, RawDelta};
use nlog_hooks::Hooked;
use nlog_plan::Settings;

use super::world::{Step, TUNNEL, World};
use super::{Changes, Figures, PerHost, Run};
use crate::engine::Engine;
use crate::figure6::Latency;
use crate::figure6::workload::Network;
use crate::measure::{self, Clock};
use crate::nvp::random::Random;

/// Ports added at a time.
const PORTS: usize = 10;

/// Output rows of the load, by host.
pub(super) struct Loaded {
    pub(super) flows: PerHost,
    pub(super) buckets: PerHost,
}

/// Transactions of one kind: wall time, processor time, and rows of the delta of each.
#[derive(Debug, Default)]
struct Steps(Vec<(Duration, Duration, usize)>);

impl Steps {
    fn figures(&self) -> Changes {
        let wall = Latency::new(self.0.iter().map(|(wall, ..)| *wall).collect());
        let cpu = Latency::new(self.0.iter().map(|(_, cpu, _)| *cpu).collect());
        let mut rows: Vec<usize> = self.0.iter().map(|(.., rows)| *rows).collect();
        rows.sort_unstable();
        let at = |part: usize| rows.get(rows.len() * part / 100).copied().unwrap_or(0);
        Changes { wall, cpu, rows: (at(50), at(99)) }
    }
}

/// Loads a network and changes it. At the end, only the moved ports differ.
pub(super) fn run(network: &Network, run: Run) -> Result<Figures> {
    let mut engine = start(run.workers)?;
    let schema = engine.schema().clone();
    let mut store = store()?;
    let (mut world, step) = World::new(network);

    let clock = Clock::start();
    let transaction = step.transaction(&mut store, &schema)?;
    let columns = ColumnTransaction::from_rows(&transaction)?;
    drop(transaction);
    let (took, cpu, peak_mib, loaded) = engine.commit_columns_by(&columns, |engine, columns| {
        let words = engine.commit_words(columns)?;
        let (took, cpu) = clock.stop();
        Ok((took, cpu, measure::peak_mib(), loaded(&words, &schema, world.hosts())))
    })?;
    let Loaded { flows, buckets } = loaded?;
    drop((columns, step));
    let rest_mib = measure::resident_mib();

    let mut random = Random::new(0x6e65_7477_6f72_6b73);
    let mut commit = |step: &Step, to: &mut Steps| -> Result<()> {
        let clock = Clock::start();
        let committed = engine.commit(&step.transaction(&mut store, &schema)?)?;
        let (took, cpu) = clock.stop();
        let tables = committed.delta.tables.values();
        let rows = tables.map(|table| table.insert.len() + table.delete.len()).sum();
        to.0.push((took, cpu, rows));
        Ok(())
    };
    let (mut added, mut removed) = (Steps::default(), Steps::default());
    for _ in 0..run.steps {
        let switch = random.below(network.switches);
        let hosts: Vec<usize> = (0..PORTS).map(|_| random.below(world.hosts())).collect();
        let step = world.add_ports(switch, hosts);
        commit(&step, &mut added)?;
        commit(&step.inverse(), &mut removed)?;
    }
    let mut moved = Steps::default();
    for _ in 0..run.steps {
        let step = world.move_port(random.below(network.ports()), 1 + random.below(world.hosts() - 1));
        commit(&step, &mut moved)?;
    }
    let (mut switch_added, mut switch_removed) = (Steps::default(), Steps::default());
    for _ in 0..run.steps {
        let first = random.below(world.hosts());
        let step = world.add_switch([first, (first + 1 + random.below(world.hosts() - 1)) % world.hosts()]);
        commit(&step, &mut switch_added)?;
        commit(&step.inverse(), &mut switch_removed)?;
    }
    Ok(Figures {
        load_s: took.as_secs_f64(),
        load_cpu_s: cpu.as_secs_f64(),
        peak_mib,
        rest_mib,
        flows,
        buckets,
        ports_added: added.figures(),
        ports_removed: removed.figures(),
        port_moved: moved.figures(),
        switch_added: switch_added.figures(),
        switch_removed: switch_removed.figures(),
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

/// Loads a network alone.
pub(super) fn load(network: &Network) -> Result<Loaded> {
    let mut engine = start(1)?;
    let schema = engine.schema().clone();
    let (world, step) = World::new(network);
    let columns = ColumnTransaction::from_rows(&step.transaction(&mut store()?, &schema)?)?;
    let load = |engine: &mut Fused, columns: &ColumnTransaction| {
        Ok(loaded(&engine.commit_words(columns)?, &schema, world.hosts()))
    };
    engine.commit_columns_by(&columns, load)?
}

/// Counts the output. Fails if the tunnels differ from the reported ones, or if the rules report a problem, because the
/// network is then not the intended one.
fn loaded(words: &RawDelta<'_>, schema: &Schema, hosts: usize) -> Result<Loaded> {
    let by_host = |name: &str| {
        let wanted = schema.find(name);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for table in words.tables().filter(|table| Some(table.table) == wanted) {
            for (row, _) in table.rows() {
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
    Ok(Loaded { flows: by_host("of_flow"), buckets: by_host("of_bucket") })
}
