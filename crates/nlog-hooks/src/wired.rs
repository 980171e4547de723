//! The hooks of a program, in execution order.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog::hook::Wiring;
use nlog::program::BodyItem;
use nlog_data::{RuleId, TableId};

use crate::form::Form;

/// A program and its hooks.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) program: Arc<Program>,
    /// In the order of their targets.
    pub(crate) wires: Vec<Wire>,
}

/// A hook of a program.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) wiring: Wiring,
    /// The minimum number of hooks that have to run before it, one after the other.
    pub(crate) stage: usize,
}

impl Wired {
    pub(crate) fn new(program: &Arc<Program>) -> Self {
        let wires = program.hooks.iter().map(|wiring| Wire { wiring: wiring.clone(), stage: 0 });
        let mut wired = Wired { program: Arc::clone(program), wires: wires.collect() };
        wired.order();
        wired
    }

    /// The rules that a table depends on, through other tables but not through hooks; and these tables.
    pub(crate) fn upstream(&self, of: &BTreeSet<TableId>) -> (Vec<RuleId>, BTreeSet<TableId>) {
        let mut tables = of.clone();
        let mut rules = Vec::new();
        // Backwards, so that all readers of a table are visited before it.
        for head in self.program.order.iter().rev() {
            if !tables.contains(head) {
                continue;
            }
            for (id, rule) in self.program.rules_of(*head) {
                rules.push(id);
                tables.extend(rule.body.iter().filter_map(|item| match item {
                    BodyItem::Atom { table, .. } => Some(*table),
                    BodyItem::Let { .. } | BodyItem::Generate { .. } | BodyItem::Filter(_) => None,
                }));
            }
        }
        rules.sort_unstable();
        (rules, tables)
    }

    /// Finds each wire's stage: one later than those of the wires whose targets its source depends on.
    fn order(&mut self) {
        let sources = self.wires.iter().map(|wire| self.upstream(&BTreeSet::from([wire.wiring.from])).1);
        let needs: Vec<BTreeSet<TableId>> = sources.collect();
        // No hook depends on itself, so each pass settles at least one more.
        for _ in 0..self.wires.len() {
            for (index, needed) in needs.iter().enumerate() {
                let before = self.wires.iter().filter(|other| needed.contains(&other.wiring.to));
                self.wires[index].stage = before.map(|other| other.stage + 1).max().unwrap_or(0);
            }
        }
    }

    /// The first hook whose target a transaction touches.
    pub(crate) fn intruded(&self, transaction: &impl Form) -> Option<&Wiring> {
        self.wires.iter().map(|wire| &wire.wiring).find(|wiring| transaction.touches(wiring.to))
    }

    /// The name of a table.
    pub(crate) fn name(&self, table: TableId) -> &str {
        &self.program.schema.table(table).name
    }
}
