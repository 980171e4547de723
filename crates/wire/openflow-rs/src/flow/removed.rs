//! Notifications of removed flow entries.

use std::fmt;
use std::time::Duration;

use super::text::{Seconds, write_match};
use super::wire::Counters;
use super::*;
use crate::DecodeError;
use crate::error::Fault;
use crate::wire::Reader;

/// The reason why a flow entry was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// Its idle timeout expired.
    IdleTimeout,
    /// Its hard timeout expired.
    HardTimeout,
    /// A controller deleted it.
    Delete,
    /// Its group was deleted.
    GroupDelete,
    /// Its meter was deleted.
    MeterDelete,
    /// It was evicted.
    Eviction,
}

impl RemovedReason {
    const ALL: [RemovedReason; 6] = [
        RemovedReason::IdleTimeout,
        RemovedReason::HardTimeout,
        RemovedReason::Delete,
        RemovedReason::GroupDelete,
        RemovedReason::MeterDelete,
        RemovedReason::Eviction,
    ];

    /// The reason with this number on the wire.
    pub(crate) fn new(number: u8) -> Option<RemovedReason> {
        RemovedReason::ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn name(self) -> &'static str {
        ["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"][self as usize]
    }
}

/// Notification that a flow entry with [`FlowFlags::SEND_FLOW_REM`] was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The entry, without actions, importance and flags.
    pub entry: FlowEntry,
    /// The reason.
    pub reason: RemovedReason,
    /// The age that it reached.
    pub duration: Duration,
    /// The number of packets that matched; `None` if not counted.
    pub packets: Option<u64>,
    /// The number of bytes in them; `None` if not counted.
    pub bytes: Option<u64>,
}

impl FlowRemoved {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let entry = &self.entry;
        out.extend_from_slice(&[entry.table, self.reason as u8]);
        for n in [entry.priority, entry.idle_timeout, entry.hard_timeout] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        out.extend_from_slice(&entry.cookie.to_be_bytes());
        entry.matches.encode(out);
        let FlowRemoved { duration, packets, bytes, .. } = *self;
        Counters { duration, idle_s: None, packets, bytes }.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<FlowRemoved, DecodeError> {
        let table = reader.u8()?;
        let at = reader.clone();
        let reason = reader.u8()?;
        let reason = RemovedReason::new(reason).ok_or_else(|| at.fault(Fault::Unknown(reason.into())))?;
        let (priority, idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let cookie = reader.u64()?;
        let matches = Match::decode(reader)?;
        let Counters { duration, packets, bytes, .. } = Counters::decode(reader)?;
        let entry = FlowEntry {
            cookie,
            idle_timeout,
            hard_timeout,
            ..FlowEntry::new(table, priority, matches, Actions::drop())
        };
        Ok(FlowRemoved { entry, reason, duration, packets, bytes })
    }
}

impl fmt::Display for FlowRemoved {
    /// Writes the text that `ovs-ofctl ofp-print` prints after the message's header.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = &self.entry;
        f.write_str(" ")?;
        write_match(f, entry)?;
        // Open vSwitch prints two spaces if nothing comes between them.
        if entry.priority == DEFAULT_PRIORITY && entry.matches == Match::any() {
            f.write_str(" ")?;
        }
        write!(f, "reason={}", self.reason.name())?;
        if entry.table != ALL_TABLES {
            write!(f, " table_id={}", entry.table)?;
        }
        if entry.cookie != 0 {
            write!(f, " cookie:{:#x}", entry.cookie)?;
        }
        write!(f, " duration{} idle{}", Seconds(self.duration), entry.idle_timeout)?;
        if entry.hard_timeout != 0 {
            write!(f, " hard{}", entry.hard_timeout)?;
        }
        let count = |n: Option<u64>| n.unwrap_or(u64::MAX);
        writeln!(f, " pkts{} bytes{}", count(self.packets), count(self.bytes))
    }
}
