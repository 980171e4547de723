//! The typed program, the input of planners and evaluators.
//!
//! Names are resolved, types are known and syntactic sugar is removed: named constants are values, operators are
//! functions, and an expression in a term of an atom is a variable and a condition. [`Rule`] documents the meaning of
//! a rule.

mod definition;
mod hook_stages;
mod listing;
mod pipeline;
mod test;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use nlog_data::{Function, ObjectKind, RuleId, Schema, TableId, Type, Value};

pub use crate::hook::Wiring;
pub use definition::define_all;
pub use hook_stages::HookStage;
pub use listing::{Count, Counted, Counter, Listing, Reading};
pub use pipeline::{NamedField, Priority, Reservation, Stage};
pub use test::{ExpectedRow, ObjectsFile, Packet, Pattern, Test, TestStep, TestStepKind};

/// A checked program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its tables.
    pub schema: Arc<Schema>,
    /// Its rules, sorted by fingerprint, so that nothing depends on the order of files or rules.
    pub rules: Vec<Rule>,
    /// The tables in topological order: the body tables of a rule precede its head, and what a hook reads precedes what
    /// it fills.
    pub order: Vec<TableId>,
    /// The hooks that fill input tables, in the order of these. No hook's source depends on its target.
    pub hooks: Vec<Wiring>,
    /// Its unit tests, in order of file and place.
    pub tests: Vec<Test>,
    /// The values of its named constants. Rules contain the values; this is for programs that agree on constants with
    /// the rules.
    pub constants: BTreeMap<String, Value>,
    /// The bodies of the functions that it defines, by name. In a body, variable `n` is parameter `n`. Calls do not
    /// need them, since each function of a call evaluates itself; this is for those who explain the rules.
    pub functions: BTreeMap<String, Expr>,
    /// The kinds of network objects, in name order.
    pub objects: Vec<ObjectKind>,
    /// The output tables with the state of objects, in name order. The key of each is a reference.
    pub states: Vec<TableId>,
    /// The listings and the tables of counters, in name order.
    pub listings: Vec<Listing>,
    /// The stages of the pipeline, by number.
    pub stages: Vec<Stage>,
    /// The priorities of the stages, by the number of the stage, the greatest first.
    pub priorities: Vec<Priority>,
    /// The numbers that it reserves, by the name of their type, the least first.
    pub reservations: Vec<Reservation>,
    /// The named fields of packets, in name order. Rules contain the fields that they stand for.
    pub fields: Vec<NamedField>,
}

impl Program {
    /// The rule of this number.
    ///
    /// # Panics
    /// If the number belongs to another program.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.0 as usize]
    }

    /// The hook that fills this table.
    pub fn hook_of(&self, table: TableId) -> Option<&Wiring> {
        self.hooks.iter().find(|wiring| wiring.to == table)
    }

    /// The rules whose head is this table.
    pub fn rules_of(&self, head: TableId) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules
            .iter()
            .zip(0..)
            .filter(move |(rule, _)| rule.head == head)
            .map(|(rule, id)| (RuleId(id), rule))
    }

    /// A number that another program has not: one with other rules, functions, constants, kinds or hooks, or that another release of
    /// Weft runs.
    pub fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        self.rules.iter().for_each(|rule| rule.fingerprint.hash(&mut hasher));
        format!("{:?}", self.functions).hash(&mut hasher);
        format!("{:?}", self.constants).hash(&mut hasher);
        format!("{:?}", self.objects).hash(&mut hasher);
        self.hooks.iter().for_each(|wiring| wiring.text(&self.schema).hash(&mut hasher));
        for (_, table) in self.schema.iter() {
            format!("{table:?}").hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in Unicode scalar values.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A rule, or a fact if its body is empty.
///
/// A *binding* gives every variable a value: those in atoms from rows of the atoms' tables, the others from
/// [`BodyItem::Let`] and [`BodyItem::Generate`]. The rule derives its head for each binding that satisfies the body.
///
/// *Failures.* An expression can fail (overflow, range). Whatever depends on a failed value is neither true nor
/// false: it is undetermined. If some determined item of the body rejects the binding, it derives nothing and its
/// failures do not count. Otherwise, if anything failed in body or head, the transaction is refused, and the
/// failure with the least code and message is reported. The result does not depend on the order of evaluation.
///
/// *Defaults.* A row of a `default` rule exists if no ordinary rule of the table derives a row with its key. First,
/// the rule's candidates are determined: the bindings of its body, with values for the key columns and for all
/// variables of the head. A failure in the body or in a key column counts as in any rule, whether or not a row is
/// overridden. Then the other columns are computed, but only for candidates whose key no ordinary rule derives;
/// failures that would occur for other candidates do not count. An ordinary rule derives a key even if a sum among
/// its aggregates fails. A table that only defaults fill behaves like one that only ordinary rules fill. A
/// [`Program`] contains no defaults: the checker converts them to ordinary rules over hidden tables
/// ([`Role::Hidden`](nlog_data::Role::Hidden)).
///
/// *Functions of the program* are [`Function`]s like the built-in ones, whose `evaluate` runs the compiled body. Only
/// the taken branch of an `if` is evaluated. If an argument of a call in the body has no value, the call has none,
/// whatever else failed; otherwise the call fails with the least of its arguments' failures. The result is the same
/// as if the body replaced the call. The functions that make records and read their fields, and `to_string` of
/// enumerations, are `Function`s too.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The table it fills.
    pub head: TableId,
    /// One term for each column of the head.
    pub terms: Vec<HeadTerm>,
    /// Its variables; [`VariableId`] is the index.
    pub variables: Vec<Variable>,
    /// Atoms first, then the other items in an order in which each uses only variables bound before it.
    pub body: Vec<BodyItem>,
    /// A stable hash of the rule's tokens, independent of file, place and layout. It becomes the cookie of flows.
    pub fingerprint: u64,
    /// The place of its head.
    pub place: Place,
    /// Its source, from head to semicolon.
    pub text: Arc<str>,
    /// The text of the `##` comments before it.
    pub docs: Option<Arc<str>>,
}

/// A column of a rule's head.
#[derive(Debug, Clone)]
pub enum HeadTerm {
    /// A value; if the head has aggregates, a column to group by.
    Value(Expr),
    /// An aggregate over the group's distinct tuples of the head's variables.
    Aggregate {
        /// The aggregate.
        aggregate: Aggregate,
        /// The arguments: any number for `count` (they only name variables); one for `min`, `max`, `set` and `list`;
        /// one or more for `sum` (all after the first only name variables); two for `arg_min` and `arg_max`.
        arguments: Vec<Expr>,
    },
}

/// The aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// The number of tuples.
    Count,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The sum of integers; overflow is a failure.
    Sum,
    /// All values as a set.
    Set,
    /// All values as an ascending list, one for each tuple.
    List,
    /// The second argument of the tuple with the least first one; ties by the second.
    ArgMin,
    /// The second argument of the tuple with the greatest first one; ties by the greatest second.
    ArgMax,
}

/// The number of a variable in its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// A variable of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name, or one made up for an expression among an atom's terms.
    pub name: String,
    /// The type of its values.
    pub ty: Type,
}

/// A part of a rule's body.
#[derive(Debug, Clone)]
pub enum BodyItem {
    /// Rows of a table. Every variable in an atom is bound by the atoms.
    Atom {
        /// The table.
        table: TableId,
        /// One term for each column.
        terms: Vec<Term>,
        /// Its place.
        place: Place,
    },
    /// Binds a variable that nothing else binds. If the expression has no value (a partial function), there is no
    /// tuple.
    Let {
        /// The variable.
        variable: VariableId,
        /// Its value.
        expr: Expr,
    },
    /// Binds variables that nothing else binds, with a tuple for each of the function's results.
    Generate {
        /// A function with any number of results.
        function: Arc<Function>,
        /// Its arguments.
        arguments: Vec<Expr>,
        /// One for each result column; `None` ignores it.
        results: Vec<Option<VariableId>>,
    },
    /// A condition of type `bool`.
    Filter(Expr),
}

/// A column of an atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// A variable; the same one twice means equality.
    Variable(VariableId),
    /// A value.
    Constant(Value),
    /// `_`.
    Any,
}

/// An expression. The checker has determined its type, which fits its context.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A variable.
    Variable(VariableId),
    /// A value.
    Constant(Value),
    /// A function or operator with one result column and at most one result.
    Call {
        /// The function.
        function: Arc<Function>,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `if c then a else b`: only the branch taken is evaluated.
    If {
        /// A `bool`.
        condition: Box<Expr>,
        /// The value if it holds.
        then: Box<Expr>,
        /// The value if it does not.
        otherwise: Box<Expr>,
    },
}

impl Expr {
    /// Adds the variables that occur in it.
    pub fn variables(&self, into: &mut BTreeSet<VariableId>) {
        match self {
            Expr::Variable(variable) => {
                into.insert(*variable);
            }
            Expr::Constant(_) => {}
            Expr::Call { arguments, .. } => {
                for argument in arguments {
                    argument.variables(into);
                }
            }
            Expr::If { condition, then, otherwise } => {
                for part in [condition, then, otherwise] {
                    part.variables(into);
                }
            }
        }
    }
}
