//! Random programs and histories: the dataflow says what the reference says, after every transaction, with any number
//! of workers, errors included.
//!
//! `NLOG_CASES=10000` runs so many cases, `NLOG_SEED=7` the one of that seed. A case that fails is cut down first.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{Evaluator, Role, Row, TableId, Tables, Transaction};
use nlog_dataflow::{Dataflow, Options};
use support::generate::Case;
use support::{Random, Runs, seeds};

/// What became of cases and their transactions.
#[derive(Debug, Default)]
struct Tally {
    compiled: u64,
    accepted: usize,
    changed: usize,
    refused: usize,
    features: BTreeMap<&'static str, usize>,
    mistakes: Vec<String>,
}

/// Runs a case everywhere; what was different, if anything was.
fn difference(case: &Case, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let Some(program) = case.compile() else {
        tally.mistakes.extend(case.mistakes());
        return Ok(());
    };
    tally.compiled += 1;
    for feature in case.features() {
        *tally.features.entry(feature).or_default() += 1;
    }
    let tables = if seed.is_multiple_of(3) { Tables::Outputs } else { Tables::All };
    let attribute = seed.is_multiple_of(2);
    let mut runs = Runs::with(&program, &tables, &[1, 2, 4], attribute);
    let mut random = Random::new(seed);
    let other = case.compile_in_another_order(&mut random).ok_or("in another order it does not compile")?;
    runs.add("in another order", other, attribute);
    for step in 0..case.steps() {
        let transaction = case.transaction(step, &program, &mut |table| runs.inputs(table));
        let line = runs.commit(&transaction);
        if !runs.agreed() {
            return Err(format!("step {step}:\n{}", runs.difference()));
        }
        if runs.refused() {
            tally.refused += 1;
        } else {
            tally.accepted += 1;
            tally.changed += usize::from(!line.ends_with(r#""insert":{},"delete":{}}"#));
        }
    }
    if runs.contents_are_equal() { Ok(()) } else { Err("the contents differ".to_owned()) }
}

fn fail(case: Case, seed: u64, what: &dyn Fn(&Case) -> Result<(), String>) -> ! {
    let case = case.shrink(&|case| what(case).is_err());
    let why = what(&case).err().unwrap_or_default();
    let plan =
        case.compile().map(|program| nlog_plan::Plan::for_outputs(program).to_string()).unwrap_or_default();
    panic!("seed {seed}:\n{case}\n{why}\n{plan}");
}

#[test]
fn dataflow_and_reference_agree() {
    let mut tally = Tally::default();
    let seeds = seeds(250);
    let cases = seeds.end - seeds.start;
    for seed in seeds {
        let case = Case::random(seed);
        if difference(&case, seed, &mut tally).is_err() {
            fail(case, seed, &|case| difference(case, seed, &mut Tally::default()));
        }
    }
    let Tally { compiled, accepted, changed, refused, ref features, ref mistakes } = tally;
    for mistake in mistakes.iter().take(20) {
        println!("{mistake}");
    }
    println!("{compiled} of {cases} programs compile; of them have {features:?}");
    println!("{accepted} transactions accepted ({changed} changed what is reported), {refused} refused");
    if cases >= 100 {
        assert!(compiled * 10 >= cases * 8, "the generator writes programs that mostly compile");
        assert_eq!(features.len(), FEATURES, "every part of the language is tried: {features:?}");
        assert!(tally.changed * 10 > tally.refused, "histories are not mostly errors: {tally:?}");
        assert!(tally.refused * 20 > tally.accepted, "errors are tried as well: {tally:?}");
    }
}

/// How many parts of the language [`Case::features`] knows.
const FEATURES: usize = 10;

/// All rows of all derived tables.
fn derived(engine: &mut Dataflow, program: &Program) -> BTreeMap<TableId, Vec<Row>> {
    let tables = program.schema.iter().filter(|(_, table)| table.role != Role::Input);
    tables.map(|(id, _)| (id, engine.contents(id).expect("all tables are asked for"))).collect()
}

fn start(program: &Arc<Program>, workers: usize) -> Dataflow {
    Dataflow::new(Arc::clone(program), Options { workers, observe: Tables::All, attribute: false })
        .expect("it starts")
}

/// What is in the tables depends on what is in the inputs, not on how it came there, and goes with it.
fn history_leaves_no_trace(case: &Case, seed: u64) -> Result<(), String> {
    let Some(program) = case.compile() else { return Ok(()) };
    let mut engine = start(&program, 1 + seed as usize % 2);
    if engine.commit(&Transaction::default()).is_err() {
        // Its facts are in error.
        return Ok(());
    }
    let empty = derived(&mut engine, &program);
    for step in 0..case.steps() {
        let transaction = case.transaction(step, &program, &mut |table| {
            engine.contents(table).expect("inputs are always there")
        });
        let before = derived(&mut engine, &program);
        if engine.commit(&transaction).is_err() && before != derived(&mut engine, &program) {
            return Err(format!("step {step} was refused and left a trace"));
        }
    }
    let full = derived(&mut engine, &program);
    let inputs: Vec<(TableId, Vec<Row>)> = (program.schema.iter())
        .filter(|(_, table)| table.role == Role::Input)
        .map(|(id, _)| (id, engine.contents(id).expect("inputs are always there")))
        .collect();

    let mut at_once = Transaction::default();
    at_once.insert.extend(inputs.iter().cloned());
    let mut again = start(&program, 1);
    again.commit(&at_once).map_err(|error| format!("the same rows at once: {error}"))?;
    if derived(&mut again, &program) != full {
        return Err("the same rows at once derive something else".to_owned());
    }

    let mut random = Random::new(seed);
    let mut rows: Vec<(TableId, Row)> =
        inputs.iter().flat_map(|(id, rows)| rows.iter().map(|row| (*id, row.clone()))).collect();
    for at in (1..rows.len()).rev() {
        rows.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut one_by_one = start(&program, 2);
    // Aggregates can fail on the way to a state in which none does.
    let accepted = rows.iter().all(|(id, row)| {
        let mut transaction = Transaction::default();
        transaction.insert.insert(*id, vec![row.clone()]);
        one_by_one.commit(&transaction).is_ok()
    });
    if accepted && !rows.is_empty() && derived(&mut one_by_one, &program) != full {
        return Err("the same rows one by one derive something else".to_owned());
    }

    let mut nothing = Transaction::default();
    nothing.delete.extend(inputs);
    engine.commit(&nothing).map_err(|error| format!("taking all rows away: {error}"))?;
    if derived(&mut engine, &program) != empty {
        return Err("rows are left although their inputs are gone".to_owned());
    }
    Ok(())
}

#[test]
fn contents_depend_on_inputs_alone() {
    for seed in seeds(120).map(|seed| seed + 1_000_000) {
        let case = Case::random(seed);
        if history_leaves_no_trace(&case, seed).is_err() {
            fail(case, seed, &|case| history_leaves_no_trace(case, seed));
        }
    }
}
