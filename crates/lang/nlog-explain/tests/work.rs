//! How much of a network an answer looks at. A combination of values that a rule tries is the unit.

use nlog::{Sources, compile};
use nlog_data::{Row, TableId, Value};
use nlog_explain::OnDemand;

/// The state of a program with these rows.
fn state(text: &str, inputs: &[(&str, Vec<Row>)]) -> OnDemand {
    let program = compile(&Sources::from_texts([("t.nlog", text)])).program.expect("it compiles");
    let id = |name: &str| program.schema.find(name).expect("the table is there");
    let rows: Vec<(TableId, Row)> =
        (inputs.iter()).flat_map(|(name, rows)| rows.iter().map(|row| (id(name), row.clone()))).collect();
    OnDemand::new(program.clone(), rows)
}

/// The rows of a table that have this value in this column, and the combinations tried for them.
fn ask(state: &OnDemand, table: &str, column: usize, value: &Value) -> (Vec<Row>, u64) {
    let id = state.program().schema.find(table).expect("the table is there");
    let mut columns = vec![None; state.program().schema.table(id).columns.len()];
    columns[column] = Some(value.clone());
    let before = state.tried();
    let rows: Vec<Row> = state.matching(id, &columns).into_iter().cloned().collect();
    (rows, state.tried() - before)
}

fn name(prefix: &str, number: i64) -> Value {
    Value::from(format!("{prefix}{number}").as_str())
}

#[test]
fn a_chosen_value_is_looked_for_in_its_groups_alone() {
    // Port 7 has candidates on hosts 7, 8 and 9; the last is the best.
    let text = "input table candidate(port: string, hv: string, rank: int);
        output table home(port: string, hv: string);
        home(port, arg_max(rank, hv)) :- candidate(port, hv, rank);";
    let of_port =
        |port: i64| (0..3).map(move |rank| vec![name("p", port), name("hv", port + rank), Value::Int(rank)]);
    let candidates: Vec<Row> = (0..1000).flat_map(of_port).collect();
    let state = state(text, &[("candidate", candidates)]);
    let (rows, tried) = ask(&state, "home", 1, &name("hv", 500));
    assert_eq!(rows, [vec![name("p", 498), name("hv", 500)]]);
    assert!(tried < 20, "tried {tried}");
    assert_eq!(state.rows(state.program().schema.find("home").expect("it is there")).len(), 1000);
}

#[test]
fn a_feature_that_nobody_uses_is_not_tried_for_each_host() {
    // Without a host whose form is "port", no pair of hosts has a tunnel of its own.
    let text = r#"input table host(hv: string, form: string);
        input table present(hv: string, sw: string);
        table form(hv: string, form: string);
        table pair(hv: string, remote: string);
        output table slow(sw: string, hv: string, remote: string);
        form(hv, form) :- host(hv, form);
        pair(hv, remote) :- host(hv, _), form(hv, "port"), host(remote, _), hv != remote;
        slow(sw, hv, remote) :- host(hv, _), present(remote, sw), pair(hv, remote);"#;
    let all =
        |form: &str| -> Vec<Row> { (0..300).map(|hv| vec![name("hv", hv), Value::from(form)]).collect() };
    let present: Vec<Row> = (0..300).map(|hv| vec![name("hv", hv), name("sw", hv % 3)]).collect();
    let unused = state(text, &[("host", all("flow")), ("present", present.clone())]);
    let (rows, tried) = ask(&unused, "slow", 0, &name("sw", 1));
    assert_eq!(rows, Vec::<Row>::new());
    assert!(tried < 20, "tried {tried}");

    let used = state(text, &[("host", all("port")), ("present", present)]);
    let (rows, tried) = ask(&used, "slow", 0, &name("sw", 1));
    assert_eq!(rows.len(), 100 * 299);
    assert!(tried >= 100 * 299, "tried {tried}");
}

#[test]
fn a_computed_key_is_no_way_to_a_row() {
    // The match of `placed` is computed: to look for it first would compute the flows of all switches.
    let text = "input table port(sw: string, hv: string);
        input table label(sw: string, label: int) key(sw);
        table placed(sw: string, filter: match) key(filter);
        output table flow(hv: string, filter: match);
        # weft: allow(key-clash): labels are unique
        placed(sw, match{tun_id: label}) :- label(sw, label);
        flow(hv, filter) :- port(sw, hv), placed(sw, filter);";
    let switches = 0..500;
    let ports = switches.clone().map(|sw| vec![name("sw", sw), name("hv", sw)]).collect();
    let labels = switches.map(|sw| vec![name("sw", sw), Value::Int(sw + 1)]).collect();
    let state = state(text, &[("port", ports), ("label", labels)]);
    let (rows, _) = ask(&state, "flow", 0, &name("hv", 7));
    let before = state.tried();
    let flow = state.program().schema.find("flow").expect("it is there");
    let ways = state.derivations(flow, &rows[0], 1);
    assert_eq!(ways.len(), 1);
    assert!(state.tried() - before < 20, "tried {}", state.tried() - before);
}

#[test]
fn a_number_with_a_type_of_its_own_is_no_name() {
    // All ports have a flow with this priority: to look for these first would compute them all.
    let text = "type flow_priority = int where value >= 0;
        input table port(port: string, hv: string);
        input table label(port: string, label: int) key(port);
        table said(port: string, table_id: flow_priority, priority: flow_priority, actions: actions);
        output table flow(hv: string, table_id: flow_priority, priority: flow_priority, actions: actions);
        said(port, 1, 10, actions[set(tun_id, label)]) :- port(port, _), label(port, label);
        flow(hv, table_id, priority, actions) :- said(port, table_id, priority, actions), port(port, hv);";
    let ports = (0..500).map(|port| vec![name("p", port), name("hv", port)]).collect();
    let labels = (0..500).map(|port| vec![name("p", port), Value::Int(port)]).collect();
    let state = state(text, &[("port", ports), ("label", labels)]);
    let (rows, _) = ask(&state, "flow", 0, &name("hv", 7));
    let before = state.tried();
    let flow = state.program().schema.find("flow").expect("it is there");
    assert_eq!(state.derivations(flow, &rows[0], 1).len(), 1);
    assert!(state.tried() - before < 20, "tried {}", state.tried() - before);
}
