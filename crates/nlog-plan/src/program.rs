//! All rules: which are needed, what they share, which tables need their duplicates removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog::program::{Aggregate, Expr, HeadTerm, Rule};
use nlog_data::{Role, TableId};

use crate::analysis::{may_fail, variables_of};
use crate::body::Body;
use crate::dependency::Variables;
use crate::estimate::Estimate;
use crate::indexes::{Indexes, settle};
use crate::joins::RulePlanner;
use crate::plan::Keep;
use crate::query::{Plan, Relation, RelationId};
use crate::statistics::Statistics;

/// What a planner is told beside the program.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What is known about the tables.
    pub statistics: Option<Statistics>,
}

impl Plan {
    /// Plans what it takes to know the wanted tables, and to meet every error that the program can meet.
    pub fn new(program: Arc<Program>, wanted: &BTreeSet<TableId>, settings: &Settings) -> Self {
        let keys_hold = keys_that_hold(&program);
        let needed = needed(&program, wanted, &keys_hold);
        let statistics = settings.statistics.as_ref();
        let mut estimates: Vec<Estimate> =
            program.schema.iter().map(|(_, table)| Estimate::of_input(table, statistics)).collect();
        let mut relations = relations(&program, wanted, &needed);
        let mut indexes = Indexes::default();
        let mut rules = Vec::new();
        let mut read = wanted.clone();
        for table in &program.order {
            let at = table.0 as usize;
            let mut derived: Option<Estimate> = None;
            for (id, rule) in program.rules_of(*table).filter(|_| needed[at]) {
                let body = Body::new(rule, &program.schema);
                read.extend(body.atoms.iter().map(|atom| TableId(atom.relation.0)));
                let mut planner = RulePlanner { estimates: &estimates, indexes: &mut indexes };
                let (plan, expected) = planner.plan(id, RelationId(table.0), &body);
                derived = Some(derived.map_or(expected.clone(), |others| others.or(&expected)));
                rules.push(plan);
            }
            let declared = program.schema.table(*table);
            if let Some(derived) = derived {
                estimates[at] = derived.corrected(declared, statistics);
            }
            relations[at].rows = estimates[at].rows;
            relations[at].counted = statistics.is_some_and(|known| known.tables.contains_key(&declared.name));
        }
        for table in program.order.iter().filter(|table| needed[table.0 as usize]) {
            relations[table.0 as usize].keep = keep(&program, *table, &keys_hold, &read);
        }
        rules.sort_by_key(|rule| rule.rule);
        let (indexes, places) = indexes.merge();
        for rule in &mut rules {
            for joins in std::iter::once(&mut rule.body).chain(&mut rule.failures) {
                for pipeline in &mut joins.pipelines {
                    settle(&mut pipeline.steps, &places);
                }
            }
        }
        Plan { program, relations, indexes, rules, warnings: Vec::new() }
    }

    /// Plans what it takes to know the output tables.
    pub fn for_outputs(program: Arc<Program>) -> Self {
        let outputs = program.schema.iter().filter(|(_, table)| table.role == Role::Output);
        let wanted = outputs.map(|(id, _)| id).collect();
        Plan::new(program, &wanted, &Settings::default())
    }
}

/// The program's tables, in their order.
fn relations(program: &Program, wanted: &BTreeSet<TableId>, needed: &[bool]) -> Vec<Relation> {
    let mut relations: Vec<Relation> = (program.schema.iter().zip(needed))
        .map(|((id, table), needed)| Relation {
            name: table.name.clone(),
            table: Some(id),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            needed: *needed,
            wanted: wanted.contains(&id),
            keep: Keep::AsIs,
            level: u32::from(table.role != Role::Input),
            rows: 0.0,
            counted: false,
        })
        .collect();
    for table in &program.order {
        for (_, rule) in program.rules_of(*table) {
            for atom in Body::new(rule, &program.schema).atoms {
                let below = relations[atom.relation.0 as usize].level;
                let level = &mut relations[table.0 as usize].level;
                *level = (*level).max(below + 1);
            }
        }
    }
    relations
}

/// How a table's rows become a set. `read`: the tables that are wanted or that rules read.
fn keep(program: &Program, table: TableId, keys_hold: &[bool], read: &BTreeSet<TableId>) -> Keep {
    let declared = program.schema.table(table);
    if declared.role == Role::Input {
        return Keep::AsIs;
    }
    if let Some(key) = declared.key.as_ref().filter(|_| !keys_hold[table.0 as usize]) {
        return Keep::Key(key.clone());
    }
    let mut rules = program.rules_of(table).map(|(_, rule)| Body::new(rule, &program.schema));
    let is_set = match (rules.next(), rules.next()) {
        (None, _) => true,
        (Some(body), None) => body.is_grouped() || body.is_unique(),
        (Some(_), Some(_)) => false,
    };
    // Of what nobody reads only failures matter.
    if is_set || !read.contains(&table) { Keep::AsIs } else { Keep::Distinct }
}

/// By table, whether its declared key holds whatever the rows are: input tables, whose keys are checked before rules
/// see them, and tables with one rule whose key columns determine the others by keys that hold.
///
/// Keys that are checked only once rows are derived are not relied on: they can be broken while a transaction is
/// tried, and then every further key that they break has to be noticed too.
fn keys_that_hold(program: &Program) -> Vec<bool> {
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
        // Aggregates follow from the group, which the other columns are.
        HeadTerm::Aggregate { .. } => true,
    })
}

/// By table, whether it is wanted, read by a needed rule, or a place where errors can come up.
fn needed(program: &Program, wanted: &BTreeSet<TableId>, keys_hold: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; program.schema.len()];
    for table in program.order.iter().rev() {
        let at = table.0 as usize;
        let declared = program.schema.table(*table);
        if declared.role == Role::Input {
            // Whoever wants an input table knows its changes without rules.
            continue;
        }
        let key_to_check = declared.key.is_some() && !keys_hold[at];
        let mut bodies = Vec::new();
        for (_, rule) in program.rules_of(*table) {
            bodies.push(Body::new(rule, &program.schema));
        }
        needed[at] |= wanted.contains(table) || key_to_check || bodies.iter().any(rule_may_fail);
        if needed[at] {
            for atom in bodies.iter().flat_map(|body| &body.atoms) {
                needed[atom.relation.0 as usize] = true;
            }
        }
    }
    needed
}

/// Whether evaluating a rule can fail.
fn rule_may_fail(body: &Body) -> bool {
    let sums =
        body.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { aggregate: Aggregate::Sum, .. }));
    sums || body.items.iter().any(|item| item.may_fail) || body.head_expressions().any(may_fail)
}
