//! Conntrack zones and counters of flows with a whole controller, by a package beside the built-in rules.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use lab::Host;
use testbed::reach::who_reaches_whom;
use testbed::tenants::{Departures, NAMES, NETWORK, machines};
use testbed::{Settings, Testbed};

use super::network::wait_for;
use crate::support::Folder;

/// Zone 7 of hv1 has the owner that a label of switch acme names. All that enters hv1 counts for it.
const PACKAGE: &str = r#"
import "builtin/interface/driver.nlog";
import "builtin/interface/layout.nlog";
import "builtin/interface/objects.nlog";

conntrack_zone("hv1", 7, owner) :- object_label("switch", "acme", "owner", owner);

## The packets of a host that are classified.
counter table classified(node: ref transport_node, table_id: int, priority: int, match: match)
    reads flow(table_id, priority, match) as (packets: packets, bytes: bytes);
classified("hv1", table_id, priority, matching) :-
    of_flow("hv1", table_id, priority, matching, _), table_id = CLASSIFY;
"#;

/// A UDP packet from 10.0.0.1 to 10.0.0.2.
const DATAGRAM: &str =
    "02000000000202000000000108004500002000010000401166ca0a0000010a00000203e90035000c000077656674";

/// Commits a connection in the zone.
fn connect(host: &Host) {
    let packet = format!("in_port=controller packet={DATAGRAM} actions=ct(commit,zone=7)");
    host.ofctl(&["packet-out", "br-int", &packet]).unwrap();
    assert!(is_connected(host), "{:?}", host.appctl(&["dpctl/dump-conntrack"]));
}

fn is_connected(host: &Host) -> bool {
    host.appctl(&["dpctl/dump-conntrack"]).unwrap().contains("sport=1001")
}

/// Gives the zone an owner, and waits for the switches if a controller runs.
fn give(testbed: &Testbed, owner: &str) {
    let network = NETWORK.replace("id: acme\n", &format!("id: acme\nlabels: {{owner: {owner}}}\n"));
    assert_ne!(network, NETWORK);
    testbed.apply("owner.yaml", &network).unwrap();
    testbed.wait_in_sync().unwrap();
}

fn weft(testbed: &Testbed, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weft"));
    let output = command.args(arguments).args(["--controller", &testbed.controller_address()]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The number behind a comment.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {name}: ")));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

#[test]
fn connections_survive_the_controller_and_not_their_owner_and_packets_are_counted_when_somebody_asks() {
    let rules = Folder::new();
    rules.write("zones.nlog", PACKAGE);
    let settings = Settings {
        rules: vec![Path::new("builtin").to_path_buf(), rules.path("zones.nlog")],
        ..Settings::new(format!("zones-{}", std::process::id()), env!("CARGO_BIN_EXE_weft"))
    };
    let mut testbed = Testbed::start(settings).unwrap();
    testbed.wait_in_sync().unwrap();
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_sync().unwrap();
    let host = testbed.lab().unwrap().host("hv1").unwrap();

    connect(&host);
    give(&testbed, "one");
    assert!(!is_connected(&host), "the zone was not flushed for its first owner");
    connect(&host);
    testbed.kill_controller().unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    assert!(is_connected(&host), "the connection was lost with the controller");
    give(&testbed, "two");
    assert!(!is_connected(&host), "the second owner has a connection of the first");

    let enough = |reach: &_| Departures::of(reach) == Departures::default();
    who_reaches_whom(testbed.lab().unwrap(), &NAMES, enough).unwrap();
    let get = ["get", "transport_node", "hv1"];
    wait_for("packets are counted", || (number(&weft(&testbed, &get), "packets") > 20).then_some(()));
    let json = weft(&testbed, &["get", "transport_node", "hv1", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let counters = &json["state"]["counters"];
    assert!(counters["bytes"].as_u64() > counters["packets"].as_u64(), "{json}");
    assert!(
        !weft(&testbed, &["get", "transport_node", "hv2"]).contains("# packets"),
        "nothing counts for it"
    );

    // A switch that is away is named, and the controller gives it its mark again.
    host.kill_vswitchd().unwrap();
    let is_missed = || weft(&testbed, &get).contains("# not counted: hv1: ").then_some(());
    wait_for("the host is missed", is_missed);
    host.start_vswitchd().unwrap();
    testbed.wait_in_sync().unwrap();
    connect(&host);
    testbed.kill_controller().unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    assert!(is_connected(&host), "the mark of the zone was lost with the switch");
}
