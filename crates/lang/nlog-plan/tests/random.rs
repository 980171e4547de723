//! Random programs: every pipeline of a rule yields the same rows and failures, and all rules together yield the
//! result of the reference evaluator.
//!
//! A case that fails is shrunk first. The crate `test-random` says which seeds run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::programs::generate::Case;
use crate::support::interpreter::evaluate;
use nlog::Program;
use nlog_data::{CommitError, DerivedErrors, Evaluator, Inputs, Role, TableId, Tables};
use nlog_plan::query::Plan;
use nlog_plan::{Pinned, Sample, Settings, Statistics, TableStatistics};
use nlog_reference::Reference;
use test_random::{Random, seeds};

#[derive(Debug, Default)]
struct Tally {
    compiled: u64,
    accepted: u64,
    refused: u64,
    followed: u64,
    stages: usize,
    inlined: usize,
    through: usize,
}

/// A plan with or without statistics, stages, inlining and a pinned plan.
fn planned(program: &Arc<Program>, wanted: &BTreeSet<TableId>, seed: u64) -> Result<Plan, String> {
    let mut random = Random::new(seed);
    let mut settings = Settings {
        without_stages: random.chance(20),
        without_inlining: random.chance(20),
        ..Settings::default()
    };
    if random.chance(60) {
        let tables = program.schema.iter().filter(|_| random.chance(80));
        let names: Vec<(String, usize)> =
            tables.map(|(_, table)| (table.name.clone(), table.columns.len())).collect();
        let mut statistics = Statistics::default();
        for (name, columns) in names {
            let rows = random.below(10_000);
            let distinct = (0..columns).map(|_| random.below(rows + 1)).collect();
            let samples = (0..columns).map(|_| nonsense(&mut random)).collect();
            let known = TableStatistics { rows, distinct, samples, ..TableStatistics::default() };
            statistics.tables.insert(name, known);
        }
        settings.statistics = Some(Arc::new(statistics));
    }
    let plan = Plan::new(Arc::clone(program), wanted, &settings);
    if random.chance(60) {
        return Ok(plan);
    }
    let pinned = serde_json::to_string(&plan.pinned()).map_err(|error| error.to_string())?;
    let pinned: Pinned = serde_json::from_str(&pinned).map_err(|error| error.to_string())?;
    let settings = Settings { pinned: Some(pinned.clone()), ..Settings::default() };
    let again = Plan::new(Arc::clone(program), wanted, &settings);
    if again.pinned() != pinned || !again.warnings.is_empty() {
        return Err(format!("pinned {pinned:?}\nbecame {:?}\n{:?}", again.pinned(), again.warnings));
    }
    Ok(again)
}

/// A sample of no column.
fn nonsense(random: &mut Random) -> Sample {
    let limit = *random.pick(&[0, 1 << 31, u32::MAX]);
    let values = (0..random.below(4)).map(|_| (random.below(1 << 32) as u32, random.below(5_000)));
    Sample { limit, values: values.collect() }
}

fn difference(case: &Case, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let Some(program) = case.compile() else { return Ok(()) };
    tally.compiled += 1;
    let is_wanted =
        |role: Role| if seed.is_multiple_of(3) { role == Role::Output } else { role != Role::Input };
    let wanted: BTreeSet<TableId> =
        program.schema.iter().filter(|(_, table)| is_wanted(table.role)).map(|(id, _)| id).collect();
    let plan = planned(&program, &wanted, seed)?;
    tally.stages += plan.relations.iter().filter(|relation| relation.table.is_none()).count();
    tally.inlined += plan.inlined.len();
    tally.through += plan.rules.iter().map(|rule| rule.through.len()).sum::<usize>();
    tally.followed += plan.rules.iter().map(|rule| rule.failures.len() as u64).sum::<u64>();
    let mut reference = Reference::new(Arc::clone(&program), Tables::All);
    let mut inputs = Inputs::new(program.schema.clone());
    for step in 0..case.steps() {
        let of = |table| reference.rows(table).cloned().collect();
        let transaction = case.transaction(step, &program, &mut { of });
        let mut tried = inputs.clone();
        let applied = tried.apply(&transaction);
        let said = reference.commit(&transaction);
        if applied.is_err() {
            continue;
        }
        let contents =
            evaluate(&plan, &rows(&program, &tried)).map_err(|why| format!("step {step}: {why}"))?;
        match (said, DerivedErrors::of(contents.errors.iter().cloned())) {
            (Ok(_), None) => {
                tally.accepted += 1;
                inputs = tried;
                for table in &wanted {
                    let known: BTreeSet<_> = reference.rows(*table).cloned().collect();
                    let planned = &contents.relations[table.0 as usize];
                    if known != *planned {
                        let name = &program.schema.table(*table).name;
                        return Err(format!("step {step}: {name} is {known:?}, planned {planned:?}"));
                    }
                }
            }
            (Err(CommitError::Refused(known)), Some(planned)) => {
                tally.refused += 1;
                let planned = planned.to_transaction_error(&program.schema);
                if known != planned {
                    return Err(format!("step {step}: the error is {known:?}, planned {planned:?}"));
                }
            }
            (known, planned) => return Err(format!("step {step}: {known:?}, but planned {planned:?}")),
        }
    }
    Ok(())
}

fn rows(program: &Program, inputs: &Inputs) -> BTreeMap<TableId, Vec<nlog_data::Row>> {
    let tables = program.schema.iter().filter(|(_, table)| table.role == Role::Input);
    tables.map(|(id, _)| (id, inputs.contents(id))).collect()
}

#[test]
fn plans_mean_what_rules_mean() {
    let mut tally = Tally::default();
    let seeds = seeds!("plans_mean_what_rules_mean", 900);
    let (cases, is_whole) = (seeds.len(), seeds.is_whole());
    for seed in seeds {
        let case = Case::random(seed);
        if difference(&case, seed, &mut tally).is_err() {
            let what = |case: &Case| difference(case, seed, &mut Tally::default());
            let case = case.shrink(&|case| what(case).is_err());
            let why = what(&case).err().unwrap_or_default();
            let plan = case.compile().map(|program| Plan::for_outputs(program).to_string());
            panic!("seed {seed}:\n{case}\n{why}\n{}", plan.unwrap_or_default());
        }
    }
    println!("{tally:?}");
    if is_whole {
        assert!(tally.compiled * 10 >= cases * 8, "most programs compile");
        assert!(tally.accepted > cases && tally.refused > cases / 4, "both are tried: {tally:?}");
        assert!(
            tally.stages > 20 && tally.inlined > 0 && tally.through > 0 && tally.followed > 20,
            "{tally:?}"
        );
    }
}
