//! Work, not time: what a change of fixed size costs does not grow with the state nor with the number of rules that it
//! does not touch.
//!
//! Work is counted from outside, by a function in the rules that counts how often it is called: once for each binding
//! that comes to it.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nlog::Program;
use nlog::program::{BodyItem, Expr};
use nlog_data::{Delta, Evaluator, Function, Results, TableId, Transaction, Type, Value, function};
use nlog_dataflow::{Dataflow, Options};
use support::{ENGINES, compile, way::start};

/// Ports of a switch see each other; what stands for a host is told to all others; rules count what comes to them.
const PROGRAM: &str = "
    input table port(lport: int, switch: int) key(lport);
    input table at(lport: int, hv: int) key(lport);
    input table locator(hv: int, ip: int) key(hv);
    output table peer(lport: int, other: int, ip: int);
    output table remote(hv: int, ip: int);
    output table ports(switch: int, n: int) key(switch);
    table pair(lport: int, other: int);
    pair(p, q) :- port(p, s), port(q, s), max_of(p, s) >= 0, max_of(q, s) >= 0, p != q;
    peer(p, q, ip) :- pair(p, q), at(q, g), locator(g, ip), max_of(q, g) >= 0, max_of(p, ip) >= 0;
    remote(h, ip) :- at(p, h), peer(p, _, ip), max_of(p, ip) >= 0, max_of(h, h) >= 0;
    ports(s, count(p)) :- port(p, s), max_of(p, p) >= 0;
";

const PORTS_OF_A_SWITCH: i64 = 4;

/// A port that is not there in the beginning.
const NEW: i64 = 1_000_000;

/// Rules that have nothing to do with those above, each over tables of its own.
fn unrelated(rules: usize) -> String {
    let rule = |number: usize| {
        format!(
            "input table x{number}(a: int, b: int); input table y{number}(b: int, c: int);
             output table z{number}(a: int, c: int);
             z{number}(a, c) :- x{number}(a, b), y{number}(b, c), max_of(a, c) >= 0;\n"
        )
    };
    (0..rules).map(rule).collect()
}

/// The program whose conditions count how often they are asked.
fn counted(text: &str) -> (Arc<Program>, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let like = &function::lookup("max_of")[0];
    let counter = Arc::clone(&calls);
    // Of integers, so that no results are remembered.
    let (mut parameters, mut results) = (like.parameters.clone(), like.results.clone());
    for column in parameters.iter_mut().chain(&mut results) {
        column.shape = function::Shape::Is(Type::Int);
    }
    let counting = Arc::new(Function {
        name: "counting".into(),
        parameters,
        variadic: false,
        results,
        multiplicity: function::Multiplicity::One,
        may_fail: false,
        doc: "for this test".into(),
        examples: Vec::new(),
        evaluate: Box::new(move |arguments| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Results::One(arguments[0].clone()))
        }),
    });
    let mut program = Program::clone(&compile(text));
    let mut replaced = 0;
    for item in program.rules.iter_mut().flat_map(|rule| &mut rule.body) {
        if let BodyItem::Filter(Expr::Call { arguments, .. }) = item
            && let Some(Expr::Call { function, .. }) = arguments.first_mut()
            && *function.name == *"max_of"
        {
            *function = Arc::clone(&counting);
            replaced += 1;
        }
    }
    assert_eq!(replaced, text.matches("max_of").count(), "every condition counts");
    (Arc::new(program), calls)
}

fn id(program: &Program, name: &str) -> TableId {
    program.schema.find(name).expect("the program declares it")
}

fn row(values: [i64; 2]) -> Vec<Value> {
    values.map(Value::Int).to_vec()
}

/// So many switches, on a hundredth as many hosts, and ten rows in every other input.
fn state(program: &Program, switches: i64) -> Transaction {
    let hosts = 8.max(switches / 100);
    let ports = switches * PORTS_OF_A_SWITCH;
    let mut all = Transaction::default();
    all.insert.insert(id(program, "port"), (0..ports).map(|p| row([p, p / PORTS_OF_A_SWITCH])).collect());
    all.insert.insert(id(program, "at"), (0..ports).map(|p| row([p, p % hosts])).collect());
    all.insert.insert(id(program, "locator"), (0..hosts).map(|h| row([h, 1000 + h])).collect());
    for (table, declared) in program.schema.iter() {
        if declared.name.starts_with(['x', 'y']) {
            all.insert.insert(table, (0..10).map(|at| row([at, at])).collect());
        }
    }
    all
}

/// The changes whose cost is looked at: a port moves, one comes, and both are undone.
fn changes(program: &Program) -> Vec<Transaction> {
    let (port, at) = (id(program, "port"), id(program, "at"));
    let change = |delete: &[(TableId, [i64; 2])], insert: &[(TableId, [i64; 2])]| {
        let mut transaction = Transaction::default();
        for (table, values) in delete {
            transaction.delete.entry(*table).or_default().push(row(*values));
        }
        for (table, values) in insert {
            transaction.insert.entry(*table).or_default().push(row(*values));
        }
        transaction
    };
    vec![
        change(&[(at, [1, 1])], &[(at, [1, 7])]),
        change(&[], &[(port, [NEW, 5]), (at, [NEW, 3])]),
        change(&[(at, [1, 7])], &[(at, [1, 1])]),
        change(&[(port, [NEW, 5]), (at, [NEW, 3])], &[]),
    ]
}

/// For loading and for each change: how often conditions were asked, and how many rows of outputs changed.
fn costs(text: &str, switches: i64, options: Options) -> Vec<(u64, usize)> {
    let (program, calls) = counted(text);
    let mut engine: Dataflow = start(Arc::clone(&program), options);
    let transactions = std::iter::once(state(&program, switches)).chain(changes(&program));
    let rows = |delta: &Delta| {
        delta.tables.values().map(|changed| changed.insert.len() + changed.delete.len()).sum::<usize>()
    };
    transactions
        .map(|transaction| {
            let before = calls.load(Ordering::Relaxed);
            let committed = engine.commit(&transaction).expect("nothing is wrong with it");
            (calls.load(Ordering::Relaxed) - before, rows(&committed.delta))
        })
        .collect()
}

#[test]
fn a_change_costs_what_it_touches_whatever_the_state() {
    for (engine, workers) in ENGINES {
        let options = Options { engine, workers, ..Options::default() };
        let small = costs(PROGRAM, 100, options.clone());
        for (asked, changed) in &small {
            assert!(*asked > 0 && *changed > 0, "{engine:?}: every change is seen: {small:?}");
            assert!(*asked < 50 * *changed as u64, "{engine:?}: nothing else is looked at: {small:?}");
        }
        for switches in [1_000, 10_000] {
            let large = costs(PROGRAM, switches, options.clone());
            // How many rows of `remote` change depends on who else needs them.
            let asked =
                |costs: &[(u64, usize)]| costs[1..].iter().map(|(asked, _)| *asked).collect::<Vec<_>>();
            assert_eq!(asked(&small), asked(&large), "{engine:?}, {workers} workers, {switches} switches");
            let times = switches as u64 / 100;
            assert!(large[0].0 <= small[0].0 * times * 11 / 10, "{engine:?}: loading is linear");
        }
    }
}

#[test]
fn rules_that_a_change_does_not_touch_cost_nothing() {
    for (engine, workers) in ENGINES {
        let options = Options { engine, workers, ..Options::default() };
        let alone = costs(PROGRAM, 100, options.clone());
        for rules in [10, 100] {
            let among_others = costs(&(PROGRAM.to_owned() + &unrelated(rules)), 100, options.clone());
            assert_eq!(alone[1..], among_others[1..], "{engine:?}, {workers} workers, {rules} more rules");
            assert_eq!(among_others[0].0, alone[0].0 + 10 * rules as u64, "{engine:?}: they are loaded");
        }
    }
}
