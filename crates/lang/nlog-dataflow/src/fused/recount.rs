//! Derives the rows of a relation once more, on several workers, between two transactions: to count rows that were watched, or to
//! read rows that are stored nowhere. One worker does the same by itself (`reading`).
//!
//! The rows that a rule joins can be at any worker. So this is a pass in rounds, as a transaction is. Of each rule, it runs
//! the pipeline that is best for all rows. The pipeline begins with all rows of its first atom: those of an input, which the first worker
//! sends, those of an index, or rows derived in the same pass. Nothing is staged, and all other atoms are read as they are.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::TableId;
use nlog_plan::query::{Pipeline as PipelinePlan, RelationId, RulePlan, Start};
use serde::{Deserialize, Serialize};

use super::delta::{Delta, TooMany};
use super::engine::{Derivation, State};
use super::errors::Refusal;
use super::groups::Groups;
use super::rounds::Rounds;
use super::rule::PipelineAt;
use super::trace::View;
use super::workers::Port;
use crate::carrier::Lost;

/// The order to derive a relation once more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Again {
    relation: RelationId,
    /// Whether to count the rows, instead of returning them.
    count: bool,
    /// The rows of the inputs that pipelines begin with.
    pub(crate) inputs: Vec<(RelationId, Delta)>,
}

/// The relations with which the derivation of a relation begins. All workers find the same ones.
#[derive(Debug, Default)]
struct Beginnings {
    /// Those to derive, among them the relation itself, unless its rows are stored.
    derived: BTreeSet<usize>,
    inputs: BTreeSet<usize>,
    /// Those whose rows each worker has in an index.
    stored: BTreeMap<usize, usize>,
}

impl State {
    /// The order to derive a relation once more. `inputs` returns the rows of input tables.
    pub(crate) fn again(
        &self,
        relation: RelationId,
        count: bool,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Again {
        let Beginnings { inputs: needed, .. } = self.beginnings(relation, count);
        let rows = needed.into_iter().map(|at| at as u32).map(|at| (RelationId(at), inputs(TableId(at))));
        Again { relation, count, inputs: rows.collect() }
    }

    /// Derives a relation once more, together with the other workers. Returns this worker's rows, which are none if they are
    /// counted, or `None` if a row has too many derivations.
    pub(crate) async fn derive_again(&mut self, again: &Again, port: &Port) -> Result<Option<Delta>, Lost> {
        self.begin_again(again);
        Rounds::again(again.count.then_some(again.relation)).run(self, port, None).await?;
        let relation = &mut self.relations[again.relation.0 as usize];
        let rows = std::mem::replace(&mut relation.delta, Delta::new(relation.columns));
        let refusal = self.refusal();
        self.end(false);
        Ok(refusal.is_ok().then_some(rows))
    }

    /// Puts the rows with which pipelines begin in the place of changes, and schedules the pipelines.
    fn begin_again(&mut self, again: &Again) {
        let beginnings = self.beginnings(again.relation, again.count);
        for (id, rows) in &again.inputs {
            self.relations[id.0 as usize].delta = rows.clone();
            self.reached.push(id.0 as usize);
        }
        for (relation, index) in beginnings.stored {
            if let Some(rows) = self.indexes[index].rows(View::Before) {
                self.relations[relation].delta = rows;
                self.reached.push(relation);
            }
        }
        for relation in beginnings.derived {
            // Also if no pipeline runs, because all rows come from groups.
            self.agenda.relations.insert((self.plan.relations[relation].level, relation));
            for at in self.whole_pipelines(relation) {
                self.schedule(at);
            }
        }
    }

    /// The pipelines that are best for all rows of a relation, of the rules without groups.
    fn whole_pipelines(&self, relation: usize) -> Vec<PipelineAt> {
        let rules = self.plan.rules.iter().enumerate().filter(|(_, rule)| rule.head.0 as usize == relation);
        let without_groups = rules.filter(|(rule, _)| self.rules[*rule].groups.is_none());
        without_groups
            .map(|(rule, of_plan)| PipelineAt { rule, part: 0, pipeline: of_plan.body.full })
            .collect()
    }

    fn beginnings(&self, relation: RelationId, count: bool) -> Beginnings {
        let mut found = Beginnings::default();
        let mut to_see = vec![relation.0 as usize];
        while let Some(at) = to_see.pop() {
            let is_counted = count && at == relation.0 as usize;
            if !self.is_derived(RelationId(at as u32)) {
                found.inputs.insert(at);
            } else if let Some(index) = self.whole_index(at).filter(|_| !is_counted) {
                found.stored.insert(at, index);
            } else if found.derived.insert(at) {
                let pipelines = self.whole_pipelines(at);
                to_see.extend(pipelines.iter().filter_map(|at| begins(&self.plan.rules[at.rule])));
            }
        }
        found
    }

    /// An index that has all rows of a relation, each at the worker where the relation has it.
    fn whole_index(&self, relation: usize) -> Option<usize> {
        let mut indexes = self.indexed[relation].iter().copied();
        indexes.find(|index| self.placement.at_home[*index] && self.indexes[*index].is_whole())
    }

    /// Takes the rows of a relation that was derived again, and counts them if it is `counted`.
    pub(crate) fn settle_again(
        &mut self,
        derivation: &mut Derivation,
        counted: Option<RelationId>,
    ) -> Result<(), Refusal> {
        let (at, id) = (derivation.relation, RelationId(derivation.relation as u32));
        let mut derived = self.finish(derivation)?;
        let attributed = self.relations[at].split.attributed;
        for rule in self.rules.iter().filter(|rule| rule.head == id) {
            let mut rows = Delta::new(self.relations[at].columns);
            rule.groups
                .iter()
                .for_each(|groups: &Groups| groups.rows(View::Before, &self.symbols, &mut rows));
            let suffix = if attributed { &[rule.number][..] } else { &[] };
            rows.into_rows(|row, diff| derived.push_words(row.iter().chain(suffix).copied(), diff));
        }
        let relation = &mut self.relations[at];
        if counted == Some(id) {
            // Another worker met a row that it may have to count. This one may count already.
            if relation.is_watched() {
                let counted = relation.count_again(derived, &self.symbols, &self.numbers);
                counted.map_err(|_| Refusal::TooMany(id))?;
            }
            return Ok(());
        }
        let mut rows = Delta::new(relation.columns);
        derived.into_rows(|row, diff| rows.push(&row[..relation.columns], diff));
        rows.consolidate().map_err(|TooMany| Refusal::TooMany(id))?;
        if relation.keeps_rows() {
            rows.make_set();
        }
        relation.delta = rows;
        Ok(())
    }
}

/// The relation with which the pipeline for all rows of a rule begins; `None` for a fact.
fn begins(rule: &RulePlan) -> Option<usize> {
    let pipeline: &PipelinePlan = &rule.body.pipelines[rule.body.full];
    match &pipeline.start {
        Start::Once => None,
        Start::Row { atom, .. } => Some(rule.body.atoms[*atom].0 as usize),
    }
}
