//! A run: the load, then changes one by one.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nlog_data::{Bound, Cancel, ColumnTransaction, Delta, Evaluator as _, Schema, TableId, Value};
use nlog_dataflow::fused::RawDelta;
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;
use objects::{Kinds, ObjectStore};
use weft_core::core::{RULE_ROWS, most_of};

use super::world::{Step, TUNNEL, World};
use super::{Changes, Figures, Load, PerHost, Run};
use crate::engine;
use crate::figure6::Latency;
use crate::figure6::workload::Network;
use crate::measure::{self, Clock};
use crate::nvp::random::Random;

/// Ports added at a time.
pub(super) const PORTS: usize = 10;

/// The stage that checks who sends through tunnels: it has a flow for each host that may.
const TUNNEL_SOURCE: &str = "TUNNEL_SOURCE";
/// The stage that looks up the groups of addresses: it has a flow for each address.
const IDENTITY: &str = "IDENTITY";
/// The match on a datapath, without its value.
const DATAPATH: &str = "metadata=";

/// Output rows of the load, by host.
pub(super) struct Loaded {
    pub(super) flows: PerHost,
    /// Flows without those that check the sources of tunnels.
    pub(super) unchecked: PerHost,
    pub(super) buckets: PerHost,
    /// Flows of all hosts that look up the groups of an address.
    pub(super) identities: usize,
    /// Flows of all hosts that are for no single datapath.
    pub(super) of_no_datapath: usize,
}

/// A transaction's cost.
#[derive(Debug)]
struct Cost {
    wall: Duration,
    cpu: Duration,
    /// Rows of its delta.
    rows: usize,
    /// Flows of its delta on the host where most are.
    flows_of_a_host: usize,
}

/// Transactions of one kind.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Cost>);

impl Steps {
    pub(super) fn figures(&self) -> Changes {
        let wall = Latency::new(self.0.iter().map(|cost| cost.wall).collect());
        let cpu = Latency::new(self.0.iter().map(|cost| cost.cpu).collect());
        let counts = |of: fn(&Cost) -> usize| {
            let mut counts: Vec<usize> = self.0.iter().map(of).collect();
            counts.sort_unstable();
            let at = |part: usize| counts.get(counts.len() * part / 100).copied().unwrap_or(0);
            (at(50), at(99))
        };
        let (rows, flows_of_a_host) = (counts(|cost| cost.rows), counts(|cost| cost.flows_of_a_host));
        Changes { wall, cpu, rows, flows_of_a_host }
    }
}

/// The flows that change on the host where most do.
fn most_flows_of_a_host(delta: &Delta, schema: &Schema) -> usize {
    let flows = schema.find("of_flow").and_then(|table| delta.tables.get(&table));
    let mut of_host: HashMap<&Value, usize> = HashMap::new();
    for row in flows.iter().flat_map(|table| table.insert.iter().chain(&table.delete)) {
        *of_host.entry(&row[0]).or_default() += 1;
    }
    of_host.into_values().max().unwrap_or(0)
}

/// The rules with a network that has been loaded.
pub(super) struct Driver {
    pub(super) engine: Dataflow,
    pub(super) schema: Schema,
    pub(super) store: ObjectStore,
    pub(super) world: World,
    pub(super) random: Random,
    pub(super) loaded: Loaded,
}

impl Driver {
    /// Loads a network: from JSON texts in memory to deltas in memory.
    pub(super) fn load(network: &Network, run: Run) -> Result<(Driver, Load)> {
        let mut engine = start(run)?;
        let schema = engine.schema().clone();
        let mut store = store()?;
        let (world, step) = World::new(network, run);
        let stages = Stages::new()?;

        let clock = Clock::start();
        let transaction = step.transaction(&mut store, &schema)?;
        // What the controller accepts as one request, by default.
        let most = most_of(RULE_ROWS, transaction.values());
        engine.bound(Bound { most, ..Bound::cancelled_by(Cancel::default()) });
        let columns = ColumnTransaction::from_rows(&transaction)?;
        drop(transaction);
        let words = engine.commit_words(&columns)?;
        let (took, cpu) = clock.stop();
        let peak_mib = measure::peak_mib();
        let loaded = loaded(&words, &schema, world.hosts(), stages)?;
        drop(words);
        let Loaded { flows, unchecked, buckets, .. } = loaded;
        drop((columns, step));
        let clock = Clock::start();
        engine.idle()?;
        let (idle, _) = clock.stop();
        let load = Load {
            idle_s: idle.as_secs_f64(),
            time_s: took.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            peak_mib,
            rest_mib: measure::resident_mib(),
            flows,
            unchecked,
            buckets,
        };
        let random = Random::new(0x6e65_7477_6f72_6b73);
        Ok((Driver { engine, schema, store, world, random, loaded }, load))
    }

    /// Commits a change and adds its cost.
    pub(super) fn commit(&mut self, step: &Step, to: &mut Steps) -> Result<()> {
        let clock = Clock::start();
        let committed = self.engine.commit(&step.transaction(&mut self.store, &self.schema)?)?;
        let (took, cpu) = clock.stop();
        let tables = committed.delta.tables.values();
        let rows = tables.map(|table| table.insert.len() + table.delete.len()).sum();
        let flows_of_a_host = most_flows_of_a_host(&committed.delta, &self.schema);
        to.0.push(Cost { wall: took, cpu, rows, flows_of_a_host });
        // As a controller does while no request waits.
        self.engine.idle()?;
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
pub(super) fn start(run: Run) -> Result<Dataflow> {
    // As the controller starts its engine: rows name their rules and come in any order.
    let plain = engine::options(run.workers, Settings::default());
    let options = Options { attribute: true, ascending: false, ..plain };
    let program = if run.invariants { super::guarded_program()? } else { super::program()? };
    Ok(Dataflow::new(program, options)?)
}

/// No objects, of the kinds that the rules declare.
pub(super) fn store() -> Result<ObjectStore> {
    Ok(ObjectStore::new(&Kinds::new(super::program()?.objects.clone())))
}

/// Stages of the rules whose flows are counted.
#[derive(Debug, Clone, Copy)]
struct Stages {
    source_checks: i64,
    identity: i64,
}

impl Stages {
    fn new() -> Result<Stages> {
        let program = super::program()?;
        let number = |name: &str| -> Result<i64> {
            let stage = program.stages.iter().find(|stage| stage.name == name);
            Ok(stage.with_context(|| format!("the rules have no stage {name}"))?.number.into())
        };
        Ok(Stages { source_checks: number(TUNNEL_SOURCE)?, identity: number(IDENTITY)? })
    }
}

/// Loads a network alone.
pub(super) fn load(network: &Network, run: Run) -> Result<Loaded> {
    let mut engine = start(run)?;
    let schema = engine.schema().clone();
    let (world, step) = World::new(network, run);
    let stages = Stages::new()?;
    let columns = ColumnTransaction::from_rows(&step.transaction(&mut store()?, &schema)?)?;
    loaded(&engine.commit_words(&columns)?, &schema, world.hosts(), stages)
}

/// Counts the output. Fails if the tunnels differ from the reported ones, or if the rules report a problem, because the
/// network is then not the intended one.
fn loaded(words: &RawDelta<'_>, schema: &Schema, hosts: usize, stages: Stages) -> Result<Loaded> {
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
    let (identities, of_no_datapath) = of_what(words, schema, stages);
    Ok(Loaded {
        flows: by_host("of_flow", None),
        unchecked: by_host("of_flow", Some(stages.source_checks)),
        buckets: by_host("of_bucket", None),
        identities,
        of_no_datapath,
    })
}

/// The flows that look up the groups of an address, and those that are for no single datapath.
fn of_what(words: &RawDelta<'_>, schema: &Schema, stages: Stages) -> (usize, usize) {
    let (mut identities, mut of_no_datapath) = (0, 0);
    // A match is a word, however many hosts have it.
    let mut is_of_datapath: HashMap<u32, bool> = HashMap::new();
    for table in words.tables().filter(|table| Some(table.table) == schema.find("of_flow")) {
        for (row, _) in table.rows() {
            identities += usize::from(words.value(row[1]) == Value::Int(stages.identity));
            let of_datapath = is_of_datapath
                .entry(row[3])
                .or_insert_with(|| words.value(row[3]).to_string().contains(DATAPATH));
            of_no_datapath += usize::from(!*of_datapath);
        }
    }
    (identities, of_no_datapath)
}
