//! Interfaces that announce themselves, and places that the controller announces.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use serde_json::json;
use switch_model::{Event, Frame, Report};
use weft_core::core::{AppliedTransaction, Core, Moves};
use weft_core::record::Record;

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply as send, parts, start_with, status_when, within};
use crate::support::*;

/// A port is where its interface announced itself last, else where it was plugged in first. Its host waits for announcements
/// in table 12, by the number of the interface, and has a flow; the others send there. The home announces the port's
/// addresses.
const PLACES: &str = concat!(
    objects!(),
    addresses!(),
    r#"
const ANNOUNCED = 12;
input table managed(hv: string) key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
input table announced(hv: string, port: string, since: int) key(hv, port);
input table tunnel_port(hv: string, tunnel: string, ofport: int) key(hv, tunnel);

table moment(port: string, hv: string, at: int);
moment(port, hv, 0 - since) :- vif(hv, port, _, _, since);
moment(port, hv, since) :- announced(hv, port, since);
output table port_home(port: string, hv: string) key(port);
port_home(port, arg_max(at, hv)) :- moment(port, hv, at);

output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(hv, 0, 100, match_reg0(ofport), flow_output_action(ofport)) :- vif(hv, _, ofport, _, _);
of_flow(node, 1, 100, match_reg0(ofport), flow_output_action(ofport)) :-
    transport_node(id: node, ..), port_home(port, hv), vif(hv, port, ofport, _, _);

output table awaited_flow(hv: string, table_id: int, cookie: int, port: string) key(hv, table_id, cookie);
awaited_flow(hv, ANNOUNCED, ofport, port) :- vif(hv, port, ofport, _, _);

output table announcement(hv: string, port: string, mac: mac, ofport: int, tag: int) key(hv, port, mac);
announcement(hv, port, address.mac, ofport, 7) :-
    port_home(port, hv), switch_port(id: port, addresses: addresses, ..), element(addresses, address),
    tunnel_port(hv, _, ofport);
"#
);

/// Reports these interfaces, with a way to the physical network.
fn plugged(vifs: &[(&str, u16)]) -> Report {
    report(vifs, &[("physical", 9)])
}

/// A core and its records.
struct Kept {
    core: Core,
    records: Vec<Record>,
}

impl Kept {
    fn new() -> Kept {
        let (core, _) = core(&rules(PLACES), &[]);
        let mut kept = Kept { core, records: Vec::new() };
        let applied = apply(&mut kept.core, NETWORK);
        kept.keep(&applied);
        kept
    }

    fn keep(&mut self, applied: &AppliedTransaction) {
        self.records.push(applied.journalled());
    }

    fn report(&mut self, node: &str, vifs: &[(&str, u16)]) -> Option<AppliedTransaction> {
        let applied = self.core.report(node, &plugged(vifs), now()).unwrap();
        if let Some(applied) = &applied {
            self.keep(applied);
        }
        applied
    }

    fn learned(&mut self, node: &str, cookie: u64, is_new: bool) -> Option<AppliedTransaction> {
        let applied = self.core.learned(node, (12, cookie), is_new, now()).unwrap();
        if let Some(applied) = &applied {
            self.keep(applied);
        }
        applied
    }

    /// The controller starts again.
    fn restart(&mut self) {
        let rules = rules(PLACES);
        let (core, correction) = core(&rules, &self.records);
        assert_eq!(correction, None);
        self.core = core;
    }
}

/// No row.
const NONE: Vec<serde_json::Value> = Vec::new();

/// The changes of `announced` in a transaction: host, port and transaction of each row.
fn announced(applied: &AppliedTransaction) -> [Vec<serde_json::Value>; 2] {
    let record = applied.journalled();
    [record.insert, record.delete].map(|side| {
        side.get("announced").map_or(Vec::new(), |rows| rows.iter().map(|row| json!(row)).collect())
    })
}

#[test]
fn an_announcement_holds_as_long_as_the_interface_is_plugged() {
    let mut kept = Kept::new();
    assert!(kept.learned("hv1", 5, true).is_none(), "nobody waits for it");
    kept.report("hv1", &[("blue-1", 5)]);
    kept.report("hv2", &[("blue-1", 6)]);
    let first = kept.learned("hv2", 6, false).expect("it is not known");
    assert_eq!(first.record.by, "switch hv2");
    assert_eq!(announced(&first), [vec![json!(["hv2", "blue-1", 4])], NONE]);
    assert_eq!(first.moves, Moves { to: ["hv2".to_owned()].into(), from: ["hv1".to_owned()].into() });
    // What is found again is known, also after restarts of the switch and of the controller.
    assert!(kept.learned("hv2", 6, false).is_none());
    assert!(kept.report("hv2", &[("blue-1", 6)]).is_none());
    kept.restart();
    assert!(kept.learned("hv2", 6, false).is_none());
    // Another port number is no other interface.
    let moved = kept.report("hv2", &[("blue-1", 8)]).expect("another number");
    assert_eq!(announced(&moved), [NONE, NONE]);
    // What is new is new.
    let again = kept.learned("hv2", 8, true).expect("it is new");
    assert_eq!(announced(&again), [vec![json!(["hv2", "blue-1", 6])], vec![json!(["hv2", "blue-1", 4])]]);
    assert_eq!(again.moves, Moves::default());
    // It goes with the interface, and does not come back with another one.
    let gone = kept.report("hv2", &[]).expect("it is gone");
    assert_eq!(announced(&gone), [NONE, vec![json!(["hv2", "blue-1", 6])]]);
    let back = kept.report("hv2", &[("blue-1", 8)]).expect("it is back");
    assert_eq!(announced(&back), [NONE, NONE]);
    kept.restart();
    assert!(kept.learned("hv2", 8, false).is_some());
}

#[test]
fn an_interface_without_a_number_for_a_while_has_announced_itself_all_the_same() {
    let mut kept = Kept::new();
    let with = |number| ovs_driver::Report {
        tunnels: plugged(&[]).tunnels,
        ..report_of(&[("blue-1", "tap1", number)])
    };
    kept.core.report("hv1", &with(Some(5)), now()).unwrap().unwrap();
    let known = kept.core.learned("hv1", (12, 5), true, now()).unwrap().unwrap();
    assert_eq!(announced(&known)[0], [json!(["hv1", "blue-1", 3])]);
    let without = kept.core.report("hv1", &with(None), now()).unwrap().unwrap();
    assert_eq!(announced(&without), [NONE, vec![json!(["hv1", "blue-1", 3])]]);
    let back = kept.core.report("hv1", &with(Some(7)), now()).unwrap().unwrap();
    assert_eq!(announced(&back), [vec![json!(["hv1", "blue-1", 3])], NONE]);
    // Another interface in its place has said nothing.
    let other =
        ovs_driver::Report { tunnels: plugged(&[]).tunnels, ..report_of(&[("blue-1", "tap2", Some(7))]) };
    let replaced = kept.core.report("hv1", &other, now()).unwrap().unwrap();
    assert_eq!(announced(&replaced), [NONE, vec![json!(["hv1", "blue-1", 3])]]);
}

#[test]
fn an_announcement_that_is_undone_leaves_nothing_behind() {
    let mut kept = Kept::new();
    kept.report("hv1", &[("blue-1", 5)]);
    kept.report("hv2", &[("blue-1", 6)]);
    let before = shown(&kept.core.desired("hv1"));
    let applied = kept.core.learned("hv2", (12, 6), true, now()).unwrap().unwrap();
    assert_ne!(shown(&kept.core.desired("hv1")), before);
    kept.core.undo(applied).unwrap();
    assert_eq!(shown(&kept.core.desired("hv1")), before);
    let again = kept.learned("hv2", 6, false).expect("it is not known");
    assert_eq!(announced(&again)[0], [json!(["hv2", "blue-1", 4])]);
    // A host that is deleted takes it along.
    let keys = [crate::core::key("transport_node", "hv2")];
    let deleted = kept.core.delete(&keys, "test", now()).unwrap().transaction.unwrap();
    assert_eq!(announced(&deleted)[1], [json!(["hv2", "blue-1", 4])]);
}

/// The frames of a transaction, by host.
fn frames(applied: &AppliedTransaction) -> Vec<(&str, Vec<&String>, Vec<&String>)> {
    applied
        .changes
        .iter()
        .map(|(host, changes)| {
            (host.as_str(), changes.frames.add.keys().collect(), changes.frames.delete.iter().collect())
        })
        .filter(|(_, add, delete): &(&str, Vec<&String>, Vec<&String>)| !add.is_empty() || !delete.is_empty())
        .collect()
}

#[test]
fn a_place_is_announced_when_it_changes_and_only_then() {
    let mut kept = Kept::new();
    let name = "02:00:00:00:00:01 blue-1".to_owned();
    let first = kept.report("hv1", &[("blue-1", 5)]).expect("it is plugged in");
    assert_eq!(frames(&first), [("hv1", vec![&name], vec![])]);
    let frame = &first.changes["hv1"].frames.add[&name];
    assert_eq!((frame.ofport, frame.bytes.len()), (9, 64));
    let start = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 0x80, 0x35];
    assert_eq!(frame.bytes[..start.len()], start);

    kept.report("hv2", &[("blue-1", 6)]);
    let moved = kept.learned("hv2", 6, true).expect("it moves");
    assert_eq!(frames(&moved), [("hv1", vec![], vec![&name]), ("hv2", vec![&name], vec![])]);
    // The same place by another way.
    let vifs = [("blue-1", 6)];
    let other = kept.core.report("hv2", &report(&vifs, &[("physical", 10)]), now()).unwrap().unwrap();
    kept.keep(&other);
    assert_eq!(frames(&other), [("hv2", vec![], vec![&name])]);
    // What only comes back has not moved.
    kept.report("hv2", &[]);
    let away = kept.report("hv1", &[]).expect("it is nowhere");
    assert_eq!(frames(&away), [("hv1", vec![], vec![&name])]);
    let back = kept.report("hv1", &[("blue-1", 5)]).expect("it is back");
    assert_eq!(frames(&back), []);
    // The desired state has none, so that a start and a switch that comes back send none.
    kept.restart();
    assert!(kept.report("hv1", &[("blue-1", 5)]).is_none());
}

/// Both hosts are connected and have the port.
async fn two_hosts(folder: &std::path::Path) -> Running {
    let switches = Switches::default();
    let running = start_with(parts(folder, rules(PLACES), &switches), switches).await;
    let mut client = running.client().await;
    if client.status().await.unwrap().last_txn == 0 {
        send(&mut client, NETWORK).await.unwrap();
    }
    for (host, ofport) in [("hv1", 5), ("hv2", 6)] {
        running.switches.connect(host, plugged(&[("blue-1", ofport)])).await;
        status_when(&mut client, |status| {
            status.switches.iter().any(|switch| switch.node == host && switch.vifs == 1 && switch.connected)
        })
        .await;
        running.switches.confirm(host).await;
    }
    // The second host's report can reach the switches after their confirmations.
    within(async {
        loop {
            for host in ["hv1", "hv2"] {
                running.switches.confirm(host).await;
            }
            let status = client.status().await.unwrap();
            if status.switches.iter().all(|switch| switch.pending == 0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    running
}

fn flow_to(running: &Running, host: &str) -> Vec<String> {
    let all = running.switches.look(host, |switch| shown(switch.desired.as_ref().expect("a desired state")));
    all.into_iter().filter(|flow| flow.starts_with("1 ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_learns_moves_the_port_in_order_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let running = two_hosts(folder.path()).await;
    let mut client = running.client().await;
    assert_eq!(running.switches.look("hv1", |switch| switch.config.watched_tables.clone()), [12].into());
    let awaited = running.switches.look("hv2", |switch| switch.desired.clone().unwrap().awaited);
    assert_eq!(awaited.keys().copied().collect::<Vec<_>>(), [(12, 6)]);
    let learned = |is_new| Event::Learned { table: 12, cookie: 6, is_new };
    running.switches.event("hv2", learned(true)).await;
    // The new home has it at once; the old one when the new one confirms, or after a moment.
    let has_moved = |running: &Running, host: &str| flow_to(running, host) == ["1 100 reg0=0x6 output:6"];
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    while !has_moved(&running, "hv2") {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    running.switches.confirm("hv2").await;
    status_when(&mut client, |_| has_moved(&running, "hv1")).await;
    running.switches.confirm("hv1").await;
    let status = status_when(&mut client, |status| status.switches.iter().all(|switch| switch.synced)).await;
    let frames = running.switches.look("hv2", |switch| switch.frames.clone());
    assert!(matches!(&frames[..], [(_, Frame { ofport: 9, .. })]), "{frames:?}");
    running.stop().await;

    let running = two_hosts(folder.path()).await;
    let mut client = running.client().await;
    running.switches.event("hv2", learned(false)).await;
    // A later event shows that this one was handled.
    let more = plugged(&[("blue-1", 6), ("blue-2", 7)]);
    running.switches.event("hv2", Event::Report(more)).await;
    let after =
        status_when(&mut client, |status| status.switches.iter().any(|switch| switch.vifs == 2)).await;
    assert_eq!(after.last_txn, status.last_txn + 1);
    assert!(has_moved(&running, "hv1") || flow_to(&running, "hv1").len() == 2);
    let sent: Vec<String> = names(&running, "hv2");
    assert_eq!(
        sent,
        [MOVED, "02:00:00:00:00:02 blue-2"],
        "what nobody confirmed, and that of the new interface"
    );
    running.stop().await;
}

/// The name of the announcement of the port that moves.
const MOVED: &str = "02:00:00:00:00:01 blue-1";

/// The names of the frames that a switch was told to send.
fn names(running: &Running, host: &str) -> Vec<String> {
    running.switches.look(host, |switch| switch.frames.iter().map(|(name, _)| name.clone()).collect())
}

#[test]
fn d21_records_say_which_announcements_begin_and_which_have_ended() {
    let mut kept = Kept::new();
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let said = |applied: AppliedTransaction| {
        let announcements = applied.journalled().announcements;
        (announcements.ended, announcements.begun)
    };
    let first = kept.report("hv1", &[("blue-1", 5)]).unwrap();
    assert_eq!(said(first), (set(&[]), set(&[MOVED])));
    kept.report("hv2", &[("blue-1", 6)]);
    // Its next place takes its place. An undone move leaves it as it was.
    let undone = kept.core.learned("hv2", (12, 6), true, now()).unwrap().unwrap();
    kept.core.undo(undone).unwrap();
    kept.core.announced("hv2", &set(&[MOVED]));
    let moved = kept.learned("hv2", 6, true).unwrap();
    assert_eq!(said(moved).1, set(&[MOVED]));
    // Of another host, and of what is not under way, nothing is said.
    kept.core.announced("hv1", &set(&[MOVED]));
    kept.core.announced("hv2", &set(&["02:00:00:00:00:09 other"]));
    let other = kept.report("hv1", &[("blue-1", 15)]).unwrap();
    assert_eq!(said(other), (set(&[]), set(&[])));
    kept.core.announced("hv2", &set(&[MOVED]));
    let confirmed = kept.report("hv1", &[("blue-1", 16)]).unwrap();
    assert_eq!(said(confirmed), (set(&[MOVED]), set(&[])));
    // What is not true any more has ended too.
    kept.report("hv2", &[]);
    let gone = kept.report("hv1", &[]).unwrap();
    assert_eq!(said(gone).0, set(&[MOVED]));
}

#[tokio::test(flavor = "multi_thread")]
async fn d21_what_no_host_has_confirmed_is_announced_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let running = two_hosts(folder.path()).await;
    running.switches.event("hv2", Event::Learned { table: 12, cookie: 6, is_new: true }).await;
    let mut client = running.client().await;
    status_when(&mut client, |_| names(&running, "hv2") == [MOVED]).await;
    running.stop().await;

    // The port has moved, and its new home announces that, as often as the controller starts before it says so.
    for _ in 0..2 {
        let running = two_hosts(folder.path()).await;
        assert_eq!(names(&running, "hv2"), [MOVED]);
        assert_eq!(names(&running, "hv1"), [] as [&str; 0]);
        running.stop().await;
    }

    let running = two_hosts(folder.path()).await;
    let mut client = running.client().await;
    running.switches.event("hv2", Event::Announced { names: [MOVED.to_owned()].into() }).await;
    let before = client.status().await.unwrap().last_txn;
    running.switches.event("hv2", Event::Report(plugged(&[("blue-1", 16)]))).await;
    status_when(&mut client, |status| status.last_txn > before).await;
    running.stop().await;
    let running = two_hosts(folder.path()).await;
    assert_eq!(names(&running, "hv2"), [] as [&str; 0]);
    running.stop().await;
}
