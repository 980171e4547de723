//! Questions for the destination of a packet.

use frame_builder::{IPV4, Ipv4, Ipv6, UDP, ethernet};
use openflow_rs::{Actions, Match};
use packet_answers::{Answer, Answered, Instruction, Receiver, Silence};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0xff, 9];
const SENDER: [u8; 6] = [2, 0, 0, 0, 0xff, 1];

fn asked(from: &str, frame: &[u8]) -> Result<Answer, Silence> {
    let (mac, from) = ("mac=02:00:00:00:ff:09", format!("from={from}"));
    let instruction = Instruction::from_settings("resolve", [mac, &from], Actions::default()).unwrap();
    Instruction::decode(&instruction.encode()).unwrap().answer(frame, &Match::default())
}

fn to_ipv4(to: &str) -> Vec<u8> {
    let header = Ipv4::new("10.0.0.1".parse().unwrap(), to.parse().unwrap(), UDP);
    ethernet(ROUTER, SENDER, IPV4, &header.packet(&[0; 8]))
}

#[test]
fn a_packet_to_an_unknown_machine_asks_for_it() {
    let got = asked("203.0.113.2", &to_ipv4("203.0.113.7")).unwrap();
    let request = [
        &[0xff; 6][..],
        &ROUTER,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &ROUTER,
        &[203, 0, 113, 2],
        &[0; 6],
        &[203, 0, 113, 7],
    ]
    .concat();
    assert_eq!(got.frame.get(..request.len()), Some(&request[..]));
    assert_eq!(got.kind, Answered::Solicitation);
    // Whoever sends to the machine, the questions for it are its share.
    assert_eq!(got.to, Some(Receiver::Ip("203.0.113.7".parse().unwrap())));
}

#[test]
fn a_packet_of_ipv6_asks_by_neighbour_discovery() {
    let header = Ipv6::new("fd00::1".parse().unwrap(), "2001:db8::7".parse().unwrap(), UDP);
    let got = asked("2001:db8::2", &ethernet(ROUTER, SENDER, 0x86dd, &header.packet(&[0; 8]))).unwrap();
    // To the group of the last three bytes (RFC 4291, 2.7.1), a solicitation for the address.
    assert_eq!(got.frame.get(..6), Some(&[0x33, 0x33, 0xff, 0, 0, 7][..]));
    assert_eq!(got.frame.get(54), Some(&135));
    assert_eq!(
        got.frame.get(62..78),
        Some(&"2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets()[..])
    );
}

#[test]
fn nobody_asks_for_many_or_from_an_address_of_another_version() {
    assert_eq!(asked("203.0.113.2", &to_ipv4("224.0.0.1")), Err(Silence::ToGroup));
    assert_eq!(asked("2001:db8::2", &to_ipv4("203.0.113.7")), Err(Silence::NoAddress));
}
