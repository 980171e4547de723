//! The events at a switch, as its driver reports them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An event at a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// One of the two connections is up.
    Connected {
        /// Which one.
        channel: Channel,
    },
    /// One of the two connections was lost, or a connection attempt failed for a reason other than the last reported
    /// one. The driver keeps trying.
    Disconnected {
        /// Which one.
        channel: Channel,
        /// The endpoint and the cause.
        why: String,
    },
    /// The complete list of attached interfaces and ports. Sent after every connection to the database and whenever
    /// the list changes. A newer report replaces an undelivered one.
    Report(Report),
    /// Everything in this transaction is in force at the switch, or was superseded by a later transaction that is.
    ///
    /// Of the transactions that were pushed while the OpenFlow connection was down, only the last is confirmed, and
    /// all of them are then in force. The same holds for transactions with ports that were pushed while either
    /// connection was down. A transaction that is unconfirmed when a connection is lost counts as pushed afterwards.
    Confirmed {
        /// The number given to the driver with it.
        txn: u64,
        /// When the switch confirmed it.
        at: Instant,
        /// When its bundle was sent; `None` if there was none.
        sent: Option<BundleTimes>,
    },
    /// The switch refused flows, groups or ports. The rest is in force. Refused objects are retried when they change and
    /// after the next connection. The transaction will not be confirmed.
    Refused {
        /// The last transaction that changed the refused objects; `None` if they came with the whole desired state.
        txn: Option<u64>,
        /// The number of refused objects.
        count: usize,
        /// The first few of them: at least one, at most [`Rejection::REPORTED_MAX`].
        first: Vec<Rejection>,
    },
    /// The number of desired objects that the switch refuses at present. Sent after [`Event::Refused`] and whenever the
    /// number changes. It returns to 0 once every refused object has been changed or deleted.
    RefusedTotal {
        /// Flows, groups and ports. Flows and groups do not count while the OpenFlow connection is down.
        refused: usize,
    },
    /// The switch has the learned flow that is [awaited](crate::AwaitedFlows), or several with this table and cookie.
    /// Undelivered events about one are one event.
    Learned {
        /// The table.
        table: u8,
        /// The cookie.
        cookie: u64,
        /// Whether the switch has written it since the driver last saw the switch without it. Otherwise it was there when the
        /// driver read the switch for the first time, or when the flow began to be awaited.
        is_new: bool,
    },
    /// Another client of the bridge, or the switch itself, changed flows or groups. The driver undoes the changes and
    /// then reports [`Event::Repaired`]; until then the switch is not in sync. Undelivered events of this kind are
    /// added up.
    ForeignChanges {
        /// The number of flows and groups that were changed, as found since the last event.
        count: usize,
        /// The first few of them, as text: at most [`ForeignChange::REPORTED_MAX`].
        first: Vec<ForeignChange>,
        /// The delay before the repair. It grows while others keep undoing repairs.
        repair_in: Duration,
    },
    /// All foreign changes found so far are undone.
    Repaired {
        /// The flow and group modifications needed; 0 if the changes were undone otherwise.
        flow_mods: usize,
    },
    /// The database had changes that it has not notified: the driver read it to compare. They count from now on. Undelivered events of this
    /// kind are added up.
    MissedChanges {
        /// The number of rows.
        count: usize,
        /// One of them, as text.
        last: String,
    },
    /// The switch has sent these frames as often as they are to be sent. Undelivered events of this kind are added up.
    Announced {
        /// The names of the frames.
        names: BTreeSet<String>,
    },
    /// The switch belongs to another transport node or to another controller, and the
    /// driver writes nothing to it.
    Withheld {
        /// Whose it is, and the remedy; `None` once the switch is the driver's.
        why: Option<String>,
    },
    /// After the driver was told to leave: the switch is in sync, and does not belong to the driver any more.
    Left,
    /// A task of the driver ended, usually by a panic. The driver restarts and makes both connections again.
    Failed {
        /// The task and the reason.
        why: String,
        /// The delay before the restart. It doubles with each further failure.
        restart_in: Duration,
    },
    /// After a connection: the whole switch was compared with the desired state and is now in sync.
    Synced {
        /// The flow and group modifications needed; 0 if the switch was in sync already.
        flow_mods: usize,
        /// The tunnel and patch ports created, changed or removed.
        tunnels_changed: usize,
    },
}

/// A change of a flow or a group that the driver did not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChange {
    /// The change, and the flow or the group as text.
    pub what: String,
    /// The reason, and the client that made the change, as far as the switch reports them.
    pub why: String,
}

impl ForeignChange {
    /// The most foreign changes of one event that are reported in full; the others are only counted.
    pub const REPORTED_MAX: usize = 5;
}

impl fmt::Display for ForeignChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}

/// A flow, a group or a port that the switch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The object, as text.
    pub what: String,
    /// The error, by its name in Open vSwitch if it has one.
    pub reason: String,
}

impl Rejection {
    /// The most rejections of one transaction that are reported in full; the others are only counted.
    pub const REPORTED_MAX: usize = 5;
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

/// When a bundle was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleTimes {
    /// Its first message.
    pub begun: Instant,
    /// Its commit, which follows once the switch has taken all its messages.
    pub committed: Instant,
}

/// The interfaces and ports of the integration bridge, and problems with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The virtual interfaces that have an OpenFlow port number, by `external_ids:iface-id`. The link state does not
    /// matter, except between several interfaces: the port of a guest that is still booting may have flows already.
    pub vifs: BTreeMap<String, Vif>,
    /// Every interface of the integration bridge with an `external_ids:iface-id`, by this id, whether or not it has a port
    /// number and counts.
    pub interfaces: BTreeSet<(String, InterfaceId)>,
    /// The ports, by id, that several interfaces of the bridge have a number for, with the names of these interfaces: the one that
    /// counts first.
    pub contested: BTreeMap<String, String>,
    /// The ports, by id, whose only interfaces are ones that the switch could not open: the name of one, and the reason.
    pub unopened: BTreeMap<String, (String, String)>,
    /// The OpenFlow port numbers of the driver's tunnel ports, by port name. Ports without a number are problems.
    pub tunnels: BTreeMap<String, u16>,
    /// The same for the driver's patch ports on the integration bridge.
    pub patches: BTreeMap<String, u16>,
    /// What probes of the responder have found, by their ids. It stands in the database, so it is there without a responder too.
    pub probes: BTreeMap<String, ProbeFound>,
    /// Machines that are going to use the address of somebody else, as the switch has noted; `None` before its flows were read, which
    /// leaves what was known.
    pub conflicts: Option<Arc<BTreeSet<Conflict>>>,
    /// Problems that an operator should look at.
    pub problems: Vec<Problem>,
    /// The version of Open vSwitch; empty if the switch does not say it.
    pub ovs_version: String,
}

/// What a probe has found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeFound {
    /// Whether what it checks works.
    pub up: bool,
    /// Why it does not; empty if it does.
    pub cause: String,
}

/// A machine that is going to use the address of somebody else: it has probed for it, or announced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The label of its port.
    pub label: u32,
    /// The address.
    pub address: IpAddr,
}

/// A virtual interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vif {
    /// The OpenFlow port number, from 1 to 65279.
    pub ofport: u16,
    /// `external_ids:attached-mac`, unparsed; empty if it is not set.
    pub mac: String,
    /// The interface.
    pub interface: InterfaceId,
}

/// An interface: the UUID of its row in the database. It stays when the interface changes, gets another port number, or has
/// none for a while. An interface that is removed and added again is another one, even if that is one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u128);

/// A problem at the switch that does not stop the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The port, interface or bridge.
    pub what: String,
    /// The cause, and what the driver did about it.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
