//! Programs of unusual size: the time grows linearly with their length, not quadratically.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::compile;
use nlog_data::{Evaluator as _, Transaction};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::query::Plan;

/// The CPU time of this thread, which does not include delays by other work on the machine.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a clock does not go below zero")
}

/// The CPU time that `work` takes.
fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = processor_time();
    let done = work();
    (processor_time().saturating_sub(start), done)
}

/// A table with this many facts, and a rule that reads it.
fn facts(count: usize) -> String {
    let mut text = String::from(
        "table place(id: int, name: string, at: ip); output table named(name: string, id: int);
         named(name, id) :- place(id, name, _);\n",
    );
    for at in 0..count {
        let _ = writeln!(text, "place({at}, \"p{at}\", \"10.{}.{}.{}\");", at >> 16, at >> 8 & 255, at & 255);
    }
    text
}

#[test]
fn facts_take_linear_time_from_the_text_to_the_first_delta() {
    let times = |count: usize| {
        let text = facts(count);
        let (checked, program) = time(|| compile(&text));
        let (planned, plan) = time(|| Plan::for_outputs(Arc::clone(&program)));
        assert_eq!(plan.rules.len(), count + 1);
        let (run, delta) = time(|| {
            let mut engine = Dataflow::new(program, Options::default()).expect("it starts");
            engine.commit(&Transaction::default()).expect("nothing is wrong with it").delta
        });
        let rows: usize = delta.tables.values().map(|table| table.insert.len()).sum();
        assert_eq!(rows, count);
        [("check", checked), ("plan", planned), ("run", run)]
    };
    let (short, long) = (times(1_000), times(20_000));
    println!("{short:?}, {long:?}");
    // With twenty times the facts, a quadratic algorithm would take 400 times as long.
    for ((what, short), (_, long)) in short.into_iter().zip(long) {
        let short = short.max(Duration::from_millis(1));
        assert!(long < short * 100, "{what}: {short:?} and {long:?}");
    }
}

#[test]
fn the_longest_rule_is_planned() {
    let mut text = String::from(
        "input table next(a: int, b: int); output table far(a: int, b: int);\nfar(v0, v256) :- ",
    );
    let atoms: Vec<String> = (0..256).map(|at| format!("next(v{at}, v{})", at + 1)).collect();
    let _ = writeln!(text, "{};", atoms.join(", "));
    let plan = Plan::for_outputs(compile(&text));
    assert_eq!(plan.rules[0].body.pipelines.len(), 256);
}
