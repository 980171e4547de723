//! What no port may send, and what only routers and DHCP servers may.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{ICMP, IPV4, Ipv4, icmp};
use network_spec::{Mac, Model, Trust};

use crate::sentences::frames::*;
use crate::sentences::worlds::{on_vlan, port, secured, send, unknown as open, world};

const M: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], BROADCAST);
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// `s` is secured with IP addresses and `m` with a MAC alone, both trusted with `trust`; `p` and `u` are not secured.
/// `physnet` is a physical network.
fn blue(trust: &[Trust]) -> Model {
    let trusted =
        |port: network_spec::Port| network_spec::Port { trust: trust.iter().copied().collect(), ..port };
    let ports = [
        ("s", "hv1", trusted(secured("blue", 1, &[ipv4(1).into(), ipv6(1).into()]))),
        ("m", "hv1", trusted(secured("blue", 2, &[]))),
        ("p", "hv1", port("blue", 3)),
        ("u", "hv1", open("blue")),
    ];
    Model::new(on_vlan(world(&[], &ports), "blue", 0))
}

/// Whether a frame from this port reaches another; its sender is made the port's.
fn passes(trust: &[Trust], from: &str, frame: &[u8]) -> bool {
    let mut frame = frame.to_vec();
    frame[11] = match from {
        "s" => 1,
        "m" => 2,
        "p" => 3,
        _ => 9,
    };
    !send(&mut blue(trust), from, &frame).is_empty()
}

const SENDERS: [&str; 5] = ["s", "m", "p", "u", "physnet"];

fn message(kind: u8, code: u8, hops: u8) -> Vec<u8> {
    let addresses = (ipv6(1), ALL);
    let mut frame = packet6(M, addresses, 58, &icmpv6(addresses, &[kind, code, 0, 0, 0, 0, 0, 0]));
    frame[14 + 7] = hops;
    frame
}

fn message4(kind: u8) -> Vec<u8> {
    frame(M.0, M.1, IPV4, &Ipv4::new(ipv4(1), Ipv4Addr::BROADCAST, ICMP).packet(&icmp(kind, &[0; 8])))
}

#[test]
fn a_group_sends_nothing() {
    for from in ["p", "u", "physnet"] {
        let mut model = blue(&[]);
        assert!(!send(&mut model, from, &unknown(mac(9), BROADCAST)).is_empty());
        for group in [BROADCAST, [1, 0, 0x5e, 0, 0, 1], [3, 0, 0, 0, 0, 1]] {
            assert!(send(&mut model, from, &unknown(group, BROADCAST)).is_empty(), "from {from}");
        }
    }
}

#[test]
fn what_bridges_say_to_their_neighbours_goes_no_further() {
    for from in SENDERS {
        let to = |last| unknown(mac(1), [1, 0x80, 0xc2, 0, 0, last]);
        for last in 0..16 {
            assert!(!passes(&[], from, &to(last)), "{last} from {from}");
        }
        assert_eq!(passes(&[], from, &to(16)), from != "s");
    }
}

#[test]
fn discovery_from_outside_the_link_goes_nowhere() {
    let all = [Trust::Ra, Trust::Redirect];
    for from in SENDERS {
        for kind in [133, 134, 137] {
            for code in [0, 1] {
                assert!(passes(&all, from, &message(kind, code, 255)), "type {kind} from {from}");
                assert!(!passes(&all, from, &message(kind, code, 254)), "type {kind} from {from}");
            }
        }
        assert!(passes(&all, from, &message(128, 0, 64)) && passes(&all, from, &message(143, 0, 1)));
        for kind in [135, 136] {
            let mut said = discovery(M, (ipv6(1), ALL), (kind, 0), ipv6(1), &[]);
            assert!(passes(&all, from, &said), "type {kind} from {from}");
            said[14 + 7] = 64;
            assert!(!passes(&all, from, &said), "type {kind} from {from}");
        }
    }
}

#[test]
fn only_a_trusted_port_or_one_without_port_security_says_where_routers_and_servers_are() {
    let dhcp = |from| udp4(M, (ipv4(1), Ipv4Addr::BROADCAST), (from, 68), 0);
    let dhcp6 = |from: u8| packet6(M, (ipv6(1), ALL), 17, &[2, from, 2, 0x22, 0, 8, 1, 1]);
    let said = [
        (Trust::Ra, message(134, 0, 255)),
        (Trust::Ra, message4(9)),
        (Trust::Redirect, message(137, 0, 255)),
        (Trust::Redirect, message4(5)),
        (Trust::DhcpServer, dhcp(67)),
        (Trust::DhcpServer, dhcp(5)),
        (Trust::DhcpServer, dhcp6(0x23)),
        (Trust::DhcpServer, dhcp6(5)),
    ];
    for (trust, frame) in said {
        for from in SENDERS {
            let secured = matches!(from, "s" | "m");
            assert_eq!(passes(&[], from, &frame), !secured, "{trust:?} from {from}");
            for given in [Trust::Ra, Trust::Redirect, Trust::DhcpServer] {
                assert_eq!(
                    passes(&[given], from, &frame),
                    !secured || given == trust,
                    "{trust:?} from {from}"
                );
            }
        }
    }
}

#[test]
fn a_fragment_says_neither_and_passes() {
    let fragment = |inside: &[u8], next, offset: u8| {
        packet6(M, (ipv6(1), ALL), 44, &[&[next, 0, 0, offset, 0, 0, 0, 1], inside].concat())
    };
    let advertises = icmpv6((ipv6(1), ALL), &[134, 0, 0, 0, 0, 0, 0, 0]);
    for from in SENDERS {
        assert_eq!(
            passes(&[], from, &fragment(&advertises, 58, 0)),
            !matches!(from, "s" | "m"),
            "all in one"
        );
        assert!(passes(&[], from, &fragment(&advertises, 58, 1)), "the first");
        assert!(passes(&[], from, &fragment(&advertises, 58, 8)), "a later one");
        let served = udp4(M, (ipv4(1), Ipv4Addr::BROADCAST), (67, 68), 0x2000);
        assert!(passes(&[], from, &served));
    }
}

#[test]
fn who_sends_what_is_withheld_is_learned_nevertheless() {
    let mut model = blue(&[]);
    let mut said = message(134, 0, 64);
    said[11] = 9;
    assert!(send(&mut model, "u", &said).is_empty());
    assert_eq!(send(&mut model, "p", &unknown(mac(3), mac(9))), ["u"]);
}
