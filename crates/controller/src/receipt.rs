//! Receipts: what became of each transaction, and when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

/// How many receipts are kept for those who ask later.
const KEPT_MAX: usize = 1024;
/// How many switches the receipts kept may name in all, about 100 bytes each.
const ENTRIES_MAX: usize = 200_000;
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
    kept: VecDeque<Arc<Receipt>>,
    /// How many switches the receipts kept name.
    entries: usize,
    /// Transactions whose receipts are new or have changed since they were last sent.
    changed: BTreeSet<u64>,
    live: broadcast::Sender<Arc<Receipt>>,
}

/// What a watcher gets: the receipts kept, and all to come.
pub type Watch = (Vec<Arc<Receipt>>, broadcast::Receiver<Arc<Receipt>>);

impl Default for Receipts {
    fn default() -> Self {
        let (kept, changed) = (VecDeque::new(), BTreeSet::new());
        Receipts { kept, entries: 0, changed, live: broadcast::channel(LAG_MAX).0 }
    }
}

impl Receipts {
    /// Takes a new receipt.
    pub(crate) fn add(&mut self, receipt: Receipt) {
        self.changed.insert(receipt.txn);
        self.entries += receipt.switches.len();
        self.kept.push_back(Arc::new(receipt));
        while self.kept.len() > KEPT_MAX || (self.entries > ENTRIES_MAX && self.kept.len() > 1) {
            if let Some(oldest) = self.kept.pop_front() {
                self.entries -= oldest.switches.len();
            }
        }
    }

    /// Notes how far a transaction is on a switch; `progress` is given the receipt.
    pub(crate) fn advance(&mut self, txn: u64, node: &str, progress: impl FnOnce(&Receipt) -> Progress) {
        let Some(index) = self.find(txn) else { return };
        let receipt = &mut self.kept[index];
        let progress = progress(receipt);
        if receipt.switches.get(node).is_some_and(|switch| switch.progress != progress)
            && let Some(switch) = Arc::make_mut(receipt).switches.get_mut(node)
        {
            switch.progress = progress;
            self.changed.insert(txn);
        }
    }

    /// Notes that a transaction is in force on a switch since `at`.
    pub(crate) fn confirm(&mut self, txn: u64, node: &str, at: Instant) {
        self.advance(txn, node, |receipt| {
            Progress::Confirmed(at.saturating_duration_since(receipt.accepted))
        });
    }

    /// Sends watchers what is new: once for all that came together, since a receipt can name thousands of switches.
    pub(crate) fn send_changed(&mut self) {
        for txn in std::mem::take(&mut self.changed) {
            if let Some(index) = self.find(txn) {
                // Nobody watching is no fault.
                let _ = self.live.send(self.kept[index].clone());
            }
        }
    }

    /// The receipts kept from a transaction on, and all to come.
    pub(crate) fn watch(&self, from: Option<u64>) -> Watch {
        let from = from.unwrap_or(u64::MAX);
        let kept = self.kept.iter().filter(|receipt| receipt.txn >= from).cloned().collect();
        (kept, self.live.subscribe())
    }

    /// Receipts are kept in order of their transactions.
    fn find(&self, txn: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&txn, |receipt| receipt.txn).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(txn: u64, switches: usize) -> Receipt {
        let pending = SwitchReceipt {
            progress: Progress::Pending,
            flows_added: 1,
            flows_deleted: 0,
            tunnels_added: 0,
            tunnels_deleted: 0,
        };
        Receipt {
            txn,
            by: "test".to_owned(),
            at: String::new(),
            accepted: Instant::now(),
            computed: Duration::ZERO,
            journalled: Duration::ZERO,
            switches: (0..switches).map(|number| (format!("hv{number}"), pending.clone())).collect(),
        }
    }

    #[test]
    fn answers_that_come_together_are_sent_together() {
        let mut receipts = Receipts::default();
        let (kept, mut live) = receipts.watch(Some(1));
        assert!(kept.is_empty());
        receipts.add(receipt(1, 3));
        for node in ["hv0", "hv1", "hv2", "hv9"] {
            receipts.advance(1, node, |_| Progress::Offline);
        }
        receipts.send_changed();
        let sent = live.try_recv().unwrap();
        assert!(sent.is_complete());
        assert!(live.try_recv().is_err());
        // What is known already is nothing new.
        receipts.advance(1, "hv0", |_| Progress::Offline);
        receipts.advance(7, "hv0", |_| Progress::Offline);
        receipts.send_changed();
        assert!(live.try_recv().is_err());
        assert_eq!(receipts.watch(Some(1)).0.len(), 1);
        assert_eq!(receipts.watch(None).0.len(), 0);
    }

    #[test]
    fn the_oldest_receipts_go_when_there_are_too_many_or_they_are_too_large() {
        let mut receipts = Receipts::default();
        for txn in 1..=KEPT_MAX as u64 + 1 {
            receipts.add(receipt(txn, 0));
        }
        let kept = receipts.watch(Some(0)).0;
        assert_eq!((kept.len(), kept[0].txn), (KEPT_MAX, 2));
        receipts.add(receipt(5000, ENTRIES_MAX));
        receipts.add(receipt(5001, 1));
        let kept = receipts.watch(Some(0)).0;
        assert_eq!((kept.len(), kept[0].txn), (1, 5001));
        receipts.add(receipt(5002, ENTRIES_MAX + 1));
        assert_eq!(receipts.watch(Some(0)).0.len(), 1, "the last one is kept whatever its size");
    }
}
