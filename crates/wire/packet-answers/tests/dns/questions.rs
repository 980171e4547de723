//! Names that are looked up.

use openflow_rs::{Actions, Match};
use packet_answers::{Answered, Instruction, name_key};

use super::{A, NAME, OPT, PTR, datagram, hex, query, sent};

fn instruction() -> Instruction {
    let into = "resubmit(,27)".parse().unwrap();
    Instruction::from_settings("dns_question", ["key=xreg4", "keep=metadata", "keep=reg0"], into).unwrap()
}

/// The key of a packet, which stays as it is.
fn key(frame: &[u8]) -> u64 {
    let got = instruction().answer(frame, &Match::any()).unwrap();
    assert_eq!((&*got.frame, got.to, got.kind), (frame, None, Answered::DnsQuestion));
    let [(field, key)] = got.loads[..] else { panic!("one key") };
    assert_eq!(field, "xreg4".parse().unwrap());
    assert_eq!(key >> 63, 0, "rules have numbers of 63 bits");
    key
}

#[test]
fn a_query_goes_back_with_the_key_of_its_name() {
    let blue = name_key("db.blue.example");
    assert_eq!(key(&sent(&query(NAME, A, &[]))), blue);
    assert_eq!(key(&datagram(&query(NAME, "0001 00ff", &[OPT]), "fd00::1", "fd00::53", 53)), blue);
    let reverse = "01 32 01 30 01 30 02 3130 07 696e2d61646472 04 61727061 00";
    assert_eq!(key(&sent(&query(reverse, PTR, &[]))), name_key("10.0.0.2"));
    assert_eq!(key(&sent(&query("00", A, &[]))), name_key(""));
    // A dot within a label.
    assert_ne!(key(&sent(&query("07 64622e626c7565 07 6578616d706c65 00", A, &[]))), blue);
}

#[test]
fn the_key_is_set_between_kept_fields_and_actions() {
    let metadata: Match = "metadata=0x77,reg0=5".parse().unwrap();
    let got = instruction().answer(&sent(&query(NAME, A, &[])), &metadata).unwrap();
    let wanted: Actions =
        "load:0x77->metadata,load:5->reg0,load:0x4dbf238e65c6be12->xreg4,resubmit(,27)".parse().unwrap();
    assert_eq!(instruction().actions_for(&metadata, &got.loads), wanted);
}

#[test]
fn what_is_no_query_has_no_name() {
    let asks = query(NAME, A, &[]);
    let changed = |at: usize, byte: u8| {
        let mut asks = asks.clone();
        asks[at] = byte;
        key(&sent(&asks))
    };
    assert_ne!(changed(2, 0), 0);
    assert_eq!(changed(2, 0x81), 0, "an answer");
    assert_eq!(changed(2, 0x29), 0, "an update");
    assert_eq!(changed(5, 2), 0, "two questions");
    assert_eq!(changed(11, 1), 0, "a record that is not there");
    assert_eq!(changed(asks.len() - 1, 3), 0, "another class");
    assert_eq!(key(&datagram(&asks, "10.0.0.1", "10.0.0.53", 5353)), 0, "another port");
    assert_eq!(key(&sent(&asks)[..60]), 0, "a part of a packet");
    assert_eq!(key(&hex("0200000000ff 020000000001 0806 0001")), 0, "ARP");
    assert_eq!(key(&[]), 0);
    let mut fragment = sent(&asks);
    fragment[20] = 0x20;
    let sum = frame_builder::checksum(&[&fragment[14..24], &[0, 0], &fragment[26..34]]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(key(&fragment), 0, "a fragment");
    // It would have the key of the address, whose name is another one.
    assert_eq!(key(&sent(&query("02 3130 01 30 01 30 01 32 00", A, &[]))), 0, "10.0.0.2");
}
