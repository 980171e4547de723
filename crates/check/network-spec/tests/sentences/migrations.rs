//! Migrations of a port between hosts that it requests: where it is live, and from when on.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{Arp, ethernet};
use network_spec::{Encap, Mac, Model, Node, Port, Tap};

use crate::sentences::frames::{BROADCAST, arp, discovery, ipv4, ipv6, link_layer, mac, tag, unknown as any};
use crate::sentences::worlds::{on_vlan, port, secured, unknown, world};

/// `a` on hv1; `p` requests hv1 and hv2 and is reported by both; `c` on hv3.
fn migrating(encap: Encap, p: Port) -> Model {
    let p = Port { requested_hosts: vec!["hv1".into(), "hv2".into()], ..p };
    let mut world =
        world(&[encap], &[("a", "hv1", port("blue", 1)), ("p", "hv1", p), ("c", "hv3", port("blue", 3))]);
    world.nodes.insert("hv2".into(), Node { encaps: vec![encap], ..Node::default() });
    world.vnics.insert(("hv2".into(), "p".into()), 2);
    Model::new(world)
}

/// The hosts at which a frame arrives at `p`, and what else gets it.
fn to(model: &mut Model, from: (&str, &str), frame: &[u8]) -> Vec<String> {
    let name = |tap: Tap| match tap {
        Tap::Vnic { host, port } if port == "p" => host,
        Tap::Vnic { port, .. } => port,
        Tap::Physical { network } => network,
    };
    model.inject(&Tap::vnic(from.0, from.1), frame).into_iter().map(|arrival| name(arrival.at)).collect()
}

/// The hosts from which `p` reaches `c`.
fn live(model: &mut Model) -> Vec<&'static str> {
    let passes = |host: &&str| to(model, (host, "p"), &any(mac(2), mac(3))) == ["c"];
    ["hv1", "hv2"].into_iter().filter(passes).collect()
}

fn rarp(of: Mac) -> Vec<u8> {
    let nobody = Ipv4Addr::UNSPECIFIED;
    let packet = Arp { operation: 3, sender: (of, nobody), target: (of, nobody) };
    ethernet(BROADCAST, of, frame_builder::RARP, &frame_builder::arp(packet))
}

fn gratuitous_arp(of: u8, operation: u16) -> Vec<u8> {
    arp(mac(of), BROADCAST, operation, (mac(of), ipv4(of)), (mac(of), ipv4(of)))
}

fn unsolicited_advertisement(of: u8) -> Vec<u8> {
    let all_nodes = ([0x33, 0x33, 0, 0, 0, 1], Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let (macs, addresses) = ((mac(of), all_nodes.0), (ipv6(of), all_nodes.1));
    discovery(macs, addresses, (136, 0x20), ipv6(of), &link_layer(2, mac(of)))
}

const A: (&str, &str) = ("hv1", "a");
const C: (&str, &str) = ("hv3", "c");

#[test]
fn before_the_announcement_it_is_live_on_the_first_host_and_gets_broadcast_on_both() {
    let mut model = migrating(Encap::Geneve, port("blue", 2));
    assert_eq!(live(&mut model), ["hv1"]);
    assert_eq!(to(&mut model, A, &any(mac(1), mac(2))), ["hv1"]);
    assert_eq!(to(&mut model, C, &any(mac(3), mac(2))), ["hv1"]);
    assert_eq!(to(&mut model, C, &any(mac(3), BROADCAST)), ["a", "hv1", "hv2"]);
    assert!(to(&mut model, ("hv2", "p"), &any(mac(2), BROADCAST)).is_empty());
    assert!(model.heard().is_empty());
}

#[test]
fn each_kind_of_announcement_makes_it_live_on_the_other_host_too_and_the_controller_need_not_follow() {
    for announcement in
        [rarp(mac(2)), gratuitous_arp(2, 1), gratuitous_arp(2, 2), unsolicited_advertisement(2)]
    {
        let mut model = migrating(Encap::Geneve, port("blue", 2));
        assert_eq!(to(&mut model, ("hv2", "p"), &announcement), ["a", "c"], "the announcement itself passes");
        assert_eq!(model.heard(), [("hv2".to_owned(), "p".to_owned())].into());
        assert_eq!(live(&mut model), ["hv1", "hv2"]);
        assert_eq!(to(&mut model, A, &any(mac(1), mac(2))), ["hv1", "hv2"], "one copy at each interface");
        assert_eq!(to(&mut model, C, &any(mac(3), mac(2))), ["hv1", "hv2"]);
    }
}

#[test]
fn other_frames_announce_nothing() {
    let to_one = arp(mac(2), mac(3), 2, (mac(2), ipv4(2)), (mac(3), ipv4(3)));
    let solicited = discovery((mac(2), mac(3)), (ipv6(2), ipv6(3)), (136, 0x60), ipv6(2), &[]);
    let doubly = tag(&tag(&rarp(mac(2)), 0x8100, 0), 0x8100, 0);
    let from_group = rarp([3, 0, 0, 0, 0, 2]);
    for frame in [any(mac(2), BROADCAST), to_one, solicited, doubly, from_group] {
        let mut model = migrating(Encap::Geneve, port("blue", 2));
        assert!(to(&mut model, ("hv2", "p"), &frame).is_empty());
        assert_eq!((model.heard().len(), live(&mut model)), (0, vec!["hv1"]), "{frame:x?}");
    }
    // An announcement at the home says nothing new.
    let mut model = migrating(Encap::Geneve, port("blue", 2));
    assert_eq!(to(&mut model, ("hv1", "p"), &rarp(mac(2))), ["a", "c"]);
    assert_eq!((model.heard().len(), live(&mut model)), (0, vec!["hv1"]));
}

#[test]
fn an_announcement_counts_whatever_port_security_says_of_it() {
    let mut model = migrating(Encap::Geneve, secured("blue", 2, &[ipv4(2).into()]));
    assert!(to(&mut model, ("hv2", "p"), &rarp(mac(9))).is_empty());
    assert_eq!(model.heard().len(), 1);
    let mut model = migrating(Encap::Geneve, secured("blue", 2, &[ipv4(2).into()]));
    assert_eq!(to(&mut model, ("hv2", "p"), &rarp(mac(2))), ["a", "c"]);
    assert_eq!(model.heard().len(), 1);
}

#[test]
fn the_controller_follows_to_the_host_that_was_announced_last() {
    let mut model = migrating(Encap::Geneve, port("blue", 2));
    to(&mut model, ("hv2", "p"), &rarp(mac(2)));
    let announced = |model: &mut Model, host: &str, since: u64| {
        model.apply(|world| {
            world.announced.insert((host.into(), "p".into()), since);
        });
    };
    announced(&mut model, "hv2", 5);
    assert_eq!(model.world().location("p"), Some("hv2"));
    assert_eq!((live(&mut model), model.heard().len()), (vec!["hv2"], 0));
    assert_eq!(to(&mut model, A, &any(mac(1), mac(2))), ["hv2"]);
    // And back.
    to(&mut model, ("hv1", "p"), &gratuitous_arp(2, 1));
    assert_eq!(live(&mut model), ["hv1", "hv2"]);
    announced(&mut model, "hv1", 6);
    assert_eq!(model.world().location("p"), Some("hv1"));
    assert_eq!(live(&mut model), ["hv1"]);
    // An interface that is plugged in again is another one.
    model.apply(|world| {
        world.vnics.insert(("hv1".into(), "p".into()), 7);
    });
    assert_eq!(model.world().location("p"), Some("hv2"));
    assert_eq!(live(&mut model), ["hv2"]);
}

#[test]
fn what_was_heard_is_forgotten_with_the_interface_and_with_the_request() {
    let heard = || {
        let mut model = migrating(Encap::Geneve, port("blue", 2));
        to(&mut model, ("hv2", "p"), &rarp(mac(2)));
        assert_eq!(model.heard().len(), 1);
        model
    };
    let mut model = heard();
    model.apply(|world| {
        world.vnics.insert(("hv2".into(), "p".into()), 3);
    });
    assert_eq!((model.heard().len(), live(&mut model)), (0, vec!["hv1"]));
    for (requested, stays) in [(vec!["hv1"], "hv1"), (vec!["hv2"], "hv2")] {
        let mut model = heard();
        let requested = requested.into_iter().map(str::to_owned).collect();
        model.apply(|world| world.ports.get_mut("p").unwrap().requested_hosts = requested);
        assert_eq!((model.heard().len(), live(&mut model)), (0, vec![stays]));
        assert_eq!(to(&mut model, C, &any(mac(3), BROADCAST)), ["a", stays]);
    }
}

#[test]
fn a_port_hears_nothing_of_itself_where_the_encapsulation_says_who_sent_it() {
    let geneve = (Encap::Geneve, &["a", "c"][..], &[][..]);
    let vxlan = (Encap::Vxlan, &["a", "hv2", "c"][..], &["hv2"][..]);
    for (encap, flood, elsewhere) in [geneve, vxlan] {
        let mut model = migrating(encap, port("blue", 2));
        assert_eq!(to(&mut model, ("hv1", "p"), &any(mac(2), BROADCAST)), flood);
        to(&mut model, ("hv2", "p"), &rarp(mac(2)));
        assert_eq!(to(&mut model, ("hv1", "p"), &any(mac(2), mac(2))), elsewhere);
    }
}

#[test]
fn a_parent_announces_its_members_and_a_member_its_parent() {
    let behind = |model: &mut Model| {
        model.apply(|world| {
            let member = Port { parent: Some(("p".into(), 11)), ..port("blue", 5) };
            world.ports.insert("box".into(), member);
        });
    };
    let tagged = |bytes: &[u8]| tag(bytes, 0x8100, 11);
    let from_box = tagged(&any(mac(5), mac(3)));
    for announcement in [rarp(mac(2)), tagged(&gratuitous_arp(5, 1))] {
        let mut model = migrating(Encap::Geneve, port("blue", 2));
        behind(&mut model);
        assert!(to(&mut model, ("hv2", "p"), &from_box).is_empty());
        assert_eq!(to(&mut model, C, &any(mac(3), mac(5))), ["hv1"]);
        to(&mut model, ("hv2", "p"), &announcement);
        assert_eq!(to(&mut model, ("hv2", "p"), &from_box), ["c"]);
        assert_eq!(to(&mut model, C, &any(mac(3), mac(5))), ["hv1", "hv2"]);
        assert_eq!(live(&mut model), ["hv1", "hv2"]);
    }
    // A tag of nobody announces nobody.
    let mut model = migrating(Encap::Geneve, port("blue", 2));
    to(&mut model, ("hv2", "p"), &tagged(&rarp(mac(5))));
    assert!(model.heard().is_empty());
}

#[test]
fn learned_addresses_go_to_both_hosts_too_and_unknown_unicast_is_unicast() {
    let mut model = migrating(Encap::Geneve, unknown("blue"));
    let stranger = mac(77);
    assert_eq!(to(&mut model, C, &any(mac(3), stranger)), ["hv1"], "flooded");
    assert_eq!(to(&mut model, ("hv1", "p"), &any(stranger, mac(3))), ["c"]);
    assert_eq!(to(&mut model, C, &any(mac(3), stranger)), ["hv1"], "learned");
    assert_eq!(model.copies().len(), 2, "a copy for each host");
    to(&mut model, ("hv2", "p"), &rarp(stranger));
    assert_eq!(to(&mut model, C, &any(mac(3), stranger)), ["hv1", "hv2"]);
}

#[test]
fn over_a_physical_network_one_copy_serves_all_hosts() {
    let world = migrating(Encap::Geneve, port("blue", 2)).world().clone();
    let mut model = Model::new(on_vlan(world, "blue", 7));
    assert_eq!(to(&mut model, C, &any(mac(3), mac(2))), ["hv1", "physnet"]);
    assert_eq!(to(&mut model, A, &any(mac(1), mac(2))), ["hv1", "physnet"]);
    to(&mut model, ("hv2", "p"), &rarp(mac(2)));
    assert_eq!(to(&mut model, C, &any(mac(3), mac(2))), ["hv1", "hv2", "physnet"]);
    assert_eq!(to(&mut model, A, &any(mac(1), mac(2))), ["hv1", "hv2", "physnet"]);
    assert_eq!(live(&mut model), Vec::<&str>::new(), "what it sends enters the network too");
    assert_eq!(to(&mut model, ("hv2", "p"), &any(mac(2), mac(3))), ["c", "physnet"]);
    assert!(model.copies().is_empty());
}

#[test]
fn p6_a_list_of_one_host_overrules_what_was_announced_elsewhere_before() {
    let mut model = migrating(Encap::Geneve, port("blue", 2));
    let request = |model: &mut Model, hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        model.apply(|world| world.ports.get_mut("p").expect("it is there").requested_hosts = hosts);
    };
    let announce = |model: &mut Model, since: u64| {
        model.apply(|world| {
            world.announced.insert(("hv2".into(), "p".into()), since);
        });
    };
    announce(&mut model, 3);
    assert_eq!(live(&mut model), ["hv2"]);
    // The migration is undone, and tried again later.
    request(&mut model, &["hv1"]);
    assert_eq!(live(&mut model), ["hv1"]);
    request(&mut model, &["hv1", "hv2"]);
    assert_eq!(live(&mut model), ["hv1"], "the interface has not announced itself since");
    announce(&mut model, 4);
    assert_eq!(live(&mut model), ["hv2"]);
    // The migration is done. Where the port has announced itself, it stays.
    request(&mut model, &["hv2"]);
    request(&mut model, &["hv1", "hv2"]);
    assert_eq!(live(&mut model), ["hv2"]);
}
