//! What routers answer that flows cannot build, as the stacks of machines see it: rules, flows, responders and kernels together.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use lab::{Lab, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

/// The MTU of every switch here: geneve over IPv4 on an underlay of 1500 bytes.
const MTU: u16 = 1442;

/// Switch a, router near, switch t, router far, switch b. Machines do not know the MTU.
const NETWORK: &str = "
{kind: switch, id: a}
---
{kind: switch, id: t}
---
{kind: switch, id: b}
---
{kind: switch_port, id: one, switch: a, port_security: true, addresses: [{mac: '02:00:00:00:30:01', ips: [10.30.1.1, 'fd30:1::1']}]}
---
{kind: switch_port, id: two, switch: b, port_security: true, addresses: [{mac: '02:00:00:00:30:02', ips: [10.30.2.1, 'fd30:2::1']}]}
---
{kind: router, id: near}
---
{kind: router_port, id: near-a, router: near, switch: a, mac: '02:00:00:00:30:f1', networks: [10.30.1.254/24, 'fd30:1::fe/64']}
---
{kind: router_port, id: near-t, router: near, switch: t, mac: '02:00:00:00:30:f2', networks: [10.30.3.1/24, 'fd30:3::1/64']}
---
{kind: router, id: far}
---
{kind: router_port, id: far-t, router: far, switch: t, mac: '02:00:00:00:30:f3', networks: [10.30.3.2/24, 'fd30:3::2/64']}
---
{kind: router_port, id: far-b, router: far, switch: b, mac: '02:00:00:00:30:f4', networks: [10.30.2.254/24, 'fd30:2::fe/64']}
---
{kind: route, id: there-4, router: near, destination: 10.30.2.0/24, next_hops: [10.30.3.2]}
---
{kind: route, id: there-6, router: near, destination: 'fd30:2::/64', next_hops: ['fd30:3::2']}
---
{kind: route, id: back-4, router: far, destination: 10.30.1.0/24, next_hops: [10.30.3.1]}
---
{kind: route, id: back-6, router: far, destination: 'fd30:1::/64', next_hops: ['fd30:3::1']}
---
{kind: route, id: nowhere-4, router: near, destination: 198.51.100.0/24, next_hops: [10.30.3.9]}
---
{kind: route, id: nowhere-6, router: near, destination: '2001:db8:9::/64', next_hops: ['fd30:3::9']}
---
{kind: route, id: discarded, router: near, destination: 203.0.113.0/24, discard: true}
";

fn start(name: &str) -> Testbed {
    start_with(name, NETWORK)
}

fn start_with(name: &str, network: &str) -> Testbed {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings(name) }).unwrap();
    let machine = |name: &str, host: &str, n: u8| {
        let mut vm = VmSpec::new(name, host, name, format!("02:00:00:00:30:0{n}"))
            .address(format!("10.30.{n}.1/24"))
            .address(format!("fd30:{n}::1/64"))
            .gateway(format!("10.30.{n}.254").parse::<IpAddr>().unwrap())
            .gateway(format!("fd30:{n}::fe").parse::<IpAddr>().unwrap());
        vm.mtu = Some(1500);
        vm
    };
    bring_up(&testbed, network, &[machine("one", "hv1", 1), machine("two", "hv2", 2)]);
    testbed
}

/// What a single ping from machine `one` says. It ends with the first answer of any kind.
fn ping(lab: &Lab, words: &[&str]) -> String {
    let said = lab.exec("one", &[&["ping", "-n", "-c", "1", "-W", "30"], words].concat()).unwrap();
    said.stdout + &said.stderr
}

#[test]
fn each_router_on_the_way_says_that_the_hops_have_ended() {
    let testbed = start("traceroute");
    let lab = testbed.lab().unwrap();
    for (to, hops) in
        [("10.30.2.1", ["10.30.1.254", "10.30.3.2"]), ("fd30:2::1", ["fd30:1::fe", "fd30:3::2"])]
    {
        for (ttl, router) in ["1", "2"].into_iter().zip(hops) {
            let said = ping(lab, &["-t", ttl, to]);
            assert!(said.contains(&format!("From {router}")) && said.contains("exceeded"), "{said}");
        }
        let said = ping(lab, &["-t", "3", to]);
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

#[test]
fn a_sender_learns_that_its_destination_is_not_there() {
    let testbed = start("unreached");
    let lab = testbed.lab().unwrap();
    for (to, from, why) in [
        // No route.
        ("192.0.2.1", "10.30.1.254", "Destination Net Unreachable"),
        ("2001:db8::1", "fd30:1::fe", "No route"),
        // A next hop that nobody has.
        ("198.51.100.1", "10.30.1.254", "Destination Host Unreachable"),
        ("2001:db8:9::1", "fd30:1::fe", "Address unreachable"),
        // An address that nobody has, behind one router and behind two.
        ("10.30.3.77", "10.30.1.254", "Destination Host Unreachable"),
        ("10.30.2.77", "10.30.3.2", "Destination Host Unreachable"),
        ("fd30:2::77", "fd30:3::2", "Address unreachable"),
    ] {
        let said = ping(lab, &[to]);
        assert!(said.contains(&format!("From {from}")) && said.contains(why), "{to}: {said}");
    }
    let discarded = lab.exec("one", &["ping", "-n", "-c", "1", "-W", "1", "203.0.113.1"]).unwrap().stdout;
    assert!(discarded.contains("100% packet loss") && !discarded.contains("From"), "{discarded}");
}

#[test]
fn a_router_refuses_what_it_does_not_offer() {
    let testbed = start("refused");
    let lab = testbed.lab().unwrap();
    for router in ["10.30.1.254:22", "10.30.3.2:22", "[fd30:1::fe]:22", "[fd30:2::fe]:22"] {
        let router: SocketAddr = router.parse().unwrap();
        let connected = lab.inside("one", || TcpStream::connect_timeout(&router, DEADLINE)).unwrap();
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{router}");
        let asked = lab.inside("one", || {
            let socket = UdpSocket::bind(if router.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(router)?;
            socket.set_read_timeout(Some(DEADLINE))?;
            socket.send(b"anybody?")?;
            socket.recv(&mut [0; 8])
        });
        assert_eq!(asked.unwrap().unwrap_err().kind(), ErrorKind::ConnectionRefused, "{router}");
    }
}

/// Nothing may begin a connection to machine `one`. What is about its own connections passes.
#[test]
fn errors_pass_stateful_acls_of_the_connection_that_they_are_about() {
    let filtered = NETWORK.replace("{kind: switch, id: a}", "{kind: switch, id: a, acl_default: drop}")
        + "---\n{kind: acl, id: out, switch: a, direction: from_port, priority: 100, action: allow_related}\n";
    let testbed = start_with("related", &filtered);
    let lab = testbed.lab().unwrap();
    for (to, from) in [("10.30.2.1", "10.30.1.254"), ("fd30:2::1", "fd30:1::fe")] {
        let said = ping(lab, &["-t", "1", to]);
        assert!(said.contains(&format!("From {from}")) && said.contains("exceeded"), "{said}");
    }
    let router: SocketAddr = "10.30.1.254:22".parse().unwrap();
    let connected = lab.inside("one", || TcpStream::connect_timeout(&router, DEADLINE)).unwrap();
    assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Machine `two` rejects what comes to it, and what it sends to port 81.
#[test]
fn acls_reject_at_once() {
    let rejecting = NETWORK.to_owned()
        + "---\n{kind: acl, id: in, port: two, direction: to_port, priority: 100, action: reject}
---\n{kind: acl, id: pings, port: two, direction: to_port, priority: 200, match: {ip_proto: icmp}, action: allow}
---\n{kind: acl, id: out, port: two, direction: from_port, priority: 100, match: {tp_dst: 81, ip_proto: tcp}, action: reject}\n";
    let testbed = start_with("rejects", &rejecting);
    let lab = testbed.lab().unwrap();
    for to in ["10.30.2.1:80", "[fd30:2::1]:80"] {
        let to: SocketAddr = to.parse().unwrap();
        let connected = lab.inside("one", || TcpStream::connect_timeout(&to, DEADLINE)).unwrap();
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{to}");
        let asked = lab.inside("one", || {
            let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(DEADLINE))?;
            socket.send(b"anybody?")?;
            socket.recv(&mut [0; 8])
        });
        // Administratively prohibited.
        let kind = asked.unwrap().unwrap_err().kind();
        assert!([ErrorKind::HostUnreachable, ErrorKind::PermissionDenied].contains(&kind), "{to}: {kind}");
    }
    for to in ["10.30.1.1:81", "[fd30:1::1]:81"] {
        let to: SocketAddr = to.parse().unwrap();
        let connected = lab.inside("two", || TcpStream::connect_timeout(&to, DEADLINE)).unwrap();
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{to}");
    }
    assert!(ping(lab, &["10.30.2.1"]).contains(" 0% packet loss"));
}

/// The machines take 1500 bytes for the MTU of the path. Without the errors, the first full segment would be lost again and again.
#[test]
fn a_connection_finds_the_mtu_of_its_path() {
    let testbed = start("path-mtu");
    let lab = testbed.lab().unwrap();
    for (to, version) in [("10.30.2.1", "-4"), ("fd30:2::1", "-6")] {
        let at = SocketAddr::new(to.parse().unwrap(), 5000);
        let listener = lab.inside("two", || TcpListener::bind(at)).unwrap().unwrap();
        let sent = vec![7_u8; 1 << 20];
        let stream = lab.inside("one", || TcpStream::connect_timeout(&at, DEADLINE)).unwrap().unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let received = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                received
            });
            (&stream).write_all(&sent).unwrap();
            drop(stream);
            receiving.join().unwrap()
        });
        assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
        let route = lab.exec("one", &["ip", version, "route", "get", to]).unwrap().stdout;
        assert!(route.contains(&format!("mtu {MTU}")), "{route}");
    }
}

/// A third machine, on the host of the first.
const NEIGHBOUR: &str = "
{kind: switch_port, id: three, switch: a, port_security: true, addresses: [{mac: '02:00:00:00:30:03', ips: [10.30.1.3]}]}
";

/// Sends packets whose TTL expires at the first router, as fast as possible, until told to stop.
fn flood(lab: &Lab, from: &str, stop: &AtomicBool) {
    let socket = lab.inside(from, || UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    socket.set_ttl(1).unwrap();
    while !stop.load(Ordering::Relaxed) {
        // Errors come back to the socket, and a full queue is no reason to stop.
        let _ = socket.send_to(b"flood", "10.30.2.1:9");
    }
}

/// How many of 20 pings, five a second, were answered with an error of the router.
fn errors(lab: &Lab, from: &str) -> usize {
    let words = ["ping", "-n", "-c", "20", "-i", "0.2", "-W", "5", "-t", "1", "10.30.2.1"];
    lab.exec(from, &words).unwrap().stdout.matches("exceeded").count()
}

/// `WEFT_TEST_KILLS` says how often responders are killed and started meanwhile.
#[test]
fn a_machine_that_floods_takes_no_share_of_another() {
    let kills = std::env::var("WEFT_TEST_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut testbed = start_with("flooded", &format!("{NETWORK}---{NEIGHBOUR}"));
    let three = VmSpec::new("three", "hv1", "three", "02:00:00:00:30:03")
        .address("10.30.1.3/24")
        .gateway("10.30.1.254".parse::<IpAddr>().unwrap());
    testbed.lab().unwrap().add_vm(&three).unwrap();
    testbed.wait_in_sync().unwrap();
    let dropped = |testbed: &Testbed, port: &str| -> u64 {
        let said = ask(testbed, &["get", "request-drops", port, "--json"]);
        let of_errors = said.lines().find(|line| line.contains(r#""request":"error""#)).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(of_errors).unwrap()["dropped"].as_u64().unwrap()
    };
    let mut calm = 0;
    for _ in 0..=kills {
        let stop = AtomicBool::new(false);
        let answered = std::thread::scope(|scope| {
            let lab = testbed.lab().unwrap();
            scope.spawn(|| flood(lab, "one", &stop));
            let before = dropped(&testbed, "one");
            wait_for("drops of the flood", || (dropped(&testbed, "one") > before).then_some(()));
            let answered = errors(lab, "three");
            stop.store(true, Ordering::Relaxed);
            answered
        });
        assert!(answered >= 15, "{answered} of 20 answered beside the flood");
        calm = dropped(&testbed, "three");
        testbed.start_responders().unwrap();
    }
    assert_eq!(calm, 0, "nothing of the other machine is above its share");
}
