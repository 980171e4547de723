//! Programs from text: the compiled program has the meaning of its text.

use nlog::{Sources, compile};
use nlog_data::Tables;
use nlog_reference::Reference;
use proptest::prelude::*;

use crate::reference::build::Run;

fn run(text: &str) -> Run {
    let compilation = compile(&Sources::from_texts([("test.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{text}: {:?}", compilation.diagnostics));
    Run(Reference::new(program, Tables::Outputs))
}

/// The rules as printed in the paper, and the declarations of their tables.
const FIGURE_6: &str = include_str!("../../../../../examples/figure6.nlog");

#[test]
fn figure_6_verbatim() {
    let mut run = run(FIGURE_6);
    let load = r#"{"insert":{"log_port":[["p1","d"],["p2","d"]],"log_datapath_encap":[["d","geneve"]],
        "log_port_presence":[["p1","hv1"],["p2","hv2"]],"hypervisor_locator":[["hv1","10.0.0.1"],["hv2","fd00::2"]],
        "lport_stage_id":[["p1",26],["p2",27]],"ovsdb_tport":[["hv1","geneve","fd00::2",3]]}}"#;
    assert_eq!(
        run.eval(&load.replace('\n', "")),
        r#"{"insert":{"ovs_flow":[["hv1","reg1=0x1b","output:3"]],"ovsdb_tunnel":[["hv1","geneve","fd00::2"],["hv2","geneve","10.0.0.1"]]},"delete":{}}"#
    );
    // A stage without a match is reported before anything changes.
    assert_eq!(
        run.eval(r#"{"insert":{"lport_stage_id":[["p2",-1]]},"delete":{"lport_stage_id":[["p2",27]]}}"#),
        "range: table ovs_flow: flow_expr_match_reg1: -1 does not fit in reg1 (32 bits)"
    );
}

#[test]
fn aggregates_lists_and_flows_in_the_language_itself() {
    let mut run = run(r#"
        const L2 = 20;
        input table vif(port: string, hv: string, since: int);
        input table encaps(hv: string, encaps: list<string>);
        output table location(port: string, hv: string) key(port);
        output table best(hv: string, encap: string) key(hv);
        output table ports(hv: string, n: int, ports: set<string>);
        output table flow(hv: string, m: match, a: actions);
        location(port, arg_max(since, hv)) :- vif(port, hv, since);
        best(hv, arg_min(rank, encap)) :- encaps(hv, list), element_at(list, rank, encap), encap != "stt";
        ports(hv, count(port), set(port)) :- location(port, hv);
        flow(hv, match_metadata(n) & match_arp(), set_reg0(n << 4) ++ resubmit(L2)) :- ports(hv, n, _);
    "#);
    assert_eq!(
        run.eval(
            r#"{"insert":{"vif":[["p1","hv1",1],["p1","hv2",2],["p2","hv2",2]],"encaps":[["hv1",["stt","geneve","vxlan"]]]}}"#
        ),
        r#"{"insert":{"best":[["hv1","geneve"]],"flow":[["hv2","arp,metadata=0x2","set_field:0x20->reg0,resubmit(,20)"]],"location":[["p1","hv2"],["p2","hv2"]],"ports":[["hv2",2,["p1","p2"]]]},"delete":{}}"#
    );
}

/// Parts of a body: each can fail or reject, and some bind variables that others use.
const PARTS: [&str; 7] =
    ["a(x, y)", "b(y, z)", "q = x / y", "r = q + z", "r != 3", "element_at([0, 5], i, e)", "i + x < 3"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_a_body_shows_in_nothing(
        parts in Just(PARTS.to_vec()).prop_shuffle(),
        a in prop::collection::vec([-1..3i64, 0..3i64], 0..5),
        b in prop::collection::vec((0..3i64, prop_oneof![3 => 0..3i64, 1 => Just(i64::MAX)]).prop_map(|(y, z)| [y, z]), 0..5),
    ) {
        let program = |parts: &[&str]| {
            run(&format!(
                "input table a(x: int, y: int); input table b(y: int, z: int);
                 output table t(x: int, r: int, e: int); t(x, r - e, e) :- {};",
                parts.join(", ")
            ))
        };
        let line = format!(r#"{{"insert":{{"a":{a:?},"b":{b:?}}}}}"#);
        prop_assert_eq!(program(&PARTS).eval(&line), program(&parts).eval(&line));
    }
}
