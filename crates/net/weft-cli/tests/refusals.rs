//! What the built-in rules refuse of the addresses of ports, and of routers: each message names both objects that contradict each other.

use crate::support::Folder;

/// Two tenants, a switch of nobody, and a router of each sort; machines `vm` and `guarded` are on `blue` beside `ours-blue`.
const NETWORK: &str = "
{kind: switch, id: blue, tenant: acme}
---
{kind: switch, id: green, tenant: acme}
---
{kind: switch, id: red, tenant: umbra}
---
{kind: router, id: ours, tenant: acme}
---
{kind: router, id: shared}
---
{kind: switch_port, id: vm, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1, 'fe80::ff:fe00:ff09']}]}
---
{kind: switch_port, id: guarded, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:05', ips: ['fd01::5']}]}
---
{kind: router_port, id: ours-blue, router: ours, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.254/24, 'fd01::ff/64']}
---
{kind: router_port, id: shared-blue, router: shared, switch: blue, mac: '02:00:00:00:ff:02', networks: [10.0.1.253/24]}
";

/// What a user adds to the network, and all that is said about it.
const CLASHES: [(&str, &str); 10] = [
    (
        "{kind: router_port, id: p, router: ours, switch: green, mac: '02:00:00:00:ff:03', networks: [10.0.1.3/25]}",
        "0.yaml:1: router_port p: networks[0]: 10.0.1.0/25 overlaps 10.0.1.0/24 of router_port ours-blue of the same router; give each port of a router networks of its own",
    ),
    (
        "{kind: router_port, id: p, router: shared, switch: blue, mac: '02:00:00:00:00:01', networks: [10.0.2.3/24]}",
        "router_port p: mac: 02:00:00:00:00:01 belongs to switch_port vm",
    ),
    (
        "{kind: router_port, id: p, router: shared, switch: blue, mac: '02:00:00:00:ff:03', networks: [10.0.1.1/32]}",
        "2.yaml:1: router_port p: networks[0]: 10.0.1.1 belongs to switch_port vm",
    ),
    (
        "{kind: router_port, id: p, router: shared, switch: blue, mac: '02:00:00:00:ff:09', networks: ['fd02::1/64']}",
        "router_port p: mac: gives the port the link-local address fe80::ff:fe00:ff09, which belongs to switch_port vm",
    ),
    (
        "{kind: switch_port, id: p, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: ['fe80::ff:fe00:ff01']}]}",
        "4.yaml:1: switch_port p: addresses[0].ips[0]: contradicts router_port ours-blue, which is in force: mac: gives the port the link-local address fe80::ff:fe00:ff01, which belongs to switch_port p",
    ),
    (
        "{kind: router_port, id: p, router: shared, switch: blue, mac: '02:00:00:00:ff:03', networks: ['fd01::ff/64']}",
        "5.yaml:1: router_port p: networks[0]: fd01::ff belongs to router_port ours-blue",
    ),
    // P13.
    (
        "{kind: switch_port, id: p, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: ['fe80::ff:fe00:5']}]}",
        "6.yaml:1: switch_port p: addresses[0].ips[0]: fe80::ff:fe00:5 belongs to switch_port guarded: it is the link-local address of a MAC address with IPv6 addresses there, and the port has port security",
    ),
    (
        "{kind: router_port, id: p, router: ours, switch: green, mac: '02:00:00:00:ff:03', networks: [10.0.4.1/24, 10.0.4.2/24]}",
        "7.yaml:1: router_port p: networks[1]: 10.0.4.2 is in network 10.0.4.0/24, which overlaps that of the port's own address 10.0.4.1, 10.0.4.0/24; give the port one address in each network",
    ),
    (
        "{kind: router_port, id: p, router: ours, switch: red, mac: '02:00:00:00:ff:03', networks: [10.0.3.1/24]}",
        "router_port p: switch: red belongs to tenant umbra, but router ours to tenant acme",
    ),
    (
        "{kind: router_port, id: p, router: shared, switch: red, mac: '02:00:00:00:ff:03', networks: [10.0.3.1/24]}",
        "router_port p: switch: red belongs to tenant umbra, but router shared already joins switch blue of tenant acme by router_port shared-blue; a router joins switches of one tenant",
    ),
];

#[test]
fn p13_what_contradicts_another_port_is_refused_with_both_names() {
    let folder = Folder::new();
    folder.write("network.yaml", NETWORK);
    let mut arguments = vec!["eval".to_owned(), "builtin".to_owned(), "--objects".to_owned()];
    arguments.push("network.yaml".to_owned());
    for (at, (added, _)) in CLASHES.iter().enumerate() {
        let file = format!("{at}.yaml");
        folder.write(&file, added);
        arguments.push(file);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = folder.weft(&arguments);
    let said = &outcome.has_status(1).stderr;
    for (added, wanted) in &CLASHES {
        // One contradiction can refuse both objects; the answer reports it once.
        let told = said.matches(wanted).count();
        assert_eq!(told, 1, "{added}\nis not refused with\n{wanted}\nbut\n{said}");
    }
    // The address of the machine is also in a network of the router; the last line is the sum.
    assert_eq!(said.lines().count(), CLASHES.len() + 2, "{said}");
}
