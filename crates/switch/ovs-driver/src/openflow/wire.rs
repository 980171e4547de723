//! The encoding of the messages that are sent by the hundred thousand, and the header of every message.
//!
//! Layouts: OpenFlow Switch Specification 1.5.1, sections 7.1, 7.3.4.2 (flow-mod), 7.3.9 (bundles) and 7.3.5.2
//! (flow descriptions); groups have a file of their own.

use bytes::BytesMut;
use openflow_rs::{Body, EncodeError, Message};

use super::steps::Step;
use crate::forwarding::Batch;
use crate::ledger::FlowChange;
use switch_model::flow::{self, Flow, FlowKey};
use switch_model::{FlowCount, SeenFlow, zone};

/// OpenFlow 1.5.
pub(crate) const VERSION: u8 = 6;
/// Version, type, length, transaction id.
pub(crate) const HEADER_LEN: usize = 8;

/// Message types (section 7.1.1).
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0;
    pub(crate) const ERROR: u8 = 1;
    pub(crate) const ECHO_REQUEST: u8 = 2;
    pub(crate) const ECHO_REPLY: u8 = 3;
    pub(crate) const EXPERIMENTER: u8 = 4;
    pub(crate) const FEATURES_REPLY: u8 = 6;
    pub(crate) const FLOW_MOD: u8 = 14;
    pub(crate) const GROUP_MOD: u8 = 15;
    pub(crate) const MULTIPART_REQUEST: u8 = 18;
    pub(crate) const MULTIPART_REPLY: u8 = 19;
    pub(crate) const BARRIER_REQUEST: u8 = 20;
    pub(crate) const BARRIER_REPLY: u8 = 21;
    pub(crate) const ROLE_REPLY: u8 = 25;
    pub(crate) const ROLE_STATUS: u8 = 30;
    pub(crate) const BUNDLE_CONTROL: u8 = 33;
    pub(crate) const BUNDLE_ADD: u8 = 34;
}

/// The operations of a bundle control message (`ofp_bundle_ctrl_type`).
pub(crate) mod bundle {
    pub(crate) const OPEN_REQUEST: u16 = 0;
    pub(crate) const COMMIT_REQUEST: u16 = 4;
    pub(crate) const COMMIT_REPLY: u16 = 5;
    pub(crate) const DISCARD_REQUEST: u16 = 6;
    /// `OFPBF_ATOMIC | OFPBF_ORDERED`: all or nothing, in the order given.
    pub(crate) const FLAGS: u16 = 3;
}

/// `OFPFC_ADD`: replaces the flow with the same match and priority, and keeps its counters.
const ADD: u8 = 0;
/// `OFPFC_DELETE_STRICT`: deletes the flow with exactly this match and priority.
const DELETE_STRICT: u8 = 4;
/// No buffered packet.
const NO_BUFFER: u32 = u32::MAX;
/// `OFPP_ANY`, `OFPG_ANY`: no restriction on the output of a deleted flow.
const ANY: u32 = u32::MAX;
/// `OFPMP_FLOW_DESC`.
const FLOW_DESC: u16 = 1;
/// `OFPMPF_REPLY_MORE`.
pub(crate) const MORE: u16 = 1;

/// The first eight bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    /// The length of the whole message, in bytes.
    pub(crate) length: u16,
    pub(crate) xid: u32,
}

impl Header {
    /// The header at the start of these bytes, if they are long enough.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER_LEN>()?;
        let (length, xid) = (u16::from_be_bytes([l0, l1]), u32::from_be_bytes([x0, x1, x2, x3]));
        Some(Header { version, kind, length, xid })
    }
}

/// A message has no room for what it is to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its message would take {bytes} bytes, and OpenFlow has room for {max}: give it fewer members, such as ports of a switch, \
     next hops of a route or addresses of an ACL",
    max = u16::MAX
)]
pub(crate) struct TooLong {
    pub(crate) bytes: usize,
}

/// Appends a message. The only encoder of messages in place: all lengths inside a message are less than its own, so checking
/// that one checks them all. Appends nothing if the message is too long.
pub(crate) fn put_message(
    out: &mut BytesMut,
    kind: u8,
    xid: u32,
    body: impl FnOnce(&mut BytesMut) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[VERSION, kind, 0, 0]);
    out.extend_from_slice(&xid.to_be_bytes());
    let put = body(out);
    let bytes = out.len() - start;
    let length = put.and_then(|()| u16::try_from(bytes).map_err(|_| TooLong { bytes }));
    match (length, out.get_mut(start + 2..start + 4)) {
        (Ok(length), Some(field)) => field.copy_from_slice(&length.to_be_bytes()),
        (Err(error), _) => {
            out.truncate(start);
            return Err(error);
        }
        (Ok(_), None) => {}
    }
    Ok(())
}

/// Appends a short message, whose body has a fixed size.
pub(crate) fn put_short<const N: usize>(out: &mut BytesMut, kind: u8, xid: u32, body: [u8; N]) {
    const { assert!(HEADER_LEN + N <= u16::MAX as usize) };
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&((HEADER_LEN + N) as u16).to_be_bytes());
    out.extend_from_slice(&xid.to_be_bytes());
    out.extend_from_slice(&body);
}

/// Appends a message that the typed codec encodes.
pub(super) fn put_typed(out: &mut BytesMut, xid: u32, body: Body) -> Result<(), TooLong> {
    let bytes = (Message { xid, body }).encode().map_err(|error| match error {
        EncodeError::TooLong { len } => TooLong { bytes: len },
        // None is sent in this way.
        EncodeError::NestedBundle => TooLong { bytes: usize::MAX },
    })?;
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Appends a flow-mod.
pub(crate) fn put_flow_mod(out: &mut BytesMut, xid: u32, change: &FlowChange) -> Result<(), TooLong> {
    let FlowChange { key, value, .. } = change;
    let (command, cookie, instructions) = match value {
        Some(flow) => (ADD, flow.cookie(), flow.instructions()),
        None => (DELETE_STRICT, 0, &[][..]),
    };
    put_message(out, kind::FLOW_MOD, xid, |out| {
        out.extend_from_slice(&cookie.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&[key.table(), command]);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&key.priority().to_be_bytes());
        for restriction in [NO_BUFFER, ANY, ANY] {
            out.extend_from_slice(&restriction.to_be_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(key.match_bytes());
        out.extend_from_slice(instructions);
        Ok(())
    })
}

/// Appends the message of one step of a batch.
pub(crate) fn put_step(out: &mut BytesMut, xid: u32, batch: &Batch, step: Step) -> Result<(), TooLong> {
    match step {
        Step::Flow(place) => batch.flows.get(place).map_or(Ok(()), |change| put_flow_mod(out, xid, change)),
        Step::Claim(place) => batch.flows.get(place).map_or(Ok(()), |change| {
            let value = change.value.as_ref().map(zone::unclean);
            put_flow_mod(out, xid, &FlowChange { value, ..change.clone() })
        }),
        Step::Flush(place) => {
            let zone = batch.flows.get(place).and_then(|change| zone::marked(&change.key));
            zone.map_or(Ok(()), |zone| put_typed(out, xid, Body::CtFlushZone(zone)))
        }
        Step::Group(place, what) => batch
            .groups
            .get(place)
            .map_or(Ok(()), |change| super::groups::put_group_mod(out, xid, change, what)),
        Step::Meter(place) => {
            batch.meters.get(place).map_or(Ok(()), |change| super::meters::put_meter_mod(out, xid, change))
        }
    }
}

/// Appends the message of one step inside a bundle. Both messages have the same id, as the specification requires.
pub(crate) fn put_bundle_add(
    out: &mut BytesMut,
    bundle_id: u32,
    xid: u32,
    batch: &Batch,
    step: Step,
) -> Result<(), TooLong> {
    put_message(out, kind::BUNDLE_ADD, xid, |out| {
        out.extend_from_slice(&bundle_id.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&bundle::FLAGS.to_be_bytes());
        put_step(out, xid, batch, step)
    })
}

/// Appends a bundle control message.
pub(crate) fn put_bundle_control(out: &mut BytesMut, xid: u32, bundle_id: u32, control: u16) {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&bundle_id.to_be_bytes());
    body[4..6].copy_from_slice(&control.to_be_bytes());
    body[6..].copy_from_slice(&bundle::FLAGS.to_be_bytes());
    put_short(out, kind::BUNDLE_CONTROL, xid, body);
}

/// The control type of a bundle control message, given its body.
pub(crate) fn bundle_control(body: &[u8]) -> Option<u16> {
    body.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes)
}

/// Part of a reply is not a well-formed description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a description is malformed at byte {offset} of its message")]
pub(crate) struct BadDesc {
    pub(super) offset: usize,
}

/// Reads one part of the reply to a flow description request from the message's body, and passes every flow to
/// `take`. Returns whether more parts follow; `None` if the message replies to another request.
pub(crate) fn flow_descs(body: &[u8], mut take: impl FnMut(FlowKey, Flow)) -> Result<Option<bool>, BadDesc> {
    descriptions(body, FLOW_DESC, |entry| flow_desc(entry).map(|(key, flow)| take(key, flow)))
}

/// Reads one part of the reply to a flow description request from the whole message, and adds what this flow has counted. The
/// request names a match, and the switch describes all flows whose packets it covers. The result is that of [`flow_descs`], and the
/// number of other flows.
pub(crate) fn flow_count(
    message: &[u8],
    key: &FlowKey,
    counts: &mut Vec<FlowCount>,
) -> Result<(Option<bool>, usize), BadDesc> {
    let message = Message::decode(message).map_err(|error| BadDesc { offset: error.offset })?;
    let Body::FlowDescReply(reply) = message.body else { return Ok((None, 0)) };
    let before = counts.len();
    for flow in reply.flows.iter().filter(|flow| flow.entry.priority == key.priority()) {
        let found = FlowKey::new(flow.entry.table, flow.entry.priority, &flow.entry.matches);
        if found.as_ref() == Ok(key) {
            let (packets, bytes) = (flow.packets.unwrap_or(0), flow.bytes.unwrap_or(0));
            counts.push(FlowCount { key: key.clone(), packets, bytes });
        }
    }
    Ok((Some(reply.more), reply.flows.len() - (counts.len() - before)))
}

/// Reads one part of the reply to a flow description request from the whole message, and adds its flows. The result is that of
/// [`flow_descs`].
pub(crate) fn seen_flows(message: &[u8], flows: &mut Vec<SeenFlow>) -> Result<Option<bool>, BadDesc> {
    let message = Message::decode(message).map_err(|error| BadDesc { offset: error.offset })?;
    let Body::FlowDescReply(reply) = message.body else { return Ok(None) };
    flows.extend(reply.flows.into_iter().map(|flow| {
        let (packets, bytes) = (flow.packets.unwrap_or(0), flow.bytes.unwrap_or(0));
        SeenFlow { entry: flow.entry, packets, bytes }
    }));
    Ok(Some(reply.more))
}

/// Reads one part of a reply that consists of descriptions, each beginning with its length. `take` returns whether it
/// understood the description.
pub(super) fn descriptions(
    body: &[u8],
    kind: u16,
    mut take: impl FnMut(&[u8]) -> Option<()>,
) -> Result<Option<bool>, BadDesc> {
    let [t0, t1, f0, f1, _, _, _, _, rest @ ..] = body else {
        return Err(BadDesc { offset: HEADER_LEN });
    };
    if u16::from_be_bytes([*t0, *t1]) != kind {
        return Ok(None);
    }
    let mut rest = rest;
    while !rest.is_empty() {
        let bad = BadDesc { offset: HEADER_LEN + body.len() - rest.len() };
        let (entry, after) = split_desc(rest).ok_or(bad)?;
        take(entry).ok_or(bad)?;
        rest = after;
    }
    Ok(Some(u16::from_be_bytes([*f0, *f1]) & MORE != 0))
}

fn split_desc(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::from(u16_at(bytes, 0)?))
}

fn flow_desc(entry: &[u8]) -> Option<(FlowKey, Flow)> {
    const FIXED: usize = 24;
    let (table, priority) = (*entry.get(4)?, u16_at(entry, 6)?);
    let attributes = entry.get(8..16)?.try_into().ok()?;
    let cookie = u64::from_be_bytes(entry.get(16..FIXED)?.try_into().ok()?);
    let (matching, rest) = split_padded(entry.get(FIXED..)?)?;
    let (_statistics, instructions) = split_padded(rest)?;
    Some(flow::from_switch((table, priority), (cookie, attributes), matching, instructions))
}

/// Splits off a structure that has its length in its third and fourth byte, with padding to eight bytes.
pub(super) fn split_padded(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16_at(bytes, 2)?);
    if length < 4 {
        return None;
    }
    bytes.split_at_checked(length.next_multiple_of(8))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow_rs::message::{BundleAdd, BundleControl, BundleFlags, BundleOp, FlowDescReply};
    use openflow_rs::{Body, FlowEntry, FlowFlags, FlowMod, FlowStats, Message};
    use std::sync::Arc;
    use std::time::Duration;

    const FLOW: &str = "cookie=0x5, table=3, priority=100,ip,reg0=0x7,nw_dst=10.0.0.0/24 actions=set_field:0x8->reg1,resubmit(,4)";

    fn entry(text: &str) -> FlowEntry {
        text.parse().expect("a flow")
    }

    fn change(text: &str, adds: bool) -> FlowChange {
        let entry = entry(text);
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("short");
        let value = adds.then(|| Flow::new(entry.cookie, &entry.actions).expect("short"));
        FlowChange { key, value, installed: None, txn: None }
    }

    /// The typed codec is the oracle for the bytes written here.
    #[test]
    fn flow_mods_and_bundles_read_as_what_they_are() {
        for (adds, flow_mod) in
            [(true, FlowMod::add(entry(FLOW))), (false, FlowMod::delete_strict(entry(FLOW)))]
        {
            let change = change(FLOW, adds);
            let mut alone = BytesMut::new();
            put_flow_mod(&mut alone, 9, &change).expect("short");
            let body = Body::FlowMod(flow_mod);
            assert_eq!(Message::decode(&alone), Ok(Message { xid: 9, body: body.clone() }));

            let mut bundled = BytesMut::new();
            let batch = Batch { flows: Arc::new(vec![change]), ..Batch::default() };
            put_bundle_add(&mut bundled, 3, 9, &batch, Step::Flow(0)).expect("short");
            let add = BundleAdd { bundle_id: 3, flags: BundleFlags(3), body: Box::new(body) };
            assert_eq!(Message::decode(&bundled), Ok(Message { xid: 9, body: Body::BundleAdd(add) }));
        }
        for (control, op) in [
            (bundle::OPEN_REQUEST, BundleOp::OpenRequest),
            (bundle::COMMIT_REQUEST, BundleOp::CommitRequest),
            (bundle::DISCARD_REQUEST, BundleOp::DiscardRequest),
        ] {
            let mut bytes = BytesMut::new();
            put_bundle_control(&mut bytes, 9, 3, control);
            let body = Body::BundleControl(BundleControl { bundle_id: 3, op, flags: BundleFlags(3) });
            assert_eq!(Message::decode(&bytes), Ok(Message { xid: 9, body }));
        }
    }

    #[test]
    fn d23_a_message_that_is_too_long_is_refused_and_nothing_of_it_is_sent() {
        let room = usize::from(u16::MAX) - HEADER_LEN;
        for (length, fits) in [(0, true), (room, true), (room + 1, false), (1 << 20, false)] {
            let mut out = BytesMut::from(&b"before"[..]);
            let put = put_message(&mut out, kind::ECHO_REQUEST, 9, |out| {
                out.extend_from_slice(&vec![7; length]);
                Ok(())
            });
            assert_eq!(put, if fits { Ok(()) } else { Err(TooLong { bytes: HEADER_LEN + length }) });
            let message = &out["before".len()..];
            assert_eq!(message.len(), if fits { HEADER_LEN + length } else { 0 });
            if fits {
                assert_eq!(
                    Header::read(message).map(|header| usize::from(header.length)),
                    Some(message.len())
                );
            }
            // The message around one that is too long is not sent either.
            let mut out = BytesMut::new();
            let inner = |out: &mut BytesMut| {
                put_message(out, kind::ECHO_REQUEST, 9, |out| {
                    out.extend_from_slice(&vec![7; length]);
                    Ok(())
                })
            };
            let outer = put_message(&mut out, kind::BUNDLE_ADD, 9, inner);
            assert_eq!((outer.is_ok(), out.is_empty()), (length == 0, length > 0));
        }
        assert_eq!(
            TooLong { bytes: 70_000 }.to_string(),
            "its message would take 70000 bytes, and OpenFlow has room for 65535: give it fewer members, such as ports of a \
             switch, next hops of a route or addresses of an ACL"
        );
    }

    #[test]
    fn a_dump_is_read_flow_by_flow_and_attributes_make_a_difference() {
        let lasting = FlowStats {
            entry: entry(FLOW),
            duration: Duration::from_secs(5),
            packets: Some(7),
            bytes: Some(8),
            idle_s: None,
        };
        let mut flagged = lasting.clone();
        flagged.entry.flags = FlowFlags::SEND_FLOW_REM;
        let reply = FlowDescReply { more: true, flows: vec![lasting, flagged], unreadable: Vec::new() };
        let bytes = Message { xid: 1, body: Body::FlowDescReply(reply) }.encode().expect("short");
        let mut read = Vec::new();
        assert_eq!(flow_descs(&bytes[HEADER_LEN..], |key, flow| read.push((key, flow))), Ok(Some(true)));
        let FlowChange { key, value: flow, .. } = change(FLOW, true);
        assert_eq!(read.iter().map(|(read, _)| read == &key).collect::<Vec<_>>(), [true, true]);
        assert_eq!(
            read.iter().map(|(_, read)| Some(read) == flow.as_ref()).collect::<Vec<_>>(),
            [true, false]
        );
        for length in HEADER_LEN..bytes.len() {
            let whole = flow_descs(&bytes[HEADER_LEN..length], |_, _| {}).is_ok();
            let boundary =
                length == HEADER_LEN + 8 || length == HEADER_LEN + 8 + (bytes.len() - HEADER_LEN - 8) / 2;
            assert_eq!(whole, boundary, "cut at {length}");
        }
    }
}
