//! The profile of an engine: its work by rule, and its memory by relation and index.
//!
//! Profiling is always on: it costs two clock readings and four additions per pipeline run. That is little, because
//! even an empty run takes a few hundred nanoseconds.

use std::collections::BTreeMap;

use nlog_data::{RuleId, StoredRelation, StoredRows, WorkOfRule};
use nlog_plan::query::Start;

use super::engine::State;
use super::workers::Load;

/// The work of an engine since it was started, and its present contents. With several workers, rules, relations and
/// indexes are those of worker 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Rules that ran at least once, in the plan's order.
    pub rules: Vec<RuleProfile>,
    /// The needed relations.
    pub relations: Vec<RelationProfile>,
    /// Indexes, in the plan's order.
    pub indexes: Vec<IndexProfile>,
    /// The program's hooks.
    pub hooks: Vec<HookProfile>,
    /// The work of each worker.
    pub workers: Vec<Load>,
    /// The number of interned values.
    pub symbols: usize,
    /// The number of transactions, including refused ones.
    pub transactions: u64,
}

/// The work of one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookProfile {
    /// The table that it fills.
    pub table: String,
    /// The rows, edges and nodes that it has visited.
    pub work: u64,
}

/// The work of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProfile {
    /// The rule.
    pub rule: RuleId,
    /// The table or stage that it fills.
    pub head: String,
    /// The pipelines that ran.
    pub pipelines: Vec<PipelineProfile>,
}

/// The work of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineProfile {
    /// The relation whose changes it starts with; `None` for a fact.
    pub begins: Option<String>,
    /// The number of runs.
    pub runs: u64,
    /// Changed rows that it started with.
    pub rows: u64,
    /// Bindings that its probes found.
    pub bindings: u64,
    /// Rows of the head that it produced.
    pub derived: u64,
    /// Time, in nanoseconds.
    pub nanos: u64,
}

/// The contents stored for a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationProfile {
    /// Its name.
    pub name: String,
    /// Rows inserted or deleted, over all accepted and refused transactions.
    pub changes: u64,
    /// Counted rows, and changes not yet merged with them; 0 if the plan needs no counts, or if rows are watched.
    pub counted: usize,
    /// Watched rows: each was derived once so far, so that a hash stands for it instead of a count.
    pub watched: usize,
    /// Their size in bytes.
    pub bytes: usize,
}

/// The contents of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexProfile {
    /// The relation's name.
    pub relation: String,
    /// The key columns.
    pub key: Vec<String>,
    /// The columns returned.
    pub value: Vec<String>,
    /// Rows, and changes not yet merged with them.
    pub rows: usize,
    /// Their size in bytes.
    pub bytes: usize,
}

impl Profile {
    /// The rows that are stored, with their size, and the work of rules. Rows of a relation that only indexes store count there.
    pub(crate) fn stored(&self) -> StoredRows {
        let mut indexes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for index in &self.indexes {
            let (rows, bytes) = indexes.entry(&index.relation).or_default();
            (*rows, *bytes) = ((*rows).max(index.rows), *bytes + index.bytes);
        }
        let relations = self.relations.iter().map(|relation| {
            let (indexed, index_bytes) = indexes.get(&*relation.name).copied().unwrap_or_default();
            let rows = (relation.counted + relation.watched).max(indexed);
            StoredRelation { name: relation.name.clone(), rows, bytes: relation.bytes, index_bytes }
        });
        let rules = self.rules.iter().map(|rule| {
            let sum = |of: fn(&PipelineProfile) -> u64| rule.pipelines.iter().map(of).sum();
            WorkOfRule { rule: rule.rule, derived: sum(|part| part.derived), nanos: sum(|part| part.nanos) }
        });
        StoredRows { relations: relations.collect(), rules: rules.collect(), values: self.symbols }
    }
}

impl State {
    /// The profile, without the parts that only the engine knows.
    pub(crate) fn profile(&self) -> Profile {
        let plan = &self.plan;
        let name = |at: u32| plan.relations[at as usize].name.clone();
        let rules = self.rules.iter().zip(&plan.rules).filter_map(|(rule, of_plan)| {
            let mut pipelines = Vec::new();
            let joins = std::iter::once(&of_plan.body).chain(&of_plan.failures);
            for (part, joins) in rule.parts.iter().zip(joins) {
                for (pipeline, of_plan) in part.pipelines.iter().zip(&joins.pipelines) {
                    let work = &pipeline.work;
                    if work.runs > 0 {
                        let begins = match &of_plan.start {
                            Start::Once => None,
                            Start::Row { atom, .. } => Some(name(joins.atoms[*atom].0)),
                        };
                        pipelines.push(PipelineProfile {
                            begins,
                            runs: work.runs,
                            rows: work.rows,
                            bindings: work.bindings,
                            derived: work.derived,
                            nanos: work.nanos,
                        });
                    }
                }
            }
            let head = name(rule.head.0);
            (!pipelines.is_empty()).then_some(RuleProfile { rule: rule.id, head, pipelines })
        });
        let needed = self.relations.iter().filter(|relation| plan.relations[relation.id.0 as usize].needed);
        let relations = needed.map(|relation| RelationProfile {
            name: name(relation.id.0),
            changes: relation.changes,
            counted: if relation.is_watched() { 0 } else { relation.counts.updates() },
            watched: if relation.is_watched() { relation.counts.updates() } else { 0 },
            bytes: relation.counts.bytes(),
        });
        let indexes = self.indexes.iter().zip(&plan.indexes).map(|(index, of_plan)| {
            let relation = &plan.relations[of_plan.relation.0 as usize];
            let columns =
                |columns: &[usize]| columns.iter().map(|at| relation.columns[*at].clone()).collect();
            IndexProfile {
                relation: relation.name.clone(),
                key: columns(&of_plan.key),
                value: columns(&of_plan.value),
                rows: index.trace.updates(),
                bytes: index.trace.bytes(),
            }
        });
        Profile {
            hooks: Vec::new(),
            rules: rules.collect(),
            relations: relations.collect(),
            indexes: indexes.collect(),
            workers: Vec::new(),
            symbols: self.symbols.len(),
            transactions: 0,
        }
    }
}
