//! Machines that listen to multicast groups, and are asked for them.

use std::time::Duration;

use lab::VmSpec;
use testbed::{Settings, Testbed};

use super::support::{ask, bring_up, settings};

/// ACLs allow reports of IGMP alone. Queries, and what listeners of IPv6 report, pass nevertheless.
const NETWORK: &str = "
{kind: switch, id: blue, acl_default: drop}
---
{kind: acl, id: report, switch: blue, direction: from_port, priority: 1, match: {ip_proto: 2}, action: allow}
---
{kind: acl, id: hear, switch: blue, direction: to_port, priority: 1, match: {ip_proto: 2}, action: allow}
---
{kind: switch_port, id: one, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:41:01', ips: [10.41.0.1, 'fe80::ff:fe00:4101']}]}
---
{kind: switch_port, id: two, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:41:02', ips: [10.41.0.2, 'fe80::ff:fe00:4102']}]}
";
const QUERIER: [u8; 6] = [0x02, 0x77, 0x65, 0x66, 0x74, 0x71];
/// A query leaves at once, and the next one after half a minute.
const SOON: Duration = Duration::from_secs(20);
/// Machines answer within ten seconds. The rest is for a busy machine.
const ANSWERED: Duration = Duration::from_mins(2);

/// What a frame of a multicast listener says: the type of the message of IGMP or MLD.
fn kind(frame: &[u8]) -> Option<u8> {
    match (frame.get(12..14)?, frame.get(23)?, frame.get(20)?) {
        // The header of IGMP has the router alert option.
        ([8, 0], 2, _) => frame.get(38).copied(),
        ([0x86, 0xdd], _, 0) => frame.get(62).copied(),
        _ => None,
    }
}

const IGMP_QUERY: u8 = 0x11;
const IGMP_REPORT: u8 = 0x22;
const MLD_QUERY: u8 = 130;
const MLD_REPORT: u8 = 143;

#[test]
fn machines_are_asked_for_their_groups_each_by_its_host_and_report_them() {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("querier") }).unwrap();
    let machine = |name: &str, host: &str, n: u8| VmSpec {
        addresses: vec![format!("10.41.0.{n}/24")],
        ..VmSpec::new(name, host, name, format!("02:00:00:00:41:0{n}"))
    };
    bring_up(&testbed, NETWORK, &[machine("one", "hv1", 1), machine("two", "hv2", 2)]);
    let lab = testbed.lab().unwrap();
    let run = |words: &[&str]| {
        let done = lab.exec("one", words).unwrap();
        assert!(done.success(), "{words:?}: {}", done.stderr);
    };
    run(&["sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.disable_ipv6=0"]);
    run(&["ip", "address", "add", "239.1.2.3/32", "dev", "eth0", "autojoin"]);
    run(&["ip", "address", "add", "ff05::1234/128", "dev", "eth0", "autojoin"]);

    let taps = lab.taps(&["one", "two"]).unwrap();
    let snooping = "snooping={igmp: true, mld: true, querier: 10.41.0.252}";
    ask(&testbed, &["set", "--wait", "switch", "blue", snooping]);
    // One query of each protocol for each machine: none comes by a tunnel as well.
    let asked = taps.collect(|frame| frame[6..12] == QUERIER, 4, SOON).unwrap();
    for (machine, frames) in &asked {
        let kinds: Vec<Option<u8>> = frames.iter().map(|frame| kind(frame)).collect();
        assert_eq!(kinds, [Some(IGMP_QUERY), Some(MLD_QUERY)], "{machine}");
    }
    // The kernel of machine `one` takes them for queries, and what it says reaches the other one.
    for (report, group) in [
        (IGMP_REPORT, &[239, 1, 2, 3][..]),
        (MLD_REPORT, &[0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34]),
    ] {
        let wanted = |frame: &[u8]| {
            frame[11] == 1
                && kind(frame) == Some(report)
                && frame.windows(group.len()).any(|part| part == group)
        };
        let heard = taps.first(wanted, 1, ANSWERED).unwrap();
        assert!(heard["two"].len() == 1, "{heard:?}");
    }
}
