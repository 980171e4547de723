//! Plans as text, beside the programs that they are of.
//!
//! `INSTA_UPDATE=always cargo test -p nlog-plan` writes the texts anew; read the difference line by line.

use nlog_plan::Plan;

fn plan(text: &str) -> String {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("p.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    Plan::for_outputs(program).to_string()
}

macro_rules! golden {
    ($name:ident, $text:expr) => {
        #[test]
        fn $name() {
            insta::with_settings!({ description => $text, omit_expression => true, prepend_module_to_snapshot => false }, {
                insta::assert_snapshot!(stringify!($name), plan($text));
            });
        }
    };
}

golden!(figure_6, include_str!("../../../examples/figure6.nlog"));

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
    rules_share_arrangements_whatever_their_variables_are_called,
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
    an_equation_is_a_join_key_and_its_failures_are_followed,
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
    a_failure_that_no_column_shows_travels_in_a_hidden_one,
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
    duplicates_are_removed_where_they_come_up,
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
