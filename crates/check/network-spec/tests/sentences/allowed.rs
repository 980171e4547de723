//! What ports do with addresses that they are allowed beside their own.

use network_spec::{Allowed, Encap, Learning, Mac, Model, Network, Port};

use crate::sentences::frames::*;
use crate::sentences::worlds::{port, secured, send, unknown as open, world};

/// A MAC that ports share.
const SHARED: Mac = [0, 0, 0x5e, 0, 1, 7];

fn at_own(ips: &[Network]) -> Allowed {
    Allowed { mac: None, ips: ips.to_vec() }
}

fn at_shared(ips: &[Network]) -> Allowed {
    Allowed { mac: Some(SHARED), ips: ips.to_vec() }
}

/// A port with port security and addresses of its number, which is allowed others besides.
fn allowed(number: u8, allowed: Vec<Allowed>) -> Port {
    Port { allowed, ..secured("blue", number, &[ipv4(number).into(), ipv6(number).into()]) }
}

/// `s` with number 1 is allowed these; `u` sends and receives everything.
fn facing(all: Vec<Allowed>) -> Model {
    Model::new(world(&[], &[("s", "hv1", allowed(1, all)), ("u", "hv1", open("blue"))]))
}

fn from(src: Mac, ip: [u8; 4]) -> Vec<u8> {
    udp4((src, mac(9)), (ip.into(), ipv4(9)), (5, 6), 0)
}

fn to(dst: Mac, ip: [u8; 4]) -> Vec<u8> {
    udp4((mac(9), dst), (ipv4(9), ip.into()), (5, 6), 0)
}

#[test]
fn a_secured_port_uses_allowed_prefixes_at_its_own_macs() {
    let mut model = facing(vec![at_own(&[Network::of([10, 244, 0, 0], 16)])]);
    assert_eq!(send(&mut model, "s", &from(mac(1), [10, 244, 3, 4])), ["u"]);
    assert!(send(&mut model, "s", &from(mac(1), [10, 245, 3, 4])).is_empty());
    assert!(send(&mut model, "s", &from(mac(2), [10, 244, 3, 4])).is_empty());
    assert_eq!(send(&mut model, "u", &to(mac(1), [10, 244, 3, 4])), ["s"]);
    assert!(send(&mut model, "u", &to(mac(1), [10, 245, 3, 4])).is_empty());
    let said = |spa: [u8; 4]| arp(mac(1), BROADCAST, 1, (mac(1), spa.into()), ([0; 6], ipv4(9)));
    assert_eq!(send(&mut model, "s", &said([10, 244, 3, 4])), ["u"]);
    assert!(send(&mut model, "s", &said([10, 245, 3, 4])).is_empty());
}

#[test]
fn discovery_names_allowed_addresses_too() {
    let mut model = facing(vec![at_own(&[Network::of(ipv6(64), 124)])]);
    let said =
        |target| discovery((mac(1), mac(9)), (ipv6(1), ipv6(9)), (136, 0), target, &link_layer(2, mac(1)));
    assert_eq!(send(&mut model, "s", &said(ipv6(70))), ["u"]);
    assert!(send(&mut model, "s", &said(ipv6(80))).is_empty());
    let mut model = facing(vec![at_own(&[Network::of(std::net::Ipv6Addr::UNSPECIFIED, 0)])]);
    assert_eq!(send(&mut model, "s", &said(ipv6(80))), ["u"]);
    assert!(send(&mut model, "s", &said(std::net::Ipv6Addr::UNSPECIFIED)).is_empty(), "this is no address");
}

#[test]
fn the_unspecified_address_is_in_no_prefix() {
    let mut model = facing(vec![at_own(&[Network::of([0, 0, 0, 0], 0)])]);
    assert_eq!(send(&mut model, "s", &from(mac(1), [192, 0, 2, 1])), ["u"]);
    assert!(send(&mut model, "s", &from(mac(1), [0; 4])).is_empty());
    assert_eq!(send(&mut model, "u", &to(mac(1), [192, 0, 2, 1])), ["s"]);
    assert!(send(&mut model, "u", &to(mac(1), [0; 4])).is_empty());
}

#[test]
fn at_a_shared_mac_a_port_uses_what_it_is_allowed_there_and_its_own_addresses() {
    let mut model = facing(vec![
        at_shared(&[Network::host(ipv4(100).into())]),
        at_own(&[Network::host(ipv4(50).into())]),
    ]);
    for (ip, passes) in [(100, true), (1, true), (50, false), (2, false)] {
        let passed = !send(&mut model, "s", &from(SHARED, ipv4(ip).octets())).is_empty();
        assert_eq!(passed, passes, "{ip}");
    }
    assert!(send(&mut model, "s", &from(mac(1), ipv4(100).octets())).is_empty());
    let v6 = |from| packet6((SHARED, mac(9)), (from, ipv6(9)), 17, &[0, 5, 0, 6, 0, 8, 1, 1]);
    assert!(!send(&mut model, "s", &v6(link_local(1))).is_empty(), "that of its own MAC");
    let mut model = facing(vec![at_shared(&[])]);
    assert!(!send(&mut model, "s", &from(SHARED, ipv4(77).octets())).is_empty(), "any");
    assert!(!send(&mut model, "s", &unknown(SHARED, mac(9))).is_empty(), "any");
}

/// `a` and `b` share a MAC; `c` and the secured `d` do not.
fn sharing(encap: Encap) -> Model {
    let both = || vec![at_shared(&[Network::host(ipv4(100).into())])];
    Model::new(world(
        &[encap],
        &[
            ("a", "hv1", allowed(1, both())),
            ("b", "hv2", allowed(2, both())),
            ("c", "hv3", port("blue", 3)),
            ("d", "hv1", secured("blue", 4, &[ipv4(4).into()])),
        ],
    ))
}

fn announcement() -> Vec<u8> {
    arp(SHARED, BROADCAST, 1, (SHARED, ipv4(100)), ([0; 6], ipv4(100)))
}

#[test]
fn frames_to_a_shared_mac_follow_its_last_sender() {
    let mut model = sharing(Encap::Geneve);
    let asked = udp4((mac(3), SHARED), (ipv4(3), ipv4(100)), (5, 6), 0);
    assert_eq!(send(&mut model, "c", &asked), ["a", "b"], "nobody was heard, and d may not receive it");
    send(&mut model, "a", &announcement());
    assert_eq!(send(&mut model, "c", &asked), ["a"]);
    send(&mut model, "b", &announcement());
    assert_eq!(send(&mut model, "c", &asked), ["b"]);
    assert!(send(&mut model, "d", &announcement()).is_empty());
    assert_eq!(send(&mut model, "c", &asked), ["b"], "d may not use it");
    assert!(send(&mut model, "a", &from(SHARED, [10, 9, 9, 9])).is_empty());
    assert_eq!(send(&mut model, "c", &asked), ["b"], "what may not be sent teaches nothing");
    assert!(
        send(&mut model, "c", &unknown(mac(3), mac(77))).is_empty(),
        "other addresses are not looked for"
    );
    send(&mut model, "c", &unknown(SHARED, BROADCAST));
    assert_eq!(send(&mut model, "d", &udp4((mac(4), SHARED), (ipv4(4), ipv4(100)), (5, 6), 0)), ["b"]);
}

#[test]
fn a_shared_mac_is_forgotten_where_it_is_allowed_no_more_or_heard_from_nobody_knows_where() {
    let asked = udp4((mac(3), SHARED), (ipv4(3), ipv4(100)), (5, 6), 0);
    let mut model = sharing(Encap::Geneve);
    send(&mut model, "a", &announcement());
    model.apply(|world| world.ports.get_mut("a").unwrap().allowed.clear());
    assert_eq!(send(&mut model, "c", &asked), ["b"]);
    send(&mut model, "b", &announcement());
    model.apply(|world| {
        world.switches.get_mut("blue").unwrap().learning = Learning { limit: 0, ..Learning::default() };
    });
    send(&mut model, "b", &announcement());
    assert_eq!(send(&mut model, "c", &asked), ["b"], "nothing is learned, and a may not receive it");
    let mut model = sharing(Encap::Vxlan);
    send(&mut model, "a", &announcement());
    assert_eq!(send(&mut model, "c", &asked), ["a", "b"]);
}
