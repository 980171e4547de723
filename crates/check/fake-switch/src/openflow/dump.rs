//! The answer to a request for flows, from their encoded matches and instructions. Decoding and encoding the flows of thousands of hosts
//! would take more of the machine than the controller that reads them.

use std::sync::LazyLock;
use std::time::Duration;

use openflow_rs::message::FlowDescReply;
use openflow_rs::{Actions, Body, FlowEntry, FlowStats, Match, Message};
use switch_model::{Flow, FlowKey};

/// The lengths of a part (`ofp_multipart_reply`) before its entries, and of an entry (`ofp_flow_desc`) before its match.
const PART: usize = 16;
const ENTRY: usize = 24;
/// The length of a match without fields.
const ANY_MATCH: usize = 8;
/// The place of `OFPMPF_REPLY_MORE` in a part, and its value.
const MORE_AT: usize = 11;
const MORE: u8 = 1;

/// The counters of a flow that no packet has met.
static UNUSED: LazyLock<Vec<u8>> = LazyLock::new(|| counters((0, 0)));

/// The answer in the making: parts that are as full as they can be.
pub(super) struct Dump {
    bytes: Vec<u8>,
    /// Where the last part begins.
    begin: usize,
    xid: u32,
}

impl Dump {
    pub(super) fn new(xid: u32) -> Dump {
        let mut dump = Dump { bytes: Vec::new(), begin: 0, xid };
        dump.open();
        dump
    }

    /// Adds a flow with the packets and bytes that it has counted.
    pub(super) fn add(&mut self, key: &FlowKey, flow: &Flow, counted: (u64, u64)) {
        let entry = self.bytes.len();
        self.put(key, flow, counted);
        if self.bytes.len() - self.begin > usize::from(u16::MAX) {
            let entry = self.bytes.split_off(entry);
            self.close();
            self.bytes[self.begin + MORE_AT] = MORE;
            self.open();
            self.bytes.extend(entry);
        }
    }

    fn put(&mut self, key: &FlowKey, flow: &Flow, counted: (u64, u64)) {
        let (begin, out) = (self.bytes.len(), &mut self.bytes);
        out.extend_from_slice(&[0, 0, 0, 0, key.table(), 0]);
        out.extend_from_slice(&key.priority().to_be_bytes());
        // Neither timeouts nor flags nor importance.
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&flow.cookie().to_be_bytes());
        out.extend_from_slice(key.match_bytes());
        if counted == (0, 0) {
            out.extend_from_slice(&UNUSED);
        } else {
            out.extend_from_slice(&counters(counted));
        }
        out.extend_from_slice(flow.instructions());
        set_length(out, begin, begin);
    }

    fn open(&mut self) {
        self.begin = self.bytes.len();
        let body = Body::FlowDescReply(FlowDescReply::default());
        encode(Message { xid: self.xid, body }, &mut self.bytes);
    }

    fn close(&mut self) {
        set_length(&mut self.bytes, self.begin, self.begin + 2);
    }

    /// The messages.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// Writes the length of what begins at `begin` and ends here.
fn set_length(bytes: &mut [u8], begin: usize, at: usize) {
    let length = u16::try_from(bytes.len() - begin);
    let length = length.unwrap_or_else(|_| panic!("a flow is shorter than a message"));
    bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

/// The encoded counters of a flow.
fn counters((packets, bytes): (u64, u64)) -> Vec<u8> {
    let entry = FlowEntry::new(0, 0, Match::any(), Actions::drop());
    let flow = FlowStats {
        entry,
        duration: Duration::ZERO,
        packets: Some(packets),
        bytes: Some(bytes),
        idle_s: None,
    };
    let body = Body::FlowDescReply(FlowDescReply { more: false, flows: vec![flow], unreadable: Vec::new() });
    let mut message = Vec::new();
    encode(Message { xid: 0, body }, &mut message);
    // An entry that drops has no instructions after them.
    message.split_off(PART + ENTRY + ANY_MATCH)
}

fn encode(message: Message, to: &mut Vec<u8>) {
    let encoded = message.encode_into(to);
    assert_eq!(encoded, Ok(()), "a message of one flow is short");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The typed codec is the oracle.
    #[test]
    fn parts_are_read_as_the_flows_that_they_have() {
        let texts = (0..3000_u64).map(|n| {
            let actions = vec!["set_field:1->reg1"; n as usize % 50].join(",");
            let actions = if actions.is_empty() { "drop" } else { &actions };
            format!("cookie={n}, table={}, priority={n},reg0={n},tcp,tp_dst=80 actions={actions}", n % 250)
        });
        let flows: Vec<FlowEntry> = texts.map(|text| text.parse().expect("a flow")).collect();
        let mut dump = Dump::new(7);
        let counted = |number: usize| if number.is_multiple_of(3) { (0, 0) } else { (number as u64, 100) };
        for (number, entry) in flows.iter().enumerate() {
            let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("short");
            dump.add(&key, &Flow::new(entry.cookie, &entry.actions).expect("short"), counted(number));
        }
        let (bytes, mut at, mut read, mut parts) = (dump.finish(), 0, Vec::new(), Vec::new());
        while at < bytes.len() {
            let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
            let message = Message::decode(&bytes[at..at + length]).expect("a message");
            let Body::FlowDescReply(reply) = message.body else { panic!("{message:?}") };
            assert!(message.xid == 7 && reply.unreadable.is_empty());
            parts.push((length, reply.more));
            read.extend(reply.flows);
            at += length;
        }
        let wanted: Vec<FlowStats> = flows
            .into_iter()
            .enumerate()
            .map(|(number, entry)| {
                let (packets, bytes) = counted(number);
                let (packets, bytes) = (Some(packets), Some(bytes));
                FlowStats { entry, duration: Duration::ZERO, packets, bytes, idle_s: None }
            })
            .collect();
        assert_eq!(read, wanted);
        let (last, others) = parts.split_last().expect("there are flows");
        assert!(!last.1 && others.len() > 5 && others.iter().all(|(length, more)| *more && *length > 60_000));
        let none = Message::decode(&Dump::new(1).finish()).expect("a message");
        assert_eq!(none.body, Body::FlowDescReply(FlowDescReply::default()));
    }
}
