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
/// through keys that hold.
///
/// Keys that are checked only after rows are derived are not relied on. A transaction that is later refused can
/// violate them, and every further violation must then be detected too.
pub(crate) fn keys_that_hold(program: &Program) -> Vec<bool> {
    let mut holds: Vec<bool> = program.schema.iter().map(|(_, table)| table.role == Role::Input).collect();
    for table in &program.order {
        let mut rules = program.rules_of(*table).map(|(_, rule)| rule);
        if let (Some(rule), None) = (rules.next(), rules.next()) {
            holds[table.0 as usize] = key_follows(program, rule, &holds);
        }
    }
    holds
}

/// Whether a rule's bindings that agree on the head's key columns agree on all columns.
fn key_follows(program: &Program, rule: &Rule, holds: &[bool]) -> bool {
    let Some(key) = &program.schema.table(rule.head).key else { return false };
    let body = Body::new(rule, &program.schema);
    let is_sound = |atom: &usize| {
        let table = TableId(body.atoms[*atom].relation.0);
        holds[table.0 as usize] || program.schema.table(table).key.is_none()
    };
    let sound = (0..body.atoms.len()).filter(is_sound);
    let knowledge = body.knowledge(sound);
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
