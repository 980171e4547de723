//! What is said on an OpenFlow connection: greeting, reading all groups and flows, applying a batch.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use openflow_rs::message::{Features, FlowDescRequest, GroupDescRequest, Hello};
use openflow_rs::{Body, GroupEntry, Message};

use super::codec::{Excerpt, Frame, Malformed};
use super::connection::{OpenFlowConnection, SessionError};
use super::groups::{self, Groups};
use super::steps::{Step, steps};
use super::wire::{self, BadDesc, Header, bundle, kind};
use super::{Applied, RefusedChange, error};
use crate::flow::{Flow, FlowKey};
use crate::forwarding::{Batch, Installed};

/// Bytes encoded at once. With what still is to be sent this is the memory that a bundle of any size needs here.
const CHUNK_BYTES: usize = 256 << 10;

/// A switch with more flows than this is not read. At some 200 bytes a flow that is 1 GB here, 5 GB there.
const FLOWS_MAX: usize = 4_000_000;

/// How often a bundle is tried without the changes that the switch refused, before they are sent one by one. A
/// bundle that fails when it is committed names one bad change a time.
const BUNDLE_ROUNDS_MAX: usize = 4;

/// A greeted connection.
pub(crate) struct Session {
    connection: OpenFlowConnection,
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
    pub(crate) async fn greet(mut connection: OpenFlowConnection) -> Result<Self, SessionError> {
        connection.send(Body::Hello(Hello::new()))?;
        connection
            .wait_for("hello", |frame| match frame.header.kind {
                kind::HELLO => check_version(&frame).map(Some),
                kind::ERROR => {
                    Err(SessionError::Refused { request: "hello", error: error::describe(&frame) })
                }
                other => Err(malformed(format!("a message of type {other} before hello"), &frame)),
            })
            .await?;
        connection.negotiated();
        let xid = connection.send(Body::FeaturesRequest)?;
        let features = connection
            .wait_for("the features request", |frame| match frame.header.kind {
                kind::FEATURES_REPLY if frame.header.xid == xid => read_features(&frame).map(Some),
                // To our hello; an error about the version is the only one.
                kind::ERROR => Err(SessionError::Refused {
                    request: "hello or the features request",
                    error: error::describe(&frame),
                }),
                _ => Ok(None),
            })
            .await?;
        Ok(Session { connection, next_bundle: 1, features })
    }

    /// Keeps an idle connection alive; ends when it is lost.
    pub(crate) async fn idle(&mut self) -> SessionError {
        loop {
            match self.connection.step().await {
                Ok(Some(frame)) => unasked(&frame),
                Ok(None) => {}
                Err(error) => return error,
            }
        }
    }

    /// Reads all groups and all flows, but for those of tables that are the switch's own. Before that, makes the tunnel
    /// option a field where it is none, since no flow could use it.
    pub(crate) async fn read(&mut self, learned_tables: &BTreeSet<u8>) -> Result<Installed, SessionError> {
        let option_fault = self.map_option().await?;
        let mut groups = Groups::new();
        let request = Body::GroupDescRequest(GroupDescRequest { group: GroupEntry::ALL });
        self.dump("the group dump", request, |body| {
            groups::group_descs(body, |id, part| drop(groups.insert(id, part))).map(|more| (more, 0))
        })
        .await?;
        let mut flows: BTreeMap<FlowKey, Flow> = BTreeMap::new();
        self.dump("the flow dump", Body::FlowDescRequest(FlowDescRequest::all()), |body| {
            let take = |key: FlowKey, flow| {
                if !learned_tables.contains(&key.table()) {
                    flows.insert(key, flow);
                }
            };
            wire::flow_descs(body, take).map(|more| (more, flows.len()))
        })
        .await?;
        Ok(Installed { groups, flows, option_fault })
    }

    /// Asks for descriptions and hands each part of the reply to `take`, which says whether more follow and how many
    /// flows there are by now.
    async fn dump(
        &mut self,
        what: &'static str,
        request: Body,
        mut take: impl FnMut(&[u8]) -> Result<(Option<bool>, usize), BadDesc>,
    ) -> Result<(), SessionError> {
        let xid = self.connection.send(request)?;
        self.connection
            .wait_for(what, |frame| {
                if frame.header.xid != xid {
                    unasked(&frame);
                    return Ok(None);
                }
                match frame.header.kind {
                    kind::MULTIPART_REPLY => {
                        let (more, flows) =
                            take(frame.body()).map_err(|error| malformed(error.to_string(), &frame))?;
                        let more =
                            more.ok_or_else(|| malformed("the reply to another request".to_owned(), &frame))?;
                        if flows > FLOWS_MAX {
                            return Err(SessionError::TooManyFlows { max: FLOWS_MAX });
                        }
                        Ok((!more).then_some(()))
                    }
                    kind::ERROR => {
                        Err(SessionError::Refused { request: what, error: error::describe(&frame) })
                    }
                    other => Err(malformed(format!("a message of type {other} for {what}"), &frame)),
                }
            })
            .await
    }

    /// Makes the tunnel option a field. Returns why it is none, if it cannot be.
    async fn map_option(&mut self) -> Result<Option<String>, SessionError> {
        let xid = self.connection.send(Body::TlvTableRequest)?;
        let change = self
            .connection
            .wait_for("the map of tunnel options", |frame| match frame.header.kind {
                _ if frame.header.xid != xid => {
                    unasked(&frame);
                    Ok(None)
                }
                kind::EXPERIMENTER => match groups::option_reply(&frame.bytes) {
                    Some(reply) => Ok(Some(groups::option_change(&reply))),
                    None => Err(malformed("no map of tunnel options".to_owned(), &frame)),
                },
                kind::ERROR => Ok(Some(Err(error::describe(&frame)))),
                other => Err(malformed(format!("a message of type {other} for a map of options"), &frame)),
            })
            .await?;
        let change = match change {
            Ok(None) => return Ok(None),
            Err(why) => return Ok(Some(why)),
            Ok(Some(change)) => change,
        };
        let xid = self.connection.send(change)?;
        let barrier = self.connection.send(Body::BarrierRequest)?;
        let mut fault = None;
        self.connection
            .wait_for("the change of the map of tunnel options", |frame| {
                if (frame.header.xid, frame.header.kind) == (xid, kind::ERROR) {
                    fault = Some(error::describe(&frame));
                }
                let done = (frame.header.xid, frame.header.kind) == (barrier, kind::BARRIER_REPLY);
                Ok(done.then_some(()))
            })
            .await?;
        Ok(fault)
    }

    /// Applies a batch: all in one bundle; or, if the switch refuses some of it, all but those, again in one
    /// bundle. If that fails too often, or for no reason that lies in a change, the changes are sent one by one.
    /// Whatever happens, each change is in force or among the refused when this returns.
    pub(crate) async fn apply(&mut self, batch: &Batch) -> Result<Applied, SessionError> {
        let mut refused: BTreeMap<usize, RefusedChange> = BTreeMap::new();
        for _ in 0..BUNDLE_ROUNDS_MAX {
            let steps = steps(batch, |place| refused.contains_key(&place));
            if steps.is_empty() {
                return Ok(Applied::new(batch.len(), refused));
            }
            match self.bundle(batch, &steps).await? {
                Bundle::Committed => return Ok(Applied::new(batch.len(), refused)),
                Bundle::Refused(more) => {
                    refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
                }
                // The switch may have dropped it because one of us was held up (OFPBFC_TIMEOUT), so once more.
                Bundle::Failed(why) => tracing::warn!(why, "a bundle failed"),
            }
        }
        tracing::warn!("bundles failed {BUNDLE_ROUNDS_MAX} times; the changes are sent one by one");
        let steps = steps(batch, |place| refused.contains_key(&place));
        let more = self.one_by_one(batch, &steps).await?;
        refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
        Ok(Applied::new(batch.len(), refused))
    }

    /// Applies a batch in one bundle or not at all. `Some` is the place of the first change that the switch refused,
    /// if it was one, and the reason.
    pub(crate) async fn apply_whole(
        &mut self,
        batch: &Batch,
    ) -> Result<Option<(Option<usize>, String)>, SessionError> {
        let steps = steps(batch, |_| false);
        Ok(match self.bundle(batch, &steps).await? {
            Bundle::Committed => None,
            Bundle::Refused(refused) => {
                refused.into_iter().next().map(|first| (Some(first.place), first.reason))
            }
            Bundle::Failed(why) => Some((None, why)),
        })
    }

    /// Sends messages of a batch in one bundle. An error that the switch finds when a message is added does
    /// not keep it from committing the rest, so the bundle is committed only if there was none.
    async fn bundle(&mut self, batch: &Batch, steps: &[Step]) -> Result<Bundle, SessionError> {
        let id = self.next_bundle;
        self.next_bundle = self.next_bundle.wrapping_add(1);
        let open = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), open, id, bundle::OPEN_REQUEST);
        let put = |out: &mut BytesMut, xid: u32, step: Step| wire::put_bundle_add(out, id, xid, batch, step);
        let mut errors = self.send_all("a bundle", batch, steps, put).await?;
        if errors.is_empty() {
            return self.commit(id, errors).await;
        }
        let discard = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), discard, id, bundle::DISCARD_REQUEST);
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

    async fn commit(&mut self, id: u32, mut errors: Errors<'_>) -> Result<Bundle, SessionError> {
        let xid = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), xid, id, bundle::COMMIT_REQUEST);
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

    /// Sends messages of a batch each for itself.
    async fn one_by_one(
        &mut self,
        batch: &Batch,
        steps: &[Step],
    ) -> Result<Vec<RefusedChange>, SessionError> {
        let put = |out: &mut BytesMut, xid: u32, step: Step| wire::put_step(out, xid, batch, step);
        let errors = self.send_all("flow-mods", batch, steps, put).await?;
        Ok(errors.refused)
    }

    /// Sends messages made by `put`, and a barrier; returns the errors that came until the barrier's reply.
    async fn send_all<'a>(
        &mut self,
        what: &'static str,
        batch: &'a Batch,
        steps: &'a [Step],
        put: impl Fn(&mut BytesMut, u32, Step),
    ) -> Result<Errors<'a>, SessionError> {
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX - 2);
        let first = self.connection.xids(count);
        let barrier = first + count;
        let mut errors = Errors { first, batch, steps, refused: Vec::new(), other: None };
        let mut left = (first..barrier).zip(steps);
        let mut barrier_sent = false;
        let feed = |out: &mut BytesMut| {
            let start = out.len();
            while out.len() - start < CHUNK_BYTES {
                match left.next() {
                    Some((xid, step)) => put(out, xid, *step),
                    None if barrier_sent => return,
                    None => {
                        Header::new(kind::BARRIER_REQUEST, barrier).put(out, &[]);
                        barrier_sent = true;
                    }
                }
            }
        };
        self.connection
            .exchange(what, feed, |frame| {
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

/// Errors about the messages of one batch, told apart by their ids.
struct Errors<'a> {
    /// The id of the first step's message; the others follow.
    first: u32,
    batch: &'a Batch,
    steps: &'a [Step],
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
        match index.and_then(|index| self.steps.get(index)) {
            Some(step) => self.refused.push(RefusedChange { place: step.place(self.batch), reason }),
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

fn malformed(problem: String, frame: &Frame) -> SessionError {
    Malformed { problem, bytes: Excerpt::new(&frame.bytes) }.into()
}

/// Versions agree if both bitmaps have 1.5, or, from a peer without one, if its version is 1.5 (section 6.3.1).
fn check_version(hello: &Frame) -> Result<(), SessionError> {
    let versions = match Message::decode(&hello.bytes).map(|message| message.body) {
        Ok(Body::Hello(hello)) if hello.speaks(wire::VERSION) => return Ok(()),
        Ok(Body::Hello(hello)) => hello.versions(),
        Ok(_) => 0,
        Err(error) => return Err(malformed(error.to_string(), hello)),
    };
    let versions = (0..32).filter(|version| versions & (1 << version) != 0).map(version_name);
    Err(SessionError::Version { theirs: versions.collect::<Vec<_>>().join(", ") })
}

fn version_name(version: u32) -> String {
    match version {
        1..=6 => format!("1.{} ({version:#04x})", version - 1),
        _ => format!("{version:#04x}"),
    }
}

fn read_features(frame: &Frame) -> Result<Features, SessionError> {
    match Message::decode(&frame.bytes).map(|message| message.body) {
        Ok(Body::FeaturesReply(features)) => Ok(features),
        Ok(_) => Err(malformed("no features".to_owned(), frame)),
        Err(error) => Err(malformed(error.to_string(), frame)),
    }
}
