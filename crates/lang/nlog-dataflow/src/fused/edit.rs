//! Runs an edit: a transaction that changes rules but no inputs.
//!
//! The state has the new rules already (see `live`). Relations are processed level by level, as in any transaction.
//! Each one retracts the rows that removed rules derived, and runs its new rules over all rows of their bodies. Rules
//! that continue only process the resulting changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashSet;
use nlog::Program;
use nlog_data::TableId;
use nlog_plan::query::RelationId;

use super::bounded::Running;
use super::delta::{Delta, TooMany};
use super::engine::{Pass, State};
use super::errors::Refusal;
use super::groups::Groups;
use super::hooks::Filling;
use super::relation::Attributed;
use super::rule::finish;
use super::trace::View;
use super::workers::Changed;
use crate::symbol::Symbol;

/// The edit in progress.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    pub(crate) fresh: BTreeSet<usize>,
    gone: BTreeMap<RelationId, Delta>,
}

impl State {
    /// An edit away from this state begins, and counts what it has its rules derive.
    pub(crate) fn begin_leaving(&mut self, running: Option<Arc<Running>>) {
        (self.running, self.editing) = (running, Some(Edit::default()));
    }

    /// What the edit reads of this state has been read. Fails if it was stopped at its bound.
    pub(crate) fn end_leaving(&mut self) -> Result<(), Refusal> {
        let stopped = self.stopped();
        (self.running, self.editing) = (None, None);
        stopped
    }

    /// Runs an edit. `gone` has, by relation, the changes that retract the rows of removed rules. `fresh` has the rules
    /// that derive for the first time. `surplus` has the counts that readers of relations have seen in excess.
    /// Relations that are `newly_forbidding` can have rows that the edit does not change. Hooks follow if there is a `filling`.
    pub(crate) fn edit(
        &mut self,
        fresh: BTreeSet<usize>,
        gone: Vec<(RelationId, Delta)>,
        surplus: Vec<(RelationId, Delta)>,
        newly_forbidding: Vec<RelationId>,
        inputs: &dyn Fn(TableId) -> Delta,
        mut filling: Option<Filling<'_>>,
    ) -> Result<(), Refusal> {
        let hooks = filling.as_ref().map(|filling| filling.hooks.fresh());
        self.begin_pass(&Pass { hooks, ..Pass::default() });
        let heads = fresh.iter().map(|rule| self.rules[*rule].head);
        let heads = heads.chain(gone.iter().chain(&surplus).map(|(head, _)| *head));
        for head in heads.collect::<Vec<_>>() {
            let head = head.0 as usize;
            self.agenda.relations.insert((self.plan.relations[head].level, head));
        }
        self.editing = Some(Edit { fresh, gone: gone.into_iter().collect() });
        let mut surplus: BTreeMap<RelationId, Delta> = surplus.into_iter().collect();
        let mut result = Ok(());
        while result.is_ok()
            && let Some((_, relation)) = self.agenda.relations.pop_first()
        {
            self.reached.push(relation);
            if let Some(hook) = self.filled_by[relation] {
                result = self.fill(hook, filling.as_mut());
                continue;
            }
            result = self.edited(relation, inputs).and_then(|derived| {
                let surplus = surplus.remove(&RelationId(relation as u32));
                self.settle_with(relation, derived, surplus)
            });
        }
        self.editing = None;
        result?;
        for id in newly_forbidding {
            let rows = self.rows(id, View::After, inputs)?;
            self.errors.forbid(id, &rows, &self.symbols);
        }
        self.refusal()
    }

    /// The rows that an edit derives for a relation.
    fn edited(&mut self, relation: usize, inputs: &dyn Fn(TableId) -> Delta) -> Result<Delta, Refusal> {
        let id = RelationId(relation as u32);
        let mut derived = self.derive(relation)?;
        let Some(editing) = &mut self.editing else { return Ok(derived) };
        if let Some(mut gone) = editing.gone.remove(&id) {
            derived.append(&mut gone);
        }
        let fresh: Vec<usize> =
            editing.fresh.iter().copied().filter(|rule| self.rules[*rule].head == id).collect();
        for rule in fresh {
            let groups = self.rules[rule].groups.as_ref();
            let mut rows = Delta::new(groups.map_or(self.relations[relation].columns, Groups::width));
            let mut failures = self.run_whole(rule, 0, View::After, inputs, &mut rows)?;
            for part in 1..self.rules[rule].parts.len() {
                failures.extend(self.run_whole(rule, part, View::After, inputs, &mut Delta::new(0))?);
            }
            self.stopped()?;
            let attributed = self.relations[relation].split.attributed;
            let running = &mut self.rules[rule];
            finish(running, rows, attributed, &self.symbols, &mut failures, &mut derived)
                .map_err(|TooMany| Refusal::TooMany(id))?;
            self.errors.add(running.id, failures);
            if running.groups.is_some() {
                self.grouped.push(rule);
            }
        }
        let counted = self.relations[relation].keeps_rows();
        if !counted {
            derived.consolidate().map_err(|TooMany| Refusal::TooMany(id))?;
        }
        Ok(derived)
    }

    /// Adds the rows that stay, and that another rule derives now, to the changes of tables that only one rule fills: their rows do not
    /// say which. `continues` has the table of the former program that goes on as a table.
    pub(crate) fn attribute_anew(
        &self,
        former: &Program,
        continues: &dyn Fn(TableId) -> Option<TableId>,
        changed: &mut Changed,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<(), Refusal> {
        for (id, relation) in (0..).map(RelationId).zip(&self.plan.relations) {
            let Some(table) = relation.table.filter(|_| relation.wanted && self.is_derived(id)) else {
                continue;
            };
            let (Some(rule), Some(before)) = (self.only_rule(table), continues(table)) else { continue };
            let mut before = former.rules_of(before).map(|(_, rule)| rule.fingerprint);
            if (before.next(), before.next()) == (Some(self.plan.program.rule(rule).fingerprint), None) {
                continue;
            }
            let mut rows = self.rows(id, View::After, inputs)?;
            rows.make_set();
            let at = changed.iter().position(|(of, ..)| *of == id);
            let delta = at.map(|at| &changed[at].1);
            let new = delta.into_iter().flat_map(Delta::rows).filter(|(_, diff)| *diff > 0);
            let new: HashSet<&[Symbol]> = new.map(|(row, _)| row).collect();
            let mut report = Attributed::new(relation.columns.len());
            for (row, _) in rows.rows() {
                if new.contains(row) {
                    report.inserted.push(rule.0);
                } else {
                    report.reattributed.push_words(row.iter().copied().chain([rule.0]), 1);
                }
            }
            drop(new);
            match at {
                Some(at) => changed[at].2 = Some(report),
                None if report.reattributed.is_empty() => {}
                None => changed.push((id, Delta::new(rows.width()), Some(report))),
            }
        }
        Ok(())
    }

    /// Gives rules the numbers used in attributed rows. Rules that continue keep their numbers.
    pub(crate) fn renumber(&mut self, former: &State, from: &[Option<usize>]) {
        self.numbers = former.numbers.clone();
        for (rule, from) in self.rules.iter_mut().zip(from) {
            let fingerprint = self.plan.program.rule(rule.id).fingerprint;
            if let Some(from) = from {
                rule.number = former.rules[*from].number;
                self.numbers.rules[rule.number as usize] = (fingerprint, rule.id);
            } else {
                rule.number = self.numbers.rules.len() as u32;
                self.numbers.rules.push((fingerprint, rule.id));
            }
        }
    }
}
