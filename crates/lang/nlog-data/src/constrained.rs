//! Constrained types: types with fewer values than their base type.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::function::Results;
use crate::quotation::quote;
use crate::{Function, Record, Type, Value};

/// A declared type of the values of another type that satisfy a constraint, identified by its name, which is unique
/// in the program.
///
/// Only tables hold values to it: expressions have its base type, with the kinds of objects if the values are ids. Whoever fills an input table checks the rows; rules
/// check the rows that they derive.
#[derive(Debug)]
pub struct Constrained {
    /// Its name.
    pub name: String,
    /// The type that it restricts, which may be constrained too.
    pub base: Type,
    /// What its values mean beyond those of the base type.
    pub meaning: Meaning,
    /// Set after the functions that it calls, which may themselves use the type, are compiled.
    constraint: OnceLock<Constraint>,
}

/// What the values of a type mean beyond those of its base type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meaning {
    /// No more than those of the base type: a declared constrained type.
    Value,
    /// `ref a | b`: the id of an object of one of these kinds. The base type is `string`. Only the store of objects
    /// checks that the object exists.
    Reference(Vec<String>),
    /// `map<pair>`: a mapping, in documents, from the first field of a record of two fields to the second. The base
    /// type is a set of such records.
    Mapping,
    /// `choice<record>`: in documents, exactly one of the fields of a record of optional values. The base type is this
    /// record. Rows of other records are not refused: whoever reads documents checks it.
    Choice,
}

/// What a value must satisfy.
#[derive(Debug, Clone, Default)]
pub struct Constraint {
    /// The least and the greatest integer.
    pub range: Option<(i64, i64)>,
    /// Conditions, in declared order.
    pub conditions: Vec<Condition>,
}

/// A condition of a constraint.
#[derive(Debug, Clone)]
pub struct Condition {
    /// Its source text.
    pub text: String,
    /// What a user is told about a value that does not satisfy it.
    pub message: Option<String>,
    /// A function from the value to a `bool`.
    pub holds: Arc<Function>,
}

impl Constrained {
    /// A type whose constraint is set later.
    pub fn new(name: String, base: Type) -> Self {
        Constrained { name, base, meaning: Meaning::Value, constraint: OnceLock::new() }
    }

    /// The ids of objects of any of these kinds.
    pub fn reference(kinds: Vec<String>) -> Self {
        let name = format!("ref {}", kinds.join(" | "));
        Constrained {
            name,
            base: Type::String,
            meaning: Meaning::Reference(kinds),
            constraint: OnceLock::new(),
        }
    }

    /// A mapping from the first field of a record type to its second.
    pub fn mapping(record: Type) -> Self {
        let (name, base) = (format!("map<{record}>"), Type::set(record));
        Constrained { name, base, meaning: Meaning::Mapping, constraint: OnceLock::new() }
    }

    /// A choice among the fields of a record type.
    pub fn choice(record: Type) -> Self {
        let name = format!("choice<{record}>");
        Constrained { name, base: record, meaning: Meaning::Choice, constraint: OnceLock::new() }
    }

    /// Sets the constraint. A second constraint is ignored.
    pub fn set(&self, constraint: Constraint) {
        let _ = self.constraint.set(constraint);
    }

    /// The constraint; `None` before it is set.
    pub fn constraint(&self) -> Option<&Constraint> {
        self.constraint.get()
    }

    /// The reason why a value of the base type is not in this type; `None` if it is.
    pub fn refusal(&self, value: &Value) -> Option<String> {
        let Constraint { range, conditions } = self.constraint()?;
        if let (Some((least, greatest)), Value::Int(number)) = (range, value)
            && !(least..=greatest).contains(&number)
        {
            return Some(format!("must be from {least} to {greatest}"));
        }
        let failed = conditions.iter().find(|condition| !condition.is_true(value))?;
        Some(failed.message.clone().unwrap_or_else(|| format!("must satisfy {}", failed.text)))
    }
}

impl Condition {
    /// Whether a value satisfies it. A value for which it fails or has no result does not.
    fn is_true(&self, value: &Value) -> bool {
        matches!((self.holds.evaluate)(std::slice::from_ref(value)), Ok(Results::One(Value::Bool(true))))
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((least, greatest)) = self.range {
            write!(f, " {least}..{greatest}")?;
        }
        self.conditions.iter().try_for_each(|condition| write!(f, " where {}", condition.text))
    }
}

impl Type {
    /// The type without its constraint: the type of its values in expressions. Constraints of parts stay.
    pub fn base(&self) -> &Type {
        let mut ty = self;
        while let Type::Constrained(of) = ty {
            ty = &of.base;
        }
        ty
    }

    /// The type of its values in expressions: the [base type](Type::base), but for ids of objects the reference, which
    /// knows their kinds.
    pub fn in_expressions(&self) -> &Type {
        let mut ty = self;
        while let Type::Constrained(of) = ty {
            if let Meaning::Reference(_) = of.meaning {
                break;
            }
            ty = &of.base;
        }
        ty
    }

    /// The kinds of objects of which a value is an id; `None` if values are no ids. Parts do not count.
    pub fn kinds(&self) -> Option<&[String]> {
        match self.in_expressions() {
            Type::Constrained(of) => match &of.meaning {
                Meaning::Reference(kinds) => Some(kinds),
                Meaning::Value | Meaning::Mapping | Meaning::Choice => None,
            },
            _ => None,
        }
    }

    /// The record of whose fields documents give exactly one; `None` if values are no choices.
    pub fn alternatives(&self) -> Option<&Record> {
        let Type::Constrained(of) = self else { return None };
        match (&of.meaning, of.base.base()) {
            (Meaning::Choice, Type::Record(record)) => Some(record),
            _ => of.base.alternatives(),
        }
    }

    /// The type of the elements of what documents write as a list: of a list, or of a set that is no mapping.
    pub fn elements(&self) -> Option<&Type> {
        match self {
            Type::List(of) | Type::Set(of) => Some(of),
            Type::Constrained(of) if of.meaning != Meaning::Mapping => of.base.elements(),
            _ => None,
        }
    }

    /// The kinds of objects that a value or its parts can refer to.
    pub fn kinds_within(&self) -> BTreeSet<&str> {
        let mut kinds = BTreeSet::new();
        self.add_kinds(&mut kinds);
        kinds
    }

    fn add_kinds<'t>(&'t self, kinds: &mut BTreeSet<&'t str>) {
        match self.in_expressions() {
            Type::Set(of) | Type::List(of) | Type::Opt(of) => of.add_kinds(kinds),
            Type::Record(of) => of.fields.iter().for_each(|(_, ty)| ty.add_kinds(kinds)),
            ty => kinds.extend(ty.kinds().into_iter().flatten().map(String::as_str)),
        }
    }

    /// Whether a value can have both types, apart from constraints: ids of different kinds cannot.
    pub fn agrees(&self, other: &Type) -> bool {
        match (self.in_expressions(), other.in_expressions()) {
            (Type::Set(of), Type::Set(other))
            | (Type::List(of), Type::List(other))
            | (Type::Opt(of), Type::Opt(other)) => of.agrees(other),
            (ty, other) => {
                let shared = ty.kinds().zip(other.kinds());
                ty.base() == other.base()
                    && shared.is_none_or(|(kinds, others)| kinds.iter().any(|kind| others.contains(kind)))
            }
        }
    }

    /// Whether the type or a part of it is constrained.
    pub fn is_constrained(&self) -> bool {
        match self {
            Type::Constrained(of) if of.meaning == Meaning::Value => true,
            Type::Constrained(of) => of.base.is_constrained(),
            Type::Set(of) | Type::List(of) | Type::Opt(of) => of.is_constrained(),
            Type::Record(of) => of.fields.iter().any(|(_, ty)| ty.is_constrained()),
            _ => false,
        }
    }

    /// The reason why a value violates a constraint of the type or of a part of it: `4095 is not a vlan: must be from 1
    /// to 4094`. `None` if it violates none, or has another type.
    pub fn violation(&self, value: &Value) -> Option<String> {
        match (self, value) {
            (Type::Constrained(of), value) => of.base.violation(value).or_else(|| {
                let reason = of.refusal(value)?;
                Some(format!("{} is not a value of type {}: {reason}", quote(value), of.name))
            }),
            (Type::Set(of), Value::Set(values)) | (Type::List(of), Value::List(values)) => {
                values.iter().find_map(|value| of.violation(value))
            }
            (Type::Opt(_), Value::None) => None,
            (Type::Opt(of), value) => of.violation(value),
            (Type::Record(of), Value::Record(values)) => {
                of.fields.iter().zip(values.iter()).find_map(|((_, ty), value)| ty.violation(value))
            }
            _ => None,
        }
    }
}

impl Constrained {
    /// Equal types have equal values: a program with another constraint has another type.
    fn identity(&self) -> (&str, &Type, String) {
        (&self.name, &self.base, self.constraint().map(ToString::to_string).unwrap_or_default())
    }
}

impl PartialEq for Constrained {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Constrained {}

impl Hash for Constrained {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Constrained {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Constrained {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}
