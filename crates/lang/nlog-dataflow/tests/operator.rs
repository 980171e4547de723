//! A program as an operator of a timely dataflow: its outputs and refusals are those of the reference, at the same
//! times, for any number of workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use differential_dataflow::input::{Input, InputSession};
use nlog::Program;
use nlog_data::{CommitError, Delta, Evaluator, Role, Row, TableId, Tables, Transaction, Value};
use nlog_dataflow::operator::{ConnectError, Operator};
use nlog_plan::Settings;
use nlog_reference::Reference;
use test_random::seeds;
use timely::dataflow::operators::{Inspect, Probe};

use crate::support::generate::Case;
use crate::support::{compile, transaction};

/// The changes of rows, or the refusal, of a transaction.
type Answer = Result<BTreeMap<TableId, BTreeSet<(Row, isize)>>, CommitError>;

/// The rows of a table before a transaction.
type Present<'a> = dyn FnMut(TableId) -> Vec<Row> + 'a;

/// A transaction that depends on the rows before it.
type Next = Box<dyn Fn(&mut Present) -> Transaction>;

/// The change of a row of a table at a time.
type Change = (TableId, Row, u64, isize);

fn answer(delta: &Delta) -> BTreeMap<TableId, BTreeSet<(Row, isize)>> {
    let rows = |rows: &[Row], diff: isize| rows.iter().map(|row| (row.clone(), diff)).collect::<Vec<_>>();
    let tables = delta.tables.iter().map(|(table, changes)| {
        (*table, rows(&changes.insert, 1).into_iter().chain(rows(&changes.delete, -1)).collect())
    });
    tables.filter(|(_, changes): &(TableId, BTreeSet<_>)| !changes.is_empty()).collect()
}

fn input_tables(program: &Program) -> Vec<TableId> {
    let inputs = program.schema.iter().filter(|(_, table)| table.role == Role::Input);
    inputs.map(|(id, _)| id).collect()
}

/// The transaction's inserted rows that are not there, and deleted ones that are. The updates of a collection say no
/// more.
fn net(transaction: &Transaction, present: &mut Present) -> Transaction {
    let mut net = Transaction::default();
    for table in transaction.delete.keys().chain(transaction.insert.keys()).copied().collect::<BTreeSet<_>>()
    {
        let present: BTreeSet<Row> = present(table).into_iter().collect();
        let rows = |side: &BTreeMap<TableId, Vec<Row>>| -> BTreeSet<Row> {
            side.get(&table).into_iter().flatten().cloned().collect()
        };
        let (insert, delete) = (rows(&transaction.insert), rows(&transaction.delete));
        net.insert.insert(table, insert.difference(&present).cloned().collect());
        net.delete.insert(
            table,
            delete.difference(&insert).filter(|row| present.contains(*row)).cloned().collect(),
        );
    }
    net
}

/// The net transactions of a history, and the reference's answer to each.
fn history(
    program: &Arc<Program>,
    tables: &Tables,
    transactions: impl Iterator<Item = Next>,
) -> Vec<(Transaction, Answer)> {
    let mut reference = Reference::new(Arc::clone(program), tables.clone());
    let mut history = Vec::new();
    for transaction in transactions {
        let mut rows = |table| reference.contents(table).expect("inputs are always there");
        let transaction = transaction(&mut rows);
        let transaction = net(&transaction, &mut rows);
        let is_empty = transaction.insert.values().chain(transaction.delete.values()).all(Vec::is_empty);
        if is_empty && !history.is_empty() {
            // A time without updates is no transaction.
            history.push((transaction, Ok(BTreeMap::new())));
            continue;
        }
        let answered = reference.commit(&transaction).map(|committed| answer(&committed.delta));
        history.push((transaction, answered));
    }
    history
}

/// A way to run a history in a dataflow.
#[derive(Debug, Clone, Copy)]
struct Way {
    workers: usize,
    /// Whether a transaction begins only once the one before is done. Otherwise all their rows arrive at once.
    waits: bool,
    plan_anew_from: usize,
}

/// Runs a history in a dataflow, each transaction at its own time, its rows spread over the workers.
fn run(program: &Arc<Program>, tables: &Tables, transactions: Vec<Transaction>, way: Way) -> Vec<Answer> {
    let steps = transactions.len();
    let operator =
        Operator::planning_from(Arc::clone(program), tables.clone(), Settings::default(), way.plan_anew_from);
    let rows: Arc<Mutex<Vec<Change>>> = Arc::default();
    let refused: Arc<Mutex<Vec<(u64, CommitError)>>> = Arc::default();
    let (all_rows, all_refused) = (Arc::clone(&rows), Arc::clone(&refused));
    let inputs = input_tables(program);
    let guards = timely::execute(timely::Config::process(way.workers), move |worker| {
        let (peers, me) = (worker.peers(), worker.index());
        let (mut sessions, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let mut sessions: BTreeMap<TableId, InputSession<u64, Row, isize>> = BTreeMap::new();
            let mut collections = Vec::new();
            for table in &inputs {
                let (session, rows) = scope.new_collection();
                sessions.insert(*table, session);
                collections.push((*table, rows));
            }
            let connected = operator.connect(scope, collections).expect("these are the inputs");
            let probe = timely::dataflow::ProbeHandle::new();
            for (table, rows) in connected.tables {
                let all = Arc::clone(&all_rows);
                let keep = move |(row, time, diff): &(Row, u64, isize)| {
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push((table, row.clone(), *time, *diff));
                };
                rows.inspect(keep).probe_with(&probe);
            }
            let all = Arc::clone(&all_refused);
            let keep = move |time: &u64, error: &CommitError| {
                all.lock().unwrap_or_else(PoisonError::into_inner).push((*time, error.clone()));
            };
            connected.refused.inspect_time(keep).probe_with(&probe);
            (sessions, probe)
        });
        for (step, transaction) in transactions.iter().enumerate() {
            for (side, diff) in [(&transaction.insert, 1), (&transaction.delete, -1)] {
                for (table, rows) in side {
                    let session = sessions.get_mut(table).expect("every input has one");
                    for row in rows.iter().skip(me).step_by(peers) {
                        session.update(row.clone(), diff);
                    }
                }
            }
            let next = step as u64 + 1;
            for session in sessions.values_mut() {
                session.advance_to(next);
                session.flush();
            }
            if way.waits {
                worker.step_while(|| probe.less_than(&next));
            }
        }
        drop(sessions);
        worker.step_while(|| !probe.done());
    });
    for result in guards.expect("the workers start").join() {
        result.expect("no worker panics");
    }
    let mut answers: Vec<Answer> = (0..steps).map(|_| Ok(BTreeMap::new())).collect();
    for (table, row, time, diff) in rows.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let changes = answers[time as usize].as_mut().expect("refusals are added later");
        assert!(changes.entry(table).or_default().insert((row, diff)), "a change is there twice");
    }
    for (time, error) in refused.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let before = std::mem::replace(&mut answers[time as usize], Err(error));
        assert_eq!(before, Ok(BTreeMap::new()), "a refused transaction changes nothing");
    }
    answers
}

fn agrees(case: &Case, seed: u64) -> Result<(), String> {
    let Some(program) = case.compile() else { return Ok(()) };
    let tables = if seed.is_multiple_of(3) { Tables::All } else { Tables::Outputs };
    let steps = (0..case.steps()).map(|step| {
        let (case, program) = (case.clone(), Arc::clone(&program));
        let transaction =
            move |present: &mut Present| case.transaction(step, &program, &mut |table| present(table));
        Box::new(transaction) as Next
    });
    let history = history(&program, &tables, steps);
    if history.is_empty() {
        // The facts would have a time, but no transaction.
        return Ok(());
    }
    let (transactions, expected): (Vec<Transaction>, Vec<Answer>) = history.into_iter().unzip();
    for workers in [1, if seed.is_multiple_of(2) { 2 } else { 4 }] {
        let plan_anew_from = if seed.is_multiple_of(5) { 1 } else { usize::MAX };
        let way = Way { workers, waits: seed.is_multiple_of(7), plan_anew_from };
        let answers = run(&program, &tables, transactions.clone(), way);
        if let Some(step) = (0..answers.len()).find(|step| answers[*step] != expected[*step]) {
            return Err(format!(
                "{way:?}, step {step}: expected {:?},\ncame {:?}",
                expected[step], answers[step]
            ));
        }
    }
    Ok(())
}

#[test]
fn an_operator_agrees_with_the_reference() {
    for seed in seeds!("an_operator_agrees_with_the_reference", 120) {
        let case = Case::random(seed);
        if agrees(&case, seed).is_err() {
            let case = case.shrink(&|case| agrees(case, seed).is_err());
            panic!("seed {seed}:\n{case}\n{}", agrees(&case, seed).err().unwrap_or_default());
        }
    }
}

const PEERS: &str = "input table on(port: string, hv: string) key(port); input table hidden(hv: string);
    output table peer(a: string, b: string); output table fact(x: int); fact(1 + 2);
    peer(a, b) :- on(p, a), on(q, b), a != b;";

/// One step from a history given as text.
fn steps(program: &Arc<Program>, texts: &'static [&'static str]) -> impl Iterator<Item = Next> {
    let program = Arc::clone(program);
    texts.iter().map(move |text| {
        let program = Arc::clone(&program);
        Box::new(move |_: &mut Present| transaction(&program, text)) as Next
    })
}

#[test]
fn a_refused_time_changes_nothing_and_later_times_build_on_the_state_before() {
    let program = compile(PEERS);
    let texts = &[
        r#"{"insert": {"on": [["p", "a"], ["q", "b"]]}}"#,
        r#"{"insert": {"on": [["p", "c"], ["r", "d"]]}}"#,
        r#"{"insert": {"on": [["r", "c"]]}}"#,
    ];
    let history = history(&program, &Tables::Outputs, steps(&program, texts));
    let (transactions, expected): (Vec<Transaction>, Vec<Answer>) = history.into_iter().unzip();
    assert!(expected[0].is_ok() && expected[1].is_err() && expected[2].is_ok(), "{expected:?}");
    for workers in [1, 2] {
        for waits in [false, true] {
            let way = Way { workers, waits, plan_anew_from: usize::MAX };
            assert_eq!(run(&program, &Tables::Outputs, transactions.clone(), way), expected, "{way:?}");
        }
    }
}

#[test]
fn facts_are_there_without_rows() {
    let program = compile(PEERS);
    let fact = program.schema.find("fact").expect("declared");
    let three: Answer = Ok([(fact, [(vec![Value::Int(3)], 1)].into())].into());
    for workers in [1, 2] {
        let way = Way { workers, waits: true, plan_anew_from: usize::MAX };
        let answers = run(&program, &Tables::Outputs, vec![Transaction::default(); 2], way);
        assert_eq!(answers, [three.clone(), Ok(BTreeMap::new())], "{workers} workers");
    }
}

#[test]
fn only_input_tables_take_a_collection_and_each_takes_one() {
    let program = compile(PEERS);
    let find = |name| program.schema.find(name).expect("declared");
    let (on, peer) = (find("on"), find("peer"));
    let operator = Operator::new(Arc::clone(&program));
    timely::execute_directly(move |worker| {
        worker.dataflow::<u64, _, _>(|scope| {
            let connect = |tables: &[TableId]| {
                let rows: Vec<_> = tables.iter().map(|table| (*table, scope.new_collection().1)).collect();
                operator.connect(scope, rows).map(drop)
            };
            assert_eq!(connect(&[on]), Ok(()));
            assert_eq!(connect(&[peer]), Err(ConnectError::NotAnInput("peer".to_owned())));
            assert_eq!(connect(&[on, on]), Err(ConnectError::Twice("on".to_owned())));
            assert_eq!(connect(&[TableId(99)]), Err(ConnectError::NotAnInput("number 99".to_owned())));
        });
    });
}

/// Differential's own operators before and after a program: the rows of a table go into an arrangement, which another
/// dataflow imports.
#[test]
fn a_table_can_be_arranged_and_imported() {
    let program = compile(PEERS);
    let find = |name| program.schema.find(name).expect("declared");
    let (on, peer) = (find("on"), find("peer"));
    for workers in [1, 2] {
        let operator = Operator::new(Arc::clone(&program));
        let counted: Arc<Mutex<BTreeMap<(String, isize), isize>>> = Arc::default();
        let all = Arc::clone(&counted);
        timely::execute(timely::Config::process(workers), move |worker| {
            let (mut ports, mut trace) = worker.dataflow::<u64, _, _>(|scope| {
                // A port is on a host for each of its claims: a set only after `distinct`.
                let (session, claims) = scope.new_collection::<(String, String), isize>();
                let value = |text: String| Value::String(text.into());
                let rows = claims.distinct().map(move |(port, hv)| vec![value(port), value(hv)]);
                let mut connected = operator.connect(scope, [(on, rows)]).expect("it is an input");
                let peers = connected.tables.remove(&peer).expect("outputs are observed");
                let pairs = peers.map(|row| (row[0].to_string(), row[1].to_string()));
                (session, pairs.arrange_by_key().trace)
            });
            let all = Arc::clone(&all);
            let probe = worker.dataflow::<u64, _, _>(|scope| {
                let peers = trace.import(scope).as_collection(|host, _| host.clone());
                let keep = move |((host, peers), _, diff): &((String, isize), u64, isize)| {
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    *all.entry((host.clone(), *peers)).or_default() += diff;
                };
                peers.count().inspect(keep).probe().0
            });
            let name = |text: &str| text.to_owned();
            ports.insert((name("p"), name("a")));
            if worker.index() == 0 {
                ports.insert((name("q"), name("b")));
                ports.insert((name("r"), name("c")));
            }
            ports.advance_to(1);
            ports.flush();
            worker.step_while(|| probe.less_than(&1));
            if worker.index() == 0 {
                ports.remove((name("r"), name("c")));
            }
            drop(ports);
            drop(trace);
            worker.step_while(|| !probe.done());
        })
        .expect("the workers start")
        .join()
        .into_iter()
        .for_each(|result| result.expect("no worker panics"));
        let counted = counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left: Vec<(String, isize)> =
            counted.into_iter().filter(|(_, count)| *count != 0).map(|(row, _)| row).collect();
        let text = |host: &str| Value::String(host.into()).to_string();
        assert_eq!(left, [(text("a"), 1), (text("b"), 1)], "{workers} workers");
    }
}

#[allow(dead_code, reason = "its main function is that of a program")]
#[path = "../../../../examples/embed/main.rs"]
mod embed;

#[test]
fn the_example_has_operators_before_and_after_the_rules() {
    let lines = embed::run().expect("nothing is wrong with it");
    let all_peers = |time: u64| ["hv1", "hv2", "hv3"].map(|host| format!("{time}: {host} has 2 peers now"));
    let first = &lines[..3];
    assert_eq!(first, all_peers(0));
    let moved = ["hv1 has 2 peers no more", "hv2 has 1 peers now", "hv2 has 2 peers no more"];
    let moved = moved.into_iter().chain(["hv3 has 1 peers now", "hv3 has 2 peers no more"]);
    assert_eq!(lines[3..8], moved.map(|line| format!("1: {line}")).collect::<Vec<_>>());
    assert!(lines[8..].iter().all(|line| line.starts_with("2: ")) && lines.len() == 13, "{lines:#?}");
}
