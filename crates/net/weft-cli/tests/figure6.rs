//! Figure 6 of the NSDI paper compared with a direct computation of its three rules, over random histories with valid
//! and invalid transactions: the output is the same, byte for byte, in every way to evaluate.
//!
//! Besides the paper's rules the program has two additional ones, so that every kind of refusal occurs.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use test_random::{Random, seeds};

use crate::support::{Folder, WAYS, eval};

const FIGURE6: &str = include_str!("../../../../examples/figure6.nlog");

/// The rules as the paper prints them.
const VERBATIM: &str = "\
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

/// Rules that can refuse a transaction after its rows are inserted: one port for each stage, and a load that can
/// overflow.
const MORE_RULES: &str = "
input table weight(lport: string, weight: int) key(lport);
output table stage_owner(stage_id: int, lport: string) key(stage_id);
output table load(hv: string, total: int);
stage_owner(stage_id, lport) :- lport_stage_id(lport, stage_id);
load(hv, sum(weight, lport)) :- log_port_presence(lport, hv), weight(lport, weight);
";

#[test]
fn the_example_holds_the_rules_verbatim() {
    // Word for word; the formatter decides line breaks.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(FIGURE6).contains(&words(VERBATIM)));
    let folder = Folder::new();
    folder.write("figure6.nlog", FIGURE6);
    let outcome = folder.weft(&["check", "figure6.nlog"]);
    outcome.has_status(0);
    assert_eq!(outcome.stderr, "", "no warnings either");
}

#[test]
fn two_hypervisors_by_hand() {
    let transactions = r#"{"txn":1,"insert":{"log_port":[["p1","blue"],["p2","blue"],["p3","red"]],"log_datapath_encap":[["blue","geneve"],["red","geneve"]],"log_port_presence":[["p1","hv1"],["p2","hv2"],["p3","hv2"]],"hypervisor_locator":[["hv1","10.0.0.1"],["hv2","10.0.0.2"]]}}
{"txn":2,"insert":{"lport_stage_id":[["p1",26],["p2",0]],"ovsdb_tport":[["hv1","geneve","10.0.0.2",3],["hv2","geneve","10.0.0.1",65534]]}}
{"txn":3,"delete":{"log_port_presence":[["p2","hv2"]]},"insert":{"log_port_presence":[["p2","hv1"]]}}
{"txn":4,"insert":{"log_port_presence":[["p2","hv2"]]}}
{"txn":5,"delete":{"log_port":[["p3","red"]]},"insert":{"log_port":[["p3","blue"]],"lport_stage_id":[["p3",4294967295]]}}
"#;
    let wanted = r#"{"txn":1,"insert":{"ovsdb_tunnel":[["hv1","geneve","10.0.0.2"],["hv2","geneve","10.0.0.1"]]},"delete":{}}
{"txn":2,"insert":{"ovs_flow":[["hv1","reg1=0","output:3"],["hv2","reg1=0x1a","LOCAL"]]},"delete":{}}
{"txn":3,"insert":{},"delete":{"ovs_flow":[["hv1","reg1=0","output:3"],["hv2","reg1=0x1a","LOCAL"]],"ovsdb_tunnel":[["hv1","geneve","10.0.0.2"],["hv2","geneve","10.0.0.1"]]}}
"#;
    let outcome = eval(FIGURE6, transactions);
    outcome.has_status(1);
    let lines = outcome.lines();
    assert_eq!(lines[..3].join("\n") + "\n", wanted);
    assert!(lines[3].starts_with(r#"{"txn":4,"error":{"code":"duplicate-key","message":""#), "{}", lines[3]);
    assert_eq!(
        lines[4],
        r#"{"txn":5,"insert":{"ovs_flow":[["hv1","reg1=0xffffffff","output:3"],["hv2","reg1=0","LOCAL"],["hv2","reg1=0x1a","LOCAL"]],"ovsdb_tunnel":[["hv1","geneve","10.0.0.2"],["hv2","geneve","10.0.0.1"]]},"delete":{}}"#
    );
}

// The oracle: the rules as nested loops over sets.

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Int(i64),
    Text(String),
    Ip(IpAddr),
}

impl Cell {
    fn json(&self) -> String {
        match self {
            Cell::Int(value) => value.to_string(),
            Cell::Text(value) => serde_json::to_string(value).unwrap(),
            Cell::Ip(value) => format!("\"{value}\""),
        }
    }

    fn int(&self) -> i64 {
        match self {
            Cell::Int(value) => *value,
            other => panic!("{other:?} is no int"),
        }
    }
}

type Row = Vec<Cell>;
type Tables = BTreeMap<&'static str, BTreeSet<Row>>;

/// The input tables, with the number of key columns (0: all).
const INPUTS: [(&str, usize); 7] = [
    ("hypervisor_locator", 1),
    ("log_datapath_encap", 0),
    ("log_port", 1),
    ("log_port_presence", 1),
    ("lport_stage_id", 1),
    ("ovsdb_tport", 3),
    ("weight", 1),
];

#[derive(Default, Clone)]
struct Oracle {
    inputs: Tables,
    outputs: Tables,
}

impl Oracle {
    /// The line that answers the transaction; after a refusal only its start.
    fn commit(
        &mut self,
        txn: u64,
        deletes: &[(&'static str, Row)],
        inserts: &[(&'static str, Row)],
    ) -> Result<String, &'static str> {
        let mut inputs = self.inputs.clone();
        for (table, row) in deletes {
            inputs.entry(table).or_default().remove(row);
        }
        for (table, row) in inserts {
            inputs.entry(table).or_default().insert(row.clone());
        }
        for (table, key) in INPUTS {
            let rows = inputs.entry(table).or_default();
            let keys: BTreeSet<&[Cell]> =
                rows.iter().map(|row| if key == 0 { &row[..] } else { &row[..key] }).collect();
            if keys.len() < rows.len() {
                return Err("duplicate-key");
            }
        }
        let outputs = derive(&inputs)?;
        let line = delta_line(txn, &self.outputs, &outputs);
        *self = Oracle { inputs, outputs };
        Ok(line)
    }
}

fn rows<'a, const N: usize>(
    tables: &'a Tables,
    name: &str,
) -> impl Iterator<Item = &'a [Cell; N]> + use<'a, N> {
    tables[name].iter().map(|row| <&[Cell; N]>::try_from(&row[..]).unwrap())
}

/// The output tables. Errors come in the order of tables' names: `load`, `ovs_flow`, `stage_owner`.
fn derive(inputs: &Tables) -> Result<Tables, &'static str> {
    let mut outputs = Tables::new();
    outputs.insert("load", loads(inputs)?);
    let mut tunnels: BTreeSet<[Cell; 4]> = BTreeSet::new();
    for [source, source_ldp] in rows(inputs, "log_port") {
        for [destination, ldp] in rows(inputs, "log_port").filter(|[_, ldp]| ldp == source_ldp) {
            for [_, encap] in rows(inputs, "log_datapath_encap").filter(|[of, _]| of == ldp) {
                for [_, from] in rows(inputs, "log_port_presence").filter(|[of, _]| of == source) {
                    for [_, to] in rows(inputs, "log_port_presence").filter(|[of, _]| of == destination) {
                        for [_, ip] in
                            rows(inputs, "hypervisor_locator").filter(|[of, _]| of == to && from != to)
                        {
                            tunnels.insert([destination, from, encap, ip].map(Cell::clone));
                        }
                    }
                }
            }
        }
    }
    outputs.insert(
        "ovsdb_tunnel",
        tunnels.iter().map(|[_, hv, encap, ip]| vec![hv.clone(), encap.clone(), ip.clone()]).collect(),
    );
    let mut flows = BTreeSet::new();
    for [lport, hv, encap, ip] in &tunnels {
        for [_, stage] in rows(inputs, "lport_stage_id").filter(|[of, _]| of == lport) {
            for [.., port] in rows(inputs, "ovsdb_tport").filter(|[a, b, c, _]| (a, b, c) == (hv, encap, ip))
            {
                flows.insert(vec![
                    hv.clone(),
                    Cell::Text(match_text(stage.int())?),
                    Cell::Text(action_text(port.int())?),
                ]);
            }
        }
    }
    outputs.insert("ovs_flow", flows);
    let owners: BTreeSet<Row> =
        rows(inputs, "lport_stage_id").map(|[lport, stage]| vec![stage.clone(), lport.clone()]).collect();
    let stages: BTreeSet<&Cell> = owners.iter().map(|row| &row[0]).collect();
    if stages.len() < owners.len() {
        return Err("key-conflict");
    }
    outputs.insert("stage_owner", owners);
    Ok(outputs)
}

fn loads(inputs: &Tables) -> Result<BTreeSet<Row>, &'static str> {
    let mut totals: BTreeMap<&Cell, i128> = BTreeMap::new();
    for [lport, hv] in rows(inputs, "log_port_presence") {
        for [_, weight] in rows(inputs, "weight").filter(|[of, _]| of == lport) {
            *totals.entry(hv).or_default() += i128::from(weight.int());
        }
    }
    let row = |(hv, total): (&Cell, i128)| {
        Ok(vec![hv.clone(), Cell::Int(i64::try_from(total).map_err(|_| "overflow")?)])
    };
    totals.into_iter().map(row).collect()
}

fn match_text(stage: i64) -> Result<String, &'static str> {
    match u32::try_from(stage) {
        Ok(0) => Ok("reg1=0".into()),
        Ok(stage) => Ok(format!("reg1={stage:#x}")),
        Err(_) => Err("range"),
    }
}

fn action_text(port: i64) -> Result<String, &'static str> {
    match port {
        65534 => Ok("LOCAL".into()),
        0..0xff00 => Ok(format!("output:{port}")),
        _ => Err("range"),
    }
}

fn delta_line(txn: u64, old: &Tables, new: &Tables) -> String {
    let side = |from: &Tables, to: &Tables| {
        let none = BTreeSet::new();
        let mut tables = Vec::new();
        for (name, rows) in to {
            let gone: Vec<String> = rows.difference(from.get(name).unwrap_or(&none)).map(row_json).collect();
            if !gone.is_empty() {
                tables.push(format!("\"{name}\":[{}]", gone.join(",")));
            }
        }
        tables.join(",")
    };
    format!("{{\"txn\":{txn},\"insert\":{{{}}},\"delete\":{{{}}}}}", side(old, new), side(new, old))
}

fn row_json(row: &Row) -> String {
    format!("[{}]", row.iter().map(Cell::json).collect::<Vec<_>>().join(","))
}

// Histories.

/// A line of a history, and the expected answer: the whole line, or the start of the refusal.
struct Exchange {
    line: String,
    wanted: Result<String, String>,
}

/// A row that is likely to be present, or to share a key with one that is.
fn random_row(random: &mut Random, table: &'static str) -> Row {
    let text = |prefix: &str, n: u64| Cell::Text(format!("{prefix}{n}"));
    let lport = text("p", random.below(9));
    let hv = text("hv", random.below(4));
    let encap = Cell::Text((*random.pick(&["geneve", "vxlan", "gré \"1\""])).to_owned());
    let addresses = ["10.0.0.9", "10.0.0.10", "255.255.255.255", "fd00::1", "2001:db8::a:1"];
    let ip = Cell::Ip(random.pick(&addresses).parse().unwrap());
    let rarely = random.below(12) == 0;
    match table {
        "log_port" => vec![lport, text("ldp", random.below(3))],
        "log_datapath_encap" => vec![text("ldp", random.below(3)), encap],
        "log_port_presence" => vec![lport, hv],
        "hypervisor_locator" => vec![hv, ip],
        "lport_stage_id" => {
            let bad = *random.pick(&[-1, 1 << 32, i64::MAX]);
            vec![lport, Cell::Int(if rarely { bad } else { random.below(40) as i64 })]
        }
        "ovsdb_tport" => {
            let port = *random.pick(&[1, 2, 17, 0xfeff, 65534]);
            let bad = *random.pick(&[-1, 1 << 32, i64::MIN]);
            vec![hv, encap, ip, Cell::Int(if rarely { bad } else { port })]
        }
        _ => vec![lport, Cell::Int(*random.pick(&[0, -5, 7, i64::MAX, i64::MIN, 1 << 62]))],
    }
}

/// A transaction that is unreadable in some row or as a whole: its text, and the code of the refusal.
fn unreadable(random: &mut Random, present: &Tables) -> (String, &'static str) {
    let good = random_row(random, "log_port");
    let side = *random.pick(&["insert", "delete"]);
    let (table, row, code) = *random.pick(&[
        ("no_such_table", "[1]", "unknown-table"),
        ("tunnel", "[\"p1\",\"hv1\",\"gre\",\"10.0.0.1\"]", "not-an-input"),
        ("ovs_flow", "[]", "not-an-input"),
        ("weight", "[\"p1\"]", "arity"),
        ("weight", "[\"p1\",1,2]", "arity"),
        ("weight", "[\"p1\",\"1\"]", "type-mismatch"),
        ("ovsdb_tport", "[\"hv1\",\"geneve\",\"10.0.0.256\",1]", "type-mismatch"),
        ("weight", "[\"p1\",1e3]", "type-mismatch"),
        ("weight", "[\"p1\",", "bad-json"),
        ("weight", "7", "bad-json"),
    ]);
    // The table of the readable row may come first, and then its key error counts first.
    let rival = |row: &Row| row[0] == good[0] && *row != good;
    let taken = present.get("log_port").is_some_and(|rows| rows.iter().any(rival));
    let first = side == "insert" && taken && "log_port" < table && code != "bad-json";
    let text = format!("\"{side}\":{{\"{table}\":[{row}],\"log_port\":[{}]}}", row_json(&good));
    (text, if first { "duplicate-key" } else { code })
}

fn history(seed: u64) -> Vec<Exchange> {
    let mut random = Random::new(seed);
    let mut oracle = Oracle::default();
    let mut exchanges = Vec::new();
    let mut txn = 0;
    for number in 0..40 {
        txn += 1;
        let mut line = String::from("{");
        if random.below(10) == 0 {
            txn += random.below(100);
            write!(line, "\"txn\":{txn},").unwrap();
        }
        if random.below(8) == 0 {
            let (rest, code) = unreadable(&mut random, &oracle.inputs);
            // A line that is not JSON has no number; a JSON line that is not a transaction has one.
            if code == "bad-json" && rest.contains(",]") && line.len() > 1 {
                txn = next_of(&exchanges);
            }
            write!(line, "{rest}}}").unwrap();
            exchanges.push(Exchange { line, wanted: Err(refusal(txn, code)) });
            continue;
        }
        let most = if number == 0 { 60 } else { 6 };
        let (mut deletes, mut inserts): (Vec<(&'static str, Row)>, Vec<_>) = (Vec::new(), Vec::new());
        for _ in 0..random.below(most) + most / 2 {
            let table = random.pick(&INPUTS).0;
            let row = random_row(&mut random, table);
            let key = INPUTS.iter().find(|(name, _)| *name == table).unwrap().1;
            let present = oracle.inputs.get(table).and_then(|rows| {
                rows.iter().find(|present| key > 0 && present[..key] == row[..key] || random.below(15) == 0)
            });
            match present {
                // Mostly a row replaces the one under its key.
                Some(present) if random.below(20) > 0 => deletes.push((table, present.clone())),
                _ if random.below(10) == 0 => deletes.push((table, random_row(&mut random, table))),
                _ => {}
            }
            let rival =
                |(other, chosen): &(&str, Row)| *other == table && key > 0 && chosen[..key] == row[..key];
            if random.below(40) == 0 || random.below(4) > 0 && !inserts.iter().any(rival) {
                inserts.push((table, row));
            }
        }
        write!(line, "\"delete\":{},\"insert\":{}}}", side_json(&deletes), side_json(&inserts)).unwrap();
        let wanted = oracle.commit(txn, &deletes, &inserts).map_err(|code| refusal(txn, code));
        exchanges.push(Exchange { line, wanted });
    }
    exchanges
}

/// The number that follows the last answer's.
fn next_of(exchanges: &[Exchange]) -> u64 {
    let Some(last) = exchanges.last() else { return 1 };
    let (Ok(answer) | Err(answer)) = &last.wanted;
    let digits = answer.strip_prefix("{\"txn\":").unwrap().split(',').next().unwrap();
    digits.parse::<u64>().unwrap() + 1
}

fn refusal(txn: u64, code: &str) -> String {
    format!("{{\"txn\":{txn},\"error\":{{\"code\":\"{code}\",\"message\":\"")
}

fn side_json(rows: &[(&'static str, Row)]) -> String {
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (table, row) in rows {
        tables.entry(table).or_default().push(row_json(row));
    }
    let tables: Vec<String> =
        tables.iter().map(|(name, rows)| format!("\"{name}\":[{}]", rows.join(","))).collect();
    format!("{{{}}}", tables.join(","))
}

#[test]
fn random_histories_give_what_the_rules_say() {
    let folder = Folder::new();
    folder.write("program/figure6.nlog", FIGURE6);
    folder.write("program/more.nlog", format!("import \"figure6.nlog\";\n{MORE_RULES}"));
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let mut changed = 0;
    let seeds = seeds!("random_histories_give_what_the_rules_say", 36);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        println!("seed {seed}");
        let exchanges = history(seed);
        let lines: Vec<&str> = exchanges.iter().map(|exchange| exchange.line.as_str()).collect();
        folder.write("txns.jsonl", lines.join("\n"));
        let first = folder.weft(&["eval", "program", "-i", "txns.jsonl"]);
        let printed = first.lines();
        assert_eq!(printed.len(), exchanges.len(), "seed {seed}\n{}", first.stderr);
        for (Exchange { line, wanted }, printed) in exchanges.iter().zip(printed) {
            match wanted {
                Ok(wanted) => {
                    assert_eq!(printed, wanted, "seed {seed}, for {line}");
                    changed += usize::from(!wanted.ends_with("\"insert\":{},\"delete\":{}}"));
                }
                Err(start) => {
                    assert!(printed.starts_with(start), "seed {seed}, for {line}\n{printed}\nis no {start}");
                    let code = start.split('"').nth(7).unwrap();
                    *codes.entry(code.to_owned()).or_default() += 1;
                }
            }
        }
        for way in &WAYS[1..] {
            let other = folder.weft(&[&["eval", "program", "-i", "txns.jsonl"], *way].concat());
            assert_eq!(first, other, "seed {seed}, {way:?}");
        }
    }
    // The histories must cover all kinds of refusal and enough changes.
    println!("{changed} transactions changed outputs; refused: {codes:?}");
    if !is_whole {
        return;
    }
    assert!(changed > 400, "{changed}");
    let kinds: Vec<&str> = codes.keys().map(String::as_str).collect();
    let all = [
        "arity",
        "bad-json",
        "duplicate-key",
        "key-conflict",
        "not-an-input",
        "overflow",
        "range",
        "type-mismatch",
        "unknown-table",
    ];
    assert_eq!(kinds, all);
}
