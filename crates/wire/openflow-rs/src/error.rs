//! Errors in text, field values and bytes.

use crate::field::{Field, Prerequisite};

/// A field cannot have a value, or two parts of a match contradict each other.
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
        /// The value already required.
        first: u128,
        /// The contradicting value.
        second: u128,
    },
    /// The field can only be matched or set as a whole.
    #[error("{field} takes no mask, but {mask:#x} was given: match the whole field or not at all")]
    NotMaskable {
        /// The field.
        field: Field,
        /// The mask.
        mask: u128,
    },
    /// The match lacks a prerequisite of the field; a switch would reject it.
    #[error("{field} needs {needs} in the same match")]
    Prerequisite {
        /// The field.
        field: Field,
        /// The prerequisite.
        needs: Prerequisite,
    },
    /// The field cannot be matched; only actions can read or write it.
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
    /// A set-field value has bits outside its mask, or the mask is zero.
    #[error(
        "{value:#x}/{mask:#x} does not set a part of {field}: the mask must not be zero and must cover the value"
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
    /// A bit range that is empty or not inside the field.
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
    #[error("`{name}` is not a known match field; ovs-fields(7) lists the names")]
    UnknownField {
        /// The name.
        name: String,
    },
    /// No such action.
    #[error("`{name}` is not a known action; ovs-actions(7) lists the names")]
    UnknownAction {
        /// The name.
        name: String,
    },
    /// A value of the wrong form.
    #[error("`{text}` is not a {expected}")]
    Value {
        /// The offending text.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A name without the value that it needs.
    #[error("`{name}` needs a value, as in `{name}=...`")]
    MissingValue {
        /// The name.
        name: String,
    },
    /// `tp_dst`, `icmp_type` and the like without a protocol.
    #[error("`{name}` needs a protocol in the same match: one of {needs}")]
    Ambiguous {
        /// The name.
        name: String,
        /// Protocols that define it.
        needs: &'static str,
    },
    /// An instruction before an action, or `drop` together with other actions.
    #[error(
        "`{first}` must not come before `{second}`: write actions first, then clear_actions, write_actions, write_metadata, goto_table"
    )]
    Order {
        /// The part that comes too early.
        first: String,
        /// The part after it.
        second: String,
    },
    /// Unbalanced parentheses.
    #[error("unbalanced parentheses in `{text}`")]
    Parentheses {
        /// The offending text.
        text: String,
    },
    /// The field cannot have the value.
    #[error(transparent)]
    Field(#[from] MatchError),
}

impl ParseError {
    pub(crate) fn value(text: &str, expected: &'static str) -> ParseError {
        ParseError::Value { text: text.to_owned(), expected }
    }
}

/// Malformed OpenFlow bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} at byte {offset}: {fault}")]
pub struct DecodeError {
    /// The structure being read, such as "match" or "output action".
    pub what: &'static str,
    /// The place, in bytes from the start of the decoded buffer.
    pub offset: usize,
    /// The fault.
    pub fault: Fault,
}

/// The kind of a [`DecodeError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The enclosing structure is too short.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// The number of bytes that the structure needs.
        needed: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// A length field that is too small, too large or not a multiple of eight.
    #[error("impossible length {0}")]
    Length(usize),
    /// Nonzero bytes where zeros are required.
    #[error("padding is not zero")]
    Padding,
    /// A number that this crate does not know.
    #[error("unknown value {0:#x}")]
    Unknown(u64),
    /// A name that this crate does not know.
    #[error("unknown name {0:?}")]
    Name(String),
    /// A part that may occur only once.
    #[error("given twice")]
    Duplicate,
    /// A field that cannot have the value.
    #[error(transparent)]
    Field(#[from] MatchError),
    /// A structure that is nested too deeply.
    #[error("nested too deeply")]
    Depth,
    /// A message in a bundle with another transaction id than the outer message.
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

/// A message that OpenFlow cannot encode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The message is longer than OpenFlow allows.
    #[error("the message would have {len} bytes, more than the 65535 OpenFlow allows: split it")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A bundle message inside a bundle.
    #[error("a bundle message cannot be used inside a bundle")]
    NestedBundle,
}
