//! Groups that choose one of their buckets: from rows to switches, and what rules must not ask of them.

use crate::support::*;
use nlog_data::ErrorCode;
use openflow_rs::Field;
use switch_model::Choice;
use weft_core::core::{Core, CoreError, Refusal};

/// What the other tests do not need. A switch of tenant `copies` makes the group one that gives each bucket a copy.
const CHOICES: &str = r#"
output table of_bucket(hv: string, group: int, bucket: int, actions: actions) key(hv, group, bucket);
output table of_group(hv: string, group: int, type: string, fields: set<string>) key(hv, group);
output table of_candidate(hv: string, group: int, bucket: int, weight: int, watch_port: int, watch_group: int,
    actions: actions) key(hv, group, bucket);

of_group(hv, 7, "select", {"tcp_dst", "ip_src"}) :- transport_node(id: hv, ..), logical_switch("blue", "acme");
of_candidate(hv, 7, label, ofport - 1, ofport, label - 250, set_reg1(label)) :-
    vif(hv, port, ofport, _, _), port_label(port, label), logical_switch("blue", "acme");
of_bucket(hv, 7, label, set_reg1(label)) :-
    vif(hv, port, _, _, _), port_label(port, label), logical_switch("blue", "copies");
"#;

/// The message of the refusal of a batch.
fn refusal(core: &mut Core, text: &str) -> String {
    match core.apply(batch(text), "test", now()) {
        Err(CoreError::Refused(Refusal::Rules(error))) if error.code == ErrorCode::Range => error.message,
        other => panic!("{text}: not refused: {:?}", other.map(drop)),
    }
}

#[test]
fn choices_go_to_switches_and_become_copies_in_one_transaction() {
    let rules = rules(&format!("{RULES}{CHOICES}"));
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let select = Choice::Select(vec![Field::IpSrc, Field::TcpDst]);
    assert_eq!(core.desired("hv1").choices, [(7, select)].into());
    assert_eq!(core.desired_counts("hv1").groups, 0, "it has no bucket");
    records.push(core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap().unwrap().journalled());
    let desired = core.desired("hv1");
    let bucket = &desired.candidates[&(7, 0x101)];
    assert!(
        format!("{bucket:?}")
            .contains(", weight:4, watch_port:5, watch_group:7, actions=set_field:0x101->reg1"),
        "{bucket:?}"
    );
    assert_eq!((core.desired_counts("hv1").groups, core.desired_counts("hv2").groups), (1, 0));

    let applied = apply(&mut core, "{kind: switch, id: blue, tenant: copies}");
    let changes = &applied.changes["hv1"];
    assert_eq!((&changes.choices.delete, &changes.candidates.delete), (&[7].into(), &[(7, 0x101)].into()));
    assert_eq!(changes.buckets.add.keys().copied().collect::<Vec<_>>(), [(7, 0x101)]);
    assert_eq!(core.desired_counts("hv1").groups, 1);
    records.push(applied.journalled());
    assert_eq!(crate::support::core(&rules, &records).0.desired("hv1"), core.desired("hv1"));
    apply(&mut core, "{kind: switch, id: blue, tenant: acme}");
    assert_eq!(core.desired("hv1"), desired);
}

#[test]
fn what_no_group_can_be_is_refused_with_the_group_and_the_remedy() {
    let candidate =
        |rest: &str| format!("of_candidate(\"hv1\", {rest}, set_reg1(1)) :- logical_switch(_, \"far\");");
    let group = |rest: &str| format!("of_group(\"hv1\", {rest}) :- logical_switch(_, \"far\");");
    let failover = group("9, \"fast_failover\", {}");
    for (rules_text, expected) in [
        (
            candidate("9, 1, 1, 0, 0"),
            "of_candidate: hv1: group 9 has no row of of_group: add one with its type, or put its buckets into of_bucket, of \
             which each gets a copy",
        ),
        (
            "of_bucket(\"hv1\", 7, 1, set_reg1(1)) :- logical_switch(_, \"far\");".to_owned(),
            "of_bucket: hv1: group 7 also has rows of of_group or of_candidate: a group has its buckets in of_bucket, of which \
             each gets a copy, or in of_candidate, of which one gets the packet; use another number for one of them",
        ),
        (
            candidate("7, 1, 0, 0, 0"),
            "of_candidate: hv1: bucket 1 of group 7 has weight 0, so no packet would come to it: give it a weight of at least \
             1, or leave it out",
        ),
        (
            failover.clone() + &candidate("9, 2, 0, 0, 0"),
            "of_candidate: hv1: bucket 2 of group 9 watches nothing, but fast_failover takes only buckets that watch a port or a \
             group: give it a watch_port or a watch_group",
        ),
        (
            failover + &candidate("9, 2, 3, 4, 0"),
            "of_candidate: hv1: bucket 2 of group 9 has weight 3, but fast_failover knows no weights: write 0",
        ),
        (
            group("9, \"select\", {}"),
            "of_group: hv1: group 9 selects by no field: name the fields whose hash chooses a bucket",
        ),
        (
            group("9, \"fast_failover\", {\"ip_src\"}"),
            "of_group: hv1: group 9 is of type fast_failover, which hashes nothing: leave its fields empty",
        ),
        (
            group("9, \"select\", {\"ip_source\"}"),
            "of_group: hv1: group 9 hashes ip_source, which is no field that a switch can hash",
        ),
        (
            group("9, \"indirect\", {}"),
            "of_group: hv1: group 9 has the type indirect, which does not exist; it is select or fast_failover",
        ),
        (
            group("0x4000000, \"fast_failover\", {}"),
            "of_group: hv1: group 67108864 is out of range; the last is 67108863",
        ),
        (
            candidate("7, 1, 65536, 0, 0"),
            "of_candidate: hv1: weight 65536 is out of range; the last is 65535",
        ),
        (
            candidate("7, 1, 1, 65280, 0"),
            "of_candidate: hv1: watch_port 65280 is out of range; the last is 65279",
        ),
        (
            candidate("7, 1, 1, 0, 0x4000000"),
            "of_candidate: hv1: watch_group 67108864 is out of range; the last is 67108863",
        ),
    ] {
        let rules = rules(&format!("{RULES}{CHOICES}{rules_text}"));
        let (mut core, _) = core(&rules, &[]);
        apply(&mut core, NETWORK).journalled();
        core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap().unwrap().journalled();
        let before = core.desired("hv1");
        assert_eq!(refusal(&mut core, "{kind: switch, id: green, tenant: far}"), expected);
        assert_eq!(core.desired("hv1"), before);
        apply(&mut core, "{kind: switch, id: green, tenant: near}");
    }
}
