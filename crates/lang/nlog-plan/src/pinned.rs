//! Pinned plans: the chosen join orders and stages, so that they can be reused.

use std::collections::BTreeMap;

use nlog::program::Rule;
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::query::{Joins, Plan, RelationId, RulePlan, Start, Step, Through};

/// The choices made in a plan. A new plan repeats them for the rules that they name, no matter what the statistics
/// are.
///
/// They can be edited as JSON. Atoms are named by their tables; the second atom of a table in a rule is `table#2`.
/// Stages are `stage1`, `stage2` and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// The tables whose rows are not stored: their rules are inlined into the rules that read them.
    #[serde(default)]
    pub inlined: Vec<String>,
    /// Choices by the rule's fingerprint, in hexadecimal.
    pub rules: BTreeMap<String, PinnedRule>,
}

/// The choices for a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRule {
    /// The table that the rule fills, for readers of the file.
    pub head: String,
    /// Its stages, in the order in which they were split off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<PinnedStage>,
    /// The join orders.
    #[serde(flatten)]
    pub orders: PinnedJoins,
    /// The join orders of the separate pipelines for failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<PinnedJoins>,
}

/// A part of a rule that is a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedStage {
    /// The atoms of the stage.
    pub of: Vec<String>,
    /// The join orders.
    pub orders: PinnedJoins,
}

/// The orders of a conjunction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedJoins {
    /// For each atom, the order of all atoms that starts with it.
    pub pipelines: Vec<Vec<String>>,
    /// The starting atom of the pipeline that computes all rows.
    #[serde(rename = "whole", default, skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    /// By starting atom, the order of a pipeline in which a table's rule replaces one of the atoms: that rule's
    /// atoms and all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub through: BTreeMap<String, Vec<String>>,
}

/// Orders by the numbers of atoms in a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) atoms: Vec<Vec<usize>>,
    pub(crate) full: usize,
}

/// Orders of a body and of its failures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PinnedOrders {
    pub(crate) body: Orders,
    pub(crate) failures: Vec<Orders>,
    /// By starting atom, the names of the atoms of a pipeline through a rule.
    pub(crate) through: BTreeMap<usize, Vec<String>>,
}

impl Orders {
    /// Whether there is one order of this many atoms starting with each atom.
    pub(crate) fn fit(&self, atoms: usize) -> bool {
        let is_order = |(at, order): (usize, &Vec<usize>)| {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            order.first() == Some(&at) && sorted.into_iter().eq(0..atoms)
        };
        self.atoms.len() == atoms && self.full < atoms && self.atoms.iter().enumerate().all(is_order)
    }

    /// Resolves names; `None` if they do not fit the body.
    pub(crate) fn named(pinned: &PinnedJoins, labels: &[String]) -> Option<Orders> {
        let number = |name: &String| labels.iter().position(|label| label == name);
        let order = |names: &Vec<String>| names.iter().map(number).collect::<Option<Vec<usize>>>();
        let mut atoms = pinned.pipelines.iter().map(order).collect::<Option<Vec<_>>>()?;
        atoms.sort_by_key(|order| order.first().copied());
        let full = match &pinned.full {
            Some(name) => number(name)?,
            None => 0,
        };
        let orders = Orders { atoms, full };
        orders.fit(labels.len()).then_some(orders)
    }
}

impl PinnedJoins {
    /// Names the atoms of orders; `through` has the names for pipelines through a rule.
    fn new(joins: &Joins, labels: &[String], through: &dyn Fn(&Through) -> Vec<String>) -> Self {
        let order = |pipeline: &crate::query::Pipeline| {
            let mut order = Vec::new();
            if let Start::Row { atom, .. } = &pipeline.start {
                order.push(labels[*atom].clone());
            }
            for step in &pipeline.steps {
                // An atom that its table's rule replaces takes several probes.
                if let Step::Probe(probe) = step
                    && !order.contains(&labels[probe.atom])
                {
                    order.push(labels[probe.atom].clone());
                }
            }
            order
        };
        if joins.atoms.is_empty() {
            return PinnedJoins::default();
        }
        let pipelines = joins.pipelines.iter().map(order).collect();
        let through = joins.pipelines.iter().zip(labels).filter_map(|(pipeline, label)| {
            let way = pipeline.through.as_ref()?;
            let names = through(way);
            Some((label.clone(), way.order.iter().map(|atom| names[*atom].clone()).collect()))
        });
        PinnedJoins { pipelines, full: labels.get(joins.full).cloned(), through: through.collect() }
    }
}

/// The names of a conjunction's atoms: the relation, numbered if a relation occurs several times. `stages` are the
/// stages of the rule.
pub(crate) fn labels(
    atoms: &[RelationId],
    stages: &[RelationId],
    name_of: &dyn Fn(RelationId) -> String,
) -> Vec<String> {
    let mut labels = Vec::with_capacity(atoms.len());
    for (at, relation) in atoms.iter().enumerate() {
        let name = match stages.iter().position(|stage| stage == relation) {
            Some(stage) => format!("stage{}", stage + 1),
            None => name_of(*relation),
        };
        let before = atoms[..at].iter().filter(|other| *other == relation).count();
        labels.push(if before == 0 { name } else { format!("{name}#{}", before + 1) });
    }
    labels
}

/// The name under which a rule's choices are stored.
pub(crate) fn key(rule: &Rule) -> String {
    format!("{:016x}", rule.fingerprint)
}

impl Body {
    pub(crate) fn relations(&self) -> Vec<RelationId> {
        self.atoms.iter().map(|atom| atom.relation).collect()
    }
}

impl Plan {
    /// The choices of this plan, for a later plan.
    pub fn pinned(&self) -> Pinned {
        let name_of = |relation: RelationId| self.relations[relation.0 as usize].name.clone();
        let mut pinned = Pinned { inlined: self.inlined.clone(), rules: BTreeMap::new() };
        for plan in self.rules.iter().filter(|plan| !plan.body.atoms.is_empty()) {
            if self.relations[plan.head.0 as usize].table.is_none() {
                continue;
            }
            let rule = self.program.rule(plan.rule);
            let stages = plan.stages.iter().enumerate().filter_map(|(at, stage)| {
                let of_stage = |rule: &&RulePlan| rule.head == stage.relation;
                let joins = &self.rules.iter().find(of_stage)?.body;
                // A stage can contain earlier stages.
                let before: Vec<RelationId> = plan.stages[..at].iter().map(|stage| stage.relation).collect();
                let of_joins = labels(&joins.atoms, &before, &name_of);
                let through = |way: &Through| labels(&way.atoms, &before, &name_of);
                let orders = PinnedJoins::new(joins, &of_joins, &through);
                Some(PinnedStage { of: stage.of.clone(), orders })
            });
            let stages = stages.collect();
            let own: Vec<RelationId> = plan.stages.iter().map(|stage| stage.relation).collect();
            let of_body = labels(&plan.body.atoms, &own, &name_of);
            let through = |way: &Through| labels(&way.atoms, &own, &name_of);
            let failures = plan.failures.iter().map(|joins| PinnedJoins::new(joins, &of_body, &through));
            pinned.rules.insert(
                key(rule),
                PinnedRule {
                    head: name_of(plan.head),
                    stages,
                    orders: PinnedJoins::new(&plan.body, &of_body, &through),
                    failures: failures.collect(),
                },
            );
        }
        pinned
    }
}
