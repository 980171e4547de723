//! The description of a plan as data for scripts. `describer` builds it, `text` prints it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The description of a plan. Estimates are for all rows; the figures of steps are per row at the start of the
/// pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// Rules by head; stages precede the rules that use them.
    pub rules: Vec<RuleDescription>,
    /// The indexes that pipelines probe.
    pub indexes: Vec<IndexDescription>,
    /// Tables and stages.
    pub relations: Vec<RelationDescription>,
    /// Warnings about requests that the plan could not satisfy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The evaluation of a rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleDescription {
    /// Its head.
    pub head: String,
    /// Its place: `file:line:column`.
    pub place: String,
    /// The text of the rule.
    pub rule: String,
    /// Whether it is a stage that the planner split off from the rule.
    pub stage: bool,
    /// One pipeline for each atom.
    pub pipelines: Vec<PipelineDescription>,
    /// The aggregates, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<String>,
    /// The pipelines that find failures which the other pipelines do not see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<PipelineDescription>,
}

/// A pipeline from changed rows of an atom to rows of the head.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelineDescription {
    /// The atom, with the columns read from it.
    pub begins: String,
    /// The number of rows of the atom.
    pub rows: f64,
    /// The rows touched if the pipeline starts with all rows of the atom.
    pub cost: f64,
    /// Whether this pipeline computes all rows of the rule from scratch.
    #[serde(rename = "whole")]
    pub full: bool,
    /// The steps for each binding.
    pub steps: Vec<StepDescription>,
    /// The result of each binding.
    pub end: String,
    /// The second best order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<InsteadDescription>,
}

/// A rejected join order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InsteadDescription {
    /// The atom that would come second.
    pub atom: String,
    /// The cost of the alternative.
    pub cost: f64,
}

/// An operation on bindings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepDescription {
    /// The operation.
    pub does: String,
    /// The index that is probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The bindings after the step for each row at the start of the pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<f64>,
    /// The reason for its position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The rows of a relation, indexed by some of its columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexDescription {
    /// Its name in this plan.
    pub index: String,
    /// The indexed relation.
    pub relation: String,
    /// The conditions on rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fit: Vec<String>,
    /// The key columns.
    pub by: Vec<String>,
    /// The columns returned.
    pub of: Vec<String>,
    /// The rows found under a key.
    pub fan_out: f64,
    /// The heads whose rules probe it, each with the number of pipelines.
    pub used_by: BTreeMap<String, usize>,
}

/// A table or stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelationDescription {
    /// Its name.
    pub name: String,
    /// The way in which derived rows become a set: `as it is`, `distinct`, `key (…) checked`, `input`, `not
    /// computed`. If a row refuses the transaction, `, forbidden` follows.
    pub keep: String,
    /// Its level in the order of evaluation.
    pub level: u32,
    /// The number of rows.
    pub rows: f64,
    /// Whether the number was counted, not estimated.
    pub counted: bool,
}

impl Description {
    /// Keeps only the rules of the table with this name, or whose text contains it, and their indexes and
    /// relations.
    pub fn retain(&mut self, text: &str) {
        let of_table =
            |name: &str| name == text || name.strip_prefix(text).is_some_and(|r| r.starts_with('/'));
        self.rules.retain(|rule| of_table(&rule.head) || rule.rule.contains(text));
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for rule in &self.rules {
            for pipeline in rule.pipelines.iter().chain(&rule.failures) {
                used.extend(pipeline.steps.iter().filter_map(|step| step.index.as_deref()));
            }
        }
        self.indexes.retain(|index| used.contains(index.index.as_str()));
        let heads = self.rules.iter().map(|rule| rule.head.as_str());
        let mut related: BTreeSet<&str> = heads.collect();
        related.extend(self.indexes.iter().map(|index| index.relation.as_str()));
        self.relations.retain(|relation| related.contains(relation.name.as_str()));
    }
}
