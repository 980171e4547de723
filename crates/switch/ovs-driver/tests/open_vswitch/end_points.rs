//! Wrong endpoints, names that are taken, and ports that keep changing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{adding, refused_total};
use ovs_driver::{Changes, Channel, Config, Desired, Edits, Event, Timing, Tunnel};

fn geneve() -> Tunnel {
    Tunnel { encap: "geneve".parse().unwrap(), remote: "flow".parse().unwrap() }
}

fn dpid(ovs: &Switch, bridge: &str) -> String {
    ovs.vsctl(&["get", "bridge", bridge, "datapath_id"]).trim().trim_matches('"').to_owned()
}

#[tokio::test]
async fn the_socket_of_another_bridge_gets_nothing_and_neither_does_the_database() {
    let ovs = Switch::start();
    for bridge in ["br-int", "br-other"] {
        ovs.vsctl(&["add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"]);
    }
    let other = ovs.bridge("br-other");
    let add = |flow: &str| ovs.try_ofctl(&["add-flow", &other, flow]).unwrap();
    ovs.vsctl(&["set", "bridge", "br-other", "fail_mode=secure"]);
    add("table=3,priority=7,ip actions=output:1");
    let before = ovs.try_ofctl(&["--no-stats", "dump-flows", &other]).unwrap();
    let rows = || ovs.vsctl(&["--columns=name,ports,fail_mode,protocols", "list", "bridge"]);
    let bridges = rows();

    let config = Config { openflow: other.parse().unwrap(), ..ovs.config() };
    let mut driven = Driven::start(config);
    let desired = Desired {
        flows: flows(&["table=1, actions=drop"]),
        tunnels: [("gnv".to_owned(), geneve())].into(),
        ..Desired::default()
    };
    driven.handle.set_desired(Arc::new(desired));
    let why = driven.disconnected(Channel::OpenFlow).await;
    let says = format!(
        "{other}: answers as the bridge with datapath id {}, but br-int in the database at {} has datapath id {}",
        dpid(&ovs, "br-other"),
        ovs.database(),
        dpid(&ovs, "br-int")
    );
    assert!(why.starts_with(&says), "{why}\n{says}");
    assert_eq!(ovs.try_ofctl(&["--no-stats", "dump-flows", &other]).unwrap(), before);
    assert_eq!(rows(), bridges);
    driven.handle.end().await;

    // With the right socket both get what they should have.
    let mut driven = Driven::start(ovs.config());
    let desired = Desired {
        flows: flows(&["table=1, actions=drop"]),
        tunnels: [("gnv".to_owned(), geneve())].into(),
        ..Desired::default()
    };
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await.1, 1);
    assert_eq!(ovs.try_ofctl(&["--no-stats", "dump-flows", &other]).unwrap(), before);
}

#[tokio::test]
async fn a_port_is_created_once_its_name_is_free() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven
        .handle
        .set_desired(Arc::new(Desired { flows: flows(&["table=1, actions=drop"]), ..Desired::default() }));
    driven.synced().await;
    ovs.vsctl(&["add-port", "br-int", "gnv", "--", "set", "interface", "gnv", "type=internal"]);
    let tunnels: BTreeMap<String, Tunnel> = [("gnv".to_owned(), geneve())].into();
    driven.handle.push(1, Changes { tunnels: Edits::add(tunnels), ..Changes::default() });
    assert_eq!(driven.wait("the refusal", refused_total).await, 1);
    // Another change of the database does not make it possible.
    ovs.vsctl(&["add-port", "br-int", "eth9", "--", "set", "interface", "eth9", "type=internal"]);
    ovs.vsctl(&["del-port", "gnv"]);
    let none = |event: &Event| (refused_total(event) == Some(0)).then_some(());
    driven.wait("nothing refused", none).await;
    assert_eq!(ovs.vsctl(&["get", "interface", "gnv", "type"]).trim(), "geneve");
    let refusals = driven.seen.iter().filter(|event| matches!(event, Event::Refused { .. })).count();
    // The second one if the driver had not heard of the other port when it tried first.
    assert!(refusals <= 2, "{:#?}", driven.seen);
}

/// Ports are changed again as soon as the last change is under way, for as long as the flow is not there.
#[tokio::test]
async fn flows_are_sent_although_ports_keep_changing() {
    let ovs = Switch::start();
    let timing = Timing::default();
    let mut driven = Driven::start_with(ovs.config(), timing);
    driven
        .handle
        .set_desired(Arc::new(Desired { flows: flows(&["table=1, actions=drop"]), ..Desired::default() }));
    driven.synced().await;
    driven.handle.push(1, adding(&["table=2, actions=drop"]));
    let deadline = tokio::time::Instant::now() + crate::support::driven::PATIENCE;
    let mut txn = 1;
    let mut tunnels = |n: u64| {
        txn += 1;
        let tunnel = Tunnel { remote: format!("172.31.0.{}", n % 200 + 1).parse().unwrap(), ..geneve() };
        (txn, Changes { tunnels: Edits::add([("gnv".to_owned(), tunnel)]), ..Changes::default() })
    };
    let mut confirmed = false;
    for n in 0.. {
        assert!(tokio::time::Instant::now() < deadline, "the flow waits for ports that keep changing");
        let (txn, changes) = tunnels(n);
        driven.handle.push(txn, changes);
        while let Ok((_, event)) = driven.events.try_recv() {
            confirmed |= matches!(event, Event::Confirmed { txn: 1, .. });
        }
        if confirmed {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_micros(200)).await;
    }
    assert!(ovs.flows().iter().any(|flow| flow.contains("table=2")), "{:?}", ovs.flows());
}
