//! What is dropped, counted by cause: a packet of each cause is sent into real switches, and the counter of exactly this cause rises by
//! exactly one, at the host, at the port, the switch or the router whose it is, and in the whole network.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use frame_builder::{Endpoints, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, UDP, ethernet, icmpv6, udp};
use lab::Host;
use serde_json::Value as Json;
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, settings, wait_for};

/// Switches lan and dmz with router edge between them, and wild, which learns. Only port a is secured; nothing may be sent to UDP port 23 of port b.
const NETWORK: &str = "
{kind: switch, id: lan}
---
{kind: switch, id: dmz}
---
{kind: router, id: edge}
---
{kind: router_port, id: edge-lan, router: edge, switch: lan, mac: '02:00:00:00:40:f0', networks: [10.40.0.254/24]}
---
{kind: router_port, id: edge-dmz, router: edge, switch: dmz, mac: '02:00:00:00:40:f1', networks: [10.41.0.254/24]}
---
{kind: route, id: nowhere, router: edge, destination: 192.0.2.0/24, discard: true}
---
{kind: route_policy, id: closed, router: edge, priority: 10, match: {ip_dst: 198.51.100.0/24}, action: drop}
---
{kind: switch_port, id: a, switch: lan, port_security: true, addresses: [{mac: '02:00:00:00:40:01', ips: [10.40.0.1]}]}
---
{kind: switch_port, id: b, switch: lan, addresses: [{mac: '02:00:00:00:40:02', ips: [10.40.0.2]}]}
---
{kind: switch, id: wild}
---
{kind: switch_port, id: d, switch: wild, unknown_addresses: true}
---
{kind: switch_port, id: unplugged, switch: wild, addresses: [{mac: '02:00:00:00:40:03', ips: [10.40.0.3]}]}
---
{kind: switch_port, id: c, switch: dmz, addresses: [{mac: '02:00:00:00:40:11', ips: [10.41.0.1]}]}
---
{kind: acl, id: b-no-telnet, port: b, direction: to_port, priority: 1, match: {ip_proto: udp, tp_dst: 23}, action: drop}
";

const A: Mac = [2, 0, 0, 0, 0x40, 1];
const B: Mac = [2, 0, 0, 0, 0x40, 2];
const UNPLUGGED: Mac = [2, 0, 0, 0, 0x40, 3];
const ROUTER: Mac = [2, 0, 0, 0, 0x40, 0xf0];
const NOBODY: Mac = [2, 0, 0, 0, 0x40, 0x77];
const IP_A: Ipv4Addr = Ipv4Addr::new(10, 40, 0, 1);
const IP_B: Ipv4Addr = Ipv4Addr::new(10, 40, 0, 2);
const IP_C: Ipv4Addr = Ipv4Addr::new(10, 41, 0, 1);
const ECHO_PORT: u16 = 7;
const TELNET: u16 = 23;
/// The bytes of the data in a datagram.
const DATA: usize = 8;
/// The same of one that no switch carries.
const TOO_MUCH: usize = 1600;

/// Of a port: the interface that carries it.
fn interface(port: &str) -> String {
    format!("vnic-{port}")
}

/// Gives a host an interface of a port. Nothing is behind it, so that nobody else sends.
fn plug(host: &Host, port: &str) -> u16 {
    let name = interface(port);
    let iface = format!("external_ids:iface-id={port}");
    host.vsctl(&["add-port", "br-int", &name, "--", "set", "Interface", &name, "type=internal", &iface])
        .unwrap();
    wait_for("an OpenFlow port", || {
        let number = host.vsctl(&["get", "Interface", &name, "ofport"]).unwrap();
        number.trim().parse().ok()
    })
}

/// Lets a frame come from an OpenFlow port.
fn send(host: &Host, from: u16, frame: &[u8]) {
    let hex = frame.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    host.ofctl(&["packet-out", "br-int", &format!("in_port={from} packet={hex} actions=resubmit(,0)")])
        .unwrap();
}

/// A frame with UDP.
fn datagram(to: Mac, from: Mac, mut ip: Ipv4, ttl: u8, port: u16) -> Vec<u8> {
    ip.ttl = ttl;
    with_data(to, from, &ip, port, DATA)
}

/// A frame with UDP and so many bytes of data.
fn with_data(to: Mac, from: Mac, ip: &Ipv4, port: u16, data: usize) -> Vec<u8> {
    let payload = udp(ECHO_PORT, port, &vec![0; data], Endpoints::V4(ip.src, ip.dst));
    ethernet(to, from, IPV4, &ip.packet(&payload))
}

/// The drops in the state of an object, or in the status of the network, by cause.
fn drops(json: &Json) -> BTreeMap<String, u64> {
    assert!(json["unread"].as_array().is_some_and(Vec::is_empty), "{json}");
    let causes = json["causes"].as_array().unwrap_or_else(|| panic!("no causes: {json}"));
    let count = |of: &Json| Some((of["cause"].as_str()?.to_owned(), of["packets"].as_u64()?));
    causes.iter().map(|of| count(of).unwrap_or_else(|| panic!("no counter: {json}"))).collect()
}

fn of_object(testbed: &Testbed, kind: &str, id: &str) -> BTreeMap<String, u64> {
    let json: Json = serde_json::from_str(&ask(testbed, &["get", kind, id, "--json"])).unwrap();
    drops(&json["state"]["drops"])
}

fn of_network(testbed: &Testbed) -> BTreeMap<String, u64> {
    let json: Json = serde_json::from_str(&ask(testbed, &["get", "status", "--drops", "--json"])).unwrap();
    drops(&json["drops"])
}

/// What is sent, why it is dropped, and the objects besides the host whose counters say so.
struct Case {
    /// Frames that take the same way and arrive.
    arriving: Vec<Vec<u8>>,
    frame: Vec<u8>,
    from: &'static str,
    cause: &'static str,
    objects: &'static [(&'static str, &'static str)],
}

fn cases() -> Vec<Case> {
    let ip = |src, dst| Ipv4::new(src, dst, UDP);
    let to = |dst: [u8; 4]| datagram(ROUTER, A, ip(IP_A, dst.into()), 64, ECHO_PORT);
    let case = |cause, from, frame, objects| Case { arriving: Vec::new(), frame, from, cause, objects };
    // Said by a machine that is no router.
    let advertisement = {
        let link_local = "fe80::ff:fe00:4002".parse().unwrap();
        let all_nodes = "ff02::1".parse().unwrap();
        let mut packet = Ipv6::new(link_local, all_nodes, ICMPV6);
        packet.hops = 64;
        let message = icmpv6([vec![134, 0, 0, 0], vec![0; 12]].concat(), link_local, all_nodes);
        ethernet([0x33, 0x33, 0, 0, 0, 1], B, IPV6, &packet.packet(&message))
    };
    vec![
        case(
            "port-security",
            "a",
            datagram(B, A, ip(Ipv4Addr::new(10, 40, 0, 9), IP_B), 64, ECHO_PORT),
            &[("switch_port", "a"), ("switch", "lan")],
        ),
        case(
            "port-security",
            "b",
            datagram(A, B, ip(IP_B, Ipv4Addr::new(10, 40, 0, 9)), 64, ECHO_PORT),
            &[("switch_port", "a"), ("switch", "lan")],
        ),
        case("bad-frame", "b", ethernet([1, 0x80, 0xc2, 0, 0, 0], B, IPV4, &[0; 46]), &[]),
        case("misleading", "b", advertisement, &[]),
        case(
            "acl",
            "a",
            datagram(B, A, ip(IP_A, IP_B), 64, TELNET),
            &[("switch_port", "b"), ("switch", "lan")],
        ),
        case(
            "no-such-address",
            "a",
            datagram(NOBODY, A, ip(IP_A, IP_B), 64, ECHO_PORT),
            &[("switch", "lan")],
        ),
        case(
            "no-such-address",
            "d",
            datagram(UNPLUGGED, B, ip(IP_B, Ipv4Addr::new(10, 40, 0, 3)), 64, ECHO_PORT),
            &[("switch_port", "unplugged"), ("switch", "wild")],
        ),
        case("not-routable", "a", to([127, 0, 0, 1]), &[]),
        case("link-local", "a", to([169, 254, 0, 1]), &[]),
        case("hop-limit", "a", datagram(ROUTER, A, ip(IP_A, IP_C), 1, ECHO_PORT), &[]),
        case("not-offered", "a", to([10, 41, 0, 254]), &[]),
        case("policy", "a", to([198, 51, 100, 1]), &[("router", "edge")]),
        case("dead-route", "a", to([192, 0, 2, 1]), &[("router", "edge")]),
        case("no-route", "a", to([203, 0, 113, 1]), &[("router", "edge")]),
        // Both flows behind the comparison of sizes count each packet.
        Case {
            arriving: vec![to([10, 41, 0, 1]); 3],
            ..case("too-large", "a", with_data(ROUTER, A, &ip(IP_A, IP_C), ECHO_PORT, TOO_MUCH), &[])
        },
        case("unresolved", "a", to([10, 41, 0, 99]), &[]),
    ]
}

#[test]
fn each_cause_has_a_counter_of_its_own() {
    /// Where counters are looked at, whatever is sent.
    const WATCHED: [(&str, &str); 9] = [
        ("transport_node", "hv1"),
        ("transport_node", "hv2"),
        ("switch_port", "a"),
        ("switch_port", "b"),
        ("switch_port", "unplugged"),
        ("switch", "lan"),
        ("switch", "dmz"),
        ("switch", "wild"),
        ("router", "edge"),
    ];
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("drops") }).unwrap();
    testbed.apply("network.yaml", NETWORK).unwrap();
    let [hv1, hv2] = ["hv1", "hv2"].map(|host| testbed.lab().unwrap().host(host).unwrap());
    let ports = BTreeMap::from([("a", plug(&hv1, "a")), ("b", plug(&hv1, "b")), ("d", plug(&hv1, "d"))]);
    plug(&hv2, "c");
    // The lab does not know these interfaces.
    let is_ready = |host: &str, vnics| {
        let status = testbed.status().unwrap();
        let mut switches = status.switches.iter();
        switches
            .any(|switch| switch.node == host && switch.vifs == vnics && switch.synced && switch.pending == 0)
    };
    wait_for("the interfaces have their flows", || (is_ready("hv1", 3) && is_ready("hv2", 1)).then_some(()));

    let look = || -> BTreeMap<_, _> {
        WATCHED.into_iter().map(|(kind, id)| ((kind, id), of_object(&testbed, kind, id))).collect()
    };
    let (mut seen, mut everywhere) = (look(), of_network(&testbed));
    for Case { arriving, frame, from, cause, objects } in cases() {
        for frame in arriving.iter().chain([&frame]) {
            send(&hv1, ports[from], frame);
        }
        let more = |counts: &BTreeMap<String, u64>| {
            let mut counts = counts.clone();
            *counts.entry(cause.to_owned()).or_default() += 1;
            counts
        };
        everywhere = more(&everywhere);
        let began = std::time::Instant::now();
        while of_network(&testbed) != everywhere {
            let found = of_network(&testbed);
            assert!(began.elapsed() < DEADLINE, "{cause}: {found:?} and not {everywhere:?}");
        }
        for (object, counts) in &mut seen {
            if objects.contains(object) || *object == ("transport_node", "hv1") {
                *counts = more(counts);
            }
        }
        assert_eq!(look(), seen, "{cause}");
    }

    // For people, with the sentence of each cause; and a host that cannot be asked is named.
    let text = ask(&testbed, &["get", "switch_port", "a"]);
    assert!(text.contains("# dropped: 2\n#   2 port-security: its source is not"), "{text}");
    assert!(text.contains("# counted on: 1 host\n"), "{text}");
    hv1.kill_vswitchd().unwrap();
    let is_missed =
        || ask(&testbed, &["get", "router", "edge"]).contains("# not counted: hv1: ").then_some(());
    wait_for("the host is missed", is_missed);
    assert!(ask(&testbed, &["get", "status", "--drops"]).contains("not counted: hv1: "));
}
