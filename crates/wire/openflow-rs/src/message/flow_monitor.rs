//! Flow monitors (OpenFlow 1.5, sections 7.3.5.18 and 7.4.7): a switch reports the flow entries that it has, and their
//! changes.

use super::print::{bit_names, trim_end};
use crate::error::Fault;
use crate::flow::{ALL_TABLES, ANY_GROUP, RemovedReason};
use crate::wire::{Reader, patch_len};
use crate::{Actions, DecodeError, EncodeError, FlowEntry, Match, PortNo};

/// What a monitor reports, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowMonitorFlags(pub u16);

impl FlowMonitorFlags {
    /// The entries that are there when the monitor starts.
    pub const INITIAL: FlowMonitorFlags = FlowMonitorFlags(1);
    /// New entries.
    pub const ADD: FlowMonitorFlags = FlowMonitorFlags(1 << 1);
    /// Removed entries.
    pub const REMOVED: FlowMonitorFlags = FlowMonitorFlags(1 << 2);
    /// Changed entries.
    pub const MODIFY: FlowMonitorFlags = FlowMonitorFlags(1 << 3);
    /// With their instructions.
    pub const INSTRUCTIONS: FlowMonitorFlags = FlowMonitorFlags(1 << 4);
}

impl std::ops::BitOr for FlowMonitorFlags {
    type Output = FlowMonitorFlags;

    fn bitor(self, other: FlowMonitorFlags) -> FlowMonitorFlags {
        FlowMonitorFlags(self.0 | other.0)
    }
}

const FLAGS: [(u32, &str); 7] =
    [(0, "initial"), (1, "add"), (2, "delete"), (3, "modify"), (4, "actions"), (5, "no-abbrev"), (6, "own")];

/// What a request does with a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowMonitorCommand {
    /// Starts it.
    Add,
    /// Changes it.
    Modify,
    /// Ends it.
    Delete,
}

impl FlowMonitorCommand {
    const ALL: [FlowMonitorCommand; 3] =
        [FlowMonitorCommand::Add, FlowMonitorCommand::Modify, FlowMonitorCommand::Delete];
}

/// A request about one monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMonitor {
    /// The number of the monitor on its connection.
    pub id: u32,
    /// What to do with it.
    pub command: FlowMonitorCommand,
    /// What it reports.
    pub flags: FlowMonitorFlags,
    /// The table, [`ALL_TABLES`] for all.
    pub table: u8,
    /// Only entries that send packets to this port.
    pub out_port: PortNo,
    /// Only entries that send packets to this group.
    pub out_group: u32,
    /// Only entries whose packets this match covers.
    pub matches: Match,
}

impl FlowMonitor {
    /// Starts monitor `id` of all tables.
    pub fn all(id: u32, flags: FlowMonitorFlags) -> FlowMonitor {
        FlowMonitor {
            id,
            command: FlowMonitorCommand::Add,
            flags,
            table: ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            matches: Match::any(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&self.out_port.to_wire().to_be_bytes());
        out.extend_from_slice(&self.out_group.to_be_bytes());
        out.extend_from_slice(&self.flags.0.to_be_bytes());
        out.extend_from_slice(&[self.table, self.command as u8]);
        self.matches.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<FlowMonitor, DecodeError> {
        let id = reader.u32()?;
        let at = reader.clone();
        let port = reader.u32()?;
        let out_port = PortNo::from_wire(port).ok_or_else(|| at.fault(Fault::Unknown(port.into())))?;
        let (out_group, flags, table) = (reader.u32()?, FlowMonitorFlags(reader.u16()?), reader.u8()?);
        let at = reader.clone();
        let command = reader.u8()?;
        let command = *FlowMonitorCommand::ALL
            .get(usize::from(command))
            .ok_or_else(|| at.fault(Fault::Unknown(command.into())))?;
        let matches = Match::decode(reader)?;
        Ok(FlowMonitor { id, command, flags, table, out_port, out_group, matches })
    }

    fn print(&self) -> String {
        let mut text = format!("\n id={}", self.id);
        if self.command == FlowMonitorCommand::Delete {
            return text + " command=delete";
        }
        text += &format!(" flags={}", bit_names(self.flags.0.into(), &FLAGS).replace(' ', ","));
        if self.out_port != PortNo::ANY {
            text += &format!(" out_port={}", self.out_port);
        }
        if self.out_group != 0 && self.out_group != ANY_GROUP {
            text += &format!(" out_group={}", self.out_group);
        }
        if self.table != ALL_TABLES {
            text += &format!(" table={}", self.table);
        }
        text + &trim_end(format!(" {}", self.matches))
    }
}

/// Requests about monitors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowMonitorRequest {
    /// The requests, in order.
    pub monitors: Vec<FlowMonitor>,
}

impl FlowMonitorRequest {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for monitor in &self.monitors {
            monitor.encode(out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FlowMonitorRequest, DecodeError> {
        let mut request = FlowMonitorRequest::default();
        while !reader.is_empty() {
            request.monitors.push(FlowMonitor::decode(reader)?);
        }
        Ok(request)
    }

    pub(super) fn print(&self) -> String {
        self.monitors.iter().map(FlowMonitor::print).collect()
    }
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// It was there when the monitor started.
    Initial,
    /// It was added.
    Added,
    /// It was removed, for this reason.
    Removed(RemovedReason),
    /// It was changed.
    Modified,
}

/// One report of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// About an entry. It has neither flags nor importance, and actions only if the monitor reports instructions.
    Flow(FlowEvent, FlowEntry),
    /// The connection's own request with this transaction id has changed entries.
    Own(u32),
    /// The client reads too slowly: nothing is reported until [`FlowUpdate::Resumed`] except removals.
    Paused,
    /// The additions and changes since the pause have been reported before this.
    Resumed,
}

/// `OFPFME_*`.
mod event {
    pub(super) const INITIAL: u16 = 0;
    pub(super) const ADDED: u16 = 1;
    pub(super) const REMOVED: u16 = 2;
    pub(super) const MODIFIED: u16 = 3;
    pub(super) const ABBREV: u16 = 4;
    pub(super) const PAUSED: u16 = 5;
    pub(super) const RESUMED: u16 = 6;
}

impl FlowUpdate {
    fn event(&self) -> u16 {
        match self {
            FlowUpdate::Flow(FlowEvent::Initial, _) => event::INITIAL,
            FlowUpdate::Flow(FlowEvent::Added, _) => event::ADDED,
            FlowUpdate::Flow(FlowEvent::Removed(_), _) => event::REMOVED,
            FlowUpdate::Flow(FlowEvent::Modified, _) => event::MODIFIED,
            FlowUpdate::Own(_) => event::ABBREV,
            FlowUpdate::Paused => event::PAUSED,
            FlowUpdate::Resumed => event::RESUMED,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.event().to_be_bytes());
        match self {
            FlowUpdate::Flow(event, entry) => {
                let reason = if let FlowEvent::Removed(reason) = event { *reason as u8 } else { 0 };
                out.extend_from_slice(&[entry.table, reason]);
                for number in [entry.idle_timeout, entry.hard_timeout, entry.priority] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(&entry.cookie.to_be_bytes());
                entry.matches.encode(out);
                entry.actions.encode_instructions(out);
            }
            FlowUpdate::Own(xid) => out.extend_from_slice(&xid.to_be_bytes()),
            FlowUpdate::Paused | FlowUpdate::Resumed => out.extend_from_slice(&[0; 4]),
        }
        let len = out.len() - start;
        u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        patch_len(out, start, start);
        Ok(())
    }

    fn decode(reader: &mut Reader<'_>) -> Result<FlowUpdate, DecodeError> {
        let at = reader.clone().named("flow update");
        let len = usize::from(reader.clone().u16()?);
        if len < 8 || len % 8 != 0 {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("flow update", len)?;
        body.skip(2)?;
        let at = body.clone();
        let update = match body.u16()? {
            event::INITIAL => FlowUpdate::flow(&mut body, |_| Ok(FlowEvent::Initial))?,
            event::ADDED => FlowUpdate::flow(&mut body, |_| Ok(FlowEvent::Added))?,
            event::REMOVED => FlowUpdate::flow(&mut body, |reader| {
                let (at, reason) = (reader.clone(), reader.u8()?);
                let reason =
                    RemovedReason::new(reason).ok_or_else(|| at.fault(Fault::Unknown(reason.into())));
                reason.map(FlowEvent::Removed)
            })?,
            event::MODIFIED => FlowUpdate::flow(&mut body, |_| Ok(FlowEvent::Modified))?,
            event::ABBREV => FlowUpdate::Own(body.u32()?),
            kind @ (event::PAUSED | event::RESUMED) => {
                body.skip(4)?;
                if kind == event::PAUSED { FlowUpdate::Paused } else { FlowUpdate::Resumed }
            }
            other => return Err(at.fault(Fault::Unknown(other.into()))),
        };
        body.end()?;
        Ok(update)
    }

    /// Reads a report about an entry. `event` reads the reason, which only removals have.
    fn flow(
        reader: &mut Reader<'_>,
        event: impl FnOnce(&mut Reader<'_>) -> Result<FlowEvent, DecodeError>,
    ) -> Result<FlowUpdate, DecodeError> {
        let table = reader.u8()?;
        let event = event(&mut reader.clone())?;
        reader.skip(1)?;
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let cookie = reader.u64()?;
        let matches = Match::decode(reader)?;
        let actions = Actions::decode_instructions(reader)?;
        let entry = FlowEntry::new(table, priority, matches, actions);
        Ok(FlowUpdate::Flow(event, FlowEntry { cookie, idle_timeout, hard_timeout, ..entry }))
    }

    fn print(&self) -> String {
        let (event, entry) = match self {
            FlowUpdate::Own(xid) => return format!("\n event=ABBREV xid={xid:#x}"),
            FlowUpdate::Paused => return "\n event=PAUSED".to_owned(),
            FlowUpdate::Resumed => return "\n event=RESUMED".to_owned(),
            FlowUpdate::Flow(event, entry) => (event, entry),
        };
        let mut text = match event {
            FlowEvent::Initial => "\n event=INITIAL".to_owned(),
            FlowEvent::Added => "\n event=ADDED".to_owned(),
            FlowEvent::Removed(reason) => format!("\n event=DELETED reason={}", reason.name()),
            FlowEvent::Modified => "\n event=MODIFIED".to_owned(),
        };
        text += &format!(" table={}", entry.table);
        for (name, timeout) in [("idle", entry.idle_timeout), ("hard", entry.hard_timeout)] {
            if timeout != 0 {
                text += &format!(" {name}_timeout={timeout}");
            }
        }
        // The switch prints zero without its base.
        let cookie = if entry.cookie == 0 { "0".to_owned() } else { format!("{:#x}", entry.cookie) };
        text += &format!(" cookie={cookie} {}", entry.matches);
        if entry.actions != Actions::drop() {
            if !text.ends_with(' ') {
                text.push(' ');
            }
            text += &format!("actions={}", entry.actions);
        }
        text
    }
}

/// Reports of monitors: the first reply to a request, which may be empty, or unsolicited ones with transaction id 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowMonitorReply {
    /// Whether another part follows.
    pub more: bool,
    /// The reports, in order.
    pub updates: Vec<FlowUpdate>,
}

impl FlowMonitorReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.updates.iter().try_for_each(|update| update.encode(out))
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<FlowMonitorReply, DecodeError> {
        let mut reply = FlowMonitorReply { more, ..FlowMonitorReply::default() };
        while !reader.is_empty() {
            reply.updates.push(FlowUpdate::decode(reader)?);
        }
        Ok(reply)
    }

    pub(super) fn print(&self) -> String {
        trim_end(self.updates.iter().map(FlowUpdate::print).collect())
    }
}
