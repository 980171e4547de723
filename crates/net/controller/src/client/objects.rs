//! The calls that read objects: once, or as they change.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Deserialize;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Status, Streaming};

use super::{ANSWER_MAX, Client, ClientError, within};
use crate::pb;

/// The time between two attempts of a watch to list the objects again.
const RETRY: Duration = Duration::from_millis(250);

/// An object as canonical JSON, and its state.
pub type Seen = (String, pb::ObjectState);

/// Which objects of a kind are meant.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The kind.
    pub kind: String,
    /// Conditions on labels: `KEY=VALUE`, `KEY!=VALUE` or `KEY`.
    pub labels: Vec<String>,
    /// Conditions on fields: `FIELD=VALUE` or `FIELD!=VALUE`. `*=ADDRESS` is an address in any field.
    pub fields: Vec<String>,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Watched {
    /// The objects at the beginning, in order of their ids.
    Listed(Vec<Seen>),
    /// A change of an object since then. A deleted object comes with its last state.
    Happened(pb::Happened, Seen),
    /// Why the watch was interrupted. It lists the objects again, and tells what happened to them meanwhile, once for each.
    Interrupted(String),
}

/// Objects that are listed, and then watched. Nothing that happens to them is lost or told twice.
#[derive(Debug)]
pub struct Watching {
    client: Client,
    selection: Selection,
    /// The objects as they were told, by their ids. None before the list.
    known: Option<BTreeMap<String, Seen>>,
    /// What is to be told next.
    ready: VecDeque<Watched>,
    /// What changes after the last list.
    changes: Option<Streaming<pb::WatchResponse>>,
    /// Whether an interruption was told, and nothing has come since.
    is_interrupted: bool,
}

/// The part of an object that tells it from others of its kind.
#[derive(Deserialize)]
struct Identified {
    id: String,
}

impl Client {
    /// The objects of a kind, or one of them, as canonical JSON, ordered by id.
    pub async fn get(&mut self, kind: &str, id: Option<&str>) -> Result<Vec<String>, ClientError> {
        let found = self.get_with_states(kind, id).await?;
        Ok(found.into_iter().map(|(object, _)| object).collect())
    }

    /// The objects as in [`get`](Client::get), each with its state.
    pub async fn get_with_states(&mut self, kind: &str, id: Option<&str>) -> Result<Vec<Seen>, ClientError> {
        let id = id.map(ToOwned::to_owned);
        Ok(self.read(pb::GetRequest { kind: kind.to_owned(), id, ..Default::default() }).await?.0)
    }

    /// The selected objects with their states, ordered by id.
    pub async fn select(&mut self, selection: &Selection) -> Result<Vec<Seen>, ClientError> {
        Ok(self.list(selection).await?.0)
    }

    /// The selected objects, and then what happens to them. A watch that is interrupted, by a restart of the controller for example,
    /// lists the objects again.
    #[must_use]
    pub fn watch(&self, selection: Selection) -> Watching {
        Watching {
            client: self.clone(),
            selection,
            known: None,
            ready: VecDeque::new(),
            changes: None,
            is_interrupted: false,
        }
    }

    /// What happens to objects of all kinds from now on, until the controller ends it.
    pub async fn watch_all(
        &mut self,
    ) -> Result<impl Stream<Item = Result<pb::WatchResponse, ClientError>> + use<>, ClientError> {
        let request = pb::WatchRequest::default();
        let changes = within(ANSWER_MAX, self.inner.watch(request)).await;
        let client = self.clone();
        let changes = changes.map_err(|status| self.failed(status))?.into_inner();
        Ok(changes.map(move |message| message.map_err(|status| client.failed(status))))
    }

    /// The selected objects, and the revision that shows them so.
    async fn list(&mut self, selection: &Selection) -> Result<(Vec<Seen>, u64), ClientError> {
        let Selection { kind, labels, fields } = selection.clone();
        self.read(pb::GetRequest { kind, labels, fields, ..Default::default() }).await
    }

    async fn read(&mut self, request: pb::GetRequest) -> Result<(Vec<Seen>, u64), ClientError> {
        let stream =
            within(ANSWER_MAX, self.inner.get(request)).await.map_err(|status| self.failed(status))?;
        let mut messages = stream.into_inner();
        let (mut objects, mut revision) = (Vec::new(), 0);
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            objects.extend(message.objects.into_iter().zip(message.states));
            revision = message.revision;
        }
        Ok((objects, revision))
    }
}

impl Watching {
    /// What is to be told next; waits for it. An error ends the watch: the list failed, or the controller does not know the kind (any more).
    pub async fn next(&mut self) -> Result<Watched, ClientError> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(next);
            }
            let Some(changes) = &mut self.changes else {
                self.begin().await?;
                continue;
            };
            // A controller that has nothing to tell says that every 10 seconds.
            match within(ANSWER_MAX, changes.message()).await {
                Ok(Some(message)) => self.take(message)?,
                Ok(None) => self.interrupted("the controller ended the watch".to_owned()),
                Err(status) => self.failed(status)?,
            }
        }
    }

    /// Lists the objects, and watches what changes after that.
    async fn begin(&mut self) -> Result<(), ClientError> {
        if self.known.is_some() {
            tokio::time::sleep(RETRY).await;
        }
        let (objects, revision) = match self.client.list(&self.selection).await {
            Ok(list) => list,
            Err(error) if self.known.is_none() || matches!(error, ClientError::NotFound(_)) => {
                return Err(error);
            }
            Err(_) => return Ok(()),
        };
        self.listed(objects)?;
        let Selection { kind, labels, fields } = self.selection.clone();
        let request = pb::WatchRequest { kinds: vec![kind], labels, fields, from: Some(revision) };
        match within(ANSWER_MAX, self.client.inner.watch(request)).await {
            Ok(changes) => self.changes = Some(changes.into_inner()),
            Err(status) => self.failed(status)?,
        }
        Ok(())
    }

    /// Tells the list, or how it differs from what was told before.
    fn listed(&mut self, objects: Vec<Seen>) -> Result<(), ClientError> {
        let mut list = BTreeMap::new();
        for seen in &objects {
            list.insert(self.id(&seen.0)?, seen.clone());
        }
        let Some(known) = &self.known else {
            self.known = Some(list);
            self.ready.push_back(Watched::Listed(objects));
            return Ok(());
        };
        let gone = known.iter().filter(|(id, _)| !list.contains_key(*id));
        let gone: Vec<(String, Seen)> = gone.map(|(id, seen)| (id.clone(), seen.clone())).collect();
        for (id, seen) in gone {
            self.happened(pb::Happened::Deleted, id, seen);
        }
        for (id, seen) in list {
            self.happened(pb::Happened::Updated, id, seen);
        }
        Ok(())
    }

    fn take(&mut self, message: pb::WatchResponse) -> Result<(), ClientError> {
        self.is_interrupted = false;
        for event in message.events {
            let (happened, id) = (event.happened(), self.id(&event.object)?);
            self.happened(happened, id, (event.object, event.state.unwrap_or_default()));
        }
        Ok(())
    }

    /// Reports a change of an object, unless it was reported already.
    fn happened(&mut self, happened: pb::Happened, id: String, seen: Seen) {
        let known = self.known.get_or_insert_default();
        let happened = match (known.get(&id), happened) {
            (None, pb::Happened::Deleted) => return,
            (Some(_), pb::Happened::Deleted) => pb::Happened::Deleted,
            (Some(told), _) if *told == seen => return,
            (Some(_), _) => pb::Happened::Updated,
            (None, _) => pb::Happened::Created,
        };
        if happened == pb::Happened::Deleted {
            known.remove(&id);
        } else {
            known.insert(id, seen.clone());
        }
        self.ready.push_back(Watched::Happened(happened, seen));
    }

    /// The watch failed: it begins again, unless it would fail again.
    fn failed(&mut self, status: Status) -> Result<(), ClientError> {
        let why = match status.code() {
            // What the controller says is for programs that have to list the objects by themselves.
            Code::OutOfRange | Code::DataLoss => "it fell behind the controller".to_owned(),
            _ => match self.client.failed(status) {
                error @ ClientError::NotFound(_) => return Err(error),
                error => error.to_string(),
            },
        };
        self.interrupted(why);
        Ok(())
    }

    fn interrupted(&mut self, why: String) {
        self.changes = None;
        // Repeated refusals are reported once.
        if !std::mem::replace(&mut self.is_interrupted, true) {
            self.ready.push_back(Watched::Interrupted(why));
        }
    }

    fn id(&self, object: &str) -> Result<String, ClientError> {
        let read = serde_json::from_str::<Identified>(object);
        Ok(read.map_err(|error| self.client.failed(Status::internal(error.to_string())))?.id)
    }
}
