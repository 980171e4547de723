//! The driver against a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::{flow, flows};
use crate::support::setting::eventually;
use ovs_driver::{Changes, Channel, Desired, Edits, Event, FlowKey, Timing, Tunnel};

fn tunnels(tunnels: &[(&str, &str, &str)]) -> BTreeMap<String, Tunnel> {
    let tunnel =
        |encap: &str, remote: &str| Tunnel { encap: encap.parse().unwrap(), remote: remote.parse().unwrap() };
    tunnels.iter().map(|(name, encap, remote)| ((*name).to_owned(), tunnel(encap, remote))).collect()
}

const FLOWS: [&str; 5] = [
    "cookie=0x11, priority=100,in_port=1 actions=set_field:0x1->metadata,set_field:0x101->reg0,resubmit(,20)",
    "cookie=0x12, table=1, priority=100,tun_id=0x101 actions=set_field:0x101->reg1,resubmit(,40)",
    "cookie=0x13, table=20, priority=100,metadata=0x1,dl_dst=02:00:00:00:00:01 actions=set_field:0x101->reg1,resubmit(,40)",
    "cookie=0x14, table=14, priority=90,arp,metadata=0x1,arp_tpa=10.0.0.1,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],IN_PORT",
    "cookie=0x15, table=40, reg1=0x101,metadata=0x1 actions=output:1",
];

fn sorted(texts: &[&str]) -> Vec<String> {
    let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn an_empty_switch_is_brought_up_and_a_right_one_is_left_alone() {
    let ovs = Switch::start();
    let desired = Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() });

    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (FLOWS.len(), 0));
    assert_eq!(ovs.flows(), sorted(&FLOWS));
    assert_eq!(ovs.flow_mods(), FLOWS.len());
    let bridge = ovs.vsctl(&["get", "bridge", "br-int", "fail_mode", "protocols", "datapath_type"]);
    assert_eq!(bridge.split_whitespace().collect::<Vec<_>>(), ["secure", "[OpenFlow15]", "netdev"]);
    drop(driven);

    let mut again = Driven::start(ovs.config());
    again.handle.set_desired(desired);
    assert_eq!(again.synced().await, (0, 0));
    assert_eq!(ovs.flow_mods(), FLOWS.len(), "a switch that is right gets no flow-mod at all");
}

#[tokio::test]
async fn foreign_and_wrong_flows_are_corrected_and_right_ones_not_touched() {
    let ovs = Switch::start();
    let desired = Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() });
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    drop(driven);

    // One flow has another action, two another cookie, one is missing, one has a timeout; three are foreign, of
    // which one has a match that the driver cannot read.
    ovs.ofctl(&["mod-flows", "BRIDGE", "table=40,reg1=0x101 actions=output:2"]);
    ovs.ofctl(&["add-flow", "BRIDGE", &FLOWS[0].replace("0x11", "0x99")]);
    ovs.ofctl(&["add-flow", "BRIDGE", &FLOWS[3].replace("0x14", "0x99")]);
    ovs.ofctl(&["del-flows", "BRIDGE", "table=1"]);
    ovs.ofctl(&["add-flow", "BRIDGE", &FLOWS[2].replace("table=20", "hard_timeout=1000,table=20")]);
    ovs.ofctl(&["add-flow", "BRIDGE", "table=0,priority=0 actions=NORMAL"]);
    ovs.ofctl(&["add-flow", "BRIDGE", "table=20,priority=100,metadata=0x2 actions=drop"]);
    ovs.ofctl(&["add-flow", "BRIDGE", "table=7,priority=3,tun_gbp_id=3 actions=drop"]);
    let before = ovs.flow_mods();

    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired);
    let synced = driven.synced().await;
    assert_eq!(synced, (8, 0), "{:#?}", driven.seen);
    assert_eq!(ovs.flows(), sorted(&FLOWS));
    assert_eq!(ovs.flow_mods() - before, 8);
}

#[tokio::test]
async fn a_restart_of_vswitchd_is_healed_and_nothing_pushed_meanwhile_is_lost() {
    let mut ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() }));
    driven.synced().await;
    // Counting makes the daemon write its log before it is killed.
    assert_eq!(ovs.flow_mods(), FLOWS.len());

    ovs.kill_vswitchd();
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("br-int.mgmt"), "{why}");
    let changes = Changes {
        flows: Edits {
            add: flows(&["cookie=0x77, table=50, priority=5,reg0=0x5 actions=output:5"]),
            delete: flows(&FLOWS[1..2]).into_keys().collect(),
        },
        ..Changes::default()
    };
    driven.handle.push(7, changes);
    ovs.start_vswitchd();
    driven.confirmed(7).await;
    let mut expected = sorted(&FLOWS);
    expected.retain(|flow| flow != FLOWS[1]);
    expected.push("cookie=0x77, table=50, priority=5,reg0=0x5 actions=output:5".to_owned());
    expected.sort();
    assert_eq!(ovs.flows(), expected);
    assert_eq!(ovs.flow_mods(), 2 * FLOWS.len());
}

#[tokio::test]
async fn tunnels_are_created_reported_changed_and_removed_and_those_of_others_left_alone() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    let desired = Desired {
        flows: flows(&FLOWS),
        tunnels: tunnels(&[
            ("gnv", "geneve", "flow"),
            ("vx-2", "vxlan", "172.31.0.2"),
            ("gre-3", "gre", "172.31.0.3"),
        ]),
        ..Desired::default()
    };
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (FLOWS.len(), 3));
    let reported = |wanted: &'static [&'static str]| {
        move |event: &Event| match event {
            Event::Report(report) => {
                let names: Vec<&str> = report.tunnels.keys().map(String::as_str).collect();
                (names == wanted).then(|| report.tunnels.clone())
            }
            _ => None,
        }
    };
    let seen = driven.seen.iter().find_map(reported(&["gnv", "gre-3", "vx-2"]));
    let ports = match seen {
        Some(ports) => ports,
        None => driven.wait("a report of the tunnels", reported(&["gnv", "gre-3", "vx-2"])).await,
    };
    for (name, ofport) in &ports {
        assert_eq!(ovs.vsctl(&["get", "interface", name, "ofport"]).trim(), ofport.to_string());
    }
    assert_eq!(ovs.vsctl(&["get", "interface", "gnv", "options"]).trim(), "{key=flow, remote_ip=flow}");
    ovs.vsctl(&[
        "add-port",
        "br-int",
        "mine",
        "--",
        "set",
        "interface",
        "mine",
        "type=gre",
        "options:remote_ip=1.1.1.1",
    ]);

    let changes = Changes {
        tunnels: Edits {
            add: tunnels(&[("vx-2", "vxlan", "172.31.0.22"), ("new", "geneve", "172.31.0.4")]),
            delete: ["gre-3".to_owned()].into(),
        },
        ..Changes::default()
    };
    driven.handle.push(2, changes);
    driven.confirmed(2).await;
    assert_eq!(
        ovs.vsctl(&["list-ports", "br-int"]).split_whitespace().collect::<Vec<_>>(),
        ["gnv", "mine", "new", "vx-2"]
    );
    assert_eq!(ovs.vsctl(&["get", "interface", "vx-2", "options:remote_ip"]).trim(), "\"172.31.0.22\"");
    assert_eq!(ovs.flow_mods(), FLOWS.len(), "tunnels touch no flows");
}

/// Waits until the driver has reported the bridge.
async fn bridge_is_reported(driven: &mut Driven) {
    driven
        .wait("the bridge", |event| match event {
            Event::Report(report) => report.problems.is_empty().then_some(()),
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn what_a_responder_has_found_is_reported_when_it_is_written() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    bridge_is_reported(&mut driven).await;
    for (write, wanted) in [
        (&["set", "bridge", "br-int", "external_ids:weft-probe-web=up"][..], Some((true, ""))),
        (&["set", "bridge", "br-int", "external_ids:weft-probe-web=down:refused"], Some((false, "refused"))),
        (&["set", "bridge", "br-int", "external_ids:weft-probe-web=perhaps"], None),
        (&["set", "bridge", "br-int", "external_ids:weft-probe-web=up"], Some((true, ""))),
        (&["remove", "bridge", "br-int", "external_ids", "weft-probe-web"], None),
    ] {
        ovs.vsctl(&[&["--no-wait"], write].concat());
        driven
            .wait("the result", |event| match event {
                Event::Report(report) => {
                    let found = report.probes.get("web").map(|found| (found.up, found.cause.as_str()));
                    (found == wanted).then_some(())
                }
                _ => None,
            })
            .await;
    }
}

#[tokio::test]
async fn a_vif_is_reported_when_it_appears_and_when_it_goes() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    bridge_is_reported(&mut driven).await;
    // Nothing is written before the desired state is known, and yet everything is reported.
    let plug = |name: &str, id: &str| {
        let id = format!("external_ids:iface-id={id}");
        let mac = "external_ids:attached-mac=\"02:00:00:00:00:01\"";
        ovs.vsctl(&["add-port", "br-int", name, "--", "set", "interface", name, "type=internal", &id, mac]);
    };
    plug("v1", "blue-1");
    let vif = driven
        .wait("the vif", |event| match event {
            Event::Report(report) => report.vifs.get("blue-1").cloned(),
            _ => None,
        })
        .await;
    assert_eq!(ovs.vsctl(&["get", "interface", "v1", "ofport"]).trim(), vif.ofport.to_string());
    assert_eq!(vif.mac, "02:00:00:00:00:01");

    plug("v2", "blue-1");
    let (now, why) = driven
        .wait("the problem of two", |event| match event {
            Event::Report(report) => {
                let problem = report.problems.iter().find(|problem| problem.what == "blue-1")?;
                Some((report.vifs["blue-1"].clone(), problem.why.clone()))
            }
            _ => None,
        })
        .await;
    assert_ne!(now.interface, vif.interface, "the one that came last counts");
    assert!(why.contains("v1") && why.contains("v2") && why.contains("have the same iface-id"), "{why}");

    ovs.vsctl(&["del-port", "v1", "--", "del-port", "v2"]);
    driven
        .wait("its end", |event| match event {
            Event::Report(report) => (report.vifs.is_empty() && report.problems.is_empty()).then_some(()),
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn a_refused_flow_is_reported_and_the_rest_is_in_place() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() }));
    driven.synced().await;

    // The first is found bad when it is added to the bundle (and the switch would commit the rest), the second only
    // when the bundle is committed.
    let unmet = openflow_rs::Match::any().with(openflow_rs::Field::TcpDst, 80).unwrap();
    let mut changes = Changes {
        flows: Edits::add(flows(&["cookie=0x7, table=5, priority=1 actions=output:7"])),
        ..Changes::default()
    };
    changes.flows.add.insert(FlowKey::new(3, 1, &unmet).unwrap(), flow("actions=drop").1);
    driven.handle.push(3, changes);
    let refusal = |event: &Event| match event {
        Event::Refused { txn, first, .. } => Some((*txn, first[0].reason.clone(), first[0].what.clone())),
        _ => None,
    };
    let (txn, reason, _) = driven.wait("a refusal", refusal).await;
    assert_eq!((txn, reason.as_str()), (Some(3), "OFPBMC_BAD_PREREQ"));

    let bad = "cookie=0x6, table=4, priority=1 actions=group:77";
    driven.handle.push(
        4,
        Changes {
            flows: Edits::add(flows(&[bad, "table=6, priority=1 actions=output:8"])),
            ..Changes::default()
        },
    );
    let refused = driven.wait("a refusal", refusal).await;
    assert_eq!(refused, (Some(4), "OFPBAC_BAD_OUT_GROUP".to_owned(), bad.to_owned()));
    driven
        .handle
        .push(5, Changes { flows: Edits::add(flows(&["table=7, actions=output:9"])), ..Changes::default() });
    driven.confirmed(5).await;
    let confirmed = |event: &Event| matches!(event, Event::Confirmed { txn: 3 | 4, .. });
    assert!(!driven.seen.iter().any(confirmed), "what was refused is not confirmed");
    let mut expected = sorted(&FLOWS);
    expected.push("cookie=0x7, table=5, priority=1 actions=output:7".to_owned());
    expected.push("table=6, priority=1 actions=output:8".to_owned());
    expected.push("table=7, actions=output:9".to_owned());
    expected.sort();
    assert_eq!(ovs.flows(), expected);

    // What was refused is not tried again with the next transaction; once it is gone, nothing is left to refuse.
    let before = ovs.flow_mods();
    driven.handle.push(6, Changes { flows: Edits::delete([flow(bad).0]), ..Changes::default() });
    driven.confirmed(6).await;
    assert_eq!(ovs.flow_mods(), before);
}

#[tokio::test]
async fn a_wrong_fail_mode_is_corrected_and_the_flows_it_costs_are_back() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() }));
    driven.synced().await;
    let is_right = || {
        let fail_mode = ovs.vsctl(&["get", "bridge", "br-int", "fail_mode"]);
        fail_mode.trim() == "secure" && ovs.flows() == sorted(&FLOWS)
    };
    ovs.vsctl(&["--no-wait", "set", "bridge", "br-int", "fail_mode=standalone"]);
    eventually("the fail mode is secure, and the flows are back", is_right).await;
    // The first active controller, set by somebody else, makes the switch throw its flows away, before this command ends. The
    // driver reads of it in the switch's reports or after a new connection, whichever comes first.
    let before = ovs.flow_mods();
    ovs.vsctl(&["set-controller", "br-int", "tcp:127.0.0.1:1"]);
    eventually("the flows are back", is_right).await;
    assert!(ovs.flow_mods() >= before + FLOWS.len(), "the switch did not throw its flows away");
}

#[tokio::test]
async fn a_restart_of_the_database_loses_neither_tunnels_nor_transactions() {
    let mut ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    let tunnels_wanted = tunnels(&[("gnv", "geneve", "flow")]);
    let desired = Desired { flows: flows(&FLOWS), tunnels: tunnels_wanted, ..Desired::default() };
    driven.handle.set_desired(Arc::new(desired));
    driven.synced().await;
    ovs.kill_database();
    let why = driven.disconnected(Channel::Ovsdb).await;
    assert!(why.contains("db.sock"), "{why}");
    let changes = Changes {
        flows: Edits::add(flows(&["cookie=0x77, table=50, priority=5,reg0=0x5 actions=output:5"])),
        tunnels: Edits::add(tunnels(&[("vx-2", "vxlan", "172.31.0.2")])),
        ..Changes::default()
    };
    driven.handle.push(7, changes);
    ovs.start_database();
    driven.confirmed(7).await;
    assert_eq!(ovs.vsctl(&["list-ports", "br-int"]).split_whitespace().collect::<Vec<_>>(), ["gnv", "vx-2"]);
    assert_eq!(ovs.flow_mods(), FLOWS.len() + 1, "a lost database costs no flow");
}

#[tokio::test]
async fn a_switch_that_stops_is_given_up_and_found_right_when_it_goes_on() {
    let ovs = Switch::start();
    let brief = std::time::Duration::from_secs(1);
    let timing =
        Timing { probe_after: brief, stall_max: brief * 2, handshake_max: brief, ..Timing::default() };
    let mut driven = Driven::start_with(ovs.config(), timing);
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() }));
    driven.synced().await;
    ovs.signal_vswitchd("STOP");
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("the switch sent nothing for"), "{why}");
    ovs.signal_vswitchd("CONT");
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(ovs.flow_mods(), FLOWS.len());

    // The same while a request is unanswered, with the limits that are in force by default.
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&FLOWS), ..Desired::default() }));
    driven.synced().await;
    ovs.signal_vswitchd("STOP");
    let flow = flows(&["cookie=0x77, table=50, priority=5,reg0=0x5 actions=output:5"]);
    driven.handle.push(1, Changes { flows: Edits::add(flow), ..Changes::default() });
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("and did not answer an echo request"), "{why}");
    ovs.signal_vswitchd("CONT");
    driven.confirmed(1).await;
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_is_refused_alone() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.synced().await;
    ovs.vsctl(&["add-port", "br-int", "taken", "--", "set", "interface", "taken", "type=internal"]);
    let some =
        [("good", "geneve", "flow"), ("segment", "stt", "172.31.0.2"), ("taken", "vxlan", "172.31.0.3")];
    driven.handle.push(1, Changes { tunnels: Edits::add(tunnels(&some)), ..Changes::default() });
    let flows = flows(&["table=6, priority=1 actions=output:8"]);
    driven.handle.push(2, Changes { flows: Edits::add(flows), ..Changes::default() });
    driven.confirmed(2).await;
    let refused = |event: &Event| match event {
        Event::Refused { txn: Some(1), first, .. } => first.clone(),
        _ => Vec::new(),
    };
    let refused = driven.seen.iter().flat_map(refused);
    let refused: BTreeMap<String, String> =
        refused.map(|rejection| (rejection.what, rejection.reason)).collect();
    let what: Vec<&str> = refused.keys().map(String::as_str).collect();
    assert_eq!(what, ["tunnel segment: stt to 172.31.0.2", "tunnel taken: vxlan to 172.31.0.3"]);
    assert!(
        refused[what[0]].contains("userspace datapath") && refused[what[1]].contains("is taken"),
        "{refused:?}"
    );
    assert!(!driven.seen.iter().any(|event| matches!(event, Event::Confirmed { txn: 1, .. })));
    assert_eq!(
        ovs.vsctl(&["list-ports", "br-int"]).split_whitespace().collect::<Vec<_>>(),
        ["good", "taken"]
    );
    let told = |event: &Event| match event {
        Event::Report(report) => report.problems.iter().any(|problem| problem.what == "segment"),
        _ => false,
    };
    if !driven.seen.iter().any(told) {
        driven.wait("the problem", |event| told(event).then_some(())).await;
    }
    // One takes another form, the other is wanted no more: nothing is refused then.
    assert!(driven.seen.contains(&Event::RefusedTotal { refused: 2 }), "{:#?}", driven.seen);
    let changes = Changes {
        tunnels: Edits {
            add: self::tunnels(&[("segment", "gre", "172.31.0.2")]),
            delete: ["taken".to_owned()].into(),
        },
        ..Changes::default()
    };
    driven.handle.push(3, changes);
    let none = |event: &Event| (*event == Event::RefusedTotal { refused: 0 }).then_some(());
    driven.wait("nothing refused", none).await;
    driven.confirmed(3).await;
}

#[tokio::test]
async fn tunnels_come_before_the_flows_of_their_transaction_and_go_after_them() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.synced().await;
    let flow = "cookie=0x77, table=50, priority=5,reg0=0x5 actions=output:5";
    let tunnels = tunnels(&[("vx-2", "vxlan", "172.31.0.2")]);
    let names: Vec<String> = tunnels.keys().cloned().collect();
    driven.handle.push(
        1,
        Changes { flows: Edits::add(flows(&[flow])), tunnels: Edits::add(tunnels), ..Changes::default() },
    );
    driven.confirmed(1).await;
    let keys = flows(&[flow]).into_keys();
    driven
        .handle
        .push(2, Changes { flows: Edits::delete(keys), tunnels: Edits::delete(names), ..Changes::default() });
    driven.confirmed(2).await;
    // The log of ovs-vswitchd is the witness.
    let log = ovs.log();
    let line = |what: &str| {
        log.lines().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} is not in:\n{log}"))
    };
    let order = [
        line("bridge br-int: added interface vx-2"),
        line("ADD table:50"),
        line("DEL_STRICT table:50"),
        line("bridge br-int: deleted interface vx-2"),
    ];
    assert!(order.is_sorted(), "{order:?}");
}
