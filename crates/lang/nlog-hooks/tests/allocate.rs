//! `allocate` compared with a plain pool: alone, and behind the rules of a program in all engines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::support::{Engine, Random, compile, difference, line, transaction};
use nlog::Program;
use nlog_data::{CommitError, Evaluator, Memories, Role, Row, TableDelta, Tables, Transaction, Value};
use nlog_hooks::{Allocate, Hook, Recorded};

/// The numbers without owners: those that were never given, sets of those that were released long ago, and the latest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Waiting {
    fresh: Vec<i64>,
    older: Vec<BTreeSet<i64>>,
    latest: Vec<i64>,
}

impl Waiting {
    fn take(&mut self) -> Option<i64> {
        if !self.fresh.is_empty() {
            return Some(self.fresh.remove(0));
        }
        if let Some(set) = self.older.first_mut() {
            let number = set.pop_first();
            self.older.retain(|set| !set.is_empty());
            return number;
        }
        (!self.latest.is_empty()).then(|| self.latest.remove(0))
    }

    fn put(&mut self, number: i64, exact: usize) {
        self.latest.push(number);
        if self.latest.len() == 2 * exact {
            self.older.push(self.latest.drain(..exact).collect());
            if self.older.len() == 9 {
                let both = |at: &usize| self.older[*at].len() + self.older[at + 1].len();
                let at = (0..8).min_by_key(both).expect("there are nine");
                let second = self.older.remove(at + 1);
                self.older[at].extend(second);
            }
        }
    }
}

/// The numbers that wait, and the owners of the others. With a scope, each value of this column has its own. The order of release is exact
/// for so many numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pool {
    all: Vec<i64>,
    scope: Option<usize>,
    exact: usize,
    next: BTreeMap<Option<Value>, Waiting>,
    given: BTreeMap<Row, i64>,
}

impl Pool {
    fn new(first: i64, last: i64, scope: Option<usize>) -> Self {
        let (next, given) = (BTreeMap::new(), BTreeMap::new());
        Pool { all: (first..=last).collect(), scope, exact: 1000, next, given }
    }

    fn next(&mut self, owner: &Row) -> &mut Waiting {
        let scope = self.scope.map(|column| owner[column].clone());
        let fresh = self.all.clone();
        self.next.entry(scope).or_insert(Waiting { fresh, ..Waiting::default() })
    }

    /// The pool once these are its owners, or the owner for whom no number is left.
    fn with(&self, owners: &BTreeSet<Row>) -> Result<Pool, Row> {
        let mut pool = self.clone();
        for gone in self.given.keys().filter(|owner| !owners.contains(*owner)) {
            if let Some(number) = pool.given.remove(gone) {
                pool.next(gone).put(number, self.exact);
            }
        }
        for owner in owners {
            if !pool.given.contains_key(owner) {
                let number = pool.next(owner).take().ok_or(owner.clone())?;
                pool.given.insert(owner.clone(), number);
            }
        }
        Ok(pool)
    }

    fn owners(&self) -> BTreeSet<Row> {
        self.given.keys().cloned().collect()
    }

    /// The rows of the table.
    fn rows(&self) -> BTreeSet<Row> {
        let row =
            |(owner, number): (&Row, &i64)| owner.iter().cloned().chain([Value::Int(*number)]).collect();
        self.given.iter().map(row).collect()
    }
}

/// Whether a number that was released has a new owner.
fn gives_again(before: &Pool, after: &Pool) -> bool {
    let mut new = after.given.iter().filter(|(owner, _)| !before.given.contains_key(*owner));
    let released = |number| {
        move |waiting: &Waiting| {
            waiting.latest.contains(number) || waiting.older.iter().any(|set| set.contains(number))
        }
    };
    new.any(|(_, number)| before.next.values().any(released(number)))
}

fn owner(name: &str, number: i64) -> Row {
    vec![Value::from(name), Value::Int(number)]
}

#[test]
fn random_owners_get_what_a_plain_pool_gives() {
    let (mut again, mut full, mut undone) = (0, 0, 0);
    let seeds = test_random::seeds!("random_owners_get_what_a_plain_pool_gives", 400);
    let is_whole = seeds.is_whole();
    let program = compile(
        "input table wanted(name: string, n: int);
         input table number(name: string, n: int, number: int) key(name, n) from allocate(wanted, first: 1, last: 9);
         output table numbers(name: string, n: int, number: int) key(number); numbers(a, b, c) :- number(a, b, c);",
    );
    let table = program.schema.table(program.schema.find("number").expect("it is declared")).clone();
    for seed in seeds {
        let mut random = Random::new(seed);
        let first = *random.pick(&[0, 1, 257, i64::MAX - 20]);
        let last = first + random.pick(&[7, 7, 19]).min(&random.below(20)).cast_signed();
        let scope = *random.pick(&[None, None, Some(0), Some(1)]);
        let exact = *random.pick(&[1, 2, 3, 1000]);
        let new = || Allocate::new(first.cast_unsigned(), last.cast_unsigned(), scope).exact_for(exact);
        let (mut hook, mut follower) = (new(), new());
        let mut pool = Pool { exact, ..Pool::new(first, last, scope) };
        for _ in 0..60 {
            let mut owners = pool.owners();
            for name in ["a", "b", "c"] {
                for number in 0..4 {
                    let owner = owner(name, number);
                    if random.chance(20) && !owners.remove(&owner) {
                        owners.insert(owner);
                    }
                }
            }
            let said = hook.update(&difference(&pool.owners(), &owners), None);
            match pool.with(&owners) {
                Ok(wanted) => {
                    assert_eq!(
                        said,
                        Ok(difference(&pool.rows(), &wanted.rows())),
                        "{pool:?} becomes {owners:?}"
                    );
                    if random.chance(20) {
                        hook.undo();
                        undone += 1;
                        continue;
                    }
                    hook.accept();
                    again += usize::from(gives_again(&pool, &wanted));
                    pool = wanted;
                    follower.follow(&said.expect("it is accepted")).expect("the hook did it");
                    assert_eq!(follower.memory(), hook.memory());
                    if random.chance(10) {
                        // A restart.
                        let memory = hook.memory().expect("it has one");
                        hook = new();
                        hook.restore(&memory, &table).expect("it is its own");
                        hook.update(&difference(&BTreeSet::new(), &pool.owners()), None).expect("they fit");
                        hook.accept();
                        assert_eq!(hook.memory(), Some(memory));
                    }
                }
                Err(left) => {
                    let said = said.expect_err("the pool is full");
                    let named = format!("{}, {}", left[0], left[1]);
                    assert!(
                        said.contains(&format!("every number from {first} to {last} is in use")),
                        "{said}"
                    );
                    assert!(said.replace(',', ", ").contains(&named), "{said} does not name {named}");
                    hook.undo();
                    full += 1;
                }
            }
        }
    }
    assert!(!is_whole || (again > 1000 && full > 1000 && undone > 1000), "{again} {full} {undone}");
}

#[test]
fn a_number_costs_the_same_in_a_large_pool() {
    let costs = [10, 1000, 5000].map(|many| {
        let mut hook = Allocate::new(1, 1 << 24, None);
        let owners: BTreeSet<Row> = (0..many).map(|number| owner("a", number)).collect();
        hook.update(&difference(&BTreeSet::new(), &owners), None).expect("there are enough");
        hook.accept();
        let before = hook.work();
        let one = BTreeSet::from([owner("a", 3)]);
        hook.update(&difference(&one, &BTreeSet::from([owner("b", 3)])), None).expect("there are enough");
        hook.work() - before
    });
    assert_eq!(costs, [2; 3]);
}

/// Ports come and go, each with a life of its own, for 300 days; at any time there are 500, and as many are new each day.
#[test]
fn d22_released_numbers_take_little_memory() {
    let mut random = Random::new(22);
    let mut hook = Allocate::new(1, 0xff_ffff, None).exact_for(1 << 11);
    let mut owners: Vec<i64> = (0..500).collect();
    let rows = |numbers: &[i64]| numbers.iter().map(|number| owner("port", *number)).collect::<Vec<_>>();
    let first = TableDelta { insert: rows(&owners), ..TableDelta::default() };
    hook.update(&first, None).expect("there are enough");
    let mut next = 500;
    for _ in 0..300 * 50 {
        // Each is replaced by a new one, whichever it is.
        let (mut delete, mut insert) = (BTreeSet::new(), Vec::new());
        for _ in 0..10 {
            let at = random.below(owners.len() as u64) as usize;
            if delete.insert(owners[at]) {
                insert.push(next);
                owners[at] = next;
                next += 1;
            }
        }
        // One that came and went in the same step was never there.
        let both: Vec<i64> = insert.iter().copied().filter(|number| delete.contains(number)).collect();
        insert.retain(|number| !both.contains(number));
        delete.retain(|number| !both.contains(number));
        let delete: Vec<i64> = delete.into_iter().collect();
        let change = TableDelta { insert: rows(&insert), delete: rows(&delete), ..TableDelta::default() };
        hook.update(&change, None).expect("there are enough");
        hook.accept();
    }
    let memory = hook.memory().expect("it has one").to_string();
    let released = next - 500;
    assert!(released > 140_000, "{released}");
    // One by one, each would take nine.
    assert!(memory.len() < released as usize, "{} bytes for {released} numbers", memory.len());
}

const PROGRAM: &str = "
    input table machine(name: string, host: string) key(name);
    input table limit(x: int);
    table wants_label(name: string);
    wants_label(name) :- machine(name, _);
    input table label(name: string, label: int) key(name) from allocate(wants_label, first: 5, last: 9);
    output table on(label: int, host: string) key(label);
    on(label, host) :- label(name, label), machine(name, host);
    # Where the hook's table has a row, a limit of 0 refuses the transaction.
    output table share(name: string, n: int); share(name, label / x) :- label(name, label), limit(x);
";

const WORKERS: [Engine; 6] = [
    Engine::Reference,
    Engine::Fused(1),
    Engine::Composed(1),
    Engine::Composed(2),
    Engine::Composed(3),
    Engine::Composed(4),
];

#[test]
fn all_engines_give_the_numbers_of_a_plain_pool() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (mut full, mut refused, mut accepted) = (0, 0, 0);
    let seeds = test_random::seeds!("all_engines_give_the_numbers_of_a_plain_pool", 12);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = compile(PROGRAM);
        let mut runs: Vec<Box<dyn Evaluator>> =
            WORKERS.iter().map(|engine| engine.hooked(&program, Tables::All, false)).collect();
        let label = program.schema.find("label").expect("it is declared");
        let mut pool = Pool::new(5, 9, None);
        let mut machines: BTreeMap<&str, &str> = BTreeMap::new();
        for _ in 0..30 {
            let (mut next, mut text) = (machines.clone(), String::new());
            let mut sides = [Vec::new(), Vec::new()];
            for name in names {
                let (was, is) = (machines.get(name), *random.pick(&[None, Some("h1"), Some("h2")]));
                if random.chance(60) {
                    continue;
                }
                // A machine that is deleted and inserted in one transaction keeps its number.
                sides[0].extend(was.map(|host| format!("[\"{name}\",\"{host}\"]")));
                sides[1].extend(is.map(|host| format!("[\"{name}\",\"{host}\"]")));
                next.remove(name);
                next.extend(is.map(|host| (name, host)));
            }
            let refuse = random.chance(25);
            let limit = if refuse { ",\"limit\":[[0]]" } else { "" };
            let _ = write!(
                text,
                "{{\"delete\":{{\"machine\":[{}]}},\"insert\":{{\"machine\":[{}]{limit}}}}}",
                sides[0].join(","),
                sides[1].join(",")
            );
            let transaction = transaction(&program.schema, &text);
            let lines: Vec<String> =
                runs.iter_mut().map(|run| line(&run.commit(&transaction), &program.schema)).collect();
            assert!(lines.iter().all(|other| *other == lines[0]), "{text}\n{lines:#?}");
            let wanted = pool.with(&next.keys().map(|name| vec![Value::from(*name)]).collect());
            match wanted {
                Err(left) => {
                    let message = format!(
                        "{{\"txn\":1,\"error\":{{\"code\":\"range\",\"message\":\"table label: every number from 5 to 9 is \
                         in use, and none is left for [\\\"{}\\\"]; delete owners that are no longer needed, or give \
                         the hook a wider range\"}}}}",
                        left[0].to_string().trim_matches('"')
                    );
                    assert_eq!(lines[0], message);
                    full += 1;
                }
                Ok(wanted) if refuse && !wanted.given.is_empty() => {
                    assert!(lines[0].contains(r#""code":"range","message":"table share: "#), "{}", lines[0]);
                    refused += 1;
                }
                Ok(_) if refuse => break,
                Ok(wanted) => {
                    assert!(!lines[0].contains("error"), "{}", lines[0]);
                    (pool, machines) = (wanted, next);
                    accepted += 1;
                }
            }
            let rows: Vec<Row> = pool.rows().into_iter().collect();
            for run in &mut runs {
                assert_eq!(run.contents(label).as_ref(), Ok(&rows));
            }
        }
    }
    assert!(!is_whole || (full > 20 && refused > 20 && accepted > 100), "{full} {refused} {accepted}");
}

#[test]
fn each_value_of_the_scope_has_its_own_numbers() {
    let program = compile(
        "input table wanted(name: string, host: string);
         input table zone(name: string, host: string, zone: int) key(name, host)
             from allocate(wanted, first: 1, last: 2, scope: host);
         output table zones(host: string, zone: int, name: string) key(host, zone);
         zones(host, zone, name) :- zone(name, host, zone);",
    );
    for engine in WORKERS {
        let mut run = engine.hooked(&program, Tables::Outputs, false);
        let mut commit = |text: &str| {
            let transaction = transaction(&program.schema, text);
            line(&run.commit(&transaction), &program.schema)
        };
        assert_eq!(
            commit(r#"{"insert":{"wanted":[["a","g"],["a","h"],["b","h"]]}}"#),
            r#"{"txn":1,"insert":{"zones":[["g",1,"a"],["h",1,"a"],["h",2,"b"]]},"delete":{}}"#
        );
        assert_eq!(
            commit(r#"{"insert":{"wanted":[["c","g"],["c","h"]]}}"#),
            r#"{"txn":1,"error":{"code":"range","message":"table zone: every number from 1 to 2 is in use for \"h\", and none is left for [\"c\",\"h\"]; delete owners that are no longer needed, or give the hook a wider range"}}"#
        );
        assert_eq!(
            commit(r#"{"insert":{"wanted":[["c","g"]]}}"#),
            r#"{"txn":1,"insert":{"zones":[["g",2,"c"]]},"delete":{}}"#
        );
    }
    let wiring = &program.hooks[0];
    assert_eq!(wiring.text(&program.schema), "allocate(wanted, first: 1, last: 2, scope: host)");
}

/// One evaluator after the other for one history: each starts from the inputs and the memories of the one before.
struct Restarted {
    engine: Engine,
    program: Arc<Program>,
    run: Box<dyn Evaluator>,
}

impl Restarted {
    fn restart(&mut self, memories: Memories) {
        let mut inputs = Transaction::default();
        for (table, declared) in self.program.schema.iter() {
            if declared.role == Role::Input && self.program.hook_of(table).is_none() {
                inputs.insert.insert(table, self.run.contents(table).expect("it runs"));
            }
        }
        self.run = self.engine.hooked(&self.program, Tables::All, false);
        self.run.restore(&memories).expect("the program has these hooks");
        self.run.commit(&inputs).expect("the memories fit");
    }
}

/// A random replacement of machines, and the machines afterwards.
fn step(random: &mut Random, machines: &BTreeSet<&'static str>) -> (String, BTreeSet<&'static str>) {
    let mut next = machines.clone();
    let mut sides = [Vec::new(), Vec::new()];
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().filter(|_| random.chance(25)) {
        let gone = next.remove(name);
        if !gone {
            next.insert(name);
        }
        sides[usize::from(!gone)].push(format!("[\"{name}\",\"h\"]"));
    }
    let [delete, insert] = sides.map(|rows| rows.join(","));
    (format!("{{\"delete\":{{\"machine\":[{delete}]}},\"insert\":{{\"machine\":[{insert}]}}}}"), next)
}

/// Restarts from the memories of the evaluator, and from those that recorded rows add up to, refusals and undone
/// transactions: no difference to a pool without any of that.
#[test]
fn numbers_survive_restarts_refusals_and_undone_transactions() {
    let (mut restarts, mut undone, mut full, mut again) = (0, 0, 0, 0);
    let seeds = test_random::seeds!("numbers_survive_restarts_refusals_and_undone_transactions", 60);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = compile(PROGRAM);
        let label = program.schema.find("label").expect("it is declared");
        let engine = *random.pick(&WORKERS);
        let run = engine.hooked(&program, Tables::All, false);
        let mut restarted = Restarted { engine, program: Arc::clone(&program), run };
        let mut recorded = Recorded::new(&program);
        let (mut pool, mut machines) = (Pool::new(5, 9, None), BTreeSet::new());
        for _ in 0..40 {
            if random.chance(20) {
                let memories = restarted.run.memories();
                assert_eq!(recorded.memories(), memories, "seed {seed}");
                restarted.restart(memories);
                restarts += 1;
            }
            let (text, next) = step(&mut random, &machines);
            let change = transaction(&program.schema, &text);
            let undo = random.chance(30);
            if undo {
                restarted.run.checkpoint();
            }
            let wanted = pool.with(&next.iter().map(|name| vec![Value::from(*name)]).collect());
            match (restarted.run.commit(&change), wanted) {
                (Ok(_), Ok(_)) if undo => {
                    let (more, _) = step(&mut random, &next);
                    let more = transaction(&program.schema, &more);
                    if restarted.run.commit(&more).is_ok() {
                        restarted.run.undo(&more).expect("it was accepted");
                    }
                    restarted.run.undo(&change).expect("it was accepted");
                    undone += 1;
                }
                (Ok(committed), Ok(wanted)) => {
                    let rows = |rows: &[Row]| rows.iter().map(|row| cells(row)).collect::<Vec<_>>();
                    if let Some(TableDelta { insert, delete, .. }) = committed.delta.tables.get(&label) {
                        recorded.follow("label", &rows(delete), &rows(insert)).expect("the hook did it");
                    }
                    again += usize::from(gives_again(&pool, &wanted));
                    (pool, machines) = (wanted, next);
                }
                (Err(CommitError::Refused(_)), Err(_)) => full += 1,
                (said, wanted) => panic!("seed {seed}: {said:?}, but a pool says {wanted:?}"),
            }
            let rows: Vec<Row> = pool.rows().into_iter().collect();
            assert_eq!(restarted.run.contents(label), Ok(rows), "seed {seed}");
        }
    }
    let counts = [restarts, undone, full, again];
    assert!(!is_whole || counts.iter().all(|count| *count > 100), "{counts:?}");
}

fn cells(row: &[Value]) -> Vec<serde_json::Value> {
    row.iter().map(nlog_data::json::to_json).collect()
}

const SCOPED: &str = "
    input table wanted(name: string, host: string);
    input table zone(name: string, host: string, zone: int) key(name, host)
        from allocate(wanted, first: 1, last: 9, scope: host);
    output table zones(host: string, zone: int, name: string) key(host, zone);
    zones(host, zone, name) :- zone(name, host, zone);";

/// A memory can come in the middle of a history: the rows of the table change to those that it knows.
#[test]
fn a_memory_replaces_the_present_one_as_a_part_of_the_next_transaction() {
    let program = compile(SCOPED);
    let memory = serde_json::json!({
        "given": [["a", "g", 7], ["b", "g", 1], ["x", "h", 2]],
        "released": [["g", 4], ["g", 2], ["g", 3], ["g", 6], ["g", 5], ["h", 1]],
        "next": [["g", 8], ["h", 3]],
    });
    for engine in WORKERS {
        let mut run = engine.hooked(&program, Tables::All, false);
        let mut commit = |text: &str, memory: Option<&serde_json::Value>| {
            let memories = memory.map(|memory| ("zone".to_owned(), memory.clone())).into_iter().collect();
            run.restore(&memories).expect("a hook fills zone");
            let result = run.commit(&transaction(&program.schema, text));
            (line(&result, &program.schema), run.memories()["zone"].clone())
        };
        let (_, before) = commit(r#"{"insert":{"wanted":[["a","g"],["b","g"],["c","g"]]}}"#, None);
        let mut wrong = memory.clone();
        wrong["given"][0][2] = 4.into();
        let (said, after) = commit(r#"{"insert":{"wanted":[["d","g"]]}}"#, Some(&wrong));
        assert_eq!(
            said,
            r#"{"txn":1,"error":{"code":"type-mismatch","message":"the memory of the hook that fills table \"zone\" does not fit: number 4 is there twice"}}"#
        );
        assert_eq!(after, before, "a refused memory leaves no trace");
        // The number of x, which nobody wants, is released; c and d get the numbers that are next.
        let (said, after) = commit(r#"{"insert":{"wanted":[["d","g"]]}}"#, Some(&memory));
        let changes = |rows: &str| said.contains(&format!(r#""zone":[{rows}]"#));
        assert!(changes(r#"["a","g",7],["b","g",1],["c","g",8],["d","g",9]"#), "{said}");
        assert!(changes(r#"["a","g",1],["b","g",2],["c","g",3]"#), "{said}");
        assert_eq!(after["released"].as_array().map(Vec::len), Some(7), "{after}");
        assert_eq!(after["next"], serde_json::json!([["g", 10], ["h", 3]]));
    }
}

#[test]
fn a_memory_that_does_not_fit_is_refused_with_the_reason() {
    let program = compile(SCOPED);
    let cases = [
        (r#"{"given":[["a","g",1]],"next":[]}"#, "it has number 1, and the hook gives those from 1 to 9"),
        (
            r#"{"given":[["a","g",10]],"next":[["g",11]]}"#,
            "it has number 10, and the hook gives those from 1 to 9",
        ),
        (r#"{"given":[["a","g",2]],"next":[["g",3]]}"#, "a number is neither given nor released"),
        (r#"{"given":[["a","g",1],["a","g",2]],"next":[["g",3]]}"#, r#"["a","g"] has two numbers"#),
        (r#"{"given":[["a","g",1]],"released":[["g",1]],"next":[["g",2]]}"#, "number 1 is there twice"),
        (
            r#"{"given":[["a","g",3]],"released":[["g",[[1,2],[2,2]]]],"next":[["g",4]]}"#,
            "the range [2,2] does not follow",
        ),
        (r#"{"given":[["a","g",2]],"released":[["g",[[1,2]]]],"next":[["g",3]]}"#, "number 2 is there twice"),
        (
            r#"{"given":[["a","g",1]],"released":[["g",[2]]],"next":[["g",3]]}"#,
            "2 is no range: [FIRST, LAST]",
        ),
        (r#"{"given":[["a","g",1]],"next":[[2]]}"#, "a number has no scope, but the hook has one"),
        (r#"{"given":[["a",1]],"next":[["g",2]]}"#, "a row has 2 values instead of 3"),
        (
            r#"{"given":[[5,"g",1]],"next":[["g",2]]}"#,
            "column \"name\": expected a value of type string, found 5",
        ),
        (r#"{"next":[["g",2]]}"#, "missing field `given`"),
        (r#"{"rows":[],"given":[],"next":[]}"#, "unknown field `rows`"),
    ];
    for (memory, why) in cases {
        let memory: serde_json::Value = serde_json::from_str(memory).expect("the test writes JSON");
        let refused = Recorded::new(&program).restore("zone", &memory).expect_err("it does not fit");
        assert!(
            refused.starts_with("the memory of the hook that fills table \"zone\" does not fit: "),
            "{refused}"
        );
        assert!(refused.contains(why), "{refused} does not say {why}");
    }
    let mut run = Engine::Fused(1).hooked(&program, Tables::All, false);
    let other = [("wanted".to_owned(), serde_json::Value::Null)].into();
    assert_eq!(
        run.restore(&other).map_err(|error| error.message),
        Err("there is a memory for table \"wanted\", but no hook with a memory fills this table".to_owned())
    );
    // Nobody can have given these.
    let row = |name: &str, number: i64| vec![name.into(), "g".into(), number.into()];
    let mut recorded = Recorded::new(&program);
    recorded.follow("zone", &[], &[row("a", 3)]).expect("numbers may be passed over");
    assert_eq!(recorded.memories()["zone"]["released"], serde_json::json!([["g", [[1, 2]]]]));
    for (delete, insert, why) in [
        (vec![], vec![row("b", 3)], "[\"b\",\"g\"] gets number 3, which is in use"),
        (vec![], vec![row("a", 4)], "[\"a\",\"g\"] gets number 4, but has one"),
        (vec![], vec![row("b", 12)], "it has number 12, and the hook gives those from 1 to 9"),
        (vec![row("a", 4)], vec![], "[\"a\",\"g\"] loses number 4, which it does not have"),
    ] {
        let refused = recorded.follow("zone", &delete, &insert).expect_err("nobody did it");
        assert!(refused.contains(why), "{refused} does not say {why}");
    }
}

#[test]
fn p2_an_owner_with_another_identity_gets_another_number() {
    let program = compile(
        "input table wanted(name: string, tenant: string) key(name);
         input table number(name: string, number: int) key(name)
             from allocate(wanted, first: 1, last: 3, identity: tenant);
         output table numbers(name: string, number: int) key(number);
         numbers(name, number) :- number(name, number);",
    );
    for engine in WORKERS {
        let mut run = engine.hooked(&program, Tables::Outputs, false);
        let mut commit = |text: &str| {
            let transaction = transaction(&program.schema, text);
            line(&run.commit(&transaction), &program.schema)
        };
        let commit_all = [
            (
                r#"{"insert":{"wanted":[["a","x"],["b","x"]]}}"#,
                r#"{"txn":1,"insert":{"numbers":[["a",1],["b",2]]},"delete":{}}"#,
            ),
            (
                r#"{"delete":{"wanted":[["a","x"]]},"insert":{"wanted":[["a","y"]]}}"#,
                r#"{"txn":1,"insert":{"numbers":[["a",3]]},"delete":{"numbers":[["a",1]]}}"#,
            ),
            // The number that was released last is the last to be given again.
            (
                r#"{"delete":{"wanted":[["b","x"]]},"insert":{"wanted":[["b","y"],["c","y"]]}}"#,
                r#"{"txn":1,"insert":{"numbers":[["b",1],["c",2]]},"delete":{"numbers":[["b",2]]}}"#,
            ),
        ];
        for (text, wanted) in commit_all {
            assert_eq!(commit(text), wanted);
        }
    }
}
