//! Clients that follow the receipts of transactions. Each has a queue of bounded size.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc;
use weft_core::receipt::{Receipt, Receipts, Update};

/// The limit of the updates that wait for one watcher, in bytes. Watchers share waiting updates.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// The number of watchers of all transactions. A watcher of one transaction costs next to nothing.
const WATCHERS_MAX: usize = 128;
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

/// All watchers.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Vec<Watcher>);

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
    /// The last transaction before the updates.
    pub last_txn: u64,
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

impl Watchers {
    /// Sends what has changed of receipts.
    pub(crate) fn send(&mut self, updates: &[(usize, Arc<Update>)], receipts: &mut Receipts) {
        for (bytes, update) in updates {
            let txn = update.txn();
            self.0.retain(|watcher| !watcher.wanted.includes(txn) || watcher.send(*bytes, update));
        }
        receipts.await_these(self.awaited());
    }

    /// Starts a watch: the wanted receipts that are stored, and updates of them and of later ones.
    pub(crate) fn watch(
        &mut self,
        wanted: Wanted,
        receipts: &mut Receipts,
        last_txn: u64,
    ) -> Result<Watch, WatchError> {
        self.0.retain(|watcher| !watcher.updates.is_closed());
        let of_all = |wanted: Wanted| !matches!(wanted, Wanted::Only(_));
        if of_all(wanted) && self.0.iter().filter(|watcher| of_all(watcher.wanted)).count() >= WATCHERS_MAX {
            return Err(WatchError::TooMany);
        }
        let kept = match wanted {
            Wanted::New => Vec::new(),
            Wanted::Only(txn) => receipts.kept(txn).into_iter().cloned().collect(),
            Wanted::From(first) => receipts.since(first).cloned().collect(),
        };
        let (sender, updates) = mpsc::unbounded_channel();
        let queue = Arc::new(Queue::default());
        self.0.push(Watcher { wanted, updates: sender, queue: queue.clone() });
        receipts.await_these(self.awaited());
        Ok(Watch { kept, last_txn, updates, queue })
    }

    /// The transactions that somebody waits for.
    fn awaited(&self) -> BTreeSet<u64> {
        let open = self.0.iter().filter(|watcher| !watcher.updates.is_closed());
        open.filter_map(|watcher| match watcher.wanted {
            Wanted::Only(txn) => Some(txn),
            Wanted::New | Wanted::From(_) => None,
        })
        .collect()
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
    use std::time::{Duration, Instant};

    use switch_model::Changes;

    use super::*;
    use weft_core::receipt::{Progress, SwitchReceipt};

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

    fn send_changed(watchers: &mut Watchers, receipts: &mut Receipts) {
        let updates = receipts.take_changed();
        watchers.send(&updates, receipts);
    }

    /// The updates that wait for a watcher.
    fn waiting(watch: &mut Watch) -> Vec<Arc<Update>> {
        std::iter::from_fn(|| watch.updates.try_recv().ok().map(|(_, update)| update)).collect()
    }

    #[test]
    fn answers_that_come_together_are_sent_together() {
        let (mut receipts, mut watchers) = (Receipts::default(), Watchers::default());
        let mut watch = watchers.watch(Wanted::From(1), &mut receipts, 0).unwrap();
        assert!(watch.kept.is_empty());
        receipts.add(receipt(1, 3));
        for node in ["hv0", "hv1", "hv2", "hv9"] {
            receipts.advance(1, node, |_| Progress::Offline);
        }
        send_changed(&mut watchers, &mut receipts);
        let sent = waiting(&mut watch);
        assert!(matches!(&*sent[0], Update::New(receipt) if receipt.is_complete()));
        assert_eq!(sent.len(), 1);
        // Progress that is already known is not sent again.
        receipts.advance(1, "hv0", |_| Progress::Offline);
        receipts.advance(7, "hv0", |_| Progress::Offline);
        send_changed(&mut watchers, &mut receipts);
        assert!(waiting(&mut watch).is_empty());
        assert_eq!(watchers.watch(Wanted::From(1), &mut receipts, 0).unwrap().kept.len(), 1);
        assert_eq!(watchers.watch(Wanted::Only(1), &mut receipts, 0).unwrap().kept.len(), 1);
        assert_eq!(watchers.watch(Wanted::New, &mut receipts, 0).unwrap().kept.len(), 0);
    }

    #[test]
    fn an_answer_is_sent_without_the_switches_that_have_not_answered() {
        let (mut receipts, mut watchers) = (Receipts::default(), Watchers::default());
        let (mut one, mut other) = (
            watchers.watch(Wanted::Only(1), &mut receipts, 0).unwrap(),
            watchers.watch(Wanted::Only(2), &mut receipts, 0).unwrap(),
        );
        receipts.add(receipt(1, 3000));
        send_changed(&mut watchers, &mut receipts);
        waiting(&mut one);
        receipts.confirm(1, "hv7", Instant::now());
        send_changed(&mut watchers, &mut receipts);
        let sent = waiting(&mut one);
        let Update::Progress { txn: 1, switches, complete: false } = &*sent[0] else { panic!("{sent:?}") };
        assert_eq!(switches.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["hv7"]);
        assert!(waiting(&mut other).is_empty());
    }

    #[test]
    fn a_receipt_that_somebody_waits_for_is_not_forgotten() {
        let (mut receipts, mut watchers) = (Receipts::default(), Watchers::default());
        (1..=2).for_each(|txn| receipts.add(receipt(txn, 1)));
        send_changed(&mut watchers, &mut receipts);
        let waits = watchers.watch(Wanted::Only(2), &mut receipts, 0).unwrap();
        for txn in 3..=4 {
            receipts.add(receipt(txn, 1_000_000));
            send_changed(&mut watchers, &mut receipts);
        }
        let kept = |receipts: &Receipts| receipts.since(0).map(|receipt| receipt.txn).collect::<Vec<_>>();
        assert_eq!(kept(&receipts), [2, 4]);
        drop(waits);
        send_changed(&mut watchers, &mut receipts);
        receipts.add(receipt(5, 1));
        send_changed(&mut watchers, &mut receipts);
        assert_eq!(kept(&receipts), [5]);
    }

    #[test]
    fn a_watcher_that_falls_behind_is_told_and_holds_little() {
        let (mut receipts, mut watchers) = (Receipts::default(), Watchers::default());
        let mut slow = watchers.watch(Wanted::New, &mut receipts, 0).unwrap();
        receipts.add(receipt(1, 3000));
        send_changed(&mut watchers, &mut receipts);
        for round in 0..100 {
            for number in 0..3000 {
                receipts.advance(1, &format!("hv{number}"), |_| Progress::Refused(format!("round {round}")));
            }
            send_changed(&mut watchers, &mut receipts);
        }
        assert!(watchers.0.is_empty(), "it is given up");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut bytes = 0;
            let end = loop {
                match slow.updates.recv().await {
                    Some((of_update, _)) => bytes += of_update,
                    None => break slow.next().await,
                }
            };
            assert_eq!(end.map(Result::unwrap_err), Some(WatchError::Behind));
            assert!(bytes <= QUEUE_BYTES_MAX, "{bytes} bytes waited");
        });
    }

    #[test]
    fn there_are_not_too_many_watchers() {
        let (mut receipts, mut watchers) = (Receipts::default(), Watchers::default());
        let all: Vec<_> =
            (0..WATCHERS_MAX).map(|_| watchers.watch(Wanted::New, &mut receipts, 0).unwrap()).collect();
        assert_eq!(watchers.watch(Wanted::From(1), &mut receipts, 0).unwrap_err(), WatchError::TooMany);
        assert!(watchers.watch(Wanted::Only(1), &mut receipts, 0).is_ok());
        drop(all);
        assert!(watchers.watch(Wanted::New, &mut receipts, 0).is_ok());
    }
}
