//! Flow-mods and flow descriptions as bytes (OpenFlow 1.5, sections 7.3.4.2 and 7.3.5.2).

use std::time::Duration;

use super::*;
use crate::DecodeError;
use crate::error::Fault;
use crate::wire::{Reader, pad8, patch_len};

/// Class of the basic flow statistics (OXS).
const OXS_BASIC: u16 = 0x8002;
const OXS_DURATION: u8 = 0;
const OXS_IDLE_TIME: u8 = 1;
const OXS_PACKET_COUNT: u8 = 4;
const OXS_BYTE_COUNT: u8 = 5;

fn flags(reader: &mut Reader<'_>) -> Result<FlowFlags, DecodeError> {
    let at = reader.clone();
    let flags = reader.u16()?;
    if flags & !FlowFlags::KNOWN != 0 {
        return Err(at.fault(Fault::Unknown(flags.into())));
    }
    Ok(FlowFlags(flags))
}

fn port(reader: &mut Reader<'_>) -> Result<PortNo, DecodeError> {
    let at = reader.clone();
    let n = reader.u32()?;
    PortNo::from_wire(n).ok_or_else(|| at.fault(Fault::Unknown(n.into())))
}

impl FlowMod {
    /// Appends the body.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let entry = &self.entry;
        out.extend_from_slice(&entry.cookie.to_be_bytes());
        out.extend_from_slice(&self.cookie_mask.to_be_bytes());
        out.extend_from_slice(&[entry.table, self.command as u8]);
        for n in [entry.idle_timeout, entry.hard_timeout, entry.priority] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        for n in [self.buffer_id, self.out_port.to_wire(), self.out_group] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        out.extend_from_slice(&entry.flags.0.to_be_bytes());
        out.extend_from_slice(&entry.importance.to_be_bytes());
        entry.matches.encode(out);
        entry.actions.encode_instructions(out);
    }

    /// Reads the body.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<FlowMod, DecodeError> {
        let (cookie, cookie_mask, table) = (reader.u64()?, reader.u64()?, reader.u8()?);
        let at = reader.clone();
        let command = reader.u8()?;
        let command = *FlowCommand::ALL
            .get(usize::from(command))
            .ok_or_else(|| at.fault(Fault::Unknown(command.into())))?;
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let buffer_id = reader.u32()?;
        let (out_port, out_group) = (port(reader)?, reader.u32()?);
        let (flags, importance) = (flags(reader)?, reader.u16()?);
        let matches = Match::decode(reader)?;
        let actions = Actions::decode_instructions(reader)?;
        let entry = FlowEntry {
            table,
            priority,
            matches,
            actions,
            cookie,
            idle_timeout,
            hard_timeout,
            importance,
            flags,
        };
        Ok(FlowMod { command, entry, cookie_mask, out_port, out_group, buffer_id })
    }
}

/// The key of a flow in a dump, known even if the rest of the flow cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    pub(crate) table: u8,
    pub(crate) priority: u16,
    pub(crate) cookie: u64,
}

impl FlowStats {
    /// Appends the entry with its length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let entry = &self.entry;
        out.extend_from_slice(&[0, 0, 0, 0, entry.table, 0]);
        for n in [entry.priority, entry.idle_timeout, entry.hard_timeout, entry.flags.0, entry.importance] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        out.extend_from_slice(&entry.cookie.to_be_bytes());
        entry.matches.encode(out);
        self.encode_counters(out);
        entry.actions.encode_instructions(out);
        patch_len(out, start, start);
    }

    fn encode_counters(&self, out: &mut Vec<u8>) {
        let FlowStats { duration, packets, bytes, idle_s, .. } = *self;
        Counters { duration, idle_s, packets, bytes }.encode(out);
    }

    /// Reads one entry. On failure, returns the error with the key, and the reader is past the
    /// entry; there is no key if the entry's own frame is broken.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
    ) -> Result<Result<FlowStats, (FlowKey, DecodeError)>, DecodeError> {
        let at = reader.clone();
        let len = usize::from(reader.clone().u16()?);
        if len < 24 {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("flow description", len)?;
        body.skip(4)?;
        let table = body.u8()?;
        body.skip(1)?;
        let priority = body.u16()?;
        let mut rest = body.clone();
        body.skip(8)?;
        let key = FlowKey { table, priority, cookie: body.u64()? };
        Ok(FlowStats::decode_rest(&mut rest, key).map_err(|error| (key, error)))
    }

    fn decode_rest(reader: &mut Reader<'_>, key: FlowKey) -> Result<FlowStats, DecodeError> {
        let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
        let (flags, importance) = (flags(reader)?, reader.u16()?);
        reader.skip(8)?;
        let matches = Match::decode(reader)?;
        let mut stats = FlowStats {
            entry: FlowEntry {
                idle_timeout,
                hard_timeout,
                importance,
                flags,
                cookie: key.cookie,
                ..FlowEntry::new(key.table, key.priority, matches, Actions::drop())
            },
            duration: Duration::ZERO,
            packets: None,
            bytes: None,
            idle_s: None,
        };
        stats.decode_counters(reader)?;
        stats.entry.actions = Actions::decode_instructions(reader)?;
        Ok(stats)
    }

    fn decode_counters(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let counters = Counters::decode(reader)?;
        self.duration = counters.duration;
        self.idle_s = counters.idle_s;
        self.packets = counters.packets;
        self.bytes = counters.bytes;
        Ok(())
    }
}

/// Flow statistics (OXS). Absent ones are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) duration: Duration,
    pub(crate) idle_s: Option<u32>,
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Counters {
    /// Appends the statistics with their header and padding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut put = |field: u8, value: Option<u64>| {
            if let Some(value) = value {
                out.extend_from_slice(&OXS_BASIC.to_be_bytes());
                out.extend_from_slice(&[field << 1, 8]);
                out.extend_from_slice(&value.to_be_bytes());
            }
        };
        let seconds = self.duration.as_secs().min(u64::from(u32::MAX)) << 32;
        put(OXS_DURATION, Some(seconds | u64::from(self.duration.subsec_nanos())));
        put(OXS_IDLE_TIME, self.idle_s.map(|s| u64::from(s) << 32));
        put(OXS_PACKET_COUNT, self.packets);
        put(OXS_BYTE_COUNT, self.bytes);
        patch_len(out, start, start + 2);
        pad8(out, start);
    }

    /// Reads the statistics with their header and padding; unknown ones are skipped.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Counters, DecodeError> {
        let mut counters = Counters::default();
        let at = reader.clone().named("flow statistics");
        reader.skip(2)?;
        let len = usize::from(reader.u16()?);
        let Some(body) = len.checked_sub(4) else { return Err(at.fault(Fault::Length(len))) };
        let mut fields = reader.sub("flow statistics", body)?;
        reader.skip(len.next_multiple_of(8) - len)?;
        // All ones means that the switch does not count.
        let counted = |n: u64| Some(n).filter(|n| *n != u64::MAX);
        while !fields.is_empty() {
            let (class, field, len) = (fields.u16()?, fields.u8()? >> 1, usize::from(fields.u8()?));
            let mut value = fields.sub("flow statistic", len)?;
            match (class, field, len) {
                (OXS_BASIC, OXS_DURATION, 8) => {
                    let (seconds, nanos) = (value.u32()?, value.u32()?);
                    counters.duration = Duration::new(seconds.into(), nanos.min(999_999_999));
                }
                (OXS_BASIC, OXS_IDLE_TIME, 8) => counters.idle_s = Some(value.u32()?),
                (OXS_BASIC, OXS_PACKET_COUNT, 8) => counters.packets = counted(value.u64()?),
                (OXS_BASIC, OXS_BYTE_COUNT, 8) => counters.bytes = counted(value.u64()?),
                _ => {}
            }
        }
        Ok(counters)
    }
}
