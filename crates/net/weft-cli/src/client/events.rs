//! `weft events`: what happens in the network, in one stream: changes of objects, problems, hosts.
//!
//! The changes are those of the history, so none is missed. Problems and hosts have no history: the command compares what the controller says
//! of them now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value as Json, json};
use tokio_stream::StreamExt as _;
use weft_client::pb::{Happened, HistoryEntry, HistoryRequest, StatusResponse, WatchResponse};
use weft_client::{Client, ClientError};
use weft_core::shown;
use weft_core::times::to_the_second;

use super::history::{objects, to_json as change_json};
use super::{Address, failed};
use crate::exit::{Failure, print_as, say};

/// The interval at which the controller is asked.
const LOOK: Duration = Duration::from_secs(1);
/// The transactions of one answer.
const PAGE: u32 = 100;

/// Arguments of `weft events`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
        weft events --follow --limit 0         what is wrong now, and what happens from now on\n\n\
        First come the last changes of objects, then what is wrong now: problems, and hosts that are not\n\
        connected. With --follow, changes, problems that appear and go, and hosts that connect and leave\n\
        are printed as they happen, until interrupted. The controller is asked every second: no change is\n\
        missed, but a problem or a connection that comes and goes within a second is.")]
pub(crate) struct Events {
    /// Go on and print what happens
    #[arg(short, long)]
    follow: bool,
    /// The most changes of the past
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u32,
    /// Print JSON, one event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Events {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Events { follow, limit, json, address } = self;
        address.with(|mut client| async move {
            let status = client.status().await.map_err(failed)?;
            let mut entries = last(&mut client, limit).await.map_err(failed)?;
            let mut known = Known::new(&mut client, &entries).await.map_err(failed)?;
            entries.reverse();
            tell(entries.into_iter().map(Event::Change).chain(known.first(&status)), json)?;
            if follow { known.follow(&mut client, json).await } else { Ok(()) }
        })
    }
}

/// Something that happened, or that is so at the beginning.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Change(HistoryEntry),
    Problem { kind: String, id: String, text: String, code: String, how: &'static str },
    Host { node: String, how: &'static str },
}

/// A problem: the kind and the id of its object, and the text.
type ProblemKey = (String, String, String);

/// What was told already.
#[derive(Debug, Default)]
struct Known {
    /// The last transaction that was told.
    told: u64,
    /// How many later ones there may be, and those of which there was news.
    expected: u32,
    heard: BTreeSet<u64>,
    /// What came of changes that could not be read yet.
    untold: Vec<Event>,
    /// Whether an interruption was told, and nothing has come since.
    is_interrupted: bool,
    /// The problems, with their codes.
    problems: BTreeMap<ProblemKey, String>,
    /// The connected hosts, and all of them.
    connected: BTreeSet<String>,
    hosts: BTreeSet<String>,
}

impl Known {
    /// What these changes tell. Without any, what happened before counts as told.
    async fn new(client: &mut Client, entries: &[HistoryEntry]) -> Result<Known, ClientError> {
        let last = match entries.first() {
            Some(entry) => Some(entry.txn),
            None => last(client, 1).await?.first().map(|entry| entry.txn),
        };
        Ok(Known { told: last.unwrap_or_default(), ..Known::default() })
    }

    /// What is wrong at the beginning.
    fn first(&mut self, status: &StatusResponse) -> Vec<Event> {
        let mut events = self.compared(status);
        // Hosts that are connected are as they should be.
        events.retain(|event| !matches!(event, Event::Host { .. }));
        for event in &mut events {
            if let Event::Problem { how, .. } = event {
                *how = "present";
            }
        }
        let away = self.hosts.difference(&self.connected);
        events.extend(away.map(|node| Event::Host { node: node.clone(), how: "not connected" }));
        events
    }

    /// Tells what happens, until the command is interrupted.
    async fn follow(mut self, client: &mut Client, json: bool) -> Result<(), Failure> {
        loop {
            let why = self.follow_once(client, json).await?;
            // What the controller says afterwards is compared with what it said last.
            if !std::mem::replace(&mut self.is_interrupted, true) {
                say(format_args!(
                    "warning: the events are interrupted, and go on when the controller answers: {why}"
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The same, until the watch ends. Returns why it did.
    async fn follow_once(&mut self, client: &mut Client, json: bool) -> Result<String, Failure> {
        let changes = match client.watch_all().await {
            Ok(changes) => changes,
            Err(error) => return or_fail(error),
        };
        let mut changes = std::pin::pin!(changes);
        // There may be changes from before the watch.
        self.expected = 1;
        loop {
            match self.next(client).await {
                Ok(events) => tell(events.into_iter(), json)?,
                Err(error) => return or_fail(error),
            }
            self.is_interrupted = false;
            let mut end = std::pin::pin!(tokio::time::sleep(LOOK));
            loop {
                let message = tokio::select! {
                    message = changes.next() => message,
                    () = &mut end => break,
                };
                match message {
                    Some(Ok(message)) => self.has_heard(&message),
                    Some(Err(error)) => return or_fail(error),
                    None => return Ok("it ended the watch".to_owned()),
                }
            }
        }
    }

    /// Takes in how many transactions there are news of, at most. The history says what they changed, and who did it.
    fn has_heard(&mut self, message: &WatchResponse) {
        let mut has_deleted = false;
        for event in &message.events {
            let changed = event.state.as_ref().map_or(0, |state| state.changed);
            // A deleted object has its last state, so its transaction is not known. Of others, the rules may say something else although
            // nobody changed them.
            if event.happened() == Happened::Deleted {
                has_deleted = true;
            } else if changed > self.told && self.heard.insert(changed) {
                self.expected += 1;
            }
        }
        self.expected += u32::from(has_deleted);
    }

    /// What has happened since.
    async fn next(&mut self, client: &mut Client) -> Result<Vec<Event>, ClientError> {
        let status = client.status().await?;
        let consequences = self.compared(&status);
        self.untold.extend(consequences);
        // A change comes before its consequences, even if the watch has yet to report it.
        let expected = self.expected.max(u32::from(!self.untold.is_empty()));
        let mut events = Vec::new();
        // For the history, the controller reads its journal backwards: only if there is something to find.
        if expected > 0 {
            let entries = since(client, self.told, expected).await?;
            self.told = entries.last().map_or(self.told, |entry| entry.txn);
            self.expected = 0;
            self.heard.clear();
            events.extend(entries.into_iter().map(Event::Change));
        }
        events.append(&mut self.untold);
        Ok(events)
    }

    /// How problems and hosts differ from what was told.
    fn compared(&mut self, status: &StatusResponse) -> Vec<Event> {
        let mut events = Vec::new();
        let key = |problem: &weft_client::pb::Problem| {
            let object = problem.object.clone().unwrap_or_default();
            ((object.kind, object.id, problem.text.clone()), problem.code.clone())
        };
        let problems: BTreeMap<ProblemKey, String> = status.problems.iter().map(key).collect();
        let missing =
            |of: &BTreeMap<ProblemKey, String>, from: &BTreeMap<ProblemKey, String>, how: &'static str| {
                let gone = of.iter().filter(|(key, _)| !from.contains_key(*key));
                let event = move |((kind, id, text), code): (&ProblemKey, &String)| {
                    let [kind, id, text, code] = [kind, id, text, code].map(String::clone);
                    Event::Problem { kind, id, text, code, how }
                };
                gone.map(event).collect::<Vec<_>>()
            };
        events.extend(missing(&self.problems, &problems, "gone"));
        events.extend(missing(&problems, &self.problems, "appeared"));
        let hosts: BTreeSet<String> = status.switches.iter().map(|switch| switch.node.clone()).collect();
        let connected = status.switches.iter().filter(|switch| switch.connected);
        let connected: BTreeSet<String> = connected.map(|switch| switch.node.clone()).collect();
        let host = |how: &'static str| move |node: &String| Event::Host { node: node.clone(), how };
        events.extend(self.connected.difference(&connected).map(host("left")));
        events.extend(connected.difference(&self.connected).map(host("connected")));
        (self.problems, self.connected, self.hosts) = (problems, connected, hosts);
        events
    }
}

/// The last changes of objects, the newest first.
async fn last(client: &mut Client, limit: u32) -> Result<Vec<HistoryEntry>, ClientError> {
    let (mut entries, mut before) = (Vec::new(), 0);
    while entries.len() < limit as usize {
        let limit = PAGE.min(limit - entries.len() as u32);
        let found = client.history(HistoryRequest { object: None, before, limit }).await?;
        entries.extend(found.entries);
        before = found.before;
        if before == 0 {
            break;
        }
    }
    Ok(entries)
}

/// The changes after a transaction, the oldest first. About so many are expected.
async fn since(client: &mut Client, txn: u64, expected: u32) -> Result<Vec<HistoryEntry>, ClientError> {
    let (mut entries, mut before, mut limit) = (Vec::new(), 0, expected.min(PAGE));
    loop {
        let found = client.history(HistoryRequest { object: None, before, limit }).await?;
        let is_end = found.before == 0 || found.entries.iter().any(|entry| entry.txn <= txn);
        entries.extend(found.entries.into_iter().filter(|entry| entry.txn > txn));
        // What is missing is expected to be little.
        (before, limit) = (found.before, limit.saturating_mul(2).min(PAGE));
        if is_end {
            entries.reverse();
            return Ok(entries);
        }
    }
}

/// The reason, if it is one to ask again.
fn or_fail(error: ClientError) -> Result<String, Failure> {
    match error {
        ClientError::Unreachable { .. } | ClientError::Stopping { .. } | ClientError::Failed { .. } => {
            Ok(error.to_string())
        }
        error => Err(failed(error)),
    }
}

fn tell(events: impl Iterator<Item = Event>, json: bool) -> Result<(), Failure> {
    let now = to_the_second(SystemTime::now());
    for event in events {
        let line = if json { event.json(&now).to_string() } else { event.text(&now) };
        print_as(json, &(line + "\n"))?;
    }
    Ok(())
}

impl Event {
    fn text(&self, now: &str) -> String {
        match self {
            Event::Change(entry) => {
                let peer = Some(&entry.peer).filter(|peer| !peer.is_empty());
                let peer = peer.map(|peer| format!(" ({})", shown(peer))).unwrap_or_default();
                let (at, by) = (to_seconds(&entry.at), shown(&entry.by));
                format!("{at}  change {} by {by}{peer}: {}", entry.txn, objects(entry))
            }
            Event::Problem { kind, id, text, how, .. } => {
                format!("{now}  problem {how}: {kind} {}: {}", shown(id), shown(text))
            }
            Event::Host { node, how } => format!("{now}  host {}: {how}", shown(node)),
        }
    }

    fn json(&self, now: &str) -> Json {
        match self {
            Event::Change(entry) => {
                let mut json = change_json(entry);
                json["type"] = "change".into();
                json
            }
            Event::Problem { kind, id, text, code, how } => json!({
                "type": "problem", "at": now, "what": how, "object": {"kind": kind, "id": id}, "text": text, "code": code,
            }),
            Event::Host { node, how } => json!({"type": "node", "at": now, "what": how, "node": node}),
        }
    }
}

/// A time of the history to the second, as the other events have it.
fn to_seconds(at: &str) -> String {
    match at.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => at.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use weft_client::pb::{ObjectRef, Problem, SwitchStatus};

    use super::*;

    fn status(problems: &[(&str, &str)], hosts: &[(&str, bool)]) -> StatusResponse {
        let problem = |&(id, text): &(&str, &str)| Problem {
            object: Some(ObjectRef { kind: "desk".into(), id: id.into() }),
            text: text.into(),
            ..Problem::default()
        };
        let switch = |&(node, connected): &(&str, bool)| SwitchStatus {
            node: node.into(),
            connected,
            ..SwitchStatus::default()
        };
        StatusResponse {
            problems: problems.iter().map(problem).collect(),
            switches: hosts.iter().map(switch).collect(),
            ..StatusResponse::default()
        }
    }

    fn texts(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| event.text("T")).collect()
    }

    #[test]
    fn problems_and_hosts_are_told_when_they_come_and_go() {
        let mut known = Known::default();
        let first = known.first(&status(&[("a", "bad"), ("a", "worse")], &[("hv1", true), ("hv2", false)]));
        let wanted = [
            "T  problem present: desk a: bad",
            "T  problem present: desk a: worse",
            "T  host hv2: not connected",
        ];
        assert_eq!(texts(&first), wanted);
        let events =
            known.compared(&status(&[("a", "worse"), ("b", "x\u{1b}[2J\nT  host")], &[("hv2", true)]));
        let wanted = [
            "T  problem gone: desk a: bad",
            "T  problem appeared: desk b: x\\u{1b}[2J\\nT  host",
            "T  host hv1: left",
            "T  host hv2: connected",
        ];
        assert_eq!(texts(&events), wanted);
        assert_eq!(
            known.compared(&status(&[("a", "worse"), ("b", "x\u{1b}[2J\nT  host")], &[("hv2", true)])),
            []
        );
    }
}
