//! The behaviour of hooks as users see it, one aspect at a time, in every engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::{ENGINES, Engine, Random, compile, line, said, transaction};
use nlog::Program;
use nlog::program::BodyItem;
use nlog_data::{Evaluator, Role, Row, TableId, Tables, Transaction, Type, Value, literal};
use nlog_dataflow::{Dataflow, Options};

/// A program with hooks in all engines, which must agree.
struct Runs {
    program: Arc<Program>,
    engines: Vec<Box<dyn Evaluator>>,
}

impl Runs {
    fn new(text: &str) -> Self {
        Self::with(text, Tables::Outputs, false)
    }

    fn with(text: &str, observe: Tables, attribute: bool) -> Self {
        let program = compile(text);
        let start = |engine: crate::support::Engine| engine.hooked(&program, observe.clone(), attribute);
        let engines = ENGINES.into_iter().map(start).collect();
        Runs { program, engines }
    }

    #[track_caller]
    fn all(&mut self, run: impl Fn(&mut Box<dyn Evaluator>, bool) -> String) -> String {
        let full: Vec<String> = self.engines.iter_mut().map(|engine| run(engine, true)).collect();
        assert!(full.iter().all(|other| *other == full[0]), "{full:#?}");
        full[0].clone()
    }

    /// The line for a transaction.
    #[track_caller]
    fn commit(&mut self, text: &str) -> String {
        let program = Arc::clone(&self.program);
        let transaction = transaction(&program.schema, text);
        self.all(|engine, _| said(&engine.commit(&transaction), &program.schema))
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    #[track_caller]
    fn tick(&mut self, now: u64) -> String {
        let program = Arc::clone(&self.program);
        self.all(|engine, _| line(&engine.tick(now), &program.schema))
    }
}

impl Runs {
    /// The last tick, as the memories tell it.
    fn now(&mut self) -> u64 {
        let memory = self.all(|engine, _| engine.memories()["stable"]["now"].to_string());
        memory.parse().expect("a number")
    }
}

const GRAPH: &str = "
    input table cable(a: int, b: int);
    input table watched(node: int);
    input table component(node: int, component: int) key(node) from connected_components(link);
    output table link(a: int, b: int);
    output table watcher(component: int, node: int) key(component);
    link(a, b) :- cable(a, b);
    watcher(c, node) :- component(node, c), watched(node);
";

#[test]
fn what_a_hook_makes_is_in_the_transaction_that_it_follows_from() {
    let mut runs = Runs::with(GRAPH, Tables::All, false);
    assert_eq!(
        runs.commit(r#"{"insert":{"cable":[[3,2],[2,1]],"watched":[[3]]}}"#),
        r#"{"txn":1,"insert":{"cable":[[2,1],[3,2]],"component":[[1,1],[2,1],[3,1]],"link":[[2,1],[3,2]],"watched":[[3]],"watcher":[[1,3]]},"delete":{}}"#
    );
    assert_eq!(
        runs.commit(r#"{"delete":{"cable":[[2,1]]}}"#),
        r#"{"txn":1,"insert":{"component":[[2,2],[3,2]],"watcher":[[2,3]]},"delete":{"cable":[[2,1]],"component":[[1,1],[2,1],[3,1]],"link":[[2,1]],"watcher":[[1,3]]}}"#
    );
    assert_eq!(runs.commit(r#"{"insert":{"cable":[[3,2]]}}"#), r#"{"txn":1,"insert":{},"delete":{}}"#);
}

/// With the cable cut, two may watch. Neither the new watcher nor the cut is checked alone.
#[test]
fn nothing_in_between_is_checked() {
    let mut runs = Runs::new(GRAPH);
    runs.commit(r#"{"insert":{"cable":[[1,2],[2,3],[3,4]],"watched":[[1]]}}"#);
    assert_eq!(
        runs.commit(r#"{"insert":{"watched":[[4]]}}"#),
        r#"{"txn":1,"error":{"code":"key-conflict","message":"table watcher: the rules derive two rows with the same key (component: 1): node is 1 in one and 4 in the other"}}"#
    );
    assert_eq!(
        runs.commit(r#"{"insert":{"watched":[[4]]},"delete":{"cable":[[2,3]]}}"#),
        r#"{"txn":1,"insert":{"watcher":[[3,4]]},"delete":{"link":[[2,3]]}}"#
    );
    let again = runs.commit(r#"{"insert":{"cable":[[1,4]]}}"#);
    assert!(again.contains("key-conflict"), "the hook brings them together: {again}");
    assert_eq!(
        runs.commit(r#"{"insert":{"cable":[[4,1]]},"delete":{"watched":[[1]]}}"#),
        r#"{"txn":1,"insert":{"link":[[4,1]],"watcher":[[1,4]]},"delete":{"watcher":[[1,1],[3,4]]}}"#
    );
}

#[test]
fn a_hooks_table_is_the_hooks() {
    let mut runs = Runs::new(GRAPH);
    for text in [r#"{"insert":{"component":[[1,1]]}}"#, r#"{"delete":{"component":[[1,1]]}}"#] {
        assert_eq!(
            runs.commit(text),
            r#"{"txn":1,"error":{"code":"not-an-input","message":"table component is filled by hook connected_components; change the tables that link is derived from instead"}}"#
        );
    }
    let mut runs = Runs::new(
        "input table a(k: int, v: int) key(k); input table m(x: int, y: int) from connected_components(o); input table z(k: int) key(k);
         output table o(k: int, v: int); o(k, v) :- a(k, v), z(k); output table p(x: int); p(x) :- m(x, _);",
    );
    // The first error by table name.
    let before = runs.commit(r#"{"insert":{"a":[[1,1],[1,2]],"m":[[1,1]]}}"#);
    assert!(before.contains("duplicate-key"), "{before}");
    let own = runs.commit(r#"{"insert":{"m":[[1,1]],"z":[[1]]}}"#);
    assert!(own.contains("not-an-input"), "{own}");
}

#[test]
fn facts_come_with_the_first_transaction_that_is_accepted() {
    let mut runs = Runs::new(
        "input table cable(a: int, b: int); input table component(node: int, component: int) key(node) from connected_components(link);
         input table x(x: int);
         output table link(a: int, b: int); link(7, 8); link(a, b) :- cable(a, b);
         output table n(c: int, n: int); n(c, count(node)) :- component(node, c);
         output table inverse(y: int); inverse(10 / x) :- x(x), component(_, _);",
    );
    let refused = runs.commit(r#"{"insert":{"x":[[0]],"cable":[[1,2]]}}"#);
    assert!(refused.contains(r#""code":"range""#), "only the fact's component makes it fail: {refused}");
    assert_eq!(
        runs.commit(r#"{"insert":{"cable":[[8,9]]}}"#),
        r#"{"txn":1,"insert":{"link":[[7,8],[8,9]],"n":[[7,3]]},"delete":{}}"#
    );
}

/// Deleting everything does not restore an empty history: the default would then cause an error.
#[test]
fn a_first_transaction_that_is_refused_leaves_nothing() {
    let mut runs = Runs::new(
        "input table cable(a: int, b: int) key(a); input table zero(x: int); input table bad(x: int);
         input table component(node: int, component: int) key(node) from connected_components(link);
         output table link(a: int, b: int) key(a);
         default link(0, 1 / x) :- zero(x); link(a, b) :- cable(a, b);
         output table inverse(y: int); inverse(1 / x) :- bad(x);
         output table n(c: int, n: int); n(c, count(node)) :- component(node, c);",
    );
    let refused = runs.commit(r#"{"insert":{"zero":[[0]],"cable":[[0,5]],"bad":[[0]]}}"#);
    assert!(refused.contains("table inverse"), "{refused}");
    let upstream = runs.commit(r#"{"insert":{"zero":[[0]],"bad":[[0]]}}"#);
    assert!(upstream.contains("table link"), "what a hook depends on comes first: {upstream}");
    assert_eq!(
        runs.commit(r#"{"insert":{"zero":[[0]],"cable":[[0,5]]}}"#),
        r#"{"txn":1,"insert":{"link":[[0,5]],"n":[[0,2]]},"delete":{}}"#
    );
}

const FLAPPING: &str = "
    input table report(port: string, up: bool) key(port);
    input table stable(port: string) from hysteresis(up, rise: 1000, fall: 500);
    input table component(a: string, b: string) from connected_components(pair);
    output table up(port: string);
    output table usable(port: string, n: int) key(port);
    table pair(a: string, b: string);
    up(port) :- report(port, true);
    usable(port, 7) :- stable(port);
    pair(a, b) :- stable(a), stable(b);
    output table named(b: string); named(b) :- component(_, b);
";

#[test]
fn ticks_are_transactions() {
    let mut runs = Runs::new(FLAPPING);
    assert_eq!(
        runs.commit(r#"{"insert":{"report":[["p",true]]}}"#),
        r#"{"txn":1,"insert":{"up":[["p"]]},"delete":{}}"#
    );
    assert_eq!(runs.tick(5000), r#"{"txn":1,"insert":{},"delete":{}}"#);
    assert_eq!(
        runs.tick(4999),
        r#"{"txn":1,"error":{"code":"range","message":"tick 4999 is earlier than the previous tick 5000; ticks must not decrease"}}"#
    );
    assert_eq!(
        runs.tick(5000),
        r#"{"txn":1,"insert":{},"delete":{}}"#,
        "the same time again is no step back"
    );
    // Its consequences, also through other hooks, are in the tick's delta.
    assert_eq!(runs.tick(6000), r#"{"txn":1,"insert":{"named":[["p"]],"usable":[["p",7]]},"delete":{}}"#);
    assert_eq!(runs.now(), 6000);
    runs.commit(r#"{"insert":{"report":[["p",false]]},"delete":{"report":[["p",true]]}}"#);
    runs.tick(6100);
    runs.commit(r#"{"insert":{"report":[["p",true]]},"delete":{"report":[["p",false]]}}"#);
    assert_eq!(runs.tick(60000), r#"{"txn":1,"insert":{},"delete":{}}"#, "it was away for a short time");
}

#[test]
fn a_tick_that_is_refused_never_was() {
    let mut runs = Runs::new(
        "input table report(port: int); input table limit(x: int); input table stable(port: int) from hysteresis(up, rise: 10, fall: 10);
         output table up(port: int); up(port) :- report(port);
         output table share(port: int, n: int); share(port, port / x) :- stable(port), limit(x);",
    );
    runs.commit(r#"{"insert":{"report":[[8]],"limit":[[0]]}}"#);
    runs.tick(0);
    for now in [10, 20] {
        assert!(runs.tick(now).contains(r#""code":"range","message":"table share"#));
    }
    assert_eq!(runs.now(), 0);
    runs.commit(r#"{"insert":{"limit":[[2]]},"delete":{"limit":[[0]]}}"#);
    assert_eq!(runs.tick(9), r#"{"txn":1,"insert":{},"delete":{}}"#, "time is where it was");
    assert_eq!(runs.tick(10), r#"{"txn":1,"insert":{"share":[[8,4]]},"delete":{}}"#);
}

#[test]
fn a_tick_without_a_timed_hook_is_a_mistake() {
    let mut runs = Runs::new(GRAPH);
    assert!(runs.tick(1).contains(r#""code":"bad-json","message":"tick 1: the program has no timed hook"#));
}

#[test]
fn counts_and_rules_are_those_of_the_whole_transaction() {
    let mut runs = Runs::with(GRAPH, Tables::All, true);
    let program = Arc::clone(&runs.program);
    let load = transaction(
        &program.schema,
        r#"{"insert":{"cable":[[1,2],[1,2]],"watched":[[2]]},"delete":{"cable":[[7,7]]}}"#,
    );
    let watcher = program.schema.find("watcher").expect("the test declares it");
    for engine in &mut runs.engines {
        let committed = engine.commit(&load).expect("nothing is wrong with it");
        assert_eq!((committed.redundant_inserts, committed.redundant_deletes), (1, 1));
        let delta = &committed.delta.tables[&watcher];
        assert_eq!(delta.insert, [vec![Value::Int(1), Value::Int(2)]]);
        assert_eq!(delta.rules, [program.rules_of(watcher).next().expect("it has one").0]);
    }
}

#[test]
fn a_change_elsewhere_costs_a_hook_nothing() {
    let program = compile(GRAPH);
    let costs = [10, 100, 1000].map(|pairs| {
        let mut engine = Dataflow::new(Arc::clone(&program), Options::default()).expect("it starts");
        let commit = |engine: &mut Dataflow, text: &str| {
            engine.commit(&transaction(&program.schema, text)).expect("nothing is wrong with it");
            let profile = engine.profile().expect("it works");
            profile.hooks[0].work
        };
        let cables: Vec<String> = (0..pairs).map(|at| format!("[{},{}]", 2 * at, 2 * at + 1)).collect();
        let before = commit(&mut engine, &format!(r#"{{"insert":{{"cable":[{}]}}}}"#, cables.join(",")));
        let elsewhere = commit(&mut engine, r#"{"insert":{"watched":[[2]]}}"#);
        assert_eq!(elsewhere, before, "its source did not change");
        commit(&mut engine, r#"{"insert":{"cable":[[1,2]]}}"#) - before
    });
    assert_eq!(costs, [costs[0]; 3]);
    assert!(costs[0] > 0);
}

/// The built-in rules with random rows in the tables that they read: allocated numbers, held choices and components among
/// them.
#[test]
fn the_projects_rules_agree_with_their_hooks() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let sources = nlog::Sources::load(&[folder]).expect("the rules are there");
    let program = nlog::compile(&sources).program.expect("they compile");
    let read = program.rules.iter().flat_map(|rule| &rule.body).filter_map(|item| match item {
        BodyItem::Atom { table, .. } => Some(*table),
        _ => None,
    });
    let read: BTreeSet<TableId> = read.filter(|table| program.hook_of(*table).is_none()).collect();
    let inputs: Vec<TableId> =
        read.into_iter().filter(|table| program.schema.table(*table).role == Role::Input).collect();
    for seed in test_random::seeds!("the_projects_rules_agree_with_their_hooks", 2) {
        let mut random = Random::new(seed);
        let observe = Tables::These(program.schema.iter().map(|(id, _)| id).collect());
        let ways = [Engine::Reference, Engine::Fused(1), Engine::Fused(2), Engine::Fused(3)];
        let mut engines = ways.map(|way| way.hooked(&program, observe.clone(), false));
        let mut filled = 0;
        for step in 0..25 {
            let mut transaction = Transaction::default();
            for _ in 0..=random.below(20) {
                let id = *random.pick(&inputs);
                let table = program.schema.table(id);
                let row: Option<Row> =
                    table.columns.iter().map(|column| value(&mut random, &column.name, &column.ty)).collect();
                let Some(row) = row else { continue };
                let there = engines[0].contents(id).expect("it works").into_iter();
                let there = there.filter(|other| table.key_of(other) == table.key_of(&row));
                transaction.delete.entry(id).or_default().extend(there);
                let rows = transaction.insert.entry(id).or_default();
                rows.retain(|other| table.key_of(other) != table.key_of(&row));
                if random.chance(80) {
                    rows.push(row);
                }
            }
            let results = engines.each_mut().map(|engine| engine.commit(&transaction));
            let lines = results.each_ref().map(|result| line(result, &program.schema));
            assert!(lines.iter().all(|other| *other == lines[0]), "seed {seed}, step {step}: {lines:#?}");
            filled += program
                .hooks
                .iter()
                .filter(|wiring| lines[0].contains(&program.schema.table(wiring.to).name))
                .count();
            assert!(engines.iter().all(|engine| engine.memories() == engines[0].memories()), "seed {seed}");
        }
        assert!(filled > 0, "seed {seed}: hooks have work");
    }
}

/// A value from a small domain, so that rows join. `None` if the test has no values of the type.
fn value(random: &mut Random, column: &str, ty: &Type) -> Option<Value> {
    let number = random.below(3);
    // Gateways need nodes of their role: nearly all transactions would be refused.
    if column == "gateways" {
        return Some(Value::None);
    }
    Some(match ty.base() {
        Type::Enum(of) if column == "role" => Value::from(of.members.first()?.clone()),
        Type::Enum(of) => Value::from(of.members.get(number as usize)?.clone()),
        Type::String if column == "tunnel" => {
            Value::String(["weft-geneve", "weft-vxlan", "weft-gre"][number as usize].into())
        }
        Type::String if column == "mac" => Value::String("02:00:00:00:00:01".into()),
        Type::String if column == "node" => Value::String(format!("h{number}").into()),
        Type::String => Value::String(format!("{}{number}", &column[..1]).into()),
        Type::Int => Value::Int(1 + number as i64),
        Type::Ip => Value::Ip([10, 0, 0, number as u8].into()),
        Type::Bool => Value::Bool(number > 0),
        Type::Net => literal::parse(&format!("10.0.{number}.0/24")).ok()?,
        Type::Opt(_) if random.chance(60) => Value::None,
        Type::Opt(of) => value(random, column, of)?,
        Type::Set(of) => Value::set(value(random, column, of)),
        Type::List(of) => Value::list(value(random, column, of)),
        Type::Mac => literal::parse(&format!(r#"mac"02:00:00:00:00:0{number}""#)).ok()?,
        _ => return None,
    })
}
