//! Flows, and among them the marks of conntrack zones (OpenFlow 1.5, sections 7.3.4.2 and 7.3.5.2).
//!
//! A switch has a mark for each zone with an owner, and zones are flushed around the bundle that changes marks (`switch_model::zone`).

use std::borrow::Cow;
use std::fmt;

use bytes::BytesMut;
use openflow_rs::message::FlowDescRequest;
use openflow_rs::{Body, Message};
use switch_model::flow::{self, Flow, FlowKey};
use switch_model::zone::{self, ZoneOwner};
use switch_model::{Changes, Desired, FlowCount, SeenFlow};

use super::{Batch, ChangeOf, Dump, InOpenFlow, Things, When};
use crate::wire::{self, BadDesc, HEADER_LEN, TooLong, kind, u16_at};

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

/// The flows of a switch.
#[derive(Debug)]
pub(crate) enum Flows {}

/// A change of a flow.
pub(crate) type FlowChange = ChangeOf<Flows>;

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowAct {
    /// Adds, replaces or deletes the flow.
    Put,
    /// Puts the mark of a zone that must be flushed once more.
    Claim,
    /// Flushes the zone that the flow marks.
    Flush,
}

impl InOpenFlow for Flows {
    type Key = FlowKey;
    type Value = Flow;
    type Source = ();
    type Act = FlowAct;

    const ALONE: &'static str = "flushes of zones";
    /// At about 200 bytes a flow, they take 1 GB here and 5 GB in the switch.
    const DUMP: Dump = Dump { request: "the flow dump", what: "flows", max: 4_000_000 };
    const IS_REPORTED: bool = true;

    /// The flows of a state, and the marks of its zones.
    fn set<'d>((): &mut (), desired: &'d Desired) -> Cow<'d, Things<Self>> {
        if desired.zones.is_empty() {
            return Cow::Borrowed(&desired.flows);
        }
        let mut flows = desired.flows.clone();
        flows.extend(desired.zones.iter().map(|(zone, owner)| (zone::key(*zone), owner.mark())));
        Cow::Owned(flows)
    }

    fn push((): &mut (), changes: &Changes, mut push: impl FnMut(FlowKey, Option<Flow>)) {
        changes.flows.each().for_each(|(key, flow)| push(key.clone(), flow.cloned()));
        changes.zones.each().for_each(|(zone, owner)| push(zone::key(*zone), owner.map(ZoneOwner::mark)));
    }

    fn acts(batch: &Batch, change: &FlowChange, when: When) -> impl Iterator<Item = FlowAct> {
        let act = match when {
            When::Before => gets_owner(change).then_some(FlowAct::Flush),
            When::Early if is_claim(batch, change) => Some(FlowAct::Claim),
            When::Early => Some(FlowAct::Put),
            When::Followed if leaves_zone(batch, change) => Some(FlowAct::Flush),
            When::Final if is_claim(batch, change) => Some(FlowAct::Put),
            When::Late | When::After | When::Followed | When::Final => None,
        };
        act.into_iter()
    }

    fn put(out: &mut BytesMut, xid: u32, change: &FlowChange, act: FlowAct) -> Result<(), TooLong> {
        match act {
            FlowAct::Put => put_flow_mod(out, xid, &change.key, change.value.as_ref()),
            FlowAct::Claim => {
                put_flow_mod(out, xid, &change.key, change.value.as_ref().map(zone::unclean).as_ref())
            }
            FlowAct::Flush => zone::marked(&change.key)
                .map_or(Ok(()), |zone| wire::put_typed(out, xid, Body::CtFlushZone(zone))),
        }
    }

    fn request() -> Body {
        Body::FlowDescRequest(FlowDescRequest::all())
    }

    fn read(message: &[u8], mut take: impl FnMut(FlowKey, Flow)) -> Result<Option<bool>, BadDesc> {
        let body = message.get(HEADER_LEN..).unwrap_or_default();
        wire::descriptions(body, FLOW_DESC, |entry| flow_desc(entry).map(|(key, flow)| take(key, flow)))
    }

    fn show(f: &mut fmt::Formatter<'_>, key: &FlowKey, flow: Option<&Flow>) -> fmt::Result {
        flow::show(f, key, flow)
    }
}

fn gets_owner(change: &FlowChange) -> bool {
    change.value.is_some() && zone::marked(&change.key).is_some()
}

/// Whether others may have used a zone until the bundle.
fn leaves_zone(batch: &Batch, change: &FlowChange) -> bool {
    zone::marked(&change.key).is_some() && change.value.is_none() || is_claim(batch, change)
}

/// Whether packets may have used a zone for somebody else between its flush and the bundle.
fn is_claim(batch: &Batch, change: &FlowChange) -> bool {
    gets_owner(change) && (batch.had_flows || change.installed.is_some())
}

/// Appends a flow-mod.
fn put_flow_mod(out: &mut BytesMut, xid: u32, key: &FlowKey, flow: Option<&Flow>) -> Result<(), TooLong> {
    let (command, cookie, instructions) = match flow {
        Some(flow) => (ADD, flow.cookie(), flow.instructions()),
        None => (DELETE_STRICT, 0, &[][..]),
    };
    wire::put_message(out, kind::FLOW_MOD, xid, |out| {
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

/// Reads one part of the reply to a flow description request from the whole message, and adds what this flow has counted. The
/// request names a match, and the switch describes all flows whose packets it covers. The result is that of [`InOpenFlow::read`], and
/// the number of other flows.
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
/// [`InOpenFlow::read`].
pub(crate) fn seen_flows(message: &[u8], flows: &mut Vec<SeenFlow>) -> Result<Option<bool>, BadDesc> {
    let message = Message::decode(message).map_err(|error| BadDesc { offset: error.offset })?;
    let Body::FlowDescReply(reply) = message.body else { return Ok(None) };
    flows.extend(reply.flows.into_iter().map(|flow| {
        let (packets, bytes) = (flow.packets.unwrap_or(0), flow.bytes.unwrap_or(0));
        SeenFlow { entry: flow.entry, packets, bytes }
    }));
    Ok(Some(reply.more))
}

fn flow_desc(entry: &[u8]) -> Option<(FlowKey, Flow)> {
    const FIXED: usize = 24;
    let (table, priority) = (*entry.get(4)?, u16_at(entry, 6)?);
    let attributes = entry.get(8..16)?.try_into().ok()?;
    let cookie = u64::from_be_bytes(entry.get(16..FIXED)?.try_into().ok()?);
    let (matching, rest) = wire::split_padded(entry.get(FIXED..)?)?;
    let (_statistics, instructions) = wire::split_padded(rest)?;
    Some(flow::from_switch((table, priority), (cookie, attributes), matching, instructions))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use openflow_rs::message::{BundleAdd, BundleFlags, FlowDescReply};
    use openflow_rs::{FlowEntry, FlowFlags, FlowMod, FlowStats};

    use super::*;
    use crate::in_openflow::{Act, Step};

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
    fn flow_mods_read_as_what_they_are() {
        for (adds, flow_mod) in
            [(true, FlowMod::add(entry(FLOW))), (false, FlowMod::delete_strict(entry(FLOW)))]
        {
            let change = change(FLOW, adds);
            let mut alone = BytesMut::new();
            Flows::put(&mut alone, 9, &change, FlowAct::Put).expect("short");
            let body = Body::FlowMod(flow_mod);
            assert_eq!(Message::decode(&alone), Ok(Message { xid: 9, body: body.clone() }));

            let mut bundled = BytesMut::new();
            let batch = Batch { flows: Arc::new(vec![change]), ..Batch::default() };
            let step = Step { place: 0, act: Act::Flows(FlowAct::Put) };
            batch.put_bundled(&mut bundled, 3, 9, step).expect("short");
            let add = BundleAdd { bundle_id: 3, flags: BundleFlags(3), body: Box::new(body) };
            assert_eq!(Message::decode(&bundled), Ok(Message { xid: 9, body: Body::BundleAdd(add) }));
        }
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
        assert_eq!(Flows::read(&bytes, |key, flow| read.push((key, flow))), Ok(Some(true)));
        let FlowChange { key, value: flow, .. } = change(FLOW, true);
        assert_eq!(read.iter().map(|(read, _)| read == &key).collect::<Vec<_>>(), [true, true]);
        assert_eq!(
            read.iter().map(|(_, read)| Some(read) == flow.as_ref()).collect::<Vec<_>>(),
            [true, false]
        );
        for length in HEADER_LEN..bytes.len() {
            let whole = Flows::read(&bytes[..length], |_, _| {}).is_ok();
            let boundary =
                length == HEADER_LEN + 8 || length == HEADER_LEN + 8 + (bytes.len() - HEADER_LEN - 8) / 2;
            assert_eq!(whole, boundary, "cut at {length}");
        }
    }
}
