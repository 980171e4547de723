//! What DHCP servers give, and to whom.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, UDP, udp};
use network_spec::{Dhcp, Heard, Model, Network, Says, Server, World};

use crate::sentences::frames::{frame, link_local, mac};
use crate::sentences::routers::two_switches;
use crate::sentences::worlds::{send_any, unknown};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 250);
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0xff, 0xfd];
const DISCOVER: u8 = 1;
const REQUEST: u8 = 3;

/// A server of `blue` with networks of this form.
fn server(net: Network, ip: impl Into<IpAddr>, dns: IpAddr) -> Dhcp {
    Dhcp {
        switch: "blue".into(),
        net,
        router: None,
        server: Server { ip: ip.into(), mac: SERVER_MAC },
        lease: 3600,
        dns: vec![dns],
        mtu: None,
        domain_name: None,
        other: BTreeMap::new(),
    }
}

/// `a` has 10.0.0.1 and `fd00::1`, and both versions have a server.
fn serving() -> World {
    let mut world = two_switches();
    let port = world.ports.get_mut("a").expect("a port");
    port.addresses[0].ips = vec![own().into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into()];
    let four = server(Network::of(Ipv4Addr::new(10, 0, 0, 0), 24), SERVER, SERVER.into());
    let net = Network::of(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 64);
    let ip = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfa);
    let six = server(net, ip, ip.into());
    world.dhcps = BTreeMap::from([("four".into(), four), ("six".into(), six)]);
    world
}

fn own() -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1)
}

/// A message of `a` to all servers, which says that it has an address.
fn message(kind: u8, has: Ipv4Addr, options: &[u8]) -> Vec<u8> {
    let head = [&[1, 1, 6, 0, 1, 2, 3, 4, 0, 0, 0, 0][..], &has.octets(), &[0; 12], &mac(1)].concat();
    let all = [&head[..], &[0; 202], &[99, 130, 83, 99, 53, 1, kind], options, &[255]].concat();
    let to = Ipv4Addr::BROADCAST;
    let datagram = udp(68, 67, &all, Endpoints::V4(has, to));
    frame(mac(1), [0xff; 6], IPV4, &Ipv4::new(has, to, UDP).packet(&datagram))
}

/// What `a` hears, and nobody else.
fn heard(world: World, frame: &[u8]) -> Option<Heard> {
    let mut model = Model::new(world);
    assert_eq!(send_any(&mut model, "a", frame), [], "a request goes nowhere");
    assert!(model.messages().len() < 2);
    model.messages().first().map(|one| Heard::read(&one.frame).expect("a message"))
}

/// The type of the answer, and the address that it gives.
fn answer(frame: &[u8]) -> Option<(u8, Ipv4Addr)> {
    heard(serving(), frame).map(|heard| {
        let Says::Dhcpv4 { head, options } = heard.says else { panic!("an answer") };
        assert_eq!(options[&54], SERVER.octets());
        (options[&53][0], Ipv4Addr::new(head[16], head[17], head[18], head[19]))
    })
}

fn wants(code: u8, ip: Ipv4Addr) -> Vec<u8> {
    [&[code, 4][..], &ip.octets()].concat()
}

#[test]
fn a_machine_is_offered_its_address_and_has_it_when_it_asks_for_it() {
    let (nowhere, other) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 0, 9));
    assert_eq!(answer(&message(DISCOVER, nowhere, &[])), Some((2, own())));
    let selecting = [wants(50, own()), wants(54, SERVER)].concat();
    assert_eq!(answer(&message(REQUEST, nowhere, &selecting)), Some((5, own())));
    assert_eq!(answer(&message(REQUEST, nowhere, &wants(50, own()))), Some((5, own())));
    assert_eq!(answer(&message(REQUEST, own(), &[])), Some((5, own())), "it renews");
    assert_eq!(answer(&message(REQUEST, nowhere, &wants(50, other))), Some((6, nowhere)));
    assert_eq!(answer(&message(REQUEST, other, &[])), Some((6, nowhere)));
    let elsewhere = [wants(50, own()), wants(54, other)].concat();
    assert_eq!(answer(&message(REQUEST, nowhere, &elsewhere)), None, "it has chosen another server");
    assert_eq!(answer(&message(8, own(), &[])), Some((5, nowhere)), "it needs no address");
    assert_eq!(answer(&message(7, own(), &wants(54, SERVER))), None, "it gives the address back");
    assert_eq!(
        answer(&message(4, nowhere, &wants(50, own()))),
        None,
        "it has found another with the address"
    );
}

#[test]
fn an_answer_says_what_the_machine_asks_for() {
    let heard_by_a =
        heard(serving(), &message(DISCOVER, Ipv4Addr::UNSPECIFIED, &[55, 1, 6])).expect("an offer");
    assert_eq!(heard_by_a.macs, (mac(1), SERVER_MAC));
    let Says::Dhcpv4 { options, .. } = heard_by_a.says else { panic!("an offer") };
    let codes: Vec<u8> = options.keys().copied().collect();
    assert_eq!(codes, [1, 6, 51, 53, 54, 58, 59]);
    assert_eq!((&options[&1][..], &options[&6][..]), (&[255, 255, 255, 0][..], &SERVER.octets()[..]));
    assert_eq!((&options[&51][..], &options[&58][..]), (&[0, 0, 0x0e, 0x10][..], &[0, 0, 7, 8][..]));
}

#[test]
fn who_has_no_address_in_a_network_of_a_server_asks_others() {
    let mut world = serving();
    world.dhcps.get_mut("four").expect("a server").net = Network::of(Ipv4Addr::new(10, 7, 0, 0), 24);
    world.ports.insert("e".into(), unknown("blue"));
    world.vnics.insert(("hv1".into(), "e".into()), 1);
    let mut model = Model::new(world);
    let out = send_any(&mut model, "a", &message(DISCOVER, Ipv4Addr::UNSPECIFIED, &[]));
    assert_eq!(out.len(), 1, "the request goes where it would go without a server");
    assert_eq!(model.messages(), []);
}

/// A message of `a` to all servers of IPv6, with these options beside its name.
fn message_v6(kind: u8, options: &[u8]) -> Vec<u8> {
    const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
    let client = [&[0, 1, 0, 10, 0, 3, 0, 1][..], &mac(1)].concat();
    let all = [&[kind, 1, 2, 3][..], &client, options].concat();
    let datagram = udp(546, 547, &all, Endpoints::V6(link_local(1), ALL));
    frame(mac(1), [0x33, 0x33, 0, 1, 0, 2], IPV6, &Ipv6::new(link_local(1), ALL, UDP).packet(&datagram))
}

#[test]
fn a_machine_of_ipv6_gets_all_its_addresses_of_the_network() {
    let association = [&[0, 3, 0, 12, 0, 0, 0, 1][..], &[0; 8]].concat();
    let heard_by_a = heard(serving(), &message_v6(1, &association)).expect("an advertisement");
    assert_eq!(heard_by_a.macs, (mac(1), SERVER_MAC));
    let Says::Dhcpv6 { head, options } = heard_by_a.says else { panic!("an advertisement") };
    assert_eq!(head, [2, 1, 2, 3]);
    let given = &options.iter().find(|(code, _)| *code == 3).expect("an association").1;
    assert_eq!(given[12..14], [0, 5]);
    assert_eq!(given[14..30], Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    // It names the server that it has chosen, or hears nothing.
    assert_eq!(heard(serving(), &message_v6(3, &association)), None);
    let named = [&[0, 2, 0, 10, 0, 3, 0, 1][..], &SERVER_MAC, &association].concat();
    let heard_by_a = heard(serving(), &message_v6(3, &named)).expect("a reply");
    assert!(matches!(heard_by_a.says, Says::Dhcpv6 { head: [7, 1, 2, 3], .. }));
}
