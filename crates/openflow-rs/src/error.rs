//! What can be wrong with text, field values and bytes.

use crate::field::{Field, Prerequisite};

/// A field cannot take a value, or two demands on a packet contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// The value or mask has bits the field does not have.
    #[error("{value:#x} does not fit {field}: the largest value is {max:#x}")]
    Range {
        /// The field.
        field: Field,
        /// The value, or the mask, that is too large.
        value: u128,
        /// The largest value the field can hold.
        max: u128,
    },
    /// Two different values for the same bits of one field: no packet can match.
    #[error("{field} cannot be both {first:#x} and {second:#x}: no packet would match")]
    Conflict {
        /// The field, in canonical storage (a conflict on `xreg0` names `reg0` or `reg1`).
        field: Field,
        /// The value already demanded.
        first: u128,
        /// The value that contradicts it.
        second: u128,
    },
    /// The field must be matched or set as a whole.
    #[error("{field} takes no mask, but {mask:#x} was given: match the whole field or leave it out")]
    NotMaskable {
        /// The field.
        field: Field,
        /// The mask.
        mask: u128,
    },
    /// The field means nothing without another one; the switch would refuse it.
    #[error("{field} needs {needs} in the same match")]
    Prerequisite {
        /// The field.
        field: Field,
        /// What must be matched too.
        needs: Prerequisite,
    },
    /// The field cannot be matched, only read or written by actions.
    #[error("{field} cannot be matched on")]
    NotMatchable {
        /// The field.
        field: Field,
    },
    /// The field cannot be changed by an action.
    #[error("{field} is read-only: actions cannot change it")]
    ReadOnly {
        /// The field.
        field: Field,
    },
    /// A set-field value has bits that its mask excludes, or its mask is zero.
    #[error(
        "{value:#x}/{mask:#x} does not set a part of {field}: the value must lie inside a mask that is not zero"
    )]
    OutsideMask {
        /// The field.
        field: Field,
        /// The value.
        value: u128,
        /// The mask.
        mask: u128,
    },
    /// A VLAN id is set or matched by `vlan_vid` without its present bit.
    #[error("set vlan_vid to 4096 + id: bit 0x1000 must be set in value and mask, not {value:#x}/{mask:#x}")]
    VlanNotPresent {
        /// The value.
        value: u128,
        /// The mask.
        mask: u128,
    },
    /// A bit range that is empty or leaves the field.
    #[error("bits {start}..{end} are not within {field}, which has {bits} bits")]
    BadBits {
        /// The field.
        field: Field,
        /// The first bit, counted from the lowest.
        start: u16,
        /// One past the last bit.
        end: u32,
        /// The field's width.
        bits: u16,
    },
}

/// Text that is not an `ovs-ofctl` match, action list, flow or address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No such field.
    #[error("`{name}` is not a match field known here; ovs-fields(7) lists the usual names")]
    UnknownField {
        /// The name.
        name: String,
    },
    /// No such action.
    #[error("`{name}` is not an action known here; ovs-actions(7) lists the usual names")]
    UnknownAction {
        /// The name.
        name: String,
    },
    /// A value of the wrong form.
    #[error("`{text}` is not a {expected}")]
    Value {
        /// The offending text.
        text: String,
        /// What was expected in its place.
        expected: &'static str,
    },
    /// A name that wants a value stands alone.
    #[error("`{name}` needs a value, as in `{name}=...`")]
    MissingValue {
        /// The name.
        name: String,
    },
    /// `tp_dst`, `icmp_type` and the like say nothing without a protocol.
    #[error("`{name}` needs a protocol in the same match: one of {needs}")]
    Ambiguous {
        /// The name.
        name: String,
        /// Protocols that would give it meaning.
        needs: &'static str,
    },
    /// An instruction stands before an action, or a lone `drop` is not alone.
    #[error(
        "`{first}` must not come before `{second}`: write actions first, then clear_actions, write_actions, write_metadata, goto_table"
    )]
    Order {
        /// What stands too early.
        first: String,
        /// What follows it.
        second: String,
    },
    /// A parenthesis without its partner.
    #[error("unbalanced parentheses in `{text}`")]
    Parentheses {
        /// The offending text.
        text: String,
    },
    /// The field refuses the value.
    #[error(transparent)]
    Field(#[from] MatchError),
}

impl ParseError {
    pub(crate) fn value(text: &str, expected: &'static str) -> ParseError {
        ParseError::Value { text: text.to_owned(), expected }
    }
}

/// Bytes that are not the OpenFlow they claim to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} at byte {offset}: {fault}")]
pub struct DecodeError {
    /// The structure being read, such as "match" or "output action".
    pub what: &'static str,
    /// Where, in bytes from the start of the decoded buffer.
    pub offset: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// The kind of a [`DecodeError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The enclosing structure ends too early.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// How many bytes the structure needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A length field that is too small, too large or not a multiple of eight.
    #[error("impossible length {0}")]
    Length(usize),
    /// Bytes that must be zero are not.
    #[error("padding is not zero")]
    Padding,
    /// A number that names nothing known here.
    #[error("unknown value {0:#x}")]
    Unknown(u64),
    /// The same thing twice where once is allowed.
    #[error("given twice")]
    Duplicate,
    /// A field that refuses its value.
    #[error(transparent)]
    Field(#[from] MatchError),
    /// A structure nested deeper than anything sensible.
    #[error("nested too deep")]
    Depth,
    /// A message in a bundle whose transaction id is not the outer message's.
    #[error("transaction id {inner:#x} inside a bundle message with {outer:#x}")]
    Xid {
        /// The inner message's.
        inner: u32,
        /// The outer message's.
        outer: u32,
    },
    /// The version byte is not OpenFlow 1.5's.
    #[error("OpenFlow version {0:#04x} is not 0x06 (1.5)")]
    Version(u8),
}

/// A message that OpenFlow has no bytes for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Longer than a message may be.
    #[error("the message would have {len} bytes, more than the 65535 OpenFlow allows: split it")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A bundle message inside a bundle.
    #[error("a bundle message cannot stand inside a bundle")]
    NestedBundle,
}
