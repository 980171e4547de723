//! `pick` compared with choosing anew: alone, and behind the rules of a program in all engines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{ENGINES, Engine, Random, compile, difference, line, transaction};
use nlog::Program;
use nlog_data::function::hash_values;
use nlog_data::{CommitError, Evaluator, Memories, Row, TableDelta, Tables, Transaction, Value};
use nlog_hooks::{Hook, Pick, Recorded};

/// A key: its scope and its name.
type Key = (&'static str, &'static str);
/// The bounds by key.
type Bounds = BTreeMap<Key, (i64, i64)>;
type Numbers = BTreeMap<Key, i64>;

const SCOPES: [&str; 2] = ["s", "t"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn row_of((scope, name): &Key) -> Row {
    vec![(*scope).into(), (*name).into()]
}

/// The numbers after those, which these bounds had, with other bounds.
fn picked(numbers: &Numbers, before: &Bounds, bounds: &Bounds) -> Numbers {
    let mut next = Numbers::new();
    let users = |numbers: &Numbers, scope: &str, number: i64| {
        numbers.iter().filter(|((of, _), other)| *of == scope && **other == number).count()
    };
    // Whoever had a number has it until its turn comes.
    let mut present: Numbers = numbers.clone();
    for key in before.keys().chain(bounds.keys()).collect::<BTreeSet<_>>() {
        if before.get(key) == bounds.get(key) {
            continue;
        }
        let had = present.get(key).copied();
        let was_reserved = before.get(key).is_some_and(|(low, high)| low == high);
        let is_alone = had.is_some_and(|number| users(&present, key.0, number) == 1);
        present.remove(key);
        let kept = bounds.get(key).and_then(|(low, high)| {
            let inside = had.filter(|number| (low..=high).contains(&number));
            if low == high { Some(*low) } else { inside.filter(|_| !was_reserved || is_alone) }
        });
        present.extend(kept.map(|number| (*key, number)));
    }
    next.extend(present.into_iter().filter(|(key, _)| bounds.contains_key(key)));
    for (key, (low, high)) in bounds {
        if next.contains_key(key) {
            continue;
        }
        let size = high - low + 1;
        let first = hash_values(&row_of(key)) % size;
        let free = (0..size)
            .map(|step| low + (first + step) % size)
            .find(|number| users(&next, key.0, *number) == 0);
        next.extend(free.map(|number| (*key, number)));
    }
    next
}

fn source(bounds: &Bounds) -> BTreeSet<Row> {
    let bounded = |(key, (low, high)): (&Key, &(i64, i64))| {
        row_of(key).into_iter().chain([Value::Int(*low), Value::Int(*high)]).collect()
    };
    bounds.iter().map(bounded).collect()
}

fn target(numbers: &Numbers) -> BTreeSet<Row> {
    let numbered =
        |(key, number): (&Key, &i64)| row_of(key).into_iter().chain([Value::Int(*number)]).collect();
    numbers.iter().map(numbered).collect()
}

/// Other bounds for some keys: often the same for all, sometimes just one number.
fn step(random: &mut Random, bounds: &Bounds) -> Bounds {
    let mut next = bounds.clone();
    for scope in SCOPES {
        for name in NAMES {
            if random.chance(40) {
                next.remove(&(scope, name));
                if random.chance(80) {
                    let low = random.below(3) as i64 - 1;
                    let wide = if random.chance(30) { 0 } else { 1 + random.below(4) as i64 };
                    next.insert((scope, name), (low, low + wide));
                }
            }
        }
    }
    next
}

#[test]
fn random_bounds_pick_what_choosing_anew_gives() {
    let (mut waited, mut shared, mut undone) = (0, 0, 0);
    let seeds = test_random::seeds!("random_bounds_pick_what_choosing_anew_gives", 300);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut hook = Pick::new(Some(0));
        let (mut bounds, mut numbers) = (Bounds::new(), Numbers::new());
        for _ in 0..40 {
            let next = step(&mut random, &bounds);
            let wanted = picked(&numbers, &bounds, &next);
            let said = hook.update(&difference(&source(&bounds), &source(&next)), None);
            assert_eq!(said, Ok(difference(&target(&numbers), &target(&wanted))), "seed {seed}: {next:?}");
            if random.chance(20) {
                hook.undo();
                undone += 1;
                continue;
            }
            hook.accept();
            waited += next.len() - wanted.len();
            for ((scope, name), number) in &wanted {
                let others = wanted.iter().filter(|((of, other), _)| of == scope && other != name);
                let is_shared = others.filter(|(_, other)| *other == number).count() > 0;
                let is_range = |(low, high): &(i64, i64)| low != high;
                // Only a reserved number is that of several keys.
                let ranges = next.iter().filter(|((of, other), bounds)| {
                    of == scope && is_range(bounds) && wanted.get(&(*of, *other)) == Some(number)
                });
                assert!(ranges.count() <= 1, "seed {seed}: {wanted:?}");
                shared += usize::from(is_shared);
            }
            (bounds, numbers) = (next, wanted);
        }
    }
    assert!(!is_whole || (waited > 500 && shared > 500 && undone > 500), "{waited} {shared} {undone}");
}

/// A key costs as much as it takes to find a free number, however many others there are.
#[test]
fn a_number_costs_the_same_among_many() {
    let bound = |number: i64| vec![Value::Int(number), Value::Int(1), Value::Int(1 << 40)];
    let costs = [10, 1000, 5000].map(|many| {
        let mut hook = Pick::new(None);
        let all: BTreeSet<Row> = (0..many).map(bound).collect();
        hook.update(&difference(&BTreeSet::new(), &all), None).expect("the bounds are right");
        hook.accept();
        let before = hook.work();
        let one = difference(&BTreeSet::new(), &BTreeSet::from([bound(many)]));
        hook.update(&one, None).expect("the bounds are right");
        hook.work() - before
    });
    assert_eq!(costs, [costs[0]; 3]);
}

#[test]
fn bounds_at_the_ends_of_the_numbers_have_room() {
    let mut hook = Pick::new(None);
    let row = |name: &str| vec![name.into(), Value::Int(i64::MIN), Value::Int(i64::MAX)];
    let change = difference(&BTreeSet::new(), &BTreeSet::from([row("a"), row("b")]));
    let picked = hook.update(&change, None).expect("the bounds are right");
    assert_eq!(picked.insert.len(), 2);
}

/// A key that comes back gets its former number, also if others came meanwhile; a full range makes it wait.
#[test]
fn a_key_finds_its_number_again() {
    let mut hook = Pick::new(None);
    let row = |name: &str| vec![name.into(), Value::Int(1), Value::Int(200)];
    let rows = |names: &[&str]| names.iter().map(|name| row(name)).collect::<BTreeSet<Row>>();
    let mut update = |before: &[&str], after: &[&str]| {
        hook.update(&difference(&rows(before), &rows(after)), None).expect("the bounds are right")
    };
    let first = update(&[], &["web"]).insert;
    update(&["web"], &[]);
    update(&[], &["db", "mail"]);
    assert_eq!(update(&["db", "mail"], &["db", "mail", "web"]).insert, first);
}

const PROGRAM: &str = "
    input table wanted(scope: string, name: string, low: int, high: int) key(scope, name);
    input table limit(x: int);
    table bounds(scope: string, name: string, low: int, high: int) key(scope, name);
    bounds(scope, name, low, high) :- wanted(scope, name, low, high);
    input table seat(scope: string, name: string, seat: int) key(scope, name) from pick(bounds, scope: scope);
    output table shown(scope: string, name: string, seat: int) key(scope, name);
    shown(scope, name, seat) :- seat(scope, name, seat);
    # Where the hook's table has a row, a limit of 0 refuses the transaction.
    output table share(name: string, n: int); share(name, seat / x) :- seat(_, name, seat), limit(x);
";

/// The text of a transaction between two sets of bounds.
fn text(before: &Bounds, after: &Bounds, refuse: bool) -> String {
    let rows = |some: &Bounds, others: &Bounds| {
        let rows = some.iter().filter(|(key, bounds)| others.get(*key) != Some(bounds));
        let rows: Vec<String> = rows
            .map(|((scope, name), (low, high))| format!("[\"{scope}\",\"{name}\",{low},{high}]"))
            .collect();
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
fn all_engines_keep_picked_numbers_over_restarts_refusals_and_undone_transactions() {
    let name = "all_engines_keep_picked_numbers_over_restarts_refusals_and_undone_transactions";
    let (mut restarts, mut undone, mut refused, mut accepted) = (0, 0, 0, 0);
    let seeds = test_random::seeds!(
        "all_engines_keep_picked_numbers_over_restarts_refusals_and_undone_transactions",
        40
    );
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = compile(PROGRAM);
        let seat = program.schema.find("seat").expect("it is declared");
        let engine = *random.pick(&ENGINES);
        let mut run = Run {
            engine,
            program: Arc::clone(&program),
            hooked: engine.hooked(&program, Tables::All, false),
        };
        let mut recorded = Recorded::new(&program);
        let (mut bounds, mut numbers) = (Bounds::new(), Numbers::new());
        for _ in 0..30 {
            if random.chance(20) {
                let memories = run.hooked.memories();
                assert_eq!(recorded.memories(), memories, "{name}, seed {seed}");
                run.restart(&bounds, &memories);
                restarts += 1;
            }
            let next = step(&mut random, &bounds);
            let wanted = picked(&numbers, &bounds, &next);
            let refuse = random.chance(20) && !wanted.is_empty();
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
                    if let Some(TableDelta { insert, delete, .. }) = committed.delta.tables.get(&seat) {
                        recorded.follow("seat", &rows(delete), &rows(insert)).expect("the hook did it");
                    }
                    (bounds, numbers) = (next, wanted);
                    accepted += 1;
                }
                Err(CommitError::Refused(_)) if refuse => refused += 1,
                Err(error) => panic!("{name}, seed {seed}: {error}"),
            }
            let rows: Vec<Row> = target(&numbers).into_iter().collect();
            assert_eq!(run.hooked.contents(seat), Ok(rows), "{name}, seed {seed}");
        }
    }
    let counts = [restarts, undone, refused, accepted];
    assert!(!is_whole || counts.iter().all(|count| *count > 50), "{counts:?}");
}

fn cells(row: &[Value]) -> Vec<serde_json::Value> {
    row.iter().map(nlog_data::json::to_json).collect()
}

#[test]
fn a_memory_of_picked_numbers_replaces_the_present_one() {
    let program = compile(PROGRAM);
    for engine in ENGINES {
        let mut run = engine.hooked(&program, Tables::Outputs, false);
        let mut commit = |text: &str, memory: Option<&str>| {
            let memory = memory.map(|memory| serde_json::from_str(memory).expect("the test writes JSON"));
            let memories = memory.map(|memory| ("seat".to_owned(), memory)).into_iter().collect();
            run.restore(&memories).expect("a hook fills seat");
            line(&run.commit(&transaction(&program.schema, text)), &program.schema)
        };
        commit(r#"{"insert":{"wanted":[["s","a",1,1],["s","b",2,2],["t","c",3,3]]}}"#, None);
        assert_eq!(
            commit(
                r#"{"insert":{"wanted":[["s","d",4,5]]}}"#,
                Some(r#"{"picked":[["s","a",1],["s","d",5],["t","x",4]]}"#)
            ),
            r#"{"txn":1,"insert":{"shown":[["s","d",5]]},"delete":{}}"#
        );
        let wrong = commit(
            r#"{"insert":{"wanted":[["s","e",2,3]]}}"#,
            Some(r#"{"picked":[["s","a",5],["s","a",6]]}"#),
        );
        assert!(wrong.contains(r#"does not fit: [\"s\",\"a\"] has two numbers"#), "{wrong}");
        let wrong = commit(r#"{"insert":{"wanted":[["s","f",5,4]]}}"#, None);
        assert!(wrong.contains(r#"[\"s\",\"f\"] has the low bound 5 and the high bound 4"#), "{wrong}");
    }
    // Nobody can have done these.
    let mut recorded = Recorded::new(&program);
    let row = |number: i64| vec![vec!["s".into(), "a".into(), number.into()]];
    recorded.follow("seat", &[], &row(3)).expect("any number may come");
    for (delete, insert, why) in [
        (vec![], row(4), "gets number 4, but has one"),
        (row(4), vec![], "loses number 4, which it does not have"),
    ] {
        let refused = recorded.follow("seat", &delete, &insert).expect_err("nobody did it");
        assert!(refused.contains(why), "{refused} does not say {why}");
    }
}
