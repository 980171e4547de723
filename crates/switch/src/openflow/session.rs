//! What is said on an OpenFlow connection: greeting, reading all flows, applying a batch.

use std::collections::BTreeMap;

use openflow_rs::message::{Features, FlowDescRequest, Hello};
use openflow_rs::{Body, Message};

use super::connection::{Connection, ConnectionError, Frame, Shown};
use super::wire::{self, Header, bundle, kind};
use super::{Applied, RefusedChange, error};
use crate::flow::{Flow, FlowKey};
use crate::ledger::FlowChange;

/// Bytes encoded at once. With what still is to be sent this is the memory that a bundle of any size needs here.
const CHUNK_BYTES: usize = 256 << 10;

/// A switch with more flows than this is not read. At some 200 bytes a flow that is 1 GB here, 5 GB there.
const FLOWS_MAX: usize = 4_000_000;

/// How often a bundle is tried without the changes that the switch refused, before they are sent one by one. A
/// bundle that fails when it is committed names one bad change a time.
const BUNDLE_ROUNDS_MAX: usize = 4;

/// A greeted connection.
pub(crate) struct Session {
    connection: Connection,
    next_bundle: u32,
    pub(crate) features: Features,
}

/// How a bundle ended.
enum Bundle {
    Committed,
    /// Discarded, or not committed, because of these changes.
    Refused(Vec<RefusedChange>),
    /// Discarded, or not committed, for a reason that concerns no change in particular.
    Failed(String),
}

impl Session {
    /// Exchanges hello and features.
    pub(crate) async fn greet(mut connection: Connection) -> Result<Self, ConnectionError> {
        send(&mut connection, Body::Hello(Hello::new()));
        connection
            .wait_for("hello", |frame| match frame.header.kind {
                kind::HELLO => check_version(&frame).map(Some),
                kind::ERROR => {
                    Err(ConnectionError::Refused { request: "hello", error: error::describe(&frame) })
                }
                other => Err(garbage(format!("a message of type {other} before hello"), &frame)),
            })
            .await?;
        connection.greeted();
        let xid = send(&mut connection, Body::FeaturesRequest);
        let features = connection
            .wait_for("the features request", |frame| match frame.header.kind {
                kind::FEATURES_REPLY if frame.header.xid == xid => read_features(&frame).map(Some),
                // To our hello; an error about the version is the only one.
                kind::ERROR => Err(ConnectionError::Refused {
                    request: "hello or the features request",
                    error: error::describe(&frame),
                }),
                _ => Ok(None),
            })
            .await?;
        Ok(Session { connection, next_bundle: 1, features })
    }

    /// Keeps an idle connection alive; ends when it is lost.
    pub(crate) async fn idle(&mut self) -> ConnectionError {
        loop {
            match self.connection.step().await {
                Ok(Some(frame)) => unasked(&frame),
                Ok(None) => {}
                Err(error) => return error,
            }
        }
    }

    /// Reads all flows of all tables.
    pub(crate) async fn read(&mut self) -> Result<BTreeMap<FlowKey, Flow>, ConnectionError> {
        let xid = send(&mut self.connection, Body::FlowDescRequest(FlowDescRequest::all()));
        let mut flows = BTreeMap::new();
        self.connection
            .wait_for("the flow dump", |frame| {
                if frame.header.xid != xid {
                    unasked(&frame);
                    return Ok(None);
                }
                match frame.header.kind {
                    kind::MULTIPART_REPLY => {
                        let take = |key, flow| {
                            flows.insert(key, flow);
                        };
                        let more = wire::flow_descs(frame.body(), take)
                            .map_err(|error| garbage(error.to_string(), &frame))?
                            .ok_or_else(|| garbage("the reply to another request".to_owned(), &frame))?;
                        if flows.len() > FLOWS_MAX {
                            return Err(ConnectionError::TooManyFlows { max: FLOWS_MAX });
                        }
                        Ok((!more).then_some(()))
                    }
                    kind::ERROR => Err(ConnectionError::Refused {
                        request: "the flow dump",
                        error: error::describe(&frame),
                    }),
                    other => Err(garbage(format!("a message of type {other} for a flow dump"), &frame)),
                }
            })
            .await?;
        Ok(flows)
    }

    /// Applies a batch: all in one bundle; or, if the switch refuses some of it, all but those, again in one
    /// bundle. If that fails too often, or for no reason that lies in a change, the changes are sent one by one.
    /// Whatever happens, each change is in force or among the refused when this returns.
    pub(crate) async fn apply(&mut self, batch: &[FlowChange]) -> Result<Applied, ConnectionError> {
        let mut refused: BTreeMap<usize, RefusedChange> = BTreeMap::new();
        for _ in 0..BUNDLE_ROUNDS_MAX {
            let places: Vec<usize> = (0..batch.len()).filter(|place| !refused.contains_key(place)).collect();
            if places.is_empty() {
                return Ok(Applied::new(batch.len(), refused));
            }
            match self.bundle(batch, &places).await? {
                Bundle::Committed => return Ok(Applied::new(batch.len(), refused)),
                Bundle::Refused(more) => {
                    refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
                }
                // The switch may have dropped it because one of us was held up (OFPBFC_TIMEOUT), so once more.
                Bundle::Failed(why) => tracing::warn!(why, "a bundle failed"),
            }
        }
        tracing::warn!("bundles failed {BUNDLE_ROUNDS_MAX} times; the changes are sent one by one");
        let places: Vec<usize> = (0..batch.len()).filter(|place| !refused.contains_key(place)).collect();
        let more = self.one_by_one(batch, &places).await?;
        refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
        Ok(Applied::new(batch.len(), refused))
    }

    /// Applies a batch in one bundle or not at all. `Some` is the place of the first change that the switch refused,
    /// if it was one, and the reason.
    pub(crate) async fn apply_whole(
        &mut self,
        batch: &[FlowChange],
    ) -> Result<Option<(Option<usize>, String)>, ConnectionError> {
        let places: Vec<usize> = (0..batch.len()).collect();
        Ok(match self.bundle(batch, &places).await? {
            Bundle::Committed => None,
            Bundle::Refused(refused) => {
                refused.into_iter().next().map(|first| (Some(first.place), first.reason))
            }
            Bundle::Failed(why) => Some((None, why)),
        })
    }

    /// Sends the changes at these places in one bundle. An error that the switch finds when a message is added does
    /// not keep it from committing the rest, so the bundle is committed only if there was none.
    async fn bundle(&mut self, batch: &[FlowChange], places: &[usize]) -> Result<Bundle, ConnectionError> {
        let id = self.next_bundle;
        self.next_bundle = self.next_bundle.wrapping_add(1);
        let open = self.connection.xids(0);
        wire::put_bundle_control(self.connection.outgoing(), open, id, bundle::OPEN_REQUEST);
        let put =
            |out: &mut Vec<u8>, xid: u32, change: &FlowChange| wire::put_bundle_add(out, id, xid, change);
        let mut errors = self.send_all("a bundle", batch, places, put).await?;
        if errors.is_empty() {
            return self.commit(id, errors).await;
        }
        let discard = self.connection.xids(0);
        wire::put_bundle_control(self.connection.outgoing(), discard, id, bundle::DISCARD_REQUEST);
        self.connection
            .wait_for("the discard of a bundle", |frame| {
                // The answer may be an error: the bundle is gone already. That is as good.
                if frame.header.xid == discard {
                    return Ok(Some(()));
                }
                errors.add(&frame);
                Ok(None)
            })
            .await?;
        Ok(errors.verdict())
    }

    async fn commit(&mut self, id: u32, mut errors: Errors<'_>) -> Result<Bundle, ConnectionError> {
        let xid = self.connection.xids(0);
        wire::put_bundle_control(self.connection.outgoing(), xid, id, bundle::COMMIT_REQUEST);
        let committed = self
            .connection
            .wait_for("the commit of a bundle", |frame| {
                if frame.header.xid == xid && frame.header.kind == kind::BUNDLE_CONTROL {
                    return Ok(Some(wire::bundle_control(frame.body()) == Some(bundle::COMMIT_REPLY)));
                }
                errors.add(&frame);
                // The error about the commit itself comes after that about the change which is to blame.
                Ok((frame.header.xid == xid).then_some(false))
            })
            .await?;
        Ok(if committed { Bundle::Committed } else { errors.verdict() })
    }

    /// Sends the changes at these places each for itself.
    async fn one_by_one(
        &mut self,
        batch: &[FlowChange],
        places: &[usize],
    ) -> Result<Vec<RefusedChange>, ConnectionError> {
        let errors = self.send_all("flow-mods", batch, places, wire::put_flow_mod).await?;
        Ok(errors.refused)
    }

    /// Sends messages made by `put`, and a barrier; returns the errors that came until the barrier's reply.
    async fn send_all<'a>(
        &mut self,
        what: &'static str,
        batch: &[FlowChange],
        places: &'a [usize],
        put: impl Fn(&mut Vec<u8>, u32, &FlowChange),
    ) -> Result<Errors<'a>, ConnectionError> {
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX - 2);
        let first = self.connection.xids(count);
        let barrier = first + count;
        let mut errors = Errors { first, places, refused: Vec::new(), other: None };
        let mut left = (first..barrier).zip(places);
        let mut barrier_sent = false;
        let feed = |out: &mut Vec<u8>| {
            let start = out.len();
            while out.len() - start < CHUNK_BYTES {
                match left.next() {
                    Some((xid, place)) => put(out, xid, &batch[*place]),
                    None if barrier_sent => return,
                    None => {
                        Header::new(kind::BARRIER_REQUEST, barrier).put(out, &[]);
                        barrier_sent = true;
                    }
                }
            }
        };
        self.connection
            .converse(what, feed, |frame| {
                if frame.header.xid == barrier && frame.header.kind == kind::BARRIER_REPLY {
                    return Ok(Some(()));
                }
                errors.add(&frame);
                Ok(None)
            })
            .await?;
        Ok(errors)
    }
}

/// Queues a message of a fixed size and returns its id.
fn send(connection: &mut Connection, body: Body) -> u32 {
    let xid = connection.xids(0);
    if let Err(error) = (Message { xid, body }).encode_into(connection.outgoing()) {
        tracing::error!(%error, "a message that always fits does not");
    }
    xid
}

/// Errors about the messages of one batch, told apart by their ids.
struct Errors<'a> {
    /// The id of the message with the change at the first of `places`; the others follow.
    first: u32,
    places: &'a [usize],
    refused: Vec<RefusedChange>,
    /// The first error that is about no change in particular.
    other: Option<String>,
}

impl Errors<'_> {
    fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.other.is_none()
    }

    fn add(&mut self, frame: &Frame) {
        if frame.header.kind != kind::ERROR {
            unasked(frame);
            return;
        }
        let reason = error::describe(frame);
        let index = frame.header.xid.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.places.get(index)) {
            Some(place) => self.refused.push(RefusedChange { place: *place, reason }),
            None => {
                self.other.get_or_insert(reason);
            }
        }
    }

    fn verdict(self) -> Bundle {
        if self.refused.is_empty() {
            Bundle::Failed(self.other.unwrap_or_else(|| "no error said why".to_owned()))
        } else {
            Bundle::Refused(self.refused)
        }
    }
}

/// A message that answers nothing: the switch may send port changes and the like at any time.
fn unasked(frame: &Frame) {
    if frame.header.kind == kind::BUNDLE_CONTROL {
        // The reply to an open, which is not waited for.
        return;
    }
    let Header { kind, xid, .. } = frame.header;
    tracing::debug!(kind, xid, "ignored a message from the switch");
}

fn garbage(problem: String, frame: &Frame) -> ConnectionError {
    ConnectionError::Garbage { problem, bytes: Shown::new(&frame.bytes) }
}

/// Versions agree if both bitmaps have 1.5, or, from a peer without one, if its version is 1.5 (section 6.3.1).
fn check_version(hello: &Frame) -> Result<(), ConnectionError> {
    let versions = match Message::decode(&hello.bytes).map(|message| message.body) {
        Ok(Body::Hello(hello)) if hello.speaks(wire::VERSION) => return Ok(()),
        Ok(Body::Hello(hello)) => hello.versions(),
        Ok(_) => 0,
        Err(error) => return Err(garbage(error.to_string(), hello)),
    };
    let versions = (0..32).filter(|version| versions & (1 << version) != 0).map(version_name);
    Err(ConnectionError::Version { theirs: versions.collect::<Vec<_>>().join(", ") })
}

fn version_name(version: u32) -> String {
    match version {
        1..=6 => format!("1.{} ({version:#04x})", version - 1),
        _ => format!("{version:#04x}"),
    }
}

fn read_features(frame: &Frame) -> Result<Features, ConnectionError> {
    match Message::decode(&frame.bytes).map(|message| message.body) {
        Ok(Body::FeaturesReply(features)) => Ok(features),
        Ok(_) => Err(garbage("no features".to_owned(), frame)),
        Err(error) => Err(garbage(error.to_string(), frame)),
    }
}
