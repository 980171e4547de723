//! Every kind: its rows become things, and things become the same rows again.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{Delta, Packed, Row, Schema, TableDelta, Value};
use openflow_rs::MacAddr;
use switch_model::{
    ByHost, Changes, Desired, Frame, KINDS, Pool, RowError, Source, Tables, check_groups, split_by_host,
};

/// A program that declares the tables of all kinds.
fn schema() -> Arc<Schema> {
    let text: String = KINDS.iter().map(|table| table.to_string() + ";\n").collect();
    let compiled = nlog::compile(&nlog::Sources::from_texts([("kinds.nlog", text)]));
    compiled.program.expect("the declarations of the kinds compile").schema.clone()
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn int(number: i64) -> Value {
    Value::Int(number)
}

fn texts(all: &[&str]) -> Value {
    Value::Set(all.iter().map(|one| text(one)).collect::<Vec<_>>().into())
}

fn matching(text: &str) -> Value {
    Value::Match(Packed::new(&text.parse().expect("a match")))
}

fn actions(text: &str) -> Value {
    Value::Actions(Packed::new(&text.parse().expect("actions")))
}

/// Rows of every kind that lasts, which a switch can have together.
fn rows() -> BTreeMap<&'static str, Vec<Row>> {
    let hv = || text("hv1");
    BTreeMap::from([
        (
            "of_flow",
            vec![
                vec![hv(), int(0), int(0), matching(""), actions("drop")],
                vec![
                    hv(),
                    int(254),
                    int(65535),
                    matching("tcp,nw_src=10.0.0.1"),
                    actions("output:2,resubmit(,7)"),
                ],
            ],
        ),
        (
            "of_bucket",
            vec![
                vec![hv(), int(7), int(0), actions("output:1")],
                vec![hv(), int(7), int(9), actions("output:2")],
            ],
        ),
        (
            "of_group",
            vec![
                vec![hv(), int(8), text("select"), texts(&["ip_src", "tcp_dst"])],
                vec![hv(), int(9), text("fast_failover"), texts(&[])],
            ],
        ),
        (
            "of_candidate",
            vec![
                vec![hv(), int(8), int(1), int(5), int(0), int(0), actions("output:1")],
                vec![hv(), int(9), int(1), int(0), int(3), int(7), actions("output:3")],
            ],
        ),
        ("of_meter", vec![vec![hv(), int(1), int(100), int(10)], vec![hv(), int(200_000), int(1), int(1)]]),
        (
            "conntrack_zone",
            vec![vec![hv(), int(1), text("blue-1")], vec![hv(), int(65535), text("a rather long name")]],
        ),
        (
            "conntrack_limit",
            vec![
                vec![hv(), int(1), int(0), int(30), int(60), int(3600), int(10)],
                vec![hv(), int(2), int(1000), int(1), int(1), int(1), int(1)],
            ],
        ),
        (
            "collector_set",
            vec![vec![hv(), int(3), texts(&["10.0.0.10:4739", "10.0.0.9:4739"]), int(0), int(100)]],
        ),
        (
            "ovsdb_tunnel",
            vec![
                vec![hv(), text("gnv"), text("geneve"), text("flow")],
                vec![hv(), text("vx-1"), text("vxlan"), text("2001:db8::1")],
            ],
        ),
        ("bfd_session", vec![vec![hv(), text("gnv"), int(300)]]),
        ("ovsdb_patch", vec![vec![hv(), text("to-phy"), text("br-phy"), text("from-int")]]),
        ("awaited_flow", vec![vec![hv(), int(12), int(6), text("p1")]]),
    ])
}

/// The changes of tables, each row of which may come or go.
fn delta(schema: &Schema, insert: &BTreeMap<&str, Vec<Row>>, delete: &BTreeMap<&str, Vec<Row>>) -> Delta {
    let mut delta = Delta::default();
    for (side, is_insert) in [(insert, true), (delete, false)] {
        for (name, rows) in side {
            let table = schema.find(name).expect("a table of a kind");
            let of_table: &mut TableDelta = delta.tables.entry(table).or_default();
            if is_insert { &mut of_table.insert } else { &mut of_table.delete }.extend(rows.iter().cloned());
        }
    }
    delta
}

fn split(schema: &Schema, delta: &Delta) -> Result<ByHost, RowError> {
    let tables = Tables::find(schema).expect("the tables are as declared");
    split_by_host(&Source { delta, fingerprint: &|_| 0 }, &tables, &mut Pool::default())
}

#[test]
fn every_kind_that_lasts_makes_the_rows_that_it_was_read_from() {
    let (schema, rows, none) = (schema(), rows(), BTreeMap::new());
    let tables = Tables::find(&schema).expect("the tables are as declared");
    for table in KINDS {
        let is_sampled = rows.contains_key(table.name) || table.name == "announcement";
        assert!(is_sampled, "there is no row of {}", table.name);
    }
    let hosts = split(&schema, &delta(&schema, &rows, &none)).expect("a switch can have all of this");
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["hv1"]);
    assert_eq!(check_groups(&hosts, |_| None), Ok(()));
    let mut state = Desired::default();
    state.apply(&hosts["hv1"]);
    let found = state.rows("hv1", &tables).expect("all can be decoded");
    assert_eq!(found.len(), rows.len());
    for (table, mut found) in found {
        let name = schema.table(table).name.as_str();
        let mut expected = rows[name].clone();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }

    // The same rows go.
    let gone = split(&schema, &delta(&schema, &none, &rows)).expect("they were there");
    state.apply(&gone["hv1"]);
    assert_eq!(state, Desired::default());
}

#[test]
fn a_value_that_changes_is_added_and_an_announcement_that_only_moves_is_no_news() {
    let schema = schema();
    let meter = |rate| BTreeMap::from([("of_meter", vec![vec![text("hv1"), int(1), int(rate), int(10)]])]);
    let hosts = split(&schema, &delta(&schema, &meter(200), &meter(100))).expect("meters");
    assert!(hosts["hv1"].meters.delete.is_empty());
    assert_eq!(hosts["hv1"].meters.add[&1].rate, 200);

    let mac = Value::Mac(MacAddr([2, 0, 0, 0, 0, 1]));
    let announcement = |host: &str, ofport| {
        BTreeMap::from([(
            "announcement",
            vec![vec![text(host), text("p"), mac.clone(), int(ofport), int(0)]],
        )])
    };
    let hosts =
        split(&schema, &delta(&schema, &announcement("hv1", 4), &announcement("hv1", 3))).expect("frames");
    let name = "02:00:00:00:00:01 p".to_owned();
    assert_eq!(hosts["hv1"].frames.delete, [name.clone()].into());
    assert!(hosts["hv1"].frames.add.is_empty());
    let hosts =
        split(&schema, &delta(&schema, &announcement("hv2", 4), &announcement("hv1", 3))).expect("frames");
    let Changes { frames, .. } = &hosts["hv2"];
    assert!(matches!(frames.add.get(&name), Some(Frame { ofport: 4, .. })), "{frames:?}");
}

#[test]
fn what_no_switch_supports_is_refused_with_table_host_and_bounds() {
    let schema = schema();
    let hv = || text("hv1");
    let cases = [
        (
            "of_flow",
            vec![hv(), int(255), int(0), matching(""), actions("drop")],
            "table 255 does not exist; the last is 254",
        ),
        (
            "of_flow",
            vec![hv(), int(0), int(65536), matching(""), actions("drop")],
            "priority 65536 is out of range; the highest is 65535",
        ),
        (
            "of_flow",
            vec![hv(), int(253), int(0), matching(""), actions("drop")],
            "table 253 is where the driver notes the owners of conntrack_zone",
        ),
        (
            "of_bucket",
            vec![hv(), int(0x400_0000), int(0), actions("drop")],
            "group 67108864 is out of range; the last is 67108863",
        ),
        (
            "of_group",
            vec![hv(), int(8), text("select"), texts(&[])],
            "group 8 selects by no field: name the fields whose hash chooses a bucket",
        ),
        (
            "of_group",
            vec![hv(), int(8), text("all"), texts(&[])],
            "group 8 has the type all, which does not exist; it is select or fast_failover",
        ),
        (
            "of_candidate",
            vec![hv(), int(8), int(1), int(65536), int(0), int(0), actions("drop")],
            "weight 65536 is out of range; the last is 65535",
        ),
        ("of_meter", vec![hv(), int(0), int(1), int(1)], "meter 0 is out of range; it is from 1 to 200000"),
        ("conntrack_zone", vec![hv(), int(0), text("x")], "zone 0 is out of range; it is from 1 to 65535"),
        (
            "conntrack_limit",
            vec![hv(), int(1), int(0), int(0), int(1), int(1), int(1)],
            "zone 1 has unanswered 0, which is out of range; it is from 1 to 4294967295",
        ),
        (
            "collector_set",
            vec![hv(), int(-1), texts(&[]), int(0), int(0)],
            "number -1 is out of range; it is from 0 to 4294967295",
        ),
        (
            "ovsdb_tunnel",
            vec![hv(), text("gnv"), text("geneve"), text("hv2")],
            "gnv: \"hv2\" cannot be the remote end of a tunnel; use an IPv4 or IPv6 address, or `flow`",
        ),
        (
            "ovsdb_tunnel",
            vec![hv(), text("a-name-that-is-long"), text("geneve"), text("flow")],
            "a-name-that-is-long cannot be the name of a port: it has 19 bytes, the most are 15",
        ),
        (
            "bfd_session",
            vec![hv(), text("gnv"), int(0)],
            "gnv has interval 0, which is out of range; it is from 1 to 65535",
        ),
        (
            "ovsdb_patch",
            vec![hv(), text("p"), text("br"), text("a-name-that-is-long")],
            "a-name-that-is-long cannot be the name of a port: it has 19 bytes, the most are 15",
        ),
    ];
    for (table, row, why) in cases {
        let refused =
            split(&schema, &delta(&schema, &BTreeMap::from([(table, vec![row])]), &BTreeMap::new()));
        let error = refused.expect_err(why).to_string();
        assert_eq!(error, format!("{table}: hv1: {why}"));
    }
}
