//! Sends one bundle to one switch, for benchmarks and for tools that run no driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peer_connection::{Dial, Endpoint, PeerMemory};

use super::session::Session;
use crate::config::Timing;
use crate::in_openflow::Batch;
use crate::in_openflow::flows::FlowChange;
use switch_model::{Flow, FlowKey};

/// The duration of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// Time to connect, hello and features included.
    pub connected: Duration,
    /// Time from the first byte of the bundle to the switch's confirmation that all of it is in force.
    pub in_force: Duration,
}

/// Why a push failed. The switch has none of the flows, unless noted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The connection failed or was lost. If it was lost during the commit, the switch may have the flows
    /// nevertheless.
    #[error("{endpoint}: {why}")]
    Connection {
        /// The endpoint of the switch.
        endpoint: String,
        /// The cause.
        why: String,
    },
    /// The switch refused the bundle.
    #[error("{endpoint}: the switch refused {flow}: {reason}")]
    Refused {
        /// The endpoint of the switch.
        endpoint: String,
        /// The first flow that it refused.
        flow: String,
        /// The error, by its name in Open vSwitch.
        reason: String,
    },
}

/// Adds all flows to a bridge or none of them, in one bundle over a separate connection.
///
/// # Errors
/// There is no connection, or the switch refuses a flow.
pub async fn push_bundle(
    dialler: &dyn Dial,
    openflow: &Endpoint,
    flows: &[(FlowKey, Flow)],
) -> Result<Pushed, PushError> {
    let endpoint = openflow.to_string();
    let lost = |why: String| PushError::Connection { endpoint: endpoint.clone(), why };
    let began = Instant::now();
    let mut session: Session = super::connect(dialler, openflow, &Timing::default(), &PeerMemory::default())
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
