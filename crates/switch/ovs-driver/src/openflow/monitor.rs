//! Flow monitoring (OpenFlow 1.5, sections 7.3.5.18 and 7.4.7): the switch reports changes of flows that others make.
//!
//! The switch also reports the driver's own changes, but without the flow (`OFPFME_ABBREV`); this module ignores
//! them. Groups and meters cannot be monitored.

use bytes::BytesMut;

use crate::foreign::{Removal, Update};
use crate::wire::{self, BadDesc, HEADER_LEN, kind, u16_at};
use switch_model::flow::{self, Flow, FlowKey};

/// `OFPMP_FLOW_MONITOR`.
const FLOW_MONITOR: u16 = 16;
/// `OFPFMF_ADD | OFPFMF_REMOVED | OFPFMF_MODIFY | OFPFMF_INSTRUCTIONS`.
const FLAGS: u16 = 0x1e;
/// The only monitor of a connection.
const MONITOR_ID: u32 = 1;
/// `OFPP_ANY`, `OFPG_ANY`: no restriction on the output of a flow.
const ANY: u32 = u32::MAX;
/// `OFPTT_ALL`.
const ALL_TABLES: u8 = 255;
/// `OFPFMC_ADD`: begin to monitor.
const ADD: u8 = 0;
/// A match of no fields, padded.
const ANY_MATCH: [u8; 8] = [0, 1, 0, 4, 0, 0, 0, 0];
/// Bytes of a full update before its match.
const FULL: usize = 24;

/// `OFPFME_*`.
mod event {
    pub(super) const INITIAL: u16 = 0;
    pub(super) const ADDED: u16 = 1;
    pub(super) const REMOVED: u16 = 2;
    pub(super) const MODIFIED: u16 = 3;
    pub(super) const PAUSED: u16 = 5;
    pub(super) const RESUMED: u16 = 6;
}

/// Appends the request to monitor all tables.
pub(crate) fn put_request(out: &mut BytesMut, xid: u32) {
    // Its length is fixed.
    let _ = wire::put_message(out, kind::MULTIPART_REQUEST, xid, |out| {
        out.extend_from_slice(&FLOW_MONITOR.to_be_bytes());
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&MONITOR_ID.to_be_bytes());
        out.extend_from_slice(&ANY.to_be_bytes());
        out.extend_from_slice(&ANY.to_be_bytes());
        out.extend_from_slice(&FLAGS.to_be_bytes());
        out.extend_from_slice(&[ALL_TABLES, ADD]);
        out.extend_from_slice(&ANY_MATCH);
        Ok(())
    });
}

/// Whether the body of a multipart reply is one of a flow monitor.
pub(crate) fn is_update(body: &[u8]) -> bool {
    u16_at(body, 0) == Some(FLOW_MONITOR)
}

/// Reads the updates in the body of a multipart reply.
pub(crate) fn updates(body: &[u8], mut take: impl FnMut(Update)) -> Result<(), BadDesc> {
    let mut rest = body.get(8..).ok_or(BadDesc { offset: HEADER_LEN })?;
    while !rest.is_empty() {
        let bad = BadDesc { offset: HEADER_LEN + body.len() - rest.len() };
        let length = usize::from(u16_at(rest, 0).ok_or(bad)?);
        let (entry, after) =
            rest.split_at_checked(length).filter(|(entry, _)| entry.len() >= 4).ok_or(bad)?;
        match u16_at(entry, 2).ok_or(bad)? {
            event::INITIAL | event::ADDED | event::MODIFIED => {
                let (key, flow, _) = full(entry).ok_or(bad)?;
                take(Update::Is(key, flow));
            }
            event::REMOVED => {
                let (key, flow, reason) = full(entry).ok_or(bad)?;
                take(Update::Gone(key, flow, Removal::new(reason)));
            }
            event::PAUSED | event::RESUMED => take(Update::Missed),
            // The driver's own changes need no handling.
            _ => {}
        }
        rest = after;
    }
    Ok(())
}

/// The flow of a full update, and the reason of a removal.
fn full(entry: &[u8]) -> Option<(FlowKey, Flow, u8)> {
    let (table, reason, priority) = (*entry.get(4)?, *entry.get(5)?, u16_at(entry, 10)?);
    // An update carries both timeouts, but neither flags nor importance.
    let mut attributes = [0; 8];
    attributes[..4].copy_from_slice(entry.get(6..10)?);
    let cookie = u64::from_be_bytes(entry.get(16..FULL)?.try_into().ok()?);
    let (matching, instructions) = wire::split_padded(entry.get(FULL..)?)?;
    let (key, flow) = flow::from_switch((table, priority), (cookie, attributes), matching, instructions);
    Some((key, flow, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow_rs::flow::RemovedReason;
    use openflow_rs::message::{FlowEvent, FlowMonitorReply, FlowUpdate};
    use openflow_rs::{Body, FlowEntry, Message};

    /// The typed codec is the oracle for the bytes read here.
    #[test]
    fn updates_are_read_and_cut_ones_are_refused() {
        let entry: FlowEntry = "cookie=9,table=3,priority=7,ip actions=output:5".parse().expect("a flow");
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("short");
        let flow = Flow::new(9, &entry.actions).expect("short");
        let reports = [
            FlowUpdate::Flow(FlowEvent::Added, entry.clone()),
            FlowUpdate::Flow(FlowEvent::Removed(RemovedReason::Delete), entry),
            FlowUpdate::Resumed,
        ];
        let mut read = Vec::new();
        for report in reports {
            let reply = FlowMonitorReply { more: false, updates: vec![report] };
            let message = Message { xid: 0, body: Body::FlowMonitorReply(reply) }.encode().expect("short");
            let body = &message[HEADER_LEN..];
            assert!(is_update(body));
            updates(body, |update| read.push(update)).expect("well-formed");
            for length in 9..body.len() {
                assert!(updates(&body[..length], |_| {}).is_err(), "cut at {length}");
            }
        }
        let gone = Update::Gone(key.clone(), flow.clone(), Removal::Deleted);
        assert_eq!(read, [Update::Is(key, flow), gone, Update::Missed]);
    }
}
