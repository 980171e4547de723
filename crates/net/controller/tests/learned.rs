//! What hosts have learned, asked over the socket of a controller with the built-in rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::{Field, FlowEntry};
use switch_model::{FlowKey, LearnedFlow};
use weft_client::ClientError;
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with};
use crate::support::*;

const LEARNED: &str = "learned-addresses";

/// Two ports that learn up to two addresses.
const PORTS: &str = "
{kind: switch, id: open, learning: {limit: 2, age: 300}}
---
{kind: switch_port, id: any-1, switch: open, unknown_addresses: true}
---
{kind: switch_port, id: any-2, switch: open, unknown_addresses: true}
";

/// The cookies of what a host is to learn, each with the datapath.
fn learners(switches: &Switches, host: &str) -> BTreeMap<u64, u128> {
    switches.look(host, |switch| {
        let flows = &switch.desired.as_ref().expect("a desired state").flows;
        let cookie = |(key, flow): (&FlowKey, &ovs_driver::Flow)| {
            let actions = flow.actions().expect("actions").to_string();
            let learn = actions.split_once("learn(")?.1;
            let cookie = learn.split_once("cookie=0x")?.1.split([',', ')']).next()?;
            let datapath = key.matching().expect("a match").get(Field::Metadata)?.0;
            Some((u64::from_str_radix(cookie, 16).expect("a cookie"), datapath))
        };
        flows.iter().filter_map(cookie).collect()
    })
}

fn learned(cookie: u64, datapath: u128, last: u8) -> LearnedFlow {
    let text =
        format!("table=21,priority=50,metadata={datapath:#x},dl_dst=02:00:00:00:00:{last:02x} actions=drop");
    let entry: FlowEntry = text.parse().expect("a flow");
    LearnedFlow::new(FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a key"), cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_of_a_switch_are_asked_how_many_addresses_each_port_has() {
    let folder = tempfile::tempdir().unwrap();
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    apply(&mut client, PORTS).await.unwrap();
    let nowhere = client.listing(LEARNED, Some("open"), false).await.unwrap();
    assert_eq!((nowhere.listing.kinds.as_slice(), nowhere.nodes), (&["switch".to_owned()][..], 0));

    running.switches.connect("hv1", report(&[("any-1", 101)], &[])).await;
    running.switches.connect("hv2", report(&[("any-2", 101)], &[])).await;
    let wanted = async {
        loop {
            let cookies = learners(&running.switches, "hv1");
            if cookies.len() == 2 && client.listing(LEARNED, Some("open"), false).await.unwrap().nodes == 2 {
                return cookies;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let cookies = tokio::time::timeout(Duration::from_mins(1), wanted).await.unwrap();
    let [(first, datapath), (second, _)] = cookies.into_iter().collect::<Vec<_>>()[..] else { panic!() };
    // hv1 has as many of one port as it may, and one of the other; one of another switch, and one of a port that is gone.
    let flows = [
        learned(first, datapath, 2),
        learned(first, datapath, 1),
        learned(second, datapath, 3),
        learned(first, datapath + 1, 4),
        learned(7, datapath, 5),
    ];
    running.switches.learn("hv1", flows.into());
    let found = client.listing(LEARNED, Some("open"), true).await.unwrap();
    let rows: BTreeMap<_, _> = found
        .rows
        .iter()
        .map(|row| {
            let counts = (row["count"].as_u64().unwrap(), row["limit"].as_u64().unwrap());
            let place = (row["node"].as_str().unwrap(), row["port"].as_str().unwrap());
            ((counts.0, counts.1, row["reached"] == true), (place.0, place.1, row["addresses"].clone()))
        })
        .collect();
    let (full, other) = (&rows[&(2, 2, true)], &rows[&(1, 2, false)]);
    assert_eq!((rows.len(), full.0, other.0), (2, "hv1", "hv1"), "{rows:?}");
    assert_eq!(full.2, serde_json::json!(["02:00:00:00:00:01", "02:00:00:00:00:02"]));
    assert_eq!(other.2, serde_json::json!(["02:00:00:00:00:03"]));
    let mut ports = [full.1, other.1];
    ports.sort_unstable();
    assert_eq!(ports, ["any-1", "any-2"]);
    // hv2 does not answer: the others are told nevertheless.
    let unread: Vec<_> = found.unread.iter().map(|unread| (&*unread.node, &*unread.error)).collect();
    assert_eq!(unread, [("hv2", "the switch is not connected")]);

    // A switch without such ports has nothing; what does not exist is refused.
    let blue = client.listing(LEARNED, Some("blue"), false).await.unwrap();
    assert_eq!((blue.nodes, blue.rows.len()), (0, 0));
    for (listing, id, why) in [
        (LEARNED, "nonsense", "switch nonsense does not exist"),
        (
            "mac-table",
            "blue",
            "the rules declare no listing mac-table; they declare acl-packets, connection-drops, ",
        ),
    ] {
        let error = client.listing(listing, Some(id), false).await.unwrap_err();
        assert!(matches!(error, ClientError::NotFound(_)) && error.to_string().contains(why), "{error}");
    }
    running.stop().await;
}
