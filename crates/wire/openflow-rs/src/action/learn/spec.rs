//! The specs of `learn`: match and actions of the learned flow.

use std::fmt;

use super::super::move_bits::same_width;
use super::super::{ActionInfo, Call, Context, Parameter, Refusal, Subfield};
use crate::error::Fault;
use crate::field::text::{Hex, number};
use crate::literal::{Arguments, Part};
use crate::wire::{Reader, put_uint};
use crate::{DecodeError, Field, MatchError, ParseError, oxm};

/// One match field or action of the learned flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LearnSpec {
    /// It matches `to` with the value of `from` in this packet.
    Copy {
        /// In this packet.
        from: Subfield,
        /// In later packets; of the same width.
        to: Subfield,
    },
    /// It matches `to` with `value`.
    Match {
        /// The bits matched.
        to: Subfield,
        /// Their value, counted from the lowest of them.
        value: u128,
    },
    /// It writes to `to` the value of `from` in this packet.
    Move {
        /// In this packet.
        from: Subfield,
        /// In later packets; of the same width and writable.
        to: Subfield,
    },
    /// It writes `value` to `to`.
    Set {
        /// The bits written.
        to: Subfield,
        /// Their value, counted from the lowest of them.
        value: u128,
    },
    /// It outputs packets to the port whose number is in `from` of this packet.
    Output {
        /// In this packet.
        from: Subfield,
    },
}

// The header of a spec: where from, what for, how many bits.
const IMMEDIATE: u16 = 1 << 13;
const MATCH_BITS: u16 = 0;
const LOAD_BITS: u16 = 1 << 11;
const OUTPUT_BITS: u16 = 2 << 11;
const WIDTH: u16 = 0x7ff;

impl LearnSpec {
    /// The bits of the learned flow that are matched or written.
    pub fn destination(&self) -> Option<Subfield> {
        match self {
            LearnSpec::Copy { to, .. }
            | LearnSpec::Match { to, .. }
            | LearnSpec::Move { to, .. }
            | LearnSpec::Set { to, .. } => Some(*to),
            LearnSpec::Output { .. } => None,
        }
    }

    /// Checks widths, values and whether the destination can be written.
    pub(super) fn checked(self) -> Result<LearnSpec, MatchError> {
        if let LearnSpec::Move { to, .. } | LearnSpec::Set { to, .. } = self
            && (!to.field().info().writable || to.field() == Field::InPortOxm)
        {
            return Err(MatchError::ReadOnly { field: to.field() });
        }
        match self {
            LearnSpec::Copy { from, to } | LearnSpec::Move { from, to } if from.bits() != to.bits() => {
                let (field, start) = (to.field(), to.start());
                let end = u32::from(start) + u32::from(from.bits());
                Err(MatchError::BadBits { field, start, end, bits: to.bits() })
            }
            LearnSpec::Match { to, value } | LearnSpec::Set { to, value } => {
                let max = u128::MAX >> (128 - to.bits());
                if value > max {
                    return Err(MatchError::Range { field: to.field(), value, max });
                }
                Ok(self)
            }
            _ => Ok(self),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let head = |out: &mut Vec<u8>, bits: u16| out.extend_from_slice(&bits.to_be_bytes());
        let field = |out: &mut Vec<u8>, part: Subfield| {
            out.extend_from_slice(&oxm::short_header(part.field()).to_be_bytes());
            out.extend_from_slice(&part.start().to_be_bytes());
        };
        let value_bytes = |out: &mut Vec<u8>, part: Subfield, value| {
            put_uint(out, value, 2 * usize::from(part.bits().div_ceil(16)));
        };
        match *self {
            LearnSpec::Copy { from, to } | LearnSpec::Move { from, to } => {
                let purpose = if matches!(self, LearnSpec::Copy { .. }) { MATCH_BITS } else { LOAD_BITS };
                head(out, purpose | to.bits());
                field(out, from);
                field(out, to);
            }
            LearnSpec::Match { to, value } | LearnSpec::Set { to, value } => {
                let purpose = if matches!(self, LearnSpec::Match { .. }) { MATCH_BITS } else { LOAD_BITS };
                head(out, IMMEDIATE | purpose | to.bits());
                value_bytes(out, to, value);
                field(out, to);
            }
            LearnSpec::Output { from } => {
                head(out, OUTPUT_BITS | from.bits());
                field(out, from);
            }
        }
    }

    /// Reads one part of the text that is not a property of the action.
    pub(super) fn parse(part: Call<'_>) -> Result<LearnSpec, ParseError> {
        let arrow = || ParseError::value(part.text, "load: VALUE->FIELD or FIELD->FIELD");
        let spec = match part.name {
            "load" => {
                let (from, to) = part.arg.split_once("->").ok_or_else(arrow)?;
                let to: Subfield = to.parse()?;
                match from.parse() {
                    Ok(from) => LearnSpec::Move { from, to },
                    Err(_) => LearnSpec::Set { to, value: number(from)? },
                }
            }
            "output" => LearnSpec::Output { from: part.arg.parse()? },
            name => {
                let to: Subfield = name.parse()?;
                if part.text == part.name {
                    LearnSpec::Copy { from: to, to }
                } else if let Ok(from) = part.arg.parse() {
                    LearnSpec::Copy { from, to }
                } else {
                    LearnSpec::Match { to, value: matched_value(to, part.arg)? }
                }
            }
        };
        Ok(spec.checked()?)
    }
}

/// A value to match. Whole fields use the field's own notation.
fn matched_value(to: Subfield, text: &str) -> Result<u128, ParseError> {
    if to != Subfield::whole(to.field()) {
        return number(text);
    }
    match to.field().read(text)? {
        (value, mask) if mask == to.field().max_value() => Ok(value),
        _ => Err(ParseError::value(text, "value without a mask: in learn, select bits of the field instead")),
    }
}

/// Reads specs until the reader is empty or only padding is left.
pub(super) fn decode(body: &mut Reader<'_>) -> Result<Vec<LearnSpec>, DecodeError> {
    let mut specs = Vec::new();
    while body.left() >= 2 {
        let at = body.clone();
        let head = body.u16()?;
        if head == 0 {
            return Ok(specs);
        }
        let bits = head & WIDTH;
        let unknown = || at.fault(Fault::Unknown(head.into()));
        let field = |body: &mut Reader<'_>| {
            let field = oxm::get_short(body)?;
            let start = body.u16()?;
            Subfield::new(field, start, bits).map_err(|error| at.fault(error))
        };
        let spec = if head & IMMEDIATE != 0 {
            let bytes = 2 * usize::from(bits.div_ceil(16));
            if bytes > 16 {
                return Err(unknown());
            }
            let value = body.uint(bytes)?;
            let to = field(body)?;
            match head & !WIDTH & !IMMEDIATE {
                MATCH_BITS => LearnSpec::Match { to, value },
                LOAD_BITS => LearnSpec::Set { to, value },
                _ => return Err(unknown()),
            }
        } else {
            let from = field(body)?;
            match head & !WIDTH {
                MATCH_BITS => LearnSpec::Copy { from, to: field(body)? },
                LOAD_BITS => LearnSpec::Move { from, to: field(body)? },
                OUTPUT_BITS => LearnSpec::Output { from },
                _ => return Err(unknown()),
            }
        };
        specs.push(spec.checked().map_err(|error| at.fault(error))?);
    }
    Ok(specs)
}

impl fmt::Display for LearnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LearnSpec::Copy { from, to } if from == to => write!(f, "{to}"),
            LearnSpec::Copy { from, to } => write!(f, "{to}={from}"),
            LearnSpec::Match { to, value }
                if to == Subfield::whole(to.field()) && !to.field().is_option() =>
            {
                write!(f, "{}=", to.field())?;
                to.field().write_set(f, value, to.field().max_value())
            }
            LearnSpec::Match { to, value } => write!(f, "{to}={}", Hex(value)),
            LearnSpec::Move { from, to } => write!(f, "load:{from}->{to}"),
            LearnSpec::Set { to, value } => write!(f, "load:{}->{to}", Hex(value)),
            LearnSpec::Output { from } => write!(f, "output:{from}"),
        }
    }
}

/// A literal within `learn`.
const fn within_learn(
    name: &'static str,
    doc: &'static str,
    parameters: &'static [Parameter],
    examples: &'static [(&'static str, &'static str)],
    build: fn(&Arguments<'_>) -> Result<Part, Refusal>,
) -> ActionInfo {
    ActionInfo::new(name, doc, parameters, examples, build).within(&[Context::Learn])
}

fn part(spec: LearnSpec) -> Result<Part, Refusal> {
    Ok(Part::Learn(spec.checked()?))
}

pub(super) const MATCH: ActionInfo = within_learn(
    "match",
    "The learned flow matches a field with a value.",
    &[
        Parameter::read("field", "The field or bits of it."),
        Parameter::whole_value_of(
            "value",
            "field",
            "The value. Instead of a mask, select bits of the field.",
        ),
    ],
    &[
        (
            "learn(table: 2, match(eth_type, 0x800), match(nw_proto, 6), copy(tcp_src, tcp_dst))",
            "learn(table=2,eth_type=0x800,nw_proto=6,NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[])",
        ),
        ("learn(table: 2, match(reg1[0..3], 5))", "learn(table=2,NXM_NX_REG1[0..3]=0x5)"),
    ],
    |given| {
        let (to, value, _) = given.assignment("value")?;
        part(LearnSpec::Match { to, value })
    },
);

pub(super) const COPY: ActionInfo = within_learn(
    "copy",
    "The learned flow matches `to`, by default `from`, with the value of `from` in this packet.",
    &[
        Parameter::read("from", "In this packet."),
        Parameter::read("to", "In later packets; of the same width.").optional(),
    ],
    &[
        ("learn(table: 2, copy(metadata))", "learn(table=2,OXM_OF_METADATA[])"),
        ("learn(table: 2, copy(eth_src, eth_dst))", "learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])"),
    ],
    |given| {
        let from = given.field("from")?;
        let to = given.optional_field("to").unwrap_or(from);
        same_width(from, to)?;
        part(LearnSpec::Copy { from, to })
    },
);

pub(super) const SET: ActionInfo = within_learn(
    "set",
    "The learned flow writes a value to a field.",
    &[
        Parameter::written("field", "The field or bits of it."),
        Parameter::whole_value_of(
            "value",
            "field",
            "The value. Instead of a mask, select bits of the field.",
        ),
    ],
    &[("learn(table: 2, set(reg1[8..15], 7))", "learn(table=2,load:0x7->NXM_NX_REG1[8..15])")],
    |given| {
        let (to, value, _) = given.assignment("value")?;
        part(LearnSpec::Set { to, value })
    },
);

pub(super) const MOVE: ActionInfo = within_learn(
    "move",
    "The learned flow writes to `to` the value that `from` has in this packet.",
    &[
        Parameter::read("from", "In this packet."),
        Parameter::written("to", "In later packets; of the same width."),
    ],
    &[(
        "learn(table: 2, move(in_port, reg1[0..15]))",
        "learn(table=2,load:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15])",
    )],
    |given| {
        let (from, to) = (given.field("from")?, given.field("to")?);
        same_width(from, to)?;
        part(LearnSpec::Move { from, to })
    },
);

pub(super) const OUTPUT_FIELD: ActionInfo = within_learn(
    "output_field",
    "The learned flow outputs packets to the port whose number is in the field of this packet.",
    &[Parameter::read("from", "In this packet.")],
    &[("learn(table: 2, output_field(in_port))", "learn(table=2,output:NXM_OF_IN_PORT[])")],
    |given| part(LearnSpec::Output { from: given.field("from")? }),
);
