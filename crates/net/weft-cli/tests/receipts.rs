//! Receipts of transactions after the controller was killed, with hosts that speak the real protocols.

use std::fs;
use std::time::{Duration, Instant};

use fake_switch::{FakeDatabase, FakeSwitch};
use serde_json::Value as Json;
use weft_client::Client;
use weft_client::pb::Receipt;
use weft_client::pb::switch_receipt::State;

use crate::routes::Controller;

/// Whatever is waited for comes within this time.
const DEADLINE: Duration = Duration::from_mins(1);

/// A host, and objects: it and a port.
pub(crate) fn host(controller: &Controller, number: u64) -> ((FakeDatabase, FakeSwitch), String) {
    let [ovsdb, openflow] = ["db", "of"].map(|name| controller.folder.path(&format!("{name}{number}")));
    let (database, switch) = (FakeDatabase::start(&ovsdb).unwrap(), FakeSwitch::start(&openflow).unwrap());
    let id = FakeSwitch::DATAPATH_ID + number;
    switch.datapath_id(id);
    database.datapath_id("br-int", id);
    let port = format!("p{number}");
    let [ovsdb, openflow] = [ovsdb, openflow].map(|path| format!("unix:{}", path.display()));
    let objects = format!(
        "{{kind: transport_node, id: hv{number}, ip: 172.16.0.{number}, ovsdb: '{ovsdb}', openflow: '{openflow}'}}\n---\n\
         {{kind: switch_port, id: {port}, switch: blue, addresses: [{{mac: '02:00:00:00:00:0{number}'}}]}}\n"
    );
    ((database, switch), objects)
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

fn receipt(runtime: &tokio::runtime::Runtime, controller: &Controller, txn: u64) -> Receipt {
    runtime.block_on(async {
        let mut client = Client::connect(&controller.address()).await.unwrap();
        let settled = tokio::time::timeout(DEADLINE, client.settled(txn));
        settled.await.expect("it is there").unwrap().expect("the controller runs")
    })
}

#[test]
fn a_receipt_is_the_same_after_the_controller_was_killed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let mut controller = Controller::start();
    let (hosts, objects): (Vec<_>, Vec<_>) = (1..=2).map(|number| host(&controller, number)).unzip();
    let network = format!("{{kind: switch, id: blue}}\n---\n{}", objects.join("---\n"));
    controller.folder.write("network.yaml", network);
    let network = controller.folder.path("network.yaml");
    controller.weft(&["apply", "-f", network.to_str().unwrap(), "--wait"]).has_status(0);
    for (number, (database, _)) in (1..).zip(&hosts) {
        let port = format!("p{number}");
        assert!(database.plug("br-int", &port, &[("iface-id", &port)]).unwrap());
    }
    until("both ports are known and in force", || {
        let status = controller.weft(&["status", "--json"]);
        let status: Json = serde_json::from_str(&status.has_status(0).stdout).unwrap();
        let switches = status["switches"].as_array().expect("switches").iter();
        switches.filter(|switch| switch["synced"] == true && switch["vifs"] == 1).count() == 2
    });

    let port = |number: u32| {
        let address = format!("{{mac: '02:00:00:00:00:0{number}'}}");
        format!(
            "{{kind: switch_port, id: p{number}, switch: blue, addresses: [{address}], port_security: true}}"
        )
    };
    controller.folder.write("ports.yaml", format!("{}\n---\n{}\n", port(1), port(2)));
    let ports = controller.folder.path("ports.yaml");
    let applied = controller.weft(&["apply", "-f", ports.to_str().unwrap(), "--json", "--wait"]);
    let applied: Json = serde_json::from_str(&applied.has_status(0).stdout).unwrap();
    let txn = applied["txn"].as_u64().expect("a transaction");
    let before = receipt(&runtime, &controller, txn);
    let states: Vec<_> = before.switches.iter().map(|switch| (&*switch.node, switch.state())).collect();
    assert_eq!(states, [("hv1", State::Confirmed), ("hv2", State::Confirmed)]);
    assert!(before.switches.iter().all(|switch| switch.flows_added > 0 && switch.confirmed_us.is_some()));

    // The writer may be a moment behind.
    let begin = format!("{{\"txn\":{txn},");
    until("the receipt is on disk", || {
        let text = fs::read_to_string(controller.folder.path("state/receipts/00000001.jsonl")).unwrap();
        let of_it = text.lines().filter(|line| line.starts_with(&begin));
        of_it.map(|line| line.matches("{\"confirmed\":").count()).sum::<usize>() == 2
    });
    controller.restart();
    assert_eq!(receipt(&runtime, &controller, txn), before);
    drop(hosts);
}
