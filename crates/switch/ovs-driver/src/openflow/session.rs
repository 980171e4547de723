//! An OpenFlow session: hello and features, reading all groups, meters and flows, applying a batch.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use openflow_rs::message::{Features, Hello, PacketOut, TlvMapping};
use openflow_rs::{Action, Actions, Body, Message, PortNo};
use peer_connection::Charge;

use super::connection::{OpenFlowConnection, SessionError};
use super::{Applied, RefusedChange, error, monitor, option, role};
use crate::config::Config;
use crate::foreign::Update;
use crate::in_openflow::{Batch, Contents, Place, Step, When};
use crate::intent::Shared;
use crate::outbox::Outbox;
use crate::wire::{self, Header, TooLong, bundle, kind};
use openflow_connection::{Excerpt, Frame, Malformed};
use switch_model::{BundleTimes, Frame as SentFrame};

/// The number of bytes encoded at once. It bounds, together with the unsent bytes, the memory that a bundle takes.
const CHUNK_BYTES: usize = 256 << 10;

/// The time within which the cache of the datapath follows a change of flows. Until then packets take their former way, and
/// may be tracked in a zone of which the flows know nothing any more.
const CACHE_FOLLOWS: Duration = Duration::from_millis(500);

/// How often a bundle is retried without refused changes before it is split. A bundle that fails at its commit names only one bad
/// change.
const BUNDLE_ROUNDS_MAX: usize = 4;
/// The most bundles that one is split into.
const BUNDLES_MAX: usize = 500;

/// A connection after the exchange of hello and features.
pub(crate) struct Session {
    connection: OpenFlowConnection,
    next_bundle: u32,
    /// When the bundles of the present batch were sent.
    sent: Option<BundleTimes>,
    pub(crate) features: Features,
    observer: Observer,
    /// What the driver holds of the contents of the switch.
    held: Charge,
    /// The bytes of it that it holds between requests.
    lasting: usize,
}

/// Passes on the reports of the flow monitor. Unsolicited messages arrive at any time.
#[derive(Default)]
pub(crate) struct Observer {
    /// `None` before the monitor is requested.
    monitor: Option<Monitor>,
    /// Whether another controller has become the primary one.
    demoted: AtomicBool,
}

/// What takes the reports of the flow monitor.
struct Monitor {
    config: Arc<Config>,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
}

impl Observer {
    /// Handles a message that answers no request.
    fn see(&self, frame: &Frame) {
        if role::demotes(frame) {
            self.demoted.store(true, Ordering::Relaxed);
        }
        let Some(monitor) = self.monitor.as_ref().filter(|_| is_monitor_update(frame)) else {
            return unsolicited(frame);
        };
        let mut news = false;
        let read = monitor::updates(frame.body(), |update| news |= monitor.take(update));
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read a report of the flow monitor; all flows are read again");
            news |= monitor.take(Update::Missed);
        }
        if news {
            monitor.intent.wake();
        }
    }
}

impl Monitor {
    /// Takes one report. Returns whether there is something to repair.
    fn take(&self, update: Update) -> bool {
        let table = match &update {
            Update::Is(key, _) | Update::Gone(key, ..) => key.table(),
            Update::Missed => return self.intent.lock().forwarding.updated(update),
        };
        if !self.config.is_learned(table) {
            return self.intent.lock().forwarding.updated(update);
        }
        // The switch owns the flows that it learns.
        if self.config.conflict_tables.contains(&table) {
            let conflicts = &mut self.intent.lock().conflicts;
            let is_news = match &update {
                Update::Is(key, flow) => conflicts.seen(key, self.config.conflict(key, flow)),
                Update::Gone(key, ..) => conflicts.seen(key, None),
                Update::Missed => false,
            };
            if is_news {
                self.intent.conflicts_have_changed();
            }
            return false;
        }
        if self.config.watched_tables.contains(&table) {
            let awaited = &mut self.intent.lock().awaited;
            let learned = match update {
                Update::Is(key, flow) => awaited.seen(key, flow.cookie()),
                Update::Gone(key, ..) => {
                    awaited.gone(&key);
                    None
                }
                Update::Missed => None,
            };
            if let Some(event) = learned {
                self.outbox.put(event);
            }
        }
        false
    }
}

fn is_monitor_update(frame: &Frame) -> bool {
    frame.header.kind == kind::MULTIPART_REPLY && monitor::is_update(frame.body())
}

/// How a bundle ended.
enum Bundle {
    Committed,
    /// Discarded or not committed because of these changes.
    Refused(Vec<RefusedChange>),
    /// Discarded or not committed for a reason that concerns no particular change.
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
                // The reply to the hello: the versions do not agree.
                kind::ERROR => Err(SessionError::Refused {
                    request: "hello or the features request",
                    error: error::describe(&frame),
                }),
                _ => Ok(None),
            })
            .await?;
        let held = connection.account().charge();
        Ok(Session {
            connection,
            next_bundle: 1,
            sent: None,
            features,
            observer: Observer::default(),
            held,
            lasting: 0,
        })
    }

    /// Sends a request for a role. The inner error says why the switch refuses it.
    pub(super) async fn ask_for_role(&mut self, request: Body) -> Result<Result<(), String>, SessionError> {
        let xid = self.connection.send(request)?;
        let observer = &self.observer;
        self.connection
            .wait_for("the role request", |frame| {
                if frame.header.xid == xid {
                    return Ok(role::answer(&frame));
                }
                observer.see(&frame);
                Ok(None)
            })
            .await
    }

    pub(super) fn is_demoted(&self) -> bool {
        self.observer.demoted.load(Ordering::Relaxed)
    }

    /// Keeps an idle connection alive until it is lost.
    pub(crate) async fn idle(&mut self) -> SessionError {
        loop {
            match self.connection.step().await {
                Ok(Some(frame)) => self.observer.see(&frame),
                Ok(None) => {}
                Err(error) => return error,
            }
            if let Err(error) = self.check_role() {
                return error;
            }
        }
    }

    /// Asks the switch to report changes of flows by others, and flows that it learns in watched tables. Returns
    /// whether the switch agreed.
    pub(crate) async fn monitor(
        &mut self,
        config: &Arc<Config>,
        intent: &Arc<Shared>,
        outbox: &Arc<Outbox>,
    ) -> Result<bool, SessionError> {
        let (config, intent, outbox) = (config.clone(), intent.clone(), outbox.clone());
        self.observer.monitor = Some(Monitor { config, intent, outbox });
        let xid = self.connection.xids(0);
        monitor::put_request(self.connection.write_buffer(), xid);
        let observer = &self.observer;
        self.connection
            .wait_for("the request of a flow monitor", |frame| {
                if frame.header.xid != xid {
                    observer.see(&frame);
                    return Ok(None);
                }
                if frame.header.kind == kind::ERROR {
                    tracing::warn!(error = error::describe(&frame), "the switch reports no changes of flows");
                }
                Ok(Some(frame.header.kind == kind::MULTIPART_REPLY))
            })
            .await
    }

    /// Sends frames. What the switch refuses of them concerns nothing else.
    pub(crate) async fn send_frames(&mut self, frames: &[SentFrame]) -> Result<(), SessionError> {
        let packets = frames.iter().map(|frame| {
            let actions = Actions(vec![Action::output(PortNo(frame.ofport))]);
            PacketOut::new(actions, frame.bytes.to_vec())
        });
        if let Some(error) = self.send_packets(packets).await? {
            tracing::warn!(error, "the switch refuses to send a frame");
        }
        Ok(())
    }

    /// Sends packets. Returns why the switch refuses one of them, which concerns nothing else.
    pub(crate) async fn send_packets(
        &mut self,
        packets: impl Iterator<Item = PacketOut>,
    ) -> Result<Option<String>, SessionError> {
        let (mut xids, mut refused) = (BTreeSet::new(), None);
        for packet in packets {
            xids.insert(self.connection.send(Body::PacketOut(packet))?);
        }
        let barrier = self.connection.send(Body::BarrierRequest)?;
        let observer = &self.observer;
        self.connection
            .wait_for("packets", |frame| {
                if frame.header.kind == kind::ERROR && xids.contains(&frame.header.xid) {
                    refused = Some(error::describe(&frame));
                    return Ok(None);
                }
                let done = (frame.header.xid, frame.header.kind) == (barrier, kind::BARRIER_REPLY);
                if !done {
                    observer.see(&frame);
                }
                Ok(done.then_some(()))
            })
            .await?;
        Ok(refused)
    }

    /// Maps the tunnel option to a field. Returns the reason if that is impossible.
    async fn map_option(&mut self, option: TlvMapping) -> Result<Option<String>, SessionError> {
        let xid = self.connection.send(Body::TlvTableRequest)?;
        let observer = &self.observer;
        let change = self
            .connection
            .wait_for("the TLV table request", |frame| match frame.header.kind {
                _ if frame.header.xid != xid => {
                    observer.see(&frame);
                    Ok(None)
                }
                kind::EXPERIMENTER => match option::option_reply(&frame.bytes) {
                    Some(reply) => Ok(Some(option::option_change(option, &reply))),
                    None => Err(malformed("not a TLV table reply".to_owned(), &frame)),
                },
                kind::ERROR => Ok(Some(Err(error::describe(&frame)))),
                other => {
                    Err(malformed(format!("a message of type {other} for the TLV table request"), &frame))
                }
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
            .wait_for("the TLV table mod", |frame| {
                if (frame.header.xid, frame.header.kind) == (xid, kind::ERROR) {
                    fault = Some(error::describe(&frame));
                }
                let done = (frame.header.xid, frame.header.kind) == (barrier, kind::BARRIER_REPLY);
                if !done && frame.header.xid != xid {
                    observer.see(&frame);
                }
                Ok(done.then_some(()))
            })
            .await?;
        Ok(fault)
    }

    /// Applies a batch: what goes before the bundle (new and changed meters, flushes of zones), then groups and flows, then what goes
    /// after it (deleted meters, and zones that others have left). When this returns, each change is in force or refused.
    pub(crate) async fn apply(&mut self, batch: &Batch) -> Result<Applied, SessionError> {
        let fault = |place| Some(RefusedChange { place, reason: batch.at(place)?.fault()? });
        let mut refused: BTreeMap<usize, RefusedChange> =
            (0..batch.len()).filter_map(fault).map(|refused| (refused.place, refused)).collect();
        self.sent = None;
        self.change_alone(batch, When::Before, &mut refused).await?;
        let mut alone = None;
        let partly = self.apply_bundled(batch, &mut refused, &mut alone).await?;
        self.change_alone(batch, When::After, &mut refused).await?;
        self.settle_zones(batch, &|place| refused.contains_key(&place)).await?;
        // Then the switch has refused changes because of that.
        self.check_role()?;
        Ok(Applied { partly, alone, sent: self.sent, ..Applied::new(batch.len(), refused) })
    }

    async fn change_alone(
        &mut self,
        batch: &Batch,
        when: When,
        refused: &mut BTreeMap<usize, RefusedChange>,
    ) -> Result<(), SessionError> {
        for (what, steps) in batch.alone(when) {
            let more = self.one_by_one(what, batch, &steps).await?;
            refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
        }
        Ok(())
    }

    /// Flushes zones that others have used until the bundle, and writes their final marks.
    async fn settle_zones(
        &mut self,
        batch: &Batch,
        without: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<(), SessionError> {
        let [flushes, marks] = batch.settling(without);
        if !marks.is_empty() {
            tokio::time::sleep(CACHE_FOLLOWS).await;
        }
        let steps = [flushes, marks].concat();
        if steps.is_empty() {
            return Ok(());
        }
        let what = "flushes of zones that others have used";
        match self.one_by_one(what, batch, &steps).await?.into_iter().next() {
            None => Ok(()),
            // The next session finds the marks of zones that are not clean, and tries again.
            Some(refused) => Err(SessionError::Refused { request: what, error: refused.reason }),
        }
    }

    /// Applies groups and flows in one bundle. If the switch refuses some changes, sends the others in another bundle, and after
    /// several refusals in ever smaller ones. After several bundles that failed for no such reason, sends the changes one by one
    /// and says why in `alone`. Returns what the switch has if changes may be partly in force.
    async fn apply_bundled(
        &mut self,
        batch: &Batch,
        refused: &mut BTreeMap<usize, RefusedChange>,
        alone: &mut Option<String>,
    ) -> Result<Option<Contents>, SessionError> {
        let mut failed = None;
        for _ in 0..BUNDLE_ROUNDS_MAX {
            let steps = batch.bundled(&|place| refused.contains_key(&place));
            if steps.is_empty() {
                return Ok(None);
            }
            match self.bundle(batch, &steps).await? {
                Bundle::Committed => return Ok(None),
                Bundle::Refused(more) => {
                    failed = None;
                    refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
                }
                // The switch may have discarded it because of a delay on either side (OFPBFC_TIMEOUT). Retry.
                Bundle::Failed(why) => {
                    tracing::warn!(why, "a bundle failed");
                    failed = Some(why);
                }
            }
        }
        let before: BTreeSet<usize> = refused.keys().copied().collect();
        let steps = batch.bundled(&|place| refused.contains_key(&place));
        match failed {
            None => self.in_parts(batch, steps, refused, alone).await?,
            Some(why) => self.alone(batch, &steps, refused, (why, alone)).await?,
        }
        // If one message of a change is refused, others may be in force.
        let more = refused.keys().filter(|place| !before.contains(*place));
        let is_partial = more.filter_map(|place| batch.at(*place)).any(Place::is_stepwise);
        Ok(if is_partial { Some(self.read_stepwise().await?) } else { None })
    }

    /// Applies steps of which the switch refuses some, and names only one of them each time: in ever smaller bundles around those.
    async fn in_parts(
        &mut self,
        batch: &Batch,
        all: Vec<Step>,
        refused: &mut BTreeMap<usize, RefusedChange>,
        alone: &mut Option<String>,
    ) -> Result<(), SessionError> {
        let (mut parts, mut bundles) = (vec![all], 0);
        while let Some(mut part) = parts.pop() {
            part.retain(|step| !refused.contains_key(&step.place));
            if part.is_empty() {
                continue;
            }
            bundles += 1;
            if bundles > BUNDLES_MAX {
                let why = format!("it refuses many changes, and after {BUNDLES_MAX} bundles still more");
                self.alone(batch, &part, refused, (why, &mut *alone)).await?;
                continue;
            }
            match self.bundle(batch, &part).await? {
                Bundle::Committed => {}
                Bundle::Refused(more) => {
                    refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
                    // The first half comes first.
                    let second = part.split_off(part.len() / 2);
                    parts.extend([second, part]);
                }
                Bundle::Failed(why) => self.alone(batch, &part, refused, (why, &mut *alone)).await?,
            }
        }
        Ok(())
    }

    /// Sends changes one by one, as a switch needs that takes no bundles. Packets may meet some of them without the others.
    async fn alone(
        &mut self,
        batch: &Batch,
        steps: &[Step],
        refused: &mut BTreeMap<usize, RefusedChange>,
        (why, alone): (String, &mut Option<String>),
    ) -> Result<(), SessionError> {
        tracing::warn!(why, changes = steps.len(), "bundles failed; sending the changes one by one");
        let more = self.one_by_one("flow-mods", batch, steps).await?;
        refused.extend(more.into_iter().map(|refused| (refused.place, refused)));
        *alone = Some(why);
        Ok(())
    }

    /// Applies a batch in one bundle or not at all. On failure returns the reason, and the index of the first refused
    /// change if the error names one.
    pub(crate) async fn apply_whole(
        &mut self,
        batch: &Batch,
    ) -> Result<Option<(Option<usize>, String)>, SessionError> {
        let steps = batch.bundled(&|_| false);
        Ok(match self.bundle(batch, &steps).await? {
            Bundle::Committed => None,
            Bundle::Refused(refused) => {
                refused.into_iter().next().map(|first| (Some(first.place), first.reason))
            }
            Bundle::Failed(why) => Some((None, why)),
        })
    }

    /// Sends messages of a batch in one bundle. A switch that refuses a message of a bundle would still commit the rest,
    /// so the bundle is committed only if there was no error.
    async fn bundle(&mut self, batch: &Batch, steps: &[Step]) -> Result<Bundle, SessionError> {
        let (id, begun) = (self.next_bundle, self.sent.map_or_else(Instant::now, |sent| sent.begun));
        self.next_bundle = self.next_bundle.wrapping_add(1);
        let open = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), open, id, bundle::OPEN_REQUEST);
        let put = |out: &mut BytesMut, xid: u32, step: Step| batch.put_bundled(out, id, xid, step);
        let mut errors = self.send_all("a bundle", steps, put).await?;
        if errors.is_empty() {
            self.sent = Some(BundleTimes { begun, committed: Instant::now() });
            return self.commit(id, errors).await;
        }
        let discard = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), discard, id, bundle::DISCARD_REQUEST);
        let observer = &self.observer;
        self.connection
            .wait_for("the discard of a bundle", |frame| {
                // An error is fine too: the bundle does not exist any more.
                if frame.header.xid == discard {
                    return Ok(Some(()));
                }
                errors.add(&frame, observer);
                Ok(None)
            })
            .await?;
        Ok(errors.verdict())
    }

    async fn commit(&mut self, id: u32, mut errors: Errors<'_>) -> Result<Bundle, SessionError> {
        let xid = self.connection.xids(0);
        wire::put_bundle_control(self.connection.write_buffer(), xid, id, bundle::COMMIT_REQUEST);
        let observer = &self.observer;
        let committed = self
            .connection
            .wait_for("the commit of a bundle", |frame| {
                if frame.header.xid == xid && frame.header.kind == kind::BUNDLE_CONTROL {
                    return Ok(Some(wire::bundle_control(frame.body()) == Some(bundle::COMMIT_REPLY)));
                }
                errors.add(&frame, observer);
                // The error about the commit follows the error about the change that caused it.
                Ok((frame.header.xid == xid).then_some(false))
            })
            .await?;
        Ok(if committed { Bundle::Committed } else { errors.verdict() })
    }

    /// Sends messages of a batch without a bundle.
    async fn one_by_one(
        &mut self,
        what: &'static str,
        batch: &Batch,
        steps: &[Step],
    ) -> Result<Vec<RefusedChange>, SessionError> {
        let put = |out: &mut BytesMut, xid: u32, step: Step| batch.put(out, xid, step);
        let errors = self.send_all(what, steps, put).await?;
        Ok(errors.refused)
    }

    /// Sends messages encoded by `put`, then a barrier, and returns the errors received before the barrier's reply.
    async fn send_all<'a>(
        &mut self,
        what: &'static str,
        steps: &'a [Step],
        put: impl Fn(&mut BytesMut, u32, Step) -> Result<(), TooLong>,
    ) -> Result<Errors<'a>, SessionError> {
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX - 2);
        let first = self.connection.xids(count);
        let barrier = first + count;
        let mut errors = Errors { first, steps, refused: Vec::new(), other: None };
        let mut left = (first..barrier).zip(steps);
        let mut unsent = Vec::new();
        let feed = |out: &mut BytesMut| {
            let start = out.len();
            while out.len() - start < CHUNK_BYTES {
                let Some((xid, step)) = left.next() else {
                    wire::put_short(out, kind::BARRIER_REQUEST, barrier, []);
                    return true;
                };
                if let Err(error) = put(out, xid, *step) {
                    unsent.push(RefusedChange { place: step.place, reason: error.to_string() });
                }
            }
            false
        };
        let observer = &self.observer;
        self.connection
            .exchange(what, feed, |frame| {
                if frame.header.xid == barrier && frame.header.kind == kind::BARRIER_REPLY {
                    return Ok(Some(()));
                }
                errors.add(&frame, observer);
                Ok(None)
            })
            .await?;
        errors.refused.append(&mut unsent);
        Ok(errors)
    }
}

/// Errors about the messages of one batch, attributed to changes by transaction id.
struct Errors<'a> {
    /// The transaction id of the first message. Later messages have consecutive ids.
    first: u32,
    steps: &'a [Step],
    refused: Vec<RefusedChange>,
    /// The first error that concerns no particular change.
    other: Option<String>,
}

impl Errors<'_> {
    fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.other.is_none()
    }

    fn add(&mut self, frame: &Frame, observer: &Observer) {
        if frame.header.kind != kind::ERROR {
            observer.see(frame);
            return;
        }
        let reason = error::describe(frame);
        let index = frame.header.xid.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.steps.get(index)) {
            Some(step) => self.refused.push(RefusedChange { place: step.place, reason }),
            None => {
                self.other.get_or_insert(reason);
            }
        }
    }

    fn verdict(self) -> Bundle {
        if self.refused.is_empty() {
            Bundle::Failed(self.other.unwrap_or_else(|| "the switch gave no reason".to_owned()))
        } else {
            Bundle::Refused(self.refused)
        }
    }
}

/// Logs an unsolicited message. The switch may report port changes and the like at any time.
fn unsolicited(frame: &Frame) {
    if frame.header.kind == kind::BUNDLE_CONTROL {
        // The reply to an open, which no request waits for.
        return;
    }
    let Header { kind, xid, .. } = frame.header;
    tracing::debug!(kind, xid, "ignored a message from the switch");
}

fn malformed(problem: String, frame: &Frame) -> SessionError {
    Malformed { problem, bytes: Excerpt::new(&frame.bytes) }.into()
}

/// Versions agree if both bitmaps include 1.5. A peer without a bitmap must have version 1.5 in its header (section
/// 6.3.1).
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
        Ok(_) => Err(malformed("not a features reply".to_owned(), frame)),
        Err(error) => Err(malformed(error.to_string(), frame)),
    }
}
