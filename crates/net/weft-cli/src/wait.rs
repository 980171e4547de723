//! `--wait`: waits until the switches have confirmed a transaction.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use weft_client::pb::switch_receipt::State;
use weft_client::pb::{Accepted, Receipt};
use weft_client::{Client, ClientError};
use weft_core::shown;

use crate::exit::{Failure, say};

mod progress;

use progress::Progress;

/// The interval at which new switches are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Whether to wait, and for how long.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Wait {
    /// Wait until all affected switches have confirmed; if not, exit with 4
    #[arg(
        long,
        value_enum,
        value_name = "installed",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "installed",
        hide_possible_values = true
    )]
    wait: Option<Until>,
    /// Maximum time to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "wait")]
    timeout: u64,
}

/// What to wait for. The API knows more; without `--wait`, a command has the answer once the effects are computed.
#[derive(ValueEnum, Debug, Clone, Copy)]
enum Until {
    /// The affected switches have confirmed
    Installed,
}

/// How waiting ended.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The transport nodes whose switches do not have the change, as far as they are known.
    pub(crate) unconfirmed: BTreeSet<String>,
    /// Why it will not help to wait longer.
    pub(crate) failure: Option<String>,
}

impl Settled {
    /// The result of the command.
    pub(crate) fn result(self) -> Result<(), Failure> {
        match self.failure {
            Some(why) => Err(Failure::Outside(why)),
            None if self.unconfirmed.is_empty() => Ok(()),
            None => Err(Failure::NotInForce),
        }
    }
}

impl Wait {
    /// Whether `--wait` is given.
    pub(crate) fn is_given(self) -> bool {
        self.wait.is_some()
    }

    /// Waits, if `--wait` is given, for the switches that an accepted request changes. Those that do not have it are named on standard
    /// error.
    pub(crate) async fn settle(self, client: &mut Client, accepted: &Accepted) -> Settled {
        if !self.is_given() {
            return Settled::default();
        }
        let txn = match accepted.txn {
            Some(txn) => txn,
            // Nothing changed, but effects of earlier changes to these objects may still be pending.
            None => match client.status().await {
                Ok(status) if status.last_txn == 0 => return Settled::default(),
                Ok(status) => status.last_txn,
                Err(error) => return Settled { failure: Some(error.to_string()), ..Settled::default() },
            },
        };
        let mut settled = Settled::default();
        if let Err(why) = self.follow(client, accepted, txn, &mut settled.unconfirmed).await {
            settled.failure =
                Some(format!("transaction {txn} was accepted, but {why}; `weft status` shows the switches"));
        }
        settled
    }

    async fn follow(
        self,
        client: &mut Client,
        accepted: &Accepted,
        txn: u64,
        unconfirmed: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let limit = Duration::from_secs(self.timeout);
        // The switch of a new node cannot have been connected when the transaction was pushed.
        let mut new: Vec<String> =
            accepted.connecting.iter().chain(&accepted.reconnecting).cloned().collect();
        let gone = &accepted.leaving;
        let progress = RefCell::new(Progress::new(txn, &new, gone));
        let settled = client.settled_until(txn, tokio::time::sleep(limit), |receipt| {
            progress.borrow_mut().has_received(receipt);
        });
        let settled = progress::show_while(&progress, settled).await;
        let receipt = match settled {
            // Its receipt is no longer stored, so the transaction is long complete.
            Err(ClientError::NotFound(_)) if accepted.txn.is_none() => return Ok(()),
            Err(error) => return Err(error.to_string()),
            Ok(None) => return Err("the controller stopped before every switch answered".to_owned()),
            Ok(Some(receipt)) => receipt,
        };
        let of_state = |state| receipt.switches.iter().filter(move |switch| switch.state() == state);
        let outdated = outdated(client, &receipt, accepted.txn.is_none()).await?;
        progress.borrow_mut().will_look_at(&outdated);
        new.extend(outdated);
        unconfirmed.extend(of_state(State::Refused).map(|switch| switch.node.clone()));
        for switch in of_state(State::Pending) {
            say(format_args!(
                "warning: {} has not confirmed the change within {} s",
                switch.node, self.timeout
            ));
            unconfirmed.insert(switch.node.clone());
        }
        for switch in of_state(State::Offline) {
            let node = &switch.node;
            // The answer's warnings cover the switches of deleted nodes.
            if !new.contains(node) && !gone.contains(node) {
                say(format_args!(
                    "warning: {node} is not connected; it receives the change when it reconnects"
                ));
                unconfirmed.insert(node.clone());
            }
        }
        if let Some(why) = refusals(&receipt) {
            return Err(why);
        }
        let in_sync = until_in_sync(client, new, &progress, || limit.saturating_sub(begun.elapsed()));
        unconfirmed.extend(progress::show_while(&progress, in_sync).await?);
        Ok(())
    }
}

/// The transport nodes whose switches say more than the receipt. The controller may have started again before they answered, and a receipt of
/// an earlier transaction has switches as not connected that are by now.
async fn outdated(client: &mut Client, receipt: &Receipt, is_earlier: bool) -> Result<Vec<String>, String> {
    let of_state = |state| {
        let switches = receipt.switches.iter().filter(move |switch| switch.state() == state);
        switches.map(|switch| switch.node.clone()).collect::<Vec<_>>()
    };
    let (mut outdated, away) = (of_state(State::Unknown), of_state(State::Offline));
    if is_earlier && !away.is_empty() {
        let status = client.status_of(away.clone()).await.map_err(|error| error.to_string())?;
        let connected = status.switches.iter().filter(|switch| switch.connected);
        outdated.extend(connected.map(|switch| switch.node.clone()).filter(|node| away.contains(node)));
    }
    Ok(outdated)
}

/// The refusals of switches, one per line.
fn refusals(receipt: &Receipt) -> Option<String> {
    let refused = receipt.switches.iter().filter(|switch| switch.state() == State::Refused);
    let texts: Vec<String> =
        refused.map(|switch| format!("{}: {}", switch.node, shown(&switch.error))).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Waits until these transport nodes are connected and in sync. Names those that are not in time, and returns them.
async fn until_in_sync(
    client: &mut Client,
    mut nodes: Vec<String>,
    progress: &RefCell<Progress>,
    left: impl Fn() -> Duration,
) -> Result<Vec<String>, String> {
    while !nodes.is_empty() {
        let status = client.status_of(nodes.clone()).await.map_err(|error| error.to_string())?;
        let switch = |node: &String| status.switches.iter().find(|switch| switch.node == *node);
        nodes.retain(|node| switch(node).is_some_and(|switch| !(switch.connected && switch.synced)));
        progress.borrow_mut().has_looked(&nodes, |node| switch(node).is_some_and(|switch| switch.connected));
        if left().is_zero() {
            progress.borrow_mut().clear();
            for node in &nodes {
                let error = switch(node).map(|switch| switch.last_error.as_str()).unwrap_or_default();
                let why = if error.is_empty() { String::new() } else { format!(": {}", shown(error)) };
                say(format_args!("warning: {node} is not in sync yet{why}"));
            }
            return Ok(nodes);
        }
        if !nodes.is_empty() {
            tokio::time::sleep(LOOK.min(left())).await;
        }
    }
    Ok(nodes)
}
