//! `hold` compared with clamping anew: alone, and behind the rules of a program in all engines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{ENGINES, Engine, Random, compile, difference, line, transaction};
use nlog::Program;
use nlog_data::{CommitError, Evaluator, Memories, Row, TableDelta, Tables, Transaction, Value};
use nlog_hooks::{Hold, Hook, Recorded};

/// The bounds by key.
type Bounds = BTreeMap<&'static str, (i64, i64)>;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The numbers that hold after those, with these bounds.
fn held(before: &BTreeMap<&'static str, i64>, bounds: &Bounds) -> BTreeMap<&'static str, i64> {
    let number = |(name, (low, high)): (&&'static str, &(i64, i64))| {
        let number = match before.get(name) {
            Some(number) if number < low => *low,
            Some(number) if number > high => *high,
            Some(number) => *number,
            None => *low,
        };
        (*name, number)
    };
    bounds.iter().map(number).collect()
}

fn source(bounds: &Bounds) -> BTreeSet<Row> {
    bounds
        .iter()
        .map(|(name, (low, high))| vec![(*name).into(), Value::Int(*low), Value::Int(*high)])
        .collect()
}

fn target(numbers: &BTreeMap<&'static str, i64>) -> BTreeSet<Row> {
    numbers.iter().map(|(name, number)| vec![(*name).into(), Value::Int(*number)]).collect()
}

/// Other bounds for some keys.
fn step(random: &mut Random, bounds: &Bounds) -> Bounds {
    let mut next = bounds.clone();
    for name in NAMES {
        if random.chance(40) {
            next.remove(name);
            if random.chance(80) {
                let low = random.below(12) as i64 - 3;
                next.insert(name, (low, low + random.below(6) as i64));
            }
        }
    }
    next
}

#[test]
fn random_bounds_hold_what_clamping_gives() {
    let (mut moved, mut stayed, mut undone) = (0, 0, 0);
    let seeds = test_random::seeds!("random_bounds_hold_what_clamping_gives", 300);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut hook = Hold::default();
        let (mut bounds, mut numbers) = (Bounds::new(), BTreeMap::new());
        for _ in 0..40 {
            let next = step(&mut random, &bounds);
            let wanted = held(&numbers, &next);
            let said = hook.update(&difference(&source(&bounds), &source(&next)), None);
            assert_eq!(said, Ok(difference(&target(&numbers), &target(&wanted))), "seed {seed}: {next:?}");
            if random.chance(20) {
                hook.undo();
                undone += 1;
                continue;
            }
            hook.accept();
            for (name, number) in &wanted {
                let before = numbers.get(name);
                let other = bounds.get(name) != next.get(name);
                moved += usize::from(before.is_some_and(|before| before != number));
                stayed += usize::from(other && before == Some(number) && next[name].0 != *number);
            }
            (bounds, numbers) = (next, wanted);
        }
    }
    assert!(!is_whole || (moved > 500 && stayed > 500 && undone > 500), "{moved} {stayed} {undone}");
}

#[test]
fn a_number_costs_the_same_among_many() {
    let bound = |number: i64, low: i64| vec![Value::Int(number), Value::Int(low), Value::Int(9)];
    let costs = [10, 1000, 5000].map(|many| {
        let mut hook = Hold::default();
        let all: BTreeSet<Row> = (0..many).map(|number| bound(number, 1)).collect();
        hook.update(&difference(&BTreeSet::new(), &all), None).expect("the bounds are right");
        hook.accept();
        let before = hook.work();
        let one = difference(&BTreeSet::from([bound(3, 1)]), &BTreeSet::from([bound(3, 2)]));
        hook.update(&one, None).expect("the bounds are right");
        hook.work() - before
    });
    assert_eq!(costs, [1; 3]);
}

const PROGRAM: &str = "
    input table wanted(name: string, low: int, high: int) key(name);
    input table limit(x: int);
    table bounds(name: string, low: int, high: int) key(name);
    bounds(name, low, high) :- wanted(name, low, high);
    input table size(name: string, size: int) key(name) from hold(bounds);
    output table shown(name: string, size: int) key(name);
    shown(name, size) :- size(name, size);
    # Where the hook's table has a row, a limit of 0 refuses the transaction.
    output table share(name: string, n: int); share(name, size / x) :- size(name, size), limit(x);
";

/// The text of a transaction between two sets of bounds.
fn text(before: &Bounds, after: &Bounds, refuse: bool) -> String {
    let rows = |some: &Bounds, others: &Bounds| {
        let rows = some.iter().filter(|(name, bounds)| others.get(*name) != Some(bounds));
        let rows: Vec<String> =
            rows.map(|(name, (low, high))| format!("[\"{name}\",{low},{high}]")).collect();
        rows.join(",")
    };
    let limit = if refuse { ",\"limit\":[[0]]" } else { "" };
    let (delete, insert) = (rows(before, after), rows(after, before));
    format!("{{\"delete\":{{\"wanted\":[{delete}]}},\"insert\":{{\"wanted\":[{insert}]{limit}}}}}")
}

struct Run {
    engine: Engine,
    program: Arc<Program>,
    hooked: Box<dyn Evaluator>,
}

impl Run {
    /// Goes on in another evaluator, from the inputs and the memories.
    fn restart(&mut self, bounds: &Bounds, memories: &Memories) {
        self.hooked = self.engine.hooked(&self.program, Tables::All, false);
        self.hooked.restore(memories).expect("the program has this hook");
        self.hooked
            .commit(&self.transaction(&text(&Bounds::new(), bounds, false)))
            .expect("the memories fit");
    }

    fn transaction(&self, text: &str) -> Transaction {
        transaction(&self.program.schema, text)
    }
}

/// Refusals, undone transactions, and restarts from the memories of the evaluator, which are also those that recorded rows add
/// up to.
#[test]
fn all_engines_hold_the_numbers_over_restarts_refusals_and_undone_transactions() {
    let name = "all_engines_hold_the_numbers_over_restarts_refusals_and_undone_transactions";
    let (mut restarts, mut undone, mut refused, mut accepted) = (0, 0, 0, 0);
    let seeds = test_random::seeds!(
        "all_engines_hold_the_numbers_over_restarts_refusals_and_undone_transactions",
        40
    );
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = compile(PROGRAM);
        let size = program.schema.find("size").expect("it is declared");
        let engine = *random.pick(&ENGINES);
        let mut run = Run {
            engine,
            program: Arc::clone(&program),
            hooked: engine.hooked(&program, Tables::All, false),
        };
        let mut recorded = Recorded::new(&program);
        let (mut bounds, mut numbers) = (Bounds::new(), BTreeMap::new());
        for _ in 0..30 {
            if random.chance(20) {
                let memories = run.hooked.memories();
                assert_eq!(recorded.memories(), memories, "{name}, seed {seed}");
                run.restart(&bounds, &memories);
                restarts += 1;
            }
            let next = step(&mut random, &bounds);
            let refuse = random.chance(20) && !next.is_empty();
            let change = run.transaction(&text(&bounds, &next, refuse));
            let undo = random.chance(30);
            if undo {
                run.hooked.checkpoint();
            }
            match run.hooked.commit(&change) {
                Ok(_) if undo => {
                    run.hooked.undo(&change).expect("it was accepted");
                    undone += 1;
                }
                Ok(committed) => {
                    assert!(!refuse, "{name}, seed {seed}");
                    let rows = |rows: &[Row]| rows.iter().map(|row| cells(row)).collect::<Vec<_>>();
                    if let Some(TableDelta { insert, delete, .. }) = committed.delta.tables.get(&size) {
                        recorded.follow("size", &rows(delete), &rows(insert)).expect("the hook did it");
                    }
                    numbers = held(&numbers, &next);
                    bounds = next;
                    accepted += 1;
                }
                Err(CommitError::Refused(_)) if refuse => refused += 1,
                Err(error) => panic!("{name}, seed {seed}: {error}"),
            }
            let rows: Vec<Row> = target(&numbers).into_iter().collect();
            assert_eq!(run.hooked.contents(size), Ok(rows), "{name}, seed {seed}");
        }
    }
    let counts = [restarts, undone, refused, accepted];
    assert!(!is_whole || counts.iter().all(|count| *count > 50), "{counts:?}");
}

fn cells(row: &[Value]) -> Vec<serde_json::Value> {
    row.iter().map(nlog_data::json::to_json).collect()
}

#[test]
fn a_memory_replaces_the_present_one_as_far_as_the_bounds_allow() {
    let program = compile(PROGRAM);
    for engine in ENGINES {
        let mut run = engine.hooked(&program, Tables::Outputs, false);
        let mut commit = |text: &str, memory: Option<&str>| {
            let memory = memory.map(|memory| serde_json::from_str(memory).expect("the test writes JSON"));
            let memories = memory.map(|memory| ("size".to_owned(), memory)).into_iter().collect();
            run.restore(&memories).expect("a hook fills size");
            line(&run.commit(&transaction(&program.schema, text)), &program.schema)
        };
        commit(r#"{"insert":{"wanted":[["a",1,9],["b",1,9],["c",1,9]]}}"#, None);
        assert_eq!(
            commit(
                r#"{"insert":{"wanted":[["d",2,3]]}}"#,
                Some(r#"{"held":[["a",5],["b",12],["d",7],["x",4]]}"#)
            ),
            r#"{"txn":1,"insert":{"shown":[["a",5],["b",9],["d",3]]},"delete":{"shown":[["a",1],["b",1]]}}"#
        );
        let wrong = commit(r#"{"insert":{"wanted":[["e",2,3]]}}"#, Some(r#"{"held":[["a",5],["a",6]]}"#));
        assert!(wrong.contains(r#"does not fit: [\"a\"] has two numbers"#), "{wrong}");
        assert_eq!(
            commit(r#"{"insert":{"wanted":[["e",2,3]]}}"#, None),
            r#"{"txn":1,"insert":{"shown":[["e",2]]},"delete":{}}"#
        );
        let wrong = commit(r#"{"insert":{"wanted":[["f",5,4]]}}"#, None);
        assert!(wrong.contains(r#"[\"f\"] has the low bound 5 and the high bound 4"#), "{wrong}");
    }
    // Nobody can have done these.
    let mut recorded = Recorded::new(&program);
    let row = |number: i64| vec![vec!["a".into(), number.into()]];
    recorded.follow("size", &[], &row(3)).expect("any number may come");
    for (delete, insert, why) in [
        (vec![], row(4), "[\"a\"] gets number 4, but has one"),
        (row(4), vec![], "[\"a\"] loses number 4, which it does not have"),
    ] {
        let refused = recorded.follow("size", &delete, &insert).expect_err("nobody did it");
        assert!(refused.contains(why), "{refused} does not say {why}");
    }
}
