//! What reaches the engine thread from switches.

use ovs_driver::Event;

/// An event of a switch, for the engine thread.
#[derive(Debug)]
pub(crate) struct FleetEvent {
    pub(crate) node: String,
    /// The driver that sent it. Events of a driver that has been replaced are ignored.
    pub(super) generation: u64,
    pub(super) what: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    Event(Event),
    /// Time to handle the report that was deferred.
    DeferredReport,
    /// The time allowed for a draining switch is over.
    DrainTimeout,
    /// The time is over that so many parts of a transaction's switches had to confirm it.
    HoldTimeout {
        txn: u64,
        begun: u32,
    },
}

/// An event of a switch that is input for the rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The report of a transport node's switch.
    Report(String, ovs_driver::Report),
    Learned(Learned),
    /// The flows of a transport node's switch are in reach again (`true`), or no longer.
    Connection(String, bool),
}

/// A switch has learned an awaited flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Learned {
    pub(crate) node: String,
    pub(crate) table: u8,
    pub(crate) cookie: u64,
    /// Whether it is known to have come just now.
    pub(crate) is_new: bool,
}
