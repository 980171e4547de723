//! Receipts: the outcome of each transaction, with times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use switch_model::Changes;
use tokio::sync::mpsc;

/// The limit of the stored receipts, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// The limit of the updates that wait for one watcher, in bytes. Watchers share waiting updates.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// The number of watchers of all transactions. A watcher of one transaction costs next to nothing.
const WATCHERS_MAX: usize = 128;
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
    pub(crate) fn new(progress: Progress, changes: &Changes) -> Self {
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

impl Receipt {
    /// Whether no switch is pending.
    pub(crate) fn is_complete(&self) -> bool {
        !self.switches.values().any(|switch| switch.progress == Progress::Pending)
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

/// The transactions that a watcher wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// New transactions.
    New,
    /// This transaction and all later ones.
    From(u64),
    /// This transaction only.
    Only(u64),
}

impl Wanted {
    fn includes(self, txn: u64) -> bool {
        match self {
            Wanted::New => true,
            Wanted::From(first) => txn >= first,
            Wanted::Only(one) => txn == one,
        }
    }
}

/// The last receipts, and their watchers.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    kept: VecDeque<Arc<Receipt>>,
    /// The size of all stored receipts.
    bytes: usize,
    /// Changes that were not sent to watchers yet, by transaction.
    changed: BTreeMap<u64, Changed>,
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
enum Changed {
    New,
    /// The names of switches.
    Switches(BTreeSet<String>),
}

#[derive(Debug)]
struct Watcher {
    wanted: Wanted,
    updates: mpsc::UnboundedSender<(usize, Arc<Update>)>,
    queue: Arc<Queue>,
}

/// The updates that wait for a watcher.
#[derive(Debug, Default)]
struct Queue {
    bytes: AtomicUsize,
    is_behind: AtomicBool,
}

/// A watch: the stored receipts, followed by updates.
#[derive(Debug)]
pub struct Watch {
    /// The stored receipts.
    pub kept: Vec<Arc<Receipt>>,
    updates: mpsc::UnboundedReceiver<(usize, Arc<Update>)>,
    queue: Arc<Queue>,
}

/// Why a watch fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher takes updates too slowly.
    #[error("the watcher is too slow: more than {} MiB wait for it; watch again from the last receipt", QUEUE_BYTES_MAX >> 20)]
    Behind,
    /// There are too many watchers.
    #[error("{WATCHERS_MAX} watchers follow all receipts already; watch one transaction, or try again later")]
    TooMany,
}

impl Watch {
    /// The next update; `None` when the controller ends.
    pub async fn next(&mut self) -> Option<Result<Arc<Update>, WatchError>> {
        match self.updates.recv().await {
            Some((bytes, update)) => {
                self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(Ok(update))
            }
            None => self.queue.is_behind.load(Ordering::Relaxed).then_some(Err(WatchError::Behind)),
        }
    }
}

impl Receipts {
    /// Stores a new receipt.
    pub(crate) fn add(&mut self, receipt: Receipt) {
        self.changed.insert(receipt.txn, Changed::New);
        self.bytes += receipt.bytes();
        self.kept.push_back(Arc::new(receipt));
        self.forget_old();
    }

    /// Deletes the oldest receipts beyond the limit, except the last one and those that a watcher waits for.
    fn forget_old(&mut self) {
        let mut index = 0;
        while self.bytes > KEPT_BYTES_MAX && index + 1 < self.kept.len() {
            let txn = self.kept[index].txn;
            let is_awaited =
                |watcher: &Watcher| watcher.wanted == Wanted::Only(txn) && !watcher.updates.is_closed();
            if self.watchers.iter().any(is_awaited) {
                index += 1;
            } else if let Some(old) = self.kept.remove(index) {
                self.bytes -= old.bytes();
            }
        }
    }

    /// Records the progress of a transaction on a switch. `progress` computes it from the receipt.
    pub(crate) fn advance(&mut self, txn: u64, node: &str, progress: impl FnOnce(&Receipt) -> Progress) {
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
    pub(crate) fn confirm(&mut self, txn: u64, node: &str, at: Instant) {
        self.advance(txn, node, |receipt| {
            Progress::Confirmed(at.saturating_duration_since(receipt.accepted))
        });
    }

    /// Sends the accumulated changes to watchers in one update, since a receipt can name thousands of switches.
    pub(crate) fn send_changed(&mut self) {
        for (txn, changed) in std::mem::take(&mut self.changed) {
            let Some(receipt) = self.kept(txn) else { continue };
            if self.watchers.iter().all(|watcher| !watcher.wanted.includes(txn)) {
                continue;
            }
            let (bytes, update) = match changed {
                Changed::New => (receipt.bytes(), Update::New(receipt.clone())),
                Changed::Switches(nodes) => {
                    let of_node =
                        |node: String| receipt.switches.get(&node).cloned().map(|switch| (node, switch));
                    let switches: Vec<_> = nodes.into_iter().filter_map(of_node).collect();
                    let bytes: usize = switches.iter().map(|(node, switch)| switch.bytes(node)).sum();
                    (
                        bytes + RECEIPT_BYTES,
                        Update::Progress { txn, switches, complete: receipt.is_complete() },
                    )
                }
            };
            let update = Arc::new(update);
            self.watchers.retain(|watcher| !watcher.wanted.includes(txn) || watcher.send(bytes, &update));
        }
    }

    /// Starts a watch: the wanted receipts that are stored, and updates of them and of later ones.
    pub(crate) fn watch(&mut self, wanted: Wanted) -> Result<Watch, WatchError> {
        self.watchers.retain(|watcher| !watcher.updates.is_closed());
        let of_all = |wanted: Wanted| !matches!(wanted, Wanted::Only(_));
        if of_all(wanted)
            && self.watchers.iter().filter(|watcher| of_all(watcher.wanted)).count() >= WATCHERS_MAX
        {
            return Err(WatchError::TooMany);
        }
        let kept = match wanted {
            Wanted::New => Vec::new(),
            Wanted::Only(txn) => self.kept(txn).into_iter().cloned().collect(),
            Wanted::From(first) => {
                let begin = self.kept.partition_point(|receipt| receipt.txn < first);
                self.kept.range(begin..).cloned().collect()
            }
        };
        let (sender, updates) = mpsc::unbounded_channel();
        let queue = Arc::new(Queue::default());
        self.watchers.push(Watcher { wanted, updates: sender, queue: queue.clone() });
        Ok(Watch { kept, updates, queue })
    }

    /// The stored receipt of a transaction, if any.
    pub(crate) fn kept(&self, txn: u64) -> Option<&Arc<Receipt>> {
        self.find(txn).map(|index| &self.kept[index])
    }

    /// The index of a receipt. Receipts are stored in order of their transactions.
    fn find(&self, txn: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&txn, |receipt| receipt.txn).ok()
    }
}

impl Watcher {
    /// Queues an update. Returns whether the watcher is still there and not behind.
    fn send(&self, bytes: usize, update: &Arc<Update>) -> bool {
        let waiting = self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        // A single update always fits, since the receipt of a large network must get through.
        if waiting > 0 && waiting + bytes > QUEUE_BYTES_MAX {
            self.queue.is_behind.store(true, Ordering::Relaxed);
            return false;
        }
        self.updates.send((bytes, update.clone())).is_ok()
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

    /// The updates that wait for a watcher.
    fn waiting(watch: &mut Watch) -> Vec<Arc<Update>> {
        std::iter::from_fn(|| watch.updates.try_recv().ok().map(|(_, update)| update)).collect()
    }

    #[test]
    fn answers_that_come_together_are_sent_together() {
        let mut receipts = Receipts::default();
        let mut watch = receipts.watch(Wanted::From(1)).unwrap();
        assert!(watch.kept.is_empty());
        receipts.add(receipt(1, 3));
        for node in ["hv0", "hv1", "hv2", "hv9"] {
            receipts.advance(1, node, |_| Progress::Offline);
        }
        receipts.send_changed();
        let sent = waiting(&mut watch);
        assert!(matches!(&*sent[0], Update::New(receipt) if receipt.is_complete()));
        assert_eq!(sent.len(), 1);
        // Progress that is already known is not sent again.
        receipts.advance(1, "hv0", |_| Progress::Offline);
        receipts.advance(7, "hv0", |_| Progress::Offline);
        receipts.send_changed();
        assert!(waiting(&mut watch).is_empty());
        assert_eq!(receipts.watch(Wanted::From(1)).unwrap().kept.len(), 1);
        assert_eq!(receipts.watch(Wanted::Only(1)).unwrap().kept.len(), 1);
        assert_eq!(receipts.watch(Wanted::New).unwrap().kept.len(), 0);
    }

    #[test]
    fn an_answer_is_sent_without_the_switches_that_have_not_answered() {
        let mut receipts = Receipts::default();
        let (mut one, mut other) =
            (receipts.watch(Wanted::Only(1)).unwrap(), receipts.watch(Wanted::Only(2)).unwrap());
        receipts.add(receipt(1, 3000));
        receipts.send_changed();
        waiting(&mut one);
        receipts.confirm(1, "hv7", Instant::now());
        receipts.send_changed();
        let sent = waiting(&mut one);
        let Update::Progress { txn: 1, switches, complete: false } = &*sent[0] else { panic!("{sent:?}") };
        assert_eq!(switches.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["hv7"]);
        assert!(waiting(&mut other).is_empty());
    }

    #[test]
    fn the_oldest_receipts_go_when_they_are_too_large_but_not_those_that_somebody_waits_for() {
        const LARGE: usize = 10_000;
        let mut receipts = Receipts::default();
        for txn in 1..=3 {
            receipts.add(receipt(txn, 1));
        }
        let waits = receipts.watch(Wanted::Only(2)).unwrap();
        let mut last = 3;
        while receipts.find(1).is_some() {
            last += 1;
            receipts.add(receipt(last, LARGE));
        }
        assert!(
            receipts.bytes <= KEPT_BYTES_MAX && receipts.bytes > KEPT_BYTES_MAX / 2,
            "{}",
            receipts.bytes
        );
        let kept = receipts.watch(Wanted::From(0)).unwrap().kept;
        assert_eq!(kept[0].txn, 2, "somebody waits for it");
        assert!(kept[1].txn > 3);
        let sizes: usize = kept.iter().map(|receipt| receipt.bytes()).sum();
        assert_eq!(receipts.bytes, sizes);
        drop(waits);
        receipts.add(receipt(last + 1, LARGE));
        assert!(receipts.find(2).is_none());
        receipts.add(receipt(last + 2, 1_000_000));
        assert_eq!(
            receipts.watch(Wanted::From(0)).unwrap().kept.len(),
            1,
            "the last one is kept whatever its size"
        );
    }

    #[test]
    fn a_watcher_that_falls_behind_is_told_and_holds_little() {
        let mut receipts = Receipts::default();
        let mut slow = receipts.watch(Wanted::New).unwrap();
        receipts.add(receipt(1, 3000));
        receipts.send_changed();
        for round in 0..100 {
            for number in 0..3000 {
                receipts.advance(1, &format!("hv{number}"), |_| Progress::Refused(format!("round {round}")));
            }
            receipts.send_changed();
        }
        assert!(receipts.watchers.is_empty(), "it is given up");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut bytes = 0;
            let end = loop {
                match slow.next().await {
                    Some(Ok(update)) => {
                        bytes += match &*update {
                            Update::New(receipt) => receipt.bytes(),
                            Update::Progress { switches, .. } => {
                                switches.iter().map(|(node, switch)| switch.bytes(node)).sum()
                            }
                        }
                    }
                    end => break end,
                }
            };
            assert_eq!(end.map(Result::unwrap_err), Some(WatchError::Behind));
            assert!(bytes <= QUEUE_BYTES_MAX, "{bytes} bytes waited");
        });
    }

    #[test]
    fn there_are_not_too_many_watchers() {
        let mut receipts = Receipts::default();
        let watchers: Vec<_> = (0..WATCHERS_MAX).map(|_| receipts.watch(Wanted::New).unwrap()).collect();
        assert_eq!(receipts.watch(Wanted::From(1)).unwrap_err(), WatchError::TooMany);
        assert!(receipts.watch(Wanted::Only(1)).is_ok());
        drop(watchers);
        assert!(receipts.watch(Wanted::New).is_ok());
    }
}
