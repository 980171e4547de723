//! What hosts have learned, asked over the socket of a controller with the built-in rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller::ClientError;
use openflow_rs::{Field, FlowEntry};
use switch_model::{FlowKey, LearnedFlow};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with};
use crate::support::*;

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
    let nowhere = client.learned_addresses("open", false).await.unwrap();
    assert_eq!((&*nowhere.datapath.id, nowhere.ports, nowhere.hosts), ("open", 2, 0));

    running.switches.connect("hv1", report(&[("any-1", 101)], &[])).await;
    running.switches.connect("hv2", report(&[("any-2", 101)], &[])).await;
    let wanted = async {
        loop {
            let cookies = learners(&running.switches, "hv1");
            if cookies.len() == 2 && client.learned_addresses("open", false).await.unwrap().hosts == 2 {
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
    let found = client.learned_addresses("open", true).await.unwrap();
    let rows: BTreeMap<_, _> = found
        .learned
        .iter()
        .map(|row| ((row.count, row.limit, row.reached), (&*row.node, &*row.port, row.addresses.clone())))
        .collect();
    let (full, other) = (&rows[&(2, 2, true)], &rows[&(1, 2, false)]);
    assert_eq!((rows.len(), full.0, other.0), (2, "hv1", "hv1"), "{rows:?}");
    assert_eq!(full.2, ["02:00:00:00:00:01", "02:00:00:00:00:02"]);
    assert_eq!(other.2, ["02:00:00:00:00:03"]);
    let mut ports = [full.1, other.1];
    ports.sort_unstable();
    assert_eq!(ports, ["any-1", "any-2"]);
    // hv2 does not answer: the others are told nevertheless.
    let unread: Vec<_> = found.unread.iter().map(|unread| (&*unread.node, &*unread.error)).collect();
    assert_eq!(unread, [("hv2", "the switch is not connected")]);

    // A switch without such ports has nothing; what does not exist is refused.
    let blue = client.learned_addresses("blue", false).await.unwrap();
    assert_eq!((blue.ports, blue.hosts, blue.learned.len()), (0, 0, 0));
    let error = client.learned_addresses("nonsense", false).await.unwrap_err();
    assert!(matches!(error, ClientError::NotFound(_)), "{error}");
    running.stop().await;
}
