//! `connections`: a machine that opens connections as fast as it can has no more of them than its limits allow, and another machine
//! of the same host opens its own meanwhile.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lab::{Lab, VmSpec};
use testbed::{Settings, Testbed};

use super::sockets::{connect, passes, socket};
use super::support::{ask, bring_up, settings, wait_for};

const NETWORK: &str = "
{kind: switch, id: busy, connections: {rate: 50, established: 600, unanswered: 2}}
---
{kind: switch_port, id: loud, switch: busy, addresses: [{mac: '02:00:00:00:16:01', ips: [10.22.0.1]}]}
---
{kind: switch_port, id: calm, switch: busy, addresses: [{mac: '02:00:00:00:16:02', ips: [10.22.0.2]}]}
---
{kind: switch_port, id: sink, switch: busy, addresses: [{mac: '02:00:00:00:16:03', ips: [10.22.0.3]}]}
---
{kind: acl, id: loud, port: loud, direction: from_port, priority: 1, action: allow_related}
---
{kind: acl, id: calm, port: calm, direction: from_port, priority: 1, action: allow_related}
";

/// The limits of loud: new connections a second, the seconds for which one without an answer is remembered, and those between two
/// times that Open vSwitch clears away what is over.
const RATE: f64 = 50.0;
const UNANSWERED: f64 = 2.0;
const CLEARED_EVERY: f64 = 20.0;

/// What the clock of the switch and that of the test may differ by.
const SLACK: f64 = 1.0;

/// How long loud opens connections: several times as long as a connection without an answer is remembered.
const FLOOD: Duration = Duration::from_secs(12);

fn machine(name: &str, host: &str, n: u8) -> VmSpec {
    VmSpec::new(name, host, name, format!("02:00:00:00:16:{n:02x}")).address(format!("10.22.0.{n}/24"))
}

/// The connections that a host remembers, and those that it has not cleared away.
fn remembered(lab: &Lab, of: &str) -> (usize, usize) {
    let host = lab.host("hv1").unwrap();
    let dump = host.appctl(&["dpctl/dump-conntrack"]).unwrap();
    let count = host.appctl(&["dpctl/ct-get-nconns"]).unwrap();
    let of_machine = dump.lines().filter(|line| line.contains(&format!("orig=(src={of},"))).count();
    (of_machine, count.trim().parse().unwrap_or_else(|why| panic!("{why}: {count}")))
}

#[test]
fn a_machine_that_floods_connections_has_a_bounded_number_and_another_opens_its_own() {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("bounded") }).unwrap();
    bring_up(
        &testbed,
        NETWORK,
        &[machine("loud", "hv1", 1), machine("calm", "hv1", 2), machine("sink", "hv2", 3)],
    );
    let lab = testbed.lab().unwrap();
    lab.warm_underlay().unwrap();
    let ip = |n: u8| IpAddr::from(Ipv4Addr::new(10, 22, 0, n));
    let state = ask(&testbed, &["get", "switch_port", "loud"]);
    assert!(state.contains("connections_max: 31050"), "{state}");

    let loud = socket(lab, "loud", ip(1), 0);
    let (began, mut sent, mut most, mut occupied, mut opened) = (Instant::now(), 0_u64, 0, 0, 0);
    while began.elapsed() < FLOOD {
        for _ in 0..200 {
            // Each port of the receiver is another connection.
            let port = 1024 + (sent % 60_000) as u16;
            sent += u64::from(loud.send_to(b"?", (ip(3), port)).is_ok());
        }
        let now = remembered(lab, "10.22.0.1");
        (most, occupied) = (most.max(now.0), occupied.max(now.1));
        if began.elapsed() > FLOOD / 4 * (opened + 1) {
            opened += 1;
            let address = SocketAddr::new(ip(3), 700 + opened as u16);
            let [mut asker, mut server] = connect(lab, "calm", ("sink", address));
            passes(&mut asker, &mut server);
        }
    }
    let took = began.elapsed().as_secs_f64();
    let allowed = |seconds: f64| (RATE + RATE * (seconds + SLACK)) as usize;
    println!(
        "{sent} connections tried in {took:.1} s: {most} remembered at once, {occupied} in the table, {opened} of calm"
    );
    assert!(most >= RATE as usize && most <= allowed(UNANSWERED), "{most} of {sent}");
    // Those of calm are in the table too.
    assert!(occupied <= allowed((UNANSWERED + CLEARED_EVERY).min(took)) + 10, "{occupied}");
    assert!(opened >= 3, "calm opened {opened} connections");

    // What was dropped is counted; a few datagrams may be lost before they come to the switch.
    let dropped = wait_for("the counters of the meter", || {
        let json = ask(&testbed, &["get", "connection-drops", "loud", "--json"]);
        let row: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
        assert_eq!((&row["node"], &row["limit"]), (&"hv1".into(), &50.into()));
        row["dropped"].as_u64().filter(|dropped| *dropped > sent / 10 * 9)
    });
    assert!(dropped < sent, "{dropped} of {sent}");
    let calm = ask(&testbed, &["get", "connection-drops", "calm"]);
    assert!(calm.lines().nth(1).is_some_and(|line| line.ends_with(" 0")), "{calm}");
}

#[test]
fn a_stream_without_answers_is_one_connection_however_fast_it_is() {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("stream") }).unwrap();
    bring_up(&testbed, NETWORK, &[machine("loud", "hv1", 1), machine("sink", "hv2", 3)]);
    let lab = testbed.lab().unwrap();
    lab.warm_underlay().unwrap();
    let ip = |n: u8| IpAddr::from(Ipv4Addr::new(10, 22, 0, n));
    let (loud, sink) = (socket(lab, "loud", ip(1), 0), socket(lab, "sink", ip(3), 7000));
    for number in 0..500_u32 {
        loud.send_to(&number.to_be_bytes(), (ip(3), 7000)).unwrap();
        assert_eq!(super::sockets::came(&sink), number.to_be_bytes(), "no packet is metered but the first");
    }
}
