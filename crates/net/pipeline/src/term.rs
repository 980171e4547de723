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
    /// Whether there are such matches without these bits, too.
    pub(crate) optional: bool,
}

/// The value of matched bits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bits {
    /// In the place of the mask.
    Constant(u128),
    Open(Vec<Token>),
    /// One of these, none of which is such a list.
    OneOf(Vec<Bits>),
}

/// Part of a list of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// One action.
    One(Vec<Token>),
    /// Any number of actions of which nothing is known.
    Any(Vec<Token>),
}

impl Part {
    /// Bits that are matched always.
    pub(crate) fn new(field: Field, mask: u128, bits: Bits) -> Part {
        Part { field, mask, bits, optional: false }
    }

    /// The part for each choice, without choices; nothing where it is left out.
    fn forms(&self) -> Vec<Option<Part>> {
        let with = |bits: &Bits| Some(Part::new(self.field, self.mask, bits.clone()));
        let values = self.bits.values().iter().map(with);
        values.chain(self.optional.then_some(None)).collect()
    }
}

impl Bits {
    /// The values that they can have.
    pub(crate) fn values(&self) -> &[Bits] {
        match self {
            Bits::OneOf(values) => values,
            one => std::slice::from_ref(one),
        }
    }

    /// One of these values, each once: constants first, in order.
    pub(crate) fn one_of(all: impl IntoIterator<Item = Bits>) -> Bits {
        let mut values: Vec<Bits> = Vec::new();
        for value in all {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        // Those that are not constant stay in order.
        values.sort_by_key(|value| match value {
            Bits::Constant(value) => (false, *value),
            _ => (true, 0),
        });
        if values.len() == 1 { values.remove(0) } else { Bits::OneOf(values) }
    }

    /// The texts of values that are not known.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[Token]> {
        self.values().iter().filter_map(|value| match value {
            Bits::Open(text) => Some(&**text),
            _ => None,
        })
    }

    /// The bits with other texts.
    pub(crate) fn map(&self, text: &impl Fn(&[Token]) -> Vec<Token>) -> Bits {
        match self {
            Bits::Constant(value) => Bits::Constant(*value),
            Bits::Open(open) => Bits::Open(text(open)),
            Bits::OneOf(values) => Bits::OneOf(values.iter().map(|value| value.map(text)).collect()),
        }
    }
}

impl MatchTerm {
    /// The matches of packets that both match; none if no packet does. They are several only where both say something of the same
    /// bits, and it depends on a choice what.
    pub(crate) fn and(&self, other: &MatchTerm) -> Vec<MatchTerm> {
        let (own, others) = (self.decided_beside(other), other.decided_beside(self));
        own.iter().flat_map(|own| others.iter().filter_map(|other| own.and_decided(other))).collect()
    }

    /// This match without choices among the bits of another: one match for each combination of them.
    fn decided_beside(&self, other: &MatchTerm) -> Vec<MatchTerm> {
        let meets = |part: &Part| {
            other.parts.iter().any(|other| other.field == part.field && other.mask & part.mask != 0)
        };
        let mut decided = vec![MatchTerm { parts: Vec::new(), rest: self.rest.clone() }];
        for part in &self.parts {
            let forms = if meets(part) { part.forms() } else { vec![Some(part.clone())] };
            let with = |form: &Option<Part>, of: &MatchTerm| {
                let parts = of.parts.iter().chain(form).cloned().collect();
                MatchTerm { parts, rest: of.rest.clone() }
            };
            decided = decided.iter().flat_map(|of| forms.iter().map(|form| with(form, of))).collect();
        }
        decided
    }

    fn and_decided(&self, other: &MatchTerm) -> Option<MatchTerm> {
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
                (_, Bits::Open(_) | Bits::OneOf(_)) => new.mask &= !common,
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
