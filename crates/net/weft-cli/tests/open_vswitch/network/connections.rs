//! ACLs that keep connections, with real stacks: what opens, what an edit cuts and what it leaves alone, fragments, ICMP errors, and
//! what becomes of connections whose port goes or moves.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Lab, Migration, Order, PingOptions, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::sockets::{Talk, came, cannot_connect, connect, during, is_silent, nothing_came, passes, socket};
use super::support::{ask, bring_up, settings, wait_for};

/// Ports that the server's ACLs allow: somebody listens at the first, nobody at the second.
const SERVED: u16 = 7000;
const CLOSED: u16 = 7001;
/// A port that no ACL allows.
const FORBIDDEN: u16 = 7100;
/// Ports of the client.
const ASKER: u16 = 9000;
const OTHER_ASKER: u16 = 9001;

/// After a confirmed edit, what it forbids may pass for this long, while caches follow.
const CUT_WITHIN: Duration = Duration::from_secs(1);

/// A datapath has fewer flows in its cache than this, however many connections it sees.
const CACHED: usize = 200;

/// One switch that drops what no ACL allows. The client may begin what it wants, the server nothing.
const NETWORK: &str = "
{kind: switch, id: red, acl_default: drop}
---
{kind: switch_port, id: client, switch: red, addresses: [{mac: '02:00:00:00:0f:01', ips: [10.15.0.1, 'fd15::1']}], port_security: true}
---
{kind: switch_port, id: server, switch: red, addresses: [{mac: '02:00:00:00:0f:02', ips: [10.15.0.2, 'fd15::2']}], port_security: true}
---
{kind: acl, id: client-sends, port: client, direction: from_port, priority: 100, action: allow_related}
---
{kind: acl, id: server-tcp, port: server, direction: to_port, priority: 100, match: {ip_proto: tcp, tp_dst: 7000-7001}, action: allow_related}
---
{kind: acl, id: server-udp, port: server, direction: to_port, priority: 100, match: {ip_proto: udp, tp_dst: 7000-7001}, action: allow_related}
";

/// The server may begin what it wants, too.
const SERVER_SENDS: &str =
    "{kind: acl, id: server-sends, port: server, direction: from_port, priority: 100, action: allow_related}";

fn v4(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 15, 0, n).into()
}

fn v6(n: u8) -> IpAddr {
    Ipv6Addr::new(0xfd15, 0, 0, 0, 0, 0, 0, n.into()).into()
}

/// A machine at a port of the network; `n` is in its addresses.
fn machine(name: &str, host: &str, n: u8) -> VmSpec {
    VmSpec::new(name, host, name, format!("02:00:00:00:0f:{n:02x}"))
        .address(format!("10.15.0.{n}/24"))
        .address(format!("fd15::{n}/64"))
}

/// The network with the client on hv1 and the server on hv2.
fn start(settings: Settings) -> Testbed {
    let testbed = Testbed::start(settings).unwrap();
    bring_up(&testbed, NETWORK, &[machine("client", "hv1", 1), machine("server", "hv2", 2)]);
    testbed
}

/// `weft apply --wait`.
fn apply(testbed: &Testbed, objects: &str) {
    let file = testbed.folder().join("edit.yaml");
    std::fs::write(&file, objects).unwrap();
    ask(testbed, &["apply", "--wait", "-f", file.to_str().unwrap()]);
}

/// The same, and what the datapaths have cached follows at once.
fn apply_now(testbed: &Testbed, objects: &str) {
    apply(testbed, objects);
    testbed.lab().unwrap().flush_datapaths().unwrap();
}

fn delete(testbed: &Testbed, kind: &str, id: &str) {
    ask(testbed, &["delete", kind, id, "--wait"]);
}

#[test]
fn streams_open_in_the_allowed_direction_and_errors_come_back() {
    let testbed = start(settings("streams"));
    let lab = testbed.lab().unwrap();
    for ip in [v4, v6] {
        let [mut asker, mut server] = connect(lab, "client", ("server", SocketAddr::new(ip(2), SERVED)));
        passes(&mut asker, &mut server);
        passes(&mut server, &mut asker);
        cannot_connect(lab, "client", ("server", SocketAddr::new(ip(2), FORBIDDEN)));
        cannot_connect(lab, "server", ("client", SocketAddr::new(ip(1), SERVED)));
        passes(&mut asker, &mut server);
        errors_come_back(lab, ip);
    }
    let server = socket(lab, "server", v4(2), SERVED);
    replies_need_a_request(lab, &server, ASKER);
    // The server's own ACLs let them pass now, the client's do not.
    apply_now(&testbed, SERVER_SENDS);
    replies_need_a_request(lab, &server, OTHER_ASKER);
    for ip in [v4, v6] {
        cannot_connect(lab, "server", ("client", SocketAddr::new(ip(1), SERVED)));
    }
}

/// A datagram to a port where nobody listens is refused, and its sender hears so; one that ACLs drop is not.
fn errors_come_back(lab: &Lab, ip: fn(u8) -> IpAddr) {
    let asker = socket(lab, "client", ip(1), 0);
    asker.connect((ip(2), CLOSED)).unwrap();
    wait_for("an ICMP error about a datagram", || {
        let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        (asker.send(b"?").is_err_and(refused) || asker.recv(&mut [0]).is_err_and(refused)).then_some(())
    });
    let asker = socket(lab, "client", ip(1), 0);
    asker.connect((ip(2), FORBIDDEN)).unwrap();
    asker.send(b"?").unwrap();
    nothing_came(lab, &asker);
}

/// What would be a reply does not arrive before the request, and does after it.
fn replies_need_a_request(lab: &Lab, server: &UdpSocket, port: u16) {
    let asker = socket(lab, "client", v4(1), port);
    let whom = asker.local_addr().unwrap();
    server.send_to(b"stray", whom).unwrap();
    nothing_came(lab, &asker);
    asker.send_to(b"request", server.local_addr().unwrap()).unwrap();
    assert_eq!(came(server), b"request");
    server.send_to(b"reply", whom).unwrap();
    assert_eq!(came(&asker), b"reply");
}

/// The same ACL in other words, by turns: the words differ, the ACL that says them, and its place among the others.
fn other_words(turn: usize) -> String {
    let (priority, ports) = [(100, "7000-7001"), (200, "6990-7009"), (100, "7000-7000")][turn % 3];
    let network = NETWORK.replace("server-udp", &format!("server-udp-{}", turn % 2));
    network.replace(
        "priority: 100, match: {ip_proto: udp, tp_dst: 7000-7001}",
        &format!("priority: {priority}, match: {{ip_proto: udp, tp_dst: {ports}}}"),
    )
}

#[test]
fn an_edit_that_does_not_forbid_leaves_streams_alone() {
    const EDITS: usize = 12;
    let testbed = start(settings("edits"));
    let lab = testbed.lab().unwrap();
    let nodes = testbed.hosts_as_objects().unwrap();
    let mut talk = Talk::new(lab, ("client", v4(1), ASKER), ("server", v4(2), SERVED));
    let mut forbidden = Talk::new(lab, ("client", v4(1), OTHER_ASKER), ("server", v4(2), FORBIDDEN));
    let [mut asker, mut server] = connect(lab, "client", ("server", SocketAddr::new(v4(2), SERVED)));
    talk.begin();
    during(&mut [(&mut talk, &[0, 1]), (&mut forbidden, &[0, 1])], || {
        for turn in 0..EDITS {
            // The file replaces one ACL by another: the former is deleted in the same transaction.
            let file = testbed.folder().join("other-words.yaml");
            std::fs::write(&file, format!("{}\n---\n{nodes}", other_words(turn))).unwrap();
            ask(&testbed, &["apply", "--prune", "--yes", "--wait", "-f", file.to_str().unwrap()]);
            passes(&mut asker, &mut server);
            passes(&mut server, &mut asker);
        }
    });
    lab.drain().unwrap();
    let lost = talk.lost();
    println!("{EDITS} edits under {:?} datagrams", talk.sent);
    assert_eq!(lost, [const { Vec::<u32>::new() }; 2], "of {:?}", talk.sent);
    assert_eq!(forbidden.heard_count(), [0, 0], "of {:?}", forbidden.sent);
}

#[test]
fn an_edit_that_forbids_cuts_streams_and_replies_alone() {
    let testbed = start(settings("cuts"));
    let lab = testbed.lab().unwrap();
    let [mut asker, mut server] = connect(lab, "client", ("server", SocketAddr::new(v4(2), SERVED)));
    passes(&mut asker, &mut server);
    let cut = |port: &str, direction: &str| {
        format!("{{kind: acl, id: cut, port: {port}, direction: {direction}, priority: 200, action: drop}}")
    };
    // By an ACL of the receiver and by one of the sender; both directions, and the replies alone.
    let (at_server, at_client) = (cut("server", "to_port"), cut("client", "from_port"));
    let cases: [(&str, &[usize], u16); 4] = [
        (&at_server, &[0, 1], ASKER),
        (&at_server, &[1], OTHER_ASKER),
        (&at_client, &[1], ASKER),
        (&at_client, &[0, 1], OTHER_ASKER),
    ];
    for (edit, who, port) in cases {
        let mut talk = Talk::new(lab, ("client", v4(1), port), ("server", v4(2), SERVED));
        talk.begin();
        let mut confirmed = None;
        during(&mut [(&mut talk, who)], || {
            apply(&testbed, edit);
            confirmed = Some(Instant::now());
        });
        talk.is_cut(lab, who, confirmed.unwrap() + CUT_WITHIN);
        // The TCP stream is cut in both directions, too, and goes on when it may again.
        asker.write_all(b"a").unwrap();
        is_silent(lab, &mut server);
        server.write_all(b"s").unwrap();
        is_silent(lab, &mut asker);
        delete(&testbed, "acl", "cut");
        let mut heard = [0; 2];
        server.read_exact(&mut heard[..1]).unwrap();
        asker.read_exact(&mut heard[1..]).unwrap();
        assert_eq!(&heard, b"as");
        lab.flush_datapaths().unwrap();
        talk.begin();
    }
    passes(&mut asker, &mut server);
    passes(&mut server, &mut asker);
}

#[test]
fn fragments_share_the_fate_of_their_datagram() {
    let testbed = start(settings("fragments"));
    let lab = testbed.lab().unwrap();
    let echo = |port: &str, n: u8, proto: &str, kind: u8| {
        format!(
            "{{kind: acl, id: {port}-echo-{n}, port: {port}, direction: to_port, priority: 100, \
             match: {{ip_proto: {proto}, icmp_type: {kind}}}, action: allow_related}}"
        )
    };
    let echoes = ["client", "server"].map(|port| [echo(port, 4, "icmp", 8), echo(port, 6, "icmp6", 128)]);
    apply_now(&testbed, &[echoes.concat(), vec![SERVER_SENDS.to_owned()]].concat().join("\n---\n"));
    let large = PingOptions { size: 3_000, ..PingOptions::default() };
    for (from, to) in [("client", 2), ("server", 1)] {
        for ip in [v4(to), v6(to)] {
            lab.wait_ping(from, ip, DEADLINE).unwrap();
            let result = lab.ping(from, ip, &large).unwrap();
            assert_eq!((result.lost(), result.duplicates), (0, 0), "{from} to {ip}: {result:?}");
        }
    }
    let datagram: Vec<u8> = (0..4_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    for ip in [v4, v6] {
        let [asker, served, forbidden] =
            [("client", ip(1), ASKER), ("server", ip(2), SERVED), ("server", ip(2), FORBIDDEN)]
                .map(|(vm, ip, port)| socket(lab, vm, ip, port));
        for _ in 0..3 {
            asker.send_to(&datagram, (ip(2), FORBIDDEN)).unwrap();
            nothing_came(lab, &forbidden);
            asker.send_to(&datagram, (ip(2), SERVED)).unwrap();
            assert!(came(&served) == datagram);
            served.send_to(&datagram, (ip(1), ASKER)).unwrap();
            assert!(came(&asker) == datagram);
        }
    }
    for to in [v4(2), v6(2)] {
        let result = lab.ping("client", to, &large).unwrap();
        assert_eq!((result.lost(), result.duplicates), (0, 0), "{to}: {result:?}");
    }
}

/// The connections of a host in its switch: zone and the text that Open vSwitch prints.
fn connections(lab: &Lab, host: &str) -> Vec<(u16, String)> {
    let text = lab.host(host).unwrap().appctl(&["dpctl/dump-conntrack"]).unwrap();
    let zone = |line: &str| -> Option<u16> {
        line.split(',').find_map(|field| field.strip_prefix("zone="))?.parse().ok()
    };
    text.lines().filter_map(|line| Some((zone(line)?, line.to_owned()))).collect()
}

/// The rules, but each host has one zone alone. Numbers are given again as late as possible: of 65,535, that would take long.
fn rules_with_one_zone(folder: &Path) -> PathBuf {
    let (rules, own) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules"), folder.join("rules"));
    assert!(Command::new("cp").arg("-r").arg(rules).arg(&own).status().unwrap().success());
    let file = own.join("physical/conntrack_zones.nlog");
    let text = std::fs::read_to_string(&file).unwrap();
    let fewer = text.replace("first: 1, last: 0xffff", "first: 1, last: 1");
    assert_ne!(fewer, text);
    std::fs::write(file, fewer).unwrap();
    own
}

#[test]
fn the_next_port_with_a_zone_knows_no_connection_of_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![rules_with_one_zone(folder.path())];
    let testbed = start(Settings { rules, ..settings("zones") });
    let lab = testbed.lab().unwrap();
    let mut talk = Talk::new(lab, ("client", v4(1), ASKER), ("server", v4(2), SERVED));
    talk.begin();
    let of_udp = |line: &str| line.starts_with("udp,") && line.contains(&format!("sport={ASKER}"));
    let known = || connections(lab, "hv2").into_iter().filter(|(_, line)| of_udp(line)).collect::<Vec<_>>();
    let [(zone, _)] = known()[..] else { panic!("{:?}", known()) };

    // The port goes, and with it its ACLs. Another one gets its addresses, so it could use its connections.
    drop(talk);
    lab.remove_vm("server").unwrap();
    let former = NETWORK.split("---\n").filter(|object| object.contains("server")).collect::<Vec<_>>();
    let file = testbed.folder().join("former.yaml");
    std::fs::write(&file, former.join("---\n")).unwrap();
    ask(&testbed, &["delete", "--wait", "-f", file.to_str().unwrap()]);
    let next = former.iter().map(|object| object.replace("server", "next")).collect::<Vec<_>>();
    apply(&testbed, &next.join("---\n"));
    lab.add_vms(&[machine("next", "hv2", 2)]).unwrap();
    testbed.wait_in_sync().unwrap();

    // The client's host still knows the connection, so only the zone of the next port decides.
    let [asker, next] =
        [("client", v4(1), ASKER), ("next", v4(2), SERVED)].map(|(vm, ip, port)| socket(lab, vm, ip, port));
    next.send_to(b"stray", (v4(1), ASKER)).unwrap();
    nothing_came(lab, &asker);
    assert!(known().is_empty(), "{:?}", known());
    asker.send_to(b"request", (v4(2), SERVED)).unwrap();
    assert_eq!(came(&next), b"request");
    let [(reused, _)] = known()[..] else { panic!("{:?}", known()) };
    assert_eq!(reused, zone);
    next.send_to(b"reply", (v4(1), ASKER)).unwrap();
    assert_eq!(came(&asker), b"reply");
}

/// The new host does not know the connection. What the client sends begins it there again; until then, the server may only send what
/// it may begin.
#[test]
fn a_connection_of_a_port_that_moves_goes_on_when_the_first_direction_speaks() {
    let testbed = start(Settings { hosts: 3, ..settings("moves") });
    let lab = testbed.lab().unwrap();
    let [mut asker, mut server] = connect(lab, "client", ("server", SocketAddr::new(v4(2), SERVED)));
    passes(&mut asker, &mut server);
    let move_to = |host: &str| {
        lab.migrate_vm("server", host, Migration { order: Order::UnplugFirst, ..Migration::default() })
            .unwrap();
        testbed.wait_in_sync().unwrap();
    };

    move_to("hv3");
    server.write_all(b"s").unwrap();
    is_silent(lab, &mut asker);
    asker.write_all(b"a").unwrap();
    let mut heard = [0; 2];
    server.read_exact(&mut heard[..1]).unwrap();
    asker.read_exact(&mut heard[1..]).unwrap();
    assert_eq!(&heard, b"as");
    passes(&mut asker, &mut server);
    passes(&mut server, &mut asker);

    // A server that may send goes on by itself, and the connection counts as its own: what the client may send is not asked any more.
    apply_now(&testbed, SERVER_SENDS);
    move_to("hv2");
    server.write_all(b"s").unwrap();
    asker.read_exact(&mut heard[..1]).unwrap();
    passes(&mut asker, &mut server);
    passes(&mut server, &mut asker);
}

/// A number from the environment, for longer runs than in the tests.
fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Connections of one thread, one after the other: each carries a byte both ways and is closed, the server's end first.
fn open_and_close(lab: &Lab, ports: std::ops::Range<u16>, count: usize) {
    let addresses: Vec<SocketAddr> = ports.map(|port| SocketAddr::new(v4(2), port)).collect();
    let bind = || addresses.iter().map(TcpListener::bind).collect::<Result<Vec<_>, _>>();
    let listeners = lab.inside("server", bind).unwrap().unwrap();
    let connect = |at: usize| -> std::io::Result<()> {
        let which = at % listeners.len();
        let mut asker = TcpStream::connect_timeout(&addresses[which], DEADLINE)?;
        let (mut server, _) = listeners[which].accept()?;
        let mut byte = [at as u8];
        asker.write_all(&byte)?;
        server.read_exact(&mut byte)?;
        server.write_all(&byte)?;
        drop(server);
        asker.read_exact(&mut byte)?;
        assert_eq!((byte, asker.read(&mut byte)?), ([at as u8], 0));
        Ok(())
    };
    lab.inside("client", || (0..count).try_for_each(connect)).unwrap().unwrap();
}

/// `WEFT_CONNECTIONS=1000000` for the full number.
#[test]
fn many_connections_open_and_close() {
    const THREADS: u16 = 4;
    /// More ports than one, so that the client's ports suffice for those that it has just used.
    const PORTS: u16 = 16;
    const FIRST_PORT: u16 = 8000;
    let all = setting("WEFT_CONNECTIONS", 2_000);
    let testbed = start(settings("many"));
    let lab = testbed.lab().unwrap();
    let (first, last) = (FIRST_PORT, FIRST_PORT + THREADS * PORTS - 1);
    let many = format!(
        "{{kind: acl, id: server-many, port: server, direction: to_port, priority: 100, \
         match: {{ip_proto: tcp, tp_dst: {first}-{last}}}, action: allow_related}}"
    );
    apply_now(&testbed, &many);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let from = FIRST_PORT + thread * PORTS;
            scope.spawn(move || open_and_close(lab, from..from + PORTS, all.div_ceil(THREADS.into())));
        }
    });
    let took = start.elapsed();
    for name in ["hv1", "hv2"] {
        let host = lab.host(name).unwrap();
        let ask = |what: &str| host.appctl(&[what]).unwrap().trim().to_owned();
        let cached = ask("dpctl/dump-flows").lines().count();
        let memory =
            std::fs::read_to_string(format!("/proc/{}/status", host.vswitchd_pid().unwrap())).unwrap();
        let memory = memory.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default().to_owned();
        println!(
            "{all} connections in {took:?}; {name}: {} known of at most {}, {cached} cached flows, {memory}",
            ask("dpctl/ct-get-nconns"),
            ask("dpctl/ct-get-maxconns"),
        );
        // One flow of the datapath serves all connections of a kind.
        assert!(cached < CACHED, "{name}: {}", ask("dpctl/dump-flows"));
    }
}

/// The other tenant has a machine with the address of the server, and its switch drops what no ACL allows.
const OTHER_TENANT: &str = "
{kind: switch, id: violet, tenant: umbrella, acl_default: drop}
---
{kind: switch_port, id: spy, switch: violet, addresses: [{mac: '02:00:00:00:0f:02', ips: [10.15.0.2, 'fd15::2']}], port_security: true}
---
{kind: acl, id: spy-sends, port: spy, direction: from_port, priority: 100, action: allow}
---
{kind: acl, id: spy-takes, port: spy, direction: to_port, priority: 100, action: allow}
";

#[test]
fn p2_a_port_that_moves_to_another_tenant_takes_no_connection_along() {
    let testbed = start(settings("tenants"));
    let lab = testbed.lab().unwrap();
    let [asker, server] =
        [("client", 1, ASKER), ("server", 2, SERVED)].map(|(vm, n, port)| socket(lab, vm, v4(n), port));
    asker.send_to(b"request", (v4(2), SERVED)).unwrap();
    assert_eq!(came(&server), b"request");
    server.send_to(b"reply", (v4(1), ASKER)).unwrap();
    assert_eq!(came(&asker), b"reply");

    let client = NETWORK.split("---\n").find(|object| object.contains("id: client,")).unwrap();
    let moved = client.replace("switch: red", "switch: violet");
    assert_ne!(moved, client);
    apply(&testbed, &format!("{OTHER_TENANT}---\n{moved}"));
    lab.add_vms(&[machine("spy", "hv1", 2)]).unwrap();
    testbed.wait_in_sync().unwrap();

    // What would be a further reply in the old switch is a first packet here, which no ACL of the client allows.
    let spy = socket(lab, "spy", v4(2), SERVED);
    spy.send_to(b"stray", (v4(1), ASKER)).unwrap();
    nothing_came(lab, &asker);
    asker.send_to(b"request", (v4(2), SERVED)).unwrap();
    assert_eq!(came(&spy), b"request");
    spy.send_to(b"reply", (v4(1), ASKER)).unwrap();
    assert_eq!(came(&asker), b"reply");
}
