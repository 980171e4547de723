//! Random programs with hooks and random histories with ticks, errors included: every engine gives the same output,
//! byte for byte, as a full recomputation; and a refused transaction leaves no trace.
//!
//! The crate `test-random` says which seeds run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::support::{
    ENGINES, Engine, Moment, Random, compile, components, difference, hysteresis, line, said, with_hook,
};
use nlog::Program;
use nlog::hook::Wiring;
use nlog_data::{
    Bound, Cancel, ColumnTransaction, CommitError, Committed, Delta, Evaluator, Inputs, Most, Progress, Role,
    Row, TableDelta, TableId, Tables, Transaction, TransactionError, Value,
};
use nlog_reference::Reference;

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Rows(Transaction),
    Tick(u64),
}

/// A program with hooks.
struct Case {
    text: String,
    /// The same tables without keys, and only the rules of hooks' sources, whose contents are therefore always
    /// defined.
    sources: String,
    /// The tables that hooks fill, in an order in which no source depends on a later one.
    targets: Vec<&'static str>,
    /// Whether a hook's source can violate a key or a `unique`. This is then the error reported.
    keyed_sources: bool,
}

const CABLES: [&str; 4] = [
    "(a, b) :- cable(a, b);",
    "(a, b) :- cable(b, a), watched(a);",
    "(n, k) :- cost(n, k);",
    "(a, c) :- cable(a, b), cable(b, c);",
];
const OF_STABLE: [&str; 3] =
    ["(a, b) :- stable(a, b);", "(b, a) :- stable(a, b), cable(b, _);", "(a, count(b)) :- stable(a, b);"];
const OF_COMPONENT: [&str; 3] = [
    "(n, c) :- component(n, c), watched(n);",
    "(c, count(n)) :- component(n, c);",
    "(n, n) :- component(n, _);",
];
const BEHIND: [&str; 6] = [
    "size(c, count(n)) :- component(n, c);",
    "leader(c, n) :- component(n, c), watched(n);",
    "place(n, k) :- component(n, c), cost(c, k);",
    "place(n, k) :- stable(n, k), second(k, _);",
    "pair(c, d) :- component(n, c), second(n, d);",
    "large(n * 4611686018427387904, c) :- second(n, c), watched(c);",
];

impl Case {
    fn random(random: &mut Random) -> Self {
        let hold_first = random.chance(50);
        let mut rules = Vec::new();
        let mut fill = |random: &mut Random, table: &str, from: &[&str], extra: &[&str]| {
            let mut bodies: Vec<&str> = (0..=random.below(2)).map(|_| *random.pick(from)).collect();
            bodies.extend((!extra.is_empty()).then(|| *random.pick(extra)));
            bodies.sort_unstable();
            bodies.dedup();
            rules.extend(bodies.into_iter().map(|body| format!("{table}{body}\n")));
        };
        fill(random, "up", &CABLES, if hold_first { &[] } else { &OF_COMPONENT });
        fill(random, "link", &CABLES, if hold_first { &OF_STABLE } else { &[] });
        fill(random, "again", &OF_STABLE, &OF_COMPONENT);
        if random.chance(20) {
            rules.push("link(3, 4);\n".to_owned());
        }
        let mut behind = String::new();
        for rule in BEHIND {
            if random.chance(70) {
                behind += &format!("{rule}\n");
            }
        }
        let key_of_sources: Vec<&str> = (0..3)
            .map(|_| [" key(a)", " unique(b)"].get(random.below(20) as usize).copied().unwrap_or(""))
            .collect();
        let components_key = if random.chance(50) { " key(a)" } else { "" };
        let inputs = format!(
            "input table cable(a: int, b: int);\ninput table watched(a: int);\n\
             input table cost(a: int, b: int) key(a);\ninput table component(a: int, b: int){components_key};\n\
             input table stable(a: int, b: int);\ninput table second(a: int, b: int);\n"
        );
        let outputs = |keys: [&str; 6]| {
            let names = ["up", "link", "again", "leader", "place", "size"];
            let mut text = String::new();
            for (name, key) in names.into_iter().zip(keys) {
                let _ = writeln!(text, "output table {name}(a: int, b: int){key};");
            }
            text + "output table pair(a: int, b: int);\noutput table large(a: int, b: int);\n"
        };
        let keys = [key_of_sources[0], key_of_sources[1], key_of_sources[2], " key(a)", " key(a)", " key(a)"];
        let text = format!("{inputs}{}{}{behind}", outputs(keys), rules.concat());
        let sources = format!("{inputs}{}{}", outputs([""; 6]), rules.concat());
        let mut wires = Vec::new();
        let hold = |random: &mut Random, source: &str| {
            let times = [0, 5, 20];
            format!("hysteresis({source}, rise: {}, fall: {})", random.pick(&times), random.pick(&times))
        };
        let held = ("stable", hold(random, "up"));
        let joined = ("component", "connected_components(link)".to_owned());
        let [first, then] = if hold_first { [held, joined] } else { [joined, held] };
        let last =
            if random.chance(50) { "connected_components(again)".to_owned() } else { hold(random, "again") };
        for wire in [first, then, ("second", last)] {
            if random.chance(80) || (wires.is_empty() && wire.0 == "second") {
                wires.push(wire);
            }
        }
        let text = wires.iter().fold(text, |text, (target, hook)| with_hook(&text, target, hook));
        Case {
            text,
            sources,
            targets: wires.into_iter().map(|(target, _)| target).collect(),
            keyed_sources: key_of_sources.iter().any(|key| !key.is_empty()),
        }
    }

    /// A step, given the contents of the inputs.
    fn step(&self, random: &mut Random, program: &Program, now: &mut u64, inputs: &Inputs) -> Step {
        if random.chance(35) {
            if random.chance(10) {
                return Step::Tick(now.saturating_sub(1));
            }
            *now += random.below(12);
            return Step::Tick(*now);
        }
        let mut transaction = Transaction::default();
        for _ in 0..random.below(6) {
            let names = ["cable", "cable", "cable", "watched", "cost", "component", "stable", "second"];
            let name = *random.pick(&names);
            if self.targets.contains(&name) && random.chance(93) {
                continue;
            }
            let id = program.schema.find(name).expect("it is declared");
            let table = program.schema.table(id);
            let there = inputs.contents(id);
            if !there.is_empty() && random.chance(45) {
                transaction.delete.entry(id).or_default().push(random.pick(&there).clone());
                continue;
            }
            let row: Row = table.columns.iter().map(|_| Value::Int(random.below(7) as i64)).collect();
            if table.key.is_some() && random.chance(80) {
                let same = there.into_iter().filter(|other| table.key_of(other) == table.key_of(&row));
                transaction.delete.entry(id).or_default().extend(same);
            }
            transaction.insert.entry(id).or_default().push(row);
        }
        Step::Rows(transaction)
    }
}

/// Everything computed anew after each step.
struct Oracle<'a> {
    case: &'a Case,
    program: Arc<Program>,
    sources: Arc<Program>,
    inputs: Inputs,
    now: u64,
    /// The history of each hook's source.
    histories: Vec<Vec<Moment>>,
    tables: BTreeMap<TableId, BTreeSet<Row>>,
}

impl<'a> Oracle<'a> {
    fn new(case: &'a Case, program: &Arc<Program>) -> Self {
        Oracle {
            case,
            program: Arc::clone(program),
            sources: compile(&case.sources),
            inputs: Inputs::new(Arc::clone(&program.schema)),
            now: 0,
            histories: vec![Vec::new(); case.targets.len()],
            tables: BTreeMap::new(),
        }
    }

    /// The delta or the error; `None` where only hooks know it.
    fn step(&mut self, step: &Step, observe: &Tables) -> Result<String, Option<TransactionError>> {
        let schema = Arc::clone(&self.program.schema);
        let hooks = self.case.targets.iter().map(|target| {
            let target = schema.find(target).expect("it is declared");
            self.program.hook_of(target).expect("it has one")
        });
        let hooks: Vec<&Wiring> = hooks.collect();
        let mut inputs = self.inputs.clone();
        let tick = match step {
            Step::Tick(now) => {
                let timed = hooks.iter().any(|wiring| wiring.hook.is_timed());
                if !timed || *now < self.now {
                    return Err(None);
                }
                Some(*now)
            }
            Step::Rows(transaction) => {
                let own = |wiring: &&Wiring| {
                    transaction.insert.contains_key(&wiring.to) || transaction.delete.contains_key(&wiring.to)
                };
                if hooks.iter().any(own) {
                    return Err(None);
                }
                inputs.apply(transaction).map_err(Some)?;
                None
            }
        };
        let mut all = Transaction::default();
        for (table, _) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
            all.insert.insert(table, inputs.contents(table));
        }
        // Without what is unique, there are fewer hidden tables, so that the numbers are others.
        let in_sources = |table: TableId| {
            self.sources.schema.find(&schema.table(table).name).expect("both programs have it")
        };
        let mut histories = self.histories.clone();
        for (wiring, history) in hooks.into_iter().zip(&mut histories) {
            let mut anew = Reference::new(Arc::clone(&self.sources), Tables::All);
            let rows = all.insert.iter().map(|(table, rows)| (in_sources(*table), rows.clone()));
            let of_sources = Transaction { insert: rows.collect(), ..Transaction::default() };
            anew.commit(&of_sources).expect("nothing can be wrong with sources");
            let source: BTreeSet<Row> = anew.rows(in_sources(wiring.from)).cloned().collect();
            history.push((source, tick));
            let target = match wiring.settings.get("rise").zip(wiring.settings.get("fall")) {
                Some((rise, fall)) => hysteresis(history, *rise, *fall),
                None => history.last().map(|(edges, _)| components(edges)).unwrap_or_default(),
            };
            all.insert.insert(wiring.to, target.into_iter().collect());
        }
        let mut anew = Reference::new(Arc::clone(&self.program), Tables::All);
        match anew.commit(&all) {
            Ok(_) => {}
            Err(CommitError::Refused(error)) => return Err(Some(error)),
            Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => panic!("{error}"),
        }
        let ids = schema.iter().map(|(id, _)| id);
        let tables: BTreeMap<TableId, BTreeSet<Row>> =
            ids.map(|id| (id, anew.rows(id).cloned().collect())).collect();
        let mut delta = Delta::default();
        for (id, rows) in tables.iter().filter(|(id, _)| observe.include(&schema, **id)) {
            let changes = difference(&self.tables.remove(id).unwrap_or_default(), rows);
            if changes != TableDelta::default() {
                delta.tables.insert(*id, changes);
            }
        }
        (self.inputs, self.now, self.histories, self.tables) =
            (inputs, tick.unwrap_or(self.now), histories, tables);
        Ok(line(&Ok(Committed { delta, ..Committed::default() }), &schema))
    }
}

type Run = Box<dyn Evaluator>;

fn take(run: &mut Run, step: &Step, by_columns: bool) -> Result<Committed, CommitError> {
    match step {
        Step::Tick(now) => run.tick(*now),
        Step::Rows(transaction) if by_columns => {
            let columns = ColumnTransaction::from_rows(transaction).expect("rows have their tables' widths");
            run.commit_columns(&columns).map(|committed| committed.to_rows())
        }
        Step::Rows(transaction) => run.commit(transaction),
    }
}

/// Takes a step with small bounds first, and without one when all of them were too small. Engines that know no bounds take
/// it at once. Returns also how often it was stopped.
fn take_within(
    run: &mut Run,
    step: &Step,
    by_columns: bool,
    random: &mut Random,
) -> (Result<Committed, CommitError>, usize) {
    let mut stopped = 0;
    for size in [2, 6, 20] {
        let cancel = Cancel::default();
        if random.chance(10) {
            cancel.cancel();
        }
        let most = Most { rows: random.below(size), ..Most::ANY };
        run.bound(Bound { most, cancel, progress: Progress::default() });
        match take(run, step, by_columns) {
            Err(CommitError::Stopped(_)) => stopped += 1,
            other => return (other, stopped),
        }
    }
    (take(run, step, by_columns), stopped)
}

#[derive(Debug, Default)]
struct Tally {
    /// The number of times that a transaction was stopped at its bound.
    stopped: usize,
    accepted: usize,
    /// The number of these that changed a hook's target.
    hooked: usize,
    refused: BTreeMap<&'static str, usize>,
}

fn run_case(seed: u64, stops: bool, tally: &mut Tally) -> Result<(), String> {
    let mut random = Random::new(seed);
    let case = Case::random(&mut random);
    let program = compile(&case.text);
    let schema = Arc::clone(&program.schema);
    let observe = if seed.is_multiple_of(4) { Tables::Outputs } else { Tables::All };
    let attribute = seed.is_multiple_of(2);
    let start = |engine: Engine| engine.hooked(&program, observe.clone(), attribute);
    let mut runs: Vec<Run> = ENGINES.into_iter().map(start).collect();
    let mut oracle = Oracle::new(&case, &program);
    let mut accepted = Vec::new();
    let mut now = 0;
    let mut told = String::new();
    for _ in 0..25 {
        let step = case.step(&mut random, &program, &mut now, &oracle.inputs);
        let by_columns = random.chance(50);
        let _ = writeln!(told, "{step:?}");
        let take = |run: &mut Run| {
            if stops {
                let (result, stopped) = take_within(run, &step, by_columns, &mut random);
                tally.stopped += stopped;
                result
            } else {
                take(run, &step, by_columns)
            }
        };
        let results: Vec<_> = runs.iter_mut().map(take).collect();
        let lines: Vec<String> = results.iter().map(|result| said(result, &schema)).collect();
        if lines.iter().any(|other| *other != lines[0]) {
            return Err(format!("{}\n{told}{lines:#?}", case.text));
        }
        let differs = |wanted: &str| format!("{}\n{told}{}\nbut anew it is {wanted}", case.text, lines[0]);
        match (oracle.step(&step, &observe), &results[0]) {
            (Ok(wanted), Ok(committed)) => {
                let said = line(&results[0], &schema);
                if said != wanted {
                    return Err(differs(&wanted));
                }
                tally.accepted += 1;
                let mut targets = program.hooks.iter().map(|wiring| wiring.to);
                tally.hooked +=
                    usize::from(targets.any(|target| committed.delta.tables.contains_key(&target)));
                accepted.push((step, said));
            }
            (Err(wanted), Err(CommitError::Refused(error))) => {
                *tally.refused.entry(error.code.name()).or_default() += 1;
                // The oracle has the rows of hooks among its own, and fills none.
                let filled = error.conflict.as_ref().map(|conflict| &conflict.filled);
                let differ = |wanted: &TransactionError| {
                    let mut wanted = wanted.clone();
                    wanted.filled_by_hooks(filled.unwrap_or(&Transaction::default()));
                    wanted != *error
                };
                if !case.keyed_sources && wanted.as_ref().is_some_and(differ) {
                    return Err(differs(&format!("{wanted:?}")));
                }
            }
            (wanted, _) => return Err(differs(&format!("{wanted:?}"))),
        }
    }
    for (id, _) in schema.iter().filter(|(id, _)| observe.include(&schema, *id)) {
        let wanted: Vec<Row> = oracle.tables.get(&id).into_iter().flatten().cloned().collect();
        for run in &mut runs {
            if run.contents(id).as_ref() != Ok(&wanted) {
                return Err(format!("{}\n{told}table {} differs", case.text, schema.table(id).name));
            }
        }
    }
    // The accepted transactions are enough for a replay.
    let mut replay = start(ENGINES[seed as usize % ENGINES.len()]);
    for (step, wanted) in accepted {
        let result = take(&mut replay, &step, false);
        if line(&result, &schema) != wanted {
            return Err(format!("{}{told}replay of {step:?}:\n{result:?}\nwas {wanted}", case.text));
        }
    }
    Ok(())
}

#[test]
fn all_engines_say_what_computing_anew_says() {
    let mut tally = Tally::default();
    let seeds = test_random::seeds!("all_engines_say_what_computing_anew_says", 60);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        if let Err(why) = run_case(seed, false, &mut tally) {
            panic!("seed {seed}:\n{why}");
        }
    }
    println!("{tally:?}");
    if is_whole {
        let refused: usize = tally.refused.values().sum();
        assert!(tally.accepted > 2 * refused, "histories are not mostly errors: {tally:?}");
        assert!(8 * tally.hooked > tally.accepted, "hooks do something: {tally:?}");
        for code in ["not-an-input", "duplicate-key", "key-conflict", "overflow", "range"] {
            assert!(tally.refused.get(code).is_some_and(|count| *count > 3), "{code} is tried: {tally:?}");
        }
    }
}

/// A transaction may be stopped in the evaluator of any hook's sources, or in that of the whole program.
#[test]
fn d2_a_transaction_that_is_stopped_leaves_no_trace_in_hooks() {
    let mut tally = Tally::default();
    let seeds = test_random::seeds!("d2_a_transaction_that_is_stopped_leaves_no_trace_in_hooks", 40);
    let (cases, is_whole) = (seeds.len() as usize, seeds.is_whole());
    for seed in seeds {
        if let Err(why) = run_case(seed + 1_000_000, true, &mut tally) {
            panic!("seed {seed}:\n{why}");
        }
    }
    println!("{tally:?}");
    if is_whole {
        assert!(tally.stopped > 5 * cases, "too few are stopped: {tally:?}");
    }
}
