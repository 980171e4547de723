//! Receipts: what became of each transaction, and when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ovs_driver::Changes;
use tokio::sync::mpsc;

/// How many bytes the receipts may have that are kept for later questions.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// How many bytes of updates may wait for one watcher. Watchers share the updates that wait.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// How many watchers of all transactions there may be. A watcher of one transaction costs next to nothing.
const WATCHERS_MAX: usize = 128;
/// What a receipt and each of its switches take, names and texts aside.
const RECEIPT_BYTES: usize = 256;
const SWITCH_BYTES: usize = 160;

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
    /// Buckets of groups that come, or take another's place.
    pub buckets_added: usize,
    /// Buckets that go.
    pub buckets_deleted: usize,
    /// Patch ports that come, or change.
    pub patches_added: usize,
    /// Patch ports that go.
    pub patches_deleted: usize,
}

impl SwitchReceipt {
    /// The receipt of changes that are this far.
    pub(crate) fn new(progress: Progress, changes: &Changes) -> Self {
        SwitchReceipt {
            progress,
            flows_added: changes.flows_add.len(),
            flows_deleted: changes.flows_delete.len(),
            tunnels_added: changes.tunnels_add.len(),
            tunnels_deleted: changes.tunnels_delete.len(),
            buckets_added: changes.buckets_add.len(),
            buckets_deleted: changes.buckets_delete.len(),
            patches_added: changes.patches_add.len(),
            patches_deleted: changes.patches_delete.len(),
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

    fn bytes(&self) -> usize {
        let switches = self.switches.iter().map(|(node, switch)| switch.bytes(node));
        RECEIPT_BYTES + self.by.len() + self.at.len() + switches.sum::<usize>()
    }
}

/// News of a transaction.
#[derive(Debug)]
pub enum Update {
    /// It is new.
    New(Arc<Receipt>),
    /// Some of its switches are further.
    Progress {
        /// Its number.
        txn: u64,
        /// These switches, in order of their names.
        switches: Vec<(String, SwitchReceipt)>,
        /// Whether no switch is pending any more.
        complete: bool,
    },
}

/// The transactions that somebody wants to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those to come.
    New,
    /// This one and all after it.
    From(u64),
    /// This one.
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

/// The last receipts, and who watches them.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    kept: VecDeque<Arc<Receipt>>,
    /// The size of all that are kept.
    bytes: usize,
    /// What watchers were not told yet, by transaction.
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

/// What waits for a watcher.
#[derive(Debug, Default)]
struct Queue {
    bytes: AtomicUsize,
    is_behind: AtomicBool,
}

/// What a watcher gets: the receipts kept, and then updates.
#[derive(Debug)]
pub struct Watch {
    /// Receipts that are there already.
    pub kept: Vec<Arc<Receipt>>,
    updates: mpsc::UnboundedReceiver<(usize, Arc<Update>)>,
    queue: Arc<Queue>,
}

/// Why there is nothing to watch.
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
    /// Takes a new receipt.
    pub(crate) fn add(&mut self, receipt: Receipt) {
        self.changed.insert(receipt.txn, Changed::New);
        self.bytes += receipt.bytes();
        self.kept.push_back(Arc::new(receipt));
        self.forget_old();
    }

    /// Forgets the oldest receipts beyond the limit, except the last one and those that somebody waits for.
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

    /// Notes how far a transaction is on a switch; `progress` is given the receipt.
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

    /// Notes that a transaction is in force on a switch since `at`.
    pub(crate) fn confirm(&mut self, txn: u64, node: &str, at: Instant) {
        self.advance(txn, node, |receipt| {
            Progress::Confirmed(at.saturating_duration_since(receipt.accepted))
        });
    }

    /// Sends watchers what is new: once for all that came together, since a receipt can name thousands of switches.
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

    /// The receipts kept that somebody wants, and updates of them and of those to come.
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

    /// The receipt of a transaction, if it is kept.
    pub(crate) fn kept(&self, txn: u64) -> Option<&Arc<Receipt>> {
        self.find(txn).map(|index| &self.kept[index])
    }

    /// Receipts are kept in order of their transactions.
    fn find(&self, txn: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&txn, |receipt| receipt.txn).ok()
    }
}

impl Watcher {
    /// Queues an update; whether the watcher is still there and not behind.
    fn send(&self, bytes: usize, update: &Arc<Update>) -> bool {
        let waiting = self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        // A single update always fits: the receipt of a large network has to come through.
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

    /// What waits for a watcher.
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
        // What is known already is nothing new.
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
