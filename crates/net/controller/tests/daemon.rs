//! A whole controller: the interface over a unix socket, the journal on disk, switches in the test's hands.

use weft_client::pb::switch_receipt::State;
use weft_client::pb::{self, Outcome};
use weft_client::{Client, ClientError};

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, status_when, within};
use crate::support::*;
use controller::{Daemon, Parts};
use objects::ObjectKey;
use switch_model::{Channel, Event};
use tokio_stream::StreamExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_in_flows_come_out_and_everything_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    let mut receipts = Box::pin(client.receipts(None).await.unwrap());

    let accepted = apply(&mut client, NETWORK).await.unwrap();
    assert_eq!(accepted.txn, Some(1));
    assert_eq!(accepted.objects.len(), 7);
    assert!(accepted.objects.iter().all(|object| object.outcome() == Outcome::Created));
    let again = apply(&mut client, NETWORK).await.unwrap();
    assert_eq!(again.txn, None);
    assert!(again.objects.iter().all(|object| object.outcome() == Outcome::Unchanged));

    // The switches are not connected: the first receipt is complete at once.
    let receipt = within(receipts.next()).await.unwrap().unwrap();
    assert_eq!((receipt.txn, &*receipt.by, receipt.complete), (1, "test", true));
    assert!(receipt.journalled_us >= receipt.computed_us);
    let states: Vec<_> =
        receipt.switches.iter().map(|switch| (&*switch.node, switch.state(), switch.flows_added)).collect();
    assert_eq!(states, [("hv1", State::Offline, 3), ("hv2", State::Offline, 3)]);

    // A report is a transaction; its receipt is pending until the switch confirms.
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    let receipt = within(receipts.next()).await.unwrap().unwrap();
    assert_eq!((receipt.txn, &*receipt.by, receipt.complete), (2, "switch hv1", false));
    running.switches.confirm("hv1").await;
    let receipt = within(client.settled(2)).await.unwrap().unwrap();
    assert_eq!(receipt.switches[0].state(), State::Confirmed);
    assert!(receipt.switches[0].confirmed_us() >= receipt.journalled_us);

    let status = status_when(&mut client, |status| status.switches[0].synced).await;
    assert_eq!(status.last_txn, 2);
    assert_eq!(status.objects["switch_port"], 3);
    let hv1 = &status.switches[0];
    assert_eq!(
        (hv1.connected, hv1.pending, hv1.confirmed_txn, hv1.flows, hv1.tunnels, hv1.vifs),
        (true, 0, Some(2), 4, 1, 1)
    );
    assert_eq!((hv1.sync_flow_mods, &*hv1.last_error), (Some(0), ""));
    assert!(!status.switches[1].connected);

    let flows = client.flows("hv1").await.unwrap();
    assert_eq!(flows.tunnels.len(), 1);
    let first = &flows.flows[0];
    assert_eq!(
        (first.table_id, first.priority, &*first.r#match, &*first.actions),
        (0, 100, "reg0=0x101", "output:5")
    );
    let rule = flows.rules.iter().find(|rule| rule.fingerprint == first.cookie).unwrap();
    assert!(rule.text.contains("vif(hv, port, ofport, _, _)"), "{rule:?}");
    assert_eq!(flows.rules.len(), 2, "each rule once");
    assert_eq!(running.switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap())).len(), 5);

    let ports = client.get("switch_port", None).await.unwrap();
    assert_eq!(ports.len(), 3);
    assert_eq!(
        client.get("switch", Some("blue")).await.unwrap(),
        [r#"{"kind":"switch","id":"blue","tenant":"acme"}"#]
    );
    let deleted = client.delete(&[ObjectKey::new("switch_port", "blue-1")], "test").await.unwrap();
    assert_eq!((deleted.txn, deleted.objects[0].outcome()), (Some(3), Outcome::Deleted));
    assert_eq!(running.switches.look("hv1", |switch| switch.pushed.clone()), [2, 3]);

    running.stop().await;
    // A stream of receipts ends with the controller, and so does its socket.
    while within(receipts.next()).await.is_some_and(|receipt| receipt.is_ok()) {}
    assert!(!folder.path().join("weft.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_with_every_fault_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;

    let error = apply(
        &mut client,
        "{kind: switch, id: 'a b'}\n---\n{kind: switch_port, id: p, switch: s, adresses: []}",
    );
    let ClientError::Refused(refusal) = error.await.unwrap_err() else { panic!("not refused") };
    assert_eq!((&*refusal.code, &*refusal.message), ("bad-object", "2 faults; nothing was applied"));
    let faults: Vec<_> =
        refusal.faults.iter().map(|fault| (&*fault.code, fault.place, &*fault.path)).collect();
    // The reference to the switch without a proper name is no fault of its own.
    assert_eq!(faults, [("bad-value", Some(1), "id"), ("unknown-field", Some(2), "adresses")]);
    assert_eq!(
        refusal.faults[1].text,
        "net.yaml:3: switch_port p: adresses: unknown field; did you mean `addresses`?"
    );

    let objects =
        vec![r#"{"kind": "switch", "id": "s"}"#.to_owned(), r#"{"kind": "switch", "id": 7}"#.to_owned()];
    let error = client.apply_objects(objects, "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "request: object 2: switch: id: must be text, not a number; write it in quotes"
    );
    assert_eq!(client.status().await.unwrap().last_txn, 0);
    assert_eq!(apply(&mut client, "{kind: switch, id: s}").await.unwrap().txn, Some(1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_the_rules_has_its_code_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();

    let clash = "{kind: switch, id: c1, tenant: clash}\n---\n{kind: switch, id: c2, tenant: clash}";
    let ClientError::Refused(refusal) = apply(&mut client, clash).await.unwrap_err() else {
        panic!("not refused")
    };
    assert_eq!(&*refusal.code, "key-conflict");
    let reserved = "{kind: switch, id: mine, tenant: reserved}";
    let ClientError::Refused(refusal) = apply(&mut client, reserved).await.unwrap_err() else {
        panic!("not refused")
    };
    assert_eq!(
        (&*refusal.code, &*refusal.message),
        ("forbidden", r#"Nobody is tenant `reserved`: reserved_tenant(sw: "mine")"#)
    );
    assert_eq!(client.get("switch", None).await.unwrap().len(), 2);
    let error = client.delete(&[ObjectKey::new("switch", "blue")], "test").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "switch blue: is in use by switch_port blue-1, switch_port blue-2; delete the objects that refer to it first"
    );
    for (kind, id, wanted) in [
        ("switch", Some("green"), "switch green does not exist"),
        ("swich", None, "kind \"swich\": unknown kind; did you mean `switch`?"),
        ("switches", Some("green"), "switch green does not exist"),
    ] {
        let error = client.get(kind, id).await.unwrap_err();
        assert!(matches!(error, ClientError::NotFound(_)), "{error}");
        assert_eq!(error.to_string(), wanted);
    }
    assert!(matches!(client.flows("hv9").await.unwrap_err(), ClientError::NotFound(_)));
    assert_eq!(apply(&mut client, "{kind: switch, id: green}").await.unwrap().txn, Some(2));
    assert_eq!(client.status().await.unwrap().last_txn, 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_knows_what_it_knew_before_any_switch_answers() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5), ("red-1", 6)], &[("weft-geneve", 1)])).await;
    status_when(&mut client, |status| status.last_txn == 2).await;
    client.delete(&[ObjectKey::new("switch_port", "blue-1")], "test").await.unwrap();
    apply(&mut client, "{kind: switch_port, id: blue-3, switch: blue}").await.unwrap();
    let before = client.flows("hv1").await.unwrap();
    let switches = running.switches.clone();
    let desired = switches.look("hv1", |switch| switch.desired.clone());
    running.stop().await;

    for round in 0..2 {
        let running = start(folder.path()).await;
        let mut client = running.client().await;
        assert_eq!(running.switches.look("hv1", |switch| switch.desired.clone()), None, "round {round}");
        let after = client.flows("hv1").await.unwrap();
        assert_eq!((&after.flows, &after.tunnels), (&before.flows, &before.tunnels), "round {round}");
        // The first report says what was known, except for what no object has any more.
        running.switches.connect("hv1", report(&[("blue-1", 5), ("red-1", 6)], &[("weft-geneve", 1)])).await;
        let status = status_when(&mut client, |status| status.switches[0].synced).await;
        assert_eq!((status.last_txn, status.switches[0].vifs), (5, 1));
        assert_eq!(running.switches.look("hv1", |switch| switch.desired.clone()), desired, "round {round}");
        running.stop().await;
    }
    // The journal replays, line by line.
    let journal = std::fs::read_to_string(folder.path().join("state/journal.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 5);
    let rules = rules(RULES);
    let mut evaluator = reference(&rules);
    for (line, number) in journal.lines().zip(1..) {
        let line = nlog_data::json::parse_line(line.as_bytes(), number, &rules.program().schema).unwrap();
        evaluator.commit(&line.transaction).unwrap();
    }
    let flows = evaluator.contents(rules.program().schema.find("of_flow").unwrap()).unwrap();
    assert_eq!(
        flows.iter().filter(|row| row[0] == nlog_data::Value::String("hv1".into())).count(),
        before.flows.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_follow_transport_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let switches = running.switches.clone();
    let config = switches.look("hv1", |switch| switch.config.clone());
    assert_eq!((&*config.bridge, config.ovsdb.to_string()), ("br-int", "unix:/run/hv1/db.sock".to_owned()));

    // Other endpoints get another driver; what the old one still says does not count.
    switches.connect("hv1", report(&[], &[])).await;
    status_when(&mut client, |status| status.switches[0].synced).await;
    let moved = "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'tcp:172.16.0.1:6640', openflow: 'unix:/run/hv1/br-int.mgmt', datapath_type: netdev}";
    apply(&mut client, moved).await.unwrap();
    let status = client.status().await.unwrap();
    assert!(!status.switches[0].connected);
    let (started, config, flows) =
        switches.look("hv1", |switch| (switch.started, switch.config.clone(), switch.desired.clone()));
    assert_eq!((started, config.ovsdb.to_string()), (2, "tcp:172.16.0.1:6640".to_owned()));
    assert_eq!(config.datapath_type.as_deref(), Some("netdev"));
    // It may be another switch, whose ports have other numbers. So nothing is written to it before it has reported.
    assert_eq!(flows, None);
    switches.connect("hv1", report(&[], &[])).await;
    within(async {
        while switches.look("hv1", |switch| switch.desired.clone()).is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(switches.look("hv1", |switch| switch.desired.clone()).unwrap().flows.len(), 3);

    // A node that says too little is told so.
    apply(&mut client, "{kind: transport_node, id: hv3, ip: 172.16.0.3}").await.unwrap();
    let status = client.status().await.unwrap();
    assert_eq!(
        status.switches[2].last_error,
        "ovsdb: is not set, and the controller has no address where switches dial in: set `ovsdb` of this node, or `listen_ovsdb` in the \
         configuration of the controller"
    );

    // A connected switch is let go when it has taken away what was ours; one that is not, at once.
    switches.connect("hv1", report(&[], &[])).await;
    status_when(&mut client, |status| status.switches[0].synced).await;
    let keys = ["hv1", "hv2"].map(|id| ObjectKey::new("transport_node", id));
    let deleted = client.delete(&keys, "test").await.unwrap();
    let txn = deleted.txn.unwrap();
    // Who asked is told what stays.
    assert!(
        deleted.warnings[0].starts_with("transport node hv2: its switch: left unchanged: "),
        "{deleted:?}"
    );
    assert_eq!(deleted.warnings.len(), 1);
    assert!(switches.look("hv1", |switch| switch.running));
    assert!(!switches.look("hv2", |switch| switch.running));
    assert_eq!(switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap())), Vec::<String>::new());
    switches.confirm("hv1").await;
    let receipt = within(client.settled(txn)).await.unwrap().unwrap();
    let states: Vec<State> = receipt.switches.iter().map(pb::SwitchReceipt::state).collect();
    assert_eq!(states, [State::Confirmed, State::Offline]);
    // Its bridge is still marked as this controller's.
    assert!(switches.look("hv1", |switch| switch.running));
    switches.event("hv1", Event::Left).await;
    within(async {
        while switches.look("hv1", |switch| switch.running) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receipt_of_a_node_with_other_end_points_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    // A status can come before the transaction is pushed.
    within(async {
        while !running.switches.look("hv1", |switch| switch.pushed.contains(&2)) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.switches.confirm("hv1").await;
    assert!(within(client.settled(2)).await.unwrap().unwrap().complete);
    // Its tunnel changes, which the switch would have to confirm; but its driver ends.
    let moved = "{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [vxlan], ovsdb: 'unix:/run/other/db.sock', openflow: 'unix:/run/other/br-int.mgmt'}";
    let accepted = apply(&mut client, moved).await.unwrap();
    assert_eq!(accepted.reconnecting, ["hv1"]);
    let receipt = within(client.settled(accepted.txn.unwrap())).await.unwrap().unwrap();
    let states: Vec<_> = receipt.switches.iter().map(|switch| (&*switch.node, switch.state())).collect();
    assert_eq!(states, [("hv1", State::Offline)]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_with_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    apply(&mut client, "{kind: switch, id: a, tenant: odd}").await.unwrap();
    let status = client.status_of(vec!["hv2".to_owned(), "hv9".to_owned()]).await.unwrap();
    let names: Vec<_> = status.switches.iter().map(|switch| &*switch.node).collect();
    assert_eq!((names, status.problems.len(), status.objects["switch_port"]), (vec!["hv2"], 0, 3));
    // A list is as long as it is, whatever fits into one message.
    let ports: Vec<_> = (0..2500)
        .map(|n| format!(r#"{{"kind": "switch_port", "id": "p{n:04}", "switch": "blue"}}"#))
        .collect();
    client.apply_objects(ports, "test").await.unwrap();
    let ports = client.get("switch_port", None).await.unwrap();
    assert_eq!((ports.len(), ports.is_sorted()), (2503, true));
    assert_eq!(client.status().await.unwrap().objects["switch_port"], 2503);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_comes_whole_or_as_differences() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    let mut whole = Box::pin(client.receipts(None).await.unwrap());
    let endpoint = tonic::transport::Endpoint::from_shared(running.endpoint()).unwrap();
    let mut raw = pb::controller_client::ControllerClient::new(endpoint.connect().await.unwrap());
    let mut watch = async |differences| {
        let request = pb::WatchReceiptsRequest { differences, ..Default::default() };
        raw.watch_receipts(request).await.unwrap().into_inner()
    };
    let (mut plain, mut partial) = (watch(false).await, watch(true).await);
    for hv in ["hv1", "hv2"] {
        apply(&mut client, NETWORK).await.unwrap();
        running.switches.connect(hv, report(&[], &[])).await;
    }
    status_when(&mut client, |status| status.switches.iter().all(|switch| switch.connected)).await;
    let txn = apply(&mut client, "{kind: switch_port, id: p, switch: blue}").await.unwrap().txn.unwrap();
    running.switches.confirm("hv2").await;
    let confirmed = |receipt: &pb::Receipt| {
        let states = receipt.switches.iter().map(|switch| (switch.node.clone(), switch.state()));
        states.collect::<Vec<_>>()
    };
    let of_both = [("hv1".to_owned(), State::Pending), ("hv2".to_owned(), State::Confirmed)];
    let last = |receipt: &pb::Receipt| receipt.txn == txn && confirmed(receipt).contains(&of_both[1]);
    let seen = within(async {
        loop {
            let receipt = partial.message().await.unwrap().unwrap();
            if last(&receipt) {
                return receipt;
            }
        }
    });
    let seen = seen.await;
    assert!(seen.partial && !seen.complete, "{seen:?}");
    assert_eq!(confirmed(&seen), of_both[1..]);
    let seen = within(async {
        loop {
            let receipt = plain.message().await.unwrap().unwrap();
            if last(&receipt) {
                return receipt;
            }
        }
    });
    let seen = seen.await;
    assert_eq!((confirmed(&seen), &*seen.by), (of_both.to_vec(), "test"));
    let seen = within(async {
        loop {
            let receipt = whole.next().await.unwrap().unwrap();
            if last(&receipt) {
                return receipt;
            }
        }
    });
    assert_eq!(confirmed(&seen.await), of_both);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_misbehaves_shows_in_its_status_and_hinders_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let switches = running.switches.clone();
    switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    status_when(&mut client, |status| status.switches[0].pending == 1 && status.last_txn == 2).await;
    switches.connect("hv2", report(&[("blue-2", 5)], &[])).await;
    status_when(&mut client, |status| status.switches[1].pending == 1 && status.last_txn == 3).await;
    switches.confirm("hv2").await;
    let error_is = |text: &'static str| {
        move |status: &pb::StatusResponse| status.switches[0].last_error == text && !status.switches[0].synced
    };

    let first =
        vec![ovs_driver::Rejection { what: "table=0".to_owned(), reason: "OFPBMC_BAD_FIELD".to_owned() }];
    switches.event("hv1", Event::Refused { txn: Some(2), count: 1, first }).await;
    switches.event("hv1", Event::RefusedTotal { refused: 1 }).await;
    let status = status_when(&mut client, error_is("refused table=0: OFPBMC_BAD_FIELD")).await;
    assert_eq!(status.switches[0].pending, 0);
    let receipt = within(client.settled(2)).await.unwrap().unwrap();
    assert_eq!(
        (receipt.switches[0].state(), &*receipt.switches[0].error),
        (State::Refused, "refused table=0: OFPBMC_BAD_FIELD")
    );

    let txn = apply(&mut client, "{kind: switch_port, id: red-2, switch: red}").await.unwrap().txn.unwrap();
    switches.event("hv1", Event::Confirmed { txn, at: std::time::Instant::now(), sent: None }).await;
    // A later transaction in force does not mean that what was refused is.
    status_when(&mut client, |status| status.switches[0].confirmed_txn == Some(txn)).await;
    status_when(&mut client, error_is("refused table=0: OFPBMC_BAD_FIELD")).await;
    status_when(&mut client, |status| status.switches[0].refused == 1).await;
    // It is mended: all is well, without a new connection.
    switches.event("hv1", Event::RefusedTotal { refused: 0 }).await;
    let status = status_when(&mut client, |status| status.switches[0].synced).await;
    assert_eq!((&*status.switches[0].last_error, status.switches[0].refused), ("", 0));
    let txn = apply(&mut client, "{kind: switch_port, id: red-3, switch: red}").await.unwrap().txn.unwrap();
    let why = "unix:/run/hv1/br-int.mgmt: connection reset".to_owned();
    switches.event("hv1", Event::Disconnected { channel: Channel::OpenFlow, why }).await;
    status_when(&mut client, error_is("unix:/run/hv1/br-int.mgmt: connection reset")).await;
    switches.confirm("hv2").await;
    let receipt = within(client.settled(txn)).await.unwrap().unwrap();
    let states: Vec<State> = receipt.switches.iter().map(pb::SwitchReceipt::state).collect();
    assert_eq!(states, [State::Offline, State::Confirmed]);

    // It comes back, is compared and confirms: all is well.
    switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    switches.confirm("hv1").await;
    let status = status_when(&mut client, |status| status.switches.iter().all(|switch| switch.synced)).await;
    assert_eq!(status.switches[0].last_error, "");

    let mut odd = report(&[("blue-1", 5)], &[]);
    odd.problems.push(ovs_driver::Problem { what: "weft-stt".to_owned(), why: "no such type".to_owned() });
    switches.event("hv1", Event::Report(odd)).await;
    status_when(&mut client, |status| status.switches[0].last_error == "weft-stt: no such type").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rules_say_of_objects_is_told_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, "{kind: switch, id: a, tenant: odd}\n---\n{kind: switch, id: b}").await.unwrap();
    let text = "its tenant is odd".to_owned();
    let found = client.get_with_states("switch", None).await.unwrap();
    let states: Vec<_> = found.into_iter().map(|(_, state)| state).collect();
    let state = |problems| pb::ObjectState {
        columns: r#"{"mtu":1442}"#.to_owned(),
        problems,
        created: 1,
        changed: 1,
    };
    assert_eq!(states, [state(vec![text.clone()]), state(Vec::new())]);
    let problems = client.status().await.unwrap().problems;
    let object = pb::ObjectRef { kind: "switch".to_owned(), id: "a".to_owned() };
    let since = problems[0].since.clone();
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    assert_eq!(problems, [pb::Problem { object: Some(object), text, code: "odd".to_owned(), since }]);

    apply(&mut client, "{kind: switch, id: a}").await.unwrap();
    assert!(client.status().await.unwrap().problems.is_empty());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_outlive_the_controller_and_say_no_more_than_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    status_when(&mut client, |status| status.last_txn == 2).await;
    running.switches.confirm("hv1").await;
    let confirmed = within(client.settled(2)).await.unwrap().unwrap();
    running.switches.connect("hv2", report(&[("blue-2", 6)], &[])).await;
    status_when(&mut client, |status| status.last_txn == 3).await;
    let first = within(client.settled(1)).await.unwrap().unwrap();
    running.stop().await;

    let running = start(folder.path()).await;
    let mut client = running.client().await;
    assert_eq!(within(client.settled(1)).await.unwrap().unwrap(), first);
    assert_eq!(within(client.settled(2)).await.unwrap().unwrap(), confirmed);
    let pending = within(client.settled(3)).await.unwrap().unwrap();
    let states: Vec<_> = pending.switches.iter().map(|switch| (&*switch.node, switch.state())).collect();
    assert_eq!((states, &*pending.by), (vec![("hv2", State::Unknown)], "switch hv2"));

    let mut web = running.web().await;
    for (txn, state) in [(2, "confirmed"), (3, "unknown")] {
        let receipt = web.get(&format!("/v1/transactions/{txn}")).await;
        assert_eq!(receipt.expect(200)["switches"][0]["state"], state);
    }

    // All of them, then those of this start.
    let mut receipts = Box::pin(client.receipts(Some(1)).await.unwrap());
    apply(&mut running.client().await, "{kind: switch, id: green}").await.unwrap();
    for txn in 1..=4 {
        assert_eq!(within(receipts.next()).await.unwrap().unwrap().txn, txn);
    }
    let mut receipts = Box::pin(client.receipts(Some(2)).await.unwrap());
    for txn in 2..=4 {
        assert_eq!(within(receipts.next()).await.unwrap().unwrap().txn, txn);
    }

    let error = within(client.settled(5)).await.unwrap_err();
    assert!(matches!(error, ClientError::NotFound(_)), "{error}");
    assert_eq!(error.to_string(), "there is no receipt of transaction 5 yet; the last transaction is 4");
    running.stop().await;

    std::fs::remove_dir_all(folder.path().join("state/receipts")).unwrap();
    let running = start(folder.path()).await;
    let error = within(running.client().await.settled(4)).await.unwrap_err();
    assert!(matches!(error, ClientError::NotFound(_)), "{error}");
    let said = "the receipt of transaction 4 is not kept: receipts are kept for 24 hours, and at most 100 MB of them";
    assert!(error.to_string().starts_with(said), "{error}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_interface_shows_in_the_status_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    apply(
        &mut client,
        "{kind: switch, id: red, tenant: single}\n---\n{kind: switch_port, id: red-2, switch: red}",
    )
    .await
    .unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5), ("red-1", 6), ("red-2", 7)], &[])).await;
    let refused = |status: &pb::StatusResponse| !status.switches[0].last_error.is_empty();
    let status = status_when(&mut client, refused).await;
    let hv1 = &status.switches[0];
    assert!(hv1.last_error.contains("vif red-2: key-conflict: "), "{}", hv1.last_error);
    assert_eq!(hv1.vifs, 2);

    apply(&mut client, "{kind: switch, id: red, tenant: acme}").await.unwrap();
    let mended = |status: &pb::StatusResponse| status.switches[0].vifs == 3 && !refused(status);
    status_when(&mut client, mended).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let switches = Switches::default();
    let start_error = |parts: Parts| async move {
        match Daemon::start(parts).await {
            Ok(_) => panic!("started"),
            Err(error) => error.to_string(),
        }
    };

    // The same state folder, and the same socket with another folder.
    let error = start_error(parts(folder.path(), rules(RULES), &switches)).await;
    assert!(error.contains("another controller uses this state folder (process "), "{error}");
    let mut other = parts(folder.path(), rules(RULES), &switches);
    other.state = folder.path().join("other");
    let error = start_error(other).await;
    assert!(error.starts_with("cannot listen on unix:/") && error.contains("in use"), "{error}");
    running.client().await.status().await.unwrap();
    running.stop().await;

    // Nobody answers at an address that nobody has.
    let endpoint = format!("unix:{}", folder.path().join("weft.sock").display());
    let error = Client::connect(&endpoint).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("no controller answers at {endpoint}: ")), "{error}");
    assert!(matches!(Client::connect("unix:weft.sock").await.unwrap_err(), ClientError::BadEndpoint { .. }));

    // A socket left behind by a killed process is replaced.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("weft.sock")).unwrap());
    let running = start(folder.path()).await;
    running.client().await.status().await.unwrap();
    running.stop().await;

    // A journal that the rules refuse.
    let refusing = RULES.replace("flow_output_action(ofport)) :-", "flow_output_action(ofport - 6)) :-");
    let mut again = start(folder.path()).await;
    apply(&mut again.client().await, NETWORK).await.unwrap();
    again.switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    status_when(&mut again.client().await, |status| status.last_txn == 2).await;
    again.stop().await;
    let error = start_error(parts(folder.path(), rules(&refusing), &switches)).await;
    assert!(error.contains("the rules refuse the journal's state: range: "), "{error}");
    assert!(error.contains(" (the rule at "), "{error}");
    // Nothing was spoilt.
    again = start(folder.path()).await;
    assert_eq!(again.client().await.status().await.unwrap().last_txn, 2);
    again.stop().await;
}
