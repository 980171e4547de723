//! Router ports on a physical network, whose gateways die and come back: what `docs/reference/gateways.md` promises, as machines see it.

use std::net::IpAddr;
use std::time::Duration;

use lab::{Lab, PingResult, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

/// Machine `a` on a logical network, machines `ext` and `silent` on physical network dc, and a router between them. Hosts hv3 and hv4 are its gateways.
const NETWORK: &str = "
{kind: switch, id: blue, tenant: acme}
---
{kind: switch_port, id: a, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:30:01', ips: [10.30.0.1, 'fd30::1']}]}
---
{kind: switch, id: outside}
---
{kind: localnet_port, id: outside-dc, switch: outside, physical_network: dc}
---
{kind: router, id: r, tenant: acme}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:30:f1', networks: [10.30.0.254/24, 'fd30::fe/64']}
---
kind: router_port
id: r-out
router: r
switch: outside
mac: '02:00:00:00:30:f9'
networks: [203.0.113.2/24, '2001:db8::2/64']
gateways: [{node: hv3, priority: 20}, {node: hv4, priority: 10}]
---
{kind: route, id: r-default, router: r, destination: 0.0.0.0/0, next_hops: [203.0.113.1]}
---
{kind: route, id: r-default-6, router: r, destination: '::/0', next_hops: ['2001:db8::1']}
";

const OUTSIDE: [&str; 2] = ["203.0.113.1", "2001:db8::1"];
const INSIDE: [&str; 2] = ["10.30.0.1", "fd30::1"];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Machine `a` is on hv1.
fn start(test: &str) -> Testbed {
    let testbed =
        Testbed::start(Settings { hosts: 4, physical: vec!["dc".to_owned()], ..settings(test) }).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap();
    let gateways = ["hv3", "hv4"];
    let nodes = gateways.iter().fold(nodes, |text, node| {
        text.replace(
            &format!("id: {node}\n"),
            &format!("id: {node}\nroles: [gateway]\ntransport_zone: rack\n"),
        )
    });
    let others = ["hv1", "hv2"];
    let nodes = others.iter().fold(nodes, |text, node| {
        text.replace(&format!("id: {node}\n"), &format!("id: {node}\ntransport_zone: rack\n"))
    });
    let zone = "{kind: transport_zone, id: rack, bfd: {interval: 100}}\n";
    testbed.apply("nodes.yaml", &format!("{zone}{nodes}")).unwrap();
    let inside = VmSpec::new("a", "hv1", "a", "02:00:00:00:30:01")
        .address("10.30.0.1/24")
        .address("fd30::1/64")
        .gateway(address("10.30.0.254"))
        .gateway(address("fd30::fe"));
    let outside = VmSpec::physical("dc", 0, "ext", "02:00:00:00:30:e1")
        .address("203.0.113.1/24")
        .address("2001:db8::1/64")
        .gateway(address("203.0.113.2"))
        .gateway(address("2001:db8::2"));
    let silent = VmSpec::physical("dc", 0, "silent", "02:00:00:00:30:e2")
        .address("203.0.113.7/24")
        .address("2001:db8::7/64")
        .gateway(address("203.0.113.2"))
        .gateway(address("2001:db8::2"));
    bring_up(&testbed, NETWORK, &[inside, outside, silent]);
    testbed
}

/// Both machines reach each other, over IPv4 and IPv6.
fn all_reach(lab: &Lab) {
    for to in OUTSIDE {
        lab.wait_ping("a", address(to), DEADLINE).unwrap();
    }
    for to in INSIDE {
        lab.wait_ping("ext", address(to), DEADLINE).unwrap();
    }
}

/// Waits until the sessions of a host are in this state.
fn sessions(lab: &Lab, host: &str, state: &str, count: usize) {
    wait_for(&format!("{count} sessions of {host} that are {state}"), || {
        let states = lab.host(host).unwrap().vsctl(&[
            "--bare",
            "--columns=bfd_status",
            "find",
            "Interface",
            "type=geneve",
        ]);
        (states.unwrap().matches(&format!(" state={state}")).count() == count).then_some(())
    });
}

fn report(what: &str, result: &PingResult) {
    println!("{what}: {} of {} lost, dark for {:?}", result.lost(), result.sent, result.longest_gap);
}

#[test]
fn a_router_reaches_a_physical_network_by_the_gateway_that_leads() {
    let testbed = start("gateways");
    let lab = testbed.lab().unwrap();
    all_reach(lab);
    // The gateway asks for a machine that has never spoken, and is no next hop.
    for to in ["203.0.113.7", "2001:db8::7"] {
        lab.wait_ping("a", address(to), DEADLINE).unwrap();
    }
    // The router answers for itself, on both sides.
    for to in ["203.0.113.2", "2001:db8::2"] {
        lab.wait_ping("a", address(to), DEADLINE).unwrap();
        lab.wait_ping("ext", address(to), DEADLINE).unwrap();
    }
    let listed = ask(&testbed, &["get", "gateways", "r-out"]);
    assert!(listed.contains("hv3") && listed.contains("hv4"), "{listed}");
}

/// The active gateway dies, and comes back without flows. No controller runs.
#[test]
fn another_gateway_takes_over_without_a_controller() {
    let mut testbed = start("gateway-dies");
    all_reach(testbed.lab().unwrap());
    for host in ["hv1", "hv3", "hv4"] {
        sessions(testbed.lab().unwrap(), host, "up", 2);
    }
    testbed.kill_controller().unwrap();
    let lab = testbed.lab().unwrap();
    let out = lab.spawn_ping("a", address(OUTSIDE[0]), Duration::from_millis(10)).unwrap();
    out.wait_received(20, DEADLINE).unwrap();
    lab.host("hv3").unwrap().kill_vswitchd().unwrap();
    out.wait_received(out.received() + 100, DEADLINE).unwrap();
    report("the active gateway dies", &out.stop().unwrap());
    all_reach(lab);

    // It has no flows, and so it does not lead.
    lab.host("hv3").unwrap().start_vswitchd().unwrap();
    let out = lab.spawn_ping("a", address(OUTSIDE[0]), Duration::from_millis(10)).unwrap();
    out.wait_received(300, DEADLINE).unwrap();
    let result = out.stop().unwrap();
    report("it comes back without flows", &result);
    // Were it to lead, nothing would arrive any more. A busy machine may keep a switch from saying in time that it is there.
    assert!(result.lost() * 2 < result.sent, "{result:?}");

    testbed.start_controller().unwrap();
    let lab = testbed.lab().unwrap();
    let ping = lab.spawn_ping("ext", address(INSIDE[0]), Duration::from_millis(10)).unwrap();
    ping.wait_received(20, DEADLINE).unwrap();
    testbed.wait_in_sync().unwrap();
    sessions(lab, "hv1", "up", 2);
    ping.wait_received(ping.received() + 200, DEADLINE).unwrap();
    report("it leads again", &ping.stop().unwrap());
    all_reach(lab);
}
