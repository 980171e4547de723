//! Figure 6 of the NVP paper (NSDI 2014) on `nvp-eval`: our engine beside the hand-written dataflow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nlog_data::{Evaluator, Row, Schema, TableId, Transaction, Value};
use serde::{Deserialize, Serialize};

use crate::workload::Network;

/// What one run measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the first row in hand to the last delta in hand, in seconds.
    pub(crate) load_s: f64,
    /// Median of the transactions that move ports, in milliseconds.
    pub(crate) move_ms_median: f64,
    /// Their 99th percentile, in milliseconds.
    pub(crate) move_ms_p99: f64,
    /// The most memory that the process had, in mebibytes (`VmHWM`), rows to load included.
    pub(crate) peak_mib: f64,
    /// Flows at the end: both must say the same.
    pub(crate) flows: i64,
}

impl Figures {
    /// Figures of the run of this process, which ends after it.
    pub(crate) fn new(load: Duration, mut latencies: Vec<Duration>, flows: i64) -> Self {
        latencies.sort();
        let at = |part: f64| {
            let index = ((latencies.len().saturating_sub(1)) as f64 * part).round() as usize;
            latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
        };
        Figures {
            load_s: load.as_secs_f64(),
            move_ms_median: at(0.5),
            move_ms_p99: at(0.99),
            peak_mib: crate::measure::peak_mib(),
            flows,
        }
    }
}

/// Figure 6, verbatim, and the declarations of its tables.
const PROGRAM: &str = include_str!("../../examples/figure6.nlog");

/// Runs Figure 6 in our engine: the network in one transaction, then `steps` that move ports.
pub(crate) fn run(network: &Network, steps: usize, ports_moved: usize, workers: usize) -> Result<Figures> {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("figure6.nlog", PROGRAM)]));
    let program = compilation.program.ok_or_else(|| anyhow!("figure6.nlog does not compile"))?;
    let schema = Arc::clone(&program.schema);
    let options = nlog_dataflow::Options { workers, ..nlog_dataflow::Options::default() };
    let mut engine = nlog_dataflow::Dataflow::new(program, options)?;

    let names = Names::new(&schema)?;
    let transaction = names.load(network);
    let mut flows = 0;
    let mut commit = |transaction: &Transaction| -> Result<Duration> {
        let start = Instant::now();
        let committed = engine.commit(transaction)?;
        let took = start.elapsed();
        if let Some(delta) = committed.delta.tables.get(&names.flow) {
            flows += delta.insert.len() as i64 - delta.delete.len() as i64;
        }
        Ok(took)
    };
    let load = commit(&transaction)?;
    drop(transaction);
    let mut latencies = Vec::with_capacity(steps);
    for moves in network.moves(steps, ports_moved) {
        let mut transaction = Transaction::default();
        for step in moves {
            transaction.delete.entry(names.presence).or_default().push(presence(step.port, step.from));
            transaction.insert.entry(names.presence).or_default().push(presence(step.port, step.to));
        }
        latencies.push(commit(&transaction)?);
    }
    Ok(Figures::new(load, latencies, flows))
}

/// The tables of Figure 6.
struct Names {
    port: TableId,
    encap: TableId,
    presence: TableId,
    locator: TableId,
    stage: TableId,
    tunnel_port: TableId,
    flow: TableId,
}

impl Names {
    fn new(schema: &Schema) -> Result<Self> {
        let find =
            |name: &str| schema.find(name).with_context(|| format!("figure6.nlog declares no table {name}"));
        Ok(Names {
            port: find("log_port")?,
            encap: find("log_datapath_encap")?,
            presence: find("log_port_presence")?,
            locator: find("hypervisor_locator")?,
            stage: find("lport_stage_id")?,
            tunnel_port: find("ovsdb_tport")?,
            flow: find("ovs_flow")?,
        })
    }

    /// The whole network as one transaction.
    fn load(&self, network: &Network) -> Transaction {
        let mut insert: BTreeMap<TableId, Vec<Row>> = BTreeMap::new();
        for port in 0..network.ports() {
            insert
                .entry(self.port)
                .or_default()
                .push(vec![text("p", port), text("s", network.switch_of[port])]);
            insert.entry(self.presence).or_default().push(presence(port, network.hypervisor_of[port]));
            insert.entry(self.stage).or_default().push(vec![text("p", port), Value::Int(port as i64)]);
        }
        for switch in 0..network.switches {
            insert
                .entry(self.encap)
                .or_default()
                .push(vec![text("s", switch), Value::String("geneve".into())]);
        }
        for hypervisor in 0..network.hypervisors {
            insert.entry(self.locator).or_default().push(vec![text("h", hypervisor), address(hypervisor)]);
        }
        for (number, (from, to)) in network.tunnels().into_iter().enumerate() {
            // Port numbers are per host and small; the workload only needs them to be valid.
            let port = Value::Int(1 + (number % 60_000) as i64);
            let row = vec![text("h", from), Value::String("geneve".into()), address(to), port];
            insert.entry(self.tunnel_port).or_default().push(row);
        }
        Transaction { insert, delete: BTreeMap::new() }
    }
}

fn presence(port: usize, hypervisor: usize) -> Row {
    vec![text("p", port), text("h", hypervisor)]
}

fn text(prefix: &str, number: usize) -> Value {
    Value::String(format!("{prefix}{number}").into())
}

fn address(hypervisor: usize) -> Value {
    let [_, _, high, low] = (hypervisor as u32).to_be_bytes();
    Value::Ip(std::net::Ipv4Addr::new(172, 16, high, low).into())
}
