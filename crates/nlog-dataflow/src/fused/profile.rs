//! The profile of an engine: work by rule, memory by relation and index.
//!
//! Profiling is always on: it costs two clock readings and four additions per pipeline run, while even an empty run
//! takes some hundred nanoseconds.

use nlog_data::RuleId;
use nlog_plan::query::Start;

use super::engine::State;
use super::workers::Load;

/// What an engine has done since it was started, and what it holds now. With several workers, rules, relations and
/// indexes are those of worker 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Rules that were run at least once, in the plan's order.
    pub rules: Vec<RuleProfile>,
    /// Relations that are needed.
    pub relations: Vec<RelationProfile>,
    /// Indexes, in the plan's order.
    pub indexes: Vec<IndexProfile>,
    /// What each worker has done.
    pub workers: Vec<Load>,
    /// Values that have symbols.
    pub symbols: usize,
    /// Transactions that were run, refused ones among them.
    pub transactions: u64,
}

/// What one rule has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProfile {
    /// The rule.
    pub rule: RuleId,
    /// What it fills.
    pub head: String,
    /// Its pipelines that were run.
    pub pipelines: Vec<PipelineProfile>,
}

/// What one pipeline has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineProfile {
    /// The relation whose changes it begins with; of a fact none.
    pub begins: Option<String>,
    /// How often it was run.
    pub runs: u64,
    /// Changed rows that it began with.
    pub rows: u64,
    /// Bindings that its probes found.
    pub bindings: u64,
    /// Rows of the head that came out.
    pub derived: u64,
    /// Time, in nanoseconds.
    pub nanos: u64,
}

/// What is held of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationProfile {
    /// Its name.
    pub name: String,
    /// Rows that came or went, over all accepted and refused transactions.
    pub changes: u64,
    /// Rows that are counted, and changes not yet merged with them; none if the plan has no need to count.
    pub counted: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// What is in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexProfile {
    /// The relation's name.
    pub relation: String,
    /// The columns that it is looked up by.
    pub key: Vec<String>,
    /// The columns that are found.
    pub value: Vec<String>,
    /// Rows, and changes not yet merged with them.
    pub rows: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl State {
    /// Everything but what only the engine knows.
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
            counted: relation.counts.updates(),
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
            rules: rules.collect(),
            relations: relations.collect(),
            indexes: indexes.collect(),
            workers: Vec::new(),
            symbols: self.symbols.len(),
            transactions: 0,
        }
    }
}
