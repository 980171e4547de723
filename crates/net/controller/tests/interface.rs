//! What the rules and the controller agree on: tables, their columns, constants; and what is said if they do not.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::Path;

use nlog_data::Value;
use weft_core::{Conventions, Rules, builtin};

/// Rules with which a controller can run, as a folder of one file.
const RULES: &str = "\
object transport_node { }
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>)
    key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(hv, 0, 1, match{in_port: port}, actions[]) :- vif(hv, _, port, _, _);
";

/// The outcome for these rules; the name of their folder is left out of an error.
fn load(text: &str) -> Result<Rules, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.nlog"), text).unwrap();
    let name = format!("{}/", folder.path().display());
    Rules::load(&[folder.path()]).map_err(|error| error.to_string().replace(&name, ""))
}

#[track_caller]
fn refused(from: &str, to: &str) -> String {
    assert!(RULES.contains(from), "{from}");
    load(&RULES.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn a_table_that_does_not_fit_is_told_with_its_place_and_the_remedy() {
    load(RULES).unwrap();
    let flow = "declare `output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)`, as rules/interface/ does";
    // Both columns are numbers: only their names tell them apart.
    assert_eq!(
        refused("table_id: int, priority: int", "priority: int, table_id: int"),
        format!("own.nlog:5:34: column 2 of table of_flow is `priority`, but must be `table_id`; {flow}")
    );
    assert_eq!(
        load(
            &RULES
                .replace("actions: actions)", "actions: actions, n: int)")
                .replace("actions[])", "actions[], 1)")
        )
        .unwrap_err(),
        format!("own.nlog:5:96: table of_flow has 6 columns, but must have 5; {flow}")
    );
    assert_eq!(
        refused(
            "input table vif(hv: string, port: string, ofport: int,",
            "table vif(hv: string, port: string, ofport: int,"
        ),
        "own.nlog:4:7: vif is declared as `table`, but must be `input table`; \
         declare `input table vif(hv: string, port: string, ofport: int, mac: string, since: int)`, as rules/interface/ does"
    );
    assert_eq!(
        refused("mac: string, since: int", "mac: mac, since: int"),
        "own.nlog:4:56: column `mac` of table vif has type mac, but must have string; \
         declare `input table vif(hv: string, port: string, ofport: int, mac: string, since: int)`, as rules/interface/ does"
    );
    let tunnel = "output table ovsdb_tunnel(hv: string, tunnel: string, encap: int, remote: string);\n";
    assert_eq!(
        load(&format!("{RULES}{tunnel}")).unwrap_err(),
        "own.nlog:8:55: column `encap` of table ovsdb_tunnel has type int, but must have string, or an enum of \
         geneve, vxlan, gre, stt; declare `output table ovsdb_tunnel(hv: string, tunnel: string, encap: string, remote: string)`, as rules/interface/ does"
    );
}

#[test]
fn a_fact_about_fields_that_no_kind_has_is_told_with_its_place() {
    let facts = "table applies_to(kind: string, field: string) key(kind, field);\nobject acl { on: int; host: ref transport_node; }\n";
    load(&format!("{RULES}{facts}applies_to(\"acl\", \"host\");\n")).unwrap();
    for (kind, field) in [("acl", "on"), ("acl", "of"), ("acls", "host")] {
        assert_eq!(
            load(&format!("{RULES}{facts}applies_to(\"{kind}\", \"{field}\");\n")).err().unwrap(),
            format!(
                "own.nlog:10:1: applies_to: no object of kind {kind} has a field {field} that refers to objects; name a kind and a field of it with references"
            )
        );
    }
}

#[test]
fn rules_that_manage_no_switch_are_refused() {
    let address = RULES.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    assert_eq!(
        refused(&address, ""),
        "the rules have no table switch_address, so the controller would manage no switch; declare `output table \
         switch_address(hv: ref KIND, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>)`, as rules/interface/ does"
    );
    let error = load("input table a(x: int);\noutput table b(x: int);\nb(x) :- a(x);\n").unwrap_err();
    assert!(error.contains("neither an output table of_flow nor an output table ovsdb_tunnel"), "{error}");
}

/// Drivers leave the flows of this table to the switch, and map this option to a field.
#[test]
fn the_learned_table_and_the_tunnel_option_are_those_of_the_rules() {
    let rules = Rules::built_in().unwrap();
    let number = |name: &str| match rules.program().constants.get(name) {
        Some(Value::Int(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    let conventions = rules.conventions();
    assert_eq!(
        conventions.learned_tables.iter().map(|table| i64::from(*table)).collect::<Vec<_>>(),
        ["FDB", "OUTSIDE_NEIGHBOUR", "LED", "SHARED_NEIGHBOUR"].map(number)
    );
    let option = conventions.tunnel_option.unwrap();
    assert_eq!(
        [i64::from(option.class), i64::from(option.kind), i64::from(option.len), i64::from(option.field)],
        [number("OPTION_CLASS"), number("OPTION_TYPE"), number("OPTION_LENGTH"), 0]
    );
    // Other rules may say otherwise, but nothing impossible and nothing by halves.
    let with =
        |constants: &str| load(&format!("{RULES}{constants}\n")).map(|rules| rules.conventions().clone());
    assert_eq!(with("const FDB = 7;").unwrap().learned_tables, [7].into());
    assert_eq!(with("").unwrap(), Conventions::default());
    assert_eq!(
        with("const FDB = 254;").unwrap_err(),
        "own.nlog:8:7: constant FDB, a table of learned flows, is 254; choose a number from 0 to 252"
    );
    assert_eq!(
        with("const OPTION_CLASS = 0x102;\nconst OPTION_TYPE = 0x80;").unwrap_err(),
        "own.nlog:8:7: the rules have constant OPTION_CLASS of the geneve option, but not OPTION_LENGTH; \
         declare OPTION_CLASS, OPTION_TYPE and OPTION_LENGTH, or none of them"
    );
}

/// A package beside the built-in rules.
fn beside_the_built_in(text: &str) -> Result<Rules, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.nlog"), text).unwrap();
    let name = format!("{}/", folder.path().display());
    let paths = [Path::new(builtin::NAME), folder.path()];
    Rules::load(&paths).map_err(|error| error.to_string().replace(&name, ""))
}

const PACKAGE: &str = "\
import \"builtin/interface/objects.nlog\";
import \"builtin/interface/driver.nlog\";

## Each row: switch `id` is old.
object old_switch {
    switch: ref switch;
}

problem(\"switch\", sw, \"old\", \"it is old\") :- old_switch(_, sw);
";

#[test]
fn a_package_extends_the_built_in_rules() {
    let (own, built_in) = (beside_the_built_in(PACKAGE).unwrap(), Rules::built_in().unwrap());
    assert_eq!(own.packages().len(), 2);
    assert_eq!(built_in.packages(), ["builtin"]);
    assert_eq!(own.program().rules.len(), built_in.program().rules.len() + 1);
    assert!(own.kinds().names().any(|kind| kind == "old_switch"));
    let fingerprints = |rules: &Rules| {
        rules.program().rules.iter().map(|rule| rule.fingerprint).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(fingerprints(&own).is_superset(&fingerprints(&built_in)), "flows keep their cookies");
}

/// As after an upgrade to built-in rules that have a name which the package had first.
#[test]
fn a_name_that_both_have_is_refused_with_both_places() {
    for (declaration, what) in [
        (
            "table wants_node_label(node: string);",
            "table `wants_node_label` is already declared at builtin/interface/labels.nlog:",
        ),
        (
            "const LOCAL_GROUP = 1;",
            "constant `LOCAL_GROUP` is already defined at builtin/interface/layout.nlog:",
        ),
        ("type encap = enum {gre};", "type `encap` is already declared at builtin/interface/types.nlog:"),
        (
            "object switch { a: int; }",
            "table `switch` is already declared at builtin/interface/objects.nlog:",
        ),
    ] {
        let error = beside_the_built_in(&format!("{PACKAGE}{declaration}\n")).unwrap_err();
        assert!(error.contains(what), "{error}");
        assert!(error.contains("--> own.nlog:10:"), "the one to mend is the package's: {error}");
    }
}

#[test]
fn a_name_that_the_api_or_a_kind_has_is_refused_with_its_place() {
    for (declaration, told) in [
        (
            "listing table flows(switch: ref switch, n: int);",
            "listing table flows has the name of what every object has: /v1/KINDS/ID/flows",
        ),
        (
            "listing table logical_flows(switch: ref switch, n: int);",
            "listing table logical_flows has the name of what every object has: /v1/KINDS/ID/logical-flows",
        ),
        (
            "counter table history(switch: ref switch, host: string, n: int) reads meter(host, n) as (n: packets);",
            "counter table history has the name of what every object has: /v1/KINDS/ID/history",
        ),
        (
            "listing table status(switch: ref switch, n: int);",
            "listing table status has the name of something else: weft get status",
        ),
        (
            "listing table switch_ports(switch: ref switch, n: int);",
            "listing table switch_ports has the name of object kind switch_port: weft get switch-ports",
        ),
        (
            "object transaction { n: int = 1; }",
            "object kind transaction has the path of something else: /v1/transactions",
        ),
    ] {
        let error = beside_the_built_in(&format!("{PACKAGE}{declaration}\n")).unwrap_err();
        let column = if declaration.starts_with("object") { 8 } else { 15 };
        assert_eq!(error, format!("own.nlog:10:{column}: {told}; choose another name"));
    }
}

/// Without the other built-in rules, the flows of the network would all be deleted.
#[test]
fn a_package_alone_is_refused() {
    assert_eq!(
        load(PACKAGE).unwrap_err(),
        "the rules import builtin/interface/objects.nlog, so they extend the built-in rules, which do not run: write \
         rules = [\"builtin\", FOLDER] in the configuration"
    );
}
