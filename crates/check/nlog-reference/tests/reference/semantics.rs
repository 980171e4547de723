//! The semantics of rules, case by case, with results worked out by hand.

use crate::reference::build::T::{Agg, Any, V};
use crate::reference::build::{self, B, Builder, atom, c, call, if_then_else};
use nlog::program::Aggregate;
use nlog_data::{CommitError, Role, RuleId, Tables, Value};

const MAX: i64 = i64::MAX;

#[test]
fn figure_6_of_the_paper() {
    let mut run = Builder::default()
        .input("log_port", &["lport:string", "ldp:string"])
        .input("log_datapath_encap", &["ldp:string", "encap:string"])
        .input("log_port_presence", &["lport:string", "hv:string"])
        .input("hypervisor_locator", &["hv:string", "dst_ip:ip"])
        .input("lport_stage_id", &["lport:string", "stage"])
        .input("ovsdb_tport", &["hv:string", "encap:string", "dst_ip:ip", "port"])
        .table(Role::Internal, "tunnel", &["lport:string", "hv:string", "encap:string", "dst_ip:ip"], None)
        .output("ovsdb_tunnel", &["hv:string", "encap:string", "dst_ip:ip"])
        .output("ovs_flow", &["hv:string", "match:match", "actions:actions"])
        .rule(
            "tunnel",
            &[V("dst"), V("src_hv"), V("encap"), V("dst_ip")],
            &[
                atom("log_port", &[V("src"), V("ldp")]),
                atom("log_port", &[V("dst"), V("ldp")]),
                atom("log_datapath_encap", &[V("ldp"), V("encap")]),
                atom("log_port_presence", &[V("src"), V("src_hv")]),
                atom("log_port_presence", &[V("dst"), V("dst_hv")]),
                atom("hypervisor_locator", &[V("dst_hv"), V("dst_ip")]),
                B::Where(call("not_equal", &[V("src_hv"), V("dst_hv")])),
            ],
        )
        .rule(
            "ovsdb_tunnel",
            &[V("hv"), V("encap"), V("dst_ip")],
            &[atom("tunnel", &[Any, V("hv"), V("encap"), V("dst_ip")])],
        )
        .rule(
            "ovs_flow",
            &[V("hv"), V("expr"), V("actions")],
            &[
                atom("tunnel", &[V("dst"), V("hv"), V("encap"), V("dst_ip")]),
                atom("lport_stage_id", &[V("dst"), V("stage")]),
                B::Let("expr", call("flow_expr_match_reg1", &[V("stage")])),
                atom("ovsdb_tport", &[V("hv"), V("encap"), V("dst_ip"), V("port")]),
                B::Let("actions", call("flow_output_action", &[V("port")])),
            ],
        )
        .run();
    let load = r#"{"insert":{"log_port":[["p1","d"],["p2","d"],["p3","d"]],"log_datapath_encap":[["d","geneve"]],
        "log_port_presence":[["p1","hv1"],["p2","hv2"],["p3","hv2"]],"hypervisor_locator":[["hv1","10.0.0.1"],["hv2","10.0.0.2"]],
        "lport_stage_id":[["p1",26],["p2",27],["p3",0]],"ovsdb_tport":[["hv1","geneve","10.0.0.2",3]]}}"#;
    assert_eq!(
        run.eval(&load.replace('\n', "")),
        r#"{"insert":{"ovs_flow":[["hv1","reg1=0","output:3"],["hv1","reg1=0x1b","output:3"]],"ovsdb_tunnel":[["hv1","geneve","10.0.0.2"],["hv2","geneve","10.0.0.1"]]},"delete":{}}"#
    );
    // p2 moves to hv1: p3 alone still needs hv1's tunnel.
    assert_eq!(
        run.eval(
            r#"{"insert":{"log_port_presence":[["p2","hv1"]]},"delete":{"log_port_presence":[["p2","hv2"]]}}"#
        ),
        r#"{"insert":{},"delete":{"ovs_flow":[["hv1","reg1=0x1b","output:3"]]}}"#
    );
    assert_eq!(run.eval("{}"), r#"{"insert":{},"delete":{}}"#);
}

#[test]
fn a_row_stays_as_long_as_one_rule_derives_it() {
    let mut run = Builder::default()
        .input("a", &["x"])
        .input("b", &["x", "y"])
        .output("t", &["x"])
        .rule("t", &[V("x")], &[atom("a", &[V("x")])])
        .rule("t", &[V("x")], &[atom("b", &[V("x"), Any])])
        .run();
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[1]],"b":[[1,1],[1,2]]}}"#),
        r#"{"insert":{"t":[[1]]},"delete":{}}"#
    );
    assert_eq!(run.eval(r#"{"delete":{"a":[[1]],"b":[[1,1]]}}"#), r#"{"insert":{},"delete":{}}"#);
    assert_eq!(run.eval(r#"{"delete":{"b":[[1,2]]}}"#), r#"{"insert":{},"delete":{"t":[[1]]}}"#);
}

#[test]
fn constants_repeated_variables_and_facts() {
    let mut run = Builder::default()
        .input("e", &["x", "y", "z"])
        .output("t", &["x", "y"])
        .output("fact", &["x"])
        .rule("t", &[V("x"), c(7)], &[atom("e", &[V("x"), V("x"), c(3)])])
        .rule("fact", &[c(5)], &[])
        .run();
    // Facts hold from the first accepted transaction on.
    assert!(run.rows("fact").is_empty());
    assert_eq!(
        run.eval(r#"{"insert":{"e":[[1,1,3],[1,2,3],[2,2,4]]}}"#),
        r#"{"insert":{"fact":[[5]],"t":[[1,7]]},"delete":{}}"#
    );
    assert_eq!(run.eval("{}"), r#"{"insert":{},"delete":{}}"#);
}

#[test]
fn generators_give_a_tuple_for_each_result_and_partial_functions_none() {
    let mut run = Builder::default()
        .input("l", &["id", "list:list"])
        .input("ip", &["ip:ip"])
        .output("at", &["id", "rank", "x"])
        .output("n", &["n"])
        .rule(
            "at",
            &[V("id"), V("rank"), V("x")],
            &[atom("l", &[V("id"), V("l")]), B::Each(vec![V("l")], "element_at", vec![V("rank"), V("x")])],
        )
        .rule("n", &[call("ip_to_int", &[V("ip")])], &[atom("ip", &[V("ip")])])
        .run();
    assert_eq!(
        run.eval(r#"{"insert":{"l":[[1,[9,8]],[2,[]]],"ip":[["::1"],["0.0.0.2"]]}}"#),
        r#"{"insert":{"at":[[1,0,9],[1,1,8]],"n":[[2]]},"delete":{}}"#
    );
}

/// `t(x + MAX) :- a(x), x > 0, …`.
fn failing(body: &[B]) -> build::Run {
    let mut items = vec![atom("a", &[V("x")])];
    items.extend_from_slice(body);
    Builder::default()
        .input("a", &["x"])
        .output("t", &["x"])
        .rule("t", &[call("+", &[V("x"), c(MAX)])], &items)
        .run()
}

#[test]
fn a_failure_refuses_the_transaction_and_changes_nothing() {
    let mut run = failing(&[]);
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[0]]}}"#),
        r#"{"insert":{"t":[[9223372036854775807]]},"delete":{}}"#
    );
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[2],[1],[-1]]}}"#),
        "overflow: table t: 1 + 9223372036854775807 overflows int"
    );
    assert_eq!((run.row_text("a"), run.row_text("t")), ("[0]".into(), "[9223372036854775807]".into()));
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[-1]]},"delete":{"a":[[0]]}}"#),
        r#"{"insert":{"t":[[9223372036854775806]]},"delete":{"t":[[9223372036854775807]]}}"#
    );
}

#[test]
fn the_failing_rule_is_named_beside_the_message() {
    let mut run = failing(&[]);
    match run.commit(r#"{"insert":{"a":[[1]]}}"#) {
        Err(CommitError::Refused(error)) => assert_eq!(error.rule, Some(RuleId(0))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn failures_of_rejected_bindings_do_not_count() {
    let accepted = r#"{"insert":{},"delete":{}}"#;
    let insert = r#"{"insert":{"a":[[1]]}}"#;
    let bad = || B::Let("bad", call("/", &[V("x"), c(0)]));
    let on_bad = || B::Where(call(">", &[V("bad"), c(0)]));
    let no = || B::Where(call("<", &[V("x"), c(0)]));
    let nothing =
        || B::Let("nothing", call("ip_to_int", &[c("::1".parse::<std::net::IpAddr>().expect("ip"))]));
    let no_element = || B::Each(vec![c(Value::list([]))], "element", vec![V("e")]);
    // Anything that rejects the binding, before or after the failure.
    for rejecting in [no(), nothing(), no_element()] {
        assert_eq!(failing(&[bad(), on_bad(), rejecting.clone()]).eval(insert), accepted, "{rejecting:?}");
        assert_eq!(failing(&[rejecting.clone(), bad(), on_bad()]).eval(insert), accepted, "{rejecting:?}");
    }
    // An item that depends on a failed value rejects nothing: the failure counts, and the least one
    // is reported.
    let overflow = "overflow: table t: 1 + 9223372036854775807 overflows int";
    assert_eq!(failing(&[bad(), on_bad()]).eval(insert), overflow);
    let each_bad = B::Each(vec![V("bad"), c(5)], "range", vec![V("e")]);
    assert_eq!(failing(&[bad(), each_bad.clone()]).eval(insert), overflow);
    assert_eq!(failing(&[bad(), each_bad, no()]).eval(insert), accepted);
}

#[test]
fn one_result_that_passes_makes_a_failure_count() {
    let bad = B::Let("bad", call("/", &[V("x"), c(0)]));
    let each = B::Each(vec![c(0), c(3)], "range", vec![V("e")]);
    let insert = r#"{"insert":{"a":[[0]]}}"#;
    let only = |n: i64| B::Where(call("==", &[V("e"), c(n)]));
    assert_eq!(failing(&[bad.clone(), each.clone(), only(9)]).eval(insert), r#"{"insert":{},"delete":{}}"#);
    assert_eq!(failing(&[bad, each, only(2)]).eval(insert), "range: table t: 0 / 0: division by zero");
}

#[test]
fn an_argument_without_value_rejects_whatever_else_fails() {
    let nothing = call("ip_to_int", &[c("::1".parse::<std::net::IpAddr>().expect("ip"))]);
    let bad = call("/", &[V("x"), c(0)]);
    let insert = r#"{"insert":{"a":[[1]]}}"#;
    for sum in [call("+", &[nothing.clone(), bad.clone()]), call("+", &[bad, nothing])] {
        assert_eq!(failing(&[B::Let("y", sum)]).eval(insert), r#"{"insert":{},"delete":{}}"#);
    }
}

#[test]
fn only_the_branch_taken_is_evaluated() {
    let mut run = Builder::default()
        .input("a", &["x"])
        .output("t", &["x", "y"])
        .rule(
            "t",
            &[V("x"), if_then_else(call("==", &[V("x"), c(0)]), c(-1), call("/", &[c(10), V("x")]))],
            &[atom("a", &[V("x")])],
        )
        .run();
    assert_eq!(run.eval(r#"{"insert":{"a":[[0],[5]]}}"#), r#"{"insert":{"t":[[0,-1],[5,2]]},"delete":{}}"#);
}

/// Every aggregate of `x`, grouped by `g`, over `m(g, id, x)`.
fn aggregates() -> Builder {
    let of =
        |name: &'static str, aggregate, arguments: &[build::T]| (name, Agg(aggregate, arguments.to_vec()));
    let heads = [
        of("count", Aggregate::Count, &[V("id")]),
        of("count_all", Aggregate::Count, &[]),
        of("min", Aggregate::Min, &[V("x")]),
        of("max", Aggregate::Max, &[V("x")]),
        of("sum", Aggregate::Sum, &[V("x")]),
        of("sum_id", Aggregate::Sum, &[V("x"), V("id")]),
        of("list", Aggregate::List, &[V("x")]),
        of("arg_min", Aggregate::ArgMin, &[V("x"), V("id")]),
        of("arg_max", Aggregate::ArgMax, &[V("x"), V("id")]),
    ];
    let mut builder = Builder::default()
        .input("m", &["g", "id", "x"])
        .table(Role::Output, "t_list", &["g", "v:list"], None)
        .table(Role::Output, "t_set", &["g", "v:set"], None)
        .rule("t_list", &[V("g"), Agg(Aggregate::List, vec![V("x")])], &[atom("m", &[V("g"), Any, V("x")])])
        .rule(
            "t_set",
            &[V("g"), Agg(Aggregate::Set, vec![V("x")])],
            &[atom("m", &[V("g"), V("id"), V("x")])],
        );
    for (name, head) in heads.into_iter().filter(|(name, _)| *name != "list") {
        builder = builder.output(name, &["g", "v"]).rule(
            name,
            &[V("g"), head],
            &[atom("m", &[V("g"), V("id"), V("x")])],
        );
    }
    builder
}

#[test]
fn aggregates_are_over_distinct_tuples_of_the_variables_used() {
    let mut run = aggregates().run();
    run.commit(r#"{"insert":{"m":[[1,10,5],[1,11,5],[1,12,3],[1,13,3],[2,10,7]]}}"#).expect("accepted");
    for (table, rows) in [
        ("count", "[1,4][2,1]"),
        // Without a variable there is one tuple for each group.
        ("count_all", "[1,1][2,1]"),
        ("min", "[1,3][2,7]"),
        ("max", "[1,5][2,7]"),
        ("sum", "[1,8][2,7]"),
        ("sum_id", "[1,16][2,7]"),
        ("t_list", "[1,[3,5]][2,[7]]"),
        ("t_set", "[1,[3,5]][2,[7]]"),
        ("arg_min", "[1,12][2,10]"),
        ("arg_max", "[1,11][2,10]"),
    ] {
        assert_eq!(run.row_text(table), rows, "{table}");
    }
    run.commit(r#"{"delete":{"m":[[1,12,3],[1,13,3],[2,10,7]]}}"#).expect("accepted");
    for (table, rows) in [("count", "[1,2]"), ("min", "[1,5]"), ("sum_id", "[1,10]"), ("arg_min", "[1,10]")] {
        assert_eq!(run.row_text(table), rows, "{table}");
    }
}

#[test]
fn aggregates_of_one_head_share_its_tuples() {
    let mut run = Builder::default()
        .input("m", &["g", "x", "y"])
        .output("t", &["s", "g", "l:list"])
        .rule(
            "t",
            &[
                Agg(Aggregate::Sum, vec![V("x")]),
                V("g"),
                Agg(Aggregate::List, vec![call("%", &[V("y"), c(2)])]),
            ],
            &[atom("m", &[V("g"), V("x"), V("y")])],
        )
        .run();
    run.commit(r#"{"insert":{"m":[[1,5,1],[1,5,3],[1,6,2]]}}"#).expect("accepted");
    assert_eq!(run.row_text("t"), "[16,1,[0,1,1]]");
}

#[test]
fn a_sum_overflows_by_its_total_alone() {
    let mut run = aggregates().run();
    let load = format!(r#"{{"insert":{{"m":[[1,1,{MAX}],[1,2,1],[1,3,-1]]}}}}"#);
    run.commit(&load).expect("accepted");
    assert_eq!(run.row_text("sum"), format!("[1,{MAX}]"));
    assert_eq!(
        run.eval(r#"{"delete":{"m":[[1,3,-1]]}}"#),
        "overflow: table sum: sum: 9223372036854775808 overflows int"
    );
    assert_eq!(run.row_text("sum"), format!("[1,{MAX}]"));
}

#[test]
fn derived_tuples_with_one_key_are_refused() {
    let mut run = Builder::default()
        .input("a", &["k", "v"])
        .table(Role::Output, "t", &["k", "v"], Some(&[0]))
        .rule("t", &[V("k"), V("v")], &[atom("a", &[V("k"), V("v")])])
        .run();
    assert_eq!(run.eval(r#"{"insert":{"a":[[1,1]]}}"#), r#"{"insert":{"t":[[1,1]]},"delete":{}}"#);
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[3,9],[2,7],[2,6],[2,5],[3,8]]}}"#),
        "key-conflict: table t: the rules derive two rows with the same key (k: 2): v is 5 in one and 6 in the other"
    );
    assert_eq!(run.row_text("t"), "[1,1]");
    assert_eq!(run.row_text("a"), "[1,1]");
    // Neither a second derivation of the same tuple nor a replacement is a conflict.
    assert_eq!(
        run.eval(r#"{"insert":{"a":[[1,2]]},"delete":{"a":[[1,1]]}}"#),
        r#"{"insert":{"t":[[1,2]]},"delete":{"t":[[1,1]]}}"#
    );
}

#[test]
fn of_several_errors_the_first_table_counts_then_failures() {
    let builder = |first: &'static str, second: &'static str| {
        Builder::default()
            .input("in", &["k", "v"])
            .table(Role::Output, first, &["k", "v"], Some(&[0]))
            .table(Role::Output, second, &["k", "v"], None)
            .rule(first, &[V("k"), V("v")], &[atom("in", &[V("k"), V("v")])])
            .rule(second, &[V("k"), call("/", &[V("v"), V("k")])], &[atom("in", &[V("k"), V("v")])])
            .run()
    };
    let insert = r#"{"insert":{"in":[[0,1],[0,2]]}}"#;
    let conflict = "key-conflict: table a: the rules derive two rows with the same key (k: 0): v is 1 in one and 2 in the other";
    assert_eq!(builder("a", "b").eval(insert), conflict);
    assert_eq!(builder("b", "a").eval(insert), "range: table a: 1 / 0: division by zero");
    let mut both = Builder::default()
        .input("in", &["k", "v"])
        .table(Role::Output, "a", &["k", "v"], Some(&[0]))
        .rule("a", &[V("k"), V("v")], &[atom("in", &[V("k"), V("v")])])
        .rule("a", &[V("k"), call("/", &[V("v"), V("k")])], &[atom("in", &[V("k"), V("v")])])
        .run();
    assert_eq!(both.eval(insert), "range: table a: 1 / 0: division by zero");
}

#[test]
fn errors_beyond_a_faulty_table_count_too() {
    // z fails for 0; a is computed from the rest of z, and its error comes first by name.
    let mut run = Builder::default()
        .input("in", &["x"])
        .table(Role::Internal, "z", &["x"], None)
        .output("a", &["x"])
        .rule("z", &[call("/", &[c(2), V("x")])], &[atom("in", &[V("x")])])
        .rule("a", &[call("+", &[V("x"), c(MAX)])], &[atom("z", &[V("x")])])
        .run();
    assert_eq!(
        run.eval(r#"{"insert":{"in":[[0],[1]]}}"#),
        "overflow: table a: 2 + 9223372036854775807 overflows int"
    );
    assert_eq!(run.eval(r#"{"insert":{"in":[[0]]}}"#), "range: table z: 2 / 0: division by zero");
}

#[test]
fn input_errors_come_before_derived_ones() {
    let mut run = Builder::default()
        .table(Role::Input, "k", &["k", "v"], Some(&[0]))
        .output("a", &["x"])
        .rule("a", &[call("/", &[V("v"), c(0)])], &[atom("k", &[Any, V("v")])])
        .run();
    assert_eq!(
        run.eval(r#"{"insert":{"k":[[1,1],[1,2]]}}"#),
        "duplicate-key: table k: row [1,2] has the same key (k: 1) as row [1,1]; to replace a row, delete it in the same transaction"
    );
}

#[test]
fn in_vain_changes_are_counted() {
    let mut run = Builder::default().input("a", &["x"]).run();
    let committed =
        run.commit(r#"{"insert":{"a":[[1],[1],[2]]},"delete":{"a":[[2],[3]]}}"#).expect("accepted");
    assert_eq!((committed.redundant_inserts, committed.redundant_deletes), (1, 2));
}

#[test]
fn tables_asked_for_are_reported() {
    let builder = || {
        Builder::default()
            .input("a", &["x"])
            .table(Role::Internal, "i", &["x"], None)
            .output("o", &["x"])
            .rule("i", &[V("x")], &[atom("a", &[V("x")])])
            .rule("o", &[V("x")], &[atom("i", &[V("x")])])
    };
    let insert = r#"{"insert":{"a":[[1]]}}"#;
    assert_eq!(builder().run().eval(insert), r#"{"insert":{"o":[[1]]},"delete":{}}"#);
    assert_eq!(
        builder().run_with(Tables::All).eval(insert),
        r#"{"insert":{"a":[[1]],"i":[[1]],"o":[[1]]},"delete":{}}"#
    );
    let i = builder().program().schema.find("i").expect("i");
    assert_eq!(
        builder().run_with(Tables::These([i].into())).eval(insert),
        r#"{"insert":{"i":[[1]]},"delete":{}}"#
    );
}

#[test]
fn rows_are_attributed_to_the_rule_with_the_least_fingerprint() {
    let builder = Builder::default()
        .input("a", &["x"])
        .input("b", &["x"])
        .output("t", &["x"])
        .rule("t", &[V("x")], &[atom("a", &[V("x")])])
        .rule("t", &[V("x")], &[atom("b", &[V("x")])]);
    let program = builder.program();
    let t = program.schema.find("t").expect("t");
    let mut run = build::Run(nlog_reference::Reference::new(program, Tables::All).with_attribution());
    let mut delta = |line: &str| {
        let committed = run.commit(line).expect("accepted");
        let (a, b) = (
            run.0.on_demand().derivations(t, &vec![Value::Int(1)], usize::MAX),
            committed.delta.tables.get(&t).cloned(),
        );
        (a.iter().map(|way| way.rule).collect::<Vec<_>>(), b.unwrap_or_default())
    };
    let row = || vec![Value::Int(1)];
    let (ways, changes) = delta(r#"{"insert":{"b":[[1]]}}"#);
    assert_eq!((ways, changes.insert, changes.rules), (vec![RuleId(1)], vec![row()], vec![RuleId(1)]));
    let (ways, changes) = delta(r#"{"insert":{"a":[[1]]}}"#);
    assert_eq!((ways, changes.reattributed), (vec![RuleId(0), RuleId(1)], vec![(row(), RuleId(0))]));
    assert!(changes.insert.is_empty() && changes.delete.is_empty() && changes.rules.is_empty());
    let (_, changes) = delta(r#"{"delete":{"b":[[1]]}}"#);
    assert_eq!(changes, nlog_data::TableDelta::default());
    let (ways, changes) = delta(r#"{"delete":{"a":[[1]]}}"#);
    assert_eq!((ways, changes.delete), (vec![], vec![row()]));
}

#[test]
fn derivations_name_rules_and_body_rows() {
    let builder = Builder::default()
        .input("m", &["g", "x"])
        .output("sum", &["g", "s"])
        .output("pair", &["x", "y"])
        .rule("sum", &[V("g"), Agg(Aggregate::Sum, vec![V("x")])], &[atom("m", &[V("g"), V("x")])])
        .rule("pair", &[V("x"), V("y")], &[atom("m", &[V("g"), V("x")]), atom("m", &[V("g"), V("y")])]);
    let mut run = builder.run();
    run.commit(r#"{"insert":{"m":[[1,5],[1,6],[2,5]]}}"#).expect("accepted");
    let schema = nlog_data::Evaluator::schema(&run.0).clone();
    let [m, sum, pair] = ["m", "sum", "pair"].map(|name| schema.find(name).expect("a table"));
    let row = |values: &[i64]| values.iter().map(|n| Value::Int(*n)).collect::<Vec<_>>();
    let ways = run.0.on_demand().derivations(sum, &row(&[1, 11]), usize::MAX);
    assert_eq!(ways.len(), 1);
    assert_eq!(ways[0].bodies, [vec![(m, row(&[1, 5]))], vec![(m, row(&[1, 6]))]]);
    let ways = run.0.on_demand().derivations(pair, &row(&[5, 5]), usize::MAX);
    assert_eq!(
        ways[0].bodies,
        [vec![(m, row(&[1, 5])), (m, row(&[1, 5]))], vec![(m, row(&[2, 5])), (m, row(&[2, 5]))]]
    );
    assert!(run.0.on_demand().derivations(sum, &row(&[1, 12]), usize::MAX).is_empty());
    assert!(run.0.on_demand().derivations(m, &row(&[1, 5]), usize::MAX).is_empty());
}
