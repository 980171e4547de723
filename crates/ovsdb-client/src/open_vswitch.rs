//! A typed view of the `Open_vSwitch` schema (`ovs-vswitchd.conf.db(5)`): rows as structs, bridges and tunnel ports
//! brought to a wanted state.
//!
//! The operations read first and send a transaction that changes something only if something is to be changed,
//! with a guard against what others change in between; they begin anew if the guard does not hold. Given a
//! patience, they wait until `ovs-vswitchd` has taken the change up ([`wait_in_force`]).

mod bridge;
mod in_force;
mod rows;
mod tunnel;

pub use bridge::{BridgeSpec, ensure_bridge};
pub use in_force::{transact_in_force, wait_in_force};
pub use rows::{Bridge, Interface, OpenVswitch, Port, PortStatus, monitor};
pub use tunnel::{
    TunnelOutcome, TunnelSpec, delete_ports, delete_ports_of, ensure_tunnels, interfaces_marked,
};

use std::time::Duration;

use crate::row::ColumnError;
use crate::session::Client;
use crate::transact::{Operation, Outcomes, TransactError};

/// The database's name.
pub const DATABASE: &str = "Open_vSwitch";

/// How often an operation begins anew because others changed what it was about to change.
const ATTEMPTS_MAX: usize = 8;

/// What was needed to bring something to its wanted state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// Nothing; nothing was sent.
    Unchanged,
    /// It was not there.
    Created,
    /// Some of its settings were wrong; those alone were written.
    Updated,
}

/// Why an operation on a switch failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The transaction failed.
    #[error(transparent)]
    Transact(#[from] TransactError),
    /// A row is not as the schema's documentation says.
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
    /// A port or interface of that name is there, and not ours to change.
    #[error("the name {name} is taken: {by}; remove that port or choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// By what.
        by: String,
    },
    /// Committed, but `ovs-vswitchd` has not taken it up.
    #[error(
        "committed, but ovs-vswitchd has not taken it up within {seconds:.1} s (next_cfg {wanted}, cur_cfg {}); is it running?",
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

/// What to do after reading.
enum Plan<T> {
    Nothing(T),
    Send(Vec<Operation>, T),
}

/// Whether to read again and plan anew: a guard did not hold, or somebody was first to take a name.
fn is_overtaken(error: &Error) -> bool {
    matches!(error, Error::Transact(error) if error.is_timed_out() || error.is_constraint_violation())
}

/// Reads, plans and sends, until the plan holds. Returns whether anything was sent.
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
