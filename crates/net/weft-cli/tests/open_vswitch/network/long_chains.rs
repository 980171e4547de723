//! The longest way that a packet takes through routers, on real switches, which bound the work for one packet.

use std::net::Ipv4Addr;

use lab::VmSpec;
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, settings};

/// The most routers that a packet may enter.
const MOST_ROUTERS: u8 = 16;

/// A chain of as many routers as a packet may enter, each of which chooses between two next hops, and at both ends a secured port with
/// four tiers of ACLs in both directions: what a switch has to do at most for one packet that routers forward.
fn longest_chain() -> String {
    let n = MOST_ROUTERS;
    let mut objects =
        vec!["{kind: address_group, id: ends, addresses: [10.0.0.0/24, 10.16.0.0/24]}".to_owned()];
    for switch in 0..=n {
        objects.push(format!("{{kind: switch, id: s{switch}, tenant: acme}}"));
    }
    for r in 1..=n {
        let before = r - 1;
        objects.push(format!("{{kind: router, id: r{r}, tenant: acme}}"));
        for (port, switch, ip) in [("a", before, 2), ("b", r, 1)] {
            objects.push(format!(
                "{{kind: router_port, id: r{r}{port}, router: r{r}, switch: s{switch}, mac: '02:00:00:01:{r:02x}:0{ip}', \
                 networks: [10.{switch}.0.{ip}/24]}}"
            ));
        }
        // The second next hop is nobody's: the group of the route has one bucket.
        let mut route = |name: &str, end: u8, switch: u8, hop: u8| {
            let hops = format!("[10.{switch}.0.{hop}, 10.{switch}.0.9]");
            objects.push(format!(
                "{{kind: route, id: {name}{r}, router: r{r}, destination: 10.{end}.0.0/24, next_hops: {hops}}}"
            ));
        };
        if r < n {
            route("there", n, r, 2);
        }
        if r > 1 {
            route("back", 0, before, 1);
        }
    }
    for (name, switch) in [("first", 0), ("last", n)] {
        objects.push(format!(
            "{{kind: switch_port, id: {name}, switch: s{switch}, port_security: true, \
             addresses: [{{mac: '02:00:00:00:21:{switch:02x}', ips: [10.{switch}.0.10]}}]}}"
        ));
        for (direction, tier) in
            ["from_port", "to_port"].iter().flat_map(|way| (0..4).map(move |tier| (way, tier)))
        {
            let action = if tier == 3 { "allow_related" } else { "pass" };
            objects.push(format!(
                "{{kind: acl, id: {name}-{direction}-{tier}, port: {name}, direction: {direction}, tier: {tier}, priority: 1, \
                 action: {action}, from: {{address_group: ends}}}}"
            ));
        }
    }
    objects.join("\n---\n") + "\n"
}

/// Open vSwitch drops a packet whose translation takes more than 4,096 look-ups or goes back to an earlier table more than 64 levels deep.
#[test]
fn p1_sixteen_routers_with_several_next_hops_and_four_tiers_carry_packets() {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("longest-chain") }).unwrap();
    let machine = |name: &str, host: &str, switch: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:21:{switch:02x}"))
            .address(format!("10.{switch}.0.10/24"))
            .gateway(Ipv4Addr::new(10, switch, 0, if switch == 0 { 2 } else { 1 }))
    };
    let machines = [machine("first", "hv1", 0), machine("last", "hv2", MOST_ROUTERS)];
    bring_up(&testbed, &longest_chain(), &machines);
    let lab = testbed.lab().unwrap();
    lab.wait_ping("first", Ipv4Addr::new(10, MOST_ROUTERS, 0, 10).into(), DEADLINE).unwrap();
    lab.wait_ping("last", Ipv4Addr::new(10, 0, 0, 10).into(), DEADLINE).unwrap();
}
