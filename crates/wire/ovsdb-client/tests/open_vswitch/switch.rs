//! The helpers of module `open_vswitch` against a real ovsdb-server, with an ovs-vswitchd where a change must come into
//! force.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{PATIENCE, connected, next_changes};
use crate::open_vswitch::proxy::Proxy;
use crate::open_vswitch::server::Server;
use ovsdb_client::open_vswitch::{
    Bridge, BridgeSpec, DATABASE, Ensured, Error, Interface, OpenVswitch, PortStatus, TunnelSpec,
    delete_ports, ensure_bridge, ensure_tunnels, interfaces_marked, monitor, transact_in_force,
};
use ovsdb_client::{Client, Endpoint, Event, MonitorSpec, Operation, Options, Replica, Row};
use tokio::sync::mpsc::Receiver;

fn int() -> BridgeSpec {
    BridgeSpec::secure("br-int", "netdev")
}

fn marked(spec: TunnelSpec) -> TunnelSpec {
    spec.external_id("owner", "us")
}

fn bridge(replica: &Replica, name: &str) -> Option<Bridge> {
    replica
        .rows(Bridge::TABLE)
        .map(|(uuid, row)| Bridge::from_row(uuid, row).unwrap())
        .find(|bridge| bridge.name == name)
}

fn interface(replica: &Replica, name: &str) -> Option<Interface> {
    replica
        .rows(Interface::TABLE)
        .map(|(uuid, row)| Interface::from_row(uuid, row).unwrap())
        .find(|interface| interface.name == name)
}

async fn start(server: &Server) -> (Client, Receiver<Event>) {
    let (client, mut events) = server.client(monitor());
    connected(&mut events).await;
    (client, events)
}

#[tokio::test]
async fn a_bridge_is_made_once_and_only_what_is_wrong_is_corrected() {
    let server = Server::start();
    let (client, mut events) = start(&server).await;
    assert_eq!(ensure_bridge(&client, &int(), None).await, Ok(Ensured::Created));
    next_changes(&mut events).await;
    let made = client.with_replica(|replica| bridge(replica, "br-int")).unwrap();
    assert_eq!((made.fail_mode.as_deref(), made.datapath_type.as_str()), (Some("secure"), "netdev"));
    let local = client.with_replica(|replica| interface(replica, "br-int")).unwrap();
    assert_eq!(local.interface_type, "internal");

    let size = server.log_size();
    assert_eq!(ensure_bridge(&client, &int(), None).await, Ok(Ensured::Unchanged));
    assert_eq!(server.log_size(), size, "something was written");

    server.vsctl(&[
        "set",
        "bridge",
        "br-int",
        "protocols=OpenFlow13",
        "external_ids:a=1",
        "other_config:b=2",
    ]);
    next_changes(&mut events).await;
    assert_eq!(ensure_bridge(&client, &int(), None).await, Ok(Ensured::Updated));
    let changes = next_changes(&mut events).await;
    let (old, new) = (changes[0].old.clone().unwrap(), changes[0].new.clone().unwrap());
    let changed: Vec<_> = new.columns().filter(|(name, datum)| old.datum(name) != Some(datum)).collect();
    assert_eq!(changed, [("protocols", &ovsdb_client::Datum::from("OpenFlow15"))]);
    assert_eq!(changes.len(), 1);

    server.vsctl(&[
        "clear",
        "bridge",
        "br-int",
        "fail_mode",
        "--",
        "set",
        "bridge",
        "br-int",
        "datapath_type=system",
    ]);
    assert_eq!(ensure_bridge(&client, &int(), None).await, Ok(Ensured::Updated));
    let corrected = client.with_replica(|replica| bridge(replica, "br-int")).unwrap();
    assert_eq!((&corrected.fail_mode, &corrected.datapath_type), (&made.fail_mode, &made.datapath_type));
    assert_eq!(corrected.external_ids.get("a").map(String::as_str), Some("1"), "left alone");
    // The empty datapath type is another name for system.
    server.vsctl(&["set", "bridge", "br-int", "datapath_type=\"\""]);
    assert_eq!(
        ensure_bridge(&client, &BridgeSpec::secure("br-int", "system"), None).await,
        Ok(Ensured::Unchanged)
    );
}

#[tokio::test]
async fn many_who_ensure_the_same_at_once_agree() {
    let server = Server::start();
    let clients: Vec<_> = (0..8).map(|_| server.client(MonitorSpec::nothing())).collect();
    let tunnel = marked(TunnelSpec::by_flow("gnv", "geneve"));
    let tasks: Vec<_> = clients
        .iter()
        .map(|(client, _)| {
            let (client, tunnel) = (client.clone(), tunnel.clone());
            tokio::spawn(async move {
                let made = ensure_bridge(&client, &int(), None).await.unwrap();
                (made, ensure_tunnels(&client, "br-int", &[tunnel], None).await.unwrap()[0].ensured)
            })
        })
        .collect();
    let mut created = (0, 0);
    for task in tasks {
        let (bridge, tunnel) = task.await.unwrap();
        created.0 += u32::from(bridge == Ensured::Created);
        created.1 += u32::from(tunnel == Ensured::Created);
    }
    assert_eq!(created, (1, 1));
}

#[tokio::test]
async fn an_empty_database_and_a_missing_bridge_are_told() {
    let server = Server(ovs_testing::OpenVswitch::start_uninitialised());
    let (client, _events) = server.client(MonitorSpec::nothing());
    assert_eq!(ensure_bridge(&client, &int(), None).await, Err(Error::NotInitialised));
    let tunnels = ensure_tunnels(&client, "br-int", &[TunnelSpec::by_flow("gnv", "geneve")], None).await;
    assert_eq!(tunnels, Err(Error::NoBridge { bridge: "br-int".to_owned() }));
}

#[tokio::test]
async fn tunnels_are_made_corrected_left_alone_and_deleted() {
    let server = Server::start();
    let (client, mut events) = start(&server).await;
    ensure_bridge(&client, &int(), None).await.unwrap();
    let specs = ["geneve", "vxlan", "gre"].map(|kind| marked(TunnelSpec::by_flow(format!("t-{kind}"), kind)));
    let ensure = async |specs: &[TunnelSpec]| {
        let outcomes = ensure_tunnels(&client, "br-int", specs, None).await.unwrap();
        outcomes.into_iter().map(|outcome| outcome.ensured).collect::<Vec<_>>()
    };
    while events.try_recv().is_ok() {}
    assert_eq!(ensure(&specs).await, [Ensured::Created; 3]);
    assert_eq!(
        next_changes(&mut events).await.len(),
        7,
        "one transaction: three interfaces, three ports, a bridge"
    );
    let size = server.log_size();
    assert_eq!(ensure(&specs).await, [Ensured::Unchanged; 3]);
    assert_eq!(server.log_size(), size, "something was written");

    // A wrong option, a foreign one, a lost mark, and an external id of somebody else.
    server.vsctl(&[
        "set",
        "interface",
        "t-vxlan",
        "options:key=7",
        "options:csum=true",
        "--",
        "set",
        "interface",
        "t-gre",
        "external_ids:owner=them",
        "external_ids:note=keep",
    ]);
    assert_eq!(ensure(&specs).await, [Ensured::Unchanged, Ensured::Updated, Ensured::Updated]);
    assert_eq!(ensure(&specs).await, [Ensured::Unchanged; 3]);
    let ids = |ids: &[(&str, &str)]| -> BTreeMap<String, String> {
        ids.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let gre = client.with_replica(|replica| interface(replica, "t-gre")).unwrap();
    assert_eq!(gre.external_ids, ids(&[("note", "keep"), ("owner", "us")]));
    let vxlan = client.with_replica(|replica| interface(replica, "t-vxlan")).unwrap();
    assert_eq!(vxlan.options, ids(&[("key", "flow"), ("remote_ip", "flow")]));

    let mut names: Vec<_> =
        interfaces_marked(&client, "owner", "us").await.unwrap().into_iter().map(|row| row.name).collect();
    names.sort();
    assert_eq!(names, ["t-geneve", "t-gre", "t-vxlan"]);
    assert_eq!(
        delete_ports(&client, "br-int", &["t-gre", "nothing"], None).await,
        Ok(vec!["t-gre".to_owned()])
    );
    assert_eq!(client.with_replica(|replica| interface(replica, "t-gre")), None);
    let size = server.log_size();
    assert_eq!(delete_ports(&client, "br-int", &["t-gre"], None).await, Ok(vec![]));
    assert_eq!(server.log_size(), size, "something was written");
}

#[tokio::test]
async fn ports_of_others_are_not_taken_over() {
    let server = Server::start();
    let (client, _events) = start(&server).await;
    ensure_bridge(&client, &int(), None).await.unwrap();
    server.vsctl(&[
        "add-br",
        "br-phy",
        "--",
        "add-port",
        "br-phy",
        "other",
        "--",
        "set",
        "interface",
        "other",
        "type=geneve",
    ]);
    server.vsctl(&["add-port", "br-int", "tap0", "--", "add-bond", "br-int", "bond0", "eth1", "eth2"]);
    let size = server.log_size();
    for (name, by) in
        [("other", "another bridge"), ("tap0", "no tunnel"), ("bond0", "bond"), ("eth1", "bond")]
    {
        let specs = [TunnelSpec::by_flow("fine", "geneve"), TunnelSpec::by_flow(name, "geneve")];
        let error = ensure_tunnels(&client, "br-int", &specs, None).await.unwrap_err();
        assert!(
            matches!(&error, Error::NameTaken { name: taken, by: whose } if taken == name && whose.contains(by)),
            "{error}"
        );
    }
    assert_eq!(delete_ports(&client, "br-int", &["other"], None).await, Ok(vec![]));
    assert_eq!(server.log_size(), size, "something was written");
}

#[tokio::test]
async fn without_a_vswitchd_nothing_comes_into_force() {
    let server = Server::start();
    let (client, _events) = start(&server).await;
    let patience = Duration::from_millis(200);
    let error = ensure_bridge(&client, &int(), Some(patience)).await.unwrap_err();
    assert!(matches!(error, Error::NotInForce { wanted: 1, reached: Some(0), .. }), "{error}");
    assert!(client.with_replica(|replica| bridge(replica, "br-int")).is_some(), "but it is committed");
}

#[tokio::test]
async fn what_is_waited_for_is_in_force() {
    let mut server = Server::start();
    server.start_vswitchd(&[]);
    let (client, _events) = start(&server).await;
    assert_eq!(ensure_bridge(&client, &int(), Some(Duration::MAX)).await, Ok(Ensured::Created));
    let local = client.with_replica(|replica| interface(replica, "br-int")).unwrap();
    assert_eq!((local.ofport, local.mac_in_use.map(|mac| mac.len())), (Some(65534), Some(17)));
    let root = |replica: &Replica| {
        let (uuid, row) = replica.rows(OpenVswitch::TABLE).next()?;
        let root = OpenVswitch::from_row(uuid, row).unwrap();
        root.iface_types.contains("geneve").then_some(root)
    };
    let root = client.wait_for(PATIENCE, root).await.unwrap();
    assert!(root.datapath_types.contains("netdev") && root.cur_cfg >= 1, "{root:?}");

    let kinds = ["geneve", "vxlan", "gre"];
    let specs = kinds.map(|kind| marked(TunnelSpec::by_flow(format!("t-{kind}"), kind)));
    let outcomes = ensure_tunnels(&client, "br-int", &specs, Some(PATIENCE)).await.unwrap();
    for outcome in &outcomes {
        assert!(matches!(outcome.status, PortStatus::Assigned(1..65280)), "{outcome:?}");
    }
    let again = ensure_tunnels(&client, "br-int", &specs, Some(Duration::MAX)).await.unwrap();
    let statuses = |outcomes: &[ovsdb_client::open_vswitch::TunnelOutcome]| {
        outcomes.iter().map(|outcome| outcome.status.clone()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(&again), statuses(&outcomes));

    // The same remote and key twice, and no remote at all: the switch says no, the database does not.
    let twice = TunnelSpec::by_flow("twice", "geneve");
    let mut nowhere = TunnelSpec::by_flow("nowhere", "vxlan");
    nowhere.options.clear();
    let failed = ensure_tunnels(&client, "br-int", &[twice, nowhere], Some(PATIENCE)).await.unwrap();
    for (outcome, says) in failed.iter().zip(["File exists", "remote_ip"]) {
        assert!(
            matches!(&outcome.status, PortStatus::Failed { error } if error.contains(says)),
            "{outcome:?}"
        );
    }

    // A database that goes and comes while something is awaited only delays it.
    let names = ["twice", "nowhere"];
    assert_eq!(delete_ports(&client, "br-int", &names, Some(PATIENCE)).await.unwrap().len(), 2);
    let many: Vec<_> = (1..=200)
        .map(|n| {
            marked(TunnelSpec::by_flow(format!("g{n}"), "geneve").option("remote_ip", format!("10.0.0.{n}")))
        })
        .collect();
    let outcomes = ensure_tunnels(&client, "br-int", &many, Some(PATIENCE)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome.status, PortStatus::Assigned(_))));
}

#[tokio::test]
async fn waiting_survives_a_restart_of_the_database() {
    let mut server = Server::start();
    let options = Options { backoff_min: Duration::from_millis(10), ..Options::default() };
    let (client, mut events) = Client::spawn(server.endpoint(), DATABASE, MonitorSpec::nothing(), options);
    connected(&mut events).await;
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move {
            let change = Operation::update(Row::new(OpenVswitch::TABLE).with("system_type", "x"), vec![]);
            transact_in_force(&client, vec![change], PATIENCE).await
        })
    };
    let committed = |replica: &Replica| {
        replica.rows(OpenVswitch::TABLE).any(|(_, row)| row.get("next_cfg") == Ok(1)).then_some(())
    };
    let (watcher, _watched) = server.client(monitor());
    watcher.wait_for(PATIENCE, committed).await.unwrap();
    // The reply must be through before the server goes.
    client.transact(&[Operation::Comment(String::new())]).await.unwrap();
    server.kill_database();
    crate::common::disconnected(&mut events).await;
    assert!(!waiting.is_finished());
    server.start_database();
    connected(&mut events).await;
    server.vsctl(&["set", "open_vswitch", ".", "cur_cfg=3"]);
    let outcomes = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(outcomes.0.len(), 1);
}

/// A client whose first transaction with a guard is overtaken by a foreign change.
fn overtaken(server: &Server, change: &[&str]) -> Client {
    let (database, mut change) = (server.path("db.sock"), Some(change.join(" ")));
    let listen = server.path("overtaken");
    let _ = std::fs::remove_file(&listen);
    let proxy = Proxy::start_with(&listen, &server.path("db.sock"), &[], move |message| {
        let guarded =
            message["params"].as_array().is_some_and(|all| all.iter().any(|one| one["op"] == "wait"));
        if let Some(change) = change.take_if(|_| guarded) {
            let changed = ovs_testing::vsctl(&database, &change.split(' ').collect::<Vec<_>>());
            changed.expect("ovs-vsctl succeeds");
        }
    });
    Client::spawn(Endpoint::Unix(proxy.path), DATABASE, MonitorSpec::nothing(), Options::default()).0
}

#[tokio::test]
async fn what_others_change_in_between_is_noticed() {
    let server = Server::start();
    let (direct, _events) = server.client(monitor());
    let tunnels = [marked(TunnelSpec::by_flow("gnv", "geneve"))];
    ensure_bridge(&direct, &int(), None).await.unwrap();

    let client = overtaken(&server, &["del-br", "br-int"]);
    let error = ensure_tunnels(&client, "br-int", &tunnels, None).await;
    assert_eq!(error, Err(Error::NoBridge { bridge: "br-int".to_owned() }));

    ensure_bridge(&direct, &int(), None).await.unwrap();
    server.vsctl(&["clear", "bridge", "br-int", "fail_mode"]);
    let client = overtaken(&server, &["del-br", "br-int"]);
    assert_eq!(ensure_bridge(&client, &int(), None).await, Ok(Ensured::Created));

    ensure_tunnels(&direct, "br-int", &tunnels, None).await.unwrap();
    server.vsctl(&["set", "interface", "gnv", "options:key=7"]);
    let client = overtaken(&server, &["del-port", "gnv"]);
    let outcomes = ensure_tunnels(&client, "br-int", &tunnels, None).await.unwrap();
    assert_eq!(outcomes[0].ensured, Ensured::Created);

    let client = overtaken(&server, &["del-br", "br-int"]);
    let error = delete_ports(&client, "br-int", &["gnv"], None).await;
    assert_eq!(error, Err(Error::NoBridge { bridge: "br-int".to_owned() }));
}
