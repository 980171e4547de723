//! Requests for meters and their counters.

use std::fmt::{Display, Write};

use crate::DecodeError;
use crate::meter::{MeterEntry, MeterStats};
use crate::wire::Reader;

/// Bytes that follow the meter's id in a request.
const PADDING: [u8; 4] = [0; 4];

pub(super) fn encode_request(meter: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&meter.to_be_bytes());
    out.extend_from_slice(&PADDING);
}

pub(super) fn decode_request(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let meter = reader.u32()?;
    reader.skip(PADDING.len())?;
    Ok(meter)
}

/// Each meter on lines of its own, behind an empty rest of a line.
fn lines(meters: &[impl Display]) -> String {
    let mut text = String::new();
    for meter in meters {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{meter}");
    }
    text
}

/// A part of the requested meters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterDescReply {
    /// Whether another part follows.
    pub more: bool,
    /// The meters.
    pub meters: Vec<MeterEntry>,
}

impl MeterDescReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.meters.iter().for_each(|meter| meter.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<MeterDescReply, DecodeError> {
        let mut meters = Vec::new();
        while !reader.is_empty() {
            meters.push(MeterEntry::decode(reader)?);
        }
        Ok(MeterDescReply { more, meters })
    }

    pub(super) fn print(&self) -> String {
        lines(&self.meters)
    }
}

/// A part of the requested counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStatsReply {
    /// Whether another part follows.
    pub more: bool,
    /// The counters, by meter.
    pub meters: Vec<MeterStats>,
}

impl MeterStatsReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.meters.iter().for_each(|meter| meter.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<MeterStatsReply, DecodeError> {
        let mut meters = Vec::new();
        while !reader.is_empty() {
            meters.push(MeterStats::decode(reader)?);
        }
        Ok(MeterStatsReply { more, meters })
    }

    pub(super) fn print(&self) -> String {
        lines(&self.meters)
    }
}
