//! A controller that is asked much at once: every request is answered, and nothing is lost.

use std::future::Future as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, start_with, status_when, within};
use crate::support::*;
use nlog_data::{CommitError, Committed, Evaluator, Row, Schema, TableId, Transaction, TransactionError};
use ovs_driver::Event;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_each_a_transaction_with_a_receipt_of_its_own() {
    const COUNT: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let tasks: Vec<_> = (0..COUNT)
        .map(|number| {
            let mut client = client.clone();
            tokio::spawn(async move {
                let object = format!(r#"{{"kind":"switch_port","id":"p{number}","switch":"blue"}}"#);
                client.apply_objects(vec![object], "test").await.unwrap().txn.unwrap()
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.push(within(task).await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=COUNT as u64 + 1).collect::<Vec<_>>());
    let mut receipts = Box::pin(client.receipts(Some(2)).await.unwrap());
    for number in numbers {
        let receipt = within(receipts.next()).await.unwrap().unwrap();
        assert_eq!((receipt.txn, receipt.switches.len()), (number, 2));
    }
    running.stop().await;
    assert_eq!(
        std::fs::read_to_string(folder.path().join("state/journal.jsonl")).unwrap().lines().count(),
        COUNT + 1
    );
}

/// An evaluator whose commits wait for a gate to open.
struct Gated {
    inner: Box<dyn Evaluator>,
    gate: Arc<Mutex<()>>,
    /// Commits begun.
    begun: Arc<AtomicUsize>,
}

impl Evaluator for Gated {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock());
        self.inner.commit(transaction)
    }

    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.inner.check(transaction)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.inner.contents(table)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_waits_behind_a_slow_transaction_is_lost() {
    const COUNT: usize = 700;
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    let rules = rules(RULES);
    let mut parts = parts(folder.path(), rules.clone(), &switches);
    let (gate, begun) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
    let (for_thread, gate_there, begun_there) = (rules.clone(), gate.clone(), begun.clone());
    parts.evaluator = Box::new(move || {
        let inner = reference(&for_thread);
        Ok(Box::new(Gated { inner, gate: gate_there, begun: begun_there }))
    });
    let running = start_with(parts, switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let commits = begun.load(Ordering::SeqCst);
    let wanted = 2 + 2 * COUNT as u64;

    // The gate is held in a thread, since a guard must not be kept over an await.
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let (closed, when_closed) = oneshot::channel();
    let holder = std::thread::spawn(move || {
        let _guard = gate.lock();
        let _ = closed.send(());
        let _ = opened.recv();
    });
    within(when_closed).await.unwrap();
    let slow = tokio::spawn({
        let engine = running.engine.clone();
        async move { engine.apply(batch("{kind: switch, id: slow}"), "test".to_owned()).await }
    });
    within(async {
        while begun.load(Ordering::SeqCst) == commits {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Polled once, a request waits at the engine.
    let mut requests = Vec::new();
    for number in 0..COUNT {
        let text = format!("{{kind: switch_port, id: p{number}, switch: blue}}");
        let engine = running.engine.clone();
        let mut request = Box::pin(async move { engine.apply(batch(&text), "test".to_owned()).await });
        std::future::poll_fn(|context| {
            assert!(request.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
        requests.push(request);
    }
    // Each report differs from the one before, so that each is a transaction.
    for number in 1..=COUNT as u16 {
        let report = report(&[("blue-1", number)], &[]);
        within(running.switches.event("hv1", Event::Report(report))).await;
    }
    open.send(()).unwrap();
    holder.join().unwrap();

    within(slow).await.unwrap().unwrap().unwrap();
    for (number, request) in requests.into_iter().enumerate() {
        let answer = within(request).await;
        assert!(matches!(answer, Ok(Ok(_))), "request {number}: {answer:?}");
    }
    status_when(&mut client, |status| status.last_txn == wanted).await;
    running.stop().await;
}
