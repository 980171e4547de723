//! Which of several errors a refusal reports, and its wording.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use crate::support::*;
use nlog_data::{ErrorCode, Evaluator, TransactionError};
use weft_core::Rules;
use weft_core::core::{Core, CoreError, Refusal};

/// A trunk whose parent is plugged in, and a router.
const ROUTED: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1}
---
{kind: switch, id: blue}
---
{kind: switch, id: green}
---
{kind: switch_port, id: vm, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: switch_port, id: inner, switch: green, parent: vm, tag: 7}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.0.254/24]}
---
{kind: router_port, id: r-green, router: r, switch: green, mac: '02:00:00:00:ff:02', networks: [10.0.1.254/24]}
";

/// Mistakes from which rules derive two rows with one key, and all that is to be said about each.
const MISTAKES: [(&str, &str); 3] = [
    (
        "{kind: route, id: out, router: r, destination: 0.0.0.0/0, next_hops: [10.0.0.1], discard: true}",
        "net.yaml:1: route out: discard: cannot be `true` together with `next_hops`",
    ),
    (
        "{kind: switch_port, id: other, switch: green, parent: vm}",
        "net.yaml:1: switch_port other: tag: is missing: a port with a parent needs a VLAN tag from 1 to 4094",
    ),
    (
        "{kind: router_port, id: again, router: r, switch: green, mac: '02:00:00:00:ff:03', networks: [10.0.0.253/24]}",
        "net.yaml:1: router_port again: networks[0]: 10.0.0.0/24 overlaps 10.0.0.0/24 of router_port r-blue of the same router; \
         give each port of a router networks of its own",
    ),
];

fn core_with(evaluator: Box<dyn Evaluator>, rules: &Arc<Rules>, is_plugged_in: bool) -> Core {
    let (mut core, _) = Core::restore(evaluator, rules.clone(), history(rules, &[]), now()).unwrap();
    apply(&mut core, ROUTED);
    if is_plugged_in {
        core.report("hv1", &report(&[("vm", 101)], &[("weft-geneve", 1)]), now()).unwrap().unwrap();
    }
    core
}

fn refusal(core: &mut Core, text: &str) -> Refusal {
    let batch = batch_of(core.rules().kinds(), text);
    let Err(CoreError::Refused(refusal)) = core.apply(batch, "test", now()) else {
        panic!("{text}: no refusal")
    };
    refusal
}

#[test]
fn a4_what_is_refused_of_an_object_comes_before_the_conflicts_that_follow_from_it() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let dataflow = || controller::evaluator(&rules, 1).unwrap();
    let makes: [&dyn Fn() -> Box<dyn Evaluator>; 2] = [&dataflow, &|| reference(&rules)];
    let mut conflicts = 0;
    for make in makes {
        for is_plugged_in in [false, true] {
            let mut core = core_with(make(), &rules, is_plugged_in);
            for (mistake, wanted) in MISTAKES {
                assert_eq!(refusal(&mut core, mistake).to_string(), wanted, "plugged in: {is_plugged_in}");
            }
        }
        // Without the words of the rules, these are conflicts.
        let mut core = core_with(make(), &rules, true);
        for (mistake, _) in MISTAKES {
            let mut plan = objects::Batch::new(core.rules().kinds(), objects::Cancel::default());
            plan.add_document("net.yaml", mistake);
            conflicts += usize::from(first_error(&mut core, plan).code == ErrorCode::KeyConflict);
        }
    }
    assert!(conflicts >= 4, "only {conflicts} of the mistakes are conflicts too, so the order is not tested");
}

/// The error of the rows of a batch, as `weft eval` tells it.
fn first_error(core: &mut Core, batch: objects::Batch) -> TransactionError {
    let mut evaluator = controller::evaluator(core.rules(), 1).unwrap();
    let schema = &core.rules().program().schema;
    let mut store = objects::ObjectStore::new(core.rules().kinds());
    let before = store.plan_document("net.yaml", ROUTED).unwrap();
    evaluator.commit(&before.rows().transaction(schema)).unwrap();
    store.commit(&before);
    let vif = schema.find("vif").unwrap();
    let plugged = vec!["hv1".into(), "vm".into(), 101.into(), "".into(), 1.into()];
    let report = nlog_data::Transaction { insert: [(vif, vec![plugged])].into(), ..Default::default() };
    evaluator.commit(&report).unwrap();
    let rows = store.plan(batch).unwrap().rows().transaction(schema);
    match evaluator.commit(&rows) {
        Err(nlog_data::CommitError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Two rules of one flow: each tenant has its own idea of what happens to tagged frames.
const TWO_RULES: &str = "
of_flow(hv, 10, 1, match_reg0(label), set_reg1(1)) :-
    transport_node(id: hv, ..), logical_switch(sw, \"tags\"), datapath_label(sw, label);
of_flow(hv, 10, 1, match_reg0(label), set_reg1(2)) :-
    transport_node(id: hv, ..), logical_switch_port(port, sw), logical_switch(sw, \"tags\"), datapath_label(sw, label);
";

#[test]
fn a8_a_conflict_names_both_rules_and_the_objects_behind_it() {
    let rules = rules(&format!("{RULES}{TWO_RULES}"));
    let line = |text: &str| {
        1 + format!("{RULES}{TWO_RULES}").lines().position(|line| line.starts_with(text)).unwrap()
    };
    let [first, second] = [
        "of_flow(hv, 10, 1, match_reg0(label), set_reg1(1))",
        "of_flow(hv, 10, 1, match_reg0(label), set_reg1(2))",
    ]
    .map(line);
    let dataflow = || controller::evaluator(&rules, 1).unwrap();
    for evaluator in [reference(&rules), dataflow()] {
        let (mut core, _) = Core::restore(evaluator, rules.clone(), history(&rules, &[]), now()).unwrap();
        apply(&mut core, NETWORK);
        let text =
            "{kind: switch, id: tagged, tenant: tags}\n---\n{kind: switch_port, id: p, switch: tagged}";
        assert_eq!(
            refusal(&mut core, text).to_string(),
            format!(
                "key-conflict: net.yaml:1: switch tagged: table of_flow: the rules derive two rows with the same key (hv: \"hv1\", \
                 table_id: 10, priority: 1, match: \"reg0=0x3\"): actions is \"set_field:0x1->reg1\" in one and \
                 \"set_field:0x2->reg1\" in the other\n  \
                 one by the rule at test.nlog:{first}:1, from transport_node hv1, switch tagged (net.yaml:1)\n  \
                 the other by the rule at test.nlog:{second}:1, from switch_port p (net.yaml:3), transport_node hv1, switch tagged (net.yaml:1)"
            )
        );
        // Nothing has changed, and the next request is taken.
        apply(&mut core, "{kind: switch, id: tagged, tenant: tags}");
        let text = refusal(&mut core, "{kind: switch_port, id: p, switch: tagged}").to_string();
        assert!(text.starts_with("key-conflict: net.yaml:1: switch_port p: table of_flow: "), "{text}");
    }
}
