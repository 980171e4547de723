//! `allocate` compared with a plain pool: alone, and behind the rules of a program in all engines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::support::{Engine, Random, compile, difference, line, transaction};
use nlog_data::{Evaluator, Row, Tables, Value};
use nlog_hooks::{Allocate, Hook, Hooked};

/// The numbers in the order in which they are given next, and the owners of the others. With a scope, each value of this
/// column has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pool {
    all: Vec<i64>,
    scope: Option<usize>,
    next: BTreeMap<Option<Value>, Vec<i64>>,
    given: BTreeMap<Row, i64>,
}

impl Pool {
    fn new(first: i64, last: i64, scope: Option<usize>) -> Self {
        Pool { all: (first..=last).collect(), scope, next: BTreeMap::new(), given: BTreeMap::new() }
    }

    fn next(&mut self, owner: &Row) -> &mut Vec<i64> {
        let scope = self.scope.map(|column| owner[column].clone());
        self.next.entry(scope).or_insert(self.all.clone())
    }

    /// The pool once these are its owners, or the owner for whom no number is left.
    fn with(&self, owners: &BTreeSet<Row>) -> Result<Pool, Row> {
        let mut pool = self.clone();
        for gone in self.given.keys().filter(|owner| !owners.contains(*owner)) {
            let number = pool.given.remove(gone);
            pool.next(gone).extend(number);
        }
        for owner in owners {
            if !pool.given.contains_key(owner) {
                if pool.next(owner).is_empty() {
                    return Err(owner.clone());
                }
                let number = pool.next(owner).remove(0);
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
    let new = after.given.iter().filter(|(owner, _)| !before.given.contains_key(*owner));
    new.into_iter()
        .any(|(_, number)| before.next.values().any(|next| next.contains(number) && next[0] > *number))
}

fn owner(name: &str, number: i64) -> Row {
    vec![Value::from(name), Value::Int(number)]
}

#[test]
fn random_owners_get_what_a_plain_pool_gives() {
    let (mut again, mut full, mut undone) = (0, 0, 0);
    let seeds = test_random::seeds!("random_owners_get_what_a_plain_pool_gives", 400);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let first = *random.pick(&[0, 1, 257, i64::MAX - 20]);
        let last = first + random.below(8) as i64;
        let scope = *random.pick(&[None, None, Some(0), Some(1)]);
        let mut hook = Allocate::new(first.cast_unsigned(), last.cast_unsigned(), scope);
        let mut pool = Pool::new(first, last, scope);
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
    Engine::Fused,
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
        let mut runs: Vec<Hooked<Box<dyn Evaluator>>> =
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
