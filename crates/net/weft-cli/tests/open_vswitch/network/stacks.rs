//! One network through each kind of tunnel: ping, TCP, UDP, neighbour discovery, copies at every port, the largest packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lab::{Lab, PingOptions, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{Copies, Frames, bring_up, mtu_of, one_at, passes_whole, settings, wait_for};

/// Two tenants with the same addresses. Ports of red are on three hosts; red-1 and red-4 have port security.
const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch, id: blue}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:04:01', ips: [10.4.0.1, 'fd04::1']}], port_security: true}
---
{kind: switch_port, id: red-2, switch: red, addresses: [{mac: '02:00:00:00:04:02', ips: [10.4.0.2, 'fd04::2']}]}
---
{kind: switch_port, id: red-3, switch: red, addresses: [{mac: '02:00:00:00:04:03', ips: [10.4.0.3, 'fd04::3']}]}
---
{kind: switch_port, id: red-4, switch: red, addresses: [{mac: '02:00:00:00:04:04', ips: [10.4.0.4, 'fd04::4']}], port_security: true}
---
{kind: switch_port, id: blue-1, switch: blue, addresses: [{mac: '02:00:00:00:04:01', ips: [10.4.0.1, 'fd04::1']}]}
---
{kind: switch_port, id: blue-3, switch: blue, addresses: [{mac: '02:00:00:00:04:03', ips: [10.4.0.3, 'fd04::3']}]}
";

const PORTS: [(&str, &str, u8); 6] = [
    ("red-1", "hv1", 1),
    ("red-2", "hv1", 2),
    ("red-3", "hv2", 3),
    ("red-4", "hv3", 4),
    ("blue-1", "hv1", 1),
    ("blue-3", "hv2", 3),
];

fn v4(n: u8) -> IpAddr {
    [10, 4, 0, n].into()
}

fn v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd04, 0, 0, 0, 0, 0, 0, n.into())
}

/// The kinds of tunnels, with what they add to an IP packet: Ethernet, IP, and UDP with 8 bytes of vxlan or geneve, or gre
/// with a key.
fn carries_everything(encap: &str, form: &str, overhead: u16, underlay_mtu: u16) {
    let hosts = Settings { hosts: 3, underlay_mtu, encaps: vec![encap.to_owned()], ..settings(encap) };
    let testbed = Testbed::start(hosts).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap();
    carries_everything_on(&testbed, &nodes, (encap, form), overhead, underlay_mtu);
}

/// The same between IPv6 tunnel endpoints.
fn carries_everything_over_ipv6(encap: &str, form: &str, overhead: u16) {
    let hosts = Settings { hosts: 3, encaps: vec![encap.to_owned()], ..settings(&format!("{encap}6")) };
    let testbed = Testbed::start(hosts).unwrap();
    let mut nodes = testbed.hosts_as_objects().unwrap();
    for (host, n) in testbed.lab().unwrap().hosts().unwrap().into_iter().zip(1..) {
        let address = Ipv6Addr::new(0xfd31, 0, 0, 0, 0, 0, 0, n);
        for argv in [
            &["sysctl", "-qw", "net.ipv6.conf.br-phy.disable_ipv6=0"][..],
            &["ip", "address", "add", &format!("{address}/64"), "dev", "br-phy", "nodad"],
        ] {
            let output = host.exec(argv).unwrap();
            assert!(output.success(), "{output:?}");
        }
        nodes = nodes.replace(&format!("ip: {}\n", host.ip), &format!("ip: '{address}'\n"));
    }
    carries_everything_on(&testbed, &nodes, (encap, form), overhead, 1500);
}

/// The same with these nodes.
fn carries_everything_on(
    testbed: &Testbed,
    nodes: &str,
    (encap, form): (&str, &str),
    overhead: u16,
    underlay_mtu: u16,
) {
    let zone = format!("{{kind: transport_zone, id: rack, tunnels: {form}, mtu: {underlay_mtu}}}\n");
    let nodes = nodes.replace("\nip:", "\ntransport_zone: rack\nip:");
    testbed.apply("zone.yaml", &(zone + &nodes)).unwrap();
    let mtu = underlay_mtu - overhead;
    let machines = PORTS.map(|(name, host, n)| {
        let mut vm = VmSpec::new(name, host, name, format!("02:00:00:00:04:{n:02x}"));
        vm.mtu = Some(mtu);
        vm.address(format!("10.4.0.{n}/24")).address(format!("{}/64", v6(n)))
    });
    bring_up(testbed, NETWORK, &machines);
    let lab = testbed.lab().unwrap();
    crosses_in(testbed, encap, form);
    for (from, to) in [("red-1", 3), ("red-4", 1), ("red-2", 1), ("blue-1", 3)] {
        lab.wait_ping(from, v4(to), DEADLINE).unwrap();
        lab.wait_ping(from, v6(to).into(), DEADLINE).unwrap();
    }
    copies_at_every_port(lab);
    neighbours_are_answered_here(lab);
    duplicates_are_found(lab);
    streams_and_datagrams(lab);
    largest_packets(testbed, mtu);
}

/// Checks that the tunnel ports have the expected form.
fn crosses_in(testbed: &Testbed, encap: &str, form: &str) {
    let host = testbed.lab().unwrap().host("hv1").unwrap();
    let ports = wait_for("tunnel ports", || {
        let found = host
            .vsctl(&["--bare", "--columns=options", "find", "Interface", &format!("type={encap}")])
            .unwrap();
        let ports: Vec<String> = found.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        (ports.len() == if form == "flow" { 1 } else { 2 }).then_some(ports)
    });
    assert_eq!(ports.iter().all(|port| port.contains("remote_ip=flow")), form == "flow", "{ports:?}");
}

fn copies_at_every_port(lab: &Lab) {
    let frames = Frames::new(lab);
    let all = frame::BROADCAST;
    frames.come_out("broadcast", "red-1", all, &one_at(&["red-2", "red-3", "red-4"]));
    frames.come_out("broadcast", "red-3", all, &one_at(&["red-1", "red-2", "red-4"]));
    frames.come_out("broadcast", "blue-1", all, &one_at(&["blue-3"]));
    frames.come_out("multicast", "red-4", [1, 0, 0x5e, 1, 2, 3], &one_at(&["red-1", "red-2", "red-3"]));
    frames.come_out("IP broadcast in a unicast frame", "red-2", frames.mac("red-1"), &one_at(&["red-1"]));
    let to_address = |n: u8, address: u8| {
        move |from: &str, mark: &[u8]| {
            let (IpAddr::V4(to), Some(IpAddr::V4(own))) = (v4(address), lab.vm(from).unwrap().ip()) else {
                unreachable!()
            };
            let macs = [format!("02:00:00:00:04:{n:02x}"), lab.vm(from).unwrap().mac];
            let [to_mac, from_mac] = macs.map(|mac| frame::mac(&mac).unwrap());
            frame::udp4(to_mac, from_mac, to, own, mark)
        }
    };
    let to = |n: u8| to_address(n, n);
    let other = to_address(1, 99);
    frames.come_out_as("an IP address that is not the port's", "red-2", &Copies::new(), |mark| {
        other("red-2", mark)
    });
    for (from, n, whom) in
        [("red-1", 3, "red-3"), ("red-2", 1, "red-1"), ("red-3", 4, "red-4"), ("blue-1", 3, "blue-3")]
    {
        frames.come_out_as("unicast", from, &one_at(&[whom]), |mark| to(n)(from, mark));
    }
    frames.come_out("unknown unicast", "red-1", [2, 0, 0, 0, 9, 9], &Copies::new());
    frames.come_out_as("a tag", "red-1", &Copies::new(), |mark| frame::tagged(&to(3)("red-1", mark), 5));
    let stranger = |mark: &[u8]| {
        let (from, to) = (Ipv4Addr::new(10, 4, 0, 77), Ipv4Addr::new(10, 4, 0, 3));
        frame::udp4(frames.mac("red-3"), frames.mac("red-1"), to, from, mark)
    };
    frames.come_out_as("an address that is not the port's", "red-1", &Copies::new(), stranger);
}

/// A request to all for a known address reaches no machine: the host of the asker answers.
fn neighbours_are_answered_here(lab: &Lab) {
    let frames = Frames::new(lab);
    lab.flush_arp_cache("red-1").unwrap();
    frames.taps.clear().unwrap();
    lab.wait_ping("red-1", v4(4), DEADLINE).unwrap();
    lab.wait_ping("red-1", v6(4).into(), DEADLINE).unwrap();
    let target = v6(4).octets();
    let asks = |frame: &[u8]| {
        let arp =
            frame[12..].starts_with(&[8, 6]) && frame[20..22] == [0, 1] && frame.ends_with(&[10, 4, 0, 4]);
        let solicitation = frame[12..].starts_with(&[0x86, 0xdd]) && frame.get(54) == Some(&135);
        // By a unicast request, a stack checks whether the neighbour is still there.
        frame[0] & 1 == 1 && (arp || solicitation && frame.get(62..78) == Some(&target[..]))
    };
    let asked = frames.taps.collect(asks, 0, DEADLINE).unwrap();
    assert!(asked.is_empty(), "a request for a known address was delivered: {asked:?}");
    let cache = lab.arp_cache("red-1").unwrap();
    for ip in [v4(4), v6(4).into()] {
        let entry = cache.iter().find(|entry| entry.ip == ip).unwrap();
        assert_eq!(entry.mac.as_deref(), Some("02:00:00:00:04:04"), "{entry:?}");
    }
    // One correct answer, even for a request that no stack sent.
    let (asker, asked) = (frames.mac("red-2"), frames.mac("red-4"));
    let (mine, theirs) = (Ipv4Addr::new(10, 4, 0, 2), Ipv4Addr::new(10, 4, 0, 4));
    frames.taps.send("red-2", &frame::arp(frame::BROADCAST, 1, (asker, mine), ([0; 6], theirs))).unwrap();
    let answer = frame::arp(asker, 2, (asked, theirs), (asker, mine));
    let answers = frames.taps.collect(|frame| frame.starts_with(&answer), 1, DEADLINE).unwrap();
    let counts: Vec<(&str, usize)> = answers.iter().map(|(vm, frames)| (vm.as_str(), frames.len())).collect();
    assert_eq!(counts, [("red-2", 1)]);
}

/// Duplicate address detection: the machine's own address is free, another's is not.
fn duplicates_are_found(lab: &Lab) {
    let address = |arguments: &[&str]| {
        let output = lab.exec("red-2", &[&["ip", "-6", "address"], arguments].concat()).unwrap();
        assert!(output.success(), "{output:?}");
        output.stdout
    };
    let own = format!("{}/64", v6(2));
    address(&["del", &own, "dev", "eth0"]);
    address(&["add", &own, "dev", "eth0"]);
    let found = wait_for("an address that is checked", || {
        let shown = address(&["show", "dev", "eth0", "to", &own]);
        (!shown.contains("tentative") || shown.contains("dadfailed")).then_some(shown)
    });
    assert!(!found.contains("dadfailed"), "{found}");
    let taken = format!("{}/128", v6(3));
    address(&["add", &taken, "dev", "eth0"]);
    wait_for("the failure of a taken address", || {
        address(&["show", "dev", "eth0", "to", &taken]).contains("dadfailed").then_some(())
    });
    address(&["del", &taken, "dev", "eth0"]);
}

fn streams_and_datagrams(lab: &Lab) {
    let mut took = Vec::new();
    for (from, to, n) in [("red-1", "red-3", 3), ("red-4", "red-1", 1), ("red-2", "red-1", 1)] {
        took.push(lab.transfer(from, to, v4(n), 1 << 20).unwrap());
        lab.transfer(from, to, v6(n).into(), 1 << 18).unwrap();
    }
    println!("a MiB of TCP over tunnels, and on one host: {took:?}");
    // 3,000 bytes are sent in fragments if the MTU is that of an ordinary network.
    for (size, ip) in [(100, v4(3)), (100, v6(3).into()), (3_000, v4(3)), (3_000, v6(3).into())] {
        let sent = lab.datagrams("red-1", ("red-3", ip), 20, size).unwrap();
        assert_eq!(
            (sent.received, sent.duplicates, sent.damaged),
            (20, 0, 0),
            "{size} bytes to {ip}: {sent:?}"
        );
    }
}

/// Packets up to the switch's MTU pass unfragmented; larger ones do not pass between hosts.
fn largest_packets(testbed: &Testbed, mtu: u16) {
    let lab = testbed.lab().unwrap();
    assert_eq!(mtu_of(testbed, "red"), mtu);
    assert!(passes_whole(lab, "red-1", "10.4.0.3", mtu));
    for vm in ["red-1", "red-3"] {
        let larger = (mtu + 1).to_string();
        assert!(lab.exec(vm, &["ip", "link", "set", "eth0", "mtu", &larger]).unwrap().success());
    }
    let larger = passes_whole(lab, "red-1", "10.4.0.3", mtu + 1);
    assert!(!larger, "a packet larger than the switch's MTU passed a tunnel");
    // Fragments of the largest size pass.
    for vm in ["red-1", "red-3"] {
        assert!(lab.exec(vm, &["ip", "link", "set", "eth0", "mtu", &mtu.to_string()]).unwrap().success());
    }
    let fragments = PingOptions { size: 20_000, ..PingOptions::default() };
    let result = lab.ping("red-1", v4(3), &fragments).unwrap();
    assert_eq!((result.lost(), result.duplicates), (0, 0), "{result:?}");
}

#[test]
fn geneve_carries_everything() {
    carries_everything("geneve", "flow", 58, 1500);
}

#[test]
fn vxlan_carries_everything() {
    carries_everything("vxlan", "flow", 50, 1500);
}

#[test]
fn gre_with_a_port_for_each_peer_carries_everything() {
    carries_everything("gre", "port", 42, 1500);
}

#[test]
fn jumbo_packets_pass_where_the_network_between_hosts_takes_them() {
    carries_everything("geneve", "port", 58, 9000);
}

#[test]
fn vxlan_over_ipv6_carries_everything() {
    carries_everything_over_ipv6("vxlan", "flow", 70);
}

#[test]
fn geneve_over_ipv6_with_a_port_for_each_peer_carries_everything() {
    carries_everything_over_ipv6("geneve", "port", 78);
}
