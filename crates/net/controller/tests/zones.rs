//! Conntrack zones: from rows to switches, and what rules must not ask of them.

use std::collections::BTreeMap;

use crate::support::*;
use nlog_data::ErrorCode;
use switch_model::{BfdSession, CollectorSet, ZoneLimits, ZoneOwner};
use weft_core::core::{Core, CoreError, Refusal};

/// The zone of a port is the number of its interface.
const ZONES: &str = r#"
output table conntrack_zone(hv: string, zone: int, owner: string) key(hv, zone);
conntrack_zone(hv, ofport, port) :- vif(hv, port, ofport, _, _), logical_switch("blue", "acme");
"#;

/// Why the rules refuse switch green of tenant far: a row of theirs has a number that no switch has.
fn why_green_is_refused(core: &mut Core) -> String {
    match core.apply(batch("{kind: switch, id: green, tenant: far}"), "test", now()) {
        Err(CoreError::Refused(Refusal::Rules(error))) if error.code == ErrorCode::Range => error.message,
        other => panic!("not refused: {:?}", other.map(drop)),
    }
}

fn zones(owners: &[(u16, &str)]) -> BTreeMap<u16, ZoneOwner> {
    owners
        .iter()
        .map(|(zone, owner)| (*zone, ZoneOwner::new(owner).unwrap_or_else(|error| panic!("{error}"))))
        .collect()
}

#[test]
fn the_owners_of_zones_go_to_switches_with_the_flows_of_their_transaction() {
    let rules = rules(&format!("{RULES}{ZONES}"));
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let mut told = |core: &mut Core, ports: &[(&str, u16)]| {
        let applied = core.report("hv1", &report(ports, &[]), now()).unwrap().unwrap();
        let changes = applied.changes["hv1"].clone();
        records.push(applied.journalled());
        (changes, records.clone())
    };
    let (changes, _) = told(&mut core, &[("blue-1", 5)]);
    assert_eq!(changes.zones.add, zones(&[(5, "blue-1")]));
    assert!(!changes.flows.add.is_empty());
    assert_eq!(core.desired("hv1").zones, zones(&[(5, "blue-1")]));

    // Another port gets the number: one addition, which replaces the owner.
    let (changes, records) = told(&mut core, &[("blue-2", 5)]);
    assert_eq!((changes.zones.add, changes.zones.delete), (zones(&[(5, "blue-2")]), [].into()));
    assert_eq!(crate::support::core(&rules, &records).0.desired("hv1"), core.desired("hv1"));

    let applied = apply(&mut core, "{kind: switch, id: blue, tenant: free}");
    assert_eq!(applied.changes["hv1"].zones.delete, [5].into());
    assert_eq!(core.desired("hv1").zones, zones(&[]));
}

#[test]
fn what_no_zone_can_be_is_refused() {
    let flow = "of_flow(\"hv1\", 253, 7, match_reg0(0), set_reg1(1)) :- logical_switch(_, \"far\");";
    for (rules_text, expected) in [
        (
            "conntrack_zone(\"hv1\", 0, \"p\") :- logical_switch(_, \"far\");",
            "conntrack_zone: hv1: zone 0 is out of range; it is from 1 to 65535",
        ),
        (
            "conntrack_zone(\"hv1\", 65536, \"p\") :- logical_switch(_, \"far\");",
            "conntrack_zone: hv1: zone 65536 is out of range; it is from 1 to 65535",
        ),
        (flow, "of_flow: hv1: table 253 is where the driver notes the owners of conntrack_zone"),
    ] {
        let rules = rules(&format!("{RULES}{ZONES}{rules_text}"));
        let (mut core, _) = core(&rules, &[]);
        apply(&mut core, NETWORK).journalled();
        assert_eq!(why_green_is_refused(&mut core), expected, "{rules_text}");
    }
    // Rules without zones have the table for themselves.
    let rules = rules(&format!("{RULES}{flow}"));
    let (mut core, _) = core(&rules, &[]);
    apply(&mut core, NETWORK).journalled();
    let flows = core.desired("hv1").flows.len();
    apply(&mut core, "{kind: switch, id: green, tenant: far}");
    assert_eq!(core.desired("hv1").flows.len(), flows + 1);
}

#[test]
fn limits_of_zones_go_to_switches_and_zero_connections_mean_no_limit() {
    let limits = r#"
output table conntrack_limit(
    hv: string, zone: int, connections: int, unanswered: int, answered: int, established: int, closing: int,
) key(hv, zone);
conntrack_limit(hv, ofport, ofport - 5, 30, 120, 600, 60) :- vif(hv, _, ofport, _, _), logical_switch("blue", "acme");
conntrack_limit("hv1", 9, -1, 30, 120, 600, 60) :- logical_switch(_, "far");
"#;
    let rules = rules(&format!("{RULES}{ZONES}{limits}"));
    let (mut core, _) = core(&rules, &[]);
    apply(&mut core, NETWORK).journalled();
    let applied = core.report("hv1", &report(&[("blue-1", 5), ("blue-2", 6)], &[]), now()).unwrap().unwrap();
    let all = |connections| ZoneLimits {
        connections,
        unanswered: 30,
        answered: 120,
        established: 600,
        closing: 60,
    };
    let wanted = BTreeMap::from([(5, all(None)), (6, all(Some(1)))]);
    assert_eq!(applied.changes["hv1"].limits.add, wanted);
    applied.journalled();
    assert_eq!(core.desired("hv1").limits, wanted);

    // No switch has a negative number.
    assert_eq!(
        why_green_is_refused(&mut core),
        "conntrack_limit: hv1: zone 9 has connections -1, which is out of range; it is from 0 to 4294967295"
    );
}

#[test]
fn sets_of_collectors_go_to_switches() {
    let sets = r#"
output table collector_set(hv: string, number: int, targets: set<string>, active_timeout: int, flows_max: int)
    key(hv, number);
collector_set(hv, ofport, {"10.0.0.9:4739", "10.0.0.8:4739"}, 10, 4096) :- vif(hv, _, ofport, _, _);
collector_set("hv1", 9, {"10.0.0.9:4739"}, 70000, 0) :- logical_switch(_, "far");
"#;
    let rules = rules(&format!("{RULES}{ZONES}{sets}"));
    let (mut core, _) = core(&rules, &[]);
    apply(&mut core, NETWORK).journalled();
    let applied = core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap().unwrap();
    let targets = ["10.0.0.8:4739", "10.0.0.9:4739"].map(str::to_owned).into();
    let wanted = BTreeMap::from([(5, CollectorSet { targets, active_timeout: 10, flows_max: 4096 })]);
    assert_eq!(applied.changes["hv1"].collectors.add, wanted);
    applied.journalled();
    assert_eq!(core.desired("hv1").collectors, wanted);

    assert_eq!(
        why_green_is_refused(&mut core),
        "collector_set: hv1: active_timeout 70000 is out of range; it is from 0 to 65535"
    );
}

#[test]
fn bfd_sessions_go_to_switches() {
    let sessions = r#"
output table bfd_session(hv: string, tunnel: string, interval: int) key(hv, tunnel);
bfd_session(hv, "geneve-" ++ to_string(ofport), ofport) :- vif(hv, _, ofport, _, _);
bfd_session("hv1", "geneve-9", 0) :- logical_switch(_, "far");
"#;
    let rules = rules(&format!("{RULES}{ZONES}{sessions}"));
    let (mut core, _) = core(&rules, &[]);
    apply(&mut core, NETWORK).journalled();
    let applied = core.report("hv1", &report(&[("blue-1", 500)], &[]), now()).unwrap().unwrap();
    let wanted = BTreeMap::from([("geneve-500".to_owned(), BfdSession { interval: 500 })]);
    assert_eq!(applied.changes["hv1"].bfd.add, wanted);
    applied.journalled();
    assert_eq!(core.desired("hv1").bfd, wanted);

    assert_eq!(
        why_green_is_refused(&mut core),
        "bfd_session: hv1: geneve-9 has interval 0, which is out of range; it is from 1 to 65535"
    );
}
