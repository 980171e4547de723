//! Groups and patch ports: from rows to switches and back.

use crate::support::*;
use nlog_data::ErrorCode;
use serde_json::json;
use weft_core::core::{CoreError, Refusal};

/// What the other tests do not need.
const GROUPS: &str = r#"
input table patch_port(hv: string, patch: string, ofport: int) key(hv, patch);
output table of_bucket(hv: string, group: int, bucket: int, actions: actions) key(hv, group, bucket);
output table ovsdb_patch(hv: string, patch: string, bridge: string, peer: string) key(hv, patch);

of_bucket(hv, 7, label, set_reg1(label)) :- vif(hv, port, _, _, _), port_label(port, label);
of_bucket(hv, 7, 0xfffe, flow_output_action(ofport)) :- patch_port(hv, "weft-phys", ofport);
of_bucket(node, 0x4000000, 1, set_reg1(1)) :- transport_node(id: node, ..), logical_switch(_, "far");
ovsdb_patch(node, "weft-" ++ mapping.network, mapping.bridge, "to-" ++ mapping.network) :-
    transport_node(id: node, bridge_mappings: mappings, ..), element(mappings, mapping);
"#;

#[test]
fn buckets_and_patch_ports_go_to_switches_and_their_numbers_come_back() {
    let rules = rules(&format!("{RULES}{GROUPS}"));
    let (mut core, _) = core(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    assert_eq!(filled(&records[0], "tunnel_label")[0], [json!("port"), json!("blue-1"), json!(0x101)]);
    let local = 0x101;
    let mapped = "{kind: transport_node, id: hv1, ip: 172.16.0.1, bridge_mappings: {phys: br-phys},
        ovsdb: 'unix:/run/hv1/db.sock', openflow: 'unix:/run/hv1/br-int.mgmt'}";
    let applied = apply(&mut core, mapped);
    assert_eq!(applied.changes["hv1"].patches.add.len(), 1);
    records.push(applied.journalled());
    let mut report = report(&[("blue-1", 5)], &[]);
    report.patches.insert("weft-phys".to_owned(), 9);
    let applied = core.report("hv1", &report, now()).unwrap().unwrap();
    assert_eq!(applied.journalled().insert["patch_port"], [[json!("hv1"), json!("weft-phys"), json!(9)]]);
    records.push(applied.journalled());
    let rule = |line: &str| format!("rule={:#x}", rules_fingerprint(&rules, line));
    assert_eq!(
        shown(&core.desired("hv1"))[4..],
        [
            format!("7/{local} {}, actions=set_field:{local:#x}->reg1", rule("set_reg1(label)")),
            format!("7/65534 {}, actions=output:9", rule("0xfffe")),
            "weft-geneve: geneve to flow".to_owned(),
            "weft-phys: to to-phys of br-phys".to_owned(),
        ]
    );

    let far = batch("{kind: switch, id: green, tenant: far}");
    let Err(CoreError::Refused(Refusal::Rules(error))) = core.apply(far, "test", now()) else {
        panic!("a group that no switch can have")
    };
    assert_eq!(error.code, ErrorCode::Range);
    assert_eq!(error.message, "of_bucket: hv1: group 67108864 is out of range; the last is 67108863");

    assert_eq!(shown(&crate::support::core(&rules, &records).0.desired("hv1")), shown(&core.desired("hv1")));
    report.patches.clear();
    report.vifs.clear();
    let gone = core.report("hv1", &report, now()).unwrap().unwrap();
    assert_eq!(gone.changes["hv1"].buckets.delete, [(7, local), (7, 0xfffe)].into());
    assert_eq!(core.desired("hv1").buckets.len(), 0);
}

fn rules_fingerprint(rules: &weft_core::Rules, text: &str) -> u64 {
    let program = rules.program();
    let rule =
        program.rules.iter().find(|rule| rule.text.contains(text) && rule.text.starts_with("of_bucket"));
    rule.map_or(0, |rule| rule.fingerprint)
}
