//! Rules as one operator of a larger dataflow, with differential operators of its own before and after.
//!
//! Hosts report where ports are, some of them wrongly. Before the rules, a differential operator keeps the host with the most
//! reports of each port. The rules (`peers.nlog`, with a hook) say which hosts exchange traffic. After the rules, another
//! operator counts the peers of each host. Two workers of timely share all of it.

use std::sync::{Arc, Mutex, PoisonError};

use differential_dataflow::VecCollection;
use differential_dataflow::input::Input as _;
use nlog::{Program, Sources};
use nlog_data::{Row, TableId, Value};
use nlog_dataflow::operator::Operator;
use timely::dataflow::operators::Inspect as _;

/// The number of timely's workers.
const WORKERS: usize = 2;

/// What hosts report at a time: a port, a host, and the change of the number of reports.
type Reports = &'static [(&'static str, &'static str, isize)];

const HISTORY: [Reports; 3] = [
    // The web server answers on two hosts, on one of them more often.
    &[("web", "hv1", 3), ("web", "hv2", 1), ("db", "hv2", 1), ("cache", "hv3", 1)],
    // It has moved.
    &[("web", "hv1", -3), ("web", "hv2", 2)],
    &[("db", "hv2", -1), ("db", "hv1", 1)],
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}

/// Runs the history and returns the changes, in order of time.
pub(crate) fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let text = include_str!("peers.nlog");
    let compilation = nlog::compile(&Sources::from_texts([("peers.nlog", text)]));
    let program = compilation.program.ok_or("the rules have mistakes")?;
    // One for all workers of the process.
    let operator = Operator::new(Arc::clone(&program));
    let lines: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
    let all = Arc::clone(&lines);
    let guards = timely::execute(timely::Config::process(WORKERS), move |worker| {
        let lines = Arc::clone(&all);
        let (mut reports, mut networks, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (reports, reported) = scope.new_collection::<(String, String), isize>();
            let (networks, in_network) = scope.new_collection::<Row, isize>();
            let inputs = [
                (table(&program, "on"), most_reported(reported)),
                (table(&program, "in_network"), in_network),
            ];
            let mut connected = operator.connect(scope, inputs).expect("both are input tables");
            connected.refused.inspect(|error| panic!("{error}"));
            let peers = connected.tables.remove(&table(&program, "peers")).expect("it is an output table");
            let counts = peers.flat_map(|row| [row[1].clone(), row[2].clone()]).map(plain).count();
            let counts = counts.inspect(move |((host, peers), time, diff)| {
                let line =
                    format!("{time}: {host} has {peers} peers {}", if *diff > 0 { "now" } else { "no more" });
                lines.lock().unwrap_or_else(PoisonError::into_inner).push((*time, line));
            });
            (reports, networks, counts.probe().0)
        });
        if worker.index() == 0 {
            for port in ["web", "db", "cache"] {
                networks.insert(vec![Value::from(port), Value::from("blue")]);
            }
        }
        networks.advance_to(HISTORY.len() as u64);
        networks.flush();
        for (time, of_time) in (1..).zip(HISTORY) {
            if worker.index() == 0 {
                for (port, host, change) in of_time {
                    reports.update(((*port).to_owned(), (*host).to_owned()), *change);
                }
            }
            reports.advance_to(time);
            reports.flush();
            worker.step_while(|| probe.less_than(&time));
        }
    })?;
    for worker in guards.join() {
        worker?;
    }
    let mut lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    lines.sort_unstable();
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// Keeps the host with the most reports of each port.
fn most_reported(
    reports: VecCollection<'_, u64, (String, String), isize>,
) -> VecCollection<'_, u64, Row, isize> {
    let most = reports.reduce(|_, hosts, output| {
        if let Some((host, _)) = hosts.iter().max_by_key(|(_, reports)| *reports) {
            output.push(((*host).clone(), 1));
        }
    });
    most.map(|(port, host)| vec![Value::String(port.into()), Value::String(host.into())])
}

/// The text of a value, without quotes.
fn plain(value: Value) -> String {
    if let Value::String(text) = value { text.to_string() } else { value.to_string() }
}

/// The number of a table that the rules declare.
fn table(program: &Program, name: &str) -> TableId {
    program.schema.find(name).expect("the rules declare it")
}
