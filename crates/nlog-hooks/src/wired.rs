//! Checked wirings of a program, in execution order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nlog::Program;
use nlog::program::BodyItem;
use nlog_data::{Role, RuleId, Schema, TableId};

use crate::form::Form;
use crate::hook::Hook;
use crate::wiring::{Wiring, WiringError};

/// Wirings that were checked against a program.
#[derive(Debug, Clone)]
pub struct Wired {
    pub(crate) program: Arc<Program>,
    /// In the order of their targets, so that the order of options has no effect.
    pub(crate) wires: Vec<Wire>,
}

/// A wiring by table numbers.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) wiring: Wiring,
    pub(crate) from: TableId,
    pub(crate) to: TableId,
    /// The minimum number of hooks that have to run before it, one after the other.
    pub(crate) stage: usize,
}

impl Wire {
    pub(crate) fn hook(&self) -> Box<dyn Hook> {
        (self.wiring.kind.make)(&self.wiring.settings)
    }
}

impl Wired {
    /// Checks that the program has the tables, in the right shape, that each target is filled by one hook, and that
    /// no hook's source depends on its target.
    pub fn new(program: &Arc<Program>, wirings: &[Wiring]) -> Result<Self, WiringError> {
        let wires: Result<Vec<Wire>, WiringError> =
            wirings.iter().map(|wiring| wire(&program.schema, wiring)).collect();
        let mut wires = wires?;
        wires.sort_by_key(|wire| wire.to);
        if let Some([first, second]) = wires.windows(2).find(|pair| pair[0].to == pair[1].to) {
            let (first, second) = (first.wiring.to_string(), second.wiring.to_string());
            return Err(WiringError::SameTarget { first, second });
        }
        let mut wired = Wired { program: Arc::clone(program), wires };
        for wire in &wired.wires {
            if let Some(path) = wired.path_back(wire) {
                return Err(WiringError::Recursion { wiring: wire.wiring.to_string(), path });
            }
        }
        wired.order();
        Ok(wired)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.wires.is_empty()
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
                tables.extend(atoms(&rule.body));
            }
        }
        rules.sort_unstable();
        (rules, tables)
    }

    /// A shortest path of tables from a wire's target through rules and hooks to its source and back to the target,
    /// if there is one; among equals, the one with the least names.
    fn path_back(&self, wire: &Wire) -> Option<Vec<String>> {
        let readers = self.readers();
        let mut reached_from = BTreeMap::from([(wire.to, wire.to)]);
        let mut waiting = VecDeque::from([wire.to]);
        while let Some(table) = waiting.pop_front() {
            for reader in readers.get(&table).into_iter().flatten() {
                if *reader == wire.to {
                    return Some(self.path(wire.to, table, &reached_from));
                }
                reached_from.entry(*reader).or_insert_with(|| {
                    waiting.push_back(*reader);
                    table
                });
            }
        }
        None
    }

    /// By table, those that are computed from it, by rules or hooks.
    fn readers(&self) -> BTreeMap<TableId, BTreeSet<TableId>> {
        let mut readers: BTreeMap<TableId, BTreeSet<TableId>> = BTreeMap::new();
        for rule in &self.program.rules {
            for table in atoms(&rule.body) {
                readers.entry(table).or_default().insert(rule.head);
            }
        }
        for wire in &self.wires {
            readers.entry(wire.from).or_default().insert(wire.to);
        }
        readers
    }

    /// The names on the path from one table to another and back, without hidden tables.
    fn path(&self, to: TableId, mut at: TableId, reached_from: &BTreeMap<TableId, TableId>) -> Vec<String> {
        let schema = &self.program.schema;
        let name = |table: TableId| schema.table(schema.shown(table)).name.clone();
        let mut path = vec![name(to)];
        while at != to {
            path.push(name(at));
            at = reached_from[&at];
        }
        path.push(name(to));
        path.dedup();
        path.reverse();
        path
    }

    /// Finds each wire's stage: one later than those of the wires whose targets its source depends on.
    fn order(&mut self) {
        let needs: Vec<BTreeSet<TableId>> =
            self.wires.iter().map(|wire| self.upstream(&BTreeSet::from([wire.from])).1).collect();
        // No wire depends on itself, so each pass settles at least one more.
        for _ in 0..self.wires.len() {
            for (index, needed) in needs.iter().enumerate() {
                let before = self.wires.iter().filter(|other| needed.contains(&other.to));
                self.wires[index].stage = before.map(|other| other.stage + 1).max().unwrap_or(0);
            }
        }
    }

    /// The first wire whose target a transaction touches.
    pub(crate) fn intruded(&self, transaction: &impl Form) -> Option<&Wire> {
        self.wires.iter().find(|wire| transaction.touches(wire.to))
    }
}

/// The tables of a body's atoms.
fn atoms(body: &[BodyItem]) -> impl Iterator<Item = TableId> + '_ {
    body.iter().filter_map(|item| match item {
        BodyItem::Atom { table, .. } => Some(*table),
        BodyItem::Let { .. } | BodyItem::Generate { .. } | BodyItem::Filter(_) => None,
    })
}

fn wire(schema: &Schema, wiring: &Wiring) -> Result<Wire, WiringError> {
    let find = |name: &String, role: Role, wanted: &'static str| {
        let id = schema
            .find(name)
            .ok_or_else(|| WiringError::UnknownTable { wiring: wiring.to_string(), table: name.clone() })?;
        if schema.table(id).role != role {
            return Err(WiringError::Role { wiring: wiring.to_string(), table: name.clone(), wanted });
        }
        Ok(id)
    };
    let from = find(&wiring.from, Role::Output, "output")?;
    let to = find(&wiring.to, Role::Input, "input")?;
    (wiring.kind.fits)(schema.table(from), schema.table(to))
        .map_err(|what| WiringError::Columns { wiring: wiring.to_string(), what })?;
    Ok(Wire { wiring: wiring.clone(), from, to, stage: 0 })
}
