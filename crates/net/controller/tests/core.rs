//! What requests do to the core, and that its records bring it back.

use std::collections::BTreeMap;

use crate::support::*;
use nlog_data::{ErrorCode, json};
use objects::ObjectKey;
use proptest::prelude::*;
use serde_json::json;
use weft_core::core::{
    AppliedTransaction, Core, CoreError, History, Problem, ProblemChanges, Refusal, RestoreError,
};
use weft_core::record::Record;

/// What the rules say of the MTU of a switch.
fn mtu(core: &Core, switch: &str) -> Option<i64> {
    core.state_of("switch", switch).get("mtu")?.as_i64()
}

pub(crate) fn key(kind: &str, id: &str) -> ObjectKey {
    ObjectKey::new(kind, id)
}

/// All that a core is, as text: to compare two.
pub(crate) fn state(core: &Core) -> Vec<String> {
    let mut state = vec![format!("txn {}", core.last_txn())];
    state.extend(core.problems().map(|problem| format!("{problem:?}")));
    for (key, object) in core.objects().iter() {
        let said = core.state_of(&key.kind, &key.id);
        state.push(format!("{} state {said:?}", object.to_json()));
    }
    for node in ["hv1", "hv2"] {
        state.push(format!("{node}: {} vifs", core.vif_count(node)));
        state.extend(shown(&core.desired(node)).into_iter().map(|line| format!("{node}: {line}")));
    }
    state
}

#[test]
fn a_network_becomes_flows_and_tunnels() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let first = apply(&mut core, NETWORK);
    assert_eq!(first.record.txn, 1);
    assert_eq!(shown(&core.desired("hv2"))[3..], ["weft-gre: gre to flow", "weft-vxlan: vxlan to flow"]);

    let reported = core
        .report("hv1", &report(&[("blue-1", 5), ("stray", 6)], &[("weft-geneve", 1)]), now())
        .unwrap()
        .unwrap();
    assert_eq!(reported.record.by, "switch hv1");
    assert_eq!(
        reported.journalled().insert["vif"][0],
        [json!("hv1"), json!("blue-1"), json!(5), json!(""), json!(2)]
    );
    assert_eq!(reported.changes.keys().collect::<Vec<_>>(), ["hv1"]);
    assert_eq!(
        shown(&core.desired("hv1")),
        [
            "0 100 reg0=0x101 output:5",
            "1 100 reg1=0x101 set_field:0x1->reg0",
            "1 100 reg1=0x102 set_field:0x1->reg0",
            "1 100 reg1=0x103 set_field:0x2->reg0",
            "weft-geneve: geneve to flow",
        ]
    );
    // Every flow says which rule it came from.
    for flow in core.desired("hv1").flows.values() {
        let rule = rules.source(flow.cookie()).expect("a rule has this fingerprint");
        assert!(rule.text.starts_with("of_flow(hv, "), "{rule:?}");
        assert_eq!(&*rule.file, "test.nlog");
    }
}

/// The core after a report of interfaces of hv1: the rows of claims that come, as `port@transaction`, if any row changes.
fn claimed(
    core: &mut Core,
    records: &mut Vec<Record>,
    interfaces: &[(&str, &str, Option<u16>)],
) -> Option<Vec<String>> {
    let record = core.report("hv1", &report_of(interfaces), now()).expect("it is accepted")?.journalled();
    let rows = record.insert.get("vif").cloned().unwrap_or_default();
    records.push(record);
    let claim =
        |row: &Vec<serde_json::Value>| format!("{}@{}", row[1].as_str().expect("the id of a port"), row[4]);
    Some(rows.iter().map(claim).collect())
}

#[test]
fn an_interface_claims_its_port_once() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let mut claimed = |core: &mut Core, interfaces: &[_]| claimed(core, &mut records, interfaces);
    let of = |claims: &[&str]| Some(claims.iter().map(|claim| (*claim).to_owned()).collect::<Vec<_>>());
    assert_eq!(claimed(&mut core, &[("blue-1", "tap1", Some(5))]), of(&["blue-1@2"]));
    assert_eq!(claimed(&mut core, &[("blue-1", "tap1", Some(5))]), None, "nothing new is no transaction");
    let both = [("blue-1", "tap1", Some(5)), ("blue-2", "tap2", Some(6))];
    assert_eq!(claimed(&mut core, &both), of(&["blue-2@3"]));
    // Another port number is no new claim, and neither is a time without one.
    assert_eq!(claimed(&mut core, &[("blue-1", "tap1", Some(7)), both[1]]), of(&["blue-1@2"]));
    assert_eq!(claimed(&mut core, &[("blue-1", "tap1", None), both[1]]), of(&[]));
    assert_eq!(claimed(&mut core, &[("blue-1", "tap1", Some(8)), both[1]]), of(&["blue-1@2"]));
    // Another interface is one, whatever its port number, and so is one that was gone.
    assert_eq!(claimed(&mut core, &[("blue-1", "new1", Some(8)), both[1]]), of(&["blue-1@7"]));
    assert_eq!(claimed(&mut core, &[both[1]]), of(&[]));
    assert_eq!(claimed(&mut core, &[("blue-1", "new1", Some(8)), both[1]]), of(&["blue-1@9"]));
    let unknown = report(&[("blue-1", 5)], &[]);
    assert!(core.report("hv9", &unknown, now()).unwrap().is_none(), "a node that is not there");
}

#[test]
fn of_two_interfaces_with_one_id_the_second_that_comes_to_count_claims_nothing_anew() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let mut claimed = |interfaces: &[_]| claimed(&mut core, &mut records, interfaces);
    assert_eq!(claimed(&[("blue-1", "tap1", Some(5))]), Some(vec!["blue-1@2".to_owned()]));
    assert_eq!(claimed(&[("blue-1", "tap1", Some(5)), ("blue-1", "tap2", None)]), None);
    assert!(
        claimed(&[("blue-1", "tap1", Some(5)), ("blue-1", "tap2", None), ("blue-2", "x", Some(6))]).is_some()
    );
    // tap2 claimed after tap1, and before blue-2 came.
    let left = claimed(&[("blue-1", "tap2", Some(9)), ("blue-2", "x", Some(6))]);
    assert_eq!(left, Some(vec!["blue-1@2".to_owned()]));
}

#[test]
fn the_later_of_two_hosts_has_the_port_also_if_its_interface_came_without_a_number() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let on_hv2 = core.report("hv2", &report_of(&[("blue-1", "old", Some(5))]), now()).unwrap().unwrap();
    assert_eq!(on_hv2.record.txn, 2);
    // Its device comes later than its row in the database: no transaction lies between the two claims.
    assert_eq!(claimed(&mut core, &mut records, &[("blue-1", "new", None)]), None);
    let counts = claimed(&mut core, &mut records, &[("blue-1", "new", Some(6))]);
    assert_eq!(counts, Some(vec!["blue-1@3".to_owned()]));
}

#[test]
fn an_interface_claims_nothing_anew_after_a_restart_of_the_controller() {
    let rules = rules(RULES);
    let (mut first, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut first, NETWORK).journalled()];
    let before = [("blue-1", "tap1", Some(5)), ("blue-2", "tap2", Some(6))];
    assert!(claimed(&mut first, &mut records, &before).is_some());
    let (mut core, correction) = core(&rules, &records);
    assert!(correction.is_none(), "{correction:?}");
    // Its port number may have changed meanwhile.
    let after = [("blue-1", "tap1", Some(7)), before[1]];
    assert_eq!(claimed(&mut core, &mut records, &after), Some(vec!["blue-1@2".to_owned()]));
    let replaced = [("blue-1", "new1", Some(7)), before[1]];
    assert_eq!(claimed(&mut core, &mut records, &replaced), Some(vec!["blue-1@4".to_owned()]));
    assert_eq!(records.len(), 4);
    // A switch that reports as before the restart changes nothing, and is known from then on.
    let (mut core, _) = crate::support::core(&rules, &records);
    assert_eq!(claimed(&mut core, &mut records, &replaced), None);
    let again = [("blue-1", "third", Some(7)), before[1]];
    assert_eq!(claimed(&mut core, &mut records, &again), Some(vec!["blue-1@5".to_owned()]));
}

#[test]
fn a_refused_request_leaves_no_trace() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let before = state(&core);

    let conflict = "{kind: switch, id: c1, tenant: clash}\n---\n{kind: switch, id: c2, tenant: clash}";
    let error = core.apply(batch(conflict), "test", now()).unwrap_err();
    let CoreError::Refused(Refusal::Rules(error)) = error else { panic!("{error}") };
    assert_eq!(error.code, ErrorCode::KeyConflict);
    assert_eq!(state(&core), before);

    let reserved = "{kind: switch, id: r2, tenant: reserved}\n---\n{kind: switch, id: r1, tenant: reserved}";
    let error = core.apply(batch(reserved), "test", now()).unwrap_err();
    let CoreError::Refused(Refusal::Rules(error)) = error else { panic!("{error}") };
    assert_eq!(
        (error.code, &*error.message),
        (ErrorCode::Forbidden, r#"Nobody is tenant `reserved`: reserved_tenant(sw: "r1") and 1 more row"#)
    );
    assert_eq!(state(&core), before);

    let beyond = "{kind: switch, id: far, tenant: beyond}";
    let error = core.apply(batch(beyond), "test", now()).unwrap_err();
    let CoreError::Refused(Refusal::Rules(error)) = error else { panic!("{error}") };
    assert_eq!(
        (error.code, &*error.message),
        (ErrorCode::Range, "of_flow: hv1: table 300 does not exist; the last is 254")
    );
    assert_eq!(state(&core), before);

    let error = core.apply(batch("{kind: switch_port, id: p, switch: none}"), "test", now()).unwrap_err();
    assert!(matches!(error, CoreError::Refused(Refusal::Objects { .. })));
    let error = core.delete(&[key("switch", "blue")], "test", now()).unwrap_err();
    assert!(matches!(error, CoreError::Refused(Refusal::Objects { .. })));
    assert_eq!(state(&core), before);

    // The refused took no labels, no number and nothing in the engine: the next is as if they had never been.
    let applied = apply(&mut core, "{kind: switch, id: c1, tenant: clash}");
    assert_eq!(applied.record.txn, 2);
    assert_eq!(filled(&applied.journalled(), "datapath_label"), [[json!("c1"), json!(3)]]);
    records.push(applied.journalled());
    assert_eq!(state(&crate::support::core(&rules, &records).0), state(&core));
}

#[test]
fn a_deleted_transport_node_takes_its_reports_and_flows_with_it() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    apply(&mut core, NETWORK);
    core.report("hv1", &report(&[("blue-1", 5)], &[("weft-geneve", 1)]), now()).unwrap();
    let gone = core.delete(&[key("transport_node", "hv1")], "test", now()).unwrap().transaction.unwrap();
    assert_eq!(gone.changes["hv1"].flows.delete.len(), 4);
    assert_eq!(gone.journalled().delete["vif"].len(), 1);
    assert_eq!(gone.journalled().delete["tunnel_port"].len(), 1);
    assert!(shown(&core.desired("hv1")).is_empty());
    assert_eq!(core.vif_count("hv1"), 0);
}

#[test]
fn what_was_known_of_a_transport_node_with_other_end_points_holds_until_its_switch_reports() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let said = report(&[("blue-1", 5)], &[("weft-geneve", 1)]);
    records.push(core.report("hv1", &said, now()).unwrap().unwrap().journalled());
    let moved = NETWORK.replace("/run/hv1/db.sock", "/run/new/db.sock");
    let applied = apply(&mut core, &moved);
    assert_eq!(core.vif_count("hv1"), 1);
    records.push(applied.journalled());
    assert_eq!(state(&crate::support::core(&rules, &records).0), state(&core));
    // It is the same switch, or another one.
    assert!(core.report("hv1", &said, now()).unwrap().is_none());
    let other = core.report("hv1", &report(&[], &[]), now()).unwrap().unwrap();
    assert_eq!((other.journalled().delete["vif"].len(), core.vif_count("hv1")), (1, 0));
    assert_eq!(other.journalled().delete["tunnel_port"].len(), 1);
}

/// Tries all that is due; the last verdict on hv1's report.
fn retry(core: &mut Core, records: &mut Vec<Record>) -> Option<String> {
    let mut verdict = core.verdict("hv1");
    while let Some(retried) = core.retry(now()).unwrap_or_else(|error| panic!("{error}")) {
        records.extend(retried.transaction.map(|done| done.journalled()));
        verdict = core.verdict(&retried.node).or(verdict);
    }
    assert!(!core.is_retry_due());
    verdict.expect("all is judged").refusal()
}

#[test]
fn one_bad_interface_does_not_hinder_the_others_and_comes_when_the_objects_are_mended() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let single = "{kind: switch, id: red, tenant: single}\n---\n{kind: switch_port, id: red-2, switch: red}";
    records.push(apply(&mut core, single).journalled());
    let mut tell = |core: &mut Core, vifs: &[(&str, u16)]| {
        let done = core.report("hv1", &report(vifs, &[("weft-geneve", 1)]), now()).unwrap();
        records.extend(done.map(|done| done.journalled()));
        retry(core, &mut records)
    };
    assert_eq!(tell(&mut core, &[("blue-1", 5), ("old", 9)]), None);

    // Two interfaces of that switch cannot be on one host: the first is accepted, and whatever else is new or gone.
    let vifs = [("blue-1", 5), ("blue-2", 6), ("red-1", 7), ("red-2", 8), ("stray", 10)];
    let why = tell(&mut core, &vifs).expect("one is refused");
    assert!(why.starts_with("vif red-2: key-conflict: ") && !why.contains("more"), "{why}");
    assert_eq!(core.vif_count("hv1"), 3);
    let has = |core: &Core, flow: &str| shown(&core.desired("hv1")).iter().any(|line| line == flow);
    assert!(has(&core, "0 100 reg0=0x102 output:6") && !has(&core, "0 100 reg0=0x10c output:8"));

    // Another transaction does not help; one that mends the objects does.
    records.push(apply(&mut core, "{kind: switch, id: green}").journalled());
    assert!(core.is_retry_due());
    while core.retry(now()).unwrap().is_some() {}
    assert_eq!((core.verdict("hv1"), core.vif_count("hv1")), (None, 3), "nothing new to tell");
    records.push(apply(&mut core, "{kind: switch, id: red, tenant: acme}").journalled());
    assert_eq!(retry(&mut core, &mut records), None);
    assert_eq!(core.vif_count("hv1"), 4);
    assert_eq!(core.unclaimed("hv1").collect::<Vec<_>>(), ["stray"], "no object has it");
    assert!(has(&core, "0 100 reg0=0x10c output:8"));
    assert_eq!(state(&crate::support::core(&rules, &records).0), state(&core));
}

#[test]
fn what_is_gone_goes_even_if_all_that_is_new_is_refused() {
    let (mut core, _) = core(&rules(RULES), &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    apply(
        &mut core,
        "{kind: switch, id: red, tenant: single}\n---\n{kind: switch_port, id: red-2, switch: red}",
    );
    core.report("hv1", &report(&[("blue-1", 5), ("red-1", 6)], &[]), now()).unwrap();
    core.report("hv1", &report(&[("red-1", 6), ("red-2", 7)], &[]), now()).unwrap();
    assert!(retry(&mut core, &mut records).is_some());
    assert_eq!(core.vif_count("hv1"), 1);

    // The interface in the way leaves: a new report, in which nothing is wrong.
    core.report("hv1", &report(&[("red-2", 7)], &[]), now()).unwrap();
    assert_eq!((retry(&mut core, &mut records), core.vif_count("hv1")), (None, 1));
}

#[test]
fn an_interface_in_the_way_on_another_host_is_waited_for() {
    // Here the conflict is between hosts.
    let text =
        RULES.replace("of_flow(hv, 9, 2, match_reg0(0)", "of_flow(\"hv1\", 9, 2, match_reg0(0)").replace(
            "vif(hv, port, ofport, _, _), logical_switch_port(port, sw)",
            "vif(_, port, ofport, _, _), logical_switch_port(port, sw)",
        );
    let (mut core, _) = core(&rules(&text), &[]);
    let mut records = Vec::new();
    apply(&mut core, NETWORK);
    apply(
        &mut core,
        "{kind: switch, id: red, tenant: single}\n---\n{kind: switch_port, id: red-2, switch: red}",
    );
    core.report("hv2", &report(&[("red-1", 6)], &[]), now()).unwrap();
    core.report("hv1", &report(&[("red-2", 7)], &[]), now()).unwrap();
    assert!(retry(&mut core, &mut records).is_some());
    core.report("hv2", &report(&[], &[]), now()).unwrap();
    assert_eq!((retry(&mut core, &mut records), core.vif_count("hv1")), (None, 1));
}

#[test]
fn records_that_do_not_add_up_are_errors() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let first = apply(&mut core, NETWORK).journalled();
    let second =
        core.delete(&[key("switch_port", "red-1")], "test", now()).unwrap().transaction.unwrap().journalled();
    let restore = |records: &[Record]| {
        let mut history = History::new(&rules);
        let added = records.iter().try_for_each(|record| history.add(record));
        match added.and_then(|()| Core::restore(reference(&rules), rules.clone(), history, now())) {
            Ok(_) => panic!("restored"),
            Err(error) => error,
        }
    };
    let record = |change: &dyn Fn(&mut Record)| {
        let mut record = second.clone();
        change(&mut record);
        [first.clone(), record]
    };
    let cases = [
        (
            record(&|record| record.delete.get_mut("switch_port").unwrap()[0][1] = json!("blue")),
            "is deleted, but does not exist",
        ),
        (record(&|record| record.insert = first.insert.clone()), "is inserted, but already exists"),
        (
            record(&|record| record.objects.delete[0].1 = "red-2".to_owned()),
            "switch_port red-2 is deleted, but does not exist",
        ),
        (
            record(&|record| record.filled.clone_from(&first.filled)),
            "the hook that fills table \"datapath_label\" does not fit: [\"blue\"] gets number 1, but has one",
        ),
        (record(&|record| record.objects.put = vec![json!({"kind": "switch_port"}).into()]), "no object"),
    ];
    for (records, wanted) in cases {
        let error = restore(&records);
        assert!(matches!(error, RestoreError::Record { txn: 2, .. }), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn labels_stay_over_restarts_and_come_again_last() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let delete = |core: &mut Core, id: &str| {
        core.delete(&[key("switch_port", id)], "test", now()).unwrap().transaction.unwrap().journalled()
    };
    records.push(delete(&mut core, "blue-1"));
    let (mut restored, _) = crate::support::core(&rules, &records);
    for core in [&mut core, &mut restored] {
        let text = "{kind: switch_port, id: blue-1, switch: blue}\n---\n{kind: localnet_port, id: out, switch: blue, network: physnet}";
        let record = apply(core, text).journalled();
        assert_eq!(
            filled(&record, "tunnel_label"),
            [[json!("port"), json!("blue-1"), json!(0x10c)], [json!("port"), json!("out"), json!(0x10d)]],
            "0x101 was given back, and rests"
        );
    }
}

#[test]
fn problems_come_and_go_with_their_transactions() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let first = apply(&mut core, "{kind: switch, id: a, tenant: odd}");
    let problem = Problem {
        kind: "switch".into(),
        id: "a".into(),
        code: "odd".into(),
        text: "its tenant is odd".into(),
    };
    let problem = std::sync::Arc::new(problem);
    assert_eq!(first.problems, ProblemChanges { new: vec![problem.clone()], gone: Vec::new() });
    assert_eq!(
        (core.problems().collect::<Vec<_>>(), mtu(&core, "a"), mtu(&core, "b")),
        (vec![&problem], Some(1442), None)
    );
    assert_eq!(crate::support::core(&rules, &[first.journalled()]).0.problems().count(), 1);

    let mended = apply(&mut core, "{kind: switch, id: a}");
    assert_eq!(mended.problems, ProblemChanges { new: Vec::new(), gone: vec![problem] });
    core.undo(mended).unwrap();
    assert_eq!(core.problems().count(), 1);
    let gone = core.delete(&[key("switch", "a")], "test", now()).unwrap().transaction.unwrap();
    assert_eq!((gone.problems.gone.len(), core.problems().count(), mtu(&core, "a")), (1, 0, None));
}

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<String>),
    Delete(Vec<ObjectKey>),
    Report(u8, Vec<(u8, u16)>),
}

impl Step {
    /// The transaction, if it was accepted and changed anything.
    fn run(&self, core: &mut Core) -> Option<AppliedTransaction> {
        match self {
            Step::Apply(objects) => {
                let mut batch = objects::Batch::new(core.rules().kinds(), objects::Cancel::default());
                batch.add_json("step", &objects.join("\n"));
                core.apply(batch, "test", now()).ok()?.transaction
            }
            Step::Delete(keys) => core.delete(keys, "test", now()).ok()?.transaction,
            Step::Report(node, vifs) => {
                // What no object has is no row, and no record has it.
                let has = |port: &str| {
                    let kinds = ["switch_port", "localnet_port"];
                    kinds.iter().any(|kind| core.objects().get(&key(kind, port)).is_some())
                };
                let names = vifs.iter().map(|(port, ofport)| (format!("p{port}"), *ofport));
                let names: Vec<(String, u16)> = names.filter(|(port, _)| has(port)).collect();
                let vifs: Vec<(&str, u16)> = names.iter().map(|(port, ofport)| (&**port, *ofport)).collect();
                let report = report(&vifs, &[("weft-geneve", 1)]);
                core.report(&format!("hv{node}"), &report, now()).ok()?
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let node = (1..3u8, 0..3usize).prop_map(|(id, encaps)| {
        let encaps = &["geneve", "vxlan", "gre"][encaps..];
        json!({"kind": "transport_node", "id": format!("hv{id}"), "ip": format!("172.16.0.{id}"), "encaps": encaps})
            .to_string()
    });
    let switch = (0..4u8, prop::sample::select(vec!["acme", "clash", "beyond", "single", "odd"])).prop_map(
        |(id, tenant)| json!({"kind": "switch", "id": format!("s{id}"), "tenant": tenant}).to_string(),
    );
    let port = (0..6u8, 0..4u8, 0..8u8).prop_map(|(id, switch, mac)| {
        let addresses = json!([{"mac": format!("02:00:00:00:00:0{mac}"), "ips": [format!("10.0.0.{}", mac + 1)]}]);
        json!({"kind": "switch_port", "id": format!("p{id}"), "switch": format!("s{switch}"), "addresses": addresses})
            .to_string()
    });
    let object = prop_oneof![1 => node, 2 => switch, 3 => port];
    let localnet = (6..8u8, 0..4u8).prop_map(|(id, switch)| {
        json!({"kind": "localnet_port", "id": format!("p{id}"), "switch": format!("s{switch}"), "network": "n", "tag": id})
            .to_string()
    });
    let object = prop_oneof![6 => object, 1 => localnet];
    let any_key = (0..4usize, 0..8u8).prop_map(|(kind, id)| {
        let (kind, prefix) =
            [("transport_node", "hv"), ("switch", "s"), ("switch_port", "p"), ("localnet_port", "p")][kind];
        key(kind, &format!("{prefix}{id}"))
    });
    prop_oneof![
        4 => prop::collection::vec(object, 1..5).prop_map(Step::Apply),
        2 => prop::collection::vec(any_key, 1..3).prop_map(Step::Delete),
        2 => (1..3u8, prop::collection::vec((0..6u8, 1..4u16), 0..4)).prop_map(|(node, vifs)| Step::Report(node, vifs)),
    ]
}

/// The records as a file of transactions, run through a fresh evaluator as `weft eval` does: contents of the outputs.
fn replay(records: &[Record]) -> BTreeMap<String, Vec<nlog_data::Row>> {
    let rules = rules(RULES);
    let mut evaluator = reference(&rules);
    let schema = rules.program().schema.clone();
    for (record, number) in records.iter().zip(1..) {
        let line = serde_json::to_vec(record).expect("a record is JSON");
        let line = json::parse_line(&line, number, &schema).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(line.txn, Some(number));
        assert_eq!(line.origin["by"], json!(record.by));
        let committed = evaluator.commit(&line.transaction).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((committed.redundant_inserts, committed.redundant_deletes), (0, 0), "{record:?}");
    }
    let table = |id| (schema.table(id).name.clone(), evaluator.contents(id).expect("an output table"));
    rules.observed().into_iter().map(table).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happened, refusals included: a core restored from the records is the one that wrote them, and goes on
    /// as it would have.
    #[test]
    fn records_bring_back_the_core_after_any_history(steps in prop::collection::vec(step(), 1..24), at in 0..24usize) {
        let rules = rules(RULES);
        let (mut core, _) = core(&rules, &[]);
        let mut records: Vec<Record> = Vec::new();
        let mut restored: Option<Core> = None;
        for (number, step) in steps.iter().enumerate() {
            if number == at {
                let (other, correction) = crate::support::core(&rules, &records);
                prop_assert!(correction.is_none(), "{correction:?}");
                prop_assert_eq!(state(&other), state(&core));
                restored = Some(other);
            }
            let run = |core: &mut Core| step.run(core).map(|done| done.journalled());
            let record = run(&mut core);
            if let Some(restored) = &mut restored {
                prop_assert_eq!(&run(restored), &record);
            }
            records.extend(record);
            // What a core restored knows nothing of is not tried again, so that the two stay the same.
            while restored.is_none() && let Some(retried) = core.retry(now()).unwrap() {
                records.extend(retried.transaction.map(|done| done.journalled()));
            }
        }

        let (last, correction) = crate::support::core(&rules, &records);
        prop_assert!(correction.is_none(), "{correction:?}");
        prop_assert_eq!(state(&last), state(&core));
        let replayed = replay(&records);
        let flows: usize = ["hv1", "hv2"].iter().map(|node| core.desired(node).flows.len()).sum();
        prop_assert_eq!(replayed["of_flow"].len(), flows);
        let tunnels: usize = ["hv1", "hv2"].iter().map(|node| core.desired(node).tunnels.len()).sum();
        prop_assert_eq!(replayed["ovsdb_tunnel"].len(), tunnels);
    }

    /// Groups of transactions taken back leave the core as it was: what comes next, labels included, is as if they had
    /// never been.
    #[test]
    fn transactions_taken_back_leave_no_trace(
        steps in prop::collection::vec((step(), any::<bool>()), 1..24),
        other in prop::collection::vec(step(), 1..4),
    ) {
        let rules = rules(RULES);
        let (mut core, _) = core(&rules, &[]);
        let mut records = Vec::new();
        for (step, before_it) in &steps {
            if *before_it {
                let before = state(&core);
                let mut undone: Vec<AppliedTransaction> = other.iter().filter_map(|step| step.run(&mut core)).collect();
                while let Some(retried) = core.retry(now()).unwrap() {
                    undone.extend(retried.transaction);
                }
                while let Some(applied) = undone.pop() {
                    core.undo(applied).unwrap();
                }
                core.pause_retries();
                prop_assert_eq!(state(&core), before);
            }
            records.extend(step.run(&mut core).map(|done| done.journalled()));
        }
        let (restored, correction) = crate::support::core(&rules, &records);
        prop_assert!(correction.is_none(), "{correction:?}");
        prop_assert_eq!(state(&restored), state(&core));
        let [first, second] = [restored, core].map(|mut core| {
            other.iter().filter_map(|step| step.run(&mut core)).map(|done| done.journalled()).collect::<Vec<_>>()
        });
        prop_assert_eq!(first, second);
    }
}

#[test]
fn equal_matches_and_actions_of_switches_are_in_memory_once() {
    let rules = rules(RULES);
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    records.push(apply(&mut core, "{kind: transport_node, id: hv3, ip: 172.16.0.3}").journalled());
    // Within a transaction, from one to the next, and after a restart.
    for core in [&core, &crate::support::core(&rules, &records).0] {
        let [one, two, three] = ["hv1", "hv2", "hv3"].map(|node| core.desired(node));
        assert_eq!((one.flows.len(), &one.flows), (3, &two.flows));
        for other in [&two, &three] {
            for ((key, flow), (other_key, other_flow)) in one.flows.iter().zip(&other.flows) {
                assert_eq!((key, flow), (other_key, other_flow));
                assert!(key.shares_with(other_key) && flow.shares_with(other_flow), "{key:?} {flow:?}");
            }
        }
    }
}
