//! A machine moves while others talk to it: what is lost and what comes twice, counted.

use std::net::IpAddr;
use std::time::Duration;

use lab::{Migration, Order, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, has_lab, settings};

const NETWORK: &str = "
kind: switch
id: red
---
{kind: switch_port, id: stays, switch: red, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}], port_security: true}
---
{kind: switch_port, id: moves, switch: red, addresses: [{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}], port_security: true}
---
{kind: switch_port, id: far, switch: red, addresses: [{mac: '02:00:00:00:06:03', ips: [10.6.0.3]}]}
";

/// Answers that show that everybody speaks with the moved machine again.
const AFTER: u64 = 50;

#[test]
fn a_machine_moves_under_pings_and_a_tcp_transfer() {
    if !has_lab("migration") {
        return;
    }
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("move") }).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:06:{n:02x}")).address(format!("10.6.0.{n}/24"))
    };
    bring_up(&testbed, NETWORK, &[vm("stays", "hv1", 1), vm("moves", "hv2", 2), vm("far", "hv3", 3)]);
    let lab = testbed.lab().unwrap();
    let ip = |n: u8| IpAddr::from([10, 6, 0, n]);
    for (from, to) in [("stays", 2), ("moves", 3)] {
        lab.wait_ping(from, ip(to), DEADLINE).unwrap();
    }
    let every = Duration::from_millis(10);
    let moves = [
        ("hv1", Order::PlugFirst),
        ("hv2", Order::UnplugFirst),
        ("hv3", Order::PlugFirst),
        ("hv1", Order::UnplugFirst),
    ];
    for (to, order) in moves {
        let pings =
            [("stays", ip(2)), ("moves", ip(3))].map(|(from, to)| lab.spawn_ping(from, to, every).unwrap());
        let transfer = lab.spawn_transfer("far", "moves", ip(2)).unwrap();
        for ping in &pings {
            ping.wait_received(20, DEADLINE).unwrap();
        }
        transfer.wait_received(100_000, DEADLINE).unwrap();
        lab.migrate_vm("moves", to, Migration { order, gap: Duration::ZERO }).unwrap();
        for ping in &pings {
            ping.wait_received(AFTER, DEADLINE).unwrap();
        }
        transfer.wait_received(100_000, DEADLINE).unwrap();
        let (bytes, dark) = transfer.stop().unwrap();
        for (ping, whose) in pings.into_iter().zip(["to it", "from it"]) {
            let result = ping.stop().unwrap();
            println!(
                "to {to}, {order:?}: ping {whose}: {} sent, {} lost, {} duplicated, dark for {:?}",
                result.sent,
                result.lost(),
                result.duplicates,
                result.longest_gap
            );
            assert_eq!(result.duplicates, 0, "{result:?}");
        }
        println!("to {to}, {order:?}: tcp: {bytes} bytes, all of them right, dark for {dark:?}");
    }
}
