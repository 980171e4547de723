//! A machine that is going to use the address of another port is a problem of its port: it probes for the address, or announces it.

use std::net::{Ipv4Addr, Ipv6Addr};

use lab::{Host, Lab, VmSpec, frame};
use testbed::Testbed;

use super::support::{Frames, ask, bring_up, settings, wait_for};

/// `guest` may have any address: its machine is somebody's own.
const NETWORK: &str = "
{kind: switch, id: blue}
---
{kind: switch_port, id: owner, switch: blue, addresses: [{mac: '02:00:00:00:0a:01', ips: [10.9.0.1, 'fd09::1', fd09::a]}]}
---
{kind: switch_port, id: guest, switch: blue, addresses: [{mac: '02:00:00:00:0a:02', ips: [10.9.0.2, 'fd09::2']}]}
---
{kind: switch_port, id: other, switch: blue, addresses: [{mac: '02:00:00:00:0a:03', ips: [10.9.0.3]}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:0a:fe', networks: [10.9.0.254/24]}
";

const GUEST: [u8; 6] = [2, 0, 0, 0, 0x0a, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0x0a, 3];

fn testbed() -> Testbed {
    let testbed = Testbed::start(settings("conflicts")).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:0a:{n:02x}"))
            .address(format!("10.9.0.{n}/24"))
            .address(format!("fd09::{n}/64"))
    };
    bring_up(&testbed, NETWORK, &[vm("owner", "hv2", 1), vm("guest", "hv1", 2), vm("other", "hv1", 3)]);
    testbed
}

/// The conflicts in `weft status`: port, address and owner.
fn conflicts(testbed: &Testbed) -> Vec<(String, String, String)> {
    let problems = testbed.status().unwrap().problems;
    let conflict = |id: String, text: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != "announced").skip(1);
        let address = words.next()?.to_owned();
        let owner = words.skip_while(|word| *word != "of").nth(2)?;
        Some((id, address, owner.trim_end_matches(';').to_owned()))
    };
    let of_ports = problems.into_iter().filter(|problem| problem.code == "address-conflict");
    let mut found: Vec<_> =
        of_ports.map(|problem| conflict(problem.object.unwrap().id, &problem.text).unwrap()).collect();
    found.sort();
    found
}

#[track_caller]
fn wait_for_conflicts(testbed: &Testbed, wanted: &[(&str, &str, &str)]) {
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(port, address, owner)| ((*port).to_owned(), (*address).to_owned(), (*owner).to_owned()))
        .collect();
    wait_for(&format!("{wanted:?}"), || (conflicts(testbed) == wanted).then_some(()));
}

/// The flows that a host has noted conflicts in.
fn noted(host: &Host) -> usize {
    host.ofctl(&["dump-flows", "br-int", "table=63"])
        .unwrap()
        .lines()
        .filter(|line| line.contains("table=63"))
        .count()
}

fn probe(from: [u8; 6], address: [u8; 4]) -> Vec<u8> {
    let nobody: Ipv4Addr = [0; 4].into();
    frame::arp(frame::BROADCAST, 1, (from, nobody), ([0; 6], address.into()))
}

fn announcement(from: [u8; 6], address: [u8; 4]) -> Vec<u8> {
    frame::arp(frame::BROADCAST, 1, (from, address.into()), ([0; 6], address.into()))
}

/// Whether the kernel of a machine has found that somebody else has the address.
fn has_failed(lab: &Lab, machine: &str, address: &str) -> bool {
    let shown = lab.exec(machine, &["ip", "-6", "address", "show", "dev", "eth0"]).unwrap().stdout;
    shown.lines().any(|line| line.contains(address) && line.contains("dadfailed"))
}

#[test]
fn a_machine_that_is_going_to_use_the_address_of_another_port_is_a_problem_of_its_port() {
    let mut testbed = testbed();
    let lab = testbed.lab().unwrap();
    let hv1 = lab.host("hv1").unwrap();
    let frames = Frames::new(lab);
    // Its own address, and one that nobody has.
    for address in [[10, 9, 0, 2], [10, 9, 0, 99]] {
        frames.taps.send("guest", &probe(GUEST, address)).unwrap();
        frames.taps.send("guest", &announcement(GUEST, address)).unwrap();
    }
    let own: Ipv6Addr = "fd09::2".parse().unwrap();
    frames.taps.send("guest", &frame::solicitation(GUEST, Ipv6Addr::UNSPECIFIED, own, false)).unwrap();
    // The owner's, which is after all of these on the same interface.
    frames.taps.send("guest", &probe(GUEST, [10, 9, 0, 1])).unwrap();
    wait_for_conflicts(&testbed, &[("guest", "10.9.0.1", "owner")]);
    let shown = ask(&testbed, &["get", "switch_port", "guest"]);
    assert!(
        shown.contains("10.9.0.1 in the last minutes, and this is the address of switch_port owner"),
        "{shown}"
    );

    // The probe is answered as before: the machine hears that somebody has the address.
    frames.taps.clear().unwrap();
    let is_answer = |frame: &[u8]| {
        frame.get(12..14) == Some(&[8, 6])
            && frame.get(20..22) == Some(&[0, 2])
            && frame.get(28..32) == Some(&[10, 9, 0, 1])
    };
    frames.taps.send("guest", &probe(GUEST, [10, 9, 0, 1])).unwrap();
    wait_for("the answer to a probe", || {
        let heard = frames.taps.first(is_answer, 1, std::time::Duration::from_secs(1)).unwrap();
        heard.get("guest").is_some_and(|frames| !frames.is_empty()).then_some(())
    });

    // The kernel of another machine detects a duplicate, and so does the network.
    let set = ["sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=1", "net.ipv6.conf.eth0.dad_transmits=1"];
    assert!(lab.exec("other", &set).unwrap().success());
    assert!(
        lab.exec("owner", &["ip", "-6", "address", "add", "fd09::a/64", "dev", "eth0", "nodad"])
            .unwrap()
            .success()
    );
    assert!(
        lab.exec("other", &["ip", "-6", "address", "add", "fd09::a/64", "dev", "eth0"]).unwrap().success()
    );
    wait_for("the kernel", || has_failed(lab, "other", "fd09::a").then_some(()));
    wait_for_conflicts(&testbed, &[("guest", "10.9.0.1", "owner"), ("other", "fd09::a", "owner")]);

    // An announcement without a probe, and the router's address.
    frames.taps.send("other", &announcement(OTHER, [10, 9, 0, 1])).unwrap();
    let three =
        [("guest", "10.9.0.1", "owner"), ("other", "10.9.0.1", "owner"), ("other", "fd09::a", "owner")];
    wait_for_conflicts(&testbed, &three);

    // Whoever probes for all addresses has one flow, and what is shown of it does not change each time.
    let before = testbed.status().unwrap().last_txn;
    for n in (0..200).map(|n| [1, 3, 254][n % 3]) {
        frames.taps.send("guest", &probe(GUEST, [10, 9, 0, n])).unwrap();
    }
    assert_eq!(noted(&hv1), 3);
    assert_eq!((conflicts(&testbed).len(), testbed.status().unwrap().last_txn), (3, before));

    // They outlive a restart of the controller, and go when the switch forgets them.
    drop(frames);
    testbed.kill_controller().unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    assert_eq!(conflicts(&testbed).len(), 3);
    let hv1 = testbed.lab().unwrap().host("hv1").unwrap();
    hv1.ofctl(&["-OOpenFlow15", "del-flows", "br-int", "table=63"]).unwrap();
    wait_for_conflicts(&testbed, &[]);

    let frames = Frames::new(testbed.lab().unwrap());
    frames.taps.send("guest", &probe(GUEST, [10, 9, 0, 254])).unwrap();
    wait_for_conflicts(&testbed, &[("guest", "10.9.0.254", "r-blue")]);
    // The remedy: the router has another address.
    testbed.apply("remedy.yaml", &NETWORK.replace("10.9.0.254/24", "10.9.0.253/24")).unwrap();
    wait_for_conflicts(&testbed, &[]);
}
