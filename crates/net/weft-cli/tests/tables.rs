//! `weft tables` and its page of the book.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::Folder;

const PROGRAM: &str = r#"
type vlan = int 1..4094;
type side = enum {inside, outside};

## A port.
object port {
    tag: opt<vlan>;
}

## Each row: `port` is on `side`. | Of two lines,
## this is the second.
input table reported(port: string, side: side) key(port);

## Each row: `port` wants a number.
table wants_number(port: string);
wants_number(port) :- port(id: port, ..);
wants_number(port) :- reported(port, _), reported(port, "inside");

## Each row: the number of `port`.
input table number(port: string, number: int) key(port) from allocate(wants_number, first: 1, last: 9);

## The number of `port`, or 0.
state table port_state(port: ref port, number: int) key(port);
port_state(port, number) :- number(port, number);
default port_state(port, 0) :- port(id: port, ..);

## No port has the last tag.
forbid table outside(port: string);
outside(port) :- port(id: port, tag: some(4094), ..);
"#;

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn the_page_of_tables_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/tables.md");
    let page = Folder::new().weft(&["tables", "--interface", "--markdown"]).has_status(0).stdout.clone();
    expect_test::expect_file![path].assert_eq(&page);
}

#[test]
fn a_table_is_shown_with_those_who_fill_and_read_it() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    let text = folder.weft(&["tables", "p.nlog"]).has_status(0).stdout.clone();
    let expected = "\
input table number  p.nlog:20
    Each row: the number of `port`.
    port    string  key
    number  int
    filled by:
        hook allocate(wants_number, first: 1, last: 9)
    read by:
        p.nlog (1 rule)

forbid table outside  p.nlog:28
    No port has the last tag.
    port  string
    filled by:
        p.nlog (1 rule)
    read by:
        the engine: a row refuses the transaction

object port  p.nlog:6
    A port.
    id   string  key
    tag  opt<vlan> (int 1..4094)
    filled by:
        objects of kind port (`weft apply`)
    read by:
        p.nlog (3 rules)

state table port_state  p.nlog:23
    The number of `port`, or 0.
    port    ref port  key
    number  int
    filled by:
        p.nlog (2 rules)
    read by:
        `weft get port`

input table reported  p.nlog:12
    Each row: `port` is on `side`. | Of two lines, this is the second.
    port  string  key
    side  side (enum {inside, outside})
    filled by:
        transactions (`weft eval -i`)
    read by:
        p.nlog (1 rule)

table wants_number  p.nlog:15
    Each row: `port` wants a number.
    port  string
    filled by:
        p.nlog (2 rules)
    read by:
        hook allocate(wants_number, first: 1, last: 9), which fills number
";
    assert!(text.contains(expected), "{text}");
}

/// The engine checks what is unique by hidden tables and rules. Nobody sees these.
#[test]
fn unique_columns_are_shown_and_what_checks_them_is_not() {
    let folder = Folder::new();
    folder.write(
        "p.nlog",
        "input table machine(port: string, mac: mac, ip: ip) key(port) unique(mac) unique(ip);\n\
         output table where(port: string, mac: mac) unique(mac);\nwhere(port, mac) :- machine(port, mac, _);\n",
    );
    assert_eq!(
        folder.weft(&["tables", "p.nlog"]).has_status(0).stdout,
        "\
input table machine  p.nlog:1
    port  string  key
    mac   mac
    ip    ip
    unique(mac)
    unique(ip)
    filled by:
        transactions (`weft eval -i`)
    read by:
        p.nlog (1 rule)

output table where  p.nlog:2
    port  string
    mac   mac
    unique(mac)
    filled by:
        p.nlog (1 rule)
    read by: no rule
"
    );
    let all = lines(&folder, &["p.nlog"]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["unique"], json!([["mac"], ["ip"]]));
    let page = folder.weft(&["tables", "p.nlog", "--markdown"]).has_status(0).stdout.clone();
    assert!(page.contains("- Unique: `mac`\n- Unique: `ip`\n- Filled by: "), "{page}");
}

/// The objects that `weft tables --json` prints.
fn lines(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let outcome = folder.weft(&[&["tables", "--json"], arguments].concat());
    outcome.has_status(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_word_of_the_command_line_is_a_program_or_a_name() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    let names = |arguments: &[&str]| -> Vec<String> {
        lines(&folder, arguments).iter().map(|line| line["table"].as_str().unwrap().to_owned()).collect()
    };
    // The whole name is that table alone, although others contain it.
    assert_eq!(names(&["p.nlog", "number"]), ["number"]);
    assert_eq!(names(&["p.nlog", "num", "outside"]), ["number", "outside", "wants_number"]);
    let one = json!({
        "table": "reported", "kind": "input table", "file": "p.nlog", "line": 12, "key": ["port"],
        "doc": "Each row: `port` is on `side`. | Of two lines, this is the second.",
        "columns": [
            {"name": "port", "type": "string"},
            {"name": "side", "type": "side", "definition": "enum {inside, outside}"},
        ],
        "filled_by": [{"by": "transactions"}],
        "read_by": [{"by": "rules", "file": "p.nlog", "rules": 1}],
    });
    assert_eq!(lines(&folder, &["p.nlog", "reported"]), [one]);
    // Without a program, the built-in rules.
    assert_eq!(lines(&folder, &["vif"])[0]["file"], "builtin/interface/reports.nlog");
    let unknown = folder.weft(&["tables", "p.nlog", "reportd"]);
    assert_eq!(
        unknown.has_status(2).stderr,
        "error: no table has `reportd` in its name, and no file is called so: did you mean `reported`?\n"
    );
    folder.weft(&["tables", "missing/p.nlog"]).has_status(3);
}

#[test]
fn numbers_are_shown_with_what_reserves_them() {
    let folder = Folder::new();
    folder.write(
        "p.nlog",
        "type meter = int 1..9;\n## Two\n## meters.\nreserve TWO of meter = 4..5;\nreserve ONE of meter = 3;\n\
         field low = reg0[0..14];\nfield other = reg1[4];\nfield most = xxreg1;\nfield rest = xxreg2;\nfield last = xxreg3;\n\
         field pair = xreg1;\nfield mark = ct_mark[16..31];\nfield label = ct_label;\n",
    );
    assert_eq!(
        folder.weft(&["tables", "--numbers", "p.nlog"]).has_status(0).stdout,
        "meter 3  ONE  p.nlog:5\n    \nmeter 4..5  TWO  p.nlog:4\n    Two meters.\n\
         free bits: reg0[15..31], reg1[0..3], reg1[5..31], ct_mark[0..15]\n"
    );
    let numbers = folder.weft(&["tables", "--numbers", "--json", "p.nlog"]).has_status(0).stdout.clone();
    let numbers: Value = serde_json::from_str(&numbers).unwrap();
    assert_eq!(
        numbers["reserved"][1],
        json!({"name": "TWO", "type": "meter", "first": 4, "last": 5, "doc": "Two meters.", "file": "p.nlog", "line": 4})
    );
    // What layout.nlog leaves to packages, and nothing else.
    let built_in = folder.weft(&["tables", "--numbers"]).has_status(0).stdout.clone();
    assert!(
        built_in.ends_with("\nfree bits: reg14[28..31], ct_mark[16..31], ct_label[64..127]\n"),
        "{built_in}"
    );
}

#[test]
fn the_interface_is_what_packages_may_use() {
    let folder = Folder::new();
    folder.write("package/p.nlog", "import \"builtin/interface/reports.nlog\";\n## Each row: `hv` is there.\ntable mine(hv: string);\nmine(hv) :- managed(hv);\n");
    let all = lines(&folder, &["builtin", "package"]);
    let interface = lines(&folder, &["builtin", "package", "--interface"]);
    assert!(all.len() > interface.len() && interface.len() > 50, "{} and {}", all.len(), interface.len());
    let find = |name: &str| interface.iter().find(|line| line["table"] == name);
    assert!(find("mine").is_none() && all.iter().any(|line| line["table"] == "mine"));
    assert!(find("logical_port").is_none(), "a table of the logical rules");
    let managed = find("managed").unwrap();
    assert_eq!(managed["filled_by"], json!([{"by": "controller"}]));
    let readers = managed["read_by"].as_array().unwrap();
    assert!(readers.contains(&json!({"by": "rules", "file": "package/p.nlog", "rules": 1})), "{readers:?}");
    assert_eq!(find("of_meter").unwrap()["read_by"], json!([{"by": "driver"}]));
    assert_eq!(find("problem").unwrap()["read_by"], json!([{"by": "controller"}]));
}
