//! `--wait`: waits until the switches have confirmed a transaction.

use std::time::{Duration, Instant};

use clap::Args;
use controller::pb::switch_receipt::State;
use controller::pb::{Accepted, Receipt};
use controller::{Client, ClientError};
use weft_core::shown;

use crate::exit::{Failure, say};

/// The interval at which new switches are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Whether to wait, and for how long.
#[derive(Args, Clone, Copy)]
pub(crate) struct Wait {
    /// Wait until every affected switch has confirmed the change; warn about switches that are not connected
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "wait")]
    timeout: u64,
}

impl Wait {
    /// Waits, if `--wait` is given, for the switches that an accepted request changes.
    pub(crate) async fn settle(self, client: &mut Client, accepted: &Accepted) -> Result<(), Failure> {
        if !self.wait {
            return Ok(());
        }
        let txn = match accepted.txn {
            Some(txn) => txn,
            // Nothing changed, but effects of earlier changes to these objects may still be pending.
            None => {
                match client.status().await.map_err(|error| Failure::Outside(error.to_string()))?.last_txn {
                    0 => return Ok(()),
                    last => last,
                }
            }
        };
        let begun = Instant::now();
        let limit = Duration::from_secs(self.timeout);
        let fault = |why: String| {
            Failure::Outside(format!("transaction {txn} was accepted, but {why}; see `weft get status`"))
        };
        let receipt = match tokio::time::timeout(limit, client.settled(txn)).await {
            Err(_) => {
                return Err(fault(format!("not every switch answered within {} s", self.timeout)));
            }
            // Its receipt is no longer stored, so the transaction is long complete.
            Ok(Err(ClientError::NotFound(_))) if accepted.txn.is_none() => return Ok(()),
            Ok(Err(error)) => return Err(fault(error.to_string())),
            Ok(Ok(None)) => {
                return Err(fault("the controller stopped before every switch answered".to_owned()));
            }
            Ok(Ok(Some(receipt))) => receipt,
        };
        if let Some(why) = refusals(&receipt) {
            return Err(fault(why));
        }
        // The switch of a new node cannot have been connected when the transaction was pushed.
        let new: Vec<String> = accepted.connecting.iter().chain(&accepted.reconnecting).cloned().collect();
        let gone = &accepted.leaving;
        for switch in receipt.switches.iter().filter(|switch| switch.state() == State::Offline) {
            let node = &switch.node;
            // The answer's warnings cover the switches of deleted nodes.
            if !new.contains(node) && !gone.contains(node) {
                say(format_args!(
                    "warning: {node} is not connected; it receives the change when it reconnects"
                ));
            }
        }
        until_in_sync(client, new, || limit.saturating_sub(begun.elapsed())).await.map_err(fault)
    }
}

/// The refusals of switches, one per line.
fn refusals(receipt: &Receipt) -> Option<String> {
    let refused = receipt.switches.iter().filter(|switch| switch.state() == State::Refused);
    let texts: Vec<String> =
        refused.map(|switch| format!("{}: {}", switch.node, shown(&switch.error))).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Waits until these transport nodes are connected and in sync, and warns about those that are not in time.
async fn until_in_sync(
    client: &mut Client,
    mut nodes: Vec<String>,
    left: impl Fn() -> Duration,
) -> Result<(), String> {
    while !nodes.is_empty() {
        let status = client.status_of(nodes.clone()).await.map_err(|error| error.to_string())?;
        let switch = |node: &String| status.switches.iter().find(|switch| switch.node == *node);
        nodes.retain(|node| switch(node).is_some_and(|switch| !(switch.connected && switch.synced)));
        if left().is_zero() {
            for node in &nodes {
                let error = switch(node).map(|switch| switch.last_error.as_str()).unwrap_or_default();
                let why = if error.is_empty() { String::new() } else { format!(": {}", shown(error)) };
                say(format_args!("warning: {node} is not in sync yet{why}"));
            }
            return Ok(());
        }
        if !nodes.is_empty() {
            tokio::time::sleep(LOOK.min(left())).await;
        }
    }
    Ok(())
}
