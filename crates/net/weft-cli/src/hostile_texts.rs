//! Texts of hosts do not reach a terminal but as text, whichever command prints them (CWE-150).

use std::collections::BTreeMap;

use nlog_data::quotation::{is_odd, shown_lines};
use weft_client::pb;
use weft_client::{Drops, FlowCounts, Flows, ListingRows};

use crate::{flow_counts, flows, listing, tunnels};

/// The name of an interface that forges a line and paints it, in three ways.
const NAME: &str = "x\nhv2: in sync\u{1b}[31m\u{9b}31m\u{202e}\r";

fn unread() -> Vec<pb::UnreadSwitch> {
    vec![pb::UnreadSwitch { node: "hv1".into(), error: NAME.into() }]
}

/// An answer of no host.
fn unread_rows() -> ListingRows {
    ListingRows { unread: unread(), nodes: 1, ..ListingRows::default() }
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
    let causes = [("cause".to_owned(), name())].into();
    let counts = [("cause".to_owned(), [("hv1".to_owned(), (1, 1))].into())].into();
    let counts = FlowCounts {
        flows: 1,
        nodes: 1,
        counts: BTreeMap::new(),
        unread: unread(),
        drops: Some(Drops { causes, counts }),
    };
    let why = pb::ListingColumn { name: "why".into(), ..pb::ListingColumn::default() };
    let listing = pb::Listing { columns: vec![why], ..pb::Listing::default() };
    let row = [("why".to_owned(), name().into())].into_iter().collect();
    let listed = ListingRows { listing, rows: vec![row], ..ListingRows::default() };
    let measured = pb::MeasuredTunnel { text: name(), ..pb::MeasuredTunnel::default() };
    vec![
        ("get flows", flows::to_text(&flows)),
        ("get flood-drops", listing::to_text(&unread_rows(), false)),
        ("get ID", flow_counts::to_comments(&counts)),
        ("get status --drops", flow_counts::network_drops(&counts)),
        ("get routing-table", listing::to_text(&listed, false)),
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
    let json: serde_json::Value = serde_json::from_str(&listing::to_json(&unread_rows())).expect("JSON");
    assert_eq!(json["error"], NAME);
}
