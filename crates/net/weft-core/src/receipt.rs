//! Receipts: the outcome of each transaction, with times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use switch_model::Changes;

/// The limit of the stored receipts, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// The limit of those among them that all switches have answered. Readers of older ones find them on disk.
const COMPLETE_BYTES_MAX: usize = 4 << 20;
/// The size of a receipt, and of each of its switches, without names and texts.
const RECEIPT_BYTES: usize = 256;
const SWITCH_BYTES: usize = 160;

/// The current outcome of a transaction.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Its number.
    pub txn: u64,
    /// The requester.
    pub by: String,
    /// The time of acceptance: RFC 3339, UTC.
    pub at: String,
    /// The same time on the clock that measures the durations below.
    pub accepted: Instant,
    /// The time from acceptance until its effects were computed.
    pub computed: Duration,
    /// The time from acceptance until it was on disk.
    pub journalled: Duration,
    /// The switches that it changes, by transport node.
    pub switches: BTreeMap<String, SwitchReceipt>,
}

/// The current outcome of a transaction on one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchReceipt {
    /// The progress.
    pub progress: Progress,
    /// Added or replaced flows.
    pub flows_added: usize,
    /// Deleted flows.
    pub flows_deleted: usize,
    /// Added or changed tunnel ports.
    pub tunnels_added: usize,
    /// Deleted tunnel ports.
    pub tunnels_deleted: usize,
    /// Added or replaced buckets of groups.
    pub buckets_added: usize,
    /// Deleted buckets.
    pub buckets_deleted: usize,
    /// Added or changed patch ports.
    pub patches_added: usize,
    /// Deleted patch ports.
    pub patches_deleted: usize,
}

impl SwitchReceipt {
    /// The receipt of these changes with this progress.
    pub fn new(progress: Progress, changes: &Changes) -> Self {
        SwitchReceipt {
            progress,
            flows_added: changes.flows.add.len(),
            flows_deleted: changes.flows.delete.len(),
            tunnels_added: changes.tunnels.add.len(),
            tunnels_deleted: changes.tunnels.delete.len(),
            buckets_added: changes.buckets.add.len() + changes.candidates.add.len(),
            buckets_deleted: changes.buckets.delete.len() + changes.candidates.delete.len(),
            patches_added: changes.patches.add.len(),
            patches_deleted: changes.patches.delete.len(),
        }
    }

    fn bytes(&self, node: &str) -> usize {
        let text = match &self.progress {
            Progress::Refused(why) => why.len(),
            _ => 0,
        };
        SWITCH_BYTES + node.len() + text
    }
}

/// The progress of a transaction on a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Sent, or kept back until other switches have answered, but not answered yet.
    Pending,
    /// In force, after this time since acceptance.
    Confirmed(Duration),
    /// Refused, for this reason.
    Refused(String),
    /// The switch is disconnected. It will receive the whole desired state when it reconnects.
    Offline,
}

impl Update {
    /// The transaction.
    pub fn txn(&self) -> u64 {
        match self {
            Update::New(receipt) => receipt.txn,
            Update::Progress { txn, .. } => *txn,
        }
    }
}

impl Receipt {
    /// Whether no switch is pending.
    pub fn is_complete(&self) -> bool {
        !self.switches.values().any(|switch| switch.progress == Progress::Pending)
    }

    /// Takes what is new of its transaction.
    pub fn follow(&mut self, update: &Update) {
        match update {
            Update::New(receipt) if receipt.txn == self.txn => self.clone_from(receipt),
            Update::Progress { txn, switches, .. } if *txn == self.txn => {
                self.switches.extend(switches.iter().cloned());
            }
            _ => {}
        }
    }

    fn bytes(&self) -> usize {
        let switches = self.switches.iter().map(|(node, switch)| switch.bytes(node));
        RECEIPT_BYTES + self.by.len() + self.at.len() + switches.sum::<usize>()
    }
}

/// News about a transaction.
#[derive(Debug)]
pub enum Update {
    /// The transaction is new.
    New(Arc<Receipt>),
    /// Some of its switches have made progress.
    Progress {
        /// Its number.
        txn: u64,
        /// These switches, ordered by name.
        switches: Vec<(String, SwitchReceipt)>,
        /// Whether no switch is pending any more.
        complete: bool,
    },
}

/// The last receipts, and which of them have changed.
#[derive(Debug, Default)]
pub struct Receipts {
    kept: VecDeque<Arc<Receipt>>,
    /// The size of all stored receipts.
    bytes: usize,
    /// Changes that nobody was told yet, by transaction.
    changed: BTreeMap<u64, Changed>,
    /// The transactions that somebody waits for.
    awaited: BTreeSet<u64>,
}

#[derive(Debug)]
enum Changed {
    New,
    /// The names of switches.
    Switches(BTreeSet<String>),
}

impl Receipts {
    /// Stores a new receipt.
    pub fn add(&mut self, receipt: Receipt) {
        self.changed.insert(receipt.txn, Changed::New);
        self.bytes += receipt.bytes();
        self.kept.push_back(Arc::new(receipt));
    }

    /// Somebody waits for these transactions, and for no others: their receipts are not forgotten.
    pub fn await_these(&mut self, awaited: BTreeSet<u64>) {
        self.awaited = awaited;
    }

    /// Deletes the oldest receipts beyond the limits, except the last one and those that somebody waits for.
    fn forget_old(&mut self) {
        let mut index = 0;
        while self.bytes > COMPLETE_BYTES_MAX && index + 1 < self.kept.len() {
            let oldest = &self.kept[index];
            if self.bytes <= KEPT_BYTES_MAX && !oldest.is_complete() {
                break;
            }
            if self.awaited.contains(&oldest.txn) {
                index += 1;
            } else if let Some(old) = self.kept.remove(index) {
                self.bytes -= old.bytes();
            }
        }
    }

    /// Records the progress of a transaction on a switch. `progress` computes it from the receipt.
    pub fn advance(&mut self, txn: u64, node: &str, progress: impl FnOnce(&Receipt) -> Progress) {
        let Some(index) = self.find(txn) else { return };
        let receipt = &mut self.kept[index];
        let progress = progress(receipt);
        if receipt.switches.get(node).is_some_and(|switch| switch.progress != progress)
            && let Some(switch) = Arc::make_mut(receipt).switches.get_mut(node)
        {
            self.bytes -= switch.bytes(node);
            switch.progress = progress;
            self.bytes += switch.bytes(node);
            let changed = self.changed.entry(txn).or_insert_with(|| Changed::Switches(BTreeSet::new()));
            if let Changed::Switches(nodes) = changed {
                nodes.insert(node.to_owned());
            }
        }
    }

    /// Records that a transaction has been in force on a switch since `at`.
    pub fn confirm(&mut self, txn: u64, node: &str, at: Instant) {
        self.advance(txn, node, |receipt| {
            Progress::Confirmed(at.saturating_duration_since(receipt.accepted))
        });
    }

    /// Takes the accumulated changes, of each transaction in one update, since a receipt can name thousands of switches. Each with its
    /// size in bytes. Only then, old receipts are forgotten: whoever takes the changes may write them down, and misses none.
    pub fn take_changed(&mut self) -> Vec<(usize, Arc<Update>)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let update = |(txn, changed)| {
            let receipt = self.kept(txn)?;
            let (bytes, update) = match changed {
                Changed::New => (receipt.bytes(), Update::New(receipt.clone())),
                Changed::Switches(nodes) => {
                    let of_node =
                        |node: String| receipt.switches.get(&node).cloned().map(|switch| (node, switch));
                    let switches: Vec<_> = nodes.into_iter().filter_map(of_node).collect();
                    let bytes: usize = switches.iter().map(|(node, switch)| switch.bytes(node)).sum();
                    let complete = receipt.is_complete();
                    (bytes + RECEIPT_BYTES, Update::Progress { txn, switches, complete })
                }
            };
            Some((bytes, Arc::new(update)))
        };
        let updates = changed.filter_map(update).collect();
        self.forget_old();
        updates
    }

    /// The receipts of this transaction and of later ones, as far as they are kept.
    pub fn since(&self, first: u64) -> impl Iterator<Item = &Arc<Receipt>> {
        let index = self.kept.partition_point(|receipt| receipt.txn < first);
        self.kept.range(index..)
    }

    /// The receipt of a transaction, if it is kept.
    pub fn kept(&self, txn: u64) -> Option<&Arc<Receipt>> {
        self.kept.get(self.find(txn)?)
    }

    /// Receipts are stored in order of their transactions.
    fn find(&self, txn: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&txn, |receipt| receipt.txn).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(txn: u64, switches: usize) -> Receipt {
        let pending = SwitchReceipt::new(Progress::Pending, &Changes::default());
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
    fn the_oldest_receipts_go_when_they_are_too_large_but_not_those_that_somebody_waits_for() {
        const LARGE: usize = 10_000;
        let mut receipts = Receipts::default();
        for txn in 1..=3 {
            receipts.add(receipt(txn, 1));
        }
        receipts.await_these([2].into());
        let mut last = 3;
        while receipts.kept(1).is_some() {
            last += 1;
            receipts.add(receipt(last, LARGE));
            assert!(receipts.kept(1).is_some(), "nobody was told of the new one yet");
            receipts.take_changed();
        }
        assert!(
            receipts.bytes <= KEPT_BYTES_MAX && receipts.bytes > KEPT_BYTES_MAX / 2,
            "{}",
            receipts.bytes
        );
        let kept: Vec<_> = receipts.since(0).collect();
        assert_eq!(kept[0].txn, 2, "somebody waits for it");
        assert!(kept[1].txn > 3);
        let sizes: usize = kept.iter().map(|receipt| receipt.bytes()).sum();
        assert_eq!(receipts.bytes, sizes);
        receipts.await_these(BTreeSet::new());
        receipts.add(receipt(last + 1, LARGE));
        receipts.take_changed();
        assert!(receipts.kept(2).is_none());
        receipts.add(receipt(last + 2, 1_000_000));
        receipts.take_changed();
        assert_eq!(receipts.since(0).count(), 1, "the last one is kept whatever its size");
    }

    #[test]
    fn receipts_that_all_switches_have_answered_go_earlier() {
        let mut receipts = Receipts::default();
        let answered = |receipts: &mut Receipts, txn| {
            receipts.add(receipt(txn, 1));
            receipts.confirm(txn, "hv0", Instant::now());
            receipts.take_changed();
        };
        let mut last = 0;
        while receipts.kept(1).is_some() || last == 0 {
            last += 1;
            answered(&mut receipts, last);
        }
        assert!(receipts.bytes <= COMPLETE_BYTES_MAX, "{}", receipts.bytes);
        assert!(receipts.bytes > COMPLETE_BYTES_MAX / 2, "{}", receipts.bytes);
        // One that a switch has yet to answer stays, and so do those after it.
        let pending = last + 1;
        receipts.add(receipt(pending, 1));
        for txn in pending + 1..pending + 2 * last {
            answered(&mut receipts, txn);
        }
        assert_eq!(receipts.since(0).next().map(|receipt| receipt.txn), Some(pending));
        receipts.confirm(pending, "hv0", Instant::now());
        receipts.take_changed();
        assert!(
            receipts.kept(pending).is_none() && receipts.bytes <= COMPLETE_BYTES_MAX,
            "{}",
            receipts.bytes
        );
    }
}
