//! Lints: valid programs that are probably not as intended.
//!
//! Names (`variables`, `tables`, `bare_fields`) and bodies (`product`) are examined as each rule is checked. The other lints run
//! only on a program without errors, because a mistake would mislead them: `firing` (rules that derive nothing) with
//! `bindings` and `domain` (what variables can be), `keys` (rows with one key), `flows` (stages and priorities that nobody reserves) and `sums` with `chase` (what must be
//! equal), `injective` and `shape` (what functions and matches tell apart).
//!
//! A lint warns of faults that it can prove, or of code that it cannot prove safe although a proof should be easy;
//! an author who knows better can allow the warning in place (`allowances`).

mod bare_fields;
mod bindings;
mod chase;
mod domain;
mod firing;
mod flows;
mod injective;
mod keys;
mod product;
mod shape;
mod sums;
mod tables;
mod variables;

use std::collections::BTreeMap;

use nlog_data::Role;

use super::CheckedRule;
use super::cycles;
use super::declarations::Declarations;
use super::hooks::Filling;
use super::recursion::Dependency;
use crate::diagnostic::Reports;
use crate::program::{BodyItem, HeadTerm};
use crate::syntax::ast::Span;
use injective::Injective;

pub(super) use flows::flows;
pub(super) use tables::unused_tables;

/// A program without errors.
struct WholeProgram<'a> {
    declarations: &'a Declarations<'a>,
    rules: &'a [CheckedRule<'a>],
    /// For each table, the rules that fill it.
    rules_of: Vec<Vec<usize>>,
    /// For each table, the places where it is read.
    readers: Vec<Vec<Span>>,
    /// The tables in topological order: a rule's body tables precede its head.
    order: Vec<usize>,
    /// The group columns of tables that one rule with aggregates fills: each group has one row.
    groups: BTreeMap<usize, Vec<usize>>,
    /// The columns that a hook keeps unique in the table that it fills.
    uniques: BTreeMap<usize, Vec<usize>>,
}

/// Runs the lints on a program without errors and recursion.
pub(super) fn whole_program<'a>(
    declarations: &'a Declarations<'a>,
    rules: &'a [CheckedRule<'a>],
    dependencies: &[Dependency],
    fillings: &[Filling],
    reports: &mut Reports,
) {
    let whole = WholeProgram::new(declarations, rules, dependencies, fillings);
    let firing = firing::check(&whole, reports);
    let mut injective = Injective::default();
    keys::check(&whole, &firing, &mut injective, reports);
    sums::check(&whole, &firing, &mut injective, reports);
}

/// Whether a hook reads here: no rule fills an input table.
fn is_hook(declarations: &Declarations<'_>, dependency: &Dependency) -> bool {
    declarations.tables[dependency.head].role == Role::Input
}

impl<'a> WholeProgram<'a> {
    fn new(
        declarations: &'a Declarations<'a>,
        rules: &'a [CheckedRule<'a>],
        dependencies: &[Dependency],
        fillings: &[Filling],
    ) -> Self {
        let count = declarations.tables.len();
        let mut rules_of = vec![Vec::new(); count];
        let mut readers = vec![Vec::new(); count];
        for (number, checked) in rules.iter().enumerate() {
            rules_of[checked.rule.head.0 as usize].push(number);
            for (item, &span) in checked.rule.body.iter().zip(&checked.spans) {
                if let BodyItem::Atom { table, .. } = item {
                    readers[table.0 as usize].push(span);
                }
            }
        }
        for dependency in dependencies.iter().filter(|dependency| is_hook(declarations, dependency)) {
            readers[dependency.reads].push(dependency.atom);
        }
        let mut edges = vec![Vec::new(); count];
        for dependency in dependencies {
            edges[dependency.head].push(dependency.reads);
        }
        for reads in &mut edges {
            reads.sort_unstable();
            reads.dedup();
        }
        let groups = rules_of.iter().enumerate().filter_map(|(table, numbers): (usize, &Vec<usize>)| {
            let &[number] = numbers.as_slice() else { return None };
            let terms = &rules[number].rule.terms;
            let group = |term: &HeadTerm| matches!(term, HeadTerm::Value(_));
            let columns: Vec<usize> = (0..terms.len()).filter(|&column| group(&terms[column])).collect();
            (columns.len() < terms.len()).then_some((table, columns))
        });
        let groups = groups.collect();
        let order = cycles::dependencies_first(&edges);
        let uniques = fillings.iter().filter_map(|filling| filling.unique(declarations)).collect();
        WholeProgram { declarations, rules, rules_of, readers, order, groups, uniques }
    }

    /// The sets of columns that each identify a row of the table.
    fn keys(&self, table: usize) -> impl Iterator<Item = &[usize]> {
        let declared = self.declarations.tables[table].key.as_deref();
        let key = declared.or_else(|| self.groups.get(&table).map(Vec::as_slice));
        let declared = self.declarations.tables[table].uniques.iter();
        key.into_iter().chain(declared.chain(self.uniques.get(&table)).map(Vec::as_slice))
    }
}
