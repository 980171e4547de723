//! What DNS zones say of names, and to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use frame_builder::{Endpoints, IPV4, Ipv4, UDP, udp};
use network_spec::{DnsData, DnsZone, Heard, Model, Says, Server, World};

use crate::sentences::frames::{frame, mac};
use crate::sentences::routers::two_switches;
use crate::sentences::worlds::send_any;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 250);
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0xff, 0xfd];
const DB: [u8; 4] = [10, 0, 0, 2];

/// A zone of `blue`, with a server or in front of all.
fn zone(server: bool, ttl: u32, records: &[(&str, DnsData)]) -> DnsZone {
    DnsZone {
        switches: BTreeSet::from(["blue".into()]),
        server: server.then_some(Server { ip: SERVER.into(), mac: SERVER_MAC }),
        records: records.iter().map(|(name, data)| ((*name).to_owned(), data.clone())).collect(),
        ttl,
    }
}

fn naming(server: bool) -> World {
    let mut world = two_switches();
    let addresses = DnsData::Addresses(vec![Ipv4Addr::from(DB).into()]);
    let one = zone(server, 5, &[("DB.blue.example", addresses)]);
    let other = zone(server, 60, &[("www.blue.example", DnsData::Alias("db.blue.example".into()))]);
    world.dns_zones = BTreeMap::from([("one".into(), one), ("other".into(), other)]);
    world
}

/// A query of `a` for a name.
fn query(name: &str, kind: u16) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let message: Vec<u8> = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0].into_iter().chain(labels).collect();
    let message = [&message[..], &[0], &kind.to_be_bytes(), &[0, 1]].concat();
    let from = Ipv4Addr::new(10, 0, 0, 1);
    let datagram = udp(5353, 53, &message, Endpoints::V4(from, SERVER));
    frame(mac(1), SERVER_MAC, IPV4, &Ipv4::new(from, SERVER, UDP).packet(&datagram))
}

/// The code of an answer, and its records: type, time and data. None if `a` hears nothing.
type Said = Option<(u16, Vec<(u16, u32, Vec<u8>)>)>;

fn said(world: World, query: &[u8]) -> Said {
    let mut model = Model::new(world);
    send_any(&mut model, "a", query);
    let heard = Heard::read(&model.messages().first()?.frame).expect("an answer");
    assert_eq!(heard.macs, (mac(1), SERVER_MAC));
    let Says::Dns { code, records, to: 5353, .. } = heard.says else { panic!("an answer") };
    Some((code, records.into_iter().map(|(_, kind, _, ttl, data)| (kind, ttl, data)).collect()))
}

#[test]
fn a_server_knows_names_and_addresses() {
    let address = (1, 5, DB.to_vec());
    assert_eq!(said(naming(true), &query("db.BLUE.example", 1)), Some((0, vec![address.clone()])));
    assert_eq!(said(naming(true), &query("db.blue.example", 28)), Some((0, vec![])), "it has none of IPv6");
    let name = b"\x02db\x04blue\x07example\0".to_vec();
    let reverse = said(naming(true), &query("2.0.0.10.in-addr.arpa", 12));
    assert_eq!(reverse, Some((0, vec![(12, 5, name.clone())])));
    // Records in one answer are remembered as long as the first of their zones allows.
    let alias = said(naming(true), &query("www.blue.example", 1));
    assert_eq!(alias, Some((0, vec![address, (5, 5, name)])));
}

#[test]
fn a_server_says_that_a_name_in_its_domains_does_not_exist_and_refuses_others() {
    assert_eq!(said(naming(true), &query("no.blue.example", 1)), Some((3, vec![])));
    assert_eq!(said(naming(true), &query("blue.example", 1)), Some((0, vec![])), "the domain exists");
    assert_eq!(said(naming(true), &query("www.elsewhere", 1)), Some((5, vec![])));
}

#[test]
fn without_a_server_names_are_answered_whoever_is_asked_and_others_go_on() {
    assert_eq!(said(naming(false), &query("db.blue.example", 1)), Some((0, vec![(1, 5, DB.to_vec())])));
    assert_eq!(said(naming(false), &query("no.blue.example", 1)), None);
}
