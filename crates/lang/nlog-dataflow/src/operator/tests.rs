//! Failures inside an operator, and its memory.

use std::sync::{Arc, Mutex, PoisonError};

use differential_dataflow::input::Input;
use nlog_data::{CommitError, Row, Value};
use timely::dataflow::operators::{Inspect, Probe};

use super::Operator;
use crate::fused::core::NEW_SYMBOLS;
use crate::fused::fault::{Fault, fail_next};

const TEXT: &str = "input table a(x: string, y: int); output table b(x: string, n: int);
    b(x, count(y)) :- a(x, y), a(_, y);";

const ROUNDS: u64 = 20;

/// Rows with texts that no other round has.
fn rows(round: u64) -> impl Iterator<Item = Row> {
    (0..30).map(move |at| vec![Value::String(format!("{round} {at}").into()), Value::Int(at)])
}

/// What a run reports: its refusals with their times, the changes of its output, and the most symbols after a round.
#[derive(Debug, Default)]
struct Outcome {
    refused: Vec<(u64, CommitError)>,
    changes: usize,
    most_symbols: usize,
}

/// Replaces all rows in each round, at its time. Before round 3 the next failure is set.
fn run(workers: usize, fault: Option<Fault>) -> Outcome {
    let sources = nlog::Sources::from_texts([("test.nlog", TEXT)]);
    let program = nlog::compile(&sources).program.expect("it compiles");
    let find = |name| program.schema.find(name).expect("the program declares it");
    let (a, b) = (find("a"), find("b"));
    let operator = Operator::new(program);
    let outcome: Arc<Mutex<Outcome>> = Arc::default();
    let all = Arc::clone(&outcome);
    let guards = timely::execute(timely::Config::process(workers), move |worker| {
        let outcome = || all.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut session, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (session, collection) = scope.new_collection();
            let mut connected = operator.connect(scope, [(a, collection)]).expect("it is an input");
            let (rows, refused) = (Arc::clone(&all), Arc::clone(&all));
            let probe = timely::dataflow::ProbeHandle::new();
            let table = connected.tables.remove(&b).expect("outputs are observed");
            let count = move |_: &(Row, u64, isize)| {
                rows.lock().unwrap_or_else(PoisonError::into_inner).changes += 1;
            };
            table.inspect(count).probe_with(&probe);
            let note = move |time: &u64, error: &CommitError| {
                let mut outcome = refused.lock().unwrap_or_else(PoisonError::into_inner);
                outcome.refused.push((*time, error.clone()));
            };
            connected.refused.inspect_time(note).probe_with(&probe);
            (session, probe)
        });
        for round in 0..ROUNDS {
            if worker.index() == 0 {
                if round == 3
                    && let Some(fault) = fault
                {
                    fail_next(fault);
                }
                rows(round).for_each(|row| session.insert(row));
                if round > 0 {
                    rows(round - 1).for_each(|row| session.remove(row));
                }
            }
            session.advance_to(round + 1);
            session.flush();
            worker.step_while(|| probe.less_than(&(round + 1)));
            if worker.index() == 0 {
                let symbols = operator.symbols.len();
                let mut outcome = outcome();
                outcome.most_symbols = outcome.most_symbols.max(symbols);
            }
        }
    });
    guards
        .expect("the workers start")
        .join()
        .into_iter()
        .for_each(|result| result.expect("no worker panics"));
    std::mem::take(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn workers_give_symbols_back_that_nothing_holds() {
    let Outcome { refused, changes, most_symbols } = run(3, None);
    assert_eq!(refused, []);
    assert_eq!(changes as u64, 30 * (2 * ROUNDS - 1));
    // The rows of two rounds, and as many again before a collection is due.
    assert!(most_symbols <= 2 * 60 + 2 * NEW_SYMBOLS, "{most_symbols} symbols");
}

#[test]
fn a_worker_that_panics_ends_the_work_of_all_and_not_the_dataflow() {
    for fault in [Fault::Deriving, Fault::Ending, Fault::WorkerEnding, Fault::Output, Fault::Symbols] {
        let Outcome { refused, .. } = run(2, Some(fault));
        let injected = format!("injected at {fault:?}");
        let says = |error: &CommitError| matches!(error, CommitError::Engine(why) if why.contains(&injected));
        // Symbols are collected in some round, after the transaction of its time was reported.
        let first = refused.first().map_or(ROUNDS, |(time, _)| *time);
        assert!((3..10).contains(&first), "{fault:?}: {refused:?}");
        let times: Vec<u64> = refused.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, (first..ROUNDS).collect::<Vec<u64>>(), "{fault:?}");
        assert!(refused.iter().all(|(_, error)| says(error)), "{fault:?}: {refused:?}");
        assert!(refused.iter().skip(1).all(|(_, error)| error.to_string().contains("start another one")));
    }
}
