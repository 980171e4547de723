//! Packets that a machine on the network between the hosts sends to their tunnel endpoints, though it is no transport node.

use std::net::Ipv4Addr;
use std::process::Command;

use lab::{Host, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{Frames, bring_up, settings, wait_for};

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
