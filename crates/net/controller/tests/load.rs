//! A controller that is asked much at once: every request is answered, and nothing is lost.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use controller::Parts;
use weft_client::{Client, ClientError, pb};

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start, start_with, status_when, within};
use crate::support::*;
use nlog_data::{
    CommitError, Committed, Evaluator, Memories, Row, Schema, TableId, Transaction, TransactionError,
};
use switch_model::Event;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
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

    fn memories(&self) -> Memories {
        self.inner.memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.inner.restore(memories)
    }

    fn checkpoint(&mut self) {
        self.inner.checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.inner.undo(transaction)
    }
}

/// A controller whose transactions wait while its gate is closed, the gate, and the count of transactions begun.
async fn start_gated(folder: &Path) -> (Running, Arc<Mutex<()>>, Arc<AtomicUsize>) {
    let switches = Switches::default();
    let mut parts = parts(folder, rules(RULES), &switches);
    let (gate, begun) = add_gate(&mut parts);
    (start_with(parts, switches).await, gate, begun)
}

/// Makes transactions wait while a gate is closed. Returns the gate, and the count of transactions begun.
pub(crate) fn add_gate(parts: &mut Parts) -> (Arc<Mutex<()>>, Arc<AtomicUsize>) {
    let (gate, begun) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
    let (gate_there, begun_there) = (gate.clone(), begun.clone());
    parts.evaluator = Arc::new(move |rules| {
        let (inner, gate, begun) = (reference(rules), gate_there.clone(), begun_there.clone());
        Ok(Box::new(Gated { inner, gate, begun }))
    });
    (gate, begun)
}

/// A gate that is closed. A thread holds it, since a guard must not be kept over an await.
pub(crate) struct Closed {
    open: std::sync::mpsc::Sender<()>,
    holder: std::thread::JoinHandle<()>,
}

pub(crate) async fn close(gate: Arc<Mutex<()>>) -> Closed {
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let (closed, when_closed) = oneshot::channel();
    let holder = std::thread::spawn(move || {
        let _guard = gate.lock();
        let _ = closed.send(());
        let _ = opened.recv();
    });
    within(when_closed).await.expect("the holder runs");
    Closed { open, holder }
}

impl Closed {
    pub(crate) fn open(self) {
        self.open.send(()).expect("the holder runs");
        self.holder.join().expect("the holder does not panic");
    }
}

/// Applies a switch, and returns once the evaluator has begun with it. The gate must be closed.
async fn begin_slow(running: &Running, begun: &AtomicUsize) -> JoinHandle<Result<pb::Accepted, ClientError>> {
    let before = begun.load(Ordering::SeqCst);
    let mut client = running.client().await;
    let slow = tokio::spawn(async move { apply(&mut client, "{kind: switch, id: slow}").await });
    within(async {
        while begun.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    slow
}

/// A controller with a network that computes a slow transaction, which adds a switch, until its gate opens.
struct Computing {
    running: Running,
    client: Client,
    closed: Closed,
    slow: JoinHandle<Result<pb::Accepted, ClientError>>,
}

async fn start_computing(folder: &Path) -> Computing {
    let (running, gate, begun) = start_gated(folder).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap_or_else(|error| panic!("{error}"));
    let closed = close(gate).await;
    let slow = begin_slow(&running, &begun).await;
    Computing { running, client, closed, slow }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_waits_behind_a_slow_transaction_is_lost() {
    // More than one group.
    const COUNT: usize = 300;
    /// No more than a host may report at once.
    const REPORTS: u16 = 90;
    let folder = tempfile::tempdir().unwrap();
    let (running, gate, begun) = start_gated(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let closed = close(gate).await;
    let slow = begin_slow(&running, &begun).await;
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
    // Each report differs from the one before. Those that wait together are taken together: the last one counts.
    for number in 1..=REPORTS {
        let report = report(&[("blue-1", number)], &[]);
        within(running.switches.event("hv1", Event::Report(report))).await;
    }
    closed.open();

    within(slow).await.unwrap().unwrap();
    for (number, request) in requests.into_iter().enumerate() {
        let answer = within(request).await;
        assert!(matches!(answer, Ok(Ok(_))), "request {number}: {answer:?}");
    }
    let last = format!("output:{REPORTS}");
    within(async {
        loop {
            let listing = running.engine.list("hv1".to_owned()).await.unwrap().unwrap();
            if shown(&listing.desired).iter().any(|flow| flow.ends_with(&last)) {
                break;
            }
        }
    })
    .await;
    let status = client.status().await.unwrap();
    assert!(status.last_txn > 2 + COUNT as u64, "{status:?}");
    running.stop().await;
}

/// Reports of a switch that never end, each different from the one before, more than the engine can take.
fn flood(running: &Running) -> Vec<JoinHandle<()>> {
    let flood = |first: u16| {
        let switches = running.switches.clone();
        tokio::spawn(async move {
            for number in (first..).step_by(2) {
                let report = report(&[("blue-1", number % 60_000 + 1)], &[]);
                switches.event("hv1", Event::Report(report)).await;
            }
        })
    };
    (0..4).map(flood).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_and_a_stop_is_obeyed_while_reports_never_end() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let flood = flood(&running);
    status_when(&mut client, |status| status.last_txn > 100).await;
    let before = within(client.status()).await.unwrap().last_txn;
    let txn = within(apply(&mut client, "{kind: switch, id: green}")).await.unwrap().txn.unwrap();
    assert!(txn > before);
    assert_eq!(within(client.get("switch", Some("green"))).await.unwrap().len(), 1);
    assert!(flood.iter().all(|task| !task.is_finished()));
    running.stop().await;
    for task in flood {
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_does_not_wait_for_a_transaction_that_takes_long() {
    let folder = tempfile::tempdir().unwrap();
    let (running, gate, begun) = start_gated(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let switches = client.status().await.unwrap().objects["switch"];
    let closed = close(gate).await;
    let slow = begin_slow(&running, &begun).await;
    let status = within(client.status()).await.unwrap();
    assert_eq!((status.last_txn, status.objects["switch"], status.switches.len()), (1, switches, 2));
    assert!(!slow.is_finished());
    closed.open();
    // Whoever has an answer finds its effect in the status.
    within(slow).await.unwrap().unwrap();
    let status = within(client.status()).await.unwrap();
    assert_eq!((status.last_txn, status.objects["switch"]), (2, switches + 1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_the_status_says_what_a_transaction_is_that_takes_long() {
    let folder = tempfile::tempdir().unwrap();
    let Computing { running, mut client, closed, slow } = start_computing(folder.path()).await;
    let first = within(client.status()).await.unwrap().engine.expect("it is busy");
    assert_eq!((&*first.with, first.stalled), ("a transaction by test", false));
    status_when(&mut client, |status| {
        status
            .engine
            .as_ref()
            .is_some_and(|now| now.milliseconds > first.milliseconds && now.with == first.with)
    })
    .await;
    closed.open();
    within(slow).await.unwrap().unwrap();
    status_when(&mut client, |status| status.engine.is_none()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_request_whose_client_has_gone_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let Computing { running, mut client, closed, slow } = start_computing(folder.path()).await;
    // Polled once, it waits at the engine.
    let engine = running.engine.clone();
    let mut gone =
        Box::pin(async move { engine.apply(batch("{kind: switch, id: gone}"), "test".to_owned()).await });
    std::future::poll_fn(|context| {
        assert!(gone.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(gone);
    closed.open();
    within(slow).await.unwrap().unwrap();
    within(apply(&mut client, "{kind: switch, id: last}")).await.unwrap();
    let objects = client.get("switch", None).await.unwrap();
    let has = |id: &str| objects.iter().any(|object| object.contains(id));
    assert_eq!((has("slow"), has("gone"), has("last")), (true, false, true));
    running.stop().await;
}

/// Explanations wait here for a transaction, and hold what they need meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn d3_the_status_waits_for_no_explanation() {
    let folder = tempfile::tempdir().unwrap();
    let Computing { running, mut client, closed, slow } = start_computing(folder.path()).await;
    let mut asked = Vec::new();
    for connection in 0..10 {
        // Some of this connection, and some of others.
        let mut client = if connection < 3 { client.clone() } else { running.client().await };
        asked.push(tokio::spawn(async move {
            let about = pb::row_question::About::Flow(pb::HostFlow {
                node: "hv1".to_owned(),
                flow: "cookie=0x1".to_owned(),
            });
            let question = Some(pb::RowQuestion { about: Some(about) });
            client.explain(pb::ExplainRequest { question, ..Default::default() }).await
        }));
    }
    within(async {
        for _ in 0..200 {
            client.status().await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!slow.is_finished() && asked.iter().all(|asked| !asked.is_finished()));
    closed.open();
    within(slow).await.unwrap().unwrap();
    for asked in asked {
        // There is no such flow.
        within(asked).await.unwrap().unwrap_err();
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_no_transaction_before_the_switches_got_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    apply(&mut running.client().await, NETWORK).await.unwrap();
    let flood = flood(&running);
    // All transactions after the first are reports of this switch, and change its flows.
    within(async {
        loop {
            let shown = running.engine.status(&BTreeSet::new()).unwrap().last_txn;
            let pushed = running.switches.look("hv1", |switch| switch.pushed.last().copied());
            assert!(shown <= pushed.unwrap_or(1), "{shown} is shown, {pushed:?} was pushed");
            if shown > 100 {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.stop().await;
    for task in flood {
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_a_transaction_that_takes_long() {
    let folder = tempfile::tempdir().unwrap();
    let Computing { running, client: _client, closed, slow } = start_computing(folder.path()).await;
    running.stop().await;
    // Nobody says that it is accepted.
    let error = within(slow).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    closed.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_objects_are_read_while_a_transaction_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let Computing { running, mut client, closed, slow } = start_computing(folder.path()).await;
    // Questions that wait for the engine, of more connections than may ask at a time.
    let mut asked = Vec::new();
    for _ in 0..12 {
        let mut client = running.client().await;
        asked.push(tokio::spawn(async move { client.flows("hv1").await }));
    }
    let switches = within(client.get_with_states("switch", None)).await.unwrap();
    let ids: Vec<_> = switches.iter().map(|(text, state)| (&text[..], state.columns.is_empty())).collect();
    assert_eq!(ids.len(), 2, "the one that is computed is not there: {ids:?}");
    assert!(ids.iter().all(|(_, is_empty)| !is_empty), "{ids:?}");
    let odd = within(client.get("switch", Some("blue"))).await.unwrap();
    assert_eq!(odd.len(), 1);
    assert!(asked.iter().all(|asked| !asked.is_finished()));
    closed.open();
    for asked in asked {
        within(asked).await.unwrap().unwrap();
    }
    within(slow).await.unwrap().unwrap();
    assert_eq!(within(client.get("switch", None)).await.unwrap().len(), 3, "an answered request is seen");
    running.stop().await;
}
