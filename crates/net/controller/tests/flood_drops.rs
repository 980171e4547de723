//! What ports with a limit of floods have lost, asked over the socket of a controller with the built-in rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switch_model::{Desired, METER_MAX, Meter, MeterCount};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with};
use crate::support::*;

const FLOODS: &str = "flood-drops";
const CONNECTION_DROPS: &str = "connection-drops";

const PORTS: &str = "
{kind: switch, id: loud}
---
{kind: switch_port, id: loud-1, switch: loud, flood_limit: 100}
---
{kind: switch_port, id: loud-2, switch: loud, flood_limit: 2000}
---
{kind: switch_port, id: loud-3, switch: loud}
";

/// The meters of what is handed to the responder.
const RESPONSE_METERS: [u32; 4] = [80_001, 80_002, 80_003, 80_004];

/// The meters of a host that are for one port. It has five more, for common flows.
fn meters_of_ports(desired: &Desired) -> BTreeMap<u32, Meter> {
    let mut meters = desired.meters.clone();
    for common in RESPONSE_METERS.into_iter().chain([METER_MAX]) {
        assert!(meters.remove(&common).is_some(), "{meters:?}");
    }
    meters
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_are_given_meters_and_asked_what_they_have_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    apply(&mut client, PORTS).await.unwrap();
    assert_eq!(client.listing(FLOODS, None, false).await.unwrap().nodes, 0, "no limited port is on a host");

    running.switches.connect("hv1", report(&[("loud-1", 101), ("loud-3", 103)], &[])).await;
    running.switches.connect("hv2", report(&[("loud-2", 101)], &[])).await;
    let wanted = async {
        while client.listing(FLOODS, None, false).await.unwrap().nodes < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wanted).await.unwrap();
    let desired =
        |host| running.switches.look(host, |switch| switch.desired.clone().expect("a desired state"));
    let (first, second) = (meters_of_ports(&desired("hv1")), meters_of_ports(&desired("hv2")));
    assert_eq!(first.values().collect::<Vec<_>>(), [&Meter { rate: 100, burst: 10 }]);
    assert_eq!(second.values().collect::<Vec<_>>(), [&Meter { rate: 2000, burst: 200 }]);

    let meter = *first.keys().next().unwrap();
    running.switches.count("hv1", vec![MeterCount { meter, packets: 1000, bytes: 64_000, dropped: 890 }]);
    let found = client.listing(FLOODS, None, false).await.unwrap();
    assert_eq!(
        serde_json::json!(found.rows),
        serde_json::json!([{"port": "loud-1", "node": "hv1", "limit": 100, "frames": 1000, "dropped": 890}])
    );
    let unread: Vec<_> = found.unread.iter().map(|unread| (&*unread.node, &*unread.error)).collect();
    assert_eq!(unread, [("hv2", "the switch is not connected")]);
    let one = client.listing(FLOODS, Some("loud-2"), false).await.unwrap();
    assert_eq!((one.nodes, one.rows.len()), (1, 0));
    let none = client.listing(FLOODS, Some("loud-3"), false).await.unwrap();
    assert_eq!((none.nodes, none.rows.len()), (0, 0));
    running.stop().await;
}

const CONNECTIONS: &str = "
{kind: switch, id: busy, connections: {rate: 50, established: 600, unanswered: 30}}
---
{kind: switch_port, id: busy-1, switch: busy}
---
{kind: switch_port, id: busy-2, switch: busy}
---
{kind: acl, id: busy-1, port: busy-1, direction: from_port, priority: 1, action: allow_related}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_are_asked_which_connections_they_have_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    apply(&mut client, CONNECTIONS).await.unwrap();
    running.switches.connect("hv1", report(&[("busy-1", 101), ("busy-2", 102)], &[])).await;
    let wanted = async {
        while client.listing(CONNECTION_DROPS, None, false).await.unwrap().nodes < 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wanted).await.unwrap();
    let (meters, limits) = running.switches.look("hv1", |switch| {
        let desired = switch.desired.as_ref().expect("a desired state");
        (meters_of_ports(desired), desired.limits.clone())
    });
    assert_eq!(meters.values().collect::<Vec<_>>(), [&Meter { rate: 50, burst: 50 }]);
    assert_eq!(limits.values().map(|limits| limits.established).collect::<Vec<_>>(), [600]);
    let meter = *meters.keys().next().unwrap();
    running.switches.count("hv1", vec![MeterCount { meter, packets: 1000, bytes: 64_000, dropped: 890 }]);
    let found = client.listing(CONNECTION_DROPS, Some("busy-1"), false).await.unwrap();
    assert_eq!(
        serde_json::json!(found.rows),
        serde_json::json!([{"port": "busy-1", "node": "hv1", "limit": 50, "connections": 1000, "dropped": 890}])
    );
    assert_eq!(client.listing(CONNECTION_DROPS, Some("busy-2"), false).await.unwrap().nodes, 0);
    assert_eq!(client.listing(FLOODS, None, false).await.unwrap().nodes, 0, "another limit");
    running.stop().await;
}
