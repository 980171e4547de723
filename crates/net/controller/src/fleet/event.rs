//! What reaches the engine thread from switches.

use switch_model::Event;

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
    /// The time allowed for a draining switch is over.
    DrainTimeout,
    /// The time is over that so many parts of a transaction's switches had to confirm it.
    HoldTimeout {
        txn: u64,
        begun: u32,
    },
}
