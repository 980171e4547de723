//! The smallest parts of a plan: expressions, conditions on rows, aggregates.

use std::sync::Arc;

use nlog::program::Aggregate;
use nlog_data::{Function, Value};

/// A place in a binding: a pipeline's start fills the first slots, and each [`Step`](crate::query::Step) that
/// computes a value adds a slot.
pub type Slot = usize;

/// A condition on a single row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The column.
    pub column: usize,
    /// The required value.
    pub equals: Operand,
}

/// The other side of a [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// Another column of the row.
    Column(usize),
    /// A value.
    Constant(Value),
}

/// An expression over slots.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// The value of the slot.
    Slot(Slot),
    /// A value.
    Constant(Value),
    /// A function with at most one result.
    Call {
        /// The function.
        function: Arc<Function>,
        /// Its arguments.
        arguments: Vec<Scalar>,
    },
    /// `if c then a else b`.
    If {
        /// A `bool`.
        condition: Box<Scalar>,
        /// The value if it holds.
        then: Box<Scalar>,
        /// The value if it does not.
        otherwise: Box<Scalar>,
    },
}

/// An aggregate over a group's tuples.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// The aggregate.
    pub aggregate: Aggregate,
    /// Its arguments, over slots that are first the group's columns, then the tuple's. Arguments that only name
    /// variables are omitted.
    pub arguments: Vec<Scalar>,
}

/// The source of a column of a grouped head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupColumn {
    /// The group's column of this number.
    Group(usize),
    /// The aggregate of this number.
    Aggregate(usize),
}

/// How the derived rows of a table become a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The rows are a set already: those of an input table, or of a rule that cannot derive a row twice and whose
    /// table has no key left to check.
    AsIs,
    /// Duplicates are removed.
    Distinct,
    /// Duplicates are removed, and no two rows may agree on these columns.
    Key(Vec<usize>),
}

impl Scalar {
    /// Whether any function in it can fail.
    pub fn may_fail(&self) -> bool {
        match self {
            Scalar::Slot(_) | Scalar::Constant(_) => false,
            Scalar::Call { function, arguments } => {
                function.may_fail || arguments.iter().any(Scalar::may_fail)
            }
            Scalar::If { condition, then, otherwise } => {
                condition.may_fail() || then.may_fail() || otherwise.may_fail()
            }
        }
    }
}
