//! Routers between real stacks: what `docs/reference/router.md` promises, as machines see it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, Mac, UDP, ethernet};
use lab::{Host, Lab, Migration, Order, PingOptions, Reach, Taps, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, mtu_of, settings, wait_for};

/// The MTU of every switch here: geneve over IPv4 on an underlay of 1500 bytes.
const MTU: u16 = 1442;

/// The routers between the two ends of a chain.
const ROUTERS: u8 = 2;

/// A chain of five datapaths for a tenant: switch a, router a, transit switch t, router b, switch b. All tenants have the same
/// addresses.
fn chain(tenant: &str, ports: &[(&str, &str, u8)], reach: &str) -> String {
    let mut text = String::new();
    for switch in ["a", "t", "b"] {
        text += &format!("---\n{{kind: switch, id: {tenant}-{switch}, tenant: {tenant}}}\n");
    }
    for (name, switch, n) in ports {
        let (ip4, ip6) = addresses(switch, *n);
        text += &format!(
            "---\n{{kind: switch_port, id: {tenant}-{name}, switch: {tenant}-{switch}, port_security: true, \
             addresses: [{{mac: '02:00:00:00:20:{n:02x}', ips: ['{ip4}', '{ip6}']}}]}}\n"
        );
    }
    text + &router(tenant, reach, ("a", 1, 0xf0), ("b", 2)) + &router(tenant, reach, ("b", 2, 0xf2), ("a", 1))
}

/// The router of switch `here`, which has number `n` on the transit switch, with its routes to the switch of another.
fn router(tenant: &str, reach: &str, (here, n, mac): (&str, u8, u8), (there, hop): (&str, u8)) -> String {
    let mut text =
        format!("---\n{{kind: router, id: {tenant}-from-{here}, tenant: {tenant}, reach: {reach}}}\n");
    for (switch, (ip4, ip6), mac) in [(here, addresses(here, 254), mac), ("t", addresses("t", n), mac + 1)] {
        text += &format!(
            "---\n{{kind: router_port, id: {tenant}-{here}-on-{switch}, router: {tenant}-from-{here}, \
             switch: {tenant}-{switch}, mac: '02:00:00:00:20:{mac:02x}', networks: ['{ip4}/24', '{ip6}/64']}}\n"
        );
    }
    let ((net4, net6), (hop4, hop6)) = (addresses(there, 0), addresses("t", hop));
    for (version, net, hop) in
        [(4, format!("{net4}/24"), IpAddr::V4(hop4)), (6, format!("{net6}/64"), hop6.into())]
    {
        text += &format!(
            "---\n{{kind: route, id: {tenant}-{here}-to-{there}-{version}, router: {tenant}-from-{here}, \
             destination: '{net}', next_hops: ['{hop}']}}\n"
        );
    }
    text
}

/// Addresses on a switch of a chain.
fn addresses(switch: &str, n: u8) -> (Ipv4Addr, Ipv6Addr) {
    let net = match switch {
        "a" => 1,
        "b" => 2,
        _ => 3,
    };
    (Ipv4Addr::new(10, 20, net, n), Ipv6Addr::new(0xfd20, net.into(), 0, 0, 0, 0, 0, n.into()))
}

/// The ports of tenant red, with their switches and numbers; `moves` is the one that migrates.
const RED: [(&str, &str, u8); 5] =
    [("one", "a", 1), ("two", "a", 2), ("near", "b", 2), ("far", "b", 3), ("moves", "b", 4)];

/// Those of tenant blue.
const BLUE: [(&str, &str, u8); 2] = [("one", "a", 1), ("far", "b", 3)];

fn machine(tenant: &str, (name, switch, n): (&str, &str, u8), host: &str) -> VmSpec {
    let port = format!("{tenant}-{name}");
    let ((ip4, ip6), (gateway4, gateway6)) = (addresses(switch, n), addresses(switch, 254));
    let mut vm = VmSpec::new(&port, host, &port, format!("02:00:00:00:20:{n:02x}"))
        .address(format!("{ip4}/24"))
        .address(format!("{ip6}/64"))
        .gateway(gateway4)
        .gateway(gateway6);
    vm.mtu = Some(MTU);
    vm
}

/// Two tenants with a chain each, whose routers reach their switches in this way.
fn start(reach: &str) -> Testbed {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings(reach) }).unwrap();
    let [one, two, near, far, moves] = RED;
    let machines = [
        machine("red", one, "hv1"),
        machine("red", two, "hv3"),
        machine("red", near, "hv1"),
        machine("red", far, "hv2"),
        machine("red", moves, "hv3"),
        machine("blue", BLUE[0], "hv2"),
        machine("blue", BLUE[1], "hv1"),
    ];
    bring_up(&testbed, &(chain("red", &RED, reach) + &chain("blue", &BLUE, reach)), &machines);
    testbed
}

#[test]
fn a_chain_of_routers_carries_what_stacks_send() {
    let testbed = start("direct");
    let lab = testbed.lab().unwrap();
    tenants_do_not_meet(lab);
    every_router_counts(lab);
    routers_answer_pings(lab);
    sizes(&testbed);
    a_machine_moves(&testbed);
}

/// Host hv2 has no port of red's switch a: it sends by way of hv1 or hv3, which have one each.
#[test]
fn relays_carry_what_stacks_send() {
    let testbed = start("relay");
    let lab = testbed.lab().unwrap();
    tenants_do_not_meet(lab);
    for (to, n) in [("red-one", 1), ("red-two", 2)] {
        let (ip4, ip6) = addresses("a", n);
        for ip in [IpAddr::V4(ip4), ip6.into()] {
            in_fragments(lab, "red-far", to, ip);
        }
    }
    a_machine_moves(&testbed);
}

/// The hosts to which flows of a host send packets by tunnels.
fn sends_to(lab: &Lab, from: &str) -> BTreeSet<String> {
    let from = lab.host(from).unwrap();
    let flows = from.ofctl(&["-O", "OpenFlow15", "dump-flows", &from.bridge_endpoint("br-int")]).unwrap();
    let gets = |host: &Host| flows.contains(&format!("set_field:{}->tun_dst", host.ip));
    lab.hosts().unwrap().into_iter().filter(gets).map(|host| host.name.clone()).collect()
}

/// A chain for tenant red in which host hv2 sends all packets for switch a to one relay, hv1 or hv3. Machine `red-far` on hv2 reaches
/// the machines of both.
fn with_two_relays(testbed: &Testbed) {
    let [one, two, _, far, _] = RED;
    let ports = [one, two, far];
    let hosts = ["hv1", "hv3", "hv2"];
    let machines: Vec<VmSpec> =
        ports.iter().zip(hosts).map(|(port, host)| machine("red", *port, host)).collect();
    bring_up(testbed, &chain("red", &ports, "relay"), &machines);
    both_answer(testbed.lab().unwrap());
}

/// Machine `red-far` reaches those of switch a.
fn both_answer(lab: &Lab) {
    for n in [1, 2] {
        lab.wait_ping("red-far", addresses("a", n).0.into(), DEADLINE).unwrap();
    }
}

/// The other host of switch a, and the address of its machine.
fn other_than(relay: &str) -> (&'static str, IpAddr) {
    let (other, n) = if relay == "hv1" { ("hv3", 2) } else { ("hv1", 1) };
    (other, addresses("a", n).0.into())
}

/// When the switch of the relay dies, the other host takes over until the first one is back. Its own machine stays reachable.
#[test]
fn a_relay_that_dies_is_replaced() {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("dead-relay") }).unwrap();
    with_two_relays(&testbed);
    let lab = testbed.lab().unwrap();
    let relays = sends_to(lab, "hv2");
    let dead = relays.first().unwrap();
    let (other, living) = other_than(dead);
    let only = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(relays, only(dead));
    let ping = lab.spawn_ping("red-far", living, Duration::from_millis(10)).unwrap();
    ping.wait_received(20, DEADLINE).unwrap();
    let host = lab.host(dead).unwrap();
    host.kill_vswitchd().unwrap();
    wait_for("another relay", || (sends_to(lab, "hv2") == only(other)).then_some(()));
    ping.wait_received(ping.received() + 30, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    println!("the relay dies: {} of {} lost, dark for {:?}", result.lost(), result.sent, result.longest_gap);

    host.start_vswitchd().unwrap();
    testbed.wait_in_sync().unwrap();
    wait_for("the first relay again", || (sends_to(lab, "hv2") == only(dead)).then_some(()));
    both_answer(lab);
}

/// Where each host has a tunnel port to each other, the switch of the sender notices that the relay is silent and takes the other one.
/// No controller runs.
#[test]
fn a_silent_relay_is_replaced_without_a_controller() {
    let mut testbed = Testbed::start(Settings { hosts: 3, ..settings("silent-relay") }).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap().replace("\nip:", "\ntransport_zone: rack\nip:");
    let zone = "{kind: transport_zone, id: rack, tunnels: port}\n";
    testbed.apply("zone.yaml", &format!("{zone}{nodes}")).unwrap();
    with_two_relays(&testbed);
    let lab = testbed.lab().unwrap();
    wait_for("sessions with both relays", || {
        let sender = lab.host("hv2").unwrap();
        let states = sender.vsctl(&["--bare", "--columns=bfd_status", "find", "Interface", "type=geneve"]);
        (states.unwrap().matches(" state=up").count() == 2).then_some(())
    });
    testbed.kill_controller().unwrap();

    let lab = testbed.lab().unwrap();
    let dead = first_relay(lab, "hv2");
    let (_, living) = other_than(&dead);
    let ping = lab.spawn_ping("red-far", living, Duration::from_millis(10)).unwrap();
    ping.wait_received(20, DEADLINE).unwrap();
    lab.host(&dead).unwrap().kill_vswitchd().unwrap();
    let before = ping.received();
    ping.wait_received(before + 100, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert!(result.lost() > 0, "the relay that died was not the one in use: {result:?}");
    println!(
        "a relay is silent: {} of {} lost, dark for {:?}",
        result.lost(),
        result.sent,
        result.longest_gap
    );

    lab.host(&dead).unwrap().start_vswitchd().unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    both_answer(testbed.lab().unwrap());
}

/// A session takes a second or two to come up, and until then neither relay answers. Here none ever comes up, since the relays end theirs:
/// the sender's switch keeps to its first relay. No controller runs.
#[test]
fn p5_packets_pass_to_the_first_relay_while_no_session_is_up() {
    let mut testbed = Testbed::start(Settings { hosts: 3, ..settings("no-session") }).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap().replace("\nip:", "\ntransport_zone: rack\nip:");
    let zone = "{kind: transport_zone, id: rack, tunnels: port}\n";
    testbed.apply("zone.yaml", &format!("{zone}{nodes}")).unwrap();
    with_two_relays(&testbed);
    testbed.kill_controller().unwrap();
    let lab = testbed.lab().unwrap();
    for relay in ["hv1", "hv3"] {
        let host = lab.host(relay).unwrap();
        let ports = host.vsctl(&["--bare", "--columns=name", "find", "Interface", "type=geneve"]).unwrap();
        for port in ports.split_whitespace() {
            host.vsctl(&["set", "interface", port, "bfd:enable=false"]).unwrap();
        }
    }
    wait_for("no session at the sender", || {
        let sender = lab.host("hv2").unwrap();
        let states = sender.vsctl(&["--bare", "--columns=bfd_status", "find", "Interface", "type=geneve"]);
        (states.unwrap().matches(" state=down").count() == 2).then_some(())
    });
    both_answer(lab);
}

/// The host that the first bucket of a host's only failover group sends to.
fn first_relay(lab: &Lab, of: &str) -> String {
    let host = lab.host(of).unwrap();
    let groups = host.ofctl(&["-O", "OpenFlow15", "dump-groups", &host.bridge_endpoint("br-int")]).unwrap();
    let failover: Vec<&str> = groups.lines().filter(|line| line.contains("type=ff")).collect();
    let [group] = failover[..] else { panic!("not one failover group:\n{groups}") };
    let bucket = group.split("bucket=").nth(1).unwrap();
    let port = bucket.split("watch_port:").nth(1).unwrap();
    let port: String = port.chars().take_while(|c| !",)".contains(*c)).collect();
    let port = host.vsctl(&["--bare", "--columns=options", "find", "Interface", &format!("ofport={port}")]);
    let options = port.unwrap();
    let leads =
        |other: &Host| options.split_whitespace().any(|option| option == format!("remote_ip={}", other.ip));
    lab.hosts().unwrap().into_iter().find(|other| leads(other)).unwrap().name.clone()
}

const MACHINES: [&str; 7] =
    ["red-one", "red-two", "red-near", "red-far", "red-moves", "blue-one", "blue-far"];

/// The other machines of the tenant of a machine.
fn friends(of: &str) -> BTreeSet<String> {
    let tenant = of.split('-').next();
    let friends = MACHINES.iter().filter(|name| **name != of && name.split('-').next() == tenant);
    friends.map(|name| (*name).to_owned()).collect()
}

/// All machines of a tenant reach each other over the routers, and none of the other tenant, who has the same addresses.
fn tenants_do_not_meet(lab: &Lab) {
    let all = |reach: &BTreeMap<String, Reach>| {
        reach.iter().all(|(from, reach)| friends(from).is_subset(&reach.arrived_at))
    };
    let reach = lab.who_reaches_whom(&MACHINES, all, DEADLINE).unwrap();
    for (from, reach) in reach {
        assert_eq!(reach.arrived_at, friends(&from), "from {from}");
    }
}

/// The numbers of machine `red-one` and of its router, in their MAC addresses.
const SENDER: u8 = 1;
const ITS_ROUTER: u8 = 0xf0;

fn mac(n: u8) -> Mac {
    [2, 0, 0, 0, 0x20, n]
}

/// A datagram from machine `red-one` to one on switch b, in an IP packet of `size` bytes.
fn datagram(to: u8, ipv6: bool, hops: u8, size: usize, mark: &str) -> Vec<u8> {
    let ((src4, src6), (dst4, dst6)) = (addresses("a", 1), addresses("b", to));
    let header = if ipv6 { 48 } else { 28 };
    let mut data = mark.as_bytes().to_vec();
    data.resize(data.len().max(size.saturating_sub(header)), b'.');
    let (router, sender) = (mac(ITS_ROUTER), mac(SENDER));
    if ipv6 {
        let payload = frame_builder::udp(4000, 7, &data, Endpoints::V6(src6, dst6));
        ethernet(router, sender, IPV6, &Ipv6 { hops, ..Ipv6::new(src6, dst6, UDP) }.packet(&payload))
    } else {
        let payload = frame_builder::udp(4000, 7, &data, Endpoints::V4(src4, dst4));
        ethernet(router, sender, IPV4, &Ipv4 { ttl: hops, ..Ipv4::new(src4, dst4, UDP) }.packet(&payload))
    }
}

/// The frames with a mark, and the machines at which they arrived.
fn arrivals(taps: &Taps, mark: &str, copies: usize) -> Vec<(String, Vec<u8>)> {
    let marked = |frame: &[u8]| frame.windows(mark.len()).any(|window| window == mark.as_bytes());
    // An ICMP error of a receiver quotes the datagram, and goes to its sender.
    let sender = mac(SENDER);
    let arrived = taps.collect(|frame| marked(frame) && frame[..6] != sender, copies, DEADLINE).unwrap();
    arrived
        .into_iter()
        .flat_map(|(vm, frames)| frames.into_iter().map(move |frame| (vm.clone(), frame)))
        .collect()
}

/// Waits until the drops of host hv1 whose match has this text have counted so many packets, with an error owed or without.
fn counted(lab: &Lab, what: &str, packets: u64) {
    let host = lab.host("hv1").unwrap();
    let count = |line: &str| line.split("n_packets=").nth(1)?.split(',').next()?.parse::<u64>().ok();
    wait_for(what, || {
        let flows = host.ofctl(&["dump-flows", "br-int"]).unwrap();
        let is_drop = |flow: &str| flow.ends_with("actions=drop") || flow.ends_with("resubmit(,60)");
        let drops = flows.lines().filter(|flow| flow.contains(what) && is_drop(flow));
        let counted: u64 = drops.filter_map(count).sum();
        assert!(counted <= packets, "{what}: {counted} packets dropped, not {packets}");
        (counted == packets).then_some(())
    });
}

/// As traceroute does: packets with a growing TTL. Each router counts what it drops; those that arrive have lost one hop
/// for each router.
fn every_router_counts(lab: &Lab) {
    const MOST: u8 = ROUTERS + 3;
    const TTL: usize = 14 + 8;
    const HOP_LIMIT: usize = 14 + 7;
    for (ipv6, at) in [(false, TTL), (true, HOP_LIMIT)] {
        let taps = lab.all_taps().unwrap();
        for hops in 0..=MOST {
            taps.send("red-one", &datagram(3, ipv6, hops, 0, "weft-trace")).unwrap();
        }
        let arrived = arrivals(&taps, "weft-trace", usize::from(MOST - ROUTERS));
        let mut left: Vec<(&str, u8)> = arrived.iter().map(|(vm, frame)| (vm.as_str(), frame[at])).collect();
        left.sort_unstable();
        assert_eq!(left, [("red-far", 1), ("red-far", 2), ("red-far", 3)], "IPv6: {ipv6}");
        if !ipv6 {
            let sums = arrived.iter().map(|(_, frame)| frame_builder::checksum(&[&frame[14..34]]));
            assert!(sums.into_iter().all(|sum| sum == 0), "the header's checksum follows the TTL");
        }
    }
    counted(lab, "nw_ttl=", 2 * u64::from(ROUTERS + 1));
}

/// Each address of a router answers, near and far, also link-local ones on their own switch.
fn routers_answer_pings(lab: &Lab) {
    let ends =
        [addresses("a", 254), addresses("t", 1), addresses("t", 2), addresses("b", 254), addresses("b", 3)];
    for (ip4, ip6) in ends {
        for ip in [IpAddr::V4(ip4), ip6.into()] {
            lab.wait_ping("red-one", ip, DEADLINE).unwrap();
            let result = lab.ping("red-one", ip, &PingOptions::default()).unwrap();
            assert_eq!((result.lost(), result.duplicates), (0, 0), "{ip}: {result:?}");
        }
    }
    let own_link = ["ping", "-n", "-c", "1", "-W", "20", "fe80::ff:fe00:20f0%eth0"];
    assert!(lab.exec("red-one", &own_link).unwrap().success(), "the link-local address of the router's port");
}

/// Packets up to the MTU pass, larger ones do not, on one host and on two; senders' fragments pass.
fn sizes(testbed: &Testbed) {
    let lab = testbed.lab().unwrap();
    assert_eq!((mtu_of(testbed, "red-a"), mtu_of(testbed, "red-b")), (MTU, MTU));
    let up = ["ip", "link", "set", "eth0", "mtu", &(MTU + 100).to_string()].map(str::to_owned);
    let down = ["ip", "link", "set", "eth0", "mtu", &MTU.to_string()].map(str::to_owned);
    let set = |argv: &[String]| {
        for vm in ["red-one", "red-near", "red-far"] {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            assert!(lab.exec(vm, &argv).unwrap().success(), "{vm}");
        }
    };
    set(&up);
    let taps = lab.all_taps().unwrap();
    for (n, vm) in [(2, "red-near"), (3, "red-far")] {
        for ipv6 in [false, true] {
            let mark = format!("weft-size-{n}-{ipv6}");
            for size in [MTU + 1, MTU] {
                taps.send("red-one", &datagram(n, ipv6, 64, size.into(), &mark)).unwrap();
            }
            let sizes: Vec<(String, usize)> =
                arrivals(&taps, &mark, 1).into_iter().map(|(vm, frame)| (vm, frame.len() - 14)).collect();
            assert_eq!(sizes, [(vm.to_owned(), usize::from(MTU))], "IPv6: {ipv6}");
        }
    }
    drop(taps);
    set(&down);
    let (ip4, ip6) = addresses("b", 3);
    for ip in [IpAddr::V4(ip4), ip6.into()] {
        in_fragments(lab, "red-one", "red-far", ip);
    }
}

/// What is larger than the MTU and goes in fragments that the sender makes arrives.
fn in_fragments(lab: &Lab, from: &str, to: &str, ip: IpAddr) {
    let fragments = PingOptions { size: 20_000, ..PingOptions::default() };
    let result = lab.ping(from, ip, &fragments).unwrap();
    assert_eq!((result.lost(), result.duplicates), (0, 0), "{from} to {ip}: {result:?}");
    let sent = lab.datagrams(from, (to, ip), 10, 3_000).unwrap();
    assert_eq!((sent.received, sent.duplicates, sent.damaged), (10, 0, 0), "{from} to {ip}: {sent:?}");
}

/// A machine behind two routers migrates under a ping and a TCP transfer from another switch.
fn a_machine_moves(testbed: &Testbed) {
    const EVERY: Duration = Duration::from_millis(10);
    const ENOUGH: u64 = 50;
    let lab = testbed.lab().unwrap();
    let ip: IpAddr = addresses("b", 4).0.into();
    let transfer = lab.spawn_transfer("red-one", "red-moves", ip).unwrap();
    transfer.wait_received(100_000, DEADLINE).unwrap();
    // To the sender's own host, which has had no machine of its switch but one, and away from there again.
    for to in ["hv1", "hv2"] {
        let ping = lab.spawn_ping("red-far", addresses("a", 1).0.into(), EVERY).unwrap();
        lab.migrate_vm("red-moves", to, Migration { order: Order::UnplugFirst, gap: Duration::ZERO })
            .unwrap();
        testbed.wait_in_sync().unwrap();
        transfer.wait_received(100_000, DEADLINE).unwrap();
        let others = ping.stop().unwrap();
        assert_eq!(others.duplicates, 0, "{others:?}");
    }
    let (bytes, dark) = transfer.stop().unwrap();
    println!("tcp over two routers: {bytes} bytes, all of them right, dark for {dark:?}");
    let ping = lab.spawn_ping("red-one", ip, EVERY).unwrap();
    ping.wait_received(ENOUGH, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert_eq!((result.lost(), result.duplicates), (0, 0), "{result:?}");
}

/// The address that all machines behind the next hops have.
const SERVICE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const PORT: u16 = 4792;

/// Clients on one switch; on another, machines that all serve one address, each of them a next hop.
fn service(hops: &[u8]) -> String {
    let hops: Vec<String> = hops.iter().map(|n| format!("192.168.30.{n}")).collect();
    let route = format!(
        "{{kind: route, id: out, router: edge, destination: {SERVICE}/32, next_hops: [{}]}}\n---\n",
        hops.join(", ")
    );
    route + SERVICE_NETWORK
}

const SERVICE_NETWORK: &str = "
{kind: switch, id: lan}
---
{kind: switch, id: dmz}
---
{kind: router, id: edge}
---
{kind: router_port, id: edge-lan, router: edge, switch: lan, mac: '02:00:00:00:30:f0', networks: [10.30.0.254/24]}
---
{kind: router_port, id: edge-dmz, router: edge, switch: dmz, mac: '02:00:00:00:30:f1', networks: [192.168.30.254/24]}
---
{kind: switch_port, id: client, switch: lan, addresses: [{mac: '02:00:00:00:30:01', ips: [10.30.0.1]}]}
---
{kind: switch_port, id: m11, switch: dmz, addresses: [{mac: '02:00:00:00:30:0b', ips: [192.168.30.11]}]}
---
{kind: switch_port, id: m12, switch: dmz, addresses: [{mac: '02:00:00:00:30:0c', ips: [192.168.30.12]}]}
---
{kind: switch_port, id: m13, switch: dmz, addresses: [{mac: '02:00:00:00:30:0d', ips: [192.168.30.13]}]}
";

/// A connection of the client, and where it came out.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    hop: usize,
}

impl Connection {
    /// Sends a byte to the server and back.
    fn works(&mut self) -> std::io::Result<()> {
        let mut byte = [7];
        self.client.write_all(&byte)?;
        self.server.read_exact(&mut byte)?;
        self.server.write_all(&byte)?;
        self.client.read_exact(&mut byte)
    }
}

#[test]
fn a_next_hop_that_goes_moves_only_its_own_connections() {
    let testbed = Testbed::start(settings("ecmp-tcp")).unwrap();
    let vm = |name: &str, host: &str, n: u8, ip: &str, gateway: [u8; 4]| {
        VmSpec::new(name, host, name, format!("02:00:00:00:30:{n:02x}"))
            .address(format!("{ip}/24"))
            .gateway(gateway)
    };
    let mut machines = vec![vm("client", "hv1", 1, "10.30.0.1", [10, 30, 0, 254])];
    for (name, host, n) in [("m11", "hv1", 11), ("m12", "hv2", 12), ("m13", "hv2", 13)] {
        let own = vm(name, host, n, &format!("192.168.30.{n}"), [192, 168, 30, 254]);
        machines.push(own.address(format!("{SERVICE}/32")));
    }
    bring_up(&testbed, &service(&[11, 12, 13]), &machines);
    let lab = testbed.lab().unwrap();
    let mut connections = connect(lab, &["m11", "m12", "m13"]);
    let spread = [0, 1, 2].map(|hop| connections.iter().filter(|one| one.hop == hop).count());
    println!("connections by next hop: {spread:?}");

    testbed.apply("fewer.yaml", &service(&[11, 12])).unwrap();
    testbed.wait_in_sync().unwrap();
    let (mut gone, stay): (Vec<Connection>, Vec<Connection>) =
        connections.drain(..).partition(|one| one.hop == 2);
    for mut connection in stay {
        let worked = connection.works();
        assert!(
            worked.is_ok(),
            "a connection by m1{} that has nothing to do with it: {worked:?}",
            connection.hop + 1
        );
    }
    // Those of the hop that is gone come out at others, which know nothing of them.
    for connection in &mut gone {
        connection.client.write_all(&[7]).unwrap();
        let error = connection.client.read_exact(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    // What is new takes one of the hops that are left.
    let hops: Vec<usize> = connect(lab, &["m11", "m12"]).iter().map(|one| one.hop).collect();
    assert!(hops.contains(&0) && hops.contains(&1), "{hops:?}");
}

/// Connects the client to the service until each of the machines has some of the connections.
fn connect(lab: &Lab, servers: &[&str]) -> Vec<Connection> {
    const EACH: usize = 4;
    let address = SocketAddr::new(SERVICE.into(), PORT);
    let listeners: Vec<TcpListener> = servers
        .iter()
        .map(|vm| {
            let listener = lab.inside(vm, || TcpListener::bind(address)).unwrap().unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        })
        .collect();
    let mut connections: Vec<Connection> = Vec::new();
    let start = Instant::now();
    while (0..servers.len()).any(|hop| connections.iter().filter(|one| one.hop == hop).count() < EACH) {
        assert!(start.elapsed() < DEADLINE, "a next hop gets no connections");
        let client =
            lab.inside("client", || TcpStream::connect_timeout(&address, DEADLINE)).unwrap().unwrap();
        let (hop, server) = wait_for("a connection", || {
            let mut accepted = listeners.iter().map(TcpListener::accept).enumerate();
            accepted.find_map(|(hop, accepted)| Some((hop, accepted.ok()?.0)))
        });
        server.set_nonblocking(false).unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.set_nodelay(true).unwrap();
        }
        let mut connection = Connection { client, server, hop };
        connection.works().unwrap();
        connections.push(connection);
    }
    connections
}
