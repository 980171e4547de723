//! A controller that is stopped and started again begins with the rows that it has saved, and its switches hear nothing of it.

use std::path::Path;
use std::time::Instant;

use fake_switch::{FakeDatabase, FakeSwitch};
use weft_client::Client;
use weft_client::pb::SwitchStatus;

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE};

/// What a start from saved rows logs.
const FROM_SAVED: &str = "the engine starts from saved rows";

fn network(ovsdb: &Path, openflow: &Path) -> String {
    format!(
        "
{{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:{}', openflow: 'unix:{}'}}
---
{{kind: transport_node, id: hv2, ip: 172.16.0.2}}
---
{{kind: switch, id: blue}}
---
{}",
        ovsdb.display(),
        openflow.display(),
        port(1)
    )
}

fn port(number: u64) -> String {
    format!(
        "{{kind: switch_port, id: p{number}, switch: blue, addresses: [{{mac: '02:00:00:00:00:0{number}', ips: [10.0.0.{number}]}}]}}"
    )
}

async fn apply(client: &mut Client, text: &str) {
    client.apply([("net.yaml".to_owned(), text.to_owned())], "test").await.unwrap();
}

/// Waits until the switch of hv1 has what it should have, and that is for so many interfaces.
async fn settled(client: &mut Client, vifs: u64) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = client.status().await.unwrap();
        let is_settled = |switch: &&SwitchStatus| {
            switch.node == "hv1" && switch.connected && switch.synced && switch.pending == 0
        };
        if status.switches.iter().find(is_settled).is_some_and(|switch| switch.vifs == vifs) {
            return;
        }
        assert!(Instant::now() < deadline, "{status:#?}");
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_restart_begins_with_saved_rows_and_sends_switches_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let folder = Folder::new();
    let [ovsdb, openflow] = ["db", "of"].map(|name| folder.path(name));
    let (database, switch) = (FakeDatabase::start(&ovsdb).unwrap(), FakeSwitch::start(&openflow).unwrap());
    switch.datapath_id(FakeSwitch::DATAPATH_ID + 1);
    database.datapath_id("br-int", FakeSwitch::DATAPATH_ID + 1);

    let mut controller = Controller::start(&folder);
    let mut client = runtime.block_on(controller.client(&folder));
    runtime.block_on(async {
        apply(&mut client, &network(&ovsdb, &openflow)).await;
        // The controller adds the bridge.
        settled(&mut client, 0).await;
        assert!(database.plug("br-int", "vif1", &[("iface-id", "p1")]).unwrap());
        settled(&mut client, 1).await;
    });
    assert!(!Controller::log(&folder).contains(FROM_SAVED));
    let flows = switch.flows();
    assert!(!flows.is_empty());
    controller.terminate();
    assert!(Controller::log(&folder).contains("the rows of the engine are saved"));

    let before = switch.counts();
    let mut controller = Controller::start(&folder);
    let mut client = runtime.block_on(controller.client(&folder));
    runtime.block_on(settled(&mut client, 1));
    let log = Controller::log(&folder);
    assert!(log.contains(FROM_SAVED), "{log}");
    let after = switch.counts();
    assert!(after.connections > before.connections);
    let mods = |counts: fake_switch::openflow::Counts| {
        [counts.flow_mods, counts.group_mods, counts.meter_mods, counts.commits]
    };
    assert_eq!(mods(after), mods(before));
    assert_eq!(switch.flows(), flows);

    // What has come since the file was saved is in the journal.
    runtime.block_on(async {
        apply(&mut client, &port(2)).await;
        assert!(database.plug("br-int", "vif2", &[("iface-id", "p2")]).unwrap());
        settled(&mut client, 2).await;
    });
    controller.kill();
    let flows = switch.flows();
    let before = switch.counts();
    let mut controller = Controller::start(&folder);
    let mut client = runtime.block_on(controller.client(&folder));
    runtime.block_on(settled(&mut client, 2));
    let log = Controller::log(&folder);
    assert!(log.contains(FROM_SAVED), "{log}");
    assert_eq!(mods(switch.counts()), mods(before));
    assert_eq!(switch.flows(), flows);
    // A start that stops without a change leaves the file as it is.
    let file = || std::fs::metadata(folder.path("state/engine.rows")).unwrap().modified().unwrap();
    controller.terminate();
    let saved = file();
    let mut controller = Controller::start(&folder);
    runtime.block_on(controller.client(&folder));
    controller.terminate();
    assert_eq!(file(), saved);
}
