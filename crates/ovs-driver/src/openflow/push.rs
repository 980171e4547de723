//! One bundle to one switch and nothing else: for measuring, and for tools that need no driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peer_connection::{Endpoint, Sockets};

use super::session::Session;
use crate::config::Timing;
use crate::flow::{Flow, FlowKey};
use crate::forwarding::Batch;
use crate::ledger::FlowChange;

/// How long a push took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// To connect, with hello and features.
    pub connected: Duration,
    /// From the first byte of the bundle to the switch's word that all of it is in force.
    pub in_force: Duration,
}

/// Why a push failed; the switch has none of the flows then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no connection, or it was lost. If it was lost while the bundle was committed, the switch may have
    /// the flows all the same.
    #[error("{endpoint}: {why}")]
    Connection {
        /// Of the switch.
        endpoint: String,
        /// The cause.
        why: String,
    },
    /// The switch refused the bundle.
    #[error("{endpoint}: the switch refused {flow}: {reason}")]
    Refused {
        /// Of the switch.
        endpoint: String,
        /// The first flow that it refused.
        flow: String,
        /// The error, by its name in Open vSwitch.
        reason: String,
    },
}

/// Adds flows to a bridge, all or none, in one bundle over a connection of its own.
///
/// # Errors
/// No connection, or a flow that the switch refuses.
pub async fn push_bundle(openflow: &Endpoint, flows: &[(FlowKey, Flow)]) -> Result<Pushed, PushError> {
    let endpoint = openflow.to_string();
    let lost = |why: String| PushError::Connection { endpoint: endpoint.clone(), why };
    let began = Instant::now();
    let mut session: Session = super::connect(&Sockets, openflow, &Timing::default())
        .await
        .map_err(|error| lost(error.to_string()))?;
    let connected = began.elapsed();
    let changes: Vec<FlowChange> = flows
        .iter()
        .map(|(key, flow)| FlowChange {
            key: key.clone(),
            value: Some(flow.clone()),
            installed: None,
            txn: None,
        })
        .collect();
    let batch = Batch { flows: Arc::new(changes), ..Batch::default() };
    let began = Instant::now();
    let refused = session.apply_whole(&batch).await.map_err(|error| lost(error.to_string()))?;
    match refused {
        None => Ok(Pushed { connected, in_force: began.elapsed() }),
        Some((place, reason)) => {
            let flow = place
                .and_then(|place| batch.at(place))
                .map_or("the bundle".to_owned(), |change| change.to_string());
            Err(PushError::Refused { endpoint, flow, reason })
        }
    }
}
