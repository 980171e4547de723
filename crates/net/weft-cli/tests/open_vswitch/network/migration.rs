//! A machine migrates while others communicate with it: loss and blackout stay within the limits of
//! `docs/reference/logical-switch.md`; nothing is duplicated.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use lab::{Lab, Migration, Order, RunningPing, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, settings};

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

/// The number of answers that show that two machines reach each other.
const ENOUGH: u64 = 50;

/// Time between two pings.
const EVERY: Duration = Duration::from_millis(10);

/// The margin for a busy machine after all switches are in sync: half a second for Open vSwitch to revalidate its caches,
/// the rest for the processes that ping.
const MARGIN: Duration = Duration::from_secs(5);

/// How long both hosts claim a machine that is first plugged in at the new one: many times longer than a busy machine
/// needs until the new host's report is in force everywhere.
const BOTH_CLAIM: Duration = Duration::from_secs(8);

#[test]
fn a_machine_moves_under_pings_and_a_tcp_transfer() {
    let testbed = Testbed::start(Settings { hosts: 3, ..settings("move") }).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:06:{n:02x}")).address(format!("10.6.0.{n}/24"))
    };
    bring_up(&testbed, NETWORK, &[vm("stays", "hv1", 1), vm("moves", "hv2", 2), vm("far", "hv3", 3)]);
    let lab = testbed.lab().unwrap();
    for (from, to) in PAIRS {
        lab.wait_ping(from, ip(to), DEADLINE).unwrap();
    }
    let plug_first = Migration { order: Order::PlugFirst, gap: BOTH_CLAIM };
    let unplug_first = Migration { order: Order::UnplugFirst, gap: Duration::ZERO };
    for (to, how) in [("hv1", plug_first), ("hv2", unplug_first), ("hv3", plug_first), ("hv1", unplug_first)]
    {
        nothing_is_lost(lab);
        let pings = start_pings(lab);
        let transfer = lab.spawn_transfer("far", "moves", ip(2)).unwrap();
        transfer.wait_received(100_000, DEADLINE).unwrap();
        let start = Instant::now();
        lab.migrate_vm("moves", to, how).unwrap();
        testbed.wait_in_sync().unwrap();
        let moved = start.elapsed();
        transfer.wait_received(100_000, DEADLINE).unwrap();
        let (bytes, dark) = transfer.stop().unwrap();
        println!("to {to}, {:?}: tcp: {bytes} bytes, all of them right, dark for {dark:?}", how.order);
        for (ping, whose) in pings.into_iter().zip(["to it", "from it"]) {
            let result = ping.stop().unwrap();
            let (sent, lost, dark) = (result.sent, result.lost(), result.longest_gap);
            println!("to {to}, {:?}: ping {whose}: {sent} sent, {lost} lost, dark for {dark:?}", how.order);
            assert_eq!(result.duplicates, 0, "{result:?}");
            // The report of the new host is sufficient; the controller does not wait for the old host to release the
            // port.
            let most = if how.order == Order::PlugFirst { BOTH_CLAIM } else { moved + MARGIN };
            assert!(dark < most, "dark for longer than {most:?}: {result:?}");
            let lost = EVERY * u32::try_from(lost).unwrap();
            assert!(lost < most, "more is lost than was sent in {most:?}: {result:?}");
        }
        // All switches have confirmed the new place. Without the transfer, which fills every queue on its path until
        // packets are dropped, every packet arrives exactly once.
        nothing_is_lost(lab);
    }
}

/// The pinging pairs: to the machine that migrates, and from it.
const PAIRS: [(&str, u8); 2] = [("stays", 2), ("moves", 3)];

fn ip(n: u8) -> IpAddr {
    [10, 6, 0, n].into()
}

/// Starts pings of all pairs, and waits until each has been answered often enough.
fn start_pings(lab: &Lab) -> [RunningPing; 2] {
    let pings = PAIRS.map(|(from, to)| lab.spawn_ping(from, ip(to), EVERY).unwrap());
    for ping in &pings {
        ping.wait_received(ENOUGH, DEADLINE).unwrap();
    }
    pings
}

/// Checks that all pairs reach each other, without loss or duplicates.
#[track_caller]
fn nothing_is_lost(lab: &Lab) {
    for (ping, (from, to)) in start_pings(lab).into_iter().zip(PAIRS) {
        let result = ping.stop().unwrap();
        assert_eq!((result.lost(), result.duplicates), (0, 0), "{from} to {}: {result:?}", ip(to));
    }
}
