//! The connections of a fake switch. Like `ovs-vswitchd`, it answers each message before it reads the next, and stops
//! reading while the client does not take its answers.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use openflow_rs::message::{BundleControl, BundleFlags, BundleOp, Capabilities, ErrorCode, ErrorMessage};
use openflow_rs::message::{
    Features, FlowDescReply, FlowDescRequest, GroupDescReply, Hello, MeterDescReply, MeterStatsReply,
    PortDescReply, TlvCommand, TlvTableReply, VERSION,
};
use openflow_rs::{
    Actions, Body, EncodeError, FlowEntry, FlowMod, FlowStats, Frame, GroupEntry, GroupKind, GroupMod, Match,
    Message, MeterMod, MeterStats,
};
use peer_connection::Stream;
use switch_model::{Flow, FlowKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::sync::watch;

use super::dump::Dump;
use super::former::Former;
use super::table::{Refusal, Table};
use super::{Fault, Shared, Stage, State, monitor_reply};
use crate::listener::Listener;

/// The most descriptions in one part of an answer, if they fit into a message.
const DESCRIPTIONS_PART: usize = 400;
/// The descriptions in a part of an endless dump.
const PART: usize = 500;
/// `OFPT_MULTIPART_REQUEST`.
const MULTIPART_REQUEST: u8 = 18;
/// `OFPT_MULTIPART_REPLY`.
const MULTIPART_REPLY: u8 = 19;
/// `OFPMP_TABLE_FEATURES`.
const TABLE_FEATURES: [u8; 2] = [0, 12];
/// The bytes that are read at a time: at first, and while more are there than that.
const READ_LEAST: usize = 2 << 10;
const READ_MOST: usize = 64 << 10;
/// The bytes that [`Fault::Garbage`] sends.
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\r\n";

pub(super) async fn listen(mut listener: Listener, shared: Arc<Shared>) {
    while let Ok(stream) = listener.accept().await {
        if shared.lock().is_cut_off() {
            continue;
        }
        shared.lock().counts.connections += 1;
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut generation = shared.generation.subscribe();
            let (number, notices) = shared.lock().roles.connect();
            let connection = Connection {
                stream,
                shared,
                bundles: HashMap::new(),
                replies: Vec::new(),
                monitor: None,
                number,
                notices,
            };
            tokio::select! {
                _ = connection.serve() => {}
                _ = generation.changed() => {}
            }
        });
    }
}

/// A change of a flow, of all flows that a flow-mod finds, or of a group.
enum Staged {
    Flow(FlowKey, Option<Flow>),
    Found(FlowMod),
    Group(GroupMod),
}

struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    /// By bundle id, the messages, each with its transaction id.
    bundles: HashMap<u32, Vec<(u32, Staged)>>,
    /// Encoded replies, not sent yet.
    replies: Vec<u8>,
    /// The number of this monitor, and the reports to send.
    monitor: Option<(usize, mpsc::UnboundedReceiver<Vec<u8>>)>,
    /// The number of the connection, and what it is told of its role.
    number: usize,
    notices: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.lock().roles.disconnect(self.number);
        if let Some((number, _)) = &self.monitor {
            self.shared.lock().monitors.remove(number);
        }
    }
}

/// The next report of the monitor. Never completes if there is no monitor.
async fn report(monitor: &mut Option<(usize, mpsc::UnboundedReceiver<Vec<u8>>)>) -> Vec<u8> {
    if let Some((_, reports)) = monitor
        && let Some(report) = reports.recv().await
    {
        return report;
    }
    std::future::pending().await
}

impl Connection {
    async fn serve(mut self) -> io::Result<()> {
        let mut frozen = self.shared.frozen.subscribe();
        let hello = Hello::with_versions(self.shared.lock().versions.unwrap_or(1 << VERSION));
        self.reply(0, Body::Hello(hello));
        thawed(&mut frozen).await;
        self.flush().await?;
        let mut buffer = BytesMut::new();
        let mut room = READ_LEAST;
        loop {
            while let Frame::Message(length) = openflow_rs::frame(&buffer).map_err(io::Error::other)? {
                thawed(&mut frozen).await;
                let bytes = buffer.split_to(length);
                let message = Message::decode(&bytes).map_err(io::Error::other)?;
                if !self.shared.lock().receives() {
                    return Ok(());
                }
                match self.fault(&message.body) {
                    Some(Fault::Ignore) => continue,
                    Some(fault) => return self.fail(fault, message).await,
                    None => self.answer(message),
                }
                self.shared.lock().forward();
                self.flush().await?;
            }
            let slow = self.shared.lock().slow;
            if let Some((pause, _)) = slow {
                tokio::time::sleep(pause).await;
            }
            let bytes_max = slow.map_or(room, |(_, bytes)| bytes);
            if buffer.is_empty() {
                // A connection that waits keeps no more than this.
                buffer = BytesMut::with_capacity(bytes_max);
            }
            buffer.reserve(bytes_max);
            let mut reader = (&mut self.stream).take(bytes_max as u64);
            thawed(&mut frozen).await;
            tokio::select! {
                // Biased, because a switch reports earlier changes before it reads the next request.
                biased;
                Some(notice) = self.notices.recv() => {
                    self.replies.extend_from_slice(&notice);
                    self.flush().await?;
                }
                report = report(&mut self.monitor) => {
                    self.replies.extend_from_slice(&report);
                    self.flush().await?;
                }
                read = reader.read_buf(&mut buffer) => match read? {
                    0 => return Ok(()),
                    read if read == room => room = READ_MOST,
                    _ => room = READ_LEAST,
                },
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.replies).await?;
        self.replies.clear();
        Ok(())
    }

    /// The fault that is due at this message, if any.
    fn fault(&self, body: &Body) -> Option<Fault> {
        let mut state = self.shared.lock();
        let stage = stage(body)?;
        let (wanted, fault) = *state.faults.front()?;
        if stage != wanted {
            return None;
        }
        state.faults.pop_front();
        state.counts.faults += 1;
        Some(fault)
    }

    async fn fail(mut self, fault: Fault, message: Message) -> io::Result<()> {
        match fault {
            Fault::Close => return Ok(()),
            Fault::Garbage => self.stream.write_all(GARBAGE).await?,
            Fault::Stall | Fault::Ignore => {}
            Fault::EmptyParts | Fault::Trickle => {
                for number in 0.. {
                    let end = if fault == Fault::Trickle { number + 1 } else { number };
                    self.part(message.xid, &message.body, number..end);
                    self.flush().await?;
                    tokio::time::sleep(Duration::from_secs(4)).await;
                }
            }
            Fault::Endless => {
                for first in (0_u32..).step_by(PART) {
                    self.part(message.xid, &message.body, first..first + PART as u32);
                    self.flush().await?;
                }
            }
            Fault::StallMidMessage => {
                // Half of an echo reply, which a client accepts at any time.
                self.replies.clear();
                self.reply(message.xid, Body::EchoReply(vec![0; 16]));
                self.replies.truncate(12);
                self.flush().await?;
            }
        }
        // Nothing more is read until the peer gives up or the fake ends.
        tokio::time::sleep(Duration::MAX).await;
        Ok(())
    }

    /// A part, but not the last, of the answer to a request for descriptions: those with these numbers.
    fn part(&mut self, xid: u32, request: &Body, numbers: Range<u32>) {
        let more = true;
        let flow = |number: u32| {
            let (priority, matches) =
                (number as u16, format!("reg0={number}").parse().unwrap_or(Match::any()));
            let entry = FlowEntry::new(1, priority, matches, Actions::drop());
            FlowStats { entry, duration: Duration::ZERO, packets: None, bytes: None, idle_s: None }
        };
        let group = |number| GroupEntry::new(number, GroupKind::All, Vec::new());
        let body = match request {
            Body::MeterDescRequest(_) => Body::MeterDescReply(MeterDescReply { more, meters: Vec::new() }),
            Body::FlowDescRequest(_) => {
                let flows = numbers.map(flow).collect();
                Body::FlowDescReply(FlowDescReply { more, flows, unreadable: Vec::new() })
            }
            _ => {
                let groups = numbers.map(group).collect();
                Body::GroupDescReply(GroupDescReply { more, groups, unreadable: Vec::new() })
            }
        };
        self.reply(xid, body);
    }

    fn reply(&mut self, xid: u32, body: Body) {
        let encoded = Message { xid, body }.encode_into(&mut self.replies);
        assert_eq!(
            encoded,
            Ok(()),
            "a part of an answer that is left out would be a switch that lacks things"
        );
    }

    /// Replies with descriptions, in parts of which all but the last say that there are more.
    fn reply_in_parts<T: Clone>(&mut self, xid: u32, all: &[T], body: fn(bool, Vec<T>) -> Body) {
        let mut parts: Vec<&[T]> = all.chunks(DESCRIPTIONS_PART).rev().collect();
        if parts.is_empty() {
            self.reply(xid, body(false, Vec::new()));
        }
        while let Some(part) = parts.pop() {
            let message = Message { xid, body: body(!parts.is_empty(), part.to_vec()) };
            match message.encode_into(&mut self.replies) {
                Err(EncodeError::TooLong { .. }) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                encoded => assert_eq!(encoded, Ok(()), "a description fits into a message"),
            }
        }
    }

    fn refuse(&mut self, xid: u32, Refusal { error_type: kind, code, .. }: Refusal) {
        self.error(xid, ErrorCode::Standard { kind, code });
    }

    fn error(&mut self, xid: u32, code: ErrorCode) {
        self.reply(xid, Body::Error(ErrorMessage { code, data: vec![0; 64] }));
    }

    fn answer(&mut self, Message { xid, body }: Message) {
        if writes(&body) && !self.shared.lock().roles.may_write(self.number) {
            return self.refuse(xid, Refusal::IS_SECONDARY);
        }
        match body {
            Body::RoleRequest(request) => {
                let answer = self.shared.lock().roles.request(self.number, request);
                match answer {
                    Ok(role) => self.reply(xid, Body::RoleReply(role)),
                    Err(refusal) => self.refuse(xid, refusal),
                }
            }
            Body::EchoRequest(data) => self.reply(xid, Body::EchoReply(data)),
            Body::FeaturesRequest => {
                let id = self.shared.lock().datapath_id.unwrap_or(super::FakeSwitch::DATAPATH_ID);
                self.reply(xid, Body::FeaturesReply(Features { datapath_id: id, ..FEATURES }));
            }
            Body::BarrierRequest => self.reply(xid, Body::BarrierReply),
            // Of the first table alone: its length, and neither name nor properties (`ofp13_table_features`).
            Body::Unknown { kind: MULTIPART_REQUEST, data } if data.starts_with(&TABLE_FEATURES) => {
                let data = [&TABLE_FEATURES[..], &[0; 6], &[0, 64], &[0; 62]].concat();
                self.reply(xid, Body::Unknown { kind: MULTIPART_REPLY, data });
            }
            Body::Unknown { kind: MULTIPART_REQUEST, .. } => self.refuse(xid, Refusal::BAD_MULTIPART),
            // The fake knows no ports: tools of Open vSwitch ask for their names.
            Body::PortDescRequest(_) => {
                self.reply(xid, Body::PortDescReply(PortDescReply { more: false, ports: Vec::new() }));
            }
            Body::FlowDescRequest(request) => self.dump(xid, &request),
            Body::GroupDescRequest(_) => self.dump_groups(xid),
            Body::MeterDescRequest(_) => self.dump_meters(xid),
            Body::MeterStatsRequest(_) => self.count_meters(xid),
            Body::MeterMod(change) => self.change_meter(xid, &change),
            Body::CtFlushZone(zone) => {
                let flushed = self.shared.lock().flush_zone(zone);
                if let Err(refusal) = flushed {
                    self.refuse(xid, refusal);
                }
            }
            Body::TlvTableRequest => {
                let mappings = self.shared.lock().table.options.clone();
                self.reply(
                    xid,
                    Body::TlvTableReply(TlvTableReply { max_space: 256, max_fields: 64, mappings }),
                );
            }
            Body::TlvTableMod(change) if change.command == TlvCommand::Add => {
                self.shared.lock().table.options.extend(change.mappings);
            }
            Body::FlowMonitorRequest(_) => self.start_monitor(xid),
            Body::PacketOut(packet) => {
                let mut state = self.shared.lock();
                if !state.is_forgetful {
                    state.packets.push(packet);
                }
            }
            Body::BundleControl(control) => self.control(xid, control),
            Body::BundleAdd(add) if is_meter_mod(&add.body) => {
                self.refuse(xid, Refusal::NOT_IN_BUNDLE);
            }
            Body::BundleAdd(add) => {
                if let Some(staged) = self.checked(xid, *add.body) {
                    // Adding to an unopened bundle opens it, as in Open vSwitch.
                    self.bundles.entry(add.bundle_id).or_default().push((xid, staged));
                }
            }
            body => {
                if let Some(staged) = self.checked(xid, body)
                    && let Err((_, refusal)) = self.commit(vec![(xid, staged)])
                {
                    self.refuse(xid, refusal);
                }
            }
        }
    }

    fn start_monitor(&mut self, xid: u32) {
        let (sender, reports) = mpsc::unbounded_channel();
        let number = {
            let mut state = self.shared.lock();
            let former = self.monitor.as_ref().map(|(number, _)| *number);
            state.next_monitor += 1;
            let number = former.unwrap_or(state.next_monitor);
            state.monitors.insert(number, sender);
            number
        };
        self.monitor = Some((number, reports));
        self.replies.extend_from_slice(&monitor_reply(xid, Vec::new()));
    }

    /// Counts a flow-mod or group-mod and decodes it. Sends a refusal at once if one is due now.
    fn checked(&mut self, xid: u32, body: Body) -> Option<Staged> {
        let checked = {
            let mut state = self.shared.lock();
            match body {
                Body::GroupMod(change) => {
                    state.counts.group_mods += 1;
                    Table::check_group(&change).map(|()| Staged::Group(change))
                }
                Body::FlowMod(flow_mod) if Table::is_search(&flow_mod) => {
                    state.counts.flow_mods += 1;
                    Ok(Staged::Found(flow_mod))
                }
                Body::FlowMod(flow_mod) => {
                    state.counts.flow_mods += 1;
                    Table::target(&flow_mod).and_then(|(key, flow)| {
                        let lacks = flow.as_ref().is_some_and(|flow| state.table.lacks_meter(flow));
                        let refusal = Table::refusal(state.refuse.as_ref(), &key, flow.as_ref(), false)
                            .or(lacks.then_some(Refusal::INVALID_METER));
                        refusal.map_or(Ok(Staged::Flow(key, flow)), Err)
                    })
                }
                _ => return None,
            }
        };
        checked.map_err(|refusal| self.refuse(xid, refusal)).ok()
    }

    fn control(&mut self, xid: u32, BundleControl { bundle_id, op, .. }: BundleControl) {
        let reply = |op| Body::BundleControl(BundleControl { bundle_id, op, flags: BundleFlags(0) });
        match op {
            BundleOp::OpenRequest => {
                self.bundles.insert(bundle_id, Vec::new());
                self.reply(xid, reply(BundleOp::OpenReply));
            }
            BundleOp::DiscardRequest => {
                self.bundles.remove(&bundle_id);
                self.shared.lock().counts.discards += 1;
                self.reply(xid, reply(BundleOp::DiscardReply));
            }
            BundleOp::CommitRequest => {
                self.shared.lock().counts.commits += 1;
                let staged = self.bundles.remove(&bundle_id).unwrap_or_default();
                if self.shared.lock().fail_bundles {
                    return self.error(xid, ErrorCode::BUNDLE_MSG_FAILED);
                }
                match self.commit(staged) {
                    Ok(()) => self.reply(xid, reply(BundleOp::CommitReply)),
                    Err((message, refusal)) => {
                        self.refuse(message, refusal);
                        self.error(xid, ErrorCode::BUNDLE_MSG_FAILED);
                    }
                }
            }
            _ => {}
        }
    }

    /// Commits all messages or none. The error names the first message that fails.
    fn commit(&mut self, staged: Vec<(u32, Staged)>) -> Result<(), (u32, Refusal)> {
        let mut state = self.shared.lock();
        let mut former = Former::default();
        for (xid, staged) in staged {
            if let Err(refusal) = state.stage(staged, &mut former) {
                former.restore(&mut state.table);
                return Err((xid, refusal));
            }
        }
        state.report(&former, self.monitor.as_ref().map(|(number, _)| *number));
        Ok(())
    }

    fn change_meter(&mut self, xid: u32, change: &MeterMod) {
        let result = {
            let mut state = self.shared.lock();
            state.counts.meter_mods += 1;
            let refusal = state.refuse_meters.as_ref().and_then(|refuse| refuse(change));
            let before = state.table.clone();
            let result = refusal.map_or_else(|| state.table.change_meter(change), Err);
            // Open vSwitch does not know which connection the flows of a deleted meter are gone for.
            state.report(&Former::between(before, &state.table), None);
            result
        };
        if let Err(refusal) = result {
            self.refuse(xid, refusal);
        }
    }

    fn dump_meters(&mut self, xid: u32) {
        let meters: Vec<_> = self.shared.lock().table.meters.values().cloned().collect();
        self.reply_in_parts(xid, &meters, |more, meters| {
            Body::MeterDescReply(MeterDescReply { more, meters })
        });
    }

    fn count_meters(&mut self, xid: u32) {
        let meters: Vec<_> = {
            let state = self.shared.lock();
            let counted = |id: &u32| {
                let (packets, dropped) = state.metered.get(id).copied().unwrap_or_default();
                let bands = vec![(dropped, 0)];
                let bytes = packets * 100;
                MeterStats { id: *id, flows: 0, packets, bytes, duration: Duration::ZERO, bands }
            };
            state.table.meters.keys().map(counted).collect()
        };
        self.reply_in_parts(xid, &meters, |more, meters| {
            Body::MeterStatsReply(MeterStatsReply { more, meters })
        });
    }

    fn dump_groups(&mut self, xid: u32) {
        let groups: Vec<_> = {
            let mut state = self.shared.lock();
            state.counts.group_dumps += 1;
            state.table.groups.values().cloned().collect()
        };
        self.reply_in_parts(xid, &groups, |more, groups| {
            Body::GroupDescReply(GroupDescReply { more, groups, unreadable: Vec::new() })
        });
    }

    fn dump(&mut self, xid: u32, request: &FlowDescRequest) {
        let mut state = self.shared.lock();
        state.counts.dumps += 1;
        if !state.is_forgetful {
            state.requests.push(request.clone());
        }
        let all = request.table == FlowDescRequest::all().table;
        let mut dump = Dump::new(xid);
        for (key, flow) in &state.table.flows {
            if all || key.table() == request.table {
                dump.add(key, flow, state.passed.get(key).copied().unwrap_or_default());
            }
        }
        self.replies.extend(dump.finish());
    }
}

impl State {
    /// Makes a change of a bundle, unless it is refused.
    fn stage(&mut self, staged: Staged, former: &mut Former) -> Result<(), Refusal> {
        match staged {
            Staged::Group(change) => {
                let refusal = self.refuse_groups.as_ref().and_then(|refuse| refuse(&change));
                refusal.map_or(Ok(()), Err)?;
                former.note_group(&self.table, &change);
                self.table.change_group(&change)
            }
            Staged::Found(search) => {
                for (key, flow) in self.table.found(&search)? {
                    former.note_flow(&self.table, &key);
                    self.table.apply(key, flow);
                }
                Ok(())
            }
            Staged::Flow(key, flow) => {
                let lacks = flow.as_ref().is_some_and(|flow| self.table.lacks_group(flow));
                let refusal = Table::refusal(self.refuse.as_ref(), &key, flow.as_ref(), true);
                refusal.or(lacks.then_some(Refusal::BAD_OUT_GROUP)).map_or(Ok(()), Err)?;
                former.note_flow(&self.table, &key);
                self.table.apply(key, flow);
                Ok(())
            }
        }
    }
}

/// Whether the body of a bundled message is a meter-mod, which is not read in a bundle.
fn is_meter_mod(body: &Body) -> bool {
    const METER_MOD: u8 = 29;
    matches!(body, Body::Unknown { kind: METER_MOD, .. })
}

/// Whether a secondary controller may not send this.
fn writes(body: &Body) -> bool {
    matches!(
        body,
        Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::MeterMod(_)
            | Body::BundleControl(_)
            | Body::BundleAdd(_)
            | Body::PacketOut(_)
    )
}

/// Waits while the switch is frozen.
async fn thawed(frozen: &mut watch::Receiver<bool>) {
    // An error means that the fake has ended together with its connections.
    let _ = frozen.wait_for(|frozen| !*frozen).await;
}

const FEATURES: Features = Features {
    datapath_id: super::FakeSwitch::DATAPATH_ID,
    n_buffers: 0,
    n_tables: 254,
    auxiliary_id: 0,
    capabilities: Capabilities(0),
};

fn stage(body: &Body) -> Option<Stage> {
    Some(match body {
        Body::Hello(_) => Stage::Hello,
        Body::FeaturesRequest => Stage::Features,
        Body::EchoRequest(_) => Stage::Echo,
        Body::TlvTableRequest => Stage::Options,
        Body::GroupDescRequest(_) => Stage::Groups,
        Body::MeterDescRequest(_) => Stage::Meters,
        Body::MeterMod(_) => Stage::MeterMod,
        Body::CtFlushZone(_) => Stage::Flush,
        Body::FlowDescRequest(_) => Stage::Dump,
        Body::BarrierRequest => Stage::Barrier,
        Body::FlowMod(_) => Stage::FlowMod,
        Body::BundleAdd(_) => Stage::Add,
        Body::BundleControl(BundleControl { op: BundleOp::OpenRequest, .. }) => Stage::Open,
        Body::BundleControl(BundleControl { op: BundleOp::CommitRequest, .. }) => Stage::Commit,
        Body::BundleControl(BundleControl { op: BundleOp::DiscardRequest, .. }) => Stage::Discard,
        _ => return None,
    })
}
