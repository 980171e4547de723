//! Reading and writing a line by columns gives the same as by rows, in every part and in every error.

use std::collections::BTreeMap;

use crate::support::{config, row_of};
use nlog_data::json::{
    ContentsWriter, ordinary, parse_line, parse_line_columns, write_contents_line, write_delta_columns,
    write_delta_line, write_value,
};
use nlog_data::{Column, ColumnDelta, Columns, Delta, Role, Row, Schema, Table, TableDelta, Type};
use proptest::prelude::*;

fn table(name: &str, role: Role, key: Option<Vec<usize>>, columns: &[Type]) -> Table {
    let columns =
        columns.iter().zip('a'..).map(|(ty, name)| Column { name: name.to_string(), ty: ty.clone() });
    Table {
        name: name.to_string(),
        role,
        columns: columns.collect(),
        key,
        uniques: Vec::new(),
        doc: String::new(),
    }
}

fn schema() -> Schema {
    Schema::new(vec![
        table("a", Role::Input, Some(vec![0]), &[Type::Int, Type::String]),
        table("b", Role::Input, None, &[Type::set(Type::Ip), Type::Net, Type::opt(Type::Mac)]),
        table("m", Role::Input, Some(vec![0, 1]), &[Type::Bool, Type::Match, Type::Actions]),
        table("none", Role::Input, None, &[]),
        table("out", Role::Output, None, &[Type::Int]),
    ])
}

/// Checks that both readers agree on the line. Returns whether it is a transaction.
#[track_caller]
fn same(line: &[u8], number: u64) -> bool {
    let schema = schema();
    let shown = || String::from_utf8_lossy(line).into_owned();
    match (parse_line(line, number, &schema), parse_line_columns(line, number, &schema)) {
        (Ok(rows), Ok(columns)) => {
            assert_eq!((rows.txn, &rows.origin), (columns.txn, &columns.origin), "{}", shown());
            assert_eq!(rows.transaction, columns.transaction.to_rows(), "{}", shown());
            true
        }
        (rows, columns) => {
            assert_eq!(rows.err(), columns.err(), "{}", shown());
            false
        }
    }
}

/// Rows of each table, few or many.
fn any_side() -> impl Strategy<Value = Vec<(String, Vec<Row>)>> {
    let tables: Vec<_> = schema().iter().map(|(_, table)| table.clone()).collect();
    let rows = |table: Table| {
        let types: Vec<Type> = table.columns.iter().map(|column| column.ty.clone()).collect();
        (Just(table.name), prop::collection::vec(row_of(&types), 0..6))
    };
    let tables = tables.into_iter().filter(|table| table.role == Role::Input).map(rows);
    prop::sample::subsequence((0..4).collect::<Vec<_>>(), 0..=4)
        .prop_flat_map(move |chosen| {
            chosen.into_iter().filter_map(|at| tables.clone().nth(at)).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

/// A line as many tools would write it: with spaces, members in any order, addresses in capitals.
fn any_line() -> impl Strategy<Value = String> {
    let side = |name: &'static str, space: &'static str| {
        any_side().prop_map(move |side| {
            let rows = |rows: &[Row]| {
                let row = |row: &Row| {
                    let values = row.iter().map(|value| {
                        let mut out = Vec::new();
                        write_value(&mut out, value);
                        String::from_utf8(out).expect("JSON")
                    });
                    format!("[{space}{}{space}]", values.collect::<Vec<_>>().join(","))
                };
                rows.iter().map(row).collect::<Vec<_>>().join(&format!(",{space}"))
            };
            let tables = side.iter().map(|(name, of)| format!("{space}\"{name}\":[{}]", rows(of)));
            format!("\"{name}\"{space}:{{{}{space}}}", tables.collect::<Vec<_>>().join(","))
        })
    };
    prop::sample::select(vec!["", " ", "\t "]).prop_flat_map(move |space| {
        let members =
            (side("insert", space), side("delete", space), 0..100u32).prop_map(|(insert, delete, n)| {
                vec![
                    insert,
                    delete,
                    format!("\"txn\":{n}"),
                    format!("\"by\":[{n},null]"),
                    "\"at\": 1.5e3".to_string(),
                ]
            });
        (members, 0..=5usize).prop_flat_map(|(members, count)| {
            prop::sample::subsequence(members, count)
                .prop_shuffle()
                .prop_map(|members| format!("{{{}}}", members.join(",")))
        })
    })
}

/// An edit of a line: some bytes replaced by a fragment of JSON.
#[derive(Debug, Clone)]
struct Damage {
    at: prop::sample::Index,
    bytes: usize,
    by: Vec<u8>,
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let texts: Vec<&[u8]> = vec![
        b"",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b"\"",
        b"\\",
        b" ",
        b"0",
        b"-",
        b"1.5",
        b"null",
        b"true",
        b"x",
        b"\xff",
        b"[[[[",
        b"\\ud800",
        b"\\u0041",
        b"\n",
        b"\"a\":[],",
        b"\"error\":0,",
        b"\"insert\":{},",
        b"\"out\":[[1]],",
        b"\"no\":[],",
        b"\"txn\":-1,",
        b"18446744073709551616",
        b"9223372036854775808",
        b"-0",
        b"1e999",
        b"\"x\",",
    ];
    (any::<prop::sample::Index>(), 0..3usize, prop::sample::select(texts))
        .prop_map(|(at, bytes, by)| Damage { at, bytes, by: by.to_vec() })
}

/// Takes a few bytes at a time, as a pipe may.
#[derive(Default)]
struct Sips(Vec<u8>);

impl std::io::Write for Sips {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(1000);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn assert_written_alike(delta: Delta, txn: u64) {
    let schema = schema();
    let (mut by_rows, mut by_columns) = (Vec::new(), Sips::default());
    write_delta_line(&mut by_rows, txn, &delta, &schema);
    let columns = ColumnDelta::from_rows(delta.clone()).expect("even rows");
    write_delta_columns(&mut by_columns, txn, &columns, &schema).expect("written");
    assert_eq!(String::from_utf8_lossy(&by_rows), String::from_utf8_lossy(&by_columns.0));

    let (mut by_rows, mut by_columns) = (Vec::new(), Sips::default());
    let tables: Vec<_> = delta
        .tables
        .iter()
        .map(|(id, table)| (schema.table(*id).name.as_str(), table.insert.as_slice()))
        .collect();
    write_contents_line(&mut by_rows, tables.iter().copied());
    let mut writer = ContentsWriter::new(&mut by_columns);
    for (name, rows) in tables {
        writer.table(name, &Columns::from_rows(rows).expect("even rows")).expect("written");
    }
    writer.finish().expect("written");
    assert_eq!(String::from_utf8_lossy(&by_rows), String::from_utf8_lossy(&by_columns.0));
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn a_delta_is_written_alike(insert in any_side(), delete in any_side(), txn in any::<u64>()) {
        let schema = schema();
        let mut tables: BTreeMap<_, TableDelta> = BTreeMap::new();
        let sorted = |mut rows: Vec<Row>| {
            rows.sort();
            rows
        };
        for (name, rows) in insert {
            tables.entry(schema.find(&name).expect("a table")).or_default().insert = sorted(rows);
        }
        for (name, rows) in delete {
            tables.entry(schema.find(&name).expect("a table")).or_default().delete = sorted(rows);
        }
        assert_written_alike(Delta { tables }, txn);
    }

    #[test]
    fn a_line_is_read_alike(line in any_line(), number in any::<u64>()) {
        prop_assert!(same(line.as_bytes(), number), "a good line: {line}");
    }

    #[test]
    fn a_damaged_line_is_read_or_refused_alike(line in any_line(), damages in prop::collection::vec(any_damage(), 1..3)) {
        let mut line = line.into_bytes();
        for Damage { at, bytes, by } in damages {
            let start = at.index(line.len() + 1);
            let end = (start + bytes).min(line.len());
            line.splice(start..end, by);
        }
        same(&line, 7);
    }
}

#[test]
fn what_is_unusual_is_read_alike() {
    let deep = |n: usize| {
        format!(r#"{{"insert":{{"b":[[{}{},"10.0.0.0/8",null]]}}}}"#, "[".repeat(n), "]".repeat(n))
    };
    let long = |text: &str| format!(r#"{{"insert":{{"a":[[1,"{text}"],[2,"{text}"],[3,"{text}é"]]}}}}"#);
    for (good, line) in [
        (
            true,
            r#"{"insert":{"b":[[["2001:DB8::1"],"FE80::/10",null],[["2001:db8::1"],"fe80::/10",null]]}}"#
                .to_string(),
        ),
        (true, r#"{"insert":{"a":[[1,"\u0041"],[2,"A"],[3,"\n"]]}}"#.to_string()),
        (true, r#"{"insert":{"a":[[1,"x"],[1,"x"],[1,"y"]]},"delete":{"a":[[1,"x"]]}}"#.to_string()),
        (true, r#"{"txn":18446744073709551615,"error":{},"insert":{"a":[[1,"x"]]}}"#.to_string()),
        (true, "{}".to_string()),
        (true, deep(1)),
        (true, long("fifteen byte")),
        (true, long("fourteen byte.")),
        (true, long(&"sixteen bytes...".repeat(20))),
        (false, deep(2)),
        (false, deep(130)),
        (false, String::new()),
        (false, r#"{"txn":1.0}"#.to_string()),
        (false, r#"{"insert":{"a":[[1]]}}"#.to_string()),
        (false, r#"{"insert":{"a":[[1,"x",2]]}}"#.to_string()),
        (false, r#"{"insert":{"none":[[],[1]]}}"#.to_string()),
        (false, r#"{"insert":{"out":[]}}"#.to_string()),
        (false, r#"{"insert":{"a":[],"a":[]}}"#.to_string()),
        (false, r#"{"insert":{"a":[[1,"x"]]},"insert":{}}"#.to_string()),
        (false, r#"{"insert":{"a":[[1,"\ud800"]]}}"#.to_string()),
        (false, r#"{"insert":{"b":[[[],"10.0.0.1/8",null]]}}"#.to_string()),
        (false, "{} {}".to_string()),
    ] {
        assert_eq!(same(line.as_bytes(), 3), good, "{line}");
    }
    assert!(!same(b"{\"insert\":{\"a\":[[1,\"\xff\"]]}}", 1));
}

#[test]
fn a_delta_of_many_pieces_is_written_alike() {
    let row = |n: i64| vec![n.into(), format!("\"{}\" of many", n % 100).into()];
    let table = TableDelta {
        insert: (0..20_000).map(row).collect(),
        delete: (-9..0).map(row).collect(),
        ..TableDelta::default()
    };
    let none = TableDelta { insert: vec![vec![]], ..TableDelta::default() };
    let find = |name| schema().find(name).expect("a table");
    assert_written_alike(Delta { tables: BTreeMap::from([(find("a"), table), (find("none"), none)]) }, 1);
    assert_written_alike(Delta::default(), 2);
}

#[test]
fn a_value_stands_once_in_its_column_however_often_it_is_said() {
    let line = br#"{"insert":{"a":[[1,"x"],[2,"y"],[3,"x"],[4,"a text of many bytes"],[5,"a text of many bytes"]]}}"#;
    let line = parse_line_columns(line, 1, &schema()).expect("a transaction");
    let columns = line.transaction.insert.values().next().expect("a table");
    assert_eq!(columns.dictionaries().iter().map(Vec::len).collect::<Vec<_>>(), [5, 3]);
    assert_eq!(columns.cells(), [0, 0, 1, 1, 2, 0, 3, 2, 4, 2]);
}

#[test]
fn ordinary_lines_take_the_short_way_and_others_do_not() {
    let deep = (0..=64).fold(Type::Int, |of, _| Type::set(of));
    let schema = Schema::new(vec![
        table("a", Role::Input, Some(vec![0]), &[Type::Int, Type::opt(Type::set(Type::Ip))]),
        table("deep", Role::Input, Some(vec![0]), &[deep]),
        table("out", Role::Output, Some(vec![0]), &[Type::Int]),
    ]);
    for line in [
        "{}",
        r#" {"txn":1, "insert": {"a": [[1, ["10.0.0.1"]], [2, null]]}, "delete": {"a": []}, "by": {"x": 1.5}} "#,
    ] {
        assert!(ordinary(line.as_bytes(), &schema).is_some(), "{line}");
    }
    for line in [
        "",
        "{} {}",
        r#"{"txn":-1}"#,
        r#"{"error":0}"#,
        r#"{"insert":{"a":[[1]]}}"#,
        r#"{"insert":{"a":[[1,null,2]]}}"#,
        r#"{"insert":{"a":[["1",null]]}}"#,
        r#"{"insert":{"a":[[1,[5]]]}}"#,
        r#"{"insert":{"deep":[]}}"#,
        r#"{"insert":{"out":[]}}"#,
        r#"{"insert":{"no":[]}}"#,
        r#"{"insert":{"a":[],"a":[]}}"#,
        r#"{"by":1,"by":1}"#,
    ] {
        assert!(ordinary(line.as_bytes(), &schema).is_none(), "{line}");
    }
}
