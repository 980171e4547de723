//! The parts of a query plan: relations, indexes, and for each rule a pipeline from each of its atoms.
//!
//! A rule is a conjunction. Its bindings change when the rows of one of its atoms change, so the plan has one
//! [`Pipeline`] for each atom. It begins with changed rows of that atom and *probes* indexes of the other atoms, one
//! after the other (the delta join of a worst-case optimal or "half join" plan; Figure 1 of `McSherry` and others,
//! CIDR 2013, calls the pieces updates and traces). No intermediate results are stored, and each pipeline has its own
//! order. The pipeline [`Joins::full`] is the cheapest way to compute all bindings at once.
//!
//! An engine that joins two arrangements at a time uses the same plan: it runs the pipeline `full` and arranges the
//! bindings that arrive at each probe.

use std::sync::Arc;

use nlog::Program;
use nlog::program::HookStage;
use nlog_data::{Function, RuleId, TableId};
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::plan::{AggregatePlan, GroupColumn, Keep, Scalar, Selection, Slot};

/// The plan of a program.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program.
    pub program: Arc<Program>,
    /// The settings that led to the plan: the same ones lead to it again.
    pub settings: Settings,
    /// The program's tables, by number, then the planner's stages.
    pub relations: Vec<Relation>,
    /// All indexes that pipelines probe. Rules share equal indexes.
    pub indexes: Vec<Index>,
    /// The needed rules by number, then the rules of stages.
    pub rules: Vec<RulePlan>,
    /// The hooks in the order in which their errors count.
    pub hook_stages: Vec<HookStage>,
    /// The names of tables whose rows are not stored: their rules are inlined into the rules that read them.
    pub inlined: Vec<String>,
    /// Requests that the plan could not satisfy, as text.
    pub warnings: Vec<String>,
}

/// The number of a relation in its plan: the number of its table, or of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RelationId(pub u32);

/// The number of an index in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// A table, or a stage: the stored join of several atoms of a rule.
#[derive(Debug, Clone)]
pub struct Relation {
    /// The table's name; for a stage, a name that includes its rule.
    pub name: String,
    /// The table, unless it is a stage.
    pub table: Option<TableId>,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Whether any rule or request needs it.
    pub needed: bool,
    /// Whether its changes were requested.
    pub wanted: bool,
    /// The way in which derived rows become a set.
    pub keep: Keep,
    /// 0 for inputs, one more than that of its source for a table that a hook fills, otherwise one more than the highest
    /// level of the relations that its rules read. Rules of one level do not read each other's heads.
    pub level: u32,
    /// The estimated number of rows.
    pub rows: f64,
    /// Whether the number was counted, not estimated.
    pub counted: bool,
}

/// The rows of a relation, indexed by some of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// The indexed relation.
    pub relation: RelationId,
    /// The conditions on its rows.
    pub select: Vec<Selection>,
    /// The key columns, in order. Without key columns, all rows are under the empty key.
    pub key: Vec<usize>,
    /// The value columns, ascending. Equal values are counted.
    pub value: Vec<usize>,
    /// The estimated number of rows under a key.
    pub fan_out: f64,
}

/// The evaluation of a rule.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// The rule; for a stage, the rule that it was made for.
    pub rule: RuleId,
    /// Its head.
    pub head: RelationId,
    /// The pipelines that find the bindings that satisfy the body.
    pub body: Joins,
    /// The use of the pipelines' results.
    pub output: Output,
    /// The pipelines for bindings that fail where `body` cannot follow them. Each binding that arrives
    /// ([`End::Failure`]) is a failure.
    pub failures: Vec<Joins>,
    /// Whether any of its computations can fail: in the body, in the head, or in a sum.
    pub may_fail: bool,
    /// The stages that replace some of the rule's atoms in the body, in the order in which they were made.
    pub stages: Vec<Stage>,
    /// The relations for which some pipeline uses the rule instead of an index of the rows.
    pub through: Vec<RelationId>,
}

/// A relation that replaces some of a rule's atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The relation. Rules can share it.
    pub relation: RelationId,
    /// The atoms, named by their relations. The second atom of a relation is `name#2`.
    pub of: Vec<String>,
}

/// The pipelines of a conjunction.
#[derive(Debug, Clone)]
pub struct Joins {
    /// The relation of each atom, in the order of the rule's body.
    pub atoms: Vec<RelationId>,
    /// One pipeline for each atom, which starts with it. A fact has one pipeline, which starts with an empty binding.
    pub pipelines: Vec<Pipeline>,
    /// The index of the cheapest pipeline for computing all bindings.
    pub full: usize,
}

/// A pipeline from changed rows of one atom to bindings of all atoms.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The start of bindings.
    pub start: Start,
    /// The steps for each binding, in order.
    pub steps: Vec<Step>,
    /// The use of the binding at the end.
    pub end: End,
    /// Whether a binding can carry a failure: in a slot, or remembered after the slot was dropped or a filter failed.
    pub may_fail: bool,
    /// The estimated number of rows of its atom.
    pub rows: f64,
    /// The estimated number of rows touched if it starts with all rows of its atom: these rows, and for each probe
    /// the lookups and the rows found.
    pub cost: f64,
    /// The cheapest order with another second atom.
    pub second: Option<Alternative>,
    /// The join order, if a table's rule replaces one of the body's atoms.
    pub through: Option<Through>,
}

/// The order of a pipeline through a table's rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The relations of the body's atoms, with the rule's atoms in place of the replaced one.
    pub atoms: Vec<RelationId>,
    /// The join order, as indices of `atoms`.
    pub order: Vec<usize>,
}

/// A rejected join order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// The alternative second atom, as an index of [`Joins::atoms`].
    pub atom: usize,
    /// The estimated cost with it.
    pub cost: f64,
}

/// The start of a pipeline's bindings.
#[derive(Debug, Clone)]
pub enum Start {
    /// One binding without slots, once.
    Once,
    /// A row of the pipeline's atom.
    Row {
        /// The atom, as an index of [`Joins::atoms`].
        atom: usize,
        /// The conditions on rows.
        select: Vec<Selection>,
        /// The columns that become the first slots.
        columns: Vec<usize>,
        /// The names of the slots, for display.
        names: Vec<String>,
    },
}

/// An operation on each binding.
#[derive(Debug, Clone)]
pub enum Step {
    /// Computes the next slot. Without a value, the binding is dropped. A failure becomes the slot's value.
    Let {
        /// The expression.
        scalar: Scalar,
        /// The name of the slot, for display.
        name: String,
    },
    /// Computes the next slot as the key of a probe. Without a value, or with a failure, the binding is dropped.
    Key {
        /// The expression.
        scalar: Scalar,
        /// The name of the slot, for display.
        name: String,
    },
    /// Keeps bindings for which the condition holds or fails. A failure is remembered.
    Filter(Scalar),
    /// Keeps bindings for which the condition holds. [`RulePlan::failures`] follows those for which it fails.
    Must(Scalar),
    /// Keeps bindings for which the expression fails. The failure is remembered.
    Failed(Scalar),
    /// For each tuple of results, yields a binding with a slot for each wanted result.
    Generate {
        /// The function.
        function: Arc<Function>,
        /// Its arguments.
        arguments: Vec<Scalar>,
        /// For each result column, whether it becomes a slot.
        wanted: Vec<bool>,
        /// The names of the slots, for display.
        names: Vec<String>,
    },
    /// For each row found in an index, yields a binding: the kept slots, then the row's values.
    Probe(Probe),
}

/// A lookup of bindings in an index.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The atom whose rows are found, as an index of [`Joins::atoms`]; or the atom that its table's rule replaces
    /// ([`RulePlan::through`]), in which case the index belongs to another relation. In a transaction, atoms before
    /// the pipeline's own are read in their new state, atoms after it in their old state.
    pub atom: usize,
    /// The index.
    pub index: IndexId,
    /// The slots of the key, one for each key column. None of them can hold a failure.
    pub key: Vec<Slot>,
    /// The slots to keep, in this order; they become the first slots. Failures in dropped slots are remembered.
    pub keep: Vec<Slot>,
    /// Whether equal bindings can arrive, because variables that distinguished them were dropped. Their counts add
    /// up.
    pub repeats: bool,
    /// The values to take, as indices of [`Index::value`]; they become the next slots.
    pub take: Vec<usize>,
    /// The names of all slots after it, for display.
    pub names: Vec<String>,
    /// The estimated number of bindings after it, for each row at the start of the pipeline.
    pub bindings: f64,
}

/// The use of a binding at the end of its pipeline. All failures in its slots count, even in slots that are not read,
/// and so do remembered failures.
#[derive(Debug, Clone)]
pub enum End {
    /// A row of the head: an expression for each column.
    Row(Vec<Scalar>),
    /// A tuple of a group.
    Group {
        /// The columns of the group.
        group: Vec<Scalar>,
        /// The other slots that the head uses.
        tuple: Vec<Slot>,
        /// The expressions that may fail among the aggregates' arguments. Each failure counts.
        check: Vec<Scalar>,
    },
    /// A failure.
    Failure,
}

/// The use of the results of a rule's pipelines.
#[derive(Debug, Clone)]
pub enum Output {
    /// Each result is a row.
    Rows,
    /// A row for each group.
    Groups {
        /// The number of columns of a group.
        group: usize,
        /// The number of columns of a tuple. The tuples of a group are distinct.
        tuple: usize,
        /// The aggregates, over slots that are first the group's columns, then the tuple's.
        aggregates: Vec<AggregatePlan>,
        /// The source of each column of the head.
        columns: Vec<GroupColumn>,
    },
}

impl Plan {
    /// Whether an engine runs both plans of a program alike: they differ at most in estimates.
    pub fn is_run_like(&self, other: &Plan) -> bool {
        let form = |relation: &Relation| {
            let Relation { name, needed, wanted, keep, level, .. } = relation;
            (name.clone(), *needed, *wanted, keep.clone(), *level)
        };
        let index = |index: &Index| {
            let Index { relation, select, key, value, .. } = index;
            (*relation, select.clone(), key.clone(), value.clone())
        };
        Arc::ptr_eq(&self.program, &other.program)
            && self.relations.iter().map(form).eq(other.relations.iter().map(form))
            && self.indexes.iter().map(index).eq(other.indexes.iter().map(index))
            && self.pinned() == other.pinned()
    }
}
