//! Actions and instructions, in one list as Open vSwitch prints them.
//!
//! To add an action: write `action/NAME.rs` with a type that implements `Body` and its tests, and
//! add one line to the `actions!` list below. The enum, the text, the wire format and the form in
//! literals follow from it; a missing piece does not compile.

mod list;
mod subfield;

use std::fmt;

use crate::error::Fault;
use crate::literal::{ActionInfo, Context, Parameter, Refusal};
use crate::wire::{Reader, pad8, patch_len};
use crate::{DecodeError, ParseError};

pub use list::Actions;
pub(crate) use list::next_call;
pub use subfield::Subfield;

/// Nicira's experimenter id.
pub(crate) const NICIRA: u32 = 0x0000_2320;
/// `OFPAT_EXPERIMENTER`.
const EXPERIMENTER: u16 = 0xffff;
/// The maximum nesting of action lists. No sensible list nests deeper, and hostile bytes must not
/// exhaust the stack.
pub(crate) const DEPTH_MAX: u8 = 8;

/// The last table that can contain flows; 255 has a special meaning wherever a table is named.
pub(crate) const TABLE_MAX: u64 = 254;

/// The identification of an action on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// A standard action type of OpenFlow 1.5.
    Of(u16),
    /// A Nicira extension's subtype.
    Nx(u16),
    /// An instruction, outside the apply-actions list.
    Instruction(u16),
}

/// One action as text: `name:arg`, `name(arg)`, `name(arg)->target` or `name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) arg: &'a str,
    /// The part after `->` behind the closing parenthesis.
    pub(crate) target: Option<&'a str>,
    /// The whole text, for errors.
    pub(crate) text: &'a str,
}

/// The items that each action file provides.
pub(crate) trait Body: Sized {
    /// The names of the action in text.
    const NAMES: &'static [&'static str];
    /// Its wire forms.
    const WIRE: &'static [Wire];
    /// Place among instructions: 0 for actions in the apply-actions list, then in OpenFlow's order.
    const STAGE: u8 = 0;
    /// Whether `->` and a field follow the parentheses.
    const HAS_TARGET: bool = false;
    /// Its entries for literals, usually one; empty for actions that literals do not support.
    const LITERALS: &'static [ActionInfo];

    /// Reads the bytes that follow the header, padding included.
    fn decode(wire: Wire, body: &mut Reader<'_>, depth: u8) -> Result<Self, DecodeError>;
    /// Appends header, body and padding.
    fn encode(&self, out: &mut Vec<u8>);
    /// Writes the dump form.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    /// Reads any spelling under one of the names.
    fn parse(call: Call<'_>) -> Result<Action, ParseError>;
}

impl Wire {
    /// Appends an action of this kind: header, whatever `body` appends, padding, length.
    pub(crate) fn put(self, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        let (kind, subtype) = match self {
            Wire::Of(kind) | Wire::Instruction(kind) => (kind, None),
            Wire::Nx(subtype) => (EXPERIMENTER, Some(subtype)),
        };
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        if let Some(subtype) = subtype {
            out.extend_from_slice(&NICIRA.to_be_bytes());
            out.extend_from_slice(&subtype.to_be_bytes());
        }
        body(out);
        pad8(out, start);
        patch_len(out, start, start + 2);
    }
}

macro_rules! actions {
    ($($module:ident::$name:ident,)*) => {
        $(mod $module;)*
        $(pub use $module::$name;)*

        /// An action or instruction, in the order in which Open vSwitch prints them.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
            /// An action that this crate does not support, kept as bytes.
            Unknown(UnknownAction),
        }

        $(impl From<$name> for Action {
            fn from(body: $name) -> Action {
                Action::$name(body)
            }
        })*

        /// The actions of literals, grouped by file.
        pub(crate) static LITERALS: &[&[ActionInfo]] = &[$($name::LITERALS,)*];

        impl Action {
            fn decode_known(wire: Wire, body: &mut Reader<'_>, depth: u8) -> Result<Option<Action>, DecodeError> {
                $(if $name::WIRE.contains(&wire) {
                    let mut body = body.clone().named(stringify!($module));
                    let action = $name::decode(wire, &mut body, depth)?;
                    body.end_padded()?;
                    return Ok(Some(Action::$name(action)));
                })*
                Ok(None)
            }

            /// Appends the action with its header.
            pub(crate) fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Action::$name(body) => body.encode(out),)*
                    Action::Unknown(unknown) => out.extend_from_slice(&unknown.bytes),
                }
            }

            /// 0 for actions, then the order of instructions.
            pub(crate) fn stage(&self) -> u8 {
                match self {
                    $(Action::$name(_) => $name::STAGE,)*
                    Action::Unknown(_) => 0,
                }
            }

            fn parse_call(call: Call<'_>) -> Result<Action, ParseError> {
                $(if $name::NAMES.contains(&call.name) {
                    if call.target.is_some() != $name::HAS_TARGET {
                        return Err(ParseError::value(call.text, "form of this action: see ovs-actions(7)"));
                    }
                    return $name::parse(call);
                })*
                if call.name == UnknownAction::NAME {
                    return UnknownAction::parse(call);
                }
                // A bare number or reserved port name is an output.
                Output::parse_bare(call)
            }
        }

        impl fmt::Display for Action {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Action::$name(body) => body.print(f),)*
                    Action::Unknown(unknown) => unknown.print(f),
                }
            }
        }
    };
}

actions! {
    output::Output,
    output_reg::OutputReg,
    set_field::SetField,
    move_bits::MoveBits,
    resubmit::Resubmit,
    group::Group,
    dec_ttl::DecTtl,
    set_ttl::SetTtl,
    push_vlan::PushVlan,
    pop_vlan::PopVlan,
    ct_clear::CtClear,
    check_pkt_larger::CheckPktLarger,
    note::Note,
    exit::Exit,
    push::Push,
    pop::Pop,
    set_queue::SetQueue,
    pop_queue::PopQueue,
    clone_actions::CloneActions,
    conjunction::Conjunction,
    ct::Ct,
    nat::Nat,
    learn::Learn,
    meter::Meter,
    sample::Sample,
    controller::Controller,
    clear_actions::ClearActions,
    write_actions::WriteActions,
    write_metadata::WriteMetadata,
    goto_table::GotoTable,
}

pub use ct::CtZone;
pub use learn::LearnSpec;
pub use nat::{NatChoice, NatRange, NatSide};
pub use sample::SampleDirection;

/// An action that this crate does not support, with its header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnknownAction {
    /// Header and body as received; a multiple of eight bytes.
    bytes: Vec<u8>,
}

impl UnknownAction {
    /// The action's bytes, header included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Not Open vSwitch syntax, which has none for unknown actions.
    const NAME: &'static str = "unknown";

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", UnknownAction::NAME)?;
        for byte in &self.bytes {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }

    /// Reads what `print` writes; bytes of a known action become that action.
    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let bad = || ParseError::value(call.text, "action in hexadecimal, header included");
        let digits = call.arg.as_bytes();
        if !digits.len().is_multiple_of(2) || !call.arg.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&call.arg[at..at + 2], 16));
        let bytes: Vec<u8> = pairs.collect::<Result<_, _>>().map_err(|_| bad())?;
        let mut reader = Reader::new("action", &bytes);
        let action = Action::decode(&mut reader, 0).map_err(|_| bad())?;
        reader.end().map_err(|_| bad())?;
        Ok(action)
    }
}

impl Action {
    /// Reads one action with its header.
    pub(crate) fn decode(reader: &mut Reader<'_>, depth: u8) -> Result<Action, DecodeError> {
        let at = reader.clone().named("action");
        let mut header = at.clone();
        let (kind, len) = (header.u16()?, usize::from(header.u16()?));
        if len < 8 || len % 8 != 0 {
            return Err(at.fault(Fault::Length(len)));
        }
        let bytes = at.clone().bytes(len)?;
        let mut action = reader.sub("action", len)?;
        action.skip(4)?;
        let wire = if kind == EXPERIMENTER {
            let (experimenter, subtype) = (action.u32()?, action.u16().unwrap_or(0));
            (experimenter == NICIRA && len >= 16).then_some(Wire::Nx(subtype))
        } else {
            Some(Wire::Of(kind))
        };
        if let Some(wire) = wire
            && let Some(known) = Action::decode_known(wire, &mut action, depth)?
        {
            return Ok(known);
        }
        Ok(Action::Unknown(UnknownAction { bytes: bytes.to_vec() }))
    }
}

impl std::str::FromStr for Action {
    type Err = ParseError;

    /// Reads one action.
    fn from_str(text: &str) -> Result<Action, ParseError> {
        let one = || ParseError::value(text, "single action");
        let mut actions: Actions = text.parse()?;
        let action = actions.0.pop().ok_or_else(one)?;
        if actions.0.is_empty() { Ok(action) } else { Err(one()) }
    }
}

#[cfg(test)]
#[test]
fn actions_not_known_are_kept() {
    testing::check([
        ("unknown(ffff00100000232000ff000000000000)", "ffff 0010 00002320 00ff 000000000000"),
        ("unknown(ffff00104f4e46000001000000000000)", "ffff 0010 4f4e4600 0001 000000000000"),
        ("unknown(ffff000800002320)", "ffff 0008 00002320"),
        ("unknown(0063000800000000)", "0063 0008 00000000"),
    ]);
    testing::check_spellings([("unknown(0016000800000007)", "group:7")]);
    testing::check_refused([
        "unknown",
        "unknown()",
        "unknown(00)",
        "unknown(006300080000000000)",
        "unknown(0)",
    ]);
    testing::check_malformed(["0063 0009 00000000 00", "0063 0000 00000000", "0063 0010 00000000"]);
}

#[cfg(test)]
mod testing {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// Each line: an action's text and its bytes. Checks both conversions, and that every shorter
    /// prefix of the bytes is refused.
    pub(crate) fn check<const N: usize>(lines: [(&str, &str); N]) {
        for (text, hex) in lines {
            let wire = bytes(hex);
            let action: Action = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(action.to_string(), text);
            let mut out = Vec::new();
            action.encode(&mut out);
            assert_eq!(out, wire, "{text} encodes to {out:02x?}");
            let decode = |bytes: &[u8]| {
                let mut reader = Reader::new("test", bytes);
                match action.stage() {
                    0 => Action::decode(&mut reader, 0).map(Actions::from),
                    _ => Actions::decode_instructions(&mut reader),
                }
            };
            assert_eq!(decode(&wire), Ok(Actions::from(action.clone())), "{hex}");
            for len in 1..wire.len() {
                assert!(decode(&wire[..len]).is_err(), "{text} cut to {len}");
            }
        }
    }

    /// Each line: a spelling and its canonical form.
    pub(crate) fn check_spellings<const N: usize>(lines: [(&str, &str); N]) {
        for (given, printed) in lines {
            let action: Actions = given.parse().unwrap_or_else(|e| panic!("{given}: {e}"));
            assert_eq!(action.to_string(), printed, "{given}");
        }
    }

    /// Texts that no action may be read from.
    pub(crate) fn check_refused<const N: usize>(lines: [&str; N]) {
        for text in lines {
            assert!(text.parse::<Action>().is_err(), "{text}");
        }
    }

    /// Bytes that must not decode.
    pub(crate) fn check_malformed<const N: usize>(lines: [&str; N]) {
        for hex in lines {
            let decoded = Action::decode(&mut Reader::new("test", &bytes(hex)), 0);
            assert!(decoded.is_err(), "{hex} decoded to {decoded:?}");
        }
    }
}
