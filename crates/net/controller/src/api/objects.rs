//! The calls that read objects: once, in pages, or as they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nlog_data::quotation::{cut, quote_text};
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use weft_core::status::{Cursor, Page, RevisionError, Seen, Version};

use super::selector::{STATE, Selector};
use super::viewer::Viewer;
use super::{Api, account, stopping};
use weft_client::pb;

use crate::answers::{PartSender, Results, Turns, parts};
use crate::engine::PAGE;
use crate::listener::Account;

/// The bytes of objects in one message of a stream. An object that is larger has a message of its own.
const OBJECTS_BYTES: usize = 256 << 10;
/// The most events of one message.
const EVENTS_MAX: usize = 256;
/// The interval of bookmarks while nothing changes. It is shorter than the silence after which a connection is closed.
const BOOKMARK: Duration = Duration::from_secs(10);

impl Api {
    pub(super) async fn get_objects(
        &self,
        request: Request<pb::GetRequest>,
    ) -> Result<Response<Results<pb::GetResponse>>, Status> {
        let account = account(request.extensions());
        let viewer = Viewer::of(&self.engine, request.extensions());
        let pb::GetRequest { kind, id, labels, fields, limit, r#continue } = request.into_inner();
        let kind = self.kind(&kind)?;
        let rules = self.rules();
        let declared = rules.kinds().find(&kind).map_err(|error| Status::internal(error.to_string()))?;
        let selector = Selector::read(declared, &labels, &fields)?;
        if let Some(id) = id {
            if !selector.is_all() || limit > 0 || !r#continue.is_empty() {
                return Err(Status::invalid_argument("a request for one object selects by its id alone"));
            }
            let turn = self.turns.next(&account).await?;
            let found = self.engine.object(&kind, &id).map_err(stopping)?;
            let Some((seen, revision)) = found.filter(|(seen, _)| viewer.sees(seen)) else {
                return Err(Status::not_found(format!("{kind} {} does not exist", cut(&id))));
            };
            let mut message = pb::GetResponse { revision, ..pb::GetResponse::default() };
            add(&mut message, &seen, &viewer);
            let answer = tokio_stream::once(Ok(message));
            return Ok(turn.until_encoded(Box::pin(answer)));
        }
        let (at, after) = Place::read(&r#continue)?;
        let left = if limit == 0 { usize::MAX } else { limit as usize };
        let list = List { kind, selector, viewer, at, after, left };
        let (sender, parts) = parts(account.clone());
        let turns = self.turns.clone();
        tokio::spawn(async move {
            if let Err(status) = list.send(&turns, &account, &sender).await {
                sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(parts)))
    }

    pub(super) async fn watch_objects(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Results<pb::WatchResponse>>, Status> {
        let account = account(request.extensions());
        let viewer = Viewer::of(&self.engine, request.extensions());
        account.room().await?;
        let pb::WatchRequest { kinds, labels, fields, from } = request.into_inner();
        let kinds = kinds.iter().map(|kind| self.kind(kind)).collect::<Result<BTreeSet<_>, Status>>()?;
        let rules = self.rules();
        let single = kinds.first().filter(|_| kinds.len() == 1).and_then(|kind| rules.kinds().get(kind));
        let selector = match single {
            Some(kind) => Selector::read(kind, &labels, &fields)?,
            None if fields.is_empty() => Selector::of_labels(&labels)?,
            None => {
                return Err(Status::invalid_argument("`fields` are those of one kind: give a single kind"));
            }
        };
        let cursor = self.engine.cursor(from).map_err(stopping)?.map_err(no_revision)?;
        let kinds = (!kinds.is_empty()).then_some(kinds);
        let (sender, parts) = parts(account);
        let watch = Watch { viewer, kinds, selector, cursor };
        tokio::spawn(async move {
            if let Err(status) = watch.send(&sender).await {
                sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(parts)))
    }
}

fn no_revision(error: RevisionError) -> Status {
    Status::out_of_range(error.to_string())
}

/// Where a list continues: the revision that it shows, and the last object of the page before.
struct Place;

impl Place {
    fn write(revision: u64, id: &str) -> String {
        format!("{revision}:{id}")
    }

    fn read(text: &str) -> Result<(Option<u64>, Option<Arc<str>>), Status> {
        if text.is_empty() {
            return Ok((None, None));
        }
        let place = text.split_once(':').and_then(|(revision, id)| Some((revision.parse().ok()?, id)));
        let (revision, id) = place.ok_or_else(|| {
            let text = quote_text(&cut(text));
            Status::invalid_argument(format!("{text} is not what a list gives as `continue`"))
        })?;
        Ok((Some(revision), Some(id.into())))
    }
}

/// What is to be listed.
struct List {
    kind: Arc<str>,
    selector: Selector,
    viewer: Viewer,
    /// The revision that the list shows, once it has begun.
    at: Option<u64>,
    after: Option<Arc<str>>,
    /// The number of further objects.
    left: usize,
}

impl List {
    /// Sends the objects, until the client has gone or does not read.
    async fn send(
        mut self,
        turns: &Turns,
        account: &Account,
        sender: &PartSender<pb::GetResponse>,
    ) -> Result<(), Status> {
        loop {
            let turn = turns.next(account).await?;
            let List { kind, viewer, at, after, left, .. } = &self;
            let (limit, selects) = ((*left).min(PAGE), |seen: &Seen| self.selects(seen));
            let page = viewer.engine().page(kind, after.as_deref(), limit, *at, &selects);
            let mut page = page.map_err(stopping)?.map_err(no_revision)?;
            if viewer.is_limited() && page.objects.len() == *left {
                // That objects of others follow is nothing that a tenant may learn.
                self.end_with_own(&mut page)?;
            }
            let _charge = account.charge(page.objects.len() * size_of::<Seen>());
            drop(turn);
            self.left -= page.objects.len();
            let is_last = page.next.is_none() || self.left == 0;
            let mut objects = page.objects.iter();
            loop {
                let turn = turns.next(account).await?;
                let mut message = message_of(&mut objects, &self.viewer);
                let is_end = objects.len() == 0;
                if is_end && is_last {
                    message.revision = page.revision;
                    message.r#continue =
                        page.next.as_ref().map(|id| Place::write(page.revision, id)).unwrap_or_default();
                }
                let is_needed = !message.objects.is_empty() || message.revision > 0;
                if is_needed && sender.send_made(Ok(message), Some(turn)).await.is_none() {
                    return Ok(());
                }
                if is_end {
                    break;
                }
            }
            if is_last {
                return Ok(());
            }
            (self.at, self.after) = (Some(page.revision), page.next);
        }
    }

    /// Whether an object is in the list.
    fn selects(&self, seen: &Seen) -> bool {
        self.viewer.sees(seen) && selects(&self.selector, seen)
    }

    /// Makes a page the last one unless an object that is in the list follows.
    fn end_with_own(&self, page: &mut Page) -> Result<(), Status> {
        let selects = |seen: &Seen| self.selects(seen);
        let mut after = page.next.clone();
        while let Some(id) = after {
            let next = self.viewer.engine().page(&self.kind, Some(&id), 1, Some(page.revision), &selects);
            let next = next.map_err(stopping)?.map_err(no_revision)?;
            if !next.objects.is_empty() {
                return Ok(());
            }
            after = next.next;
        }
        page.next = None;
        Ok(())
    }
}

/// Whether a selector means an object with its state.
fn selects(selector: &Selector, seen: &Seen) -> bool {
    selector.means(seen.object(), || {
        let mut state = seen.state();
        let problems: Vec<&str> = seen.problems().iter().map(|problem| problem.text.as_str()).collect();
        state.insert("problems".to_owned(), problems.into());
        debug_assert!(!state.contains_key(STATE));
        state
    })
}

/// A message with the next objects, as many as fit.
fn message_of(objects: &mut std::slice::Iter<'_, Arc<Seen>>, viewer: &Viewer) -> pb::GetResponse {
    let (mut message, mut bytes) = (pb::GetResponse::default(), 0);
    while bytes < OBJECTS_BYTES
        && let Some(seen) = objects.next()
    {
        bytes += add(&mut message, seen, viewer);
    }
    message
}

/// Adds an object to a message. Returns the bytes of its document.
fn add(message: &mut pb::GetResponse, seen: &Seen, viewer: &Viewer) -> usize {
    let (object, state) = (seen.object().to_json(), viewer.state(seen));
    let bytes = object.len();
    message.objects.push(object);
    message.states.push(state);
    bytes
}

/// A client that follows what changes.
struct Watch {
    viewer: Viewer,
    kinds: Option<BTreeSet<Arc<str>>>,
    selector: Selector,
    cursor: Cursor,
}

impl Watch {
    /// Sends what changes until the client has gone or falls behind, or the controller ends. The first message says where the watch begins.
    async fn send(mut self, sender: &PartSender<pb::WatchResponse>) -> Result<(), Status> {
        let news = self.viewer.engine().object_news().subscribe(self.kinds.clone());
        let mut bookmark_at = Instant::now();
        // The revision of which the client has a part.
        let mut amid: Option<u64> = None;
        loop {
            let following =
                self.viewer.engine().versions_after(&self.cursor, self.kinds.as_ref(), EVENTS_MAX);
            let following = following.map_err(stopping)?.map_err(no_revision)?;
            self.cursor = following.cursor;
            let revision = self.cursor.revision();
            let (whole, part) = following
                .versions
                .split_at(following.versions.partition_point(|version| version.revision <= revision));
            let is_due = match amid {
                Some(amid) => revision >= amid,
                None => Instant::now() >= bookmark_at && !following.has_more,
            };
            match self.send_all(whole, revision, is_due, sender).await {
                Some(true) => (bookmark_at, amid) = (Instant::now() + BOOKMARK, None),
                Some(false) => {}
                None => return Ok(()),
            }
            // What comes before the end of a revision is no place to go on from, and no list shows it.
            match self.send_all(part, 0, false, sender).await {
                Some(true) => amid = part.last().map(|version| version.revision),
                Some(false) => {}
                None => return Ok(()),
            }
            if following.has_more {
                continue;
            }
            tokio::select! {
                () = sender.closed() => return Ok(()),
                () = news.changed() => {}
                () = tokio::time::sleep_until(bookmark_at) => {}
            }
        }
    }

    /// Sends events of versions, and with the last one or if that is due, how far the watch is; 0 says nothing of it. Returns whether anything was
    /// sent; `None` if the client has gone or does not read.
    async fn send_all(
        &self,
        versions: &[Arc<Version>],
        revision: u64,
        is_due: bool,
        sender: &PartSender<pb::WatchResponse>,
    ) -> Option<bool> {
        let (mut versions, mut is_sent) = (versions.iter(), false);
        loop {
            let events = self.events(&mut versions);
            let is_end = versions.len() == 0;
            let revision = if is_end { revision } else { 0 };
            if !events.is_empty() || revision > 0 && (is_due || is_sent) {
                sender.send(Ok(pb::WatchResponse { events, revision })).await?;
                is_sent = true;
            }
            if is_end {
                return Some(is_sent);
            }
        }
    }

    /// The next events, as many as fit into a message.
    fn events(&self, versions: &mut std::slice::Iter<'_, Arc<Version>>) -> Vec<pb::ObjectEvent> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < OBJECTS_BYTES
            && let Some(version) = versions.next()
        {
            let Some(event) = self.event(version) else { continue };
            bytes += event.object.len();
            events.push(event);
        }
        events
    }

    /// What a version is to this watcher.
    fn event(&self, version: &Version) -> Option<pb::ObjectEvent> {
        let selected = |seen: &Option<Arc<Seen>>| {
            let seen = seen.as_ref().filter(|seen| self.viewer.sees(seen));
            seen.filter(|seen| self.selector.is_all() || selects(&self.selector, seen)).cloned()
        };
        let (happened, seen) = match (selected(&version.before), selected(&version.after)) {
            (None, Some(after)) => (pb::Happened::Created, after),
            (Some(_), Some(after)) => (pb::Happened::Updated, after),
            (Some(before), None) => (pb::Happened::Deleted, before),
            (None, None) => return None,
        };
        let (object, state) = (seen.object().to_json(), Some(self.viewer.state(&seen)));
        Some(pb::ObjectEvent { happened: happened.into(), object, state })
    }
}
