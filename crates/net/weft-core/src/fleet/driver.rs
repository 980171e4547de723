//! Orders for the drivers of switches, and the news that they report.

use std::sync::Arc;

use openflow_rs::Match;
use switch_model::{Changes, Event, Packet, ReadError, SeenFlow};

use crate::core::{Given, SwitchAddress};

/// A driver. A transport node whose switch changes gets another driver, and the news of the previous one do not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverId(pub(super) u64);

/// What a driver is to do. Orders are carried out one after another.
#[derive(Debug)]
pub enum DriverOrder {
    /// Manage the switch of a transport node. If that cannot be begun, the answer is [`News::NotStarted`].
    Start {
        /// The transport node.
        node: String,
        /// The driver's name from now on.
        driver: DriverId,
        /// The endpoints of the switch.
        address: Arc<SwitchAddress>,
        /// What the driver begins with. `None`: it writes nothing to the switch before it is given something.
        given: Option<Given>,
    },
    /// Replace the whole desired state.
    Give(DriverId, Given),
    /// Add the changes of a transaction to the desired state.
    Push {
        /// The driver.
        driver: DriverId,
        /// The transaction.
        txn: u64,
        /// Its changes on this switch.
        changes: Box<Changes>,
    },
    /// Execute these packets, each once, and answer by [`News::Sent`] with this number.
    Send {
        /// The driver.
        driver: DriverId,
        /// The transport node.
        node: String,
        /// The number of the order.
        number: u64,
        /// The packets.
        packets: Vec<Packet>,
    },
    /// Read the flows of this table that the match covers, and answer by [`News::Counted`].
    Count {
        /// The driver.
        driver: DriverId,
        /// The transport node.
        node: String,
        /// The table.
        table: u8,
        /// The match.
        covers: Match,
    },
    /// Leave the switch as soon as it is in sync, and say so ([`Event::Left`]).
    Leave(DriverId),
    /// Stop. The next order waits until the driver acts no longer.
    Stop(DriverId),
}

/// News of a switch.
#[derive(Debug)]
pub struct SwitchNews {
    /// The transport node.
    pub node: String,
    /// The driver that tells.
    pub driver: DriverId,
    /// What it tells.
    pub what: News,
}

/// What a driver tells.
#[derive(Debug)]
pub enum News {
    /// Something happened at the switch.
    Event(Event),
    /// The driver cannot be started, for this reason.
    NotStarted(String),
    /// The answer to [`DriverOrder::Send`] with this number.
    Sent(u64, Result<(), ReadError>),
    /// The answer to [`DriverOrder::Count`].
    Counted(Result<Vec<SeenFlow>, ReadError>),
}
