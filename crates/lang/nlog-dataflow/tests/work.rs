//! Work instead of time: the cost of a change of fixed size grows neither with the state nor with the number of rules
//! that the change does not touch.
//!
//! A function in the rules measures the work from outside. It counts its calls, one for each binding that reaches it.
//! The engine also has counters of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{compile, setup::start};
use nlog::Program;
use nlog::program::{BodyItem, Expr};
use nlog_data::{Columns, Delta, Evaluator, Function, Results, TableId, Transaction, Type, Value, function};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::{Counter, Settings, Statistics};

/// Ports of a switch see each other, the data of a host is sent to all other hosts, and rules count the bindings that
/// reach them.
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

/// Numbers of workers.
const WORKERS: [usize; 3] = [1, 2, 4];

/// A port that does not exist at first.
const NEW: i64 = 1_000_000;

/// Rules that are unrelated to those above, each over its own tables.
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

/// Compiles the program so that its conditions count their evaluations.
fn counted(text: &str) -> (Arc<Program>, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let like = &function::lookup("max_of")[0];
    let counter = Arc::clone(&calls);
    // The function takes integers, so that engines do not cache its results.
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
        definition: "".into(),
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

/// This many switches, a hundredth as many hosts, and ten rows in every other input.
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

/// The changes to measure: a port moves, a new port appears, and both are undone.
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

/// The cost of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    /// The number of evaluated conditions.
    asked: u64,
    /// The engine's own counters.
    work: Work,
    /// Rows of outputs that changed.
    changed: usize,
}

/// The engine's own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    /// Runs of pipelines: one for each atom of a rule that has changes. Counted by worker 0 alone, so meaningful only
    /// with one worker.
    runs: u64,
    /// Changed rows that pipelines started with.
    rows: u64,
    /// Bindings that probes found.
    bindings: u64,
    /// Rows of heads that pipelines produced.
    derived: u64,
}

impl Work {
    /// The work of all workers of an engine so far.
    fn of(engine: &mut Dataflow) -> Self {
        let profile = engine.profile().expect("it works");
        let pipelines = profile.rules.iter().flat_map(|rule| &rule.pipelines);
        let runs = pipelines.map(|pipeline| pipeline.runs).sum();
        let workers = || profile.workers.iter();
        Work {
            runs: if workers().len() == 1 { runs } else { 0 },
            rows: workers().map(|load| load.rows).sum(),
            bindings: workers().map(|load| load.bindings).sum(),
            derived: workers().map(|load| load.derived).sum(),
        }
    }

    fn since(self, before: Work) -> Self {
        Work {
            runs: self.runs - before.runs,
            rows: self.rows - before.rows,
            bindings: self.bindings - before.bindings,
            derived: self.derived - before.derived,
        }
    }
}

/// The costs of loading and of each change.
fn costs(text: &str, switches: i64, options: Options) -> Vec<Cost> {
    let (program, calls) = counted(text);
    // Use the same plan for all sizes.
    let options = Options { plan_anew_from: usize::MAX, ..options };
    let mut engine: Dataflow = start(Arc::clone(&program), options);
    let transactions = std::iter::once(state(&program, switches)).chain(changes(&program));
    let rows = |delta: &Delta| {
        delta.tables.values().map(|changed| changed.insert.len() + changed.delete.len()).sum::<usize>()
    };
    transactions
        .map(|transaction| {
            let (asked, work) = (calls.load(Ordering::Relaxed), Work::of(&mut engine));
            let committed = engine.commit(&transaction).expect("nothing is wrong with it");
            Cost {
                asked: calls.load(Ordering::Relaxed) - asked,
                work: Work::of(&mut engine).since(work),
                changed: rows(&committed.delta),
            }
        })
        .collect()
}

/// The costs of the changes, without loading. Leaves out changed rows: how many rows of `remote` change depends on the
/// other hosts that need them.
fn work(costs: &[Cost]) -> Vec<(u64, Work)> {
    costs[1..].iter().map(|cost| (cost.asked, cost.work)).collect()
}

#[test]
fn a_change_costs_what_it_touches_whatever_the_state() {
    for workers in WORKERS {
        let options = Options { workers, ..Options::default() };
        let small = costs(PROGRAM, 100, options.clone());
        for Cost { asked, work, changed } in &small {
            assert!(*asked > 0 && *changed > 0, "every change is seen: {small:?}");
            let most = 50 * *changed as u64;
            assert!(*asked < most && work.bindings < most, "nothing else is touched: {small:?}");
            assert!(work.bindings > 0, "the engine counts: {small:?}");
        }
        for switches in [1_000, 10_000] {
            let large = costs(PROGRAM, switches, options.clone());
            assert_eq!(work(&small), work(&large), "{workers} workers, {switches} switches");
            let times = switches as u64 / 100;
            assert!(large[0].asked <= small[0].asked * times * 11 / 10, "loading is linear");
        }
    }
}

#[test]
fn rules_that_a_change_does_not_touch_cost_nothing() {
    for workers in WORKERS {
        let options = Options { workers, ..Options::default() };
        let alone = costs(PROGRAM, 100, options.clone());
        for rules in [10, 100] {
            let among_others = costs(&(PROGRAM.to_owned() + &unrelated(rules)), 100, options.clone());
            assert_eq!(work(&alone), work(&among_others), "{workers} workers, {rules} more rules");
            // Every worker has the rows, so each may evaluate the condition before only one of them continues.
            let more = among_others[0].asked - alone[0].asked;
            let once = 10 * rules as u64;
            assert!((once..=once * workers as u64).contains(&more), "they are loaded: {more}");
        }
    }
}

/// All workers share a load: each has more than half of its fair share.
#[test]
fn workers_share_the_work() {
    let (program, _) = counted(PROGRAM);
    let mut alone = start(Arc::clone(&program), Options::default());
    alone.commit(&state(&program, 1_000)).expect("nothing is wrong with it");
    let alone = alone.profile().expect("it works").workers[0].bindings;
    for workers in [2, 4] {
        let options = Options { workers, ..Options::default() };
        let mut engine = start(Arc::clone(&program), options);
        engine.commit(&state(&program, 1_000)).expect("nothing is wrong with it");
        let profile = engine.profile().expect("it works");
        assert_eq!(profile.workers.len(), workers);
        let bindings: Vec<u64> = profile.workers.iter().map(|load| load.bindings).collect();
        println!("{workers} workers: bindings {bindings:?}");
        let all = bindings.iter().sum::<u64>();
        assert!(all <= 2 * alone, "what one can do is not done by each: {bindings:?}, alone {alone}");
        let fair = all / workers as u64;
        assert!(bindings.iter().all(|of_worker| *of_worker > fair / 2), "{bindings:?}");
    }
}

/// A row of `mid` joins many rows of `left` (ten to fifty) and hardly any of `right`.
const SKEWED: &str = "
    input table left(k: int, x: int);
    input table mid(k: int, j: int);
    input table right(j: int, w: int);
    output table hit(x: int, w: int, k: int, j: int);
    hit(x, w, k, j) :- left(k, x), mid(k, j), right(j, w);
";

/// Rows of [`SKEWED`] in order of arrival, with their tables.
type Arriving = Vec<(&'static str, [i64; 2])>;

/// Most rows arrive last, after all rows of the tables that they join.
fn many_last() -> Arriving {
    let rows = (0..1_000).map(|at| ("left", [at % 20, at]));
    let rows = rows.chain((0..10).map(|at| ("right", [at * 7, at])));
    rows.chain((0..5_000).map(|at| ("mid", [at % 20, at]))).collect()
}

/// No rows join before the last tenth of the transactions.
fn few_last() -> Arriving {
    let rows = (0..5_000).map(|at| ("left", [at % 510, at]));
    let rows = rows.chain((0..10).map(|at| ("right", [at * 1_000, at])));
    rows.chain((0..590).map(|at| ("mid", [at % 510, at]))).collect()
}

/// Transactions of a hundred rows each, after an empty one, with which a controller begins.
fn arriving(program: &Program, rows: &Arriving) -> Vec<Transaction> {
    let transactions = rows.chunks(100).map(|rows| {
        let mut transaction = Transaction::default();
        for (table, values) in rows {
            transaction.insert.entry(id(program, table)).or_default().push(row(*values));
        }
        transaction
    });
    std::iter::once(Transaction::default()).chain(transactions).collect()
}

/// The statistics of all rows that arrive.
fn statistics(program: &Program, transactions: &[Transaction]) -> Statistics {
    let mut all = Transaction::default();
    for (table, rows) in transactions.iter().flat_map(|transaction| &transaction.insert) {
        all.insert.entry(*table).or_default().extend(rows.iter().cloned());
    }
    let counter = Counter::new(program);
    let tables = all.insert.iter().map(|(table, rows)| {
        let rows = Columns::from_rows(rows).expect("rows of a table are of one width");
        (program.schema.table(*table).name.clone(), counter.count(*table, &rows))
    });
    Statistics { tables: tables.collect() }
}

/// The number of rows that the last tenth of the transactions touches.
fn touched_last(program: &Arc<Program>, transactions: &[Transaction], options: Options, idle: bool) -> u64 {
    let mut engine = start(Arc::clone(program), options);
    let first = transactions.len() * 9 / 10;
    let mut touched = 0;
    for (at, transaction) in transactions.iter().enumerate() {
        let before = Work::of(&mut engine);
        engine.commit(transaction).expect("nothing is wrong with it");
        let work = Work::of(&mut engine).since(before);
        touched += if at >= first { work.rows + work.bindings } else { 0 };
        if idle {
            engine.idle().expect("it works");
        }
    }
    touched
}

/// An engine that starts empty adopts a plan that touches at most twice as many rows as the plan for the final rows.
#[test]
fn plans_follow_the_rows_that_arrive() {
    let program = compile(SKEWED);
    for (name, rows) in [("many last", many_last()), ("few last", few_last())] {
        let transactions = arriving(&program, &rows);
        let statistics = Some(Arc::new(statistics(&program, &transactions)));
        for workers in [1, 2] {
            let options = || Options { workers, ..Options::default() };
            let last = |options, idle| touched_last(&program, &transactions, options, idle);
            let planning = Settings { statistics: statistics.clone(), ..Settings::default() };
            let informed = last(Options { planning, ..options() }, false);
            let kept = last(Options { plan_anew_from: usize::MAX, ..options() }, false);
            assert!(kept > 8 * informed, "{name}: there is nothing to gain: {kept} rows, not {informed}");
            for idle in [false, true] {
                let touched = last(options(), idle);
                assert!(
                    touched <= 2 * informed,
                    "{name}, {workers} workers, idle {idle}: {touched} rows, not {informed}"
                );
            }
        }
    }
}

/// The plan of a load estimates tables that hooks fill. That one of them stays empty, or has few rows, is no reason to plan again.
#[test]
fn the_plan_of_a_load_stays_if_hooks_fill_fewer_rows_than_it_estimates() {
    let program = compile(
        "input table port(lport: int, switch: int) key(lport);
         input table limit(lport: int, rate: int) key(lport);
         input table link(from: int, to: int) key(from, to);
         table limited(lport: int, rate: int) key(lport);
         limited(p, r) :- limit(p, r), port(p, _);
         input table meter(lport: int, rate: int, number: int) key(lport, rate)
             from allocate(limited, first: 1, last: 65535);
         table near(switch: int, other: int);
         near(s, t) :- link(p, q), port(p, s), port(q, t);
         input table part(switch: int, root: int) key(switch) from connected_components(near);
         output table metered(lport: int, number: int, switch: int);
         metered(p, n, s) :- meter(p, _, n), port(p, s);
         output table together(lport: int, root: int);
         together(p, root) :- port(p, s), part(s, root);",
    );
    let mut load = Transaction::default();
    load.insert.insert(id(&program, "port"), (0..30_000).map(|p| row([p, p / 3_000])).collect());
    load.insert.insert(id(&program, "link"), (0..30_000).map(|p| row([p, (p + 3_000) % 30_000])).collect());
    for workers in WORKERS {
        let mut engine = start(Arc::clone(&program), Options { workers, ..Options::default() });
        engine.commit(&load).expect("nothing is wrong with it");
        let of_load: *const _ = engine.plan();
        let [meters, parts] =
            ["meter", "part"].map(|name| engine.contents(id(&program, name)).expect("it is there").len());
        assert_eq!((meters, parts), (0, 10));
        engine.idle().expect("it works");
        assert!(std::ptr::eq(of_load, engine.plan()), "{workers} workers: it was planned again");
    }
}

/// An engine whose caller lets it work in idle time collects unused symbols then, so no transaction goes over all rows.
#[test]
fn symbols_are_collected_in_idle_time() {
    let program = compile("input table a(x: string); output table b(x: string); b(x) :- a(x);");
    let a = id(&program, "a");
    let rows = |from: usize, count: usize| -> Vec<Vec<Value>> {
        (from..from + count).map(|number| vec![Value::from(format!("name {number}"))]).collect()
    };
    let (all, some) = (20_000, 500);
    for idle in [true, false] {
        let mut engine = start(Arc::clone(&program), Options::default());
        let symbols = |engine: &mut Dataflow| engine.profile().expect("it works").symbols;
        let load = Transaction { insert: [(a, rows(0, all))].into(), ..Transaction::default() };
        engine.commit(&load).expect("nothing is wrong with it");
        let (mut in_transactions, mut most) = (0, 0);
        for step in 0..120 {
            let before = symbols(&mut engine);
            let replace = Transaction {
                insert: [(a, rows(all + step * some, some))].into(),
                delete: [(a, rows(step * some, some))].into(),
            };
            engine.commit(&replace).expect("nothing is wrong with it");
            let after = symbols(&mut engine);
            in_transactions += usize::from(after < before);
            most = most.max(after);
            if idle {
                engine.idle().expect("it works");
            }
        }
        assert_eq!(in_transactions == 0, idle, "{in_transactions} collections in transactions");
        assert!(most <= if idle { all * 8 / 5 } else { all * 21 / 10 }, "{most} symbols, idle {idle}");
    }
}
