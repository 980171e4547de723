//! The cost of a packet's first hit: tables visited, and time, compared with a minimal hand-written flow table. Prints the
//! times; asserts only figures that do not depend on speed.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use lab::{Host, Lab, Options, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, settings, unique};

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: one, switch: red, addresses: [{mac: '02:00:00:00:07:01', ips: [10.7.0.1]}], port_security: true}
---
{kind: switch_port, id: two, switch: red, addresses: [{mac: '02:00:00:00:07:02', ips: [10.7.0.2]}], port_security: true}
---
{kind: switch_port, id: far, switch: red, addresses: [{mac: '02:00:00:00:07:03', ips: [10.7.0.3]}], port_security: true}
";

/// The number of measurements of each.
const TIMES: u32 = 100;

fn machines() -> Vec<VmSpec> {
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:07:{n:02x}")).address(format!("10.7.0.{n}/24"))
    };
    vec![vm("one", "hv1", 1), vm("two", "hv1", 2), vm("far", "hv2", 3)]
}

fn ip(n: u8) -> IpAddr {
    [10, 7, 0, n].into()
}

/// Processor time of all switches for a frame from `one` with a cold cache, and with a warm one: the mean of [`TIMES`],
/// without the cost of flushing the cache. Delays on a loaded machine do not count.
fn costs(lab: &Lab, to: u8) -> [Duration; 2] {
    lab.wait_ping("one", ip(to), DEADLINE).unwrap();
    let name = if to == 2 { "two" } else { "far" };
    let taps = lab.taps(&["one", name]).unwrap();
    let [own, theirs] = [1, to].map(|n| [2, 0, 0, 0, 7, n]);
    let ips = [[10, 7, 0, to], [10, 7, 0, 1]].map(Ipv4Addr::from);
    let frame = frame::udp4(theirs, own, ips[0], ips[1], b"first hit");
    let cross = || {
        taps.clear().unwrap();
        taps.send("one", &frame).unwrap();
        // No longer than necessary, because the daemons' other work would count.
        let found = taps.first(|found| found == frame, 1, DEADLINE).unwrap();
        assert_eq!(found.get(name).map(Vec::len), Some(1), "{found:?}");
    };
    let forget = || {
        for host in lab.hosts().unwrap() {
            host.appctl(&["dpctl/del-flows"]).unwrap();
        }
    };
    let forgetting = measure(lab, forget);
    let first = measure(lab, || {
        forget();
        cross();
    });
    let later = measure(lab, cross);
    [first.saturating_sub(forgetting), later]
}

/// The mean processor time of all switches for some work.
fn measure(lab: &Lab, work: impl Fn()) -> Duration {
    let hosts = lab.hosts().unwrap();
    let before: Duration = hosts.iter().map(on_processor).sum();
    (0..TIMES).for_each(|_| work());
    hosts.iter().map(on_processor).sum::<Duration>().saturating_sub(before) / TIMES
}

/// Processor time of a host's `ovs-vswitchd` so far, of all its threads (proc(5), schedstat, nanoseconds).
fn on_processor(host: &Host) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", host.vswitchd_pid().unwrap())).unwrap();
    let time = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    tasks.flatten().filter_map(time).sum()
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

/// A minimal flow table for the same packets: by port, and by address where one port leads to two.
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
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("first") }).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let ours = testbed.lab().unwrap();
    let least = minimal();
    println!(
        "tables on the sender; processor time of all switches for a frame that nothing is cached for, and for a later one"
    );
    for (place, to) in [("on one host", 2), ("to another host", 3)] {
        for (whose, lab) in [("weft", ours), ("by hand", &least)] {
            let [first, later] = costs(lab, to);
            println!("  {place:16} {whose:8} {:2} tables  {first:9.2?}  {later:9.2?}", request(lab, to));
        }
        assert_eq!(request(&least, to), 1);
        assert!((4..=13).contains(&request(ours, to)), "{} tables {place}", request(ours, to));
    }
}
