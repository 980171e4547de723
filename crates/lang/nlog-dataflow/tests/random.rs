//! Random programs and histories: after every transaction, every engine agrees with the reference, errors included.
//! This holds for any number of workers and for every kind of plan.
//!
//! A failing case is shrunk before it is reported. The crate `test-random` determines the seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::generate::{Case, FEATURES};
use crate::support::setup::{Kind, Setup, stopped};
use crate::support::{ENGINES, Random, Runs, statistics};
use nlog::Program;
use nlog_data::{Evaluator, Role, Row, TableId, Tables, Transaction};
use nlog_dataflow::Options;
use nlog_plan::query::{Output, Pipeline, Plan, Step};
use nlog_plan::{Keep, Settings, Statistics};
use test_random::{Seeds, seeds};

/// The results of cases and their transactions.
#[derive(Debug, Default)]
struct Tally {
    compiled: u64,
    accepted: usize,
    changed: usize,
    refused: usize,
    features: BTreeMap<&'static str, usize>,
    mistakes: Vec<String>,
}

impl Tally {
    fn count(&mut self, feature: &'static str) {
        *self.features.entry(feature).or_default() += 1;
    }
}

/// Every refusal that a transaction can meet, by its name in JSON.
const REFUSALS: [&str; 5] = ["duplicate-key", "key-conflict", "overflow", "range", "forbidden"];

/// The elements of plans, all of which must be tested.
const PARTS: [&str; 12] = [
    "probes",
    "probes of four tables and more",
    "keys of several columns",
    "products",
    "conditions on rows",
    "failures apart",
    "groups",
    "checked keys",
    "wide rows",
    "stages",
    "tables put where they are read",
    "tables gone through",
];

/// Counts the elements that a plan has.
fn parts(plan: &Plan, tally: &mut Tally) {
    let joins = plan.rules.iter().flat_map(|rule| std::iter::once(&rule.body).chain(&rule.failures));
    let pipelines: Vec<&Pipeline> = joins.flat_map(|joins| &joins.pipelines).collect();
    let probes =
        |pipeline: &Pipeline| pipeline.steps.iter().filter(|step| matches!(step, Step::Probe(_))).count();
    let most = pipelines.iter().map(|pipeline| probes(pipeline)).max().unwrap_or(0);
    let has = [
        most > 0,
        most >= 4,
        plan.indexes.iter().any(|index| index.key.len() > 1),
        plan.indexes.iter().any(|index| index.key.is_empty()),
        plan.indexes.iter().any(|index| !index.select.is_empty()),
        plan.rules.iter().any(|rule| !rule.failures.is_empty()),
        plan.rules.iter().any(|rule| matches!(rule.output, Output::Groups { .. })),
        plan.relations.iter().any(|relation| matches!(relation.keep, Keep::Key(_))),
        plan.relations.iter().any(|relation| relation.needed && relation.columns.len() > 8),
        plan.relations.iter().any(|relation| relation.table.is_none()),
        !plan.inlined.is_empty(),
        plan.rules.iter().any(|rule| !rule.through.is_empty()),
    ];
    for (part, _) in PARTS.into_iter().zip(has).filter(|(_, has)| *has) {
        tally.count(part);
    }
}

/// Settings of the planner: true statistics, false ones, and features to leave out.
fn plannings(
    program: &Arc<Program>,
    state: Statistics,
    random: &mut Random,
) -> [(&'static str, Settings); 7] {
    let nonsense = Some(statistics::nonsense(random, program));
    let figures = |statistics: Option<Statistics>| Settings {
        statistics: statistics.map(Arc::new),
        ..Settings::default()
    };
    let misled = plan(program, &figures(nonsense.clone()));
    let nonsense = figures(nonsense);
    [
        ("no figures", figures(None)),
        ("true figures", figures(Some(state.clone()))),
        ("pinned", Settings { pinned: Some(misled.pinned()), ..figures(Some(state)) }),
        ("without stages", Settings { without_stages: true, ..nonsense.clone() }),
        ("without inlining", Settings { without_inlining: true, ..nonsense.clone() }),
        ("nonsense", nonsense),
        ("crowded", figures(Some(statistics::crowded(program)))),
    ]
}

fn plan(program: &Arc<Program>, settings: &Settings) -> Plan {
    let outputs = program.schema.iter().filter(|(_, table)| table.role == Role::Output);
    let wanted = outputs.map(|(id, _)| id).collect();
    Plan::new(Arc::clone(program), &wanted, settings)
}

/// The setups for a case: every engine, and every kind of plan.
fn setups(case: &Case, seed: u64, program: &Arc<Program>, tally: &mut Tally) -> Result<Vec<Setup>, String> {
    let mut random = Random::new(seed);
    let plannings = plannings(program, final_statistics(case, program), &mut random);
    for (_, planning) in &plannings {
        parts(&plan(program, planning), tally);
    }
    let mut setups = Vec::new();
    for (at, (engine, workers)) in ENGINES.into_iter().enumerate() {
        // Starting threads costs more than the work here, so alternate between two and four.
        let turn = if seed.is_multiple_of(2) { 2 } else { 4 };
        if workers > 1 && workers != turn {
            continue;
        }
        let (planned, planning) = plannings[(seed as usize + at) % plannings.len()].clone();
        setups.push(Setup { planned, planning, ..Setup::new(engine, workers) });
    }
    for (planned, planning) in plannings.clone() {
        setups.push(Setup { planned, planning, columns: random.chance(50), ..Setup::new(Kind::Fused, 1) });
    }
    let other = case.compile_in_another_order(&mut random).ok_or("in another order it does not compile")?;
    let either = |random: &mut Random| if random.chance(70) { Kind::Fused } else { Kind::Composed };
    setups.push(Setup { program: Some(other), ..Setup::new(either(&mut random), 1) });
    for workers in [1, 2] {
        setups.push(Setup { planned: "planned anew", plans_anew: true, ..Setup::new(Kind::Fused, workers) });
    }
    for workers in [1, 2] {
        let replans: Vec<Settings> = plannings.iter().map(|(_, planning)| planning.clone()).collect();
        let columns = random.chance(50);
        setups.push(Setup { replans, plans_anew: true, columns, ..Setup::new(Kind::Fused, workers) });
    }
    setups.push(Setup { reloads: true, ..Setup::new(either(&mut random), 1) });
    let (planned, planning) = plannings[seed as usize % plannings.len()].clone();
    let plans_anew = random.chance(50);
    setups.push(Setup { restores: true, planned, planning, plans_anew, ..Setup::new(Kind::Fused, 1) });
    Ok(setups)
}

/// The statistics of a case's final state.
fn final_statistics(case: &Case, program: &Arc<Program>) -> Statistics {
    let mut runs = Runs::alone(program, &Tables::All, false);
    for step in 0..case.steps() {
        let transaction = case.transaction(step, program, &mut |table| runs.inputs(table));
        runs.commit(&transaction);
    }
    runs.statistics()
}

/// Engines that stop each transaction at small bounds before they take it, alone and with others.
fn stopping(case: &Case, seed: u64, program: &Arc<Program>) -> Vec<Setup> {
    let mut random = Random::new(seed);
    let plannings = plannings(program, final_statistics(case, program), &mut random);
    let setup = |workers: usize| {
        let (planned, planning) = plannings[(seed as usize + workers) % plannings.len()].clone();
        let columns = (seed as usize + workers).is_multiple_of(3);
        Setup { stops: true, planned, planning, columns, ..Setup::new(Kind::Fused, workers) }
    };
    vec![setup(1), setup(2)]
}

/// Runs a case in engines that stop transactions at small bounds. Returns a difference to the reference as an error.
fn stopped_difference(case: &Case, seed: u64) -> Result<(), String> {
    let Some(program) = case.compile() else { return Ok(()) };
    let mut runs = Runs::alone(&program, &Tables::All, seed.is_multiple_of(2));
    for setup in stopping(case, seed, &program) {
        runs.add(setup);
    }
    for step in 0..case.steps() {
        let transaction = case.transaction(step, &program, &mut |table| runs.inputs(table));
        runs.commit(&transaction);
        if !runs.agreed() {
            return Err(format!("step {step}:\n{}", runs.difference()));
        }
    }
    if runs.contents_are_equal() { Ok(()) } else { Err("the contents differ".to_owned()) }
}

#[test]
fn d2_a_transaction_that_is_stopped_anywhere_leaves_no_trace() {
    let seeds = seeds!("d2_a_transaction_that_is_stopped_anywhere_leaves_no_trace", 60);
    let (cases, is_whole) = (seeds.len(), seeds.is_whole());
    let before = stopped();
    for seed in seeds {
        let case = Case::random(seed + 2_000_000);
        if stopped_difference(&case, seed).is_err() {
            fail(case, seed, &|case| stopped_difference(case, seed));
        }
    }
    let stopped = stopped() - before;
    println!("in {cases} cases, {stopped} transactions were stopped");
    if is_whole {
        assert!(stopped > 5 * cases, "too few transactions are stopped: {stopped}");
    }
}

/// Runs a case in the reference and, if `engines` is set, in all engines. Returns a difference as an error.
fn difference(case: &Case, seed: u64, engines: bool, tally: &mut Tally) -> Result<(), String> {
    let Some(program) = case.compile() else {
        tally.mistakes.extend(case.mistakes());
        return Ok(());
    };
    tally.compiled += 1;
    for feature in case.features() {
        tally.count(feature);
    }
    let tables = if seed.is_multiple_of(3) { Tables::Outputs } else { Tables::All };
    let mut runs = Runs::alone(&program, &tables, seed.is_multiple_of(2));
    let setups = setups(case, seed, &program, tally)?;
    setups.into_iter().filter(|_| engines).for_each(|setup| runs.add(setup));
    for step in 0..case.steps() {
        let transaction = case.transaction(step, &program, &mut |table| runs.inputs(table));
        let line = runs.commit(&transaction);
        if !runs.agreed() {
            return Err(format!("step {step}:\n{}", runs.difference()));
        }
        if runs.refused() {
            tally.refused += 1;
            for refusal in
                REFUSALS.into_iter().filter(|refusal| line.contains(&format!(r#""code":"{refusal}""#)))
            {
                tally.count(refusal);
            }
        } else {
            tally.accepted += 1;
            tally.changed += usize::from(!line.ends_with(r#""insert":{},"delete":{}}"#));
        }
    }
    if let Some(why) = runs.scrubbed() {
        return Err(why);
    }
    if runs.contents_are_equal() { Ok(()) } else { Err("the contents differ".to_owned()) }
}

fn fail(case: Case, seed: u64, what: &dyn Fn(&Case) -> Result<(), String>) -> ! {
    let case = case.shrink(&|case| what(case).is_err());
    let why = what(&case).err().unwrap_or_default();
    let plan = case
        .compile()
        .map(|program| format!("{:#?}", nlog_plan::query::Plan::for_outputs(program).rules))
        .unwrap_or_default();
    panic!("seed {seed}:\n{case}\n{why}\n{plan}");
}

/// The seeds of the tests below, which divide them so that they run in parallel.
fn all_seeds() -> Seeds {
    seeds!("dataflow_and_reference_agree", 160)
}

fn dataflow_and_reference_agree(part: usize) {
    for seed in all_seeds().part(part, 4) {
        let case = Case::random(seed);
        if difference(&case, seed, true, &mut Tally::default()).is_err() {
            fail(case, seed, &|case| difference(case, seed, true, &mut Tally::default()));
        }
    }
}

#[test]
fn dataflow_and_reference_agree_1() {
    dataflow_and_reference_agree(0);
}

#[test]
fn dataflow_and_reference_agree_2() {
    dataflow_and_reference_agree(1);
}

#[test]
fn dataflow_and_reference_agree_3() {
    dataflow_and_reference_agree(2);
}

#[test]
fn dataflow_and_reference_agree_4() {
    dataflow_and_reference_agree(3);
}

/// The cases above cover every feature, refusal and element of plans. This test needs only the reference.
#[test]
fn the_cases_cover_the_language_and_the_plans() {
    let mut tally = Tally::default();
    let seeds = all_seeds();
    let (cases, is_whole) = (seeds.len(), seeds.is_whole());
    for seed in seeds {
        let case = Case::random(seed);
        difference(&case, seed, false, &mut tally).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let Tally { compiled, accepted, changed, refused, ref features, ref mistakes } = tally;
    for mistake in mistakes.iter().take(20) {
        println!("{mistake}");
    }
    println!("{compiled} of {cases} programs compile; of them have {features:?}");
    println!("{accepted} transactions accepted ({changed} changed the output), {refused} refused");
    if is_whole {
        assert!(compiled * 10 >= cases * 8, "most programs must compile");
        for part in REFUSALS.iter().chain(&PARTS).chain(&FEATURES) {
            assert!(features.contains_key(part), "no case has {part}: {features:?}");
        }
        let forbidden = features.get("forbidden").copied().unwrap_or_default();
        assert!(forbidden >= 30, "too few rows are forbidden: {features:?}");
        assert!(tally.changed * 10 > tally.refused, "histories are mostly errors: {tally:?}");
        assert!(tally.refused * 20 > tally.accepted, "histories have too few errors: {tally:?}");
    }
}

/// The rows of all derived tables that users see.
fn derived(engine: &mut dyn Evaluator, program: &Program) -> BTreeMap<TableId, Vec<Row>> {
    let tables = program.schema.iter().filter(|(_, table)| !matches!(table.role, Role::Input | Role::Hidden));
    tables.map(|(id, _)| (id, engine.contents(id).expect("all tables are asked for"))).collect()
}

/// An engine that reports all tables.
fn engine(program: &Arc<Program>, (kind, workers): (Kind, usize)) -> Box<dyn Evaluator> {
    kind.start(Arc::clone(program), Options { workers, observe: Tables::All, ..Options::default() })
}

/// Rows inserted into and deleted from the inputs.
type Changes = Transaction;

/// The result of a case.
struct Outcome {
    /// The net changes of the inputs by each accepted transaction.
    done: Vec<Changes>,
    inputs: Vec<(TableId, Vec<Row>)>,
    derived: BTreeMap<TableId, Vec<Row>>,
}

/// The rows of all input tables.
fn inputs(engine: &mut dyn Evaluator, program: &Program) -> Vec<(TableId, Vec<Row>)> {
    let tables = program.schema.iter().filter(|(_, table)| table.role == Role::Input);
    tables.map(|(id, _)| (id, engine.contents(id).expect("inputs are always there"))).collect()
}

/// Runs a case. Returns `None` if its facts are refused.
fn outcome(case: &Case, engine: &mut dyn Evaluator, program: &Program) -> Result<Option<Outcome>, String> {
    if engine.commit(&Transaction::default()).is_err() {
        return Ok(None);
    }
    let mut done = Vec::new();
    for step in 0..case.steps() {
        let transaction = case.transaction(step, program, &mut |table| {
            engine.contents(table).expect("inputs are always there")
        });
        let before = derived(engine, program);
        match engine.commit(&transaction) {
            Ok(committed) => {
                let mut changes = Changes::default();
                for (table, delta) in committed.delta.tables {
                    if program.schema.table(table).role == Role::Input {
                        changes.insert.insert(table, delta.insert);
                        changes.delete.insert(table, delta.delete);
                    }
                }
                done.push(changes);
            }
            Err(_) if before == derived(engine, program) => {}
            Err(_) => return Err(format!("step {step} was refused and left a trace")),
        }
    }
    Ok(Some(Outcome { done, inputs: inputs(engine, program), derived: derived(engine, program) }))
}

/// The single changes of a transaction: first the deletions, then the insertions.
fn single(changes: &Changes) -> Vec<Transaction> {
    let mut parts = Vec::new();
    for (side, insert) in [(&changes.delete, false), (&changes.insert, true)] {
        for (table, row) in side.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row))) {
            let mut part = Transaction::default();
            let to = if insert { &mut part.insert } else { &mut part.delete };
            to.insert(*table, vec![row.clone()]);
            parts.push(part);
        }
    }
    parts
}

/// Whether two transactions have no row and no key in common, so that their order does not matter.
fn commute(program: &Program, a: &Changes, b: &Changes) -> bool {
    let keys = |changes: &Changes| -> Vec<(TableId, Row)> {
        let sides = changes.insert.iter().chain(&changes.delete);
        let rows = sides.flat_map(|(table, rows)| rows.iter().map(|row| (*table, row)));
        let of_row = |(table, row): (TableId, &Row)| {
            (table, program.schema.table(table).key_of(row).unwrap_or_else(|| row.clone()))
        };
        rows.map(of_row).collect()
    };
    let of_a = keys(a);
    keys(b).iter().all(|key| !of_a.contains(key))
}

/// Runs an alternative history on a new engine and compares its tables with `wanted`. Returns false if a transaction is
/// refused, because the history can pass through states that fail.
fn on_another_way(
    program: &Arc<Program>,
    kind: (Kind, usize),
    way: &[Transaction],
    wanted: &Outcome,
    what: &str,
) -> Result<bool, String> {
    let mut engine = engine(program, kind);
    if std::iter::once(&Transaction::default()).chain(way).any(|step| engine.commit(step).is_err()) {
        return Ok(false);
    }
    if inputs(&mut *engine, program) != wanted.inputs {
        return Err(format!("{what}: the test is wrong, the inputs differ"));
    }
    if derived(&mut *engine, program) != wanted.derived {
        return Err(format!("{what} derives something else"));
    }
    Ok(true)
}

const FUSED: (Kind, usize) = (Kind::Fused, 1);
const COMPOSED: (Kind, usize) = (Kind::Composed, 2);

/// By alternative history, the number of cases that completed it without a refusal.
type Ways = BTreeMap<&'static str, usize>;

/// The contents of derived tables depend only on the contents of the inputs, not on their history, and disappear with
/// them.
fn history_leaves_no_trace(case: &Case, seed: u64, ways: &mut Ways) -> Result<(), String> {
    let Some(program) = case.compile() else { return Ok(()) };
    let mut random = Random::new(seed);
    let kind = *random.pick(&ENGINES);
    let mut engine = self::engine(&program, kind);
    let Some(end) = outcome(case, &mut *engine, &program)? else { return Ok(()) };
    let mut took = |name: &'static str, way: &[Transaction], kind: (Kind, usize)| {
        let whole = on_another_way(&program, kind, way, &end, name)?;
        *ways.entry(name).or_default() += usize::from(whole);
        Ok::<bool, String>(whole)
    };

    let mut at_once = Transaction::default();
    at_once.insert.extend(end.inputs.iter().cloned());
    if !took("all rows at once", &[at_once.clone()], FUSED)? {
        return Err("all rows at once are refused".to_owned());
    }
    let mut one_by_one = single(&at_once);
    random.shuffle(&mut one_by_one);
    took("rows one by one", &one_by_one, COMPOSED)?;

    let split: Vec<Transaction> = end.done.iter().flat_map(single).collect();
    took("transactions in parts", &split, FUSED)?;

    let mut permuted = end.done.clone();
    for _ in 0..4 * permuted.len() {
        let at = random.below(permuted.len().max(2) as u64 - 1) as usize;
        if permuted.get(at + 1).is_some_and(|next| commute(&program, &permuted[at], next)) {
            permuted.swap(at, at + 1);
        }
    }
    took("transactions in another order", &permuted, FUSED)?;

    // Between two transactions, insert and delete the rows of another one.
    let mut detours = Vec::new();
    for (at, step) in end.done.iter().enumerate() {
        let other = random.pick(&end.done);
        if end.done[..at].iter().all(|before| commute(&program, before, other)) {
            detours.push(Transaction { insert: other.insert.clone(), ..Transaction::default() });
            detours.push(Transaction { delete: other.insert.clone(), ..Transaction::default() });
        }
        detours.push(step.clone());
    }
    took("rows that come and go", &detours, FUSED)?;

    let mut nothing = Transaction::default();
    nothing.delete.extend(end.inputs);
    engine.commit(&nothing).map_err(|error| format!("taking all rows away: {error}"))?;
    let mut fresh = self::engine(&program, kind);
    fresh.commit(&Transaction::default()).map_err(|error| format!("no rows at all: {error}"))?;
    if derived(&mut *engine, &program) != derived(&mut *fresh, &program) {
        return Err("rows are left although their inputs are gone".to_owned());
    }
    Ok(())
}

#[test]
fn contents_depend_on_inputs_alone() {
    let mut ways = Ways::new();
    let seeds = seeds!("contents_depend_on_inputs_alone", 120);
    let (cases, is_whole) = (seeds.len(), seeds.is_whole());
    for seed in seeds {
        // Use other programs than the test above.
        let case = Case::random(seed + 1_000_000);
        if history_leaves_no_trace(&case, seed, &mut ways).is_err() {
            fail(case, seed, &|case| history_leaves_no_trace(case, seed, &mut Ways::new()));
        }
    }
    println!("of {cases} cases came to the same on other ways, without a refusal: {ways:?}");
    if is_whole {
        let tried = ways.values().filter(|count| **count as u64 * 4 > cases).count();
        assert_eq!(tried, 5, "too few cases can take the other ways: {ways:?}");
    }
}
