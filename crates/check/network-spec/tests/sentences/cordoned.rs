//! Hosts that are cordoned (not schedulable) or drained.

use std::collections::BTreeMap;

use network_spec::{Encap, Model, Port, Trees, World};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{port, send, unknown, world};

/// `p` on hv1 and then on hv2, which both report it.
fn moved() -> World {
    let mut world =
        world(&[Encap::Geneve], &[("p", "hv1", port("blue", 1)), ("other", "hv2", port("blue", 2))]);
    world.vnics.insert(("hv2".into(), "p".into()), 2);
    world
}

fn cordon(world: &mut World, host: &str) {
    world.nodes.get_mut(host).expect("it is there").schedulable = false;
}

fn drain(world: &mut World, host: &str) {
    world.nodes.get_mut(host).expect("it is there").drain = true;
}

fn request(world: &mut World, hosts: &[&str]) {
    world.ports.get_mut("p").expect("it is there").requested_hosts =
        hosts.iter().map(|host| (*host).to_owned()).collect();
}

#[test]
fn a_port_that_is_plugged_in_on_a_cordoned_host_stays_where_it_is_until_its_interface_there_goes() {
    let mut world = moved();
    assert_eq!(world.location("p"), Some("hv2"));
    cordon(&mut world, "hv2");
    assert_eq!(world.location("p"), Some("hv1"));
    // However late it is.
    world.vnics.insert(("hv2".into(), "p".into()), 9);
    assert_eq!(world.location("p"), Some("hv1"));
    world.vnics.remove(&("hv1".into(), "p".into()));
    assert_eq!(world.location("p"), Some("hv2"), "its machine can run nowhere else");
}

#[test]
fn of_several_cordoned_hosts_the_one_where_a_port_was_plugged_in_last_has_it() {
    let mut world = moved();
    cordon(&mut world, "hv1");
    assert_eq!(world.location("p"), Some("hv2"));
    cordon(&mut world, "hv2");
    assert_eq!(world.location("p"), Some("hv2"));
}

#[test]
fn a_host_that_is_drained_but_schedulable_may_get_ports() {
    let mut world = moved();
    drain(&mut world, "hv2");
    assert_eq!(world.location("p"), Some("hv2"));
}

#[test]
fn a_port_that_requests_a_cordoned_host_may_be_there() {
    let mut world = moved();
    cordon(&mut world, "hv2");
    request(&mut world, &["hv2"]);
    assert_eq!(world.location("p"), Some("hv2"));
    // Of several, the first, and the one where the machine announces itself.
    request(&mut world, &["hv2", "hv1"]);
    assert_eq!(world.location("p"), Some("hv2"));
    world.announced.insert(("hv1".into(), "p".into()), 3);
    assert_eq!(world.location("p"), Some("hv1"));
    world.announced.insert(("hv2".into(), "p".into()), 4);
    assert_eq!(world.location("p"), Some("hv2"));
}

/// `a` on hv1; `b`, and `u` with unknown addresses, on hv2; `v` with unknown addresses on hv3. hv2 leads hv3.
fn tree() -> Model {
    let ports: [(&str, &str, Port); 4] = [
        ("a", "hv1", port("blue", 1)),
        ("b", "hv2", port("blue", 2)),
        ("u", "hv2", unknown("blue")),
        ("v", "hv3", unknown("blue")),
    ];
    let mut world = world(&[Encap::Geneve], &ports);
    let branches = [("hv1", "0"), ("hv2", "1"), ("hv3", "1")];
    let branches = branches.map(|(host, branch)| (host.to_owned(), branch.to_owned()));
    world.trees = Trees {
        hosts: 1,
        used: ["blue".to_owned()].into(),
        branches: [("blue".to_owned(), branches.into())].into(),
        ranks: [(("blue".to_owned(), "hv2".to_owned()), 1), (("blue".to_owned(), "hv3".to_owned()), 2)]
            .into(),
        ..Trees::default()
    };
    Model::new(world)
}

#[test]
fn a_cordoned_or_drained_host_leads_no_branch_in_which_another_serves() {
    for refuse in [cordon, drain] {
        let mut model = tree();
        assert!(model.world().tree_faults().is_empty());
        model.apply(|world| refuse(world, "hv1"));
        assert!(model.world().tree_faults().is_empty(), "nobody else is in its branch");
        model.apply(|world| refuse(world, "hv2"));
        let fault = "switch blue: hv2 leads 1 in the place of hv3";
        assert_eq!(model.world().tree_faults(), [fault, fault], "for broadcasts, and for unknown addresses");
        model.apply(|world| world.ports.get_mut("v").expect("it is there").unknown_addresses = false);
        assert_eq!(model.world().tree_faults(), [fault], "hv2 alone receives what is for unknown addresses");
        // What it leads, it still gets, and so does its branch.
        assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "u", "v"]);
        model.apply(|world| refuse(world, "hv3"));
        assert!(model.world().tree_faults().is_empty(), "if none serves, all do");
    }
}

#[test]
fn a_cordoned_or_drained_host_relays_nothing_while_another_that_can_serves() {
    let relays = |of: &[&str]| {
        let of = of.iter().map(|host| (*host).to_owned()).collect();
        BTreeMap::from([(("hv1".to_owned(), "red".to_owned()), of)])
    };
    for refuse in [cordon, drain] {
        let ports =
            [("a", "hv1", port("blue", 1)), ("b", "hv2", port("red", 2)), ("c", "hv3", port("red", 3))];
        let mut world = world(&[Encap::Geneve], &ports);
        assert!(world.relay_faults(&relays(&["hv2", "hv3"])).is_empty());
        assert_eq!(world.relay_faults(&relays(&["hv1"])), ["hv1 cannot send to relay hv1 of red"]);
        refuse(&mut world, "hv2");
        assert!(world.relay_faults(&relays(&["hv3"])).is_empty());
        assert!(world.relay_faults(&relays(&["hv3", "hv2"])).is_empty(), "it comes second");
        let fault = "hv2 relays to red for hv1 in the place of a host that serves";
        assert_eq!(world.relay_faults(&relays(&["hv2"])), [fault]);
        assert_eq!(world.relay_faults(&relays(&["hv2", "hv3"])), [fault]);
        refuse(&mut world, "hv3");
        assert!(world.relay_faults(&relays(&["hv2"])).is_empty(), "if none serves, all do");
    }
}
