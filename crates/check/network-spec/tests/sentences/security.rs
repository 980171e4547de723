//! The frames that a secured port may send and receive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network_spec::{Mac, Model};

use crate::sentences::frames::*;
use crate::sentences::worlds::{secured, send, unknown as open, world};

const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const NOBODY6: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

/// `s` with MAC 1 and these addresses; `u` sends and receives everything.
fn facing(ips: &[IpAddr]) -> Model {
    Model::new(world(&[], &[("s", "hv1", secured("blue", 1, ips)), ("u", "hv1", open("blue"))]))
}

fn passes_from(ips: &[IpAddr], frame: &[u8]) -> bool {
    !send(&mut facing(ips), "s", frame).is_empty()
}

fn passes_to(ips: &[IpAddr], frame: &[u8]) -> bool {
    !send(&mut facing(ips), "u", frame).is_empty()
}

fn both() -> [IpAddr; 2] {
    [ipv4(1).into(), ipv6(1).into()]
}

const M: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);

fn udp(from: Ipv4Addr) -> Vec<u8> {
    udp4(M, (from, ipv4(9)), (5, 6), 0)
}

fn udp_v6(from: Ipv6Addr) -> Vec<u8> {
    packet6(M, (from, ipv6(9)), 17, &[0, 5, 0, 6, 0, 8, 1, 1])
}

fn message(from: Ipv6Addr, kind: u8) -> Vec<u8> {
    let addresses = (from, ipv6(9));
    packet6(M, addresses, 58, &icmpv6(addresses, &[kind, 0, 0, 0, 0, 0, 0, 0]))
}

#[test]
fn a_frame_is_from_a_mac_of_the_port() {
    assert!(passes_from(&[], &unknown(mac(1), mac(9))));
    assert!(!passes_from(&[], &unknown(mac(2), mac(9))));
    assert!(!passes_from(&both(), &udp4((mac(2), mac(9)), (ipv4(1), ipv4(9)), (5, 6), 0)));
}

#[test]
fn a_mac_without_ip_addresses_sends_anything_that_names_no_other_mac() {
    let said = |sha| arp(mac(1), BROADCAST, 1, (sha, ipv4(7)), ([0; 6], ipv4(9)));
    assert!(passes_from(&[], &said(mac(1))));
    assert!(!passes_from(&[], &said(mac(2))));
    assert!(!passes_from(&[], &said(mac(1))[..30]), "ARP that cannot be read");
    assert!(passes_from(&[], &udp(ipv4(7))) && passes_from(&[], &udp_v6(ipv6(7))));
    for kind in [135, 136] {
        let said = |option: &[u8]| discovery(M, (ipv6(7), ipv6(9)), (kind, 0), ipv6(8), option);
        let option = kind - 134;
        assert!(passes_from(&[], &said(&[])));
        assert!(passes_from(&[], &said(&link_layer(option, mac(1)))));
        assert!(!passes_from(&[], &said(&link_layer(option, mac(2)))));
    }
}

#[test]
fn rarp_asks_for_the_ports_own_address() {
    let rarp = |src, sha, operation| {
        let packet = frame_builder::Arp { operation, sender: (sha, NOBODY), target: (sha, NOBODY) };
        frame(src, BROADCAST, frame_builder::RARP, &frame_builder::arp(packet))
    };
    for ips in [&both()[..], &[ipv4(1).into()], &[ipv6(1).into()]] {
        assert!(passes_from(ips, &rarp(mac(1), mac(1), 3)));
        assert!(!passes_from(ips, &rarp(mac(1), mac(2), 3)), "in the name of another");
        assert!(!passes_from(ips, &rarp(mac(2), mac(2), 3)), "from another MAC");
        assert!(!passes_from(ips, &rarp(mac(1), mac(1), 4)), "an answer");
        assert!(!passes_from(ips, &rarp(mac(1), mac(1), 3)[..30]), "RARP that cannot be read");
    }
    assert!(passes_from(&[], &rarp(mac(1), mac(1), 3)));
}

#[test]
fn ipv4_is_from_the_ports_addresses_or_asks_for_one() {
    assert!(passes_from(&both(), &udp(ipv4(1))));
    assert!(!passes_from(&both(), &udp(ipv4(2))));
    assert!(!passes_from(&both(), &udp(NOBODY)));
    assert!(!passes_from(&both(), &udp(ipv4(1))[..33]), "a header that is cut short");
    assert!(!passes_from(&[ipv6(1).into()], &udp(ipv4(1))));
    let dhcp = |from, to, ports, fragment| udp4((mac(1), BROADCAST), (from, to), ports, fragment);
    let all = Ipv4Addr::BROADCAST;
    assert!(passes_from(&both(), &dhcp(NOBODY, all, (68, 67), 0)));
    assert!(!passes_from(&both(), &dhcp(NOBODY, all, (67, 68), 0)));
    assert!(!passes_from(&both(), &dhcp(NOBODY, ipv4(9), (68, 67), 0)));
    assert!(!passes_from(&both(), &dhcp(ipv4(2), all, (68, 67), 0)));
    assert!(!passes_from(&both(), &dhcp(NOBODY, all, (68, 67), 0x2000)), "a fragment has no ports");
}

#[test]
fn arp_is_from_the_ports_mac_and_addresses() {
    let said = |sha, spa| arp(mac(1), BROADCAST, 1, (sha, spa), ([0; 6], ipv4(9)));
    assert!(passes_from(&both(), &said(mac(1), ipv4(1))));
    assert!(!passes_from(&both(), &said(mac(2), ipv4(1))));
    assert!(!passes_from(&both(), &said(mac(1), ipv4(2))));
    assert!(!passes_from(&[ipv6(1).into()], &said(mac(1), NOBODY)));
}

#[test]
fn ipv6_is_from_the_ports_addresses_its_link_local_one_or_none_yet() {
    assert!(passes_from(&both(), &udp_v6(ipv6(1))));
    assert!(passes_from(&both(), &udp_v6(link_local(1))));
    assert!(!passes_from(&both(), &udp_v6(link_local(2))));
    assert!(!passes_from(&both(), &udp_v6(ipv6(2))));
    assert!(!passes_from(&both(), &udp_v6(NOBODY6)));
    assert!(!passes_from(&[ipv4(1).into()], &udp_v6(ipv6(1))));
    assert!(!passes_from(&[ipv4(1).into()], &udp_v6(link_local(1))));
    assert!(passes_from(&both(), &message(link_local(1), 133)));
}

#[test]
fn what_discovery_says_inside_is_the_ports_as_well() {
    let said = |kind, target, option: &[u8]| discovery(M, (ipv6(1), ipv6(9)), (kind, 0), target, option);
    for (option, passes) in [(vec![], true), (link_layer(1, mac(1)), true), (link_layer(1, mac(2)), false)] {
        assert_eq!(passes_from(&both(), &said(135, ipv6(9), &option)), passes);
    }
    for (option, passes) in [(vec![], true), (link_layer(2, mac(1)), true), (link_layer(2, mac(2)), false)] {
        assert_eq!(passes_from(&both(), &said(136, ipv6(1), &option)), passes);
    }
    assert!(passes_from(&both(), &said(136, link_local(1), &[])));
    assert!(!passes_from(&both(), &said(136, ipv6(2), &[])));
}

#[test]
fn discovery_behind_extension_headers_is_found_and_in_fragments_it_is_nothing() {
    let addresses = (ipv6(1), ipv6(9));
    let spoofed = [&[136, 0, 0, 0, 0, 0, 0, 0][..], &ipv6(2).octets()].concat();
    let behind =
        |headers: &[u8], next| packet6(M, addresses, next, &[headers, &icmpv6(addresses, &spoofed)].concat());
    assert!(!passes_from(&both(), &behind(&[], 58)));
    assert!(!passes_from(&both(), &behind(&[58, 0, 1, 4, 0, 0, 0, 0], 0)), "hop by hop");
    assert!(!passes_from(&both(), &behind(&[58, 0, 0, 0, 0, 0, 0, 1], 44)), "the only fragment");
    assert!(passes_from(&both(), &behind(&[58, 0, 0, 1, 0, 0, 0, 1], 44)), "the first of several");
    assert!(passes_from(&both(), &behind(&[58, 0, 1, 0, 0, 0, 0, 1], 44)), "a later one");
}

#[test]
fn nothing_but_ip_and_arp_is_from_a_mac_with_addresses() {
    assert!(!passes_from(&both(), &unknown(mac(1), mac(9))));
    assert!(!passes_from(&both(), &frame(mac(1), mac(9), 4, &[0x42, 0x42, 3, 0])), "LLC");
}

#[test]
fn what_is_for_many_passes_to_a_secured_port() {
    for ips in [vec![], both().to_vec()] {
        assert!(passes_to(&ips, &unknown(mac(9), BROADCAST)));
        assert!(passes_to(&ips, &udp4((mac(9), [1, 0, 0x5e, 0, 0, 1]), (ipv4(9), ipv4(2)), (5, 6), 0)));
    }
}

#[test]
fn what_is_for_one_passes_if_it_is_for_the_ports_addresses() {
    let macs = (mac(9), mac(1));
    let v4 = |to| udp4(macs, (ipv4(9), to), (5, 6), 0);
    let v6 = |to| packet6(macs, (ipv6(9), to), 17, &[0, 5, 0, 6, 0, 8, 1, 1]);
    let said = |tpa| arp(mac(9), mac(1), 2, (mac(9), ipv4(9)), (mac(1), tpa));
    assert!(passes_to(&both(), &v4(ipv4(1))) && !passes_to(&both(), &v4(ipv4(2))));
    assert!(passes_to(&both(), &said(ipv4(1))) && !passes_to(&both(), &said(ipv4(2))));
    // The answer to a probe says who has the address, and to whom: to nobody yet (RFC 5227).
    let asked = arp(mac(9), mac(1), 1, (mac(9), ipv4(9)), (mac(1), NOBODY));
    assert!(passes_to(&both(), &said(NOBODY)) && !passes_to(&both(), &asked));
    assert!(!passes_to(&both(), &said(NOBODY)[..30]), "ARP that cannot be read");
    for to in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::new(239, 255, 255, 255)] {
        assert!(passes_to(&both(), &v4(to)) && passes_to(&[ipv6(1).into()], &v4(to)), "{to}");
    }
    assert!(
        !passes_to(&both(), &v4(Ipv4Addr::new(10, 0, 0, 255))),
        "a broadcast of a network that nobody declared"
    );
    let groups = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for (to, passes) in [(ipv6(1), true), (link_local(1), true), (groups, true), (ipv6(2), false)] {
        assert_eq!(passes_to(&both(), &v6(to)), passes, "{to}");
    }
    assert!(passes_to(&[ipv4(1).into()], &v6(groups)) && !passes_to(&[ipv6(1).into()], &v4(ipv4(1))));
    assert!(!passes_to(&both(), &unknown(mac(9), mac(1))));
    assert!(passes_to(&[], &unknown(mac(9), mac(1))) && passes_to(&[], &v4(ipv4(2))));
}

#[test]
fn a_solicitation_passes_by_what_it_asks_for() {
    let macs = (mac(9), mac(1));
    let asked = |to, target| discovery(macs, (ipv6(9), to), (135, 0), target, &[]);
    assert!(passes_to(&both(), &asked(ipv6(1), ipv6(1))));
    assert!(passes_to(&both(), &asked(ipv6(1), link_local(1))));
    assert!(!passes_to(&both(), &asked(ipv6(1), ipv6(2))));
    let groups = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    assert!(passes_to(&both(), &asked(groups, ipv6(1))) && !passes_to(&both(), &asked(groups, ipv6(2))));
    assert!(!passes_to(&[ipv4(1).into()], &asked(groups, ipv6(1))));
}

#[test]
fn each_mac_of_a_port_has_its_own_addresses() {
    let mut model = facing(&both());
    model.apply(|world| {
        let port = world.ports.get_mut("s").unwrap();
        port.addresses.push(network_spec::Address { mac: mac(2), ips: vec![ipv4(2).into()] });
    });
    let from = |number, ip| udp4((mac(number), mac(9)), (ip, ipv4(9)), (5, 6), 0);
    assert!(!send(&mut model, "s", &from(2, ipv4(2))).is_empty());
    assert!(send(&mut model, "s", &from(2, ipv4(1))).is_empty());
    assert!(send(&mut model, "s", &from(1, ipv4(2))).is_empty());
}
