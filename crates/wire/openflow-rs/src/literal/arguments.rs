//! The arguments of an action's builder, each already checked by itself.

use std::net::IpAddr;

use super::Parameter;
use crate::action::LearnSpec;
use crate::{Action, Actions, Field, MatchError, PortNo, Subfield};

/// A checked argument.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// A flag that was given.
    Flag,
    /// A number within its bounds, and its mask.
    Number(u64, Option<u64>),
    /// An address.
    Address(IpAddr),
    /// A value for bits of a field, counted from their lowest, and its mask.
    Assignment(Subfield, u128, Option<u128>),
    /// A field.
    Field(Subfield),
    /// Text.
    Text(String),
    /// The result of a nested action.
    Part(Part),
}

/// The result of an action in a literal.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// An action.
    Action(Action),
    /// A list of them (`exec`).
    Actions(Actions),
    /// A piece of `learn`.
    Learn(LearnSpec),
}

impl<A: Into<Action>> From<A> for Part {
    fn from(action: A) -> Part {
        Part::Action(action.into())
    }
}

/// Why a builder rejects its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// A field cannot have a value.
    Field(MatchError),
    /// An invalid combination of values: the fault and the remedy.
    Values(String, String),
    /// An invalid combination of arguments, whatever their values: the fault and the remedy.
    Arguments(String, String),
}

impl From<MatchError> for Refusal {
    fn from(error: MatchError) -> Refusal {
        Refusal::Field(error)
    }
}

impl Refusal {
    pub(crate) fn values(message: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal::Values(message.into(), remedy.into())
    }

    pub(crate) fn arguments(message: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal::Arguments(message.into(), remedy.into())
    }
}

/// The arguments of one action, by the names of its parameters.
pub(crate) struct Arguments<'a> {
    pub(super) parameters: &'static [Parameter],
    /// The index of the parameter, and the argument.
    pub(super) given: &'a [(usize, Bound)],
}

impl<'a> Arguments<'a> {
    fn every(&self, name: &'static str) -> impl Iterator<Item = &'a Bound> {
        let index = self.parameters.iter().position(|parameter| parameter.name == name);
        self.given.iter().filter(move |(at, _)| Some(*at) == index).map(|(_, bound)| bound)
    }

    fn one(&self, name: &'static str) -> Option<&'a Bound> {
        self.every(name).next()
    }

    fn missing(name: &str) -> Refusal {
        Refusal::arguments(format!("the argument `{name}` is missing"), format!("add `{name}`"))
    }

    /// Whether the flag was given.
    pub(crate) fn flag(&self, name: &'static str) -> bool {
        self.one(name).is_some()
    }

    /// A number, if given. It is within the parameter's bounds, so it fits a type chosen for them.
    pub(crate) fn optional<T: TryFrom<u64>>(&self, name: &'static str) -> Option<T> {
        match self.one(name) {
            Some(Bound::Number(n, _)) => T::try_from(*n).ok(),
            _ => None,
        }
    }

    /// A number that must be given.
    pub(crate) fn number<T: TryFrom<u64>>(&self, name: &'static str) -> Result<T, Refusal> {
        self.optional(name).ok_or_else(|| Self::missing(name))
    }

    /// A number and its mask, all ones if none was given.
    pub(crate) fn masked(&self, name: &'static str) -> Result<(u64, u64), Refusal> {
        match self.one(name) {
            Some(Bound::Number(n, mask)) => Ok((*n, mask.unwrap_or(u64::MAX))),
            _ => Err(Self::missing(name)),
        }
    }

    /// A port.
    pub(crate) fn port(&self, name: &'static str) -> Option<PortNo> {
        self.optional(name).map(PortNo)
    }

    /// An address, if given.
    pub(crate) fn address(&self, name: &'static str) -> Option<IpAddr> {
        match self.one(name) {
            Some(Bound::Address(ip)) => Some(*ip),
            _ => None,
        }
    }

    /// A value, the field it is for, and its mask.
    pub(crate) fn assignment(&self, name: &'static str) -> Result<(Subfield, u128, Option<u128>), Refusal> {
        match self.one(name) {
            Some(Bound::Assignment(to, value, mask)) => Ok((*to, *value, *mask)),
            _ => Err(Self::missing(name)),
        }
    }

    /// A field, if given.
    pub(crate) fn optional_field(&self, name: &'static str) -> Option<Subfield> {
        match self.one(name) {
            Some(Bound::Field(field)) => Some(*field),
            _ => None,
        }
    }

    /// A field that must be given.
    pub(crate) fn field(&self, name: &'static str) -> Result<Subfield, Refusal> {
        self.optional_field(name).ok_or_else(|| Self::missing(name))
    }

    /// Text that must be given.
    pub(crate) fn text(&self, name: &'static str) -> Result<&'a str, Refusal> {
        self.optional_text(name).ok_or_else(|| Self::missing(name))
    }

    /// Text, if given.
    pub(crate) fn optional_text(&self, name: &'static str) -> Option<&'a str> {
        match self.one(name) {
            Some(Bound::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The results of the nested actions.
    pub(crate) fn parts(&self, name: &'static str) -> impl Iterator<Item = &'a Part> {
        self.every(name).filter_map(|bound| match bound {
            Bound::Part(part) => Some(part),
            _ => None,
        })
    }

    /// The nested actions as a list.
    pub(crate) fn actions(&self, name: &'static str) -> Actions {
        let actions = self.parts(name).filter_map(|part| match part {
            Part::Action(action) => Some(action.clone()),
            _ => None,
        });
        actions.collect()
    }
}

/// The destination of a `set`: value and mask in their place within the field.
pub(crate) fn placed(to: Subfield, value: u128, mask: Option<u128>) -> (Field, u128, u128) {
    let field = to.field();
    let whole = if to == Subfield::whole(field) { field.max_value() } else { to.mask() };
    (field, value << to.start(), mask.map_or(whole, |mask| mask << to.start()))
}
