//! The networks in `examples/` behave as the files beside them say, and `weft lab reach` checks this.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Migration, Order, frame};
use testbed::scenario::{Pair, Scenario};
use testbed::{DEADLINE, Testbed};

use super::sockets::{cannot_connect, connect, passes};
use super::support::{Copies, Frames, one_at, unique, wait_for, weft};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
}

fn start(name: &str) -> (Scenario, Testbed) {
    let scenario = Scenario::read(&example(&format!("{name}.lab.yaml"))).unwrap();
    let testbed = scenario.start(unique(name), weft()).unwrap();
    (scenario, testbed)
}

#[track_caller]
fn all_right(scenario: &Scenario, testbed: &Testbed) {
    let pairs = scenario.who_reaches_whom(testbed.lab().unwrap()).unwrap();
    let wrong: Vec<&Pair> = pairs.iter().filter(|pair| !pair.is_right()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(pairs.iter().any(|pair| pair.wanted) && pairs.iter().any(|pair| !pair.wanted));
}

#[test]
fn every_example_network_has_its_machines_beside_it() {
    let found = |ending: &str| {
        let files = std::fs::read_dir(example("")).unwrap().map(|entry| entry.unwrap().file_name());
        let names = files.filter_map(|file| file.to_str()?.strip_suffix(ending).map(str::to_owned));
        names.filter(|name| !name.contains('.')).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(".yaml"), found(".lab.yaml"));
    assert!(found(".yaml").len() >= 3);
}

#[test]
fn two_tenants_with_the_same_addresses_and_a_wrong_expectation() {
    let run = |file: &Path| {
        let mut command = Command::new(weft());
        command.args(["lab", "reach", "--json", "--lab", &unique("none")]).arg(file);
        let output = command.output().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), value)
    };
    let (status, value) = run(&example("two-tenants.lab.yaml"));
    assert_eq!((status, value["failed"].as_u64()), (Some(0), Some(0)), "{value}");
    assert_eq!(value["pairs"].as_array().unwrap().len(), 30);

    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(example("two-tenants.lab.yaml")).unwrap();
    let wrong = text
        .replace("network: ", &format!("network: {}/", example("").display()))
        .replace("acme-1: [acme-2, acme-3]", "acme-1: [acme-2, umbra-3]");
    let file = folder.path().join("wrong.lab.yaml");
    std::fs::write(&file, wrong).unwrap();
    let (status, value) = run(&file);
    assert_eq!((status, value["failed"].as_u64()), (Some(1), Some(2)), "{value}");
}

#[test]
fn containers_behind_trunk_ports() {
    let (scenario, testbed) = start("trunk");
    all_right(&scenario, &testbed);
    let lab = testbed.lab().unwrap();
    let frames = Frames::new(lab);
    let all = frame::BROADCAST;
    frames.come_out("broadcast of a container", "shop-1", all, &one_at(&["shop-2", "till"]));
    frames.come_out(
        "broadcast to a sibling behind the same VM",
        "bank-1",
        all,
        &one_at(&["bank-2", "bank-3"]),
    );
    frames.come_out("broadcast of a VM with containers", "node-2", all, &one_at(&["node-1"]));
    frames.come_out("broadcast to containers", "till", all, &one_at(&["shop-1", "shop-2"]));

    // From inside the VM: a container's tag is accepted, any other tag and two tags are not.
    let tagged = |tag: u16| {
        let frames = &frames;
        move |mark: &[u8]| frame::tagged(&frames.datagram("bank-1", all, mark), tag)
    };
    frames.come_out_as("a tag by hand", "node-1", &one_at(&["bank-2", "bank-3"]), tagged(12));
    frames.come_out_as("a tag of no container", "node-1", &Copies::new(), tagged(99));
    let twice = |mark: &[u8]| frame::tagged(&tagged(12)(mark), 12);
    frames.come_out_as("two tags", "node-1", &Copies::new(), twice);
    // A container's port security holds behind the VM.
    let spoofed = |mark: &[u8]| frame::tagged(&frames.datagram("bank-1", all, mark), 11);
    let mine = |mark: &[u8]| frame::tagged(&frames.datagram("shop-1", all, mark), 11);
    frames.come_out_as("a container's own frame", "node-1", &one_at(&["shop-2", "till"]), mine);
    let other_mac = |mark: &[u8]| {
        let mut frame = spoofed(mark);
        frame[11] ^= 1;
        frame
    };
    frames.come_out_as("a frame with another's MAC", "node-1", &Copies::new(), other_mac);
    drop(frames);

    for (to, order) in [("hv2", Order::PlugFirst), ("hv1", Order::UnplugFirst)] {
        lab.migrate_vm("node-1", to, Migration { order, ..Migration::default() }).unwrap();
        testbed.wait_in_sync().unwrap();
        all_right(&scenario, &testbed);
    }
}

#[test]
fn switches_on_vlans_of_a_physical_network() {
    let (scenario, testbed) = start("localnet");
    all_right(&scenario, &testbed);
    let lab = testbed.lab().unwrap();
    let frames = Frames::new(lab);
    let all = frame::BROADCAST;
    frames.come_out("broadcast to the VLAN", "desk-1", all, &one_at(&["desk-2", "printer"]));
    frames.come_out("broadcast from the VLAN", "printer", all, &one_at(&["desk-1", "desk-2"]));
    frames.come_out("broadcast from the other VLAN", "camera", all, &one_at(&["door"]));
    frames.come_out("broadcast without a tag", "guard", all, &Copies::new());
    frames.come_out("to a machine outside", "desk-2", frames.mac("printer"), &one_at(&["printer"]));
    // A request from outside is answered once, by the target machine and not by a host in between.
    frames.taps.clear().unwrap();
    let (asker, asked) = (frames.mac("printer"), frames.mac("desk-2"));
    let (mine, theirs) = ([10, 1, 0, 3].into(), [10, 1, 0, 2].into());
    frames.taps.send("printer", &frame::arp(all, 1, (asker, mine), ([0; 6], theirs))).unwrap();
    let answer = frame::arp(asker, 2, (asked, theirs), (asker, mine));
    let answers = frames.taps.collect(|frame| frame.starts_with(&answer), 1, DEADLINE).unwrap();
    assert_eq!(answers.get("printer").map(Vec::len), Some(1), "{answers:?}");
    // It went over the physical network, not through a tunnel.
    for host in lab.hosts().unwrap() {
        let ports = host.vsctl(&["list-ports", "br-int"]).unwrap();
        let tunnels = ports.lines().filter(|port| port.contains("geneve"));
        for tunnel in tunnels {
            let counters = host.ofctl(&["dump-ports", "br-int", tunnel]).unwrap();
            assert!(counters.contains("tx pkts=0,"), "{}: {tunnel}: {counters}", host.name);
        }
    }
}

/// The networks with routers. The book runs them in one lab, one after the other; here each is alone.
#[test]
fn three_tiers_behind_one_router() {
    let (scenario, testbed) = start("three-tiers");
    all_right(&scenario, &testbed);
}

#[test]
fn next_hops_that_share_connections() {
    let (scenario, testbed) = start("ecmp");
    all_right(&scenario, &testbed);
}

#[test]
fn tenants_without_ipv4() {
    let (scenario, testbed) = start("ipv6-only");
    all_right(&scenario, &testbed);
}

/// ACLs that drop by default, with exceptions by label.
#[test]
fn applications_that_are_isolated_by_default() {
    let (scenario, testbed) = start("isolated");
    all_right(&scenario, &testbed);
    // Open vSwitch counts what the cache has passed a little later.
    wait_for("the ACL counts what it lets pass", || (matched(&testbed, "office-shop") > 0).then_some(()));
}

/// ACLs that keep connections, between tiers behind a router.
#[test]
fn tiers_that_ask_the_next_one_alone() {
    const QUERIES: u16 = 5432;
    let (scenario, testbed) = start("filtered-tiers");
    all_right(&scenario, &testbed);
    let lab = testbed.lab().unwrap();
    let at = |vm: &str, port: u16| SocketAddr::new(lab.vm(vm).unwrap().ip().unwrap(), port);
    for (from, to, port) in [
        ("store-db-1", "store-web-1", 80),
        ("store-app-1", "store-web-2", 443),
        ("store-web-1", "store-app-2", 8080),
        ("store-app-1", "store-db-1", QUERIES),
    ] {
        let [mut asks, mut answers] = connect(lab, from, (to, at(to, port)));
        passes(&mut asks, &mut answers);
        passes(&mut answers, &mut asks);
    }
    cannot_connect(lab, "store-web-1", ("store-db-1", at("store-db-1", QUERIES)));
    cannot_connect(lab, "store-app-1", ("store-db-1", at("store-db-1", QUERIES + 1)));
    cannot_connect(lab, "store-db-1", ("store-app-1", at("store-app-1", 8080)));
}

/// An ACL with a group of many addresses.
#[test]
fn ten_thousand_partners_and_one_more() {
    /// A member more is a flow on each host, whatever the size of the group. This leaves room for what else a release may need.
    const CHANGED: usize = 4;
    let (scenario, testbed) = start("large-group");
    all_right(&scenario, &testbed);
    let lab = testbed.lab().unwrap();
    let flows = || lab.hosts().unwrap().into_iter().map(|host| host.dump_flows("br-int").unwrap());
    let before: Vec<BTreeSet<String>> = flows().map(BTreeSet::from_iter).collect();
    assert!(before.iter().all(|flows| flows.len() > 10_000));

    let text = std::fs::read_to_string(&scenario.network).unwrap();
    let with_stranger = text.replace("addresses: [\n", "addresses: [\n  100.64.7.8,\n");
    assert_ne!(with_stranger, text);
    testbed.apply("large-group.yaml", &with_stranger).unwrap();
    testbed.wait_in_sync().unwrap();
    for (before, after) in before.iter().zip(flows()) {
        let after = BTreeSet::from_iter(after);
        let changed: Vec<&String> = before.symmetric_difference(&after).collect();
        assert!(changed.len() <= CHANGED, "{changed:#?}");
    }
    let mut scenario = scenario;
    let reached = ["exchange-server", "exchange-partner"].map(str::to_owned);
    scenario.reaches.insert("exchange-stranger".to_owned(), reached.into());
    all_right(&scenario, &testbed);
}

/// The packets that an ACL has matched on all hosts.
fn matched(testbed: &Testbed, acl: &str) -> u64 {
    let mut command = Command::new(weft());
    command.args(["get", "acl", acl, "--json", "--controller", &testbed.controller_address()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    object["state"]["counters"]["packets"].as_u64().unwrap_or_else(|| panic!("no counters: {object}"))
}

#[test]
fn a_chain_of_routers_over_a_transit_switch() {
    let (scenario, testbed) = start("transit");
    all_right(&scenario, &testbed);
}
