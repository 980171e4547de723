//! What is unique in tables that rules fill.
//!
//! Each `unique(…)` becomes a hidden table, whose key the engines check like any other. From
//!
//! ```text
//! table t(k: int, a: int, b: int) key(k) unique(a);
//! ```
//!
//! the hidden table `t.unique.a` with the columns of `t` and `key(a)` results, and the rule
//!
//! ```text
//! t.unique.a(k, a, b) :- t(k, a, b);
//! ```
//!
//! Errors show `t` in its place ([`DerivedError::key_conflict`](nlog_data::DerivedError::key_conflict)). Input tables need
//! none of this: what is unique in them is checked like their keys, before rules see their rows.

use nlog_data::function::hash_values;
use nlog_data::{Role, Table, TableId, Value};

use super::defaults::{Parts, renumbered};
use crate::program::{BodyItem, Expr, HeadTerm, Place, Rule, Term, Variable, VariableId};

/// Adds the hidden tables and their rules. `place_of` tells where the table of a name is declared.
pub(super) fn compile(parts: Parts, place_of: impl Fn(&str) -> Place) -> Parts {
    let Parts { tables, mut rules, order } = parts;
    // The hidden tables, by the old number of the table that each checks.
    let mut hidden: Vec<(usize, Table)> = Vec::new();
    for (at, table) in tables.iter().enumerate().filter(|(_, table)| table.role != Role::Input) {
        hidden.extend(table.uniques.iter().map(|columns| (at, hidden_table(table, columns))));
    }
    if hidden.is_empty() {
        return Parts { tables, rules, order };
    }
    let mut all: Vec<(Option<usize>, usize, Table)> =
        tables.into_iter().enumerate().map(|(at, table)| (None, at, table)).collect();
    all.extend(hidden.into_iter().map(|(of, table)| (Some(of), of, table)));
    all.sort_by(|(.., a), (.., b)| a.name.cmp(&b.name));
    let mut numbers = vec![TableId(0); all.len()];
    let mut checks: Vec<Vec<TableId>> = vec![Vec::new(); all.len()];
    for ((check_of, at, _), id) in all.iter().zip((0..).map(TableId)) {
        match check_of {
            Some(of) => checks[*of].push(id),
            None => numbers[*at] = id,
        }
    }
    for rule in &mut rules {
        renumbered(rule, &numbers);
    }
    let tables: Vec<Table> = all.into_iter().map(|(.., table)| table).collect();
    for (of, checks) in numbers.iter().zip(&checks) {
        let table = &tables[of.0 as usize];
        rules.extend(checks.iter().map(|id| copy(*of, *id, &tables[id.0 as usize], place_of(&table.name))));
    }
    let with_checks = |old: &TableId| {
        let old = old.0 as usize;
        std::iter::once(numbers[old]).chain(checks[old].iter().copied())
    };
    let order = order.iter().flat_map(with_checks).collect();
    Parts { tables, rules, order }
}

fn hidden_table(table: &Table, columns: &[usize]) -> Table {
    let names: Vec<&str> = columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
    Table {
        name: format!("{}.unique.{}", table.name, names.join(".")),
        role: Role::Hidden,
        columns: table.columns.clone(),
        key: Some(columns.to_vec()),
        uniques: Vec::new(),
        doc: String::new(),
    }
}

/// The rule that copies the rows of a table to a hidden one.
fn copy(from: TableId, to: TableId, hidden: &Table, place: Place) -> Rule {
    let columns = &hidden.columns;
    let numbers = || (0..columns.len() as u32).map(VariableId);
    let variables =
        columns.iter().map(|column| Variable { name: column.name.clone(), ty: column.ty.clone() }).collect();
    let atom =
        BodyItem::Atom { table: from, terms: numbers().map(Term::Variable).collect(), place: place.clone() };
    let types = columns.iter().map(|column| format!("{}: {}", column.name, column.ty));
    let identity = std::iter::once(hidden.name.clone()).chain(types);
    let identity: Vec<Value> = identity.map(|part| Value::String(part.as_str().into())).collect();
    let names = hidden.key.iter().flatten().map(|column| columns[*column].name.as_str());
    Rule {
        head: to,
        terms: numbers().map(|at| HeadTerm::Value(Expr::Variable(at))).collect(),
        variables,
        body: vec![atom],
        fingerprint: hash_values(&identity) as u64,
        place,
        text: format!("unique({})", names.collect::<Vec<_>>().join(", ")).into(),
        docs: None,
    }
}
