//! Merged transactions: a batch has the same refusals as its transactions one by one, and the sum of their changes.
//!
//! The crate `test-random` determines the seeds.

use std::sync::Arc;

use crate::support::generate::Case;
use crate::support::{Random, Runs, compile, transaction};
use nlog_data::{Evaluator, Tables, Transaction};
use nlog_dataflow::{Dataflow, Kind, Options};
use nlog_reference::Reference;

/// Counts the batches with each property that makes a difference.
#[derive(Debug, Default)]
struct Tally {
    batches: usize,
    refused: usize,
    /// Batches of several transactions, all of which were accepted.
    accepted: usize,
}

fn difference(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let case = Case::random(seed);
    let Some(program) = case.compile() else { return Ok(()) };
    let tables = if seed.is_multiple_of(3) { Tables::Outputs } else { Tables::All };
    let attribute = seed.is_multiple_of(4);
    let mut author = Runs::alone(&program, &Tables::All, false);
    let history: Vec<Transaction> = (0..case.steps())
        .map(|step| {
            let transaction = case.transaction(step, &program, &mut |table| author.inputs(table));
            author.commit(&transaction);
            transaction
        })
        .collect();
    let single = Reference::new(Arc::clone(&program), tables.clone());
    let mut single = if attribute { single.with_attribution() } else { single };
    let workers = if seed.is_multiple_of(10) { 2 } else { 1 };
    let options =
        Options { engine: Kind::Fused, observe: tables.clone(), attribute, workers, ..Options::default() };
    let mut merged = Dataflow::new(Arc::clone(&program), options).map_err(|error| error.to_string())?;
    let mut random = Random::new(seed);
    let mut rest = &history[..];
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(1 + random.below(rest.len().min(8) as u64) as usize);
        rest = after;
        let (wanted, found) = (single.commit_merged(batch), merged.commit_merged(batch));
        if wanted != found {
            return Err(format!("{batch:?}\none by one: {wanted:#?}\ntogether: {found:#?}"));
        }
        let refused = wanted.map_err(|error| error.to_string())?.refused.len();
        tally.batches += 1;
        tally.refused += usize::from(refused > 0);
        tally.accepted += usize::from(refused == 0 && batch.len() > 1);
    }
    for (id, table) in program.schema.iter().filter(|(id, _)| tables.include(&program.schema, *id)) {
        if single.contents(id) != merged.contents(id) {
            return Err(format!("the rows of {} differ", table.name));
        }
    }
    Ok(())
}

#[test]
fn together_and_one_by_one_agree() {
    let mut tally = Tally::default();
    let seeds = test_random::seeds!("together_and_one_by_one_agree", 400);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        if let Err(why) = difference(seed, &mut tally) {
            panic!("seed {seed}:\n{}\n{why}", Case::random(seed).text());
        }
    }
    println!("{tally:?}");
    if is_whole {
        assert!(tally.refused * 10 > tally.batches && tally.accepted * 10 > tally.batches, "{tally:?}");
    }
}

/// Returns the number of changed rows with which all pipelines started, and the places of the refused transactions.
fn run(program: &str, before: &str, batch: &[&str]) -> (u64, Vec<usize>) {
    let program = compile(program);
    let mut engine =
        nlog_dataflow::fused::Engine::new(Arc::clone(&program), &Options::default()).expect("it starts");
    engine.commit(&transaction(&program, before)).expect("it is accepted");
    let rows = |engine: &mut nlog_dataflow::fused::Engine| -> u64 {
        let rules = engine.profile().expect("it works").rules;
        rules.iter().flat_map(|rule| &rule.pipelines).map(|pipeline| pipeline.rows).sum()
    };
    let old = rows(&mut engine);
    let batch: Vec<Transaction> = batch.iter().map(|text| transaction(&program, text)).collect();
    let committed = engine.commit_merged(&batch).expect("the engine works");
    (rows(&mut engine) - old, committed.refused.into_iter().map(|(place, _)| place).collect())
}

const SAFE: &str = "input table a(x: int); output table b(x: int); b(x) :- a(x);";
const CHECKED: &str =
    "input table a(x: int, y: int); output table b(x: int, y: int) key(x); b(x, y) :- a(x, y);";

#[test]
fn what_comes_and_goes_in_a_batch_costs_nothing_if_nothing_can_be_refused() {
    let batch = [r#"{"insert": {"a": [[1]]}}"#, r#"{"insert": {"a": [[2]]}}"#, r#"{"delete": {"a": [[1]]}}"#];
    assert_eq!(run(SAFE, "{}", &batch), (1, vec![]));
    // Intermediate states could be refused here, so the deletion needs a pass of its own.
    let batch = [
        r#"{"insert": {"a": [[1, 1]]}}"#,
        r#"{"insert": {"a": [[2, 2]]}}"#,
        r#"{"delete": {"a": [[1, 1]]}}"#,
    ];
    assert_eq!(run(CHECKED, "{}", &batch), (3, vec![]));
}

#[test]
fn what_would_be_refused_alone_is_refused_although_all_together_would_not() {
    let before = r#"{"insert": {"a": [[1, 1]]}}"#;
    let batch = [r#"{"insert": {"a": [[1, 2]]}}"#, r#"{"delete": {"a": [[1, 1]]}}"#];
    assert_eq!(run(CHECKED, before, &batch).1, [0]);
    let batch = [batch[1], batch[0]];
    assert_eq!(run(CHECKED, before, &batch).1, [0; 0]);
    // A failure in the head.
    let divided = "input table a(x: int); output table b(x: int); b(1 / x) :- a(x);";
    let batch = [r#"{"insert": {"a": [[2], [0]]}}"#, r#"{"delete": {"a": [[0]]}}"#];
    assert_eq!(run(divided, "{}", &batch).1, [0]);
    // A sum that overflows, and fits again after the next transaction.
    let sums = "input table a(x: int); output table b(n: int); b(sum(x, x)) :- a(x);";
    let batch = [r#"{"insert": {"a": [[9223372036854775807], [1]]}}"#, r#"{"insert": {"a": [[-5]]}}"#];
    assert_eq!(run(sums, "{}", &batch).1, [0]);
}
