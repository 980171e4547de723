//! The way to the engine thread: requests, questions and their answers, over queues.
//!
//! [`Engine`] is what everybody has, `Worker` the thread.

mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use nlog_data::CommitError;
use objects::{Batch, Cancel, ObjectKey};
use switch_model::{Desired, FlowKey};
use tokio::sync::{mpsc, oneshot, watch};
use weft_client::STOPPING;
use weft_core::core::{Refusal, StateForRules};
use weft_core::listings::{Asked, Counts, NoListing, ToRead};
use weft_core::logical_flows::LogicalFlows;
use weft_core::machine::{Change, Failed};
use weft_core::peer::Origin;
use weft_core::provenance::Provenance;
use weft_core::rules::Rules;
use weft_core::rules_versions::RulesVersions;
use weft_core::snapshot::Snapshot;
use weft_core::status::{Cursor, Following, Members, Page, Published, RevisionError, Seen, Status};
use weft_core::terms::Terms;
use weft_core::underlay::Measured;

use crate::activity::{Activity, Busy};
use crate::aside::CancelOnDrop;
use crate::config::Settings;
use crate::drivers::{Asking, Readings};
use crate::flow_counts::{Counted, Counting};
use crate::journal::JournalError;
use crate::metrics::{Metrics, Stored};
use crate::object_news::ObjectNews;
use crate::running_rules::RunningRules;
use crate::spans::{Spans, Traced};
use crate::watchers::{Wanted, Watch, WatchError};
pub use weft_core::machine::Applied;
pub use weft_core::status::PAGE;
pub(crate) use worker::{Saving, Worker, now};

/// The number of requests that may wait before senders wait too.
pub(crate) const REQUESTS_MAX: usize = 1024;

/// The desired state of a switch, and the rules behind it.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The flows, groups and ports.
    pub desired: Arc<Desired>,
    /// The rules, to be looked up by cookie.
    pub rules: Arc<Rules>,
    provenance: Provenance,
}

impl Listing {
    /// The fingerprint of the logical rule behind a flow that the physical rules only placed.
    pub fn origin(&self, key: &FlowKey) -> Option<u64> {
        self.provenance.logical_rule(key)
    }

    /// The ids of objects that a flow names: those that own it, and the datapath in its match.
    pub(crate) fn owners(&self, key: &FlowKey) -> Vec<String> {
        self.provenance.owners(key)
    }
}

/// The engine thread has ended, or is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{STOPPING}")]
pub struct Stopping;

/// Why the engine thread ended.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal cannot be written, and the state of its file is unknown.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The evaluator failed.
    #[error("{0}; restart the controller: the journal is intact")]
    Failed(#[from] Failed),
}

type Answer<T> = oneshot::Sender<T>;

/// What flows of switches have counted, not asked yet, by transport node.
pub(crate) type Countings = Vec<(String, Asking<Counts>)>;

/// A read-only request.
pub(crate) enum Query {
    List {
        node: String,
        answer: Answer<Option<Listing>>,
    },
    Logical {
        id: String,
        answer: Answer<Option<LogicalFlows>>,
    },
    Asked {
        listing: String,
        kind: Option<Arc<str>>,
        id: Option<String>,
        answer: Answer<Result<Asked, NoListing>>,
    },
    Counting {
        of: Counted,
        answer: Answer<Counting>,
    },
    Counts {
        to_read: BTreeMap<String, ToRead>,
        answer: Answer<Countings>,
    },
    TableFlows {
        tables: BTreeMap<String, BTreeSet<u8>>,
        answer: Answer<Readings>,
    },
    Snapshot {
        ids: Vec<String>,
        without: Option<Vec<ObjectKey>>,
        answer: Answer<Result<Snapshot, CommitError>>,
    },
    Tunnels {
        node: Option<String>,
        answer: Answer<Option<Vec<Measured>>>,
    },
    RulesVersions {
        answer: Answer<RulesVersions>,
    },
    StateForRules {
        answer: Answer<StateForRules>,
    },
    Stored {
        answer: Answer<Stored>,
    },
    Watch {
        wanted: Wanted,
        answer: Answer<Result<Watch, WatchError>>,
    },
}

impl Query {
    /// Whether somebody waits for the answer.
    fn is_wanted(&self) -> bool {
        let is_closed = match self {
            Query::List { answer, .. } => answer.is_closed(),
            Query::Logical { answer, .. } => answer.is_closed(),
            Query::Asked { answer, .. } => answer.is_closed(),
            Query::Counting { answer, .. } => answer.is_closed(),
            Query::Counts { answer, .. } => answer.is_closed(),
            Query::TableFlows { answer, .. } => answer.is_closed(),
            Query::Snapshot { answer, .. } => answer.is_closed(),
            Query::Tunnels { answer, .. } => answer.is_closed(),
            Query::RulesVersions { answer } => answer.is_closed(),
            Query::StateForRules { answer } => answer.is_closed(),
            Query::Stored { answer } => answer.is_closed(),
            Query::Watch { answer, .. } => answer.is_closed(),
        };
        !is_closed
    }
}

pub(crate) struct ChangeRequest {
    change: Change,
    terms: Terms,
    by: Origin,
    accepted: Instant,
    /// Whether nobody waits for the answer any more.
    gone: Cancel,
    /// The call, if its spans are wanted.
    traced: Option<Traced>,
    answer: Answer<Result<Applied, Refusal>>,
}

impl ChangeRequest {
    fn changes_rules(&self) -> bool {
        matches!(self.change, Change::Rules { .. })
    }
}

/// A handle that sends requests to the engine thread. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    changes: mpsc::Sender<ChangeRequest>,
    queries: mpsc::Sender<Query>,
    stop: watch::Sender<bool>,
    settings: watch::Sender<Settings>,
    rules: RunningRules,
    status: Published,
    activity: Activity,
    object_news: ObjectNews,
    metrics: Metrics,
}

/// The thread's end of the queues of all [`Engine`] handles.
pub(crate) struct Requests {
    changes: mpsc::Receiver<ChangeRequest>,
    queries: mpsc::Receiver<Query>,
    /// Not a queue: a stop takes effect no matter how many requests wait.
    stop: watch::Receiver<bool>,
    settings: watch::Receiver<Settings>,
    /// For readers that do not wait.
    pub(crate) rules: RunningRules,
    pub(crate) status: Published,
    pub(crate) activity: Activity,
    pub(crate) object_news: ObjectNews,
    pub(crate) metrics: Metrics,
    /// Makes the spans of traced calls.
    pub(crate) spans: Option<Spans>,
}

impl Engine {
    pub(crate) fn new(rules: RunningRules, settings: Settings) -> (Engine, Requests) {
        let (changes, changes_receiver) = mpsc::channel(REQUESTS_MAX);
        let (queries, queries_receiver) = mpsc::channel(REQUESTS_MAX);
        let (stop, stop_receiver) = watch::channel(false);
        let (settings, settings_receiver) = watch::channel(settings);
        let (status, activity) = (Published::default(), Activity::default());
        let (object_news, metrics) = (ObjectNews::default(), Metrics::new());
        let clock = metrics.clock().clone();
        activity.progress().observe(move |stage| clock.enter(stage));
        let requests = Requests {
            changes: changes_receiver,
            queries: queries_receiver,
            stop: stop_receiver,
            settings: settings_receiver,
            rules: rules.clone(),
            status: status.clone(),
            activity: activity.clone(),
            object_news: object_news.clone(),
            metrics: metrics.clone(),
            spans: None,
        };
        (Engine { changes, queries, stop, settings, rules, status, activity, object_news, metrics }, requests)
    }

    /// Takes other settings from the next request on.
    pub fn adjust(&self, settings: Settings) {
        self.settings.send_replace(settings);
    }

    /// Creates or replaces objects.
    pub async fn apply(
        &self,
        batch: Batch,
        by: impl Into<Origin>,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Apply(Box::new(batch)), Terms::default(), by.into()).await
    }

    /// Deletes objects.
    pub async fn delete(
        &self,
        keys: Vec<ObjectKey>,
        by: impl Into<Origin>,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Delete(keys.into_iter().map(Into::into).collect()), Terms::default(), by.into())
            .await
    }

    /// Changes objects on these terms.
    pub(crate) async fn change(
        &self,
        change: Change,
        terms: Terms,
        by: Origin,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        let (accepted, gone) = (Instant::now(), Cancel::default());
        let (answer, receiver) = oneshot::channel();
        // If this future is dropped, nobody waits for the transaction, and it need not be computed.
        let _gone = CancelOnDrop(gone.clone());
        let traced = Traced::current();
        let is_traced = traced.is_some();
        let request = ChangeRequest { change, terms, by, accepted, gone, traced, answer };
        self.changes.send(request).await.map_err(|_| Stopping)?;
        let result = receiver.await.map_err(|_| Stopping)?;
        if is_traced {
            Traced::result(&result);
        }
        Ok(result)
    }

    /// An object with its state after the last transaction that took effect, and the revision of the objects. Does not wait for a transaction
    /// that is being computed.
    pub(crate) fn object(&self, kind: &str, id: &str) -> Result<Option<(Arc<Seen>, u64)>, Stopping> {
        self.published().map(|published| published.object(kind, id))
    }

    /// Objects of a kind, likewise: see [`Published::page`].
    pub(crate) fn page(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
        selects: &dyn Fn(&Seen) -> bool,
    ) -> Result<Result<Page, RevisionError>, Stopping> {
        self.published().map(|published| published.page(kind, after, limit, at, selects))
    }

    /// Where a watch from this revision begins; without one, from now on.
    pub(crate) fn cursor(&self, from: Option<u64>) -> Result<Result<Cursor, RevisionError>, Stopping> {
        let published = self.published()?;
        Ok(published.cursor(from.unwrap_or_else(|| published.revision())))
    }

    /// What changed after a place: see [`Published::versions_after`].
    pub(crate) fn versions_after(
        &self,
        cursor: &Cursor,
        kinds: Option<&BTreeSet<Arc<str>>>,
        most: usize,
    ) -> Result<Result<Following, RevisionError>, Stopping> {
        self.published().map(|published| published.versions_after(cursor, kinds, most))
    }

    fn published(&self) -> Result<&Published, Stopping> {
        if self.queries.is_closed() { Err(Stopping) } else { Ok(&self.status) }
    }

    /// The rules that run.
    pub(crate) fn rules(&self) -> &RunningRules {
        &self.rules
    }

    /// The last versions of the rules.
    pub(crate) async fn rules_versions(&self) -> Result<RulesVersions, Stopping> {
        self.ask(|answer| Query::RulesVersions { answer }).await
    }

    /// The present state, to derive the rows of other rules of it.
    pub(crate) async fn state_for_rules(&self) -> Result<StateForRules, Stopping> {
        self.ask(|answer| Query::StateForRules { answer }).await
    }

    /// What wakes whoever waits for changes of objects.
    pub(crate) fn object_news(&self) -> &ObjectNews {
        &self.object_news
    }

    /// The desired state of a transport node's switch; `None` if the node does not exist.
    pub async fn list(&self, node: String) -> Result<Option<Listing>, Stopping> {
        self.ask(|answer| Query::List { node, answer }).await
    }

    /// The universal flows of a datapath; `None` if no object that owns such flows has this id.
    pub(crate) async fn logical_flows(&self, id: String) -> Result<Option<LogicalFlows>, Stopping> {
        self.ask(|answer| Query::Logical { id, answer }).await
    }

    /// A question that the rules declare, to be answered by whoever wants to know.
    pub(crate) async fn asked(
        &self,
        listing: String,
        kind: Option<Arc<str>>,
        id: Option<String>,
    ) -> Result<Result<Asked, NoListing>, Stopping> {
        self.ask(|answer| Query::Asked { listing, kind, id, answer }).await
    }

    /// What tells the flows that have counted what somebody wants to know.
    pub(crate) async fn counting(&self, of: Counted) -> Result<Counting, Stopping> {
        self.ask(|answer| Query::Counting { of, answer }).await
    }

    /// The question what these flows and meters of switches have counted, to be asked by whoever wants to know.
    pub(crate) async fn counts(&self, to_read: BTreeMap<String, ToRead>) -> Result<Countings, Stopping> {
        self.ask(|answer| Query::Counts { to_read, answer }).await
    }

    /// The network around objects with these ids. If a change is to be tried out, `without` is what it deletes.
    pub(crate) async fn snapshot(
        &self,
        ids: Vec<String>,
        without: Option<Vec<ObjectKey>>,
    ) -> Result<Result<Snapshot, CommitError>, Stopping> {
        self.ask(|answer| Query::Snapshot { ids, without, answer }).await
    }

    /// The question which flows tables of switches have, to be asked by whoever wants to know.
    pub(crate) async fn table_flows(
        &self,
        tables: BTreeMap<String, BTreeSet<u8>>,
    ) -> Result<Readings, Stopping> {
        self.ask(|answer| Query::TableFlows { tables, answer }).await
    }

    /// What was measured of the tunnels of a transport node, or of all tunnels; `None` if the node does not exist.
    pub(crate) async fn tunnels(&self, node: Option<String>) -> Result<Option<Vec<Measured>>, Stopping> {
        self.ask(|answer| Query::Tunnels { node, answer }).await
    }

    /// The status of the controller, with all switches and problems. If nodes are given, only their switches and no
    /// problems. Does not wait for a transaction that is being computed.
    pub fn status(&self, nodes: &BTreeSet<String>) -> Result<Status, Stopping> {
        if self.queries.is_closed() { Err(Stopping) } else { Ok(self.status.read(nodes)) }
    }

    /// One of the tenants that objects name, or all, each with its members.
    pub fn tenants(&self, of: Option<&str>) -> Vec<(Arc<str>, Members)> {
        self.status.tenants(of)
    }

    /// What the engine thread is doing; `None` while it waits for work. Does not wait for it.
    pub fn busy(&self) -> Option<Busy> {
        self.activity.read()
    }

    /// What counts what happens.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The rows that the engine has stored, once it has time to say.
    pub(crate) async fn stored(&self) -> Result<Stored, Stopping> {
        self.ask(|answer| Query::Stored { answer }).await
    }

    /// The numbers of changes and of questions that wait for the engine.
    pub(crate) fn waiting(&self) -> [usize; 2] {
        [REQUESTS_MAX - self.changes.capacity(), REQUESTS_MAX - self.queries.capacity()]
    }

    /// Whether the engine is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// What the engine thread is doing, for who watches it.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Receipts: the stored ones, and later updates.
    pub async fn watch(&self, wanted: Wanted) -> Result<Result<Watch, WatchError>, Stopping> {
        self.ask(|answer| Query::Watch { wanted, answer }).await
    }

    /// Ends the thread after the current group of requests. Waiting requests get [`Stopping`].
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn ask<T>(&self, query: impl FnOnce(Answer<T>) -> Query) -> Result<T, Stopping> {
        let (answer, receiver) = oneshot::channel();
        self.queries.send(query(answer)).await.map_err(|_| Stopping)?;
        receiver.await.map_err(|_| Stopping)
    }
}
