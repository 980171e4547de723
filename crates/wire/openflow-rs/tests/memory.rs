//! Decoding takes memory in proportion to the bytes of a message, whatever it contains.

use std::time::Duration;

use openflow_rs::message::{FlowDescReply, GroupDescReply};
use openflow_rs::{Actions, Body, Bucket, FlowCommand, FlowEntry, FlowMod, FlowStats, GroupEntry, Message};
use test_random::Random;

/// What decoding takes of any message: the texts of an error.
const ANY_MESSAGE: usize = 8 << 10;
/// The greatest length of a message.
const LONGEST: usize = 65_535;

/// Actions of every kind, as short as each can be.
const ACTIONS: &[&str] = &[
    "output:1",
    "LOCAL",
    "output(port=1,max_len=100)",
    "output:reg0[]",
    "group:1",
    "meter:1",
    "set_queue:1",
    "pop_queue",
    "push_vlan:0x8100",
    "pop_vlan",
    "push_mpls:0x8847",
    "pop_mpls:0x0800",
    "set_mpls_ttl:1",
    "dec_mpls_ttl",
    "mod_nw_ttl:1",
    "dec_ttl",
    "dec_ttl(1)",
    "dec_ttl(1,2,3,4,5,6,7,8,9)",
    "set_field:1->reg0",
    "set_field:1/1->reg0",
    "set_field:1->tun_metadata0",
    "load:1->reg0[0]",
    "move:reg0[]->reg1[]",
    "push:reg0[]",
    "pop:reg0[]",
    "resubmit:1",
    "resubmit(,1)",
    "learn(table=1)",
    "learn(table=1,reg0)",
    "learn(table=1,reg0=1)",
    "learn(table=1,reg0,reg1,reg2,load:1->reg3[],output:reg4[])",
    "multipath(symmetric_l4,0,modulo_n,1,0,reg0[])",
    "bundle(symmetric_l4,0,active_backup,ofport,slaves:1)",
    "note:",
    "note:00.01",
    "exit",
    "conjunction(1,1/2)",
    "ct()",
    "ct(commit)",
    "ct(commit,exec(set_field:1->ct_mark))",
    "ct(nat)",
    "ct(commit,nat(src=1.2.3.4-1.2.3.5:1-2))",
    "ct_clear",
    "clone()",
    "clone(pop_vlan)",
    "clone(clone(clone(clone(clone(clone(drop))))))",
    "clone(clone(pop_vlan),clone(pop_vlan))",
    "check_pkt_larger(1)->reg0[0]",
    "sample(probability=1)",
    "controller",
    "controller(userdata=00)",
    "write_actions(pop_vlan)",
    "clear_actions",
    "write_metadata:1",
    "goto_table:1",
];

/// Matches of a field each, and of many.
const MATCHES: &[&str] = &[
    "",
    "in_port=1",
    "dl_vlan=1",
    "ip",
    "ip,nw_tos=4",
    "arp,arp_op=1",
    "tcp,tcp_flags=1",
    "ct_state=+trk",
    "reg0=1",
    "reg0=1/1",
    "reg0=1,reg1=1,reg2=1,reg3=1,reg4=1,reg5=1,reg6=1,reg7=1",
    "xxreg0=1",
    "tun_metadata0=1",
    "mpls,mpls_bos=1",
    "pkt_mark=1",
];

/// So many equal parts in one message as it has room for.
fn full(one: impl Fn(usize) -> Body) -> Option<Vec<u8>> {
    let encode = |count| Message { xid: 1, body: one(count) }.encode().ok();
    let (two, three) = (encode(2)?.len(), encode(3)?.len());
    let each = (three - two).max(1);
    (0..100).find_map(|fewer| encode(2 + ((LONGEST - two) / each).checked_sub(fewer)?))
}

/// The same, and with so many parts that their list has just doubled.
fn sizes(one: impl Fn(usize) -> Body) -> Vec<Vec<u8>> {
    let doubled =
        [129, 1025, 4097].into_iter().filter_map(|count| Message { xid: 1, body: one(count) }.encode().ok());
    full(&one).into_iter().chain(doubled).collect()
}

/// The messages of a switch, each made to take as much memory as it can.
fn worst() -> Vec<(String, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut add = |name: String, sizes: Vec<Vec<u8>>| {
        messages.extend(sizes.into_iter().map(|bytes| (name.clone(), bytes)));
    };
    let flow = |matches: &str, actions| FlowEntry::new(0, 1, matches.parse().expect("a match"), actions);
    let flows = |entry: FlowEntry, count| {
        let flow = FlowStats { entry, duration: Duration::ZERO, packets: None, bytes: None, idle_s: None };
        Body::FlowDescReply(FlowDescReply { flows: vec![flow; count], ..FlowDescReply::default() })
    };
    let groups = |groups| Body::GroupDescReply(GroupDescReply { groups, ..GroupDescReply::default() });
    for text in MATCHES {
        add(format!("flows with {text:?}"), sizes(|count| flows(flow(text, Actions::drop()), count)));
    }
    for text in ACTIONS {
        let Ok(actions) = text.parse::<Actions>() else { continue };
        let many =
            |count: usize| actions.0.iter().cycle().take(count * actions.0.len().max(1)).cloned().collect();
        add(format!("flows with {text}"), sizes(|count| flows(flow("", actions.clone()), count)));
        add(format!("a flow of {text}"), sizes(|count| flows(flow("", many(count)), 1)));
        let add_flow = |count| FlowMod::new(FlowCommand::Add, flow("", many(count)));
        add(format!("the change of a flow to {text}"), sizes(|count| Body::FlowMod(add_flow(count))));
        let bucket = |count| Bucket::new(0, many(count));
        add(
            format!("a bucket of {text}"),
            sizes(|count| groups(vec![GroupEntry::all(1, vec![bucket(count)])])),
        );
        add(
            format!("buckets with {text}"),
            sizes(|count| groups(vec![GroupEntry::all(1, vec![bucket(1); count])])),
        );
    }
    add("empty groups".to_owned(), sizes(|count| groups(vec![GroupEntry::all(1, Vec::new()); count])));
    messages
}

/// Multipart replies and other messages whose parts are these bytes, again and again.
fn repeated() -> Vec<(String, Vec<u8>)> {
    let part = |length: usize, fill: u8| {
        let mut part = vec![fill; length];
        part[..2].copy_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
        part
    };
    let mut messages = Vec::new();
    for length in [4, 8, 16, 24, 32, 40, 48, 56, 64, 72] {
        for fill in [0, 1, 0xff] {
            let parts: Vec<u8> = part(length, fill).repeat((LONGEST - 16) / length);
            for kind in 0..24_u16 {
                let header = [&kind.to_be_bytes()[..], &[0; 6]].concat();
                let name = format!("parts of {length} bytes {fill} of kind {kind}");
                messages.push((name, message(19, &[&header[..], &parts].concat())));
            }
            for kind in 0..40_u8 {
                messages.push((format!("{length} bytes {fill} in type {kind}"), message(kind, &parts)));
            }
            for subtype in 0..40_u32 {
                let header = [&0x2320_u32.to_be_bytes()[..], &subtype.to_be_bytes()].concat();
                let name = format!("parts of {length} bytes {fill} of extension {subtype}");
                messages.push((name, message(4, &[&header[..], &parts].concat())));
            }
        }
    }
    messages
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let body = &body[..body.len().min(LONGEST - 8) / 8 * 8];
    let length = u16::try_from(body.len() + 8).expect("short");
    [&[6, kind][..], &length.to_be_bytes(), &[0, 0, 0, 1], body].concat()
}

#[test]
fn d1_the_memory_of_a_message_follows_its_bytes() {
    for (name, bytes) in worst() {
        let _message = decoder_memory::bounded(&name, bytes.len(), ANY_MESSAGE, || Message::decode(&bytes));
    }
    for (name, bytes) in repeated() {
        let (_, peak) = decoder_memory::peak(|| Message::decode(&bytes));
        assert!(
            peak <= decoder_memory::FACTOR * bytes.len() + ANY_MESSAGE,
            "{name}: {peak} for {}",
            bytes.len()
        );
    }
}

/// A change of one byte anywhere, as a fuzzer makes it.
#[test]
fn d1_the_memory_of_a_changed_message_follows_its_bytes() {
    let mut random = Random::new(1);
    let mut next = move |below: usize| random.below(below as u64) as usize;
    for (name, bytes) in worst() {
        for _ in 0..20 {
            let mut bytes = bytes.clone();
            for _ in 0..=next(3) {
                let at = if next(2) == 0 { next(200.min(bytes.len())) } else { next(bytes.len()) };
                bytes[at] = [0, 1, 8, 0xff, next(256) as u8][next(5)];
            }
            let (_, peak) = decoder_memory::peak(|| Message::decode(&bytes));
            let most = decoder_memory::FACTOR * bytes.len() + ANY_MESSAGE;
            assert!(peak <= most, "{name}: {peak} for {}", bytes.len());
        }
    }
}
