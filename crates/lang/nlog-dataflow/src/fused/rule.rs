//! Executable rules: their pipelines, and the conversion of the results to rows of the head.

use nlog_data::RuleId;
use nlog_plan::query::{Joins, RelationId, RulePlan};
use serde::{Deserialize, Serialize};

use super::delta::{Delta, Diff, TooMany};
use super::groups::Groups;
use super::pipeline::Pipeline;
use super::placement::Placement;
use crate::symbol::{Symbol, Symbols};

/// A rule, ready to run.
pub(crate) struct Rule {
    pub(crate) id: RuleId,
    /// Its number in attributed rows; see [`Numbers`].
    pub(crate) number: u32,
    pub(crate) head: RelationId,
    pub(crate) groups: Option<Groups>,
    /// The body, then the parts for bindings that fail where the body cannot follow them.
    pub(crate) parts: Vec<Part>,
}

/// Rules by their numbers in attributed rows. Unlike rule ids, these numbers stay the same when the program changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    /// The fingerprint and the id of each rule. A removed rule keeps its last id.
    pub(crate) rules: Vec<(u64, RuleId)>,
}

impl Numbers {
    pub(crate) fn of_program(program: &nlog::Program) -> Self {
        Numbers {
            rules: program.rules.iter().zip(0..).map(|(rule, id)| (rule.fingerprint, RuleId(id))).collect(),
        }
    }

    /// The rank by which one of several rules is chosen.
    pub(crate) fn order(&self, number: u32) -> (u64, RuleId) {
        self.rules[number as usize]
    }
}

/// A conjunction, ready to run.
pub(crate) struct Part {
    pub(crate) atoms: Vec<RelationId>,
    pub(crate) pipelines: Vec<Pipeline>,
}

/// A pipeline of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct PipelineAt {
    pub(crate) rule: usize,
    pub(crate) part: usize,
    pub(crate) pipeline: usize,
}

impl Rule {
    pub(crate) fn new(plan: &RulePlan, placement: &Placement, symbols: &Symbols) -> Self {
        let parts = std::iter::once(&plan.body).chain(&plan.failures);
        let part = |joins: &Joins| {
            // If all atoms change at once, as in a load, only the last pipeline finds rows of the other atoms, because
            // it reads all of them in their new state. So the pipeline that is best for a full evaluation comes last.
            let rank = |atom: usize| (atom == joins.full, atom);
            let pipelines = joins.pipelines.iter().enumerate().map(|(own, pipeline)| {
                let moves = placement.moves(plan, joins, pipeline);
                Pipeline::new(pipeline, |atom| rank(atom) < rank(own), moves, symbols)
            });
            Part { atoms: joins.atoms.clone(), pipelines: pipelines.collect() }
        };
        Rule {
            id: plan.rule,
            number: plan.rule.0,
            head: plan.head,
            groups: Groups::new(&plan.output, symbols),
            parts: parts.map(part).collect(),
        }
    }
}

/// Adds the results of a rule's pipelines to the derived rows of its head. Computes the rows of changed groups, and
/// appends the rule's number to each row if rows are attributed.
pub(crate) fn finish(
    rule: &mut Rule,
    mut own: Delta,
    attributed: bool,
    symbols: &Symbols,
    failures: &mut Vec<(Symbol, Diff)>,
    derived: &mut Delta,
) -> Result<(), TooMany> {
    let suffix = if attributed { &[rule.number][..] } else { &[] };
    if let Some(groups) = &mut rule.groups {
        own.consolidate()?;
        return groups.settle(&own, symbols, derived, suffix, failures);
    }
    if !attributed {
        derived.append(&mut own);
        return Ok(());
    }
    for (row, diff) in own.rows() {
        derived.push_words(row.iter().chain(suffix).copied(), diff);
    }
    Ok(())
}
