//! What the flows of an object have counted, asked over the socket of a controller.

use network::ObjectKey;
use ovs_driver::{FlowCount, FlowKey};

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with};
use crate::support::*;

/// The flows of ports in table 1, which all hosts have, count for the switch, and for the port.
const COUNTED: &str = r#"
output table counted_flow(kind: string, id: string, table_id: int, priority: int, match: match);
counted_flow("switch", sw, 1, 100, match_reg1(label)) :- logical_switch_port(port, sw), port_label(port, label);
counted_flow("switch_port", port, 1, 100, match_reg1(label)) :- port_label(port, label);
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_counters_of_an_object_are_read_from_the_hosts_that_have_its_flows() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    let rules = rules(&format!("{RULES}{COUNTED}"));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    for host in ["hv1", "hv2"] {
        running.switches.connect(host, report(&[], &[])).await;
    }
    let flows = |host: &str| -> Vec<FlowKey> {
        running.switches.look(host, |switch| {
            let desired = switch.desired.as_ref().expect("a desired state");
            desired.flows.keys().filter(|key| key.table() == 1).cloned().collect()
        })
    };
    let keys = flows("hv1");
    assert!(keys.len() >= 2, "a flow for each port");
    let count = |number: u64| {
        let counted = |key: &FlowKey| FlowCount { key: key.clone(), packets: number, bytes: number * 100 };
        keys.iter().map(counted).collect::<Vec<_>>()
    };

    // Nobody has asked, so no switch was.
    assert!(running.switches.look("hv1", |switch| switch.asked.is_empty()));
    running.switches.pass("hv1", count(3));
    let found = client.flow_counts("switch_port", "blue-1").await.unwrap();
    assert_eq!((found.flows, found.hosts, found.total()), (1, 2, (3, 300)));
    let unread: Vec<_> = found.unread.iter().map(|unread| (&*unread.node, &*unread.error)).collect();
    assert_eq!(unread, [("hv2", "the switch is not connected")]);
    assert_eq!(running.switches.look("hv1", |switch| switch.asked.len()), 1, "one flow");

    running.switches.pass("hv2", count(4));
    let found = client.flow_counts("switch_port", "blue-1").await.unwrap();
    assert_eq!((found.total(), found.unread.len()), ((7, 700), 0));
    // The kind in the plural, as `weft get` takes it, and an object with several flows.
    let found = client.flow_counts("switches", "blue").await.unwrap();
    assert_eq!(found.total(), (7 * found.flows, 700 * found.flows));
    assert!(found.flows >= 2, "{found:?}");

    // Objects for which nothing counts ask nobody.
    let asked = || running.switches.look("hv1", |switch| switch.asked.len());
    let before = asked();
    for (kind, id) in [("transport_node", "hv1"), ("switch", "nowhere")] {
        assert_eq!(client.flow_counts(kind, id).await.unwrap(), controller::client::FlowCounts::default());
    }
    // A port that goes takes its flow with it.
    client.delete(&[ObjectKey::new("switch_port", "blue-1")], "test").await.unwrap();
    let found = client.flow_counts("switch_port", "blue-1").await.unwrap();
    assert_eq!((found.flows, asked()), (0, before));
    running.stop().await;
}
