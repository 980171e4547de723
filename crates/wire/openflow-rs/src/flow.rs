//! Flow entries, and the commands that change them.

mod removed;
mod text;
mod wire;

pub use removed::{FlowRemoved, RemovedReason};
pub(crate) use text::Seconds;

use crate::{Actions, Match, PortNo};

/// The priority of an entry that names none, and the one that is not printed.
pub(crate) const DEFAULT_PRIORITY: u16 = 0x8000;
/// `table` of a deletion or dump that concerns all tables.
pub const ALL_TABLES: u8 = 255;
/// `out_group` of a deletion or dump that does not filter by group.
pub const ANY_GROUP: u32 = u32::MAX;
/// `buffer_id` of a flow-mod without a buffered packet.
pub const NO_BUFFER: u32 = u32::MAX;

/// Flags of a flow entry, as bits on the wire (`OFPFF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// Notify the controllers when the entry is removed.
    pub const SEND_FLOW_REM: FlowFlags = FlowFlags(1);
    /// Reject the entry if it overlaps one of the same priority.
    pub(crate) const CHECK_OVERLAP: FlowFlags = FlowFlags(2);
    /// Reset the counters of an existing entry.
    pub(crate) const RESET_COUNTS: FlowFlags = FlowFlags(4);
    /// Do not count packets.
    pub(crate) const NO_PACKET_COUNTS: FlowFlags = FlowFlags(8);
    /// Do not count bytes.
    pub(crate) const NO_BYTE_COUNTS: FlowFlags = FlowFlags(16);

    /// All bits that OpenFlow 1.5 defines.
    pub(crate) const KNOWN: u16 = 31;

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: FlowFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl std::ops::BitOr for FlowFlags {
    type Output = FlowFlags;

    fn bitor(self, other: FlowFlags) -> FlowFlags {
        FlowFlags(self.0 | other.0)
    }
}

/// A flow entry, without its counters.
///
/// Prints as `ovs-ofctl --no-names --no-stats dump-flows` does and reads that, lines of a full dump,
/// and the syntax of `ovs-ofctl add-flow`.
///
/// ```
/// use openflow_rs::FlowEntry;
/// let flow: FlowEntry = "table=3,priority=100,cookie=5,ip,nw_dst=10.0.0.1 actions=resubmit(,4)".parse()?;
/// assert_eq!(flow.to_string(), "cookie=0x5, table=3, priority=100,ip,nw_dst=10.0.0.1 actions=resubmit(,4)");
/// # Ok::<(), openflow_rs::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowEntry {
    /// The table, 0 to 254.
    pub table: u8,
    /// Entries with higher priority match first.
    pub priority: u16,
    /// The packets it applies to.
    pub matches: Match,
    /// The actions on them.
    pub actions: Actions,
    /// The controller's own number for the entry.
    pub cookie: u64,
    /// Seconds without packets after which the entry is removed; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which the entry is removed; 0 for never.
    pub hard_timeout: u16,
    /// Entries of lower importance are evicted first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
}

impl FlowEntry {
    /// An entry without cookie, timeouts and flags.
    pub fn new(table: u8, priority: u16, matches: Match, actions: Actions) -> FlowEntry {
        FlowEntry {
            table,
            priority,
            matches,
            actions,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
        }
    }
}

/// The command of a flow-mod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowCommand {
    /// Add the entry, replacing one with the same table, priority and match.
    Add,
    /// Give new actions to all entries whose packets the match covers.
    Modify,
    /// Give new actions to the entry with this match and priority.
    ModifyStrict,
    /// Delete all entries whose packets the match covers.
    Delete,
    /// Delete the entry with this match and priority.
    DeleteStrict,
}

impl FlowCommand {
    const ALL: [FlowCommand; 5] = [
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];

    /// The name in an `ovs-ofctl` flow file.
    fn name(self) -> &'static str {
        ["add", "modify", "modify_strict", "delete", "delete_strict"][self as usize]
    }

    /// The name `ovs-ofctl ofp-print` uses.
    fn print_name(self) -> &'static str {
        ["ADD", "MOD", "MOD_STRICT", "DEL", "DEL_STRICT"][self as usize]
    }

    pub(crate) fn is_delete(self) -> bool {
        matches!(self, FlowCommand::Delete | FlowCommand::DeleteStrict)
    }
}

/// A change to the flow tables.
///
/// Prints and reads as a line of an `ovs-ofctl` flow file: a command, then the flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowMod {
    /// The command.
    pub command: FlowCommand,
    /// The entry added, or the table, match, priority and actions of those changed. Its cookie is
    /// the new entry's for [`FlowCommand::Add`], else the one to look for.
    pub entry: FlowEntry,
    /// Which bits of the cookie an entry must have to be changed; 0 for additions.
    pub cookie_mask: u64,
    /// Delete only entries that send packets to this port.
    pub out_port: PortNo,
    /// Delete only entries that send packets to this group.
    pub out_group: u32,
    /// A packet the switch kept, to be processed by the new entry; [`NO_BUFFER`] for none.
    pub buffer_id: u32,
}

impl FlowMod {
    /// A change without a cookie filter.
    pub fn new(command: FlowCommand, mut entry: FlowEntry) -> FlowMod {
        if command != FlowCommand::Add {
            entry.cookie = 0;
        }
        FlowMod {
            command,
            entry,
            cookie_mask: 0,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            buffer_id: NO_BUFFER,
        }
    }

    /// Adds the entry, replacing one with the same table, priority and match.
    pub fn add(entry: FlowEntry) -> FlowMod {
        FlowMod::new(FlowCommand::Add, entry)
    }

    /// Gives the entry's actions to the one that has its table, priority and match, whatever that
    /// one's cookie. The cookie of an entry cannot be changed this way.
    pub fn modify_strict(entry: FlowEntry) -> FlowMod {
        FlowMod::new(FlowCommand::ModifyStrict, entry)
    }

    /// Deletes the entry with this one's table, priority and match, whatever its cookie and actions.
    pub fn delete_strict(mut entry: FlowEntry) -> FlowMod {
        entry.actions = Actions::drop();
        FlowMod::new(FlowCommand::DeleteStrict, entry)
    }

    /// Deletes all entries of all tables.
    pub fn delete_all() -> FlowMod {
        let entry = FlowEntry::new(ALL_TABLES, DEFAULT_PRIORITY, Match::any(), Actions::drop());
        FlowMod::new(FlowCommand::Delete, entry)
    }
}

/// A flow entry with its counters, from a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The entry.
    pub entry: FlowEntry,
    /// The age of the entry.
    pub duration: std::time::Duration,
    /// The number of packets that matched; `None` if not counted.
    pub packets: Option<u64>,
    /// The number of bytes in them; `None` if not counted.
    pub bytes: Option<u64>,
    /// Seconds since the last packet, if the switch says so.
    pub idle_s: Option<u32>,
}
