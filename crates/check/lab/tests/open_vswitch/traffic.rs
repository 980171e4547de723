//! The lab carries traffic: hand-written flows, three tunnel types, TCP, migration, restarts.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::common::{DEADLINE, add_tunnel, cross_connect, leftovers, two_hosts, unique_name, web};
use lab::{Error, Lab, Migration, Options, Order, PingOptions, Stop, VmSpec};

const WEB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const DB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// Time between the two ends of a migration: enough for some pings to be sent and lost.
const GAP: Duration = Duration::from_millis(500);

/// Tunnels on both hosts and flows between `web` and `db`; no packet lost to cold neighbours.
fn connect(lab: &Lab, kind: &str) {
    let (one, two) = (lab.host("hv1").unwrap(), lab.host("hv2").unwrap());
    add_tunnel(&one, kind);
    add_tunnel(&two, kind);
    cross_connect(&one, "vif-web", &two, 0x102, 0x101);
    cross_connect(&two, "vif-db", &one, 0x101, 0x102);
    lab.warm_underlay().unwrap();
}

#[test]
fn machines_reach_each_other_through_each_tunnel_type_without_a_loss() {
    let lab = two_hosts();
    // Without flows a secure bridge forwards nothing: the success below is the tunnel's.
    let none = PingOptions { count: 2, deadline: Duration::from_millis(500), ..PingOptions::default() };
    assert_eq!(lab.ping("web", DB, &none).unwrap().received, 0);
    for kind in ["geneve", "vxlan", "gre"] {
        connect(&lab, kind);
        lab.flush_arp_cache("web").unwrap();
        // A full packet of the machine's MTU fits the underlay.
        let options = PingOptions { count: 20, size: 1400 - 28, ..PingOptions::default() };
        let result = lab.ping("web", DB, &options).unwrap();
        assert_eq!((result.sent, result.lost(), result.duplicates), (20, 0, 0), "{kind}: {result:?}");
        let through = lab.host("hv2").unwrap().vsctl(&["get", "Interface", "tun", "type"]).unwrap();
        assert_eq!(through.trim(), kind);
        for host in lab.hosts().unwrap() {
            host.vsctl(&["del-port", "br-int", "tun"]).unwrap();
            host.flush_datapath().unwrap();
        }
        assert_eq!(lab.ping("web", DB, &none).unwrap().received, 0, "without the {kind} port");
    }
    assert_eq!(lab.check().unwrap(), Vec::<String>::new());
    let name = lab.name().to_owned();
    lab.remove().unwrap();
    assert_eq!(leftovers(&name), Vec::<String>::new());
}

#[test]
fn a_warm_underlay_knows_every_peer_before_the_first_packet() {
    let lab = Lab::create(Options::new(unique_name()).hosts(3)).unwrap();
    let hosts = lab.hosts().unwrap();
    for warm in [false, true] {
        if warm {
            lab.warm_underlay().unwrap();
        }
        for host in &hosts {
            let known = host.appctl(&["tnl/neigh/show"]).unwrap();
            for peer in hosts.iter().filter(|peer| peer.name != host.name) {
                let entry = known.lines().any(|l| l.contains(&peer.ip.to_string()) && l.contains(&peer.mac));
                assert_eq!(entry, warm, "{} of {}: {known}", peer.name, host.name);
            }
            // The planned MAC is the one that br-phy really has.
            let link = host.exec(&["ip", "-o", "link", "show", "br-phy"]).unwrap();
            assert!(link.stdout.contains(&host.mac), "{}", link.stdout);
        }
    }
}

#[test]
fn ipv6_and_tcp_pass_and_the_arp_cache_shows_who_answered() {
    let lab = two_hosts();
    connect(&lab, "geneve");
    lab.wait_ping("web", "fd00::2".parse().unwrap(), DEADLINE).unwrap();
    assert_eq!(lab.ping("web", DB, &PingOptions::default()).unwrap().lost(), 0);
    let cache = lab.arp_cache("web").unwrap();
    let entry = cache.iter().find(|entry| entry.ip == DB).unwrap();
    assert_eq!(entry.mac.as_deref(), Some("02:00:00:00:00:02"));

    // Checksum offload left on would let pings pass and TCP hang.
    let mut server = lab.command("db", "sh").unwrap();
    server.args(["-c", TCP_SERVER]).stdout(std::process::Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut ready = String::new();
    let mut lines = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut ready).unwrap();
    assert_eq!(ready.trim(), "listening");
    let client = lab
        .exec("web", &["timeout", "60", "bash", "-c", "exec 3<>/dev/tcp/10.0.0.2/7000; cat <&3 | wc -c"])
        .unwrap();
    assert_eq!(client.stdout.trim(), "300000", "{client:?}");
    server.wait().unwrap();
}

/// Sends 300,000 bytes to the first client.
const TCP_SERVER: &str = "exec python3 -c '
import socket
listener = socket.create_server((\"10.0.0.2\", 7000))
print(\"listening\", flush=True)
connection, _ = listener.accept()
connection.sendall(bytes(300000))
connection.close()'";

#[test]
fn a_machine_migrates_under_a_running_ping() {
    let lab = two_hosts();
    connect(&lab, "geneve");
    // A second machine on hv2 stays; web moves next to it and back.
    let (one, two) = (lab.host("hv1").unwrap(), lab.host("hv2").unwrap());
    for (to, order) in [("hv2", Order::UnplugFirst), ("hv1", Order::PlugFirst)] {
        let before = lab.exec("web", &["ip", "-o", "addr", "show", "dev", "eth0"]).unwrap();
        let begun = Instant::now();
        let ping = lab.spawn_ping("db", WEB, Duration::from_millis(10)).unwrap();
        ping.wait_received(10, DEADLINE).unwrap();
        lab.migrate_vm("web", to, Migration { order, gap: GAP }).unwrap();
        if to == "hv2" {
            let (web, db) = (two.ofport("vif-web").unwrap(), two.ofport("vif-db").unwrap());
            let flows = format!(
                "delete\nadd in_port={web} actions=output:{db}\nadd in_port={db} actions=output:{web}\n"
            );
            two.add_flows("br-int", &flows).unwrap();
        } else {
            cross_connect(&one, "vif-web", &two, 0x102, 0x101);
            cross_connect(&two, "vif-db", &one, 0x101, 0x102);
        }
        ping.wait_received(10, DEADLINE).unwrap();
        let took = begun.elapsed();
        let result = ping.stop().unwrap();
        assert!(result.lost() > 0, "the gap must show: {result:?}");
        assert!((GAP..took).contains(&result.longest_gap), "within {took:?}: {result:?}");

        let (there, left) = if to == "hv2" { (&two, &one) } else { (&one, &two) };
        let ids = there.vsctl(&["get", "Interface", "vif-web", "external_ids"]).unwrap();
        assert_eq!(ids.trim(), r#"{attached-mac="02:00:00:00:00:01", iface-id=port-web}"#);
        assert!(
            !left.vsctl(&["list-ports", "br-int"]).unwrap().contains("vif-web"),
            "still at {}",
            left.name
        );
        let vm = lab.vm("web").unwrap();
        assert_eq!((vm.host.as_str(), vm.attached), (to, true));
        let after = lab.exec("web", &["ip", "-o", "addr", "show", "dev", "eth0"]).unwrap();
        let addresses = |text: &str| text.matches("10.0.0.1/24").count() + text.matches("fd00::1/64").count();
        assert_eq!(addresses(&before.stdout), 2);
        assert_eq!(addresses(&after.stdout), 2, "{}", after.stdout);
    }
    // A guest does not see its host change: what it learned stays, although no flow at hv2 serves it now.
    let knows_db = || lab.arp_cache("web").unwrap().iter().any(|entry| entry.ip == DB && entry.mac.is_some());
    assert!(knows_db());
    lab.migrate_vm("web", "hv2", Migration::default()).unwrap();
    assert!(knows_db(), "{:?}", lab.arp_cache("web").unwrap());
}

#[test]
fn a_ping_through_a_detached_port_shows_the_outage() {
    let lab = two_hosts();
    connect(&lab, "vxlan");
    let ping = lab.spawn_ping("web", DB, Duration::from_millis(10)).unwrap();
    ping.wait_received(20, DEADLINE).unwrap();
    let quiet = lab.spawn_ping("web", DB, Duration::from_millis(10)).unwrap();
    quiet.wait_received(50, DEADLINE).unwrap();
    let undisturbed = quiet.stop().unwrap();
    assert_eq!(undisturbed.lost(), 0, "{undisturbed:?}");
    assert!(undisturbed.sent >= 50);
    lab.detach("db").unwrap();
    assert!(!lab.vm("db").unwrap().attached);
    lab.attach("db").unwrap();
    // A port plugged in again has a new number.
    let (one, two) = (lab.host("hv1").unwrap(), lab.host("hv2").unwrap());
    cross_connect(&two, "vif-db", &one, 0x101, 0x102);
    ping.wait_received(5, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert!(result.lost() > 0 && result.received > 25, "{result:?}");
}

#[test]
fn the_daemon_restarts_each_way_and_the_host_carries_traffic_again() {
    let lab = two_hosts();
    connect(&lab, "geneve");
    let (one, two) = (lab.host("hv1").unwrap(), lab.host("hv2").unwrap());
    for how in [Stop::Exit, Stop::Cleanup, Stop::Kill] {
        let pid = one.vswitchd_pid().unwrap();
        one.stop_vswitchd(how).unwrap();
        assert_eq!(one.vswitchd_pid(), None);
        assert!(!std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists());
        assert!(lab.check().unwrap().iter().any(|fault| fault.contains("ovs-vswitchd does not run")));
        one.start_vswitchd().unwrap();
        assert_ne!(one.vswitchd_pid(), Some(pid));
        assert_eq!(one.dump_flows("br-int").unwrap(), Vec::<String>::new(), "flows live in the process");
        cross_connect(&one, "vif-web", &two, 0x102, 0x101);
        lab.wait_ping("web", DB, DEADLINE).unwrap_or_else(|error| panic!("after {how:?}: {error}"));
    }
    one.stop_ovsdb().unwrap();
    assert_eq!(one.ovsdb_pid(), None);
    one.start_ovsdb().unwrap();
    lab.wait_ping("web", DB, DEADLINE).unwrap();
    // Ports can be changed while the daemon is stopped; it notices when it starts.
    one.kill_vswitchd().unwrap();
    lab.detach("web").unwrap();
    lab.attach("web").unwrap();
    one.start_vswitchd().unwrap();
    assert!(one.ofport("vif-web").unwrap() > 0);
}

#[test]
fn messages_to_a_switch_are_counted_exactly() {
    let lab = Lab::create(Options::new(unique_name()).hosts(1).with_integration_bridge()).unwrap();
    let host = lab.host("hv1").unwrap();
    host.ofctl(&["add-flow", "br-int", "table=1,priority=1 actions=drop"]).unwrap();
    let mark = host.mark_openflow().unwrap();
    assert_eq!(host.flow_mod_count(&mark).unwrap(), 0);
    // Reading is not modifying.
    host.dump_flows("br-int").unwrap();
    assert_eq!(host.openflow_since(&mark).unwrap().modifications(), 0);
    assert!(host.openflow_since(&mark).unwrap().others > 0);
    // Flow-mods without effect count: the same flow, and a delete of a missing one.
    host.ofctl(&["add-flow", "br-int", "table=1,priority=1 actions=drop"]).unwrap();
    host.ofctl(&["del-flows", "br-int", "table=77"]).unwrap();
    assert_eq!(host.flow_mod_count(&mark).unwrap(), 2);
    let flows: Vec<String> =
        (1..=1000).map(|port| format!("add table=2,tcp,tp_dst={port} actions=drop")).collect();
    host.add_flows("br-int", &flows.join("\n")).unwrap();
    assert_eq!(host.flow_mod_count(&mark).unwrap(), 1002);
    host.ofctl(&["add-group", "br-int", "group_id=4,type=all,bucket=bucket_id:1,actions=drop"]).unwrap();
    // Refused ones count too.
    host.ofctl(&["add-group", "br-int", "group_id=4,type=all,bucket=bucket_id:1,actions=drop"]).unwrap_err();
    assert_eq!(host.openflow_since(&mark).unwrap().group_mods, 2);
    assert_eq!(host.openflow_since(&host.mark_openflow().unwrap()).unwrap().modifications(), 0);
    host.unmark_openflow().unwrap();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    assert!(matches!(host.flow_mod_count(&mark), Err(Error::Restarted { .. })));
    assert!(host.coverage("vconn_received").is_ok());
}

#[test]
fn reachability_shows_exactly_the_pairs_that_are_connected() {
    let lab = two_hosts();
    connect(&lab, "gre");
    lab.add_vm(
        &VmSpec::new("a-name-longer-than-15", "hv2", "port-x", "02:00:00:00:00:03").address("10.0.0.3/24"),
    )
    .unwrap();
    let names = ["web", "db", "a-name-longer-than-15"];
    let matrix = lab.reachability(&names, Duration::from_secs(5)).unwrap();
    assert_eq!(matrix.pairs.len(), 6);
    assert_eq!((matrix.get("web", "db"), matrix.get("db", "web")), (Some(true), Some(true)));
    assert_eq!(matrix.unreached().count(), 4);
    assert!(!matrix.all());
    // A removed machine's name and port are free at once.
    lab.remove_vm("web").unwrap();
    assert!(matches!(lab.vm("web"), Err(Error::Unknown { .. })));
    lab.add_vm(&web()).unwrap();
}
