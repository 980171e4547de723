//! The keys that certainly hold, and the tables that are needed.

use std::collections::BTreeSet;

use nlog::Program;
use nlog::program::{Aggregate, Expr, HeadTerm, Rule};
use nlog_data::{Role, TableId};

use crate::analysis::{may_fail, variables_of};
use crate::body::Body;
use crate::dependency::Variables;

/// By table, whether its declared key is certain to hold. This is true for input tables, whose keys are checked
/// before rules see their rows, and for tables with a single rule whose key columns determine the other columns
/// through keys that hold. The same goes for what else is unique; a hidden table that checks it has it as its key.
///
/// Keys that are checked only after rows are derived are not relied on. A transaction that is later refused can
/// violate them, and every further violation must then be detected too.
pub(crate) fn keys_that_hold(program: &Program) -> Vec<bool> {
    let schema = &program.schema;
    // The keys that hold, by table.
    let mut sound: Vec<Vec<&[usize]>> = vec![Vec::new(); schema.len()];
    for (id, table) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
        sound[id.0 as usize] = table.keys().collect();
    }
    let mut holds: Vec<bool> = schema.iter().map(|(_, table)| table.role == Role::Input).collect();
    for table in &program.order {
        let mut rules = program.rules_of(*table).map(|(_, rule)| rule);
        if let (Some(rule), None) = (rules.next(), rules.next()) {
            let declared = schema.table(*table);
            let follows = |key: &&[usize]| key_follows(rule, key, &sound);
            sound[table.0 as usize] = declared.keys().filter(follows).collect();
            let held = &sound[table.0 as usize];
            holds[table.0 as usize] = declared.key.as_ref().is_some_and(|key| held.contains(&&key[..]));
        }
    }
    holds
}

/// Whether a rule's bindings that agree on these columns of the head agree on all columns, since the `sound` keys of
/// tables hold.
fn key_follows(rule: &Rule, key: &[usize], sound: &[Vec<&[usize]>]) -> bool {
    let body = Body::with_keys(rule, &|table| sound[table.0 as usize].clone());
    let knowledge = body.knowledge(0..body.atoms.len());
    let mut bound = Variables::new();
    for column in key {
        if let HeadTerm::Value(Expr::Variable(variable)) = &rule.terms[*column] {
            bound.insert(*variable);
        }
    }
    let determined = knowledge.closure(&bound);
    rule.terms.iter().enumerate().all(|(column, term)| match term {
        HeadTerm::Value(expr) => key.contains(&column) || variables_of(expr).is_subset(&determined),
        // Aggregates follow from the group, which consists of the other columns.
        HeadTerm::Aggregate { .. } => true,
    })
}

/// By table, whether it is wanted, read by a needed rule or by a hook, or a possible source of errors, such as a table that forbids
/// its rows.
pub(crate) fn needed(program: &Program, wanted: &BTreeSet<TableId>, keys_hold: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; program.schema.len()];
    for wiring in &program.hooks {
        needed[wiring.from.0 as usize] = true;
    }
    for table in program.order.iter().rev() {
        let at = table.0 as usize;
        let declared = program.schema.table(*table);
        if declared.role == Role::Input {
            // The changes of an input table are known without evaluating rules.
            continue;
        }
        let key_to_check = declared.key.is_some() && !keys_hold[at];
        let mut bodies = Vec::new();
        for (_, rule) in program.rules_of(*table) {
            bodies.push(Body::new(rule, &program.schema));
        }
        let forbids = declared.role == Role::Forbid;
        needed[at] |= wanted.contains(table) || key_to_check || forbids || bodies.iter().any(rule_may_fail);
        if needed[at] {
            for atom in bodies.iter().flat_map(|body| &body.atoms) {
                needed[atom.relation.0 as usize] = true;
            }
        }
    }
    needed
}

/// Whether evaluating a rule can fail.
pub(crate) fn rule_may_fail(body: &Body) -> bool {
    let sums =
        body.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { aggregate: Aggregate::Sum, .. }));
    sums || body.items.iter().any(|item| item.may_fail) || body.head_expressions().any(may_fail)
}
