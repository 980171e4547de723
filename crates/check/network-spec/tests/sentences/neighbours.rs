//! Answers to ARP requests and neighbour solicitations.

use std::net::Ipv6Addr;

use network_spec::{Encap, Mac, Model};

use crate::sentences::frames::*;
use crate::sentences::worlds::{port, secured, send, send_any, unknown, world};

const NODES: Mac = [0x33, 0x33, 0xff, 0, 0, 2];

fn solicited(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, number.into())
}

fn blue() -> Model {
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("a", "hv1", port("blue", 1)),
            ("b", "hv2", port("blue", 2)),
            ("c", "hv1", port("blue", 3)),
            ("nowhere", "", port("blue", 4)),
            ("far", "hv2", port("red", 5)),
        ],
    ))
}

#[test]
fn a_request_is_answered_to_the_asker_alone_wherever_the_address_is() {
    let mut model = blue();
    for target in [2, 3, 4] {
        let asked = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(target)));
        let answer = arp(mac(target), mac(1), 2, (mac(target), ipv4(target)), (mac(1), ipv4(1)));
        assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)]);
    }
    let padded = [arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(2))), vec![7; 18]].concat();
    let answer = [arp(mac(2), mac(1), 2, (mac(2), ipv4(2)), (mac(1), ipv4(1))), vec![7; 18]].concat();
    assert_eq!(send_any(&mut model, "a", &padded), [("a".into(), answer)], "padding stays");
}

#[test]
fn who_asks_one_whether_it_is_still_there_is_told_by_it_alone() {
    let mut model = blue();
    let asked = arp(mac(1), mac(2), 1, (mac(1), ipv4(1)), (mac(2), ipv4(2)));
    assert_eq!(send(&mut model, "a", &asked), ["b"]);
    let of_nowhere = arp(mac(1), mac(4), 1, (mac(1), ipv4(1)), (mac(4), ipv4(4)));
    assert!(send(&mut model, "a", &of_nowhere).is_empty(), "it is gone");
    let option = link_layer(1, mac(1));
    let asked = discovery((mac(1), mac(2)), (ipv6(1), ipv6(2)), (135, 0), ipv6(2), &option);
    assert_eq!(send(&mut model, "a", &asked), ["b"]);
}

#[test]
fn a_solicitation_from_outside_the_link_is_not_answered() {
    let mut model = blue();
    let option = link_layer(1, mac(1));
    let mut asked = discovery((mac(1), NODES), (ipv6(1), solicited(2)), (135, 0), ipv6(2), &option);
    assert_eq!(send_any(&mut model, "a", &asked).len(), 1);
    asked[21] = 254;
    assert!(send(&mut model, "a", &asked).is_empty());
}

#[test]
fn what_no_port_has_what_is_the_askers_own_and_what_asks_nothing_goes_on() {
    let mut model = blue();
    let request = |operation, sender, target| {
        arp(mac(1), BROADCAST, operation, (mac(1), ipv4(sender)), ([0; 6], ipv4(target)))
    };
    for frame in
        [request(1, 1, 5), request(1, 1, 9), request(1, 1, 1), request(2, 1, 2), request(1 << 8, 1, 2)]
    {
        assert_eq!(send(&mut model, "a", &frame), ["b", "c"]);
    }
    assert_eq!(send(&mut model, "a", &request(1, 1, 2)[..40]), ["b", "c"], "cut short");
}

#[test]
fn who_probes_for_an_address_of_another_is_told() {
    let mut model = blue();
    model.apply(|world| {
        world.ports.insert("s".into(), secured("blue", 6, &[]));
        world.vnics.insert(("hv1".into(), "s".into()), 2);
    });
    let probe = arp(mac(6), BROADCAST, 1, (mac(6), ipv4(0).octets().map(|_| 0).into()), ([0; 6], ipv4(2)));
    let answer = arp(mac(2), mac(6), 2, (mac(2), ipv4(2)), (mac(6), [0; 4].into()));
    assert_eq!(send_any(&mut model, "s", &probe), [("s".into(), answer)], "also past its port security");
}

/// RFC 5227, 2.4: whoever has an address hears of each announcement of it by another machine. The others, whose packets the announcement
/// could draw away, do not.
#[test]
fn p8_who_announces_an_address_of_another_is_heard_by_its_owner_alone() {
    let mut model = blue();
    let request = |from, sender, target| {
        arp(mac(from), BROADCAST, 1, (mac(from), ipv4(sender)), ([0; 6], ipv4(target)))
    };
    let to_owner = [mac(2).as_slice(), &request(1, 2, 2)[6..]].concat();
    assert_eq!(send_any(&mut model, "a", &request(1, 2, 2)), [("b".into(), to_owner)]);
    let to_owner = [mac(1).as_slice(), &request(3, 1, 1)[6..]].concat();
    assert_eq!(send_any(&mut model, "c", &request(3, 1, 1)), [("a".into(), to_owner)], "on one host, too");
    assert!(send(&mut model, "a", &request(1, 4, 4)).is_empty(), "the owner is nowhere");
    // One's own address, one that no port has, and one of a port of another switch.
    for own in [1, 9, 5] {
        assert_eq!(send(&mut model, "a", &request(1, own, own)), ["b", "c"]);
    }
    // Who asks for one address as the owner of another is answered.
    let answer = arp(mac(3), mac(1), 2, (mac(3), ipv4(3)), (mac(1), ipv4(2)));
    assert_eq!(send_any(&mut model, "a", &request(1, 2, 3)), [("a".into(), answer)]);
    // The form of a reply, and in IPv6 advertisements and the detection of duplicates, reach all.
    let reply = arp(mac(1), BROADCAST, 2, (mac(1), ipv4(2)), (BROADCAST, ipv4(2)));
    assert_eq!(send(&mut model, "a", &reply), ["b", "c"]);
    let all: Ipv6Addr = "ff02::1".parse().expect("a group");
    let nodes = [0x33, 0x33, 0, 0, 0, 1];
    let claim = discovery((mac(1), nodes), (ipv6(2), all), (136, 0x20), ipv6(2), &link_layer(2, mac(1)));
    assert_eq!(send(&mut model, "a", &claim), ["b", "c"]);
    let none = Ipv6Addr::UNSPECIFIED;
    let detection = discovery((mac(1), NODES), (none, solicited(2)), (135, 0), ipv6(2), &[]);
    assert_eq!(send(&mut model, "a", &detection), ["b", "c"]);
}

#[test]
fn a_solicitation_with_its_option_is_answered_with_an_advertisement() {
    let mut model = blue();
    for target in [2, 3, 4] {
        let macs = (mac(1), NODES);
        let asked =
            discovery(macs, (ipv6(1), solicited(target)), (135, 0), ipv6(target), &link_layer(1, mac(1)));
        let (back, option) = ((ipv6(target), ipv6(1)), link_layer(2, mac(target)));
        let answer = discovery((mac(target), mac(1)), back, (136, 0x60), ipv6(target), &option);
        assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)]);
    }
}

#[test]
fn other_options_stay_behind_the_address() {
    let mut model = blue();
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let options = |first: Vec<u8>| [first, nonce.to_vec()].concat();
    let from = (ipv6(1), solicited(2));
    let asked = discovery((mac(1), NODES), from, (135, 0), ipv6(2), &options(link_layer(1, mac(1))));
    let option = options(link_layer(2, mac(2)));
    let answer = discovery((mac(2), mac(1)), (ipv6(2), ipv6(1)), (136, 0x60), ipv6(2), &option);
    assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)]);
}

#[test]
fn solicitations_without_an_option_for_others_and_for_oneself_go_on() {
    let mut model = blue();
    let (macs, from) = ((mac(1), NODES), (ipv6(1), solicited(2)));
    let option = link_layer(1, mac(1));
    let twice = [option.clone(), option.clone()].concat();
    let detection = (Ipv6Addr::UNSPECIFIED, solicited(2));
    for frame in [
        discovery(macs, from, (135, 0), ipv6(2), &[]),
        discovery(macs, detection, (135, 0), ipv6(2), &[]),
        discovery(macs, from, (135, 0), ipv6(9), &option),
        discovery(macs, from, (135, 0), ipv6(5), &option),
        discovery(macs, from, (135, 0), ipv6(1), &option),
        discovery(macs, from, (135, 0), ipv6(2), &twice),
        discovery(macs, from, (136, 0), ipv6(2), &link_layer(2, mac(1))),
        discovery(macs, from, (133, 0), ipv6(2), &option),
    ] {
        assert_eq!(send(&mut model, "a", &frame), ["b", "c"]);
    }
    let mut another_code = discovery(macs, from, (135, 0), ipv6(2), &option);
    another_code[55] = 1;
    assert_eq!(send(&mut model, "a", &another_code), ["b", "c"]);
}

#[test]
fn an_answer_carries_the_mac_that_the_address_is_at() {
    let mut model = blue();
    model.apply(|world| {
        let port = world.ports.get_mut("b").unwrap();
        port.addresses.push(network_spec::Address { mac: mac(22), ips: vec![ipv4(22).into()] });
        world.ports.insert("u".into(), unknown("blue"));
        world.vnics.insert(("hv1".into(), "u".into()), 2);
    });
    let asked = arp(mac(8), BROADCAST, 1, (mac(9), ipv4(9)), ([0; 6], ipv4(22)));
    let answer = arp(mac(22), mac(8), 2, (mac(22), ipv4(22)), (mac(9), ipv4(9)));
    assert_eq!(send_any(&mut model, "u", &asked), [("u".into(), answer)], "to the frame's sender");
}
