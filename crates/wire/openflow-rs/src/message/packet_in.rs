//! Packets that a switch hands to a controller: messages of Open vSwitch (`NXT_PACKET_IN2`, `NXT_RESUME`; `lib/ofp-packet.c`), and
//! the two by which a controller asks for them.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::error::Fault;
use crate::field::text::{Dotted, int};
use crate::wire::Reader;
use crate::{DecodeError, Match, ParseError, property};

// `NXPINT_*`. The buffer ID (2) is ignored: Open vSwitch does not buffer packets.
const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const TABLE_ID: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;
const CONTINUATION: u16 = 8;

/// The cookie of packets that no flow sent.
const NO_COOKIE: u64 = u64::MAX;

/// Why a switch sends a packet, as a number on the wire (`OFPR_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketInReason(pub u8);

impl PacketInReason {
    /// No flow matched, or the flow of a table for such packets did.
    pub const NO_MATCH: PacketInReason = PacketInReason(0);
    /// An action in the list of a flow. Also what an action gives unless it says otherwise.
    pub const ACTION: PacketInReason = PacketInReason(1);
    /// The packet's TTL was used up.
    pub const INVALID_TTL: PacketInReason = PacketInReason(2);
    /// An action in the action set.
    pub const ACTION_SET: PacketInReason = PacketInReason(3);
    /// An action in the bucket of a group.
    pub const GROUP: PacketInReason = PacketInReason(4);
    /// An action of a packet-out.
    pub const PACKET_OUT: PacketInReason = PacketInReason(5);

    /// Their names, by number.
    const NAMES: [&str; 6] = ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
}

impl fmt::Display for PacketInReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PacketInReason::NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for PacketInReason {
    type Err = ParseError;

    /// Reads a name in any case, or a number.
    fn from_str(text: &str) -> Result<PacketInReason, ParseError> {
        let named = (0..).zip(PacketInReason::NAMES).find(|(_, name)| name.eq_ignore_ascii_case(text));
        match named {
            Some((number, _)) => Ok(PacketInReason(number)),
            None => int(text, "reason for a packet-in, such as action").map(PacketInReason),
        }
    }
}

/// A packet that a switch hands to a controller, or that goes on in the switch.
///
/// To let a packet go on that an action paused, send [`Body::Resume`](crate::Body::Resume) with the packet, which may have
/// changed, and the metadata and the continuation as they came; the rest has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Its bytes, or the first of them. A message without any is malformed.
    pub packet: Vec<u8>,
    /// The length of the whole packet in bytes, at least that of `packet`.
    pub full_len: u32,
    /// The table of the flow that sent it. For a packet that is paused, Open vSwitch names not that flow but the one with which the
    /// packet began: the userdata has to say what was paused.
    pub table: u8,
    /// The cookie of the same flow; all ones if there is none.
    pub cookie: u64,
    /// Why it was sent.
    pub reason: PacketInReason,
    /// The fields that are not in the packet and are not zero: ingress port, registers, tunnel, connection. Wide registers are
    /// here as the registers that they consist of, whatever the switch sends.
    pub metadata: Match,
    /// The bytes of the action, if it was a [`Controller`](crate::action::Controller).
    pub userdata: Vec<u8>,
    /// If the packet is paused: where it is in the pipeline, for the switch alone.
    pub continuation: Option<Vec<u8>>,
}

impl PacketIn {
    /// A whole packet that an action in table 0 sent.
    pub fn new(metadata: Match, packet: Vec<u8>) -> PacketIn {
        PacketIn {
            full_len: length(&packet),
            packet,
            table: 0,
            cookie: NO_COOKIE,
            reason: PacketInReason::ACTION,
            metadata,
            userdata: Vec::new(),
            continuation: None,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        property::put(out, PACKET, |out| out.extend_from_slice(&self.packet));
        if self.full_len != length(&self.packet) {
            property::put_u32(out, FULL_LEN, self.full_len);
        }
        property::put_u8(out, TABLE_ID, self.table);
        if self.cookie != NO_COOKIE {
            property::put_aligned(out, COOKIE, &self.cookie.to_be_bytes());
        }
        property::put_u8(out, REASON, self.reason.0);
        property::put(out, METADATA, |out| self.metadata.encode_fields(out));
        if let Some(continuation) = &self.continuation {
            property::put_aligned(out, CONTINUATION, continuation);
        }
        if !self.userdata.is_empty() {
            property::put(out, USERDATA, |out| out.extend_from_slice(&self.userdata));
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PacketIn, DecodeError> {
        let mut found = PacketIn::new(Match::any(), Vec::new());
        // What is not said.
        found.reason = PacketInReason::NO_MATCH;
        let at = reader.clone();
        while !reader.is_empty() {
            let (kind, mut content) = property::next(reader)?;
            // As Open vSwitch does, the last of several counts, and a byte may be followed by others.
            match kind {
                PACKET => found.packet = content.rest().to_vec(),
                FULL_LEN => found.full_len = property::get_u32(content)?,
                TABLE_ID => found.table = content.u8()?,
                COOKIE => {
                    let mut number = property::get_aligned(content)?;
                    found.cookie = number.u64()?;
                    number.end()?;
                }
                REASON => found.reason = PacketInReason(content.u8()?),
                METADATA => found.metadata = Match::decode_fields(content.named("metadata"))?,
                USERDATA => found.userdata = content.rest().to_vec(),
                CONTINUATION => {
                    found.continuation = Some(property::get_aligned(content)?.rest().to_vec());
                }
                // Later versions may say more.
                _ => {}
            }
        }
        let len = length(&found.packet);
        if found.full_len == 0 {
            found.full_len = len;
        }
        if len == 0 || found.full_len < len {
            return Err(at.fault(Fault::Length(found.full_len as usize)));
        }
        Ok(found)
    }

    pub(super) fn print(&self) -> String {
        let mut text = String::new();
        if self.table != 0 {
            let _ = write!(text, " table_id={}", self.table);
        }
        if self.cookie != NO_COOKIE {
            let _ = write!(text, " cookie={:#x}", self.cookie);
        }
        let len = length(&self.packet);
        let _ = write!(text, " total_len={} {} (via {})", self.full_len, self.metadata, self.reason);
        let _ = write!(text, " data_len={len} (unbuffered)");
        if self.full_len != len {
            text.push_str(" (***total_len != data_len***)");
        }
        text.push('\n');
        if !self.userdata.is_empty() {
            let _ = writeln!(text, " userdata={}", Dotted(&self.userdata));
        }
        if let Some(continuation) = &self.continuation {
            let _ = writeln!(text, " continuation: {} bytes not interpreted", continuation.len());
        }
        text
    }
}

/// The length of a packet in bytes; a longer one has no message.
fn length(packet: &[u8]) -> u32 {
    u32::try_from(packet.len()).unwrap_or(u32::MAX)
}

/// The format of the messages that hand packets to a controller (`NXPIF_*`). A connection begins with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInFormat {
    /// OpenFlow's own (`OFPT_PACKET_IN`), which this crate does not read.
    Standard,
    /// An older one of Open vSwitch (`NXT_PACKET_IN`), which this crate does not read.
    Fixed,
    /// [`PacketIn`]: the only one with userdata and continuation.
    Properties,
}

impl PacketInFormat {
    const ALL: [PacketInFormat; 3] =
        [PacketInFormat::Standard, PacketInFormat::Fixed, PacketInFormat::Properties];

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self as u32).to_be_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PacketInFormat, DecodeError> {
        let at = reader.clone();
        let number = reader.u32()?;
        let known = PacketInFormat::ALL.get(number as usize).copied();
        known.ok_or_else(|| at.fault(Fault::Unknown(number.into())))
    }

    pub(super) fn print(self) -> String {
        format!(" format={}", ["standard", "nxt_packet_in", "nxt_packet_in2"][self as usize])
    }
}

/// Bytes before the number of a controller, which must be zero.
const PADDING: usize = 6;

pub(super) fn encode_controller_id(id: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; PADDING]);
    out.extend_from_slice(&id.to_be_bytes());
}

pub(super) fn decode_controller_id(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    reader.zeros(PADDING)?;
    reader.u16()
}
