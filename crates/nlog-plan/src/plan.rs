//! What a plan is made of.

use std::sync::Arc;

use nlog::Program;
use nlog::program::Aggregate;
use nlog_data::{Function, RuleId, TableId, Value};

/// The plan of a program.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program.
    pub program: Arc<Program>,
    /// Indexed rows, each after those that it is made of. Equal ones of different rules are one.
    pub arrangements: Vec<Arrangement>,
    /// The rules that are needed, by number.
    pub rules: Vec<RulePlan>,
    /// By table number.
    pub tables: Vec<TablePlan>,
}

/// The number of an arrangement in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrangementId(pub u32);

/// A place in a binding: sources fill the first ones, each [`Step`] that computes something adds its own.
pub type Slot = usize;

/// Bindings, one slot after the other.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Where bindings come from.
    pub source: Source,
    /// What happens to each, in order.
    pub steps: Vec<Step>,
    /// What each slot holds, for people: a variable, a column or an expression.
    pub names: Vec<String>,
}

/// Where bindings come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// One binding without slots: the body of a fact.
    Unit,
    /// The rows of a table that fit. Slot i holds the i-th of `columns`.
    Table {
        /// The table.
        table: TableId,
        /// What rows have to fit.
        select: Vec<Selection>,
        /// The columns that are kept, ascending.
        columns: Vec<usize>,
    },
    /// Pairs with equal keys. Slots: the key, the left values, the right values.
    Join {
        /// The one side.
        left: ArrangementId,
        /// The other.
        right: ArrangementId,
    },
}

/// A condition on a single row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The column.
    pub column: usize,
    /// What it has to equal.
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

/// Something done to each binding.
#[derive(Debug, Clone)]
pub enum Step {
    /// Computes the next slot. No value: the binding is dropped. A failure becomes the slot's value.
    Let(Scalar),
    /// Computes the next slot for a join key. No value or a failure: the binding is dropped.
    Key(Scalar),
    /// Keeps bindings for which the condition holds or fails; its failure is remembered.
    Filter(Scalar),
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
    },
}

/// An expression over slots.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// What the slot holds.
    Slot(Slot),
    /// A value.
    Constant(Value),
    /// A function with at most one result.
    Call {
        /// Which.
        function: Arc<Function>,
        /// What it is applied to.
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

/// Bindings indexed by a key, for joins.
#[derive(Debug, Clone)]
pub struct Arrangement {
    /// What is indexed.
    pub chain: Chain,
    /// The slots to find a binding by.
    pub key: Vec<Slot>,
    /// The slots that it is found for.
    pub value: Vec<Slot>,
    /// Whether a last, hidden value column holds the least failure that no other column shows.
    pub failure: bool,
    /// Whether equal bindings have to be made one. Elsewhere they count, which is as good where a later step makes
    /// them one.
    pub distinct: bool,
    /// Whether key or value have more than [`NARROW`] columns, in this arrangement or in another one of its rule:
    /// both sides of a join are of one kind.
    pub wide: bool,
}

/// The columns that a narrow key or value can have.
pub const NARROW: usize = 4;

/// How a rule is evaluated.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// The rule.
    pub rule: RuleId,
    /// The table that it fills.
    pub head: TableId,
    /// All bindings that satisfy the body.
    pub chain: Chain,
    /// What becomes of them.
    pub output: Output,
    /// Bindings that fail where `chain` could not follow them. Each that arrives is a failure.
    pub failures: Vec<Chain>,
}

/// How the bindings of a rule become rows.
#[derive(Debug, Clone)]
pub enum Output {
    /// A row for each; an expression for each column.
    Rows(Vec<Scalar>),
    /// A row for each group.
    Groups {
        /// What bindings of one group agree on.
        group: Vec<Scalar>,
        /// The other slots that the head uses. Group and tuple together make the distinct tuples of the group.
        tuple: Vec<Slot>,
        /// Expressions that may fail among the aggregates' arguments, over the binding: each failure counts.
        check: Vec<Scalar>,
        /// What is computed.
        aggregates: Vec<AggregatePlan>,
        /// Where each column of the head comes from.
        columns: Vec<GroupColumn>,
        /// Whether group or tuple or the aggregates have more than [`NARROW`] columns.
        wide: bool,
    },
}

/// An aggregate over a group's tuples.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// Which.
    pub aggregate: Aggregate,
    /// What it is computed from, over slots that are first the group's columns, then the tuple's. Arguments that only
    /// name variables are left out.
    pub arguments: Vec<Scalar>,
}

/// Where a column of a grouped head comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupColumn {
    /// The group's column of this number.
    Group(usize),
    /// The aggregate of this number.
    Aggregate(usize),
}

/// What is planned for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePlan {
    /// Whether anything needs the table.
    pub needed: bool,
    /// How duplicates go.
    pub keep: Keep,
}

/// How the rows that rules derive for a table become a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// They are one: an input table, or a rule that cannot derive a row twice, and no key left to check.
    AsIs,
    /// Duplicates are removed.
    Distinct,
    /// Duplicates are removed, and no two rows may agree on these columns.
    Key(Vec<usize>),
}

impl Source {
    /// How many slots it fills.
    pub fn width(&self, arrangements: &[Arrangement]) -> usize {
        match self {
            Source::Unit => 0,
            Source::Table { columns, .. } => columns.len(),
            Source::Join { left, right } => {
                let (left, right) = (&arrangements[left.0 as usize], &arrangements[right.0 as usize]);
                left.key.len() + left.value.len() + right.value.len()
            }
        }
    }
}

impl Scalar {
    /// Whether some function in it can fail.
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
