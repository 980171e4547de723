//! Receipts: what became of each transaction, and when.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

/// How many receipts are kept for those who ask later.
const KEPT_MAX: usize = 1024;
/// How many receipts a slow watcher may lag behind before it misses some.
const LAG_MAX: usize = 4096;

/// What became of a transaction so far.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Its number.
    pub txn: u64,
    /// Who asked.
    pub by: String,
    /// When it was accepted: RFC 3339, UTC.
    pub at: String,
    /// The same by the clock that the durations below are measured with.
    pub accepted: Instant,
    /// From acceptance until its effects were known.
    pub computed: Duration,
    /// From acceptance until it was on disk.
    pub journalled: Duration,
    /// The switches that it changes, by transport node.
    pub switches: BTreeMap<String, SwitchReceipt>,
}

/// What became of a transaction on one switch so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchReceipt {
    /// How far it is.
    pub progress: Progress,
    /// Flows that come, or take another's place.
    pub flows_added: usize,
    /// Flows that go.
    pub flows_deleted: usize,
    /// Tunnel ports that come, or change.
    pub tunnels_added: usize,
    /// Tunnel ports that go.
    pub tunnels_deleted: usize,
}

/// How far a transaction is on a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Sent, not answered.
    Pending,
    /// In place, this long after acceptance.
    Confirmed(Duration),
    /// Refused, for this reason.
    Refused(String),
    /// The switch is not connected; it gets the whole when it is.
    Offline,
}

impl Receipt {
    /// Whether no switch is pending.
    pub fn is_complete(&self) -> bool {
        !self.switches.values().any(|switch| switch.progress == Progress::Pending)
    }
}

/// The last receipts, and who watches them.
#[derive(Debug)]
pub(crate) struct Receipts {
    kept: VecDeque<Receipt>,
    live: broadcast::Sender<Receipt>,
}

impl Default for Receipts {
    fn default() -> Self {
        Receipts { kept: VecDeque::new(), live: broadcast::channel(LAG_MAX).0 }
    }
}

impl Receipts {
    /// Takes a new receipt.
    pub(crate) fn add(&mut self, receipt: Receipt) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(receipt.clone());
        // Nobody watching is no fault.
        let _ = self.live.send(receipt);
    }

    /// Notes how far a transaction is on a switch; `progress` is given the receipt.
    pub(crate) fn advance(&mut self, txn: u64, node: &str, progress: impl FnOnce(&Receipt) -> Progress) {
        // Transactions are numbered without gaps and kept in order, but not every one has a receipt.
        let Ok(index) = self.kept.binary_search_by_key(&txn, |receipt| receipt.txn) else { return };
        let receipt = &mut self.kept[index];
        let progress = progress(receipt);
        if let Some(switch) = receipt.switches.get_mut(node).filter(|switch| switch.progress != progress) {
            switch.progress = progress;
            let _ = self.live.send(receipt.clone());
        }
    }

    /// The receipts kept from a transaction on, and all to come.
    pub(crate) fn watch(&self, from: Option<u64>) -> (Vec<Receipt>, broadcast::Receiver<Receipt>) {
        let from = from.unwrap_or(u64::MAX);
        let kept = self.kept.iter().filter(|receipt| receipt.txn >= from).cloned().collect();
        (kept, self.live.subscribe())
    }
}
