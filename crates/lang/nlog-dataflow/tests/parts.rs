//! A part of a program derives the same rows of its tables as the whole program does.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::generate::Case;
use crate::support::{Random, compile, transaction};
use nlog::Program;
use nlog_data::{CommitError, Evaluator as _, Role, TableId, Tables};
use nlog_dataflow::{Dataflow, Options};
use test_random::seeds;

fn engine(program: &Arc<Program>) -> Dataflow {
    let options = Options { observe: Tables::All, ..Options::default() };
    Dataflow::new(Arc::clone(program), options).expect("it starts")
}

/// The tables that users see and rules derive.
fn derived(program: &Program) -> Vec<TableId> {
    let tables = program.schema.iter();
    tables.filter(|(_, table)| !matches!(table.role, Role::Input | Role::Hidden)).map(|(id, _)| id).collect()
}

#[test]
fn the_rules_that_a_table_depends_on_derive_it() {
    let (mut compared, mut left_out) = (0, 0);
    for seed in seeds!("the_rules_that_a_table_depends_on_derive_it", 120) {
        let case = Case::random(seed + 3_000_000);
        let Some(program) = case.compile() else { continue };
        let mut random = Random::new(seed);
        let all = derived(&program);
        let tables: BTreeSet<TableId> = all.iter().filter(|_| random.chance(30)).copied().collect();
        let part = Arc::new(program.only(tables.clone()));
        left_out += program.rules.len() - part.rules.len();
        let (mut whole, mut part) = (engine(&program), engine(&part));
        for step in 0..case.steps() {
            let next = case.transaction(step, &program, &mut |table| whole.contents(table).unwrap());
            match whole.commit(&next) {
                Ok(_) => part.commit(&next).unwrap(),
                Err(CommitError::Refused(_)) => continue,
                Err(error) => panic!("seed {seed}: {error}"),
            };
            for &table in &tables {
                let name = &program.schema.table(table).name;
                assert_eq!(
                    part.contents(table),
                    whole.contents(table),
                    "seed {seed}, step {step}: {name}\n{case}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 100 && left_out > 100, "{compared} tables compared, {left_out} rules left out");
}

#[test]
fn a_part_has_the_rules_of_the_hooks_that_it_depends_on() {
    let program = compile(
        "input table pair(a: string, b: string); table edge(a: string, b: string); edge(a, b) :- pair(a, b);
         input table component(a: string, of: string) from connected_components(edge);
         table group(of: string); group(of) :- component(_, of);
         input table number(of: string, number: int) key(of) from allocate(group, first: 1, last: 9);
         output table named(a: string, number: int); named(a, number) :- component(a, of), number(of, number);
         output table other(a: string); other(a) :- pair(a, _);",
    );
    let named = program.schema.find("named").expect("it is declared");
    let part = Arc::new(program.only(BTreeSet::from([named])));
    assert_eq!((program.rules.len(), part.rules.len()), (4, 3));
    let (mut whole, mut part) = (engine(&program), engine(&part));
    for line in [
        r#"{"insert": {"pair": [["a","b"],["c","d"]]}}"#,
        r#"{"insert": {"pair": [["b","c"]]}}"#,
        r#"{"delete": {"pair": [["a","b"]]}}"#,
    ] {
        let next = transaction(&program, line);
        whole.commit(&next).unwrap();
        part.commit(&next).unwrap();
        let rows = part.contents(named).unwrap();
        assert!(!rows.is_empty());
        assert_eq!(rows, whole.contents(named).unwrap(), "{line}");
    }
}
