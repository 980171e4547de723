//! Programs from their text: what the front end makes of it means what the text says.

use nlog::{Sources, compile};
use nlog_data::Tables;
use nlog_reference::Reference;
use proptest::prelude::*;

use crate::build::Run;

fn run(text: &str) -> Run {
    let compilation = compile(&Sources::from_texts([("test.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{text}: {:?}", compilation.diagnostics));
    Run(Reference::new(program, Tables::Outputs))
}

/// As printed in the paper.
const FIGURE_6: &str = "
    # 1. Determine tunnel from a source hypervisor to a remote, destination logical port.
    tunnel(dst_lport_id, src_hv_id, encap, dst_ip) :-
        log_port(src_lport_id, log_datapath_id),
        log_port(dst_lport_id, log_datapath_id),
        log_datapath_encap(log_datapath_id, encap),
        log_port_presence(src_lport_id, src_hv_id),
        log_port_presence(dst_lport_id, dst_hv_id),
        hypervisor_locator(dst_hv_id, dst_ip),
        not_equal(src_hv_id, dst_hv_id);
    # 2. Establish tunnel via OVS db; the port number it gets comes back as ovsdb_tport.
    ovsdb_tunnel(src_hv_id, encap, dst_ip) :-
        tunnel(_, src_hv_id, encap, dst_ip);
    # 3. The flow entry that feeds traffic to the tunnel.
    ovs_flow(src_hv_id, of_expr, of_actions) :-
        tunnel(dst_lport_id, src_hv_id, encap, dst_ip),
        lport_stage_id(dst_lport_id, processing_stage_id),
        flow_expr_match_reg1(processing_stage_id, of_expr),
        ovsdb_tport(src_hv_id, encap, dst_ip, port_no),
        flow_output_action(port_no, of_actions);
";

const FIGURE_6_TABLES: &str = "
    input table log_port(lport: string, ldp: string) key(lport);
    input table log_datapath_encap(ldp: string, encap: string);
    input table log_port_presence(lport: string, hv: string) key(lport);
    input table hypervisor_locator(hv: string, dst_ip: ip) key(hv);
    input table lport_stage_id(lport: string, stage: int) key(lport);
    input table ovsdb_tport(hv: string, encap: string, dst_ip: ip, port: int) key(hv, encap, dst_ip);
    table tunnel(lport: string, hv: string, encap: string, dst_ip: ip);
    output table ovsdb_tunnel(hv: string, encap: string, dst_ip: ip);
    output table ovs_flow(hv: string, match: match, actions: actions) key(hv, match);
";

#[test]
fn figure_6_verbatim() {
    let mut run = run(&format!("{FIGURE_6_TABLES}{FIGURE_6}"));
    let load = r#"{"insert":{"log_port":[["p1","d"],["p2","d"]],"log_datapath_encap":[["d","geneve"]],
        "log_port_presence":[["p1","hv1"],["p2","hv2"]],"hypervisor_locator":[["hv1","10.0.0.1"],["hv2","fd00::2"]],
        "lport_stage_id":[["p1",26],["p2",27]],"ovsdb_tport":[["hv1","geneve","fd00::2",3]]}}"#;
    assert_eq!(
        run.eval(&load.replace('\n', "")),
        r#"{"insert":{"ovs_flow":[["hv1","reg1=0x1b","output:3"]],"ovsdb_tunnel":[["hv1","geneve","fd00::2"],["hv2","geneve","10.0.0.1"]]},"delete":{}}"#
    );
    // Which stage has no match is told before anything changes.
    assert_eq!(
        run.eval(r#"{"insert":{"lport_stage_id":[["p2",-1]]},"delete":{"lport_stage_id":[["p2",27]]}}"#),
        "range: table ovs_flow: flow_expr_match_reg1: -1 does not fit reg1, which has 32 bits"
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

/// Parts of a body in which every part can fail or reject, and some bind what others use.
const PARTS: [&str; 7] =
    ["a(x, y)", "b(y, z)", "q = x / y", "r = q + z", "r != 3", "element_at([0, 5], i, e)", "i + x < 3"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

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
