//! Addresses that two machines share, with port security: what is sent to them goes to the machine that announced them last.

use std::net::Ipv4Addr;

use lab::{Lab, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{Copies, Frames, ask, bring_up, one_at, settings, wait_for};

/// `ha-1` and `ha-2` share an address at their own MAC addresses, as keepalived does, and one at the MAC address of a virtual router.
const NETWORK: &str = "
{kind: switch, id: blue}
---
kind: switch_port
id: ha-1
switch: blue
addresses: [{mac: '02:00:00:00:0b:01', ips: [10.11.0.1]}]
allowed_addresses: [{ips: [10.11.0.100]}, {mac: '00:00:5e:00:01:07', ips: [10.11.0.101]}]
port_security: true
---
kind: switch_port
id: ha-2
switch: blue
addresses: [{mac: '02:00:00:00:0b:02', ips: [10.11.0.2]}]
allowed_addresses: [{ips: [10.11.0.100]}, {mac: '00:00:5e:00:01:07', ips: [10.11.0.101]}]
port_security: true
---
{kind: switch_port, id: client, switch: blue, addresses: [{mac: '02:00:00:00:0b:03', ips: [10.11.0.3]}]}
---
kind: switch_port
id: other
switch: blue
addresses: [{mac: '02:00:00:00:0b:04', ips: [10.11.0.4]}]
port_security: true
";

const SHARED: Ipv4Addr = Ipv4Addr::new(10, 11, 0, 100);
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 11, 0, 101);
const VIRTUAL_MAC: [u8; 6] = [0, 0, 0x5e, 0, 1, 7];

fn testbed() -> Testbed {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("shared") }).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:0b:{n:02x}")).address(format!("10.11.0.{n}/24"))
    };
    let machines =
        [vm("ha-1", "hv1", 1), vm("ha-2", "hv2", 2), vm("client", "hv3", 3), vm("other", "hv1", 4)];
    bring_up(&testbed, NETWORK, &machines);
    testbed
}

/// An announcement of an address (RFC 5227, 1.1).
fn announcement(from: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    frame::arp(frame::BROADCAST, 1, (from, address), ([0; 6], address))
}

/// What the machine does that has the address, or has it no more.
fn address(lab: &Lab, machine: &str, what: &str) {
    let done = lab.exec(machine, &["ip", "address", what, &format!("{SHARED}/24"), "dev", "eth0"]).unwrap();
    assert!(done.success(), "{machine}: {done:?}");
}

/// Waits until the client knows the shared address at the MAC address of a machine, and reaches it.
#[track_caller]
fn reaches(lab: &Lab, machine: &str) {
    lab.wait_ping("client", SHARED.into(), DEADLINE).unwrap();
    let mac = lab.vm(machine).unwrap().mac;
    wait_for(&format!("{SHARED} at {machine}"), || {
        let known = lab.exec("client", &["ip", "neigh", "show", &SHARED.to_string()]).unwrap().stdout;
        known.contains(&mac).then_some(())
    });
    lab.wait_ping("client", SHARED.into(), DEADLINE).unwrap();
}

#[test]
fn an_address_is_where_it_was_announced_last_by_a_port_that_is_allowed_it() {
    let testbed = testbed();
    let lab = testbed.lab().unwrap();
    let frames = Frames::new(lab);
    address(lab, "ha-1", "add");
    reaches(lab, "ha-1");
    address(lab, "ha-1", "del");
    address(lab, "ha-2", "add");
    frames.taps.send("ha-2", &announcement(frames.mac("ha-2"), SHARED)).unwrap();
    reaches(lab, "ha-2");
    // Nobody else takes it. What the same machine sends later arrives.
    frames.taps.send("other", &announcement(frames.mac("other"), SHARED)).unwrap();
    lab.wait_ping("other", [10, 11, 0, 3].into(), DEADLINE).unwrap();
    reaches(lab, "ha-2");
    let problems = testbed.status().unwrap().problems;
    assert!(problems.iter().all(|problem| problem.code != "address-conflict"), "{problems:?}");
}

#[test]
fn frames_to_a_virtual_mac_address_follow_the_machine_that_sent_from_it_last() {
    let testbed = testbed();
    let frames = Frames::new(testbed.lab().unwrap());
    let announce = |mark: &[u8]| [announcement(VIRTUAL_MAC, VIRTUAL), mark.to_vec()].concat();
    let client = frames.mac("client");
    let sent = |what: &str, to: &[&str]| {
        let datagram = |mark: &[u8]| frame::udp4(VIRTUAL_MAC, client, VIRTUAL, [10, 11, 0, 3].into(), mark);
        frames.come_out_as(what, "client", &one_at(to), datagram);
    };
    sent("before any announcement", &["ha-1", "ha-2"]);
    frames.come_out_as("the first", "ha-1", &one_at(&["ha-2", "client", "other"]), announce);
    sent("after the first", &["ha-1"]);
    frames.come_out_as("the second", "ha-2", &one_at(&["ha-1", "client", "other"]), announce);
    sent("after the second", &["ha-2"]);
    frames.come_out_as("that of another port", "other", &Copies::new(), announce);
    sent("after that of another port", &["ha-2"]);
    let learned = ask(&testbed, &["get", "learned-addresses", "blue"]);
    assert!(learned.lines().any(|line| line.contains("ha-2")), "{learned}");

    // A port that is allowed the address no more is not where it is, whatever was learned.
    let (first, rest) = NETWORK.split_once("id: ha-2").unwrap();
    let rest = rest.replacen(", {mac: '00:00:5e:00:01:07', ips: [10.11.0.101]}", "", 1);
    testbed.apply("less.yaml", &format!("{first}id: ha-2{rest}")).unwrap();
    testbed.wait_in_sync().unwrap();
    sent("without the second", &["ha-1"]);
}

/// A router, and a machine behind it on a host without ports of `blue`.
const ROUTER: &str = "
---
{kind: switch, id: red}
---
{kind: switch_port, id: far, switch: red, addresses: [{mac: '02:00:00:00:0b:05', ips: [10.12.0.5]}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:0b:f1', networks: [10.11.0.254/24]}
---
{kind: router_port, id: r-red, router: r, switch: red, mac: '02:00:00:00:0b:f2', networks: [10.12.0.254/24]}
";

#[test]
fn a_router_finds_an_address_where_it_was_announced_last() {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("shared-far") }).unwrap();
    let vm = |name: &str, host: &str, n: u8, net: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:0b:{n:02x}"))
            .address(format!("10.{net}.0.{n}/24"))
            .gateway(Ipv4Addr::new(10, net, 0, 254))
    };
    let machines = [vm("ha-1", "hv1", 1, 11), vm("ha-2", "hv2", 2, 11), vm("far", "hv3", 5, 12)];
    bring_up(&testbed, &format!("{NETWORK}{ROUTER}"), &machines);
    let lab = testbed.lab().unwrap();
    let frames = Frames::new(lab);
    let mut before: Option<&str> = None;
    for machine in ["ha-1", "ha-2", "ha-1"] {
        if let Some(before) = before {
            address(lab, before, "del");
        }
        address(lab, machine, "add");
        frames.taps.send(machine, &announcement(frames.mac(machine), SHARED)).unwrap();
        lab.wait_ping("far", SHARED.into(), DEADLINE).unwrap();
        before = Some(machine);
    }
}
