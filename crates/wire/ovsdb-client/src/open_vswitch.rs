//! A typed view of the `Open_vSwitch` schema (`ovs-vswitchd.conf.db(5)`): rows as structs, bridges and tunnel ports
//! brought to a desired state.
//!
//! Each operation reads first and sends a transaction only if something has to change. A guard in the transaction detects
//! concurrent changes, after which the operation starts again. With a `patience`, it waits until `ovs-vswitchd` has
//! applied the change ([`wait_in_force`]).

mod bridge;
mod controllers;
mod in_force;
mod rows;
mod tunnel;

pub use bridge::{BridgeSpec, ensure_bridge};
pub use controllers::{Connecting, Controller};
pub use in_force::{transact_in_force, wait_in_force};
pub use rows::{Bridge, FlowTable, Interface, OpenVswitch, Port, PortStatus, monitor};
pub use tunnel::{
    TunnelOutcome, TunnelSpec, delete_ports, delete_ports_of, ensure_tunnels, interfaces_marked,
};

use std::time::Duration;

use crate::row::ColumnError;
use crate::session::Client;
use crate::transact::{Operation, Outcomes, TransactError};

/// The database's name.
pub const DATABASE: &str = "Open_vSwitch";

/// The number of attempts of an operation that concurrent changes interrupt.
const ATTEMPTS_MAX: usize = 8;

/// The action that brought an object to its desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// None; nothing was sent.
    Unchanged,
    /// The object was created.
    Created,
    /// The settings that differed were corrected.
    Updated,
}

/// The reason why an operation on a switch failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The transaction failed.
    #[error(transparent)]
    Transact(#[from] TransactError),
    /// A row does not have the documented form.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The database is empty.
    #[error("the database has no row in table Open_vSwitch; initialise it with: ovs-vsctl --no-wait init")]
    NotInitialised,
    /// There is no such bridge.
    #[error("there is no bridge {bridge}")]
    NoBridge {
        /// Its name.
        bridge: String,
    },
    /// Another client has created the bridge meanwhile.
    #[error("another client has created bridge {bridge} meanwhile")]
    Appeared {
        /// Its name.
        bridge: String,
    },
    /// A port or interface has the name and may not be changed.
    #[error("the name {name} is taken: {by}; remove that port or choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// The owner of the name.
        by: String,
    },
    /// The transaction is committed, but `ovs-vswitchd` has not applied it.
    #[error(
        "committed, but ovs-vswitchd has not applied it within {seconds:.1} s (next_cfg {wanted}, cur_cfg {}); is it running?",
        .reached.map_or_else(|| "unknown".to_owned(), |reached| reached.to_string())
    )]
    NotInForce {
        /// The `next_cfg` of the transaction.
        wanted: i64,
        /// The last `cur_cfg` seen.
        reached: Option<i64>,
        /// The patience.
        seconds: f64,
    },
}

/// The next step after reading.
enum Plan<T> {
    Nothing(T),
    Send(Vec<Operation>, T),
}

/// Whether to start again: a guard failed, or another client took a name first.
fn is_overtaken(error: &Error) -> bool {
    matches!(error, Error::Transact(error) if error.is_timed_out() || error.is_constraint_violation())
}

/// Reads, plans and sends until no concurrent change interferes. Returns whether anything was sent.
async fn carry_out<T>(
    client: &Client,
    reads: &[Operation],
    patience: Option<Duration>,
    plan: impl Fn(&Outcomes) -> Result<Plan<T>, Error>,
) -> Result<(T, bool), Error> {
    let mut attempt = 1;
    loop {
        let (operations, planned) = match plan(&client.transact(reads).await?)? {
            Plan::Nothing(planned) => return Ok((planned, false)),
            Plan::Send(operations, planned) => (operations, planned),
        };
        let sent = match patience {
            Some(patience) => transact_in_force(client, operations, patience).await.map(drop),
            None => client.transact(&operations).await.map(drop).map_err(Error::from),
        };
        match sent {
            Ok(()) => return Ok((planned, true)),
            Err(error) if attempt < ATTEMPTS_MAX && is_overtaken(&error) => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
