//! What a secured port may send without a sender's address, and nothing that is like it but for one field: whoever hears such a message
//! believes it without asking whose it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{ARP, Arp, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, solicited_node};
use network_spec::{Mac, Model};

use crate::sentences::frames::*;
use crate::sentences::worlds::{secured, send, unknown as open, world};

const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const NOBODY6: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
const ALL_NODES: Ipv6Addr = group(1);
const ALL_ROUTERS: Ipv6Addr = group(2);

/// A group of the link.
const fn group(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, number)
}

/// Whether a frame of `s`, whose MAC 1 has these addresses, reaches `u`. Port `v` of the same switch has the addresses of number 9, and
/// another number 2, which is on no host.
fn passes(ips: &[IpAddr], frame: &[u8]) -> bool {
    let nowhere = secured("blue", 2, &[ipv4(2).into(), ipv6(2).into()]);
    let ports = [
        ("s", "hv1", secured("blue", 1, ips)),
        ("u", "hv1", open("blue")),
        ("v", "hv1", secured("blue", 9, &[ipv4(9).into(), ipv6(9).into()])),
        ("nowhere", "", nowhere),
    ];
    !send(&mut Model::new(world(&[], &ports)), "s", frame).is_empty()
}

fn both() -> [IpAddr; 2] {
    [ipv4(1).into(), ipv6(1).into()]
}

fn probe(dst: Mac, operation: u16, sha: Mac, spa: Ipv4Addr, tpa: Ipv4Addr) -> Vec<u8> {
    frame(mac(1), dst, ARP, &frame_builder::arp(Arp { operation, sender: (sha, spa), target: ([0; 6], tpa) }))
}

#[test]
fn p10_a_probe_asks_all_for_an_address_of_the_port() {
    let v4 = [ipv4(1).into(), ipv4(3).into()];
    for ips in [&both()[..], &v4] {
        assert!(passes(ips, &probe(BROADCAST, 1, mac(1), NOBODY, ipv4(1))), "RFC 5227, 2.1.1");
        for (what, frame) in [
            ("for the address of another", probe(BROADCAST, 1, mac(1), NOBODY, ipv4(9))),
            ("for one of a port that is nowhere", probe(BROADCAST, 1, mac(1), NOBODY, ipv4(2))),
            ("for an address that nobody has", probe(BROADCAST, 1, mac(1), NOBODY, ipv4(8))),
            ("for none", probe(BROADCAST, 1, mac(1), NOBODY, NOBODY)),
            ("in the name of another MAC", probe(BROADCAST, 1, mac(9), NOBODY, ipv4(1))),
            ("as a reply", probe(BROADCAST, 2, mac(1), NOBODY, ipv4(1))),
            ("as a reply about another", probe(BROADCAST, 2, mac(1), NOBODY, ipv4(9))),
            ("as no operation", probe(BROADCAST, 0, mac(1), NOBODY, ipv4(1))),
            ("to one machine alone", probe(mac(9), 1, mac(1), NOBODY, ipv4(1))),
            ("to one machine, for its address", probe(mac(9), 1, mac(1), NOBODY, ipv4(9))),
            ("as a reply to one machine", probe(mac(9), 2, mac(1), NOBODY, ipv4(9))),
            ("to a group", probe([1, 0, 0x5e, 0, 0, 1], 1, mac(1), NOBODY, ipv4(1))),
        ] {
            assert!(!passes(ips, &frame), "{what}");
        }
    }
    assert!(passes(&v4, &probe(BROADCAST, 1, mac(1), NOBODY, ipv4(3))), "its other address");
    assert!(!passes(&[ipv6(1).into()], &probe(BROADCAST, 1, mac(1), NOBODY, ipv4(1))), "no IPv4");
}

#[test]
fn p10_an_announcement_is_of_an_address_of_the_port() {
    for operation in [1, 2] {
        assert!(passes(&both(), &probe(BROADCAST, operation, mac(1), ipv4(1), ipv4(1))), "RFC 5227, 3");
        assert!(!passes(&both(), &probe(BROADCAST, operation, mac(1), ipv4(9), ipv4(9))));
        assert!(!passes(&both(), &probe(mac(9), operation, mac(1), ipv4(9), ipv4(9))));
    }
}

#[test]
fn p10_a_mac_without_addresses_may_want_any() {
    assert!(passes(&[], &probe(BROADCAST, 1, mac(1), NOBODY, ipv4(8))));
    assert!(!passes(&[], &probe(BROADCAST, 1, mac(9), NOBODY, ipv4(8))));
    assert!(passes(&[], &detection(ipv6(8), solicited_node(ipv6(8)).0, (135, 0), &[])));
}

/// Duplicate address detection.
fn detection(target: Ipv6Addr, dst: Ipv6Addr, (kind, code): (u8, u8), option: &[u8]) -> Vec<u8> {
    let message = [&[kind, code, 0, 0, 0, 0, 0, 0][..], &target.octets(), option].concat();
    packet6((mac(1), BROADCAST), (NOBODY6, dst), ICMPV6, &icmpv6((NOBODY6, dst), &message))
}

#[test]
fn p9_duplicates_are_detected_of_addresses_of_the_port() {
    let group_of = |target| solicited_node(target).0;
    for target in [ipv6(1), link_local(1)] {
        for ips in [&both()[..], &[ipv6(1).into()]] {
            let to = group_of(target);
            assert!(passes(ips, &detection(target, to, (135, 0), &[])), "RFC 4862, 5.4.2");
            assert!(
                passes(ips, &detection(target, to, (135, 0), &[14, 1, 1, 2, 3, 4, 5, 6])),
                "a nonce, RFC 7527"
            );
            for (what, frame) in [
                ("with a link-layer address", detection(target, to, (135, 0), &link_layer(1, mac(1)))),
                ("with another code", detection(target, to, (135, 1), &[])),
                ("as an advertisement", detection(target, to, (136, 0), &[])),
                ("to all nodes", detection(target, ALL_NODES, (135, 0), &[])),
                ("to the address", detection(target, target, (135, 0), &[])),
            ] {
                assert!(!passes(ips, &frame), "{target} {what}");
            }
        }
    }
    for target in [ipv6(9), ipv6(2), ipv6(8), link_local(9), NOBODY6] {
        assert!(!passes(&both(), &detection(target, group_of(target), (135, 0), &[])), "{target}");
        assert!(!passes(&both(), &detection(target, group_of(ipv6(1)), (135, 0), &[])), "{target}");
    }
    assert!(
        !passes(&[ipv4(1).into()], &detection(link_local(1), group_of(link_local(1)), (135, 0), &[])),
        "no IPv6"
    );
}

/// A message of `ICMPv6` from nobody.
fn said(dst: Ipv6Addr, (kind, code): (u8, u8), hops: u8) -> Vec<u8> {
    let message = icmpv6((NOBODY6, dst), &[kind, code, 0, 0, 0, 0, 0, 0]);
    frame(mac(1), BROADCAST, IPV6, &Ipv6 { hops, ..Ipv6::new(NOBODY6, dst, ICMPV6) }.packet(&message))
}

#[test]
fn a_host_without_an_address_looks_for_routers_and_reports_its_groups() {
    let (wide, own_machine) =
        (Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 2));
    for ips in [&both()[..], &[]] {
        assert!(passes(ips, &said(ALL_ROUTERS, (133, 0), 255)), "RFC 4861, 6.3.7");
        assert!(!passes(ips, &said(ALL_ROUTERS, (133, 1), 255)), "6.1.1");
        assert!(!passes(ips, &said(ALL_NODES, (133, 0), 255)));
        assert!(!passes(ips, &said(wide, (133, 0), 255)));

        assert!(passes(ips, &said(group(0xfb), (131, 0), 1)), "RFC 2710, 3");
        assert!(passes(ips, &said(group(0x16), (143, 0), 1)), "RFC 3810, 5.2.13");
        assert!(passes(ips, &said(group(0x16), (143, 7), 1)), "receivers ignore the code");
        for kind in [131, 143] {
            for hops in [0, 2, 255] {
                assert!(!passes(ips, &said(group(0x16), (kind, 0), hops)), "type {kind}, hop limit {hops}");
            }
            for elsewhere in [ipv6(9), wide, own_machine] {
                assert!(!passes(ips, &said(elsewhere, (kind, 0), 1)), "type {kind} to {elsewhere}");
            }
        }
        assert!(!passes(ips, &said(group(0xfb), (143, 0), 1)), "RFC 3810, 5.2.14");
        for kind in [128, 130, 132, 134, 136, 137] {
            assert!(!passes(ips, &said(group(0x16), (kind, 0), 1)), "type {kind}");
        }
    }
    assert!(!passes(&[ipv4(1).into()], &said(ALL_ROUTERS, (133, 0), 255)), "no IPv6");
}

#[test]
fn p10_reports_of_groups_pass_over_ipv4_as_over_ipv6() {
    let reports = Ipv4Addr::new(224, 0, 0, 22);
    let report = |packet: Ipv4| {
        let options = vec![0x94, 4, 0, 0];
        let inside = [&[0x22, 0, 0, 0, 0, 0, 0, 0][..]].concat();
        frame(mac(1), [1, 0, 0x5e, 0, 0, 0x16], IPV4, &Ipv4 { options, ..packet }.packet(&inside))
    };
    let usual = || Ipv4 { ttl: 1, ..Ipv4::new(NOBODY, reports, 2) };
    for ips in [&both()[..], &[ipv4(1).into()], &[]] {
        assert!(passes(ips, &report(usual())), "RFC 3376, 4.2.13");
    }
    for (what, packet) in [
        ("a general query", Ipv4 { dst: Ipv4Addr::new(224, 0, 0, 1), ..usual() }),
        ("to another group", Ipv4 { dst: Ipv4Addr::new(224, 0, 0, 251), ..usual() }),
        ("to one machine", Ipv4 { dst: ipv4(9), ..usual() }),
        ("from another", Ipv4 { src: ipv4(9), ..usual() }),
        ("TTL 2", Ipv4 { ttl: 2, ..usual() }),
        ("a fragment", Ipv4 { fragment: 0x2000, ..usual() }),
        ("another protocol", Ipv4 { protocol: 17, ..usual() }),
    ] {
        assert!(!passes(&both(), &report(packet)), "{what}");
    }
    assert!(!passes(&[ipv6(1).into()], &report(usual())), "no IPv4");
}
