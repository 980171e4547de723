//! Values that are not known yet: what an expression of a rule is, as far as the rules alone say it.

use nlog_data::{TableId, Type, Value};
use openflow_rs::Field;

/// The number of a symbol in its [`Scope`](crate::scope::Scope).
pub(crate) type SymbolId = usize;

/// The IP versions that an address can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Any,
    Four,
    Six,
}

/// A value that only rows of input tables determine.
#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    /// Its name: that of the variable in the outermost rule that binds it.
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The symbol that determines it: a label belongs to a port.
    pub(crate) owner: Option<SymbolId>,
    pub(crate) version: Version,
    /// The kind of objects whose id it is.
    pub(crate) object: Option<TableId>,
}

/// A piece of a text with symbols in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Text(String),
    Symbol(SymbolId),
    /// A value that is not known, within an action.
    Hole(Vec<Token>),
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    Constant(Value),
    Symbol(SymbolId),
    Computed(Computed),
    Match(MatchTerm),
    Actions(Vec<Piece>),
}

/// The result of a function of values that are not known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Computed {
    /// The expression.
    pub(crate) text: Vec<Token>,
    pub(crate) ty: Type,
    /// A value that it can have.
    pub(crate) sample: Option<Value>,
}

/// A match, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MatchTerm {
    /// Disjoint bits of fields.
    pub(crate) parts: Vec<Part>,
    /// Matches of which nothing is known.
    pub(crate) rest: Vec<Vec<Token>>,
}

/// Bits of a field that are matched.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) field: Field,
    pub(crate) mask: u128,
    pub(crate) bits: Bits,
}

/// The value of matched bits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bits {
    /// In the place of the mask.
    Constant(u128),
    Open(Vec<Token>),
}

/// Part of a list of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// One action.
    One(Vec<Token>),
    /// Any number of actions of which nothing is known.
    Any(Vec<Token>),
}

impl MatchTerm {
    /// The match of packets that both match; none if no packet does.
    pub(crate) fn and(&self, other: &MatchTerm) -> Option<MatchTerm> {
        let mut both = self.clone();
        for part in &other.parts {
            both.add(part.clone())?;
        }
        both.rest.extend(other.rest.iter().filter(|rest| !self.rest.contains(rest)).cloned());
        Some(both)
    }

    /// Adds bits. Where others already demand the same bits, constants stay, because they say more.
    fn add(&mut self, mut new: Part) -> Option<()> {
        for old in self.parts.iter_mut().filter(|old| old.field == new.field) {
            let common = old.mask & new.mask;
            if common == 0 {
                continue;
            }
            match (&mut old.bits, &mut new.bits) {
                (Bits::Constant(old), Bits::Constant(new)) if (*old ^ *new) & common != 0 => return None,
                (Bits::Open(_), Bits::Constant(_)) => old.mask &= !common,
                (_, Bits::Constant(bits)) => {
                    *bits &= !common;
                    new.mask &= !common;
                }
                (_, Bits::Open(_)) => new.mask &= !common,
            }
        }
        self.parts.retain(|part| part.mask != 0);
        if new.mask != 0 {
            self.parts.push(new);
        }
        Some(())
    }
}

/// Whether values of this type have a place in flows.
pub(crate) fn is_flow_type(ty: &Type) -> bool {
    matches!(ty.base(), Type::Match | Type::Actions)
}
