//! What a packet's first hit costs: tables visited, and time, against a minimal flow table written by hand. Prints; asserts
//! only what is no matter of speed.

use std::net::IpAddr;
use std::time::Duration;

use lab::{Host, Lab, Options, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use crate::support::{bring_up, has_lab, settings, unique};

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: one, switch: red, addresses: [{mac: '02:00:00:00:07:01', ips: [10.7.0.1]}], port_security: true}
---
{kind: switch_port, id: two, switch: red, addresses: [{mac: '02:00:00:00:07:02', ips: [10.7.0.2]}], port_security: true}
---
{kind: switch_port, id: far, switch: red, addresses: [{mac: '02:00:00:00:07:03', ips: [10.7.0.3]}], port_security: true}
";

/// How often each is measured.
const TIMES: usize = 20;

fn machines() -> Vec<VmSpec> {
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:07:{n:02x}")).address(format!("10.7.0.{n}/24"))
    };
    vec![vm("one", "hv1", 1), vm("two", "hv1", 2), vm("far", "hv2", 3)]
}

fn ip(n: u8) -> IpAddr {
    [10, 7, 0, n].into()
}

/// Round trips of a ping whose packets find nothing cached, on any host, and of one right after each.
fn round_trips(lab: &Lab, to: IpAddr) -> [Duration; 2] {
    lab.wait_ping("one", to, DEADLINE).unwrap();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        for host in lab.hosts().unwrap() {
            host.appctl(&["dpctl/del-flows"]).unwrap();
        }
        let argv = ["ping", "-n", "-c", "2", "-i", "0.02", "-W", "1", &to.to_string()];
        let text = lab.exec("one", &argv).unwrap().stdout;
        let mut times = text
            .lines()
            .filter_map(|line| line.split_once("time=")?.1.strip_suffix(" ms")?.parse::<f64>().ok());
        let (Some(one), Some(two)) = (times.next(), times.next()) else { continue };
        first.push(Duration::from_secs_f64(one / 1e3));
        later.push(Duration::from_secs_f64(two / 1e3));
    }
    assert!(first.len() > TIMES / 2, "most pings were lost");
    [first, later].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

/// Tables that an echo request from `one` to `to` visits on `host`; those of `br-phy` are not counted.
fn tables(host: &Host, flow: &str) -> usize {
    let trace = host.appctl(&["ofproto/trace", "br-int", flow]).unwrap();
    let own = trace.split("bridge(\"br-phy\")").next().unwrap_or(&trace);
    let visit = |line: &str| {
        let number = line.trim_start().split_once(". ").map(|(number, _)| number.parse::<u8>());
        matches!(number, Some(Ok(_)))
    };
    own.lines().filter(|line| visit(line)).count()
}

fn request(lab: &Lab, to: u8) -> usize {
    let host = lab.host("hv1").unwrap();
    let port = host.ofport("vif-one").unwrap();
    let macs = format!("dl_src=02:00:00:00:07:01,dl_dst=02:00:00:00:07:{to:02x}");
    let ips = format!("nw_src=10.7.0.1,nw_dst=10.7.0.{to},nw_ttl=64,icmp_type=8");
    tables(&host, &format!("in_port={port},icmp,{macs},{ips}"))
}

/// The least that carries the same packets: by port, and by address where one port leads to two.
fn minimal() -> Lab {
    let lab = Lab::create(Options::new(unique("least")).hosts(2).with_integration_bridge()).unwrap();
    lab.add_vms(&machines()).unwrap();
    let (one, two) = (lab.host("hv1").unwrap(), lab.host("hv2").unwrap());
    for host in [&one, &two] {
        let tunnel = ["type=geneve", "options:remote_ip=flow", "options:key=flow", "ofport_request=200"];
        let add = ["add-port", "br-int", "tun", "--", "set", "Interface", "tun"];
        host.vsctl(&[&add[..], &tunnel].concat()).unwrap();
    }
    let [a, b, far] = [(&one, "vif-one"), (&one, "vif-two"), (&two, "vif-far")]
        .map(|(host, port)| host.ofport(port).unwrap());
    let to = |host: &Host| format!("set_field:1->tun_id,set_field:{}->tun_dst,output:200", host.ip);
    let flows = format!(
        "add in_port={a},dl_dst=02:00:00:00:07:02 actions=output:{b}\n\
         add in_port={a},dl_dst=02:00:00:00:07:03 actions={}\n\
         add in_port={a},arp actions=output:{b},{}\n\
         add in_port={b} actions=output:{a}\n\
         add in_port=200 actions=output:{a}\n",
        to(&two),
        to(&two)
    );
    one.add_flows("br-int", &flows).unwrap();
    two.add_flows(
        "br-int",
        &format!("add in_port={far} actions={}\nadd in_port=200 actions=output:{far}\n", to(&one)),
    )
    .unwrap();
    lab.warm_underlay().unwrap();
    lab
}

#[test]
fn what_a_first_hit_costs() {
    if !has_lab("first-hit") {
        return;
    }
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("first") }).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let ours = testbed.lab().unwrap();
    let least = minimal();
    println!("tables on the sender, round trip when nothing is cached, and when it is (medians of {TIMES}):");
    for (place, to) in [("on one host", 2), ("to another host", 3)] {
        for (whose, lab) in [("weft", ours), ("by hand", &least)] {
            let [first, later] = round_trips(lab, ip(to));
            println!("  {place:16} {whose:8} {:2} tables  {first:9.2?}  {later:9.2?}", request(lab, to));
        }
        assert_eq!(request(&least, to), 1);
        assert!((4..=10).contains(&request(ours, to)), "{} tables {place}", request(ours, to));
    }
}
