//! What routers advertise, and to whom.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use frame_builder::{ICMPV6, IPV6, Ipv6, icmpv6, link_layer};
use network_spec::{Heard, Mac, Model, Ra, RaMode, Says, World};

use crate::sentences::acls::{Drop, ToPort, acl, at};
use crate::sentences::frames::{frame, link_local, mac};
use crate::sentences::routers::{connect, port_mac, two_switches};
use crate::sentences::worlds::{on_vlan, send_any};

const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The port of `r` on blue advertises this.
fn advertising(ra: Ra) -> World {
    let mut world = two_switches();
    world.ras.insert("r-blue-1".into(), ra);
    world
}

/// A solicitation of `a`, with this hop limit and code, and with its MAC.
fn solicitation(from: Ipv6Addr, hops: u8, code: u8, options: &[u8]) -> Vec<u8> {
    let message = icmpv6([&[133, code, 0, 0, 0, 0, 0, 0][..], options].concat(), from, ALL_ROUTERS);
    let packet = Ipv6 { hops, ..Ipv6::new(from, ALL_ROUTERS, ICMPV6) }.packet(&message);
    frame(mac(1), [0x33, 0x33, 0, 0, 0, 2], IPV6, &packet)
}

fn asks() -> Vec<u8> {
    solicitation(link_local(1), 255, 0, &link_layer(1, mac(1)))
}

/// The advertisements that `a` hears.
fn heard(model: &mut Model, frame: &[u8]) -> Vec<Heard> {
    send_any(model, "a", frame);
    model.messages().iter().map(|one| Heard::read(&one.frame).expect("a message")).collect()
}

/// The flags, and the options of an advertisement.
fn said(world: World) -> (u8, BTreeSet<Vec<u8>>) {
    let Says::Advertisement { head, options } = heard(&mut Model::new(world), &asks()).remove(0).says else {
        panic!("an advertisement")
    };
    assert_eq!((head[0], &head[2..4]), (64, &1800_u16.to_be_bytes()[..]));
    (head[1], options)
}

#[test]
fn a_router_answers_who_asks_from_its_address_on_the_link() {
    let mut model = Model::new(advertising(Ra::default()));
    let heard_by_a = heard(&mut model, &asks()).remove(0);
    assert_eq!(heard_by_a.macs, (mac(1), port_mac(1)));
    let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0xff01);
    assert_eq!(heard_by_a.addresses, (own.into(), link_local(1).into()));
    // By the address of all where it has none yet, and still to it alone.
    let heard_by_a = heard(&mut model, &solicitation(Ipv6Addr::UNSPECIFIED, 255, 0, &[])).remove(0);
    assert_eq!(heard_by_a.macs, ([0x33, 0x33, 0, 0, 0, 1], port_mac(1)));
    assert_eq!(model.messages().len(), 1);
    assert_eq!(heard(&mut Model::new(two_switches()), &asks()), [], "it advertises nothing");
}

#[test]
fn it_says_the_networks_the_mtu_and_the_servers() {
    let mtu = |mtu: u16| [&[5, 1, 0, 0][..], &u32::from(mtu).to_be_bytes()].concat();
    let world = advertising(Ra::default());
    let of_switch = world.mtu("blue").expect("there is a tunnel");
    let (flags, options) = said(world);
    assert_eq!(flags, 0);
    assert!(options.contains(&mtu(of_switch)) && options.contains(&link_layer(1, port_mac(1))));
    let prefix =
        |options: &BTreeSet<Vec<u8>>| options.iter().find(|option| option[0] == 3).cloned().expect("it");
    assert_eq!(
        (&prefix(&options)[2..4], &prefix(&options)[16..24]),
        (&[64, 0xc0][..], &[0xfd, 1, 0, 0, 0, 0, 0, 0][..])
    );
    let server = "fd00::53".parse().expect("an address");
    let (flags, options) =
        said(advertising(Ra { mode: RaMode::Stateful, mtu: Some(1280), dns: vec![server] }));
    assert_eq!((flags, prefix(&options)[3]), (0x80, 0x80), "nobody makes an address");
    assert!(options.contains(&mtu(1280)));
    assert!(options.iter().any(|option| option[0] == 25 && option[8..] == server.octets()));
    let (flags, _) = said(advertising(Ra { mode: RaMode::Stateless, ..Ra::default() }));
    assert_eq!(flags, 0x40);
}

#[test]
fn solicitations_that_are_not_valid_are_not_answered() {
    let mut model = Model::new(advertising(Ra::default()));
    let with_mac = link_layer(1, mac(1));
    let mut damaged = asks();
    *damaged.last_mut().expect("bytes") ^= 1;
    for frame in [
        solicitation(link_local(1), 64, 0, &with_mac),
        solicitation(link_local(1), 255, 1, &with_mac),
        solicitation(Ipv6Addr::UNSPECIFIED, 255, 0, &with_mac),
        solicitation(link_local(1), 255, 0, &[1, 0, 0, 0, 0, 0, 0, 0]),
        damaged,
    ] {
        assert_eq!(heard(&mut model, &frame), [], "{frame:02x?}");
    }
}

#[test]
fn each_router_of_the_switch_answers_and_acls_do_not_matter() {
    let mut world = advertising(Ra::default());
    connect(&mut world, "other", "blue", 3, &["fd03::fe/64"]);
    world.ras.insert("other-blue-3".into(), Ra::default());
    world.acls.insert("no".into(), at("a", acl(ToPort, Drop)));
    let heard = heard(&mut Model::new(world), &asks());
    let macs: BTreeSet<Mac> = heard.iter().map(|heard| heard.macs.1).collect();
    assert_eq!(macs, BTreeSet::from([port_mac(1), port_mac(3)]));
}

#[test]
fn a_dead_port_advertises_nothing() {
    let world = on_vlan(advertising(Ra::default()), "blue", 5);
    assert_eq!(heard(&mut Model::new(world), &asks()), []);
}
