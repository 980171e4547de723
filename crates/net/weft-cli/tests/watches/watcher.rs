//! A client that has a list and follows what changes.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::AddAssign;
use std::sync::Arc;

use serde_json::Value as Json;
use test_random::Random;

use super::Round;
use crate::support::web::Events;

/// The objects that a watcher follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// All switches.
    All,
    /// Those with a label that comes and goes.
    Labelled,
    /// Groups of ports, which writers leave alone.
    Groups,
}

impl Selection {
    /// The path of its list, to which more parameters can be added.
    pub(super) fn path(self) -> &'static str {
        match self {
            Selection::All => "/v1/switches?",
            Selection::Labelled => "/v1/switches?label=app=web&",
            Selection::Groups => "/v1/port_groups?",
        }
    }
}

/// Objects by id, with their revision and state.
type List = BTreeMap<String, Json>;

/// How often things happened to watchers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) events: usize,
    /// What was added up was compared with a list.
    pub(super) compared: usize,
    /// It went on from a bookmark.
    pub(super) resumed: usize,
    /// The stream broke.
    pub(super) broken: usize,
    /// The bookmark was too old to go on from.
    pub(super) too_old: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.events += other.events;
        self.compared += other.compared;
        self.resumed += other.resumed;
        self.broken += other.broken;
        self.too_old += other.too_old;
    }
}

/// A watcher.
pub(super) struct Watcher {
    round: Arc<Round>,
    selection: Selection,
    random: Random,
    /// What it has added up.
    known: List,
    /// Whether it is what there was at some moment in which nobody was in the midst of a change. Otherwise, events may come again.
    is_exact: bool,
    /// The revision up to which it is complete, and what it was then.
    bookmark: Option<(u64, List)>,
    counts: Counts,
}

fn id(object: &Json) -> String {
    object["id"].as_str().unwrap_or_else(|| panic!("{object}")).to_owned()
}

impl Watcher {
    pub(super) fn new(round: Arc<Round>, selection: Selection, random: Random) -> Watcher {
        let (known, counts) = Default::default();
        Watcher { round, selection, random, known, is_exact: false, bookmark: None, counts }
    }

    /// Follows what changes until the round is over, and then up to its end.
    pub(super) async fn run(mut self) -> Counts {
        while !self.round.is_over() {
            if let Some(mut events) = self.open().await {
                let mut left = if self.random.chance(80) { self.random.below(100) } else { u64::MAX };
                let mut over = self.round.is_over.clone();
                while left > 0 {
                    left -= 1;
                    let event = tokio::select! {
                        event = events.next() => event,
                        _ = over.wait_for(|is_over| *is_over) => break,
                    };
                    let Ok(event) = event else {
                        self.counts.broken += 1;
                        break;
                    };
                    self.take(&event).await;
                }
            }
        }
        loop {
            let Some(mut events) = self.open().await else { continue };
            loop {
                let event = events.next().await.expect("nobody disturbs it any more");
                self.take(&event).await;
                if event["type"] != "bookmark" {
                    continue;
                }
                let (now, list) = self.list(None).await.expect("the controller is there");
                if event["revision"] == now {
                    self.is_as(&list, now);
                    return self.counts;
                }
            }
        }
    }

    /// Begins to watch, reads nothing until this is done, and then reads until the controller cuts it off.
    pub(super) async fn stalls_while(&mut self, done: impl Future<Output = ()>) {
        let mut events = loop {
            if let Some(events) = self.open().await {
                break events;
            }
        };
        done.await;
        while let Ok(event) = events.next().await {
            self.take(&event).await;
        }
        self.counts.broken += 1;
    }

    /// Opens a stream: after the last bookmark, or after a new list. `None` if that has to be tried again.
    async fn open(&mut self) -> Option<Events> {
        if self.bookmark.is_none() {
            let most = if self.selection == Selection::Groups { 5000 } else { 100 };
            let limit = self.random.chance(50).then(|| most / 10 + self.random.below(most));
            self.bookmark = Some(self.list(limit).await?);
            (self.is_exact, self.known) = (true, self.bookmark.as_ref()?.1.clone());
        } else {
            self.counts.resumed += 1;
        }
        let (revision, list) = self.bookmark.as_ref()?;
        // A client may go back to what it had at the bookmark, or take what comes again for the state of the objects.
        if self.random.chance(50) {
            (self.is_exact, self.known) = (true, list.clone());
        } else {
            self.is_exact = self.known == *list;
        }
        let path = self.selection.path();
        let (path, headers) = if self.random.chance(50) {
            (format!("{path}watch=true&from={revision}"), vec![])
        } else {
            let headers =
                [("accept", "text/event-stream".to_owned()), ("last-event-id", revision.to_string())];
            (format!("{path}watch=true"), headers.to_vec())
        };
        let mut web = self.round.connect().await;
        let answer = web.open("GET", &path, &headers, String::new()).await.ok()?;
        match answer.status().as_u16() {
            200 => {}
            410 => {
                self.counts.too_old += 1;
                self.bookmark = None;
                return None;
            }
            status => panic!("{path}: {status}"),
        }
        Some(Events::new(web, answer.into_body()))
    }

    /// Adds an event.
    async fn take(&mut self, event: &Json) {
        let object = &event["object"];
        match event["type"].as_str() {
            Some("bookmark") => {
                let revision = event["revision"].as_u64().expect("a number");
                let before = self.bookmark.as_ref().map_or(0, |(before, _)| *before);
                assert!(revision >= before, "bookmark {revision} follows {before}");
                self.bookmark = Some((revision, self.known.clone()));
                self.is_exact = true;
                return self.compare(revision).await;
            }
            Some("deleted") => {
                let before = self.known.remove(&id(object));
                assert!(!self.is_exact || before.as_ref() == Some(object), "{event} after {before:?}");
            }
            Some(happened) => {
                let before = self.known.insert(id(object), object.clone());
                let is_news = before.as_ref() != Some(object) && before.is_some() == (happened == "updated");
                assert!(!self.is_exact || is_news, "{event} after {before:?}");
            }
            None => panic!("{event}"),
        }
        self.counts.events += 1;
    }

    /// Compares what is added up with a list at this revision, if the controller still has it.
    async fn compare(&mut self, revision: u64) {
        if self.selection != Selection::Groups {
            for (id, object) in &self.known {
                let other = id.strip_suffix("left").map(|pair| format!("{pair}right"));
                let other = other.map(|other| self.known.get(&other).map(|object| &object["labels"]));
                assert!(
                    other.is_none_or(|other| other == Some(&object["labels"])),
                    "half a transaction: {object}"
                );
            }
        }
        if self.random.chance(25) {
            let mut web = self.round.connect().await;
            let path = format!("{}continue={revision}:", self.selection.path());
            if let Ok(answer) = web.get(&path).await
                && answer.status != 410
            {
                let list = answer.expect(200);
                assert_eq!(list["revision"], revision);
                self.is_as(&items(&list), revision);
                self.counts.compared += 1;
            }
        }
    }

    /// Fails if the list has anything else than what is added up, and says what.
    fn is_as(&self, list: &List, revision: u64) {
        let ids = self.known.keys().chain(list.keys());
        let differ = ids.filter(|id| self.known.get(*id) != list.get(*id));
        let differ: Vec<_> = differ.map(|id| (self.known.get(id), list.get(id))).take(3).collect();
        assert!(
            differ.is_empty(),
            "{:?}: added up and listed at revision {revision}: {differ:#?}",
            self.selection
        );
    }

    /// The list with its revision, in pages of this size. `None` if the connection is lost or the next page is gone.
    async fn list(&self, limit: Option<u64>) -> Option<(u64, List)> {
        let mut web = self.round.connect().await;
        let (mut list, mut revision, mut place) = (List::new(), None, String::new());
        loop {
            let limit = limit.map(|limit| format!("limit={limit}&")).unwrap_or_default();
            let answer = web.get(&format!("{}{limit}{place}", self.selection.path())).await.ok()?;
            if answer.status == 410 {
                return None;
            }
            let page = answer.expect(200);
            let of_page = page["revision"].as_u64();
            assert!(revision.is_none() || revision == of_page, "pages of one list have one revision");
            revision = of_page;
            list.extend(items(&page));
            match page["continue"].as_str() {
                Some(next) => place = format!("continue={next}"),
                None => return revision.map(|revision| (revision, list)),
            }
        }
    }
}

fn items(list: &Json) -> List {
    let items = list["items"].as_array().expect("a list").iter();
    items.map(|object| (id(object), object.clone())).collect()
}
