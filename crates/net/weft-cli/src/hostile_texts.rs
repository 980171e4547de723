//! Texts of hosts do not reach a terminal but as text, whichever command prints them (CWE-150).

use std::collections::BTreeMap;

use controller::client::{Drops, FloodDrops, FlowCounts, Flows, LearnedAddresses};
use controller::pb;
use nlog_data::quotation::{is_odd, shown_lines};

use crate::flood_drops::Drops as Counted;
use crate::{flood_drops, flow_counts, flows, learned, routes, tunnels};

/// The name of an interface that forges a line and paints it, in three ways.
const NAME: &str = "x\nhv2: in sync\u{1b}[31m\u{9b}31m\u{202e}\r";

fn unread() -> Vec<pb::UnreadSwitch> {
    vec![pb::UnreadSwitch { node: "hv1".into(), error: NAME.into() }]
}

/// What each command prints of answers with this name wherever a host has a say.
fn answers() -> Vec<(&'static str, String)> {
    let name = || NAME.to_owned();
    let tunnel = pb::Tunnel { name: name(), encap: "geneve".into(), remote: name(), bfd_interval: 0 };
    let patch = pb::Patch { name: name(), bridge: name(), peer: name() };
    let flows = Flows {
        flows: Vec::new(),
        buckets: Vec::new(),
        tunnels: vec![tunnel],
        patches: vec![patch],
        rules: Vec::new(),
    };
    let learned = LearnedAddresses {
        datapath: pb::ObjectRef { kind: "switch".into(), id: "blue".into() },
        ports: 1,
        hosts: 1,
        learned: Vec::new(),
        unread: unread(),
    };
    let floods = FloodDrops { drops: Vec::new(), unread: unread(), hosts: 1 };
    let causes = [("cause".to_owned(), name())].into();
    let counts = [("cause".to_owned(), [("hv1".to_owned(), (1, 1))].into())].into();
    let counts = FlowCounts {
        flows: 1,
        hosts: 1,
        counts: BTreeMap::new(),
        unread: unread(),
        drops: Some(Drops { causes, counts }),
    };
    let route = pb::Route { destination: "10.0.0.0/8".into(), why: name(), ..pb::Route::default() };
    let measured = pb::MeasuredTunnel { text: name(), ..pb::MeasuredTunnel::default() };
    vec![
        ("get flows", flows::to_text(&flows)),
        ("get learned-addresses", learned::to_text(&learned)),
        ("get flood-drops", flood_drops::to_text(&floods, Counted::Floods, None)),
        ("get ID", flow_counts::to_comments(&counts)),
        ("get status --drops", flow_counts::network_drops(&counts)),
        ("get routes", routes::to_text(&[route])),
        ("get tunnels", tunnels::to_text(&[measured])),
    ]
}

#[test]
fn d29_no_command_prints_a_control_character_or_a_line_of_a_host() {
    for (command, text) in answers() {
        let printed = shown_lines(&text);
        assert!(printed.contains("x\\nhv2: in sync\\u{1b}[31m"), "{command}: {printed}");
        assert!(!printed.contains(|c| c != '\n' && is_odd(c)), "{command}: {printed:?}");
        assert!(!printed.lines().any(|line| line.starts_with("hv2: in sync")), "{command}: {printed}");
    }
}

#[test]
fn d29_json_has_the_name_as_it_is() {
    let floods = FloodDrops { drops: Vec::new(), unread: unread(), hosts: 1 };
    let json: serde_json::Value =
        serde_json::from_str(&flood_drops::to_json(&floods, Counted::Floods)).expect("JSON");
    assert_eq!(json["error"], NAME);
}
