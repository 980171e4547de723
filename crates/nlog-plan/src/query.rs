//! The parts of a query plan: relations, indexes, and for each rule a pipeline from each of its atoms.
//!
//! A rule is a conjunction. Its bindings change when the rows of one of its atoms change, so the plan has one
//! [`Pipeline`] for each atom: it begins with changed rows of that atom and *probes* indexes of the other atoms, one
//! after the other (the delta join of a worst-case optimal or "half join" plan; Figure 1 of `McSherry` and others,
//! CIDR 2013, calls the pieces updates and traces). Nothing between the atoms has to be kept, and each pipeline has
//! an order of its own. The pipeline [`Joins::whole`] is the cheapest way to all bindings at once.
//!
//! An engine that joins two arrangements at a time reads the same plan: it runs the pipeline `whole` and arranges
//! what arrives at each probe.

use std::sync::Arc;

use nlog::Program;
use nlog_data::{Function, RuleId, TableId};
use serde::{Deserialize, Serialize};

use crate::plan::{AggregatePlan, GroupColumn, Keep, Scalar, Selection, Slot};

/// The plan of a program.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program.
    pub program: Arc<Program>,
    /// The program's tables, by their numbers, then stages that the planner made.
    pub relations: Vec<Relation>,
    /// Everything that pipelines probe. Equal ones of different rules are one.
    pub indexes: Vec<Index>,
    /// The rules that are needed: by number, those of stages after them.
    pub rules: Vec<RulePlan>,
    /// The names of tables of which no rows are kept: their rules stand in the rules that read them.
    pub inlined: Vec<String>,
    /// What was asked of the plan and could not be, for people.
    pub warnings: Vec<String>,
}

/// The number of a relation in its plan: that of its table, or of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RelationId(pub u32);

/// The number of an index in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// A table, or rows that several atoms of a rule come to and that are worth keeping.
#[derive(Debug, Clone)]
pub struct Relation {
    /// The table's name; of a stage one that says which rule it is part of.
    pub name: String,
    /// The table that it is, unless it is a stage.
    pub table: Option<TableId>,
    /// What its columns are called.
    pub columns: Vec<String>,
    /// Whether anything needs it.
    pub needed: bool,
    /// Whether its changes are asked for.
    pub wanted: bool,
    /// How the rows that rules derive become a set.
    pub keep: Keep,
    /// 0 for inputs; else one more than the highest level that its rules read. Rules of one level do not read each
    /// other's heads.
    pub level: u32,
    /// How many rows it is thought to have.
    pub rows: f64,
    /// Whether that has been counted, not estimated.
    pub counted: bool,
}

/// Rows of a relation by some of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// Whose rows.
    pub relation: RelationId,
    /// What rows have to fit; others are not in it.
    pub select: Vec<Selection>,
    /// The columns to find rows by, in the order of the key's parts. None: everything is under the empty key.
    pub key: Vec<usize>,
    /// The columns that rows are found for, ascending. Equal ones count.
    pub value: Vec<usize>,
    /// How many rows are thought to be found under a key.
    pub fan_out: f64,
}

/// How a rule is evaluated.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// The rule; a stage's is the one that it was made for.
    pub rule: RuleId,
    /// Its head.
    pub head: RelationId,
    /// All bindings that satisfy the body, and the rows that they become.
    pub body: Joins,
    /// What becomes of what the pipelines end with.
    pub output: Output,
    /// Bindings that fail where `body` could not follow them: each that arrives ([`End::Failure`]) is a failure.
    pub failures: Vec<Joins>,
    /// Whether anything that it computes can fail: for a binding on the way, in the head, or a sum.
    pub may_fail: bool,
    /// The stages that stand in the body for some of the rule's atoms, in the order in which they were made.
    pub stages: Vec<Stage>,
    /// The relations through whose rules some pipeline goes, in place of an index of their rows.
    pub through: Vec<RelationId>,
}

/// A relation that stands for some of a rule's atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The relation. Rules can share it.
    pub relation: RelationId,
    /// The atoms, named by their relations; the second of one relation is `name#2`.
    pub of: Vec<String>,
}

/// A conjunction.
#[derive(Debug, Clone)]
pub struct Joins {
    /// The relation of each atom, in the order of the rule's body.
    pub atoms: Vec<RelationId>,
    /// One for each atom, beginning with it. A fact has one, which begins with nothing.
    pub pipelines: Vec<Pipeline>,
    /// The pipeline that is cheapest for all rows together.
    pub whole: usize,
}

/// From changed rows of one atom to bindings of all.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Where bindings begin.
    pub start: Start,
    /// What happens to each, in order.
    pub steps: Vec<Step>,
    /// What becomes of it.
    pub end: End,
    /// Whether a binding can carry a failure: in a slot, or remembered when the slot was dropped or a filter failed.
    pub may_fail: bool,
    /// How many rows its atom is thought to have.
    pub rows: f64,
    /// How many rows it is thought to touch if it begins with all rows of its atom: those, and for each probe the
    /// lookups and what they find.
    pub cost: f64,
    /// What it would cost at least if another atom came second.
    pub second: Option<Alternative>,
    /// If it has a table's rule in place of one of the body's atoms: in which order.
    pub through: Option<Through>,
}

/// The order of a pipeline through a table's rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The relations of the body's atoms, that rule's in place of the one that they stand for.
    pub atoms: Vec<RelationId>,
    /// The atoms by their places among those, in the order in which they are joined.
    pub order: Vec<usize>,
}

/// A rejected join order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// The atom that would come second, by its place among [`Joins::atoms`].
    pub atom: usize,
    /// What that is thought to cost.
    pub cost: f64,
}

/// Where a pipeline's bindings begin.
#[derive(Debug, Clone)]
pub enum Start {
    /// One binding without slots, once.
    Once,
    /// A row of the pipeline's atom.
    Row {
        /// The atom, by its place among [`Joins::atoms`].
        atom: usize,
        /// What rows have to fit.
        select: Vec<Selection>,
        /// The columns that become the first slots.
        columns: Vec<usize>,
        /// What the slots hold, for people.
        names: Vec<String>,
    },
}

/// Something done to each binding.
#[derive(Debug, Clone)]
pub enum Step {
    /// Computes the next slot. No value: the binding is dropped. A failure becomes the slot's value.
    Let {
        /// What.
        scalar: Scalar,
        /// What the slot holds, for people.
        name: String,
    },
    /// Computes the next slot for a key to probe by. No value or a failure: the binding is dropped.
    Key {
        /// What.
        scalar: Scalar,
        /// What the slot holds, for people.
        name: String,
    },
    /// Keeps bindings for which the condition holds or fails; its failure is remembered.
    Filter(Scalar),
    /// Keeps bindings for which the condition holds; those for which it fails are followed by
    /// [`RulePlan::failures`].
    Must(Scalar),
    /// Keeps bindings for which the expression fails; its failure is remembered.
    Failed(Scalar),
    /// Once for each tuple of results, fills a slot for each result that is wanted.
    Generate {
        /// The function.
        function: Arc<Function>,
        /// What it is applied to.
        arguments: Vec<Scalar>,
        /// For each result column whether it becomes a slot.
        wanted: Vec<bool>,
        /// What the slots hold, for people.
        names: Vec<String>,
    },
    /// Once for each row of an index that is found: the slots that are kept, then the row's values.
    Probe(Probe),
}

/// A lookup of bindings in an index.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The atom whose rows are found, by its place among [`Joins::atoms`]; or the one for which this is part of its
    /// table's rule ([`RulePlan::through`]), the index then being of another relation. In a transaction, atoms before
    /// the pipeline's own are read as they become, those after it as they were.
    pub atom: usize,
    /// Where they are found.
    pub index: IndexId,
    /// The slots to find rows by, one for each key column. None of them can hold a failure.
    pub key: Vec<Slot>,
    /// The slots that are kept, in this order; they become the first slots. Failures in dropped ones are remembered.
    pub keep: Vec<Slot>,
    /// Which of the index's values are taken, by their place among [`Index::value`]; they become the next slots.
    pub take: Vec<usize>,
    /// What all slots hold after it, for people.
    pub names: Vec<String>,
    /// How many bindings there are thought to be after it, for each row that the pipeline begins with.
    pub bindings: f64,
}

/// What becomes of a binding at its pipeline's end. Failures in its slots count, read or not, and so do remembered
/// ones.
#[derive(Debug, Clone)]
pub enum End {
    /// A row of the head: an expression for each column.
    Row(Vec<Scalar>),
    /// A tuple of a group.
    Group {
        /// What tuples of one group agree on.
        group: Vec<Scalar>,
        /// The other slots that the head uses.
        tuple: Vec<Slot>,
        /// Expressions that may fail among the aggregates' arguments: each failure counts.
        check: Vec<Scalar>,
    },
    /// A failure.
    Failure,
}

/// What becomes of what a rule's pipelines end with.
#[derive(Debug, Clone)]
pub enum Output {
    /// Each is a row.
    Rows,
    /// A row for each group.
    Groups {
        /// How many columns a group has.
        group: usize,
        /// How many columns a tuple has. Group and tuple together make the distinct tuples of the group.
        tuple: usize,
        /// What is computed, over slots that are first the group's columns, then the tuple's.
        aggregates: Vec<AggregatePlan>,
        /// Where each column of the head comes from.
        columns: Vec<GroupColumn>,
    },
}
