//! Rows that replace others, as an object with a long list does when an element changes: rules that take the list apart
//! derive what the reference does, and a change of one element is one row for those that read nothing else of the list.

use std::collections::BTreeMap;

use crate::support::{Random, Runs, compile};
use nlog_data::{Evaluator as _, TableId, Tables, Transaction, Value};
use nlog_dataflow::{Dataflow, Options};

const PROGRAM: &str = "
    input table group(id: int, items: list<int>, to: int) key(id);
    input table wanted(x: int);
    output table member(id: int, x: int);
    output table ranked(id: int, rank: int, x: int);
    output table position(id: int, rank: int);
    output table listed(items: list<int>, x: int);
    output table found(id: int, x: int, to: int);
    output table spread(id: int, n: int);
    output table size(id: int, n: int) key(id);
    output table quotient(x: int);
    member(id, x) :- group(id, items, _), element(items, x);
    ranked(id, rank, x) :- group(id, items, _), element_at(items, rank, x);
    position(id, rank) :- group(id, items, _), element_at(items, rank, _);
    listed(items, x) :- group(_, items, _), element(items, x);
    found(id, x, to) :- group(id, items, to), element(items, x), wanted(x), x != to;
    spread(id, n) :- group(id, _, to), range(0, to, n);
    size(id, count(x)) :- group(id, items, _), element(items, x);
    quotient(100 / x) :- group(_, items, _), element(items, x);
";

fn list(items: &[i64]) -> Value {
    Value::list(items.iter().copied().map(Value::Int))
}

/// Changes a few places of a list, or its order.
fn edit(items: &mut Vec<i64>, random: &mut Random) {
    for _ in 0..random.below(4) {
        let at = random.below(items.len() as u64 + 1) as usize;
        if at < items.len() && random.chance(40) {
            items.remove(at);
        } else {
            // Some elements occur twice, and a few cannot be divided by.
            items.insert(at, random.below(60) as i64);
        }
    }
    if random.chance(10) {
        items.reverse();
    }
}

#[test]
fn engines_agree_on_rows_that_are_replaced() {
    let program = compile(PROGRAM);
    let table = |name: &str| program.schema.find(name).expect("it is declared");
    let (group, wanted) = (table("group"), table("wanted"));
    let (mut accepted, mut refused) = (0, 0);
    for seed in test_random::seeds!("engines_agree_on_rows_that_are_replaced", 20) {
        let mut random = Random::new(seed);
        let mut runs = Runs::new(&program, &Tables::All, true);
        let mut groups: BTreeMap<i64, (Vec<i64>, i64)> = BTreeMap::new();
        for step in 0..30 {
            let mut transaction = Transaction::default();
            let row = |id: i64, (items, to): &(Vec<i64>, i64)| vec![id.into(), list(items), (*to).into()];
            let before = groups.clone();
            for id in 0..4 {
                let (items, to) = groups.entry(id).or_default();
                if random.chance(50) {
                    edit(items, &mut random);
                }
                if random.chance(20) {
                    *to = random.below(5) as i64;
                }
                if random.chance(10) {
                    groups.remove(&id);
                }
            }
            let rows = |of: &BTreeMap<i64, _>| of.iter().map(|(id, group)| row(*id, group)).collect();
            transaction.delete.insert(group, rows(&before));
            transaction.insert.insert(group, rows(&groups));
            let some = if random.chance(50) { &mut transaction.insert } else { &mut transaction.delete };
            some.insert(wanted, vec![vec![(random.below(60) as i64).into()]]);
            let line = runs.commit(&transaction);
            assert!(runs.agreed(), "seed {seed}, step {step}: {line}\n{}", runs.difference());
            if runs.refused() {
                groups = before;
                refused += 1;
            } else {
                accepted += 1;
            }
        }
    }
    assert!(accepted > 4 * refused && refused > 0, "{accepted} accepted, {refused} refused");
}

/// The rows of heads that pipelines have derived so far.
fn derived(engine: &mut Dataflow) -> u64 {
    let profile = engine.profile().expect("it works");
    profile.rules.iter().flat_map(|rule| &rule.pipelines).map(|pipeline| pipeline.derived).sum()
}

#[test]
fn an_element_more_in_a_long_list_derives_one_row() {
    let text = "
        input table group(id: int, items: list<int>) key(id);
        input table use(by: int, id: int);
        output table member(id: int, x: int);
        output table used(by: int, x: int);
        member(id, x) :- group(id, items), element(items, x);
        used(by, x) :- use(by, id), group(id, items), element(items, x);
    ";
    let program = compile(text);
    let table = |name: &str| program.schema.find(name).expect("it is declared");
    let (group, uses) = (table("group"), table("use"));
    let mut engine = Dataflow::new(program.clone(), Options::default()).expect("it starts");
    let row = |items: &[i64]| vec![vec![1.into(), list(items)]];
    let replace = |before: &[i64], after: &[i64]| Transaction {
        delete: [(group, row(before))].into(),
        insert: [(group, row(after))].into(),
    };
    let insert =
        |table: TableId, rows| Transaction { insert: [(table, rows)].into(), ..Transaction::default() };
    let mut items: Vec<i64> = (0..1000).collect();
    engine.commit(&insert(group, row(&items))).expect("nothing is wrong with it");
    engine.commit(&insert(uses, vec![vec![1.into(), 1.into()]])).expect("nothing is wrong with it");
    for at in [1000, 0, 500] {
        let before = items.clone();
        items.insert(at, 5000 + at as i64);
        for (from, to) in [(&before, &items), (&items, &before), (&before, &items)] {
            let done = derived(&mut engine);
            engine.commit(&replace(from, to)).expect("nothing is wrong with it");
            // One of each table.
            assert_eq!(derived(&mut engine) - done, 2, "at {at}");
        }
    }
}
