//! What the kernels of machines make of the answers.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use super::*;

#[test]
fn machines_learn_why_their_packets_do_not_arrive() {
    let mut routed = Routed::start("responds");
    assert!(routed.is_silent(), "nobody answers yet");
    routed.answer();

    let expired = routed.ping("a", &["-t", "1", "10.0.2.1"]);
    assert!(expired.contains("From 10.0.1.254") && expired.contains("Time to live exceeded"), "{expired}");
    let expired = routed.ping("a", &["-t", "1", "fd02::1"]);
    assert!(expired.contains("From fd01::fe") && expired.contains("Time exceeded: Hop limit"), "{expired}");

    let lost = routed.ping("a", &["10.0.9.9"]);
    assert!(lost.contains("From 10.0.1.254") && lost.contains("Destination Net Unreachable"), "{lost}");
    let lost = routed.ping("a", &["fd09::9"]);
    assert!(lost.contains("From fd01::fe") && lost.contains("No route"), "{lost}");

    // The kernel keeps the MTU, so it answers the second ping by itself.
    for (to, version, [mtu4, mtu6]) in [("10.0.2.1", "-4", MTU), ("fd02::1", "-6", MTU)] {
        let mtu = if version == "-4" { mtu4 } else { mtu6 };
        let large = ["-M", "do", "-s", "1400", to];
        let said = routed.ping("a", &large);
        assert!(said.contains(&format!("mtu={mtu}")) || said.contains(&format!("mtu = {mtu}")), "{said}");
        let route = routed.lab.exec("a", &["ip", version, "route", "get", to]).unwrap().stdout;
        assert!(route.contains(&format!("mtu {mtu}")), "{route}");
    }
    assert!(routed.count("too_big") >= 2, "{}", routed.counts);
}

#[test]
fn closed_ports_refuse_at_once() {
    let mut routed = Routed::start("refuses");
    routed.answer();
    for router in ["10.0.1.254:80", "[fd01::fe]:80"] {
        let router: SocketAddr = router.parse().unwrap();
        let connected = routed.lab.inside("a", || TcpStream::connect_timeout(&router, DEADLINE)).unwrap();
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{}", routed.counts);
        let refused = routed.lab.inside("a", || {
            let any = if router.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(router)?;
            socket.set_read_timeout(Some(DEADLINE))?;
            socket.send(b"anybody?")?;
            socket.recv(&mut [0; 8])
        });
        assert_eq!(refused.unwrap().unwrap_err().kind(), ErrorKind::ConnectionRefused, "{}", routed.counts);
    }
    assert!(routed.count("closed") >= 4, "{}", routed.counts);
}

#[test]
fn a_dead_responder_changes_nothing_else_and_comes_back() {
    let mut routed = Routed::start("respdies");
    for _ in 0..3 {
        routed.answer();
        routed.stop();
        assert!(routed.is_silent(), "nobody answers");
        assert!(routed.ping("a", &["10.0.2.1"]).contains(" 0% packet loss"), "packets pass");
    }
    // The switch dies instead, and comes back with its flows.
    routed.answer();
    let host = routed.host();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    host.add_flows("br-int", &flows()).unwrap();
    routed.wait_for_answers();
}

#[test]
fn a_flood_is_bounded_for_each_receiver_and_counted() {
    let mut routed = Routed::start("respflood");
    routed.answer();
    let to: SocketAddr = "10.0.9.9:9".parse().unwrap();
    let before = routed.count("no_route");
    routed
        .lab
        .inside("a", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..500 {
                // The error of an earlier one is reported to the next.
                let _ = socket.send_to(b"flood", to);
            }
        })
        .unwrap();
    let begun = Instant::now();
    while routed.count("limited") == 0 {
        assert!(begun.elapsed() < DEADLINE, "{}", routed.counts);
        std::thread::yield_now();
    }
    let answered = routed.count("no_route") - before;
    assert!((1..500).contains(&answered), "{}", routed.counts);
}

#[test]
fn a_second_responder_of_a_bridge_does_not_start() {
    let mut routed = Routed::start("resptwice");
    routed.answer();
    let (config, counts, settled) = (routed.config(), Arc::default(), Notify::new());
    let second = run(&config, Arc::new(Sockets::default()), &counts, &settled);
    let second = routed.runtime.block_on(second);
    let Err(ResponderError::Running { lock }) = second else { panic!("{second:?}") };
    assert_eq!(lock, routed.lock());
}

#[test]
fn a_flow_that_asks_for_something_unknown_is_counted() {
    let mut routed = Routed::start("respasks");
    routed.answer();
    let unknown = "table=28,priority=500,ip,nw_dst=10.0.2.9 actions=controller(id=7,userdata=ff.00)\n\
                   table=28,priority=500,ip,nw_dst=10.0.2.8 actions=set_field:0x90->reg1,resubmit(,60)\n";
    routed.host().add_flows("br-int", unknown).unwrap();
    let begun = Instant::now();
    while routed.count("unreadable_flow") == 0 || routed.count("unknown_reason") == 0 {
        for nobody in ["10.0.2.9", "10.0.2.8"] {
            routed.ping_for("1", "a", &[nobody]);
        }
        assert!(begun.elapsed() < DEADLINE, "{}", routed.counts);
    }
    routed.wait_for_answers();
}
