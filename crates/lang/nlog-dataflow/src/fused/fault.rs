//! Faults: tests inject failures to see how an engine behaves if its own code fails.

/// A place where a test can make the engine panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests look at it"))]
pub(crate) enum Fault {
    /// While a new plan replaces the current one.
    Planning,
    /// While rows are derived.
    Deriving,
    /// While worker 0 publishes or drops staged changes.
    Ending,
    /// While another worker publishes or drops staged changes.
    WorkerEnding,
    /// While the changes of an accepted transaction are converted to values.
    Output,
    /// After symbols were collected.
    Symbols,
}

/// Panics if a test has requested a failure here.
#[cfg(not(test))]
#[inline]
pub(crate) fn inject(_: Fault) {}

#[cfg(test)]
pub(crate) use tests::{fail_next, inject};

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use nlog_data::{CommitError, Evaluator, TableId, Transaction, Value};

    use super::Fault;
    use crate::{Dataflow, Options};

    /// The place of the next failure. Each test runs in a process of its own, so the failure affects all its threads.
    static NEXT: Mutex<Option<Fault>> = Mutex::new(None);

    fn next() -> std::sync::MutexGuard<'static, Option<Fault>> {
        NEXT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn inject(here: Fault) {
        let is_here = next().take_if(|next| *next == here).is_some();
        assert!(!is_here, "injected at {here:?}");
    }

    /// Requests a failure at this place.
    pub(crate) fn fail_next(here: Fault) {
        *next() = Some(here);
    }

    const TEXT: &str = "input table a(x: string, y: int); output table b(x: string, n: int);
        output table c(y: int); b(x, count(y)) :- a(x, y), a(_, y); c(y + 1) :- a(_, y);";

    fn program(text: &str) -> Arc<nlog::Program> {
        let sources = nlog::Sources::from_texts([("test.nlog", text)]);
        nlog::compile(&sources).program.expect("it compiles")
    }

    fn engine(options: Options) -> (Dataflow, TableId) {
        let program = program(TEXT);
        let a = program.schema.find("a").expect("the program declares it");
        (Dataflow::new(program, options).expect("it starts"), a)
    }

    /// Replaces the thirty rows of the last round by thirty rows with new texts, so that symbols are collected.
    fn rows(a: TableId, round: i64) -> Transaction {
        let of_round = |round: i64| -> Vec<Vec<Value>> {
            (0..30).map(|at| vec![Value::String(format!("{round} {at}").into()), Value::Int(at)]).collect()
        };
        let mut transaction = Transaction::default();
        transaction.insert.insert(a, of_round(round));
        transaction.delete.insert(a, of_round(round - 1));
        transaction
    }

    fn broken(result: Result<impl std::fmt::Debug, CommitError>, fault: Fault, what: &str) -> String {
        match result {
            Err(CommitError::Engine(why)) => {
                assert!(why.contains(&format!("injected at {fault:?}")), "{what}: {why}");
                why
            }
            other => panic!("{what}: {other:?}"),
        }
    }

    /// Runs transactions until one meets the fault. That transaction reports the fault, and so does every later call.
    fn breaks(fault: Fault, options: Options, columns: bool) {
        let what = format!("{fault:?}, {} workers", options.workers);
        let (mut engine, a) = engine(options.clone());
        let commit = |engine: &mut Dataflow, round: i64| {
            let rows = rows(a, round);
            if columns {
                let columns =
                    nlog_data::ColumnTransaction::from_rows(&rows).expect("rows of a table are alike");
                engine.commit_columns(&columns).map(drop)
            } else {
                engine.commit(&rows).map(drop)
            }
        };
        // Plans are made for the first transaction only.
        let first = if fault == Fault::Planning { 0 } else { 3 };
        for round in 0..first {
            assert_eq!(commit(&mut engine, round), Ok(()), "{what}");
        }
        fail_next(fault);
        // Symbols are not collected after every transaction, and failures of other workers appear one transaction
        // later.
        let met = (first..first + 10).map(|round| commit(&mut engine, round)).find(Result::is_err);
        let why = broken(met.unwrap_or(Ok(())), fault, &what);
        for result in [commit(&mut engine, 20), engine.contents(a).map(drop)] {
            let later = broken(result, fault, &what);
            assert!(later.starts_with(&why) && later.len() > why.len(), "{what}: {later}");
        }
        assert_eq!(*next(), None, "{what}: it was met once");
    }

    #[test]
    fn an_engine_that_cannot_go_on_says_why_once_and_refuses_all() {
        let all = [Fault::Planning, Fault::Deriving, Fault::Ending, Fault::Output, Fault::Symbols];
        for fault in all {
            for workers in [1, 3] {
                for columns in [false, true] {
                    let plan_anew_from = if fault == Fault::Planning { 1 } else { usize::MAX };
                    breaks(fault, Options { workers, plan_anew_from, ..Options::default() }, columns);
                }
            }
        }
        breaks(Fault::WorkerEnding, Options { workers: 3, ..Options::default() }, false);
    }

    #[test]
    fn a_change_of_rules_that_fails_breaks_the_engine() {
        let other = program(&TEXT.replace("y + 1", "y + 2"));
        let wrong = program(&TEXT.replace("y + 1", "y / 0 + y"));
        for (fault, program, accept) in [
            (Fault::Deriving, &other, false),
            (Fault::Ending, &other, false),
            (Fault::Ending, &other, true),
            // The transaction is refused, but undoing it fails.
            (Fault::Ending, &wrong, false),
        ] {
            let (mut engine, a) = engine(Options::default());
            engine.commit(&rows(a, 0)).expect("nothing is wrong with it");
            fail_next(fault);
            match engine.propose(Arc::clone(program), &Options::default()) {
                Ok(proposal) if accept => proposal.accept(),
                Ok(proposal) => drop(proposal),
                Err(error) => assert!(error.to_string().contains("injected"), "{error}"),
            }
            let what = format!("{fault:?}, accept: {accept}");
            broken(engine.commit(&rows(a, 1)), fault, &what);
            broken(engine.contents(a), fault, &what);
        }
    }
}
