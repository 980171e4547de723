//! Deltas whose rows are in no order: once sorted, they are those of an engine that sorts them.
//!
//! The crate `test-random` determines the seeds.

use std::sync::Arc;

use crate::support::Runs;
use crate::support::generate::Case;
use crate::support::setup::start;
use nlog_data::{CommitError, Committed, Evaluator, Tables};
use nlog_dataflow::Options;

#[test]
fn unsorted_deltas_have_the_same_rows_and_rules() {
    let seeds = test_random::seeds!("unsorted_deltas_have_the_same_rows_and_rules", 100);
    let (is_whole, mut unsorted) = (seeds.is_whole(), 0);
    for seed in seeds {
        let case = Case::random(seed);
        let Some(program) = case.compile() else { continue };
        let mut author = Runs::alone(&program, &Tables::All, false);
        let [mut plain, mut sorting] = [false, true].map(|ascending| {
            let attribute = seed.is_multiple_of(2);
            let workers = if seed.is_multiple_of(10) { 2 } else { 1 };
            let options =
                Options { ascending, attribute, workers, observe: Tables::All, ..Options::default() };
            start(Arc::clone(&program), options)
        });
        for step in 0..case.steps() {
            let transaction = case.transaction(step, &program, &mut |table| author.inputs(table));
            author.commit(&transaction);
            let (found, wanted) = (plain.commit(&transaction), sorting.commit(&transaction));
            unsorted += usize::from(found != wanted);
            let sorted: Result<Committed, CommitError> = found.map(|mut committed| {
                committed.delta.sort();
                committed
            });
            assert_eq!(sorted, wanted, "seed {seed}, step {step}:\n{}", case.text());
        }
    }
    println!("{unsorted} deltas in another order");
    assert!(!is_whole || unsorted > 100, "{unsorted}");
}
