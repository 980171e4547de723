//! The network between the hosts: packets that a machine there sends to their tunnel endpoints, though it is no transport node, and what
//! probes say of a network that does not carry what it should.

use std::net::Ipv4Addr;
use std::process::Command;

use lab::{Host, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{Frames, ask, bring_up, settings, wait_for};

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:05:01', ips: [10.5.0.1]}]}
---
{kind: switch_port, id: red-2, switch: red, addresses: [{mac: '02:00:00:00:05:02', ips: [10.5.0.2]}]}
";

/// The machine between the hosts.
const STRANGER: &str = "172.31.0.200";

/// The UDP port of an encapsulation, and its header without the last four bytes, which are the key.
const ENCAPSULATIONS: [(&str, u16, [u8; 4]); 2] =
    [("geneve", 6081, [0, 0, 0x65, 0x58]), ("vxlan", 4789, [8, 0, 0, 0])];

/// Runs a command in a namespace.
fn run_in(namespace: &str, argv: &[&str]) {
    let output = Command::new("ip").args(["netns", "exec", namespace]).args(argv).output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The tunnel keys that a host knows.
fn keys(host: &Host) -> Vec<u32> {
    let flows = host.dump_flows("br-int").unwrap();
    let key = |flow: &str| {
        let digits = flow.split("tun_id=0x").nth(1)?.split([',', ' ']).next()?;
        u32::from_str_radix(digits, 16).ok()
    };
    flows.iter().filter_map(|flow| key(flow)).collect()
}

/// A datagram from the stranger to the tunnel endpoint of a host.
fn send(testbed: &Testbed, host: &Host, port: u16, payload: &[u8]) {
    let bytes: Vec<String> = payload.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let bytes = bytes.concat();
    // One write is one datagram, and the shell itself would write line by line.
    let whole = "dd bs=65536 iflag=fullblock status=none";
    let script = format!("printf '{bytes}' | {whole} > /dev/udp/{}/{port}", host.ip);
    run_in(&testbed.lab().unwrap().underlay_namespace(), &["bash", "-c", &script]);
}

/// Where a frame with this mark arrives that the stranger sends to a host with each key that the host knows.
fn forge(
    testbed: &Testbed,
    frames: &Frames<'_>,
    encapsulation: &str,
    copies: usize,
    mark: &str,
) -> Vec<String> {
    let lab = testbed.lab().unwrap();
    let host = lab.host("hv1").unwrap();
    let (to, from) = (Ipv4Addr::new(10, 5, 0, 1), Ipv4Addr::new(10, 5, 0, 2));
    let inner = frame::udp4(frames.mac("red-1"), frames.mac("red-2"), to, from, mark.as_bytes());
    let (_, port, header) = ENCAPSULATIONS.into_iter().find(|(name, ..)| *name == encapsulation).unwrap();
    let keys = keys(&host);
    assert!(keys.len() >= 2, "a port and a group of ports: {keys:x?}");
    frames.taps.clear().unwrap();
    for key in keys {
        send(testbed, &host, port, &[&header[..], &(key << 8).to_be_bytes(), &inner].concat());
    }
    // What is sent later arrives later.
    lab.wait_ping("red-2", to.into(), DEADLINE).unwrap();
    // An ICMP error of the receiver quotes the frame, but has another sender.
    let sender = frames.mac("red-2");
    let forged = |frame: &[u8]| {
        frame.get(6..12) == Some(&sender[..]) && frame.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let arrived = frames.taps.collect(forged, copies, DEADLINE).unwrap();
    arrived.into_iter().filter(|(_, frames)| !frames.is_empty()).map(|(vm, _)| vm).collect()
}

/// The zone of all hosts.
fn zone(testbed: &Testbed, fields: &str) {
    testbed.apply("zone.yaml", &format!("{{kind: transport_zone, id: rack{fields}}}\n")).unwrap();
    testbed.wait_in_sync().unwrap();
}

#[test]
fn packets_that_no_node_sent_reach_no_machine() {
    let encaps = ENCAPSULATIONS.map(|(name, ..)| name.to_owned()).to_vec();
    let testbed = Testbed::start(Settings { hosts: 2, encaps, ..settings("forged") }).unwrap();
    zone(&testbed, ", check_sources: false");
    let nodes = testbed.hosts_as_objects().unwrap().replace("\nip:", "\ntransport_zone: rack\nip:");
    testbed.apply("nodes.yaml", &nodes).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:05:{n:02x}")).address(format!("10.5.0.{n}/24"))
    };
    bring_up(&testbed, NETWORK, &[vm("red-1", "hv1", 1), vm("red-2", "hv2", 2)]);
    let lab = testbed.lab().unwrap();
    run_in(&lab.underlay_namespace(), &["ip", "address", "add", &format!("{STRANGER}/24"), "dev", "switch"]);
    // The switches would drop datagrams whose checksum the kernel leaves to a device.
    run_in(&lab.underlay_namespace(), &["ethtool", "-K", "switch", "tx", "off"]);
    let frames = Frames::new(lab);

    // Where the network between the hosts is trusted, whoever is on it may send to any port.
    for (encapsulation, ..) in ENCAPSULATIONS {
        let mark = format!("trusted-{encapsulation}");
        assert_eq!(forge(&testbed, &frames, encapsulation, 2, &mark), ["red-1"], "{encapsulation}");
    }

    // By default, nodes alone may.
    zone(&testbed, "");
    wait_for("the check of sources", || {
        let flows = lab.host("hv1").unwrap().dump_flows("br-int").unwrap();
        flows.iter().any(|flow| flow.contains("tun_src=172.31.0.2")).then_some(())
    });
    lab.flush_datapaths().unwrap();
    for (encapsulation, ..) in ENCAPSULATIONS {
        let mark = format!("forged-{encapsulation}");
        assert_eq!(forge(&testbed, &frames, encapsulation, 0, &mark), [""; 0], "{encapsulation}");
    }

    // Open vSwitch itself checks the source at a tunnel port that serves one peer.
    zone(&testbed, ", tunnels: port");
    wait_for("tunnel ports for peers", || {
        let found = lab.host("hv1").unwrap().vsctl(&[
            "--bare",
            "--columns=options",
            "find",
            "Interface",
            "type=geneve",
        ]);
        let found = found.unwrap();
        (found.contains("remote_ip=172.31.0.2") && !found.contains("remote_ip=flow")).then_some(())
    });
    testbed.wait_in_sync().unwrap();
    for (encapsulation, ..) in ENCAPSULATIONS {
        let mark = format!("ported-{encapsulation}");
        assert_eq!(forge(&testbed, &frames, encapsulation, 0, &mark), [""; 0], "{encapsulation}");
    }
}

/// The problems of transport nodes, as `weft status` prints them.
fn problems(testbed: &Testbed) -> Vec<String> {
    let status = ask(testbed, &["status"]);
    status.lines().filter(|line| line.starts_with("problem: transport_node ")).map(str::to_owned).collect()
}

/// Waits until the only problem of transport nodes is one of this node with these words. `weft status` of the node shows it too. Until
/// more tunnels of the node are measured, the problem may be one of the node at the other end.
fn wait_for_problem(testbed: &Testbed, node: &str, words: &[&str]) {
    let of_node = format!("problem: transport_node {node}: ");
    let problem = wait_for(&format!("a problem of {node} with {words:?}"), || match &problems(testbed)[..] {
        [problem] if problem.starts_with(&of_node) && words.iter().all(|word| problem.contains(word)) => {
            Some(problem.clone())
        }
        _ => None,
    });
    let of_node = ask(testbed, &["status", node]);
    assert!(of_node.contains(&problem), "{of_node}");
}

/// Waits until probes arrive through all tunnels of a host, and there is no problem.
fn wait_until_all_arrives(testbed: &Testbed, node: &str, count: usize) {
    wait_for("all probes arrive", || {
        let tunnels = ask(testbed, &["get", "tunnels", node]);
        let arriving = tunnels.lines().filter(|line| line.ends_with("packets of 1,442 bytes arrive")).count();
        (arriving == count && problems(testbed).is_empty()).then_some(())
    });
}

#[test]
fn probes_tell_a_wrong_address_and_a_narrow_network_until_they_are_mended() {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("probed") }).unwrap();
    zone(&testbed, ", probes: {interval: 1}");
    let nodes = testbed.hosts_as_objects().unwrap().replace("\nip:", "\ntransport_zone: rack\nip:");
    testbed.apply("nodes.yaml", &nodes).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:05:{n:02x}")).address(format!("10.5.0.{n}/24"))
    };
    let network = format!("{NETWORK}---\n{{kind: switch_port, id: red-3, switch: red}}\n");
    bring_up(&testbed, &network, &[vm("red-1", "hv1", 1), vm("red-2", "hv2", 2), vm("red-3", "hv3", 3)]);
    wait_until_all_arrives(&testbed, "hv1", 4);
    wait_until_all_arrives(&testbed, "hv3", 4);

    // hv3 is said to have an address that no host has.
    testbed.apply("nodes.yaml", &nodes.replace("172.31.0.3", "172.31.0.33")).unwrap();
    wait_for_problem(&testbed, "hv3", &["between 2 hosts (hv1, hv2) and its `ip` 172.31.0.33 do not arrive"]);
    let tunnels = ask(&testbed, &["get", "tunnels", "hv2", "--json"]);
    let state = |from: &str, to: &str| {
        let mut found = tunnels.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let found = found.find(|tunnel| tunnel["from"] == from && tunnel["to"] == to).unwrap();
        found["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        [state("hv2", "hv1"), state("hv2", "hv3"), state("hv3", "hv2")],
        ["arrives", "unreachable", "unreachable"]
    );
    // What it sends comes from an address that no node has.
    wait_for("packets from an unknown source", || {
        ask(&testbed, &["get", "transport_node", "hv1"])
            .contains("is not the `ip` of a transport_node")
            .then_some(())
    });
    testbed.apply("nodes.yaml", &nodes).unwrap();
    wait_until_all_arrives(&testbed, "hv3", 4);

    // The link of hv2 carries less than the zone says.
    let narrow = testbed.lab().unwrap().host("hv2").unwrap().namespace.clone();
    run_in(&narrow, &["ip", "link", "set", "uplink", "mtu", "1400"]);
    wait_for_problem(
        &testbed,
        "hv2",
        &["small packets arrive and packets of 1,442 bytes do not", "to 1,500"],
    );
    run_in(&narrow, &["ip", "link", "set", "uplink", "mtu", "1500"]);
    wait_until_all_arrives(&testbed, "hv2", 4);
}

#[test]
fn a_responder_that_is_gone_is_a_problem_until_it_is_back() {
    let mut testbed = Testbed::start(Settings { hosts: 1, ..settings("silent") }).unwrap();
    zone(&testbed, ", probes: {interval: 1}");
    let nodes = testbed.hosts_as_objects().unwrap().replace("\nip:", "\ntransport_zone: rack\nip:");
    testbed.apply("nodes.yaml", &nodes).unwrap();
    bring_up(&testbed, NETWORK, &[VmSpec::new("red-1", "hv1", "red-1", "02:00:00:00:05:01")]);
    testbed.kill_responders();
    wait_for_problem(&testbed, "hv1", &["its responder does not answer"]);
    testbed.start_responders().unwrap();
    wait_for("the end of the problem", || problems(&testbed).is_empty().then_some(()));
    // It has taken no tunnel.
    assert!(ask(&testbed, &["get", "tunnels"]).starts_with("no tunnel is measured"));
}
