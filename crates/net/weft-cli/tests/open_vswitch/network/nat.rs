//! Addresses that gateways translate: what `docs/reference/nat.md` promises, as machines see it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use lab::{Lab, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::sockets::{next, nothing_came, passes, socket};
use super::support::{ask, bring_up, settings, wait_for};

/// A web shop: `web` serves port 8080, which is 80 outside; `db` has a floating address; both reach the outside, as does `office` by one of four
/// addresses. `ext` is on the physical network, and has no route to the addresses inside.
const NETWORK: &str = "
{kind: switch, id: front, tenant: shop}
---
{kind: switch, id: back, tenant: shop}
---
{kind: switch_port, id: web, switch: front, port_security: true, addresses: [{mac: '02:00:00:00:41:01', ips: [10.41.1.1, 'fd41::1']}]}
---
{kind: switch_port, id: office, switch: front, port_security: true, addresses: [{mac: '02:00:00:00:41:02', ips: [10.41.1.2, 'fd41::2']}]}
---
{kind: switch_port, id: db, switch: back, port_security: true, addresses: [{mac: '02:00:00:00:41:03', ips: [10.41.2.1]}]}
---
{kind: switch, id: outside}
---
{kind: localnet_port, id: outside-dc, switch: outside, physical_network: dc}
---
{kind: router, id: r, tenant: shop}
---
{kind: router_port, id: r-front, router: r, switch: front, mac: '02:00:00:00:41:f1', networks: [10.41.1.254/24, 'fd41::fe/64']}
---
{kind: router_port, id: r-back, router: r, switch: back, mac: '02:00:00:00:41:f2', networks: [10.41.2.254/24]}
---
kind: router_port
id: r-out
router: r
switch: outside
mac: '02:00:00:00:41:f9'
networks: [203.0.113.2/24, '2001:db8::2/64']
gateways: [{node: hv3, priority: 20}, {node: hv4, priority: 10}]
---
{kind: route, id: r-default, router: r, destination: 0.0.0.0/0, next_hops: [203.0.113.1]}
---
{kind: route, id: r-default-6, router: r, destination: '::/0', next_hops: ['2001:db8::1']}
---
{kind: nat, id: snat, router: r, type: snat, external: 203.0.113.2, internal: 10.41.0.0/16}
---
{kind: nat, id: snat-office, router: r, type: snat, external: 203.0.113.16-203.0.113.19, internal: 10.41.1.2}
---
{kind: nat, id: snat-6, router: r, type: snat, external: '2001:db8::10', internal: 'fd41::/64'}
---
{kind: nat, id: http, router: r, type: dnat, external: 203.0.113.2, internal: 10.41.1.1, protocol: tcp, external_port: 80, internal_port: 8080}
---
{kind: nat, id: db-floating, router: r, type: floating, external: 203.0.113.12, internal: 10.41.2.1}
";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(text), port)
}

fn start(test: &str) -> Testbed {
    let testbed =
        Testbed::start(Settings { hosts: 4, physical: vec!["dc".to_owned()], ..settings(test) }).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap();
    let nodes = ["hv3", "hv4"].iter().fold(nodes, |text, node| {
        text.replace(&format!("id: {node}\n"), &format!("id: {node}\nroles: [gateway]\n"))
    });
    testbed.apply("nodes.yaml", &nodes).unwrap();
    let front = |name: &str, host: &str, number: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:41:0{number}"))
            .address(format!("10.41.1.{number}/24"))
            .address(format!("fd41::{number}/64"))
            .gateway(ip("10.41.1.254"))
            .gateway(ip("fd41::fe"))
    };
    let db = VmSpec::new("db", "hv3", "db", "02:00:00:00:41:03")
        .address("10.41.2.1/24")
        .gateway(ip("10.41.2.254"));
    let ext = VmSpec::physical("dc", 0, "ext", "02:00:00:00:41:e1")
        .address("203.0.113.1/24")
        .address("2001:db8::1/64");
    bring_up(&testbed, NETWORK, &[front("web", "hv1", 1), front("office", "hv2", 2), db, ext]);
    let lab = testbed.lab().unwrap();
    for to in ["203.0.113.1", "2001:db8::1"] {
        lab.wait_ping("web", ip(to), DEADLINE).unwrap();
    }
    lab.wait_ping("ext", ip("203.0.113.12"), DEADLINE).unwrap();
    testbed
}

/// A connection to `address` arrives at `listens` of machine `to`, from `source`; 0 stands for any port. Both directions work.
#[track_caller]
fn connects(
    lab: &Lab,
    from: &str,
    address: SocketAddr,
    (to, listens): (&str, SocketAddr),
    source: SocketAddr,
) {
    let listener = lab.inside(to, || TcpListener::bind(listens)).unwrap().unwrap();
    let mut began = lab.inside(from, || TcpStream::connect_timeout(&address, DEADLINE)).unwrap().unwrap();
    let (mut accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), source.ip(), "{from} to {address}");
    assert!(source.port() == 0 || source.port() == peer.port(), "{from} to {address} from {peer}");
    for stream in [&began, &accepted] {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
    }
    passes(&mut began, &mut accepted);
    passes(&mut accepted, &mut began);
}

#[test]
fn a_web_shop_reaches_the_outside_and_is_reached() {
    let testbed = start("nat-shop");
    let lab = testbed.lab().unwrap();
    let outside = at("203.0.113.1", 7000);
    // From inside, with the source of the row that is closest.
    connects(lab, "web", outside, ("ext", outside), at("203.0.113.2", 0));
    connects(lab, "office", outside, ("ext", outside), at("203.0.113.18", 0));
    connects(lab, "db", outside, ("ext", outside), at("203.0.113.12", 0));
    let outside_6 = at("2001:db8::1", 7000);
    connects(lab, "web", outside_6, ("ext", outside_6), at("2001:db8::10", 0));
    // From outside.
    connects(lab, "ext", at("203.0.113.2", 80), ("web", at("10.41.1.1", 8080)), at("203.0.113.1", 0));
    connects(lab, "ext", at("203.0.113.12", 5432), ("db", at("10.41.2.1", 5432)), at("203.0.113.1", 0));
    // From inside by the outside, also a machine to itself.
    connects(lab, "office", at("203.0.113.2", 80), ("web", at("10.41.1.1", 8080)), at("203.0.113.18", 0));
    connects(lab, "web", at("203.0.113.2", 80), ("web", at("10.41.1.1", 8080)), at("203.0.113.2", 0));
    connects(lab, "web", at("203.0.113.12", 5432), ("db", at("10.41.2.1", 5432)), at("203.0.113.2", 0));
    connects(lab, "db", at("203.0.113.12", 5432), ("db", at("10.41.2.1", 5432)), at("203.0.113.12", 0));
}

/// Datagrams keep their port, so that connections survive when another gateway takes over, and only answers come in.
#[test]
fn datagrams_keep_their_ports_and_nothing_else_comes_in() {
    let testbed = start("nat-datagrams");
    let lab = testbed.lab().unwrap();
    let inside = socket(lab, "web", ip("10.41.1.1"), 4000);
    let outside = socket(lab, "ext", ip("203.0.113.1"), 7000);
    let stranger = socket(lab, "ext", ip("203.0.113.1"), 7001);
    // A datagram may be lost, for instance while the gateways of a busy machine take over from each other.
    let answer = wait_for("an answer", || {
        // Two of them before there is an answer.
        for _ in 0..2 {
            inside.send_to(b"ask", at("203.0.113.1", 7000)).unwrap();
        }
        let asked = next(&outside)?;
        assert_eq!(asked, b"ask");
        outside.send_to(b"answer", at("203.0.113.2", 4000)).unwrap();
        next(&inside)
    });
    assert_eq!(answer, b"answer");
    lab.drain().unwrap();
    while let Some(answer) = next(&inside) {
        assert_eq!(answer, b"answer");
    }
    stranger.send_to(b"guess", at("203.0.113.2", 4000)).unwrap();
    nothing_came(lab, &inside);
    // Nobody listens: the error comes back to the one who asked.
    drop(outside);
    closed(&inside, at("203.0.113.1", 7000));
    let asks = socket(lab, "ext", ip("203.0.113.1"), 7002);
    closed(&asks, at("203.0.113.12", 9));
}

/// Who sends to the address hears that its port is closed.
#[track_caller]
fn closed(socket: &UdpSocket, to: SocketAddr) {
    socket.connect(to).unwrap();
    let what = format!("the error about {to}");
    wait_for(&what, || {
        // The kernel says it at the next call.
        let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        socket.send(b"?").is_err_and(refused).then_some(())
    });
}

/// Connections with a kept port go on by the next gateway.
#[test]
fn a_connection_survives_the_gateway() {
    let testbed = start("nat-failover");
    let lab = testbed.lab().unwrap();
    let outside = at("203.0.113.1", 7000);
    let listener = lab.inside("ext", || TcpListener::bind(outside)).unwrap().unwrap();
    let mut began = lab.inside("web", || TcpStream::connect_timeout(&outside, DEADLINE)).unwrap().unwrap();
    let mut accepted = listener.accept().unwrap().0;
    passes(&mut began, &mut accepted);
    lab.host("hv3").unwrap().kill_vswitchd().unwrap();
    for stream in [&began, &accepted] {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
    }
    began.write_all(b"still there?").unwrap();
    let mut heard = [0; 12];
    accepted.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still there?");
    passes(&mut accepted, &mut began);
    let listed = ask(&testbed, &["get", "nat"]);
    assert!(listed.contains("snat-office"), "{listed}");
}
