//! Golden files of plans: `golden/NAME.txt` has a program, a line `---` and its plan. `UPDATE_EXPECT=1` writes the
//! present plans; review the difference line by line.

use std::path::Path;
use std::sync::Arc;

use nlog_data::{Role, TableId};
use nlog_plan::query::Plan;
use nlog_plan::{Settings, Statistics, TableStatistics};

fn plan_with(text: &str, settings: &Settings) -> Plan {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("p.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let outputs = program.schema.iter().filter(|(_, table)| table.role == Role::Output);
    let wanted = outputs.map(|(id, _)| id).collect::<std::collections::BTreeSet<TableId>>();
    Plan::new(Arc::clone(&program), &wanted, settings)
}

fn plan(text: &str) -> String {
    plan_with(text, &Settings::default()).to_string()
}

fn statistics(tables: &[(&str, u64, &[u64])]) -> Statistics {
    let tables = tables.iter().map(|(name, rows, distinct)| {
        (
            (*name).to_owned(),
            TableStatistics { rows: *rows, distinct: distinct.to_vec(), ..TableStatistics::default() },
        )
    });
    Statistics { tables: tables.collect() }
}

/// Compares the program and its plan with the golden file of this name.
fn check(name: &str, program: &str, plan: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    expect_test::expect_file![file].assert_eq(&format!("{}\n---\n{}\n", program.trim(), plan.trim_end()));
}

macro_rules! golden {
    ($name:ident, $text:expr) => {
        #[test]
        fn $name() {
            check(stringify!($name), $text, &plan($text));
        }
    };
}

const FIGURE: &str = include_str!("../../../../examples/figure6.nlog");

golden!(figure_6, FIGURE);

golden!(
    constants_come_first_and_lookups_follow_one_by_one,
    r#"
input table port(port: string, sw: string) key(port);
input table on(port: string, hv: string) key(port);
input table setting(name: string, value: string) key(name);
output table chosen(port: string, hv: string);
chosen(p, hv) :- on(p, hv), port(p, sw), setting("switch", sw);
"#
);

golden!(
    unique_columns_prove_what_keys_prove,
    r"
input table tunnel(host: string, remote: string, port_no: int) key(host, remote) unique(host, port_no);
input table vif(port: string, mac: mac, host: string) key(port) unique(mac);
input table seen(mac: mac, port_no: int);
output table sender(host: string, port_no: int, remote: string) key(host, port_no);
output table came(mac: mac, n: int, remote: string) key(mac, n);
output table at(mac: mac, host: string) key(mac) unique(host);
sender(host, port_no, remote) :- tunnel(host, remote, port_no);
came(mac, n, remote) :- seen(mac, n), vif(_, mac, host), tunnel(host, remote, n);
at(mac, host) :- vif(_, mac, host);
"
);

golden!(
    a_product_only_where_nothing_connects,
    r"
input table a(x: int);
input table b(y: int);
input table c(x: int, y: int);
output table connected(x: int, y: int);
output table product(x: int, y: int);
connected(x, y) :- a(x), b(y), c(x, y);
product(x, y) :- a(x), b(y);
"
);

golden!(
    rules_share_indexes_whatever_their_variables_are_called,
    r"
input table on(port: string, hv: string);
input table at(hv: string, ip: ip);
output table one(port: string, ip: ip);
output table other(port: string, ip: ip, hv: string);
one(p, i) :- on(p, h), at(h, i);
other(q, j, g) :- at(g, j), on(q, g);
"
);

golden!(
    an_equation_is_a_key_and_its_failures_are_followed,
    r"
input table a(x: int, g: string);
input table b(y: int, g: string);
input table c(z: int);
output table next(x: int, y: int);
output table flipped(x: int, y: int);
next(x, y) :- a(x, _), b(x + 1, _), c(y), x < y;
flipped(x, y) :- a(x, g), b(y, h), y == (x ^ 1), g == h;
"
);

golden!(
    failures_travel_with_bindings,
    r"
input table a(x: int, y: int);
input table b(y: int, z: int);
input table c(z: int);
output table filtered(x: int);
output table shown(x: int, r: int);
filtered(x) :- a(x, y), 10 / y > 2, b(y, z), c(z);
shown(x, r) :- a(x, y), r = 10 / y, b(y, z), z > 0, c(z);
"
);

golden!(
    duplicates_go_early_in_stages,
    r"
input table on(port: string, sw: string, hv: string) key(port);
input table at(hv: string, ip: ip) key(hv);
output table reach(hv: string, port: string, ip: ip);
output table present(hv: string, sw: string);
output table whole(port: string, sw: string);
reach(a, port, ip) :- on(_, sw, a), on(port, sw, b), at(b, ip), a != b;
present(hv, sw) :- on(_, sw, hv);
whole(port, sw) :- on(port, sw, _);
"
);

golden!(
    keys_follow_from_keys_or_are_checked,
    r#"
input table on(port: string, hv: string) key(port);
input table at(hv: string, ip: ip) key(hv);
output table follows(port: string, ip: ip) key(port);
output table follows_again(port: string, ip: ip) key(port);
output table checked(hv: string, port: string) key(hv);
output table from_checked(hv: string, port: string) key(hv);
output table two_rules(port: string, hv: string) key(port);
follows(port, ip) :- on(port, hv), at(hv, ip);
follows_again(port, ip) :- follows(port, ip);
checked(hv, port) :- on(port, hv);
from_checked(hv, port) :- checked(hv, port);
two_rules(port, hv) :- on(port, hv);
two_rules(port, "none") :- on(port, "lost");
"#
);

golden!(
    aggregates_group_by_the_other_columns,
    r"
input table on(port: string, hv: string, load: int) key(port);
output table load(hv: string, total: int, ports: set<string>, busiest: string) key(hv);
output table parity(odd: int, n: int);
load(hv, sum(load, port), set(port), arg_max(load, port)) :- on(port, hv, load);
parity(load % 2, count(port)) :- on(port, _, load);
"
);

golden!(
    many_results_facts_and_wide_rows,
    r#"
input table sets(name: string, members: set<int>);
input table wide(a: int, b: int, c: int, d: int, e: int, f: int);
output table member(name: string, x: int);
output table listed(name: string);
output table fact(x: int, y: string);
output table joined(name: string, a: int, b: int, c: int, d: int, e: int, f: int);
member(name, x) :- sets(name, s), element(s, x), x > 0;
listed(name) :- sets(name, s), element(s, _);
fact(1, "one");
fact(2, "two");
joined(n, a, b, c, d, e, f) :- wide(a, b, c, d, e, f), sets(n, s), element(s, a);
"#
);

golden!(
    what_nobody_reads_and_nothing_can_fail_is_not_computed,
    r"
input table a(x: int);
table idle(x: int);
table may_fail(x: int);
table may_break(x: int, y: int) key(x);
output table out(x: int);
idle(x) :- a(x);
may_fail(x + 1) :- a(x);
may_break(1, y) :- a(y);
out(x) :- a(x);
"
);

/// Figures of the evaluation in the paper: 3,000 hypervisors, 63,000 ports on 7,000 datapaths.
const FIGURE_6: &[(&str, u64, &[u64])] = &[
    ("log_port", 63_000, &[63_000, 7_000]),
    ("log_datapath_encap", 7_000, &[7_000, 1]),
    ("log_port_presence", 63_000, &[63_000, 3_000]),
    ("hypervisor_locator", 3_000, &[3_000, 3_000]),
    ("lport_stage_id", 63_000, &[63_000, 63_000]),
    ("ovsdb_tport", 303_496, &[3_000, 1, 3_000, 200]),
    ("tunnel", 1_456_800, &[63_000, 3_000, 1, 3_000]),
];

#[test]
fn figure_6_with_statistics_explained() {
    let settings = Settings { statistics: Some(statistics(FIGURE_6).into()), ..Settings::default() };
    let plan = plan_with(FIGURE, &settings);
    check("figure_6_with_statistics_explained", FIGURE, &plan.describe().explained().to_string());
}

/// A lookup that is requested first, and a table that is read once.
const INLINED: &str = r#"
input table port(port: string, sw: string, kind: int) key(port);
input table on(port: string, hv: string) key(port);
input table at(hv: string, ip: ip) key(hv);
table placed(port: string, sw: string, ip: ip, kind: int);
output table vif(port: string, ip: ip);
placed(p, s, i, k + 0 * k) :- port(p, s, k), on(p, h), at(h, i);
vif(p, i) :- placed(p, "blue", i, 1);
"#;

#[test]
fn a_table_that_is_read_once_stands_where_it_is_read() {
    let text = INLINED.replace("k + 0 * k", "k");
    let inlined = plan_with(&text, &Settings::default());
    assert_eq!(inlined.inlined, ["placed"]);
    let kept = plan_with(&text, &Settings { without_inlining: true, ..Settings::default() });
    assert_eq!(kept.inlined, [""; 0]);
    check("a_table_that_is_read_once_stands_where_it_is_read", &text, &inlined.to_string());
}

/// A lookup by a value that a rule computes.
const COMPUTED: &str = r"
input table port(port: string, sw: string, parent: opt<string>, enabled: bool) key(port);
input table vif(hv: string, port: string) key(port);
table interface(port: string, owner: string) key(port);
output table reporter(sw: string, hv: string);
interface(p, or_else(parent, p)) :- port(p, _, parent, true);
reporter(sw, hv) :- interface(p, owner), port(p, sw, _, _), vif(hv, owner);
";

#[test]
fn a_table_that_is_looked_up_by_a_computed_value_is_kept() {
    assert_eq!(plan_with(COMPUTED, &Settings::default()).inlined, [""; 0], "a vif would meet every port");
    let by_port = COMPUTED.replace("vif(hv, owner)", "vif(hv, p), owner != hv");
    assert_eq!(plan_with(&by_port, &Settings::default()).inlined, ["interface"], "no lookup needs the owner");
}

#[test]
fn a_table_whose_rule_can_fail_is_kept() {
    assert_eq!(plan_with(INLINED, &Settings::default()).inlined, [""; 0], "0 * k can overflow in general");
}
