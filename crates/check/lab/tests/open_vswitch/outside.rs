//! Other features of the lab: machines behind VLAN tags, physical networks, taps, sockets. Flows are
//! hand-written.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::common::{DEADLINE, leftovers, unique_name};
use lab::{Error, Lab, Migration, Options, Order, Reach, VmSpec, frame};

/// A machine `name` on hv1 with number `n` in its addresses.
fn vm(name: &str, host: &str, n: u8) -> VmSpec {
    VmSpec::new(name, host, name, mac(n)).address(format!("10.0.0.{n}/24")).address(format!("fd00::{n}/64"))
}

fn mac(n: u8) -> String {
    format!("02:00:00:00:00:{n:02x}")
}

fn ip(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// A condition: datagrams from these machines have arrived at least at those.
fn arrived(wanted: &[(&str, &[&str])]) -> impl Fn(&BTreeMap<String, Reach>) -> bool {
    move |reach| wanted.iter().all(|(from, to)| to.iter().all(|to| reach[*from].arrived_at.contains(*to)))
}

/// A broadcast frame from a machine, with a mark in it.
fn broadcast(n: u8, mark: &str) -> Vec<u8> {
    let from = frame::mac(&mac(n)).unwrap();
    frame::udp4(frame::BROADCAST, from, [255; 4].into(), [10, 0, 0, n].into(), mark.as_bytes())
}

fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    of.iter().map(|(vm, copies)| ((*vm).to_owned(), *copies)).collect()
}

#[test]
fn a_frame_is_counted_at_every_machine_that_it_comes_to() {
    let lab = Lab::create(Options::new(unique_name()).hosts(1).with_integration_bridge()).unwrap();
    for (name, n) in [("a", 1), ("b", 2), ("c", 3)] {
        lab.add_vm(&vm(name, "hv1", n)).unwrap();
    }
    let host = lab.host("hv1").unwrap();
    let [a, b, c] = ["vif-a", "vif-b", "vif-c"].map(|port| host.ofport(port).unwrap());
    // From a: two copies to b, none to c.
    host.add_flows("br-int", &format!("in_port={a} actions=output:{b},output:{b}\n")).unwrap();
    let taps = lab.all_taps().unwrap();
    let found = taps.copies("a", &broadcast(1, "first mark"), b"first mark", 2).unwrap();
    assert_eq!(found, counts(&[("b", 2)]));
    // A frame to another address is seen too, and one that the sender's own stack would drop.
    host.add_flows("br-int", &format!("delete\nadd in_port={a} actions=output:{c},in_port\n")).unwrap();
    let stranger = frame::ethernet([2, 9, 9, 9, 9, 9], frame::mac(&mac(1)).unwrap(), 0x88b5, b"second mark");
    let found = taps.copies("a", &stranger, b"second mark", 2).unwrap();
    assert_eq!(found, counts(&[("a", 1), ("c", 1)]));
    assert!(taps.send("d", b"").is_err());
}

#[test]
fn machines_behind_tags_send_and_get_tagged_frames_of_their_own_and_move_with_their_vm() {
    let lab = Lab::create(Options::new(unique_name()).hosts(2).with_integration_bridge()).unwrap();
    lab.add_vms(&[
        VmSpec::behind("vm", 11, "c1", mac(2)).address("10.0.0.2/24"),
        VmSpec::behind("vm", 12, "c2", mac(3)).address("10.0.0.3/24"),
        vm("vm", "hv1", 1).trunk(),
        vm("peer", "hv1", 4),
    ])
    .unwrap();
    let one = lab.host("hv1").unwrap();
    let [trunk, peer] = ["vif-vm", "vif-peer"].map(|port| one.ofport(port).unwrap());
    // The peer is the other end of VLAN 11 only.
    let flows = format!(
        "add in_port={trunk},dl_vlan=11 actions=pop_vlan,output:{peer}\n\
         add in_port={peer} actions=push_vlan:0x8100,set_field:4107->vlan_vid,output:{trunk}\n"
    );
    one.add_flows("br-int", &flows).unwrap();
    let connected = arrived(&[("c1", &["peer"]), ("peer", &["c1"])]);
    let enough = |reach: &BTreeMap<_, _>| connected(reach) && reach["c1"].answered.contains(&ip(4));
    let reach = lab.who_reaches_whom(&["vm", "c1", "c2", "peer"], enough, DEADLINE).unwrap();
    let found = |from: &str| reach[from].arrived_at.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((found("c1"), found("peer")), (vec!["peer"], vec!["c1"]));
    assert_eq!((found("vm"), found("c2")), (vec![], vec![]));
    assert_eq!(reach["c1"].answered, [ip(4)].into());

    let taps = lab.all_taps().unwrap();
    assert_eq!(taps.copies("peer", &broadcast(4, "to all"), b"to all", 1).unwrap(), counts(&[("c1", 1)]));

    lab.migrate_vm("vm", "hv2", Migration { order: Order::PlugFirst, gap: Duration::ZERO }).unwrap();
    assert_eq!((lab.vm("vm").unwrap().host, lab.vm("c1").unwrap().host), ("hv2".into(), "hv2".into()));
    let two = lab.host("hv2").unwrap();
    let trunk = two.ofport("vif-vm").unwrap();
    // Back to the ingress port in the other VLAN: c1 and c2 are connected.
    let flows = format!(
        "add in_port={trunk},dl_vlan=11 actions=set_field:4108->vlan_vid,in_port\n\
         add in_port={trunk},dl_vlan=12 actions=set_field:4107->vlan_vid,in_port\n"
    );
    two.add_flows("br-int", &flows).unwrap();
    lab.wait_ping("c1", ip(3), DEADLINE).unwrap();

    let refused = |spec: &VmSpec| lab.add_vm(spec).unwrap_err().to_string();
    assert!(refused(&VmSpec::behind("vm", 12, "c3", mac(5))).contains("c2 of vm has it"));
    assert!(refused(&VmSpec::behind("vm", 4095, "c3", mac(5))).contains("choose 1 to 4094"));
    assert!(refused(&VmSpec::behind("peer", 13, "c3", mac(5))).contains("without room"));
    assert!(lab.remove_vm("vm").unwrap_err().to_string().contains("is behind it"));
    assert!(matches!(lab.detach("c1"), Err(Error::Invalid { .. })));
    for name in ["c1", "c2", "vm"] {
        lab.remove_vm(name).unwrap();
    }
    assert_eq!(lab.check().unwrap(), Vec::<String>::new());
    let name = lab.name().to_owned();
    drop(lab);
    assert_eq!(leftovers(&name), Vec::<String>::new());
}

#[test]
fn a_physical_network_joins_hosts_and_machines_of_one_vlan() {
    let lab = Lab::create(
        Options::new(unique_name()).hosts(2).physical("plant").physical("yard").with_integration_bridge(),
    )
    .unwrap();
    lab.add_vms(&[
        vm("a", "hv1", 1),
        vm("b", "hv2", 2),
        VmSpec::physical("plant", 7, "seven", mac(3)).address("10.0.0.3/24").address("fd00::3/64"),
        VmSpec::physical("plant", 8, "eight", mac(4)).address("10.0.0.4/24"),
        VmSpec::physical("plant", 0, "none", mac(5)).address("10.0.0.5/24"),
        VmSpec::physical("yard", 7, "yard", mac(6)).address("10.0.0.6/24"),
    ])
    .unwrap();
    assert_eq!(lab.bridge_mappings().unwrap()[0], ("plant".to_owned(), "br-plant".to_owned()));
    for host in lab.hosts().unwrap() {
        host.vsctl(&[
            "add-port",
            "br-int",
            "p",
            "--",
            "set",
            "Interface",
            "p",
            "type=patch",
            "options:peer=q",
            "--",
            "add-port",
            "br-plant",
            "q",
            "--",
            "set",
            "Interface",
            "q",
            "type=patch",
            "options:peer=p",
        ])
        .unwrap();
        let port = if host.name == "hv1" { "vif-a" } else { "vif-b" };
        let (patch, vif) = (host.ofport("p").unwrap(), host.ofport(port).unwrap());
        let flows = format!(
            "add in_port={patch},dl_vlan=7 actions=pop_vlan,output:{vif}\n\
             add in_port={vif} actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:{patch}\n"
        );
        host.add_flows("br-int", &flows).unwrap();
    }
    let names = ["a", "b", "seven", "eight", "none", "yard"];
    let vlan = ["a", "b", "seven"];
    let connected = arrived(&[("a", &["b", "seven"]), ("b", &["a", "seven"]), ("seven", &["a", "b"])]);
    let seventh = [ip(3), "fd00::3".parse().unwrap()];
    let enough = |reach: &BTreeMap<String, Reach>| {
        connected(reach) && seventh.iter().all(|ip| reach["a"].answered.contains(ip))
    };
    let reach = lab.who_reaches_whom(&names, enough, DEADLINE).unwrap();
    for from in names {
        let wanted: Vec<&str> =
            if vlan.contains(&from) { vlan.into_iter().filter(|to| *to != from).collect() } else { vec![] };
        let found: Vec<&str> = reach[from].arrived_at.iter().map(String::as_str).collect();
        assert_eq!(found, wanted, "from {from}");
    }
    // In both families.
    assert!(seventh.iter().all(|ip| reach["a"].answered.contains(ip)), "{:?}", reach["a"]);
    let taps = lab.all_taps().unwrap();
    let found = taps.copies("a", &broadcast(1, "to VLAN 7"), b"to VLAN 7", 2).unwrap();
    assert_eq!(found, counts(&[("b", 1), ("seven", 1)]));
    let known = lab.add_vm(&VmSpec::physical("attic", 0, "x", mac(9))).unwrap_err().to_string();
    assert!(known.contains("there are: plant, yard"), "{known}");
    assert_eq!(lab.check().unwrap(), Vec::<String>::new());
    let name = lab.name().to_owned();
    lab.remove().unwrap();
    assert_eq!(leftovers(&name), Vec::<String>::new());
    let long = Lab::create(Options::new(unique_name()).physical("a-long-network")).unwrap_err();
    assert!(long.to_string().contains("at most 12 characters"), "{long}");
}

#[test]
fn transfers_are_checked_byte_by_byte_and_datagrams_counted() {
    let lab = Lab::create(Options::new(unique_name()).hosts(1).with_integration_bridge()).unwrap();
    lab.add_vms(&[vm("a", "hv1", 1), vm("b", "hv1", 2)]).unwrap();
    let host = lab.host("hv1").unwrap();
    let [a, b] = ["vif-a", "vif-b"].map(|port| host.ofport(port).unwrap());
    let both = format!("add in_port={a} actions=output:{b}\nadd in_port={b} actions=output:{a}\n");
    host.add_flows("br-int", &both).unwrap();
    lab.transfer("a", "b", ip(2), 1_000_000).unwrap();
    lab.transfer("b", "a", "fd00::1".parse().unwrap(), 100_000).unwrap();
    let few = lab.datagrams("a", ("b", ip(2)), 20, 8_000).unwrap();
    assert_eq!((few.sent, few.received, few.duplicates, few.damaged), (20, 20, 0, 0));
    // Duplicates made by the network are detected.
    host.add_flows("br-int", &format!("add priority=40000,in_port={a},udp actions=output:{b},output:{b}\n"))
        .unwrap();
    let doubled = lab.datagrams("a", ("b", ip(2)), 50, 100).unwrap();
    assert_eq!((doubled.received, doubled.duplicates, doubled.damaged), (50, 50, 0));
    // And what it does not carry.
    host.add_flows("br-int", "delete\n").unwrap();
    let none = lab.datagrams("a", ("b", ip(2)), 2, 100).unwrap();
    assert_eq!((none.sent, none.received), (2, 0));
}
