//! `log` of ACLs: an IPFIX collector hears which ACL has matched which packets, and nothing of ACLs that do not log.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use lab::{Lab, VmSpec};
use testbed::{Settings, Testbed};

use super::ipfix::{ADDRESS, Collector, Record};
use super::sockets::{came, nothing_came, socket};
use super::support::{ask, bring_up, settings};

const NETWORK: &str = "
{kind: switch, id: shop}
---
{kind: switch_port, id: web, switch: shop, addresses: [{mac: '02:00:00:00:17:01', ips: [10.23.0.1]}]}
---
{kind: switch_port, id: db, switch: shop, addresses: [{mac: '02:00:00:00:17:02', ips: [10.23.0.2]}]}
---
{kind: acl, id: no-log, port: db, direction: to_port, priority: 2, match: {ip_proto: udp, tp_dst: 23}, action: drop}
---
{kind: acl, id: talk, switch: shop, direction: from_port, priority: 1, match: {ip_proto: udp}, action: allow_related, log: true}
";

/// The ACL that drops, which logs or does not.
fn dropping(log: bool) -> String {
    format!(
        "{{kind: acl, id: dropped, port: db, direction: to_port, priority: 2, \
         match: {{ip_proto: udp, tp_dst: 22}}, action: drop, log: {log}}}"
    )
}

fn collecting(active_timeout: u32) -> String {
    format!("{{kind: collector, id: soc, targets: ['{ADDRESS}'], active_timeout: {active_timeout}}}")
}

const WEB: Ipv4Addr = Ipv4Addr::new(10, 23, 0, 1);
const DB: Ipv4Addr = Ipv4Addr::new(10, 23, 0, 2);
const UDP: u64 = 17;

/// The numbers that reports of an ACL name: switch and ACL.
fn numbers(testbed: &Testbed, acl: &str) -> (u64, u64) {
    let json: serde_json::Value =
        serde_json::from_str(&ask(testbed, &["get", "acl", acl, "--json"])).unwrap();
    let state = &json["state"];
    let domain = &state["observation_domains"][0];
    assert_eq!(domain[0], "shop", "{json}");
    (domain[1].as_u64().unwrap(), state["observation_point"].as_u64().unwrap())
}

/// What the collector hears of one packet from web.
fn record((domain, point): (u64, u64), from: u16, to: u16) -> Record {
    let (source, destination) = ((WEB, u64::from(from)), (DB, u64::from(to)));
    Record { domain, point, protocol: UDP, source, destination, packets: 1 }
}

/// Sends a datagram to db, of which the first ACL makes a connection.
fn send(lab: &Lab, from: u16, to: u16) -> UdpSocket {
    let socket = socket(lab, "web", WEB.into(), from);
    socket.send_to(b"?", (IpAddr::from(DB), to)).unwrap();
    socket
}

fn started(test: &str, collector: &str) -> (Testbed, Collector) {
    let testbed = Testbed::start(Settings { hosts: 1, ..settings(test) }).unwrap();
    let machine = |name: &str, n: u8| {
        VmSpec::new(name, "hv1", name, format!("02:00:00:00:17:{n:02x}")).address(format!("10.23.0.{n}/24"))
    };
    bring_up(&testbed, NETWORK, &[machine("web", 1), machine("db", 2)]);
    let hears = Collector::new(&testbed.lab().unwrap().host("hv1").unwrap());
    assert!(
        ask(&testbed, &["get", "acl", "talk"]).contains("there is no collector"),
        "nothing says why nothing is logged"
    );
    testbed.apply("collector.yaml", collector).unwrap();
    testbed.apply("dropped.yaml", &dropping(true)).unwrap();
    testbed.wait_in_sync().unwrap();
    assert!(!ask(&testbed, &["get", "acl", "talk"]).contains("there is no collector"));
    (testbed, hears)
}

#[test]
fn the_collector_hears_which_acl_has_matched_what() {
    let (testbed, mut collector) = started("log", &collecting(0));
    let lab = testbed.lab().unwrap();
    let (dropped, talk) = (numbers(&testbed, "dropped"), numbers(&testbed, "talk"));
    assert_eq!(dropped.0, talk.0);
    assert_ne!(dropped.1, talk.1);

    // The first packet of a connection is reported, the others and the replies are not.
    let db = socket(lab, "db", DB.into(), 7000);
    let web = send(lab, 1001, 7000);
    came(&db);
    for _ in 0..20 {
        db.send_to(b"!", (IpAddr::from(WEB), 1001)).unwrap();
        came(&web);
        web.send_to(b"?", (IpAddr::from(DB), 7000)).unwrap();
        came(&db);
    }
    // Both ACLs match what db does not get, and each says so. The one without log says nothing.
    let quiet = socket(lab, "db", DB.into(), 23);
    send(lab, 1002, 23);
    let loud = socket(lab, "db", DB.into(), 22);
    send(lab, 1003, 22);
    let wanted =
        [record(talk, 1001, 7000), record(talk, 1002, 23), record(talk, 1003, 22), record(dropped, 1003, 22)];
    collector.read_until("four packets", |records| records.contains(&wanted[3]));
    assert_eq!(collector.records, wanted);
    nothing_came(lab, &quiet);
    nothing_came(lab, &loud);

    // Without log, an ACL drops and says nothing.
    testbed.apply("dropped.yaml", &dropping(false)).unwrap();
    testbed.wait_in_sync().unwrap();
    send(lab, 1004, 22);
    send(lab, 1005, 7000);
    collector.read_until("the next connection", |records| records.contains(&record(talk, 1005, 7000)));
    let ports: Vec<(u64, u64)> =
        collector.records[4..].iter().map(|found| (found.point, found.source.1)).collect();
    assert_eq!(ports, [(talk.1, 1004), (talk.1, 1005)]);

    // Nothing of it stays on the switch.
    testbed.apply("quiet.yaml", &NETWORK.replace("log: true", "log: false")).unwrap();
    ask(&testbed, &["delete", "collector", "soc"]);
    testbed.wait_in_sync().unwrap();
    let host = lab.host("hv1").unwrap();
    let left = ["Flow_Sample_Collector_Set", "IPFIX"].map(|table| host.vsctl(&["list", table]).unwrap());
    assert_eq!(left.each_ref().map(|rows| rows.trim()), ["", ""]);
    let flows = host.ofctl(&["dump-flows", "br-int"]).unwrap();
    assert!(!flows.contains("sample("), "{flows}");
}

#[test]
fn the_packets_of_a_flow_make_one_record_however_many_they_are() {
    const PACKETS: u64 = 2000;
    /// So many at once are lost nowhere before they come to the switch.
    const BURST: u64 = 50;
    let (testbed, mut collector) = started("flood", &collecting(1));
    let lab = testbed.lab().unwrap();
    let dropped = numbers(&testbed, "dropped");
    let web = send(lab, 2001, 22);
    let mut sent = 1;
    while sent < PACKETS {
        sent += u64::from(web.send_to(b"?", (IpAddr::from(DB), 22)).is_ok());
        if sent.is_multiple_of(BURST) {
            lab.drain().unwrap();
        }
    }
    let of_flood = |records: &[Record]| {
        let found = records.iter().filter(|found| found.point == dropped.1);
        found.fold((0, 0), |(records, packets), found| (records + 1, packets + found.packets))
    };
    // A few datagrams may be lost before they come to the switch, which counts those that the ACL has dropped.
    lab.drain().unwrap();
    let counted = super::wait_for("the counter of the ACL", || {
        let json = ask(&testbed, &["get", "acl", "dropped", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["state"]["counters"]["packets"].as_u64().filter(|packets| *packets > PACKETS / 10)
    });
    collector.read_until("all packets", |records| of_flood(records).1 >= counted);
    let (records, packets) = of_flood(&collector.records);
    println!("{sent} packets sent, {counted} counted, {packets} reported in {records} records");
    assert!(records <= 20 && packets <= sent, "{records} records of {packets} packets");
}
