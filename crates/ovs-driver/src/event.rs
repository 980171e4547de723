//! What a driver tells about its switch.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// Something happened at a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// One of the two connections is up.
    Connected {
        /// Which one.
        channel: Channel,
    },
    /// One of the two connections is down, or could not be made for another reason than was told last. The driver
    /// keeps trying.
    Disconnected {
        /// Which one.
        channel: Channel,
        /// The endpoint and the cause.
        why: String,
    },
    /// What is plugged in now: whole, not a difference. Sent after every connection to the database and whenever it
    /// changes. A report that was not yet taken is replaced by a newer one.
    Report(Report),
    /// Everything in this transaction is in force at the switch (or was made obsolete by a later one that is).
    ///
    /// Of transactions that were pushed while the OpenFlow connection was down, and of those with tunnels while
    /// either was, only the last is confirmed: then all of them are in force. Those not confirmed when a connection
    /// is lost count as pushed after that.
    Confirmed {
        /// The number given to [`Handle::push`](crate::Handle::push).
        txn: u64,
        /// When the switch confirmed it.
        at: Instant,
    },
    /// The switch refused flows, groups or ports; the rest is in force. What was refused is tried again when it changes
    /// and after the next connection, not before. The transaction is not confirmed any more.
    Refused {
        /// The last transaction that touched what was refused; `None` if it came with the whole desired state.
        txn: Option<u64>,
        /// How many of them.
        count: usize,
        /// The first few of them, at most [`Rejection::TOLD_MAX`] and at least one.
        first: Vec<Rejection>,
    },
    /// How much of what is wanted the switch refuses now; told after [`Event::Refused`], and whenever it changes. It
    /// is 0 again when all of it was changed or is wanted no more.
    Standing {
        /// Flows, groups and ports. While the OpenFlow connection is down no flow or group counts.
        refused: usize,
    },
    /// After a connection: the whole of the switch was compared with the desired state and is right now.
    Synced {
        /// Modifications of flows and groups that this took; 0 if the switch was right.
        flow_mods: usize,
        /// Tunnel and patch ports created, changed or removed.
        tunnels_changed: usize,
    },
}

/// A flow, a group or a port that the switch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// It, as text.
    pub what: String,
    /// The error, by the name Open vSwitch gives it where it has one.
    pub reason: String,
}

impl Rejection {
    /// How many of those of one transaction are told; the others are counted.
    pub const TOLD_MAX: usize = 5;
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)
    }
}

/// One of the two connections to a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The database: bridges, ports, tunnels.
    Ovsdb,
    /// The flow tables of the integration bridge.
    OpenFlow,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Channel::Ovsdb => "ovsdb",
            Channel::OpenFlow => "openflow",
        })
    }
}

/// What is plugged into the integration bridge, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Virtual interfaces by `external_ids:iface-id`: those that have an OpenFlow port number. The link state does
    /// not matter: a guest that is still booting has its place already, and flows towards it do no harm.
    pub vifs: BTreeMap<String, Vif>,
    /// Tunnel ports of ours by port name, with their OpenFlow port number; those without one are problems.
    pub tunnels: BTreeMap<String, u16>,
    /// Patch ports of ours on the integration bridge, likewise.
    pub patches: BTreeMap<String, u16>,
    /// What a person should look at.
    pub problems: Vec<Problem>,
}

/// A virtual interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vif {
    /// OpenFlow port number, from 1 to 65279.
    pub ofport: u16,
    /// `external_ids:attached-mac` as it stands there; empty if it is not set.
    pub mac: String,
}

/// Something wrong at the switch that does not stop the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The port, interface or bridge.
    pub what: String,
    /// The cause, and what was done about it.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
