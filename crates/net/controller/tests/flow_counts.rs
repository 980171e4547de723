//! What the flows of an object have counted, asked over the socket of a controller.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::time::Duration;

use controller::Parts;
use controller::config::CounterSettings;
use objects::ObjectKey;
use switch_model::{FlowCount, FlowKey, MeterCount};
use weft_client::{Changes, pb};

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start_with, within};
use crate::support::web::Web;
use crate::support::*;

/// The flows of ports in table 1, which all hosts have, count for the switch, and for the port.
const COUNTED: &str = "
counter table switch_packets(switch: ref switch, table_id: int, priority: int, match: match)
    reads flow(table_id, priority, match) as (packets: packets);
switch_packets(sw, 1, 100, match_reg1(label)) :- logical_switch_port(port, sw), port_label(port, label);
counter table port_packets(port: ref switch_port, table_id: int, priority: int, match: match)
    reads flow(table_id, priority, match) as (packets: packets);
port_packets(port, 1, 100, match_reg1(label)) :- port_label(port, label);
";

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
    assert_eq!((found.flows, found.nodes, found.total()), (1, 2, (3, 300)));
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
        assert_eq!(client.flow_counts(kind, id).await.unwrap(), weft_client::FlowCounts::default());
    }
    // A port that goes takes its flow with it.
    client.delete(&[ObjectKey::new("switch_port", "blue-1")], "test").await.unwrap();
    let found = client.flow_counts("switch_port", "blue-1").await.unwrap();
    assert_eq!((found.flows, asked()), (0, before));
    running.stop().await;
}

/// These counters are read each second.
fn each_second(name: &str) -> CounterSettings {
    CounterSettings { names: serde_json::from_value(name.into()).unwrap(), every: 1.try_into().unwrap() }
}

/// A series of the metrics.
async fn in_metrics(web: &mut Web, series: &str) -> Option<u64> {
    let text = web.get("/metrics").await.text;
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Waits for a reading that begins from now on.
async fn comes_to_be_read_again(web: &mut Web) {
    let series = "weft_counted_reading_seconds{counter=\"switch-packets\"}";
    let time = async |web: &mut Web| {
        let text = web.get("/metrics").await.text;
        text.lines().find_map(|line| line.strip_prefix(series).map(ToOwned::to_owned))
    };
    // The one that is under way may have begun before.
    for _ in 0..2 {
        let before = time(web).await;
        within(async {
            while time(web).await == before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

/// Waits until a series of the metrics has this value, or is not there any more.
async fn comes_to(web: &mut Web, series: &str, value: Option<u64>) {
    within(async {
        while in_metrics(web, series).await != value {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_that_the_configuration_names_add_up_in_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    let rules = rules_of_text(&format!("{RULES}{COUNTED}"));
    let counters = each_second("switch-packets");
    let running = start_with(Parts { counters, ..parts(folder.path(), rules, &switches) }, switches).await;
    let (mut client, mut web) = (running.client().await, running.web().await);
    apply(&mut client, NETWORK).await.unwrap();
    for host in ["hv1", "hv2"] {
        running.switches.connect(host, report(&[], &[])).await;
    }
    let flows: Vec<FlowKey> = running.switches.look("hv1", |switch| {
        switch.desired.as_ref().expect("a desired state").flows.keys().cloned().collect()
    });
    let pass = |packets: u64| {
        let count = |key: &FlowKey| FlowCount { key: key.clone(), packets, bytes: 100 * packets };
        running.switches.pass("hv1", flows.iter().map(count).collect());
    };
    // Another host does not answer.
    pass(3);
    let of_switches =
        |result: &str| format!("weft_counted_switches{{counter=\"switch-packets\",result=\"{result}\"}}");
    comes_to(&mut web, &of_switches("read"), Some(1)).await;
    assert_eq!(in_metrics(&mut web, &of_switches("unread")).await, Some(1));
    let packets = "weft_counted_packets_total{counter=\"switch-packets\",object=\"blue\"}";
    assert_eq!(in_metrics(&mut web, packets).await, Some(0), "nobody knows since when there were three");

    let flows_of_blue = client.flow_counts("switch", "blue").await.unwrap().flows;
    assert!(flows_of_blue >= 2, "{flows_of_blue}");
    pass(10);
    comes_to(&mut web, packets, Some(7 * flows_of_blue)).await;
    // The flows are written again.
    pass(2);
    comes_to(&mut web, packets, Some(9 * flows_of_blue)).await;
    // The switch has lost its flows, which come back.
    running.switches.pass("hv1", Vec::new());
    comes_to_be_read_again(&mut web).await;
    pass(4);
    comes_to(&mut web, packets, Some(13 * flows_of_blue)).await;
    // Only packets are counted.
    assert!(!web.get("/metrics").await.text.contains("weft_counted_bytes_total{"));

    // Other rules count nothing.
    let files = vec![pb::RulesFile { name: "test.nlog".to_owned(), text: RULES.to_owned() }];
    let (packages, by) = (vec!["test.nlog".to_owned()], "test".to_owned());
    let load = pb::LoadRulesRequest { files, packages, by, terms: Some(pb::Terms::default()) };
    client.change(Changes::LoadRules(load)).await.unwrap();
    comes_to(&mut web, packets, None).await;
    running.stop().await;
}

/// Flows that drop packets: of each port, of each switch, and one of each host. One of each port forwards, at a priority of a cause. Of
/// the two meters of each host, what comes to one is dropped.
const DROPS: &str = r#"
output table drop_cause(cause: string, text: string) key(cause);
output table dropping_flow(cause: string, table_id: int, first: int, last: int) key(table_id, first);
output table dropping_meter(cause: string, meter: int) key(meter);
drop_cause("refused", "nobody may send it");
drop_cause("lost", "nobody has it");
dropping_flow("refused", 5, 10, 20);
dropping_flow("lost", 6, 0, 0);
output table of_meter(hv: string, meter: int, rate: int, burst: int) key(hv, meter);
dropping_meter("lost", 3);
of_meter(hv, meter, 1, 1) :- transport_node(id: hv, ..), dropping_meter(_, meter);
of_meter(hv, 4, 1, 1) :- transport_node(id: hv, ..);
table logical_port_flow(port: string, table_id: int, priority: int, match: match, actions: actions);
table logical_flow(switch: string, table_id: int, priority: int, match: match, actions: actions);
logical_port_flow(port, 5, 15, match_reg1(label), actions[]) :- port_label(port, label);
logical_port_flow(port, 5, 16, match_reg1(label), set_reg0(7)) :- port_label(port, label);
logical_flow(sw, 6, 0, match{}, actions[]) :- logical_switch(sw, _);
of_flow(hv, 5, 10, match{}, actions[]) :- transport_node(id: hv, ..);
of_flow(hv, id, priority, matching & match_metadata(datapath), actions) :-
    transport_node(id: hv, ..), logical_port_flow(port, id, priority, matching, actions),
    logical_switch_port(port, sw), datapath_label(sw, datapath);
of_flow(hv, id, priority, matching & match_metadata(datapath), actions) :-
    transport_node(id: hv, ..), logical_flow(sw, id, priority, matching, actions), datapath_label(sw, datapath);
"#;

/// A controller whose rules name what drops packets, with two hosts.
async fn dropping(folder: &Path, counters: CounterSettings) -> Running {
    let switches = Switches::default();
    // By its names, the controller knows the table.
    let labelled = RULES.replace(
        "datapath_label(sw: string, label: int) key(sw)",
        "datapath_label(datapath: string, label: int) key(datapath)",
    );
    assert_ne!(labelled, RULES);
    let rules = rules(&format!("{labelled}{DROPS}"));
    let running = start_with(Parts { counters, ..parts(folder, rules, &switches) }, switches).await;
    apply(&mut running.client().await, NETWORK).await.unwrap();
    for host in ["hv1", "hv2"] {
        running.switches.connect(host, report(&[], &[])).await;
    }
    running
}

/// Each flow and each meter of the two hosts has counted so many packets.
fn count(running: &Running, packets: [u64; 2]) {
    for (host, packets) in ["hv1", "hv2"].into_iter().zip(packets) {
        let keys: Vec<FlowKey> = running.switches.look(host, |switch| {
            switch.desired.as_ref().expect("a desired state").flows.keys().cloned().collect()
        });
        let counted = |key: FlowKey| FlowCount { key, packets, bytes: packets * 100 };
        running.switches.pass(host, keys.into_iter().map(counted).collect());
        let meters: Vec<u32> = running.switches.look(host, |switch| {
            switch.desired.as_ref().expect("a desired state").meters.keys().copied().collect()
        });
        assert_eq!(meters, [3, 4]);
        let counted = |meter| MeterCount { meter, packets, bytes: packets * 100, dropped: 0 };
        running.switches.count(host, meters.into_iter().map(counted).collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drops_are_those_of_the_object_its_ports_the_host_or_all_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let running = dropping(folder.path(), controller::Config::default().counters()).await;
    let mut client = running.client().await;
    count(&running, [1, 2]);
    let by_cause = |found: &weft_client::FlowCounts| -> Vec<(String, (u64, u64))> {
        let drops = found.drops.as_ref().expect("drops are counted");
        assert_eq!(drops.causes["lost"], "nobody has it");
        drops.by_cause().map(|(cause, counts)| (cause.to_owned(), counts)).collect()
    };
    let lost = |packets| ("lost".to_owned(), (packets, packets * 100));
    let refused = |packets| ("refused".to_owned(), (packets, packets * 100));

    let port = client.flow_counts("switch_port", "blue-1").await.unwrap();
    assert_eq!((port.flows, port.nodes, by_cause(&port)), (0, 2, vec![refused(3)]));
    let of_port = port.drops.as_ref().map(|drops| &drops.counts["refused"]);
    assert_eq!(of_port, Some(&[("hv1".to_owned(), (1, 100)), ("hv2".to_owned(), (2, 200))].into()));
    // Its two ports count too.
    let switch = client.flow_counts("switch", "blue").await.unwrap();
    assert_eq!(by_cause(&switch), [lost(3), refused(6)]);
    // The ports and switches of both, and the flow and the meter of the host.
    let host = client.flow_counts("transport_node", "hv1").await.unwrap();
    assert_eq!((host.nodes, by_cause(&host)), (1, vec![lost(3), refused(4)]));
    let before = running.switches.look("hv1", |switch| switch.asked.len());
    let network = client.drops_everywhere().await.unwrap();
    assert_eq!((network.nodes, by_cause(&network)), (2, vec![lost(9), refused(12)]));
    // Only flows without actions drop.
    let asked = running.switches.look("hv1", |switch| switch.asked[before..].to_vec());
    let with_actions = asked.iter().filter(|key| (key.table(), key.priority()) == (5, 16)).count();
    assert_eq!((asked.len(), with_actions), (6, 0));

    // A network that is not there drops nothing, and asks nobody.
    let nothing = client.flow_counts("switch_port", "nobody").await.unwrap();
    assert_eq!(nothing, weft_client::FlowCounts::default());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drops_by_cause_add_up_in_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let running = dropping(folder.path(), each_second("drops")).await;
    let mut web = running.web().await;
    count(&running, [1, 2]);
    comes_to(&mut web, "weft_counted_switches{counter=\"drops\",result=\"read\"}", Some(2)).await;
    let lost = "weft_dropped_packets_total{cause=\"lost\"}";
    assert_eq!(in_metrics(&mut web, lost).await, Some(0));
    // Three more of each flow and meter: of a host, three count for one cause and four for the other.
    count(&running, [2, 4]);
    comes_to(&mut web, lost, Some(9)).await;
    assert_eq!(in_metrics(&mut web, "weft_dropped_packets_total{cause=\"refused\"}").await, Some(12));
    assert_eq!(in_metrics(&mut web, "weft_dropped_bytes_total{cause=\"lost\"}").await, Some(900));
    running.stop().await;
}
