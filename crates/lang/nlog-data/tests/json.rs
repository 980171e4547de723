//! JSON in both directions: written text reads back, and malformed text is refused with its place.

use crate::support::{any_type, config, row_of, value_of};
use nlog_data::json::{
    from_json, parse_line, to_json, write_contents_line, write_delta_line, write_error_line, write_value,
};
use nlog_data::{
    Column, Delta, ErrorCode, Role, Row, Schema, Table, TableDelta, Transaction, TransactionError, Type,
    Value, literal,
};
use proptest::prelude::*;

fn table(name: &str, role: Role, columns: &[(&str, Type)]) -> Table {
    let columns =
        columns.iter().map(|(name, ty)| Column { name: (*name).to_string(), ty: ty.clone() }).collect();
    Table { name: name.to_string(), role, columns, key: None, uniques: Vec::new(), doc: String::new() }
}

fn schema() -> Schema {
    Schema::new(vec![
        table("a", Role::Input, &[("n", Type::Int), ("s", Type::String)]),
        table("b", Role::Input, &[("ips", Type::set(Type::Ip)), ("net", Type::Net)]),
        table("m", Role::Input, &[("mac", Type::Mac), ("match", Type::Match), ("actions", Type::Actions)]),
        table("out", Role::Output, &[("x", Type::Int)]),
        table("on", Role::Input, &[]),
    ])
}

fn written(value: &Value) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    String::from_utf8(out).expect("UTF-8")
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn a_value_is_read_back_from_its_json_and_from_its_literal(
        (ty, value) in any_type().prop_flat_map(|ty| (Just(ty.clone()), value_of(&ty)))
    ) {
        let text = written(&value);
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(&json, &to_json(&value));
        prop_assert_eq!(&json.to_string(), &text, "compact as serde_json writes");
        prop_assert_eq!(from_json(&json, &ty), Ok(value.clone()));
        prop_assert!(ty.admits(&value));
        prop_assert_eq!(literal::parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn a_delta_is_a_transaction_of_another_program(
        a in prop::collection::btree_set(row_of(&[Type::Int, Type::String]), 0..4),
        b in prop::collection::btree_set(row_of(&[Type::set(Type::Ip), Type::Net]), 0..4),
        txn in any::<u64>(),
    ) {
        let schema = schema();
        let mut delta = Delta::default();
        let rows = |rows: &std::collections::BTreeSet<Row>| rows.iter().cloned().collect::<Vec<_>>();
        let a_delta = TableDelta { insert: rows(&a), ..TableDelta::default() };
        delta.tables.insert(schema.find("a").expect("a"), a_delta);
        let b_delta = TableDelta { delete: rows(&b), ..TableDelta::default() };
        delta.tables.insert(schema.find("b").expect("b"), b_delta);
        let mut line = Vec::new();
        write_delta_line(&mut line, txn, &delta, &schema);
        prop_assert_eq!(line.pop(), Some(b'\n'));
        let read = parse_line(&line, 1, &schema).expect("a transaction");
        prop_assert_eq!(read.txn, Some(txn));
        prop_assert_eq!(read.transaction.insert.values().flatten().cloned().collect::<Vec<_>>(), rows(&a));
        prop_assert_eq!(read.transaction.delete.values().flatten().cloned().collect::<Vec<_>>(), rows(&b));
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse_line(&bytes, 1, &schema());
    }

    #[test]
    fn no_damaged_line_does_harm(at in 0..GOOD.len(), byte in any::<u8>(), cut in 0..GOOD.len()) {
        let mut line = GOOD.as_bytes().to_vec();
        line[at] = byte;
        let _ = parse_line(&line, 1, &schema());
        let _ = parse_line(&line[..cut], 1, &schema());
    }
}

const GOOD: &str = r#"{"txn":7,"insert":{"a":[[1,"x"],[2,"y"]],"b":[[["10.0.0.1"],"10.0.0.0/8"]]},"delete":{"m":[["02:00:00:00:00:01","reg1=0x1a","drop"]]},"by":"me"}"#;

#[test]
fn a_line_has_a_number_changes_and_an_origin() {
    let schema = schema();
    let line = parse_line(GOOD.as_bytes(), 1, &schema).expect("a transaction");
    assert_eq!(line.txn, Some(7));
    assert_eq!(serde_json::to_string(&line.origin).expect("JSON"), r#"{"by":"me"}"#);
    let a = &line.transaction.insert[&schema.find("a").expect("a")];
    assert_eq!(a, &[vec![Value::Int(1), "x".into()], vec![Value::Int(2), "y".into()]]);
    let empty = parse_line(b" {} ", 1, &schema).expect("an empty transaction");
    assert_eq!((empty.txn, empty.transaction.is_empty()), (None, true));
}

#[test]
fn a_line_with_an_error_is_an_empty_transaction() {
    let line = br#"{"txn":3,"error":{"code":"range","message":"m"},"insert":{"nosuch":[[1]]}}"#;
    let line = parse_line(line, 1, &schema()).expect("a transaction");
    assert_eq!((line.txn, line.transaction), (Some(3), Transaction::default()));
    let line =
        parse_line(br#"{"txn":3,"insert":[],"error":0,"by":"me"}"#, 1, &schema()).expect("a transaction");
    assert_eq!((line.txn, line.transaction), (Some(3), Transaction::default()));
    assert_eq!(line.origin.keys().collect::<Vec<_>>(), ["by", "error"]);
    // The number of a line counts even if the rest is invalid.
    let error = parse_line(br#"{"txn":3,"insert":[]}"#, 1, &schema()).expect_err("no rows");
    assert_eq!((error.txn, error.error.code), (Some(3), ErrorCode::BadJson));
}

#[test]
fn values_in_another_spelling_become_canonical() {
    for (ty, given, canonical) in [
        (Type::Mac, r#""0A:00:00:00:00:FF""#, r#""0a:00:00:00:00:ff""#),
        (Type::Ip, r#""2001:DB8:0:0::1""#, r#""2001:db8::1""#),
        (Type::Net, r#""FE80::/10""#, r#""fe80::/10""#),
        (Type::InterfaceAddress, r#""FD00:0::1/64""#, r#""fd00::1/64""#),
        (Type::PacketFilter, r#""tp_dst=22,nw_proto=6""#, r#""ip_proto=tcp,tp_dst=22""#),
        (Type::Match, r#""reg1=26""#, r#""reg1=0x1a""#),
        (Type::Match, r#""""#, r#""""#),
        (Type::Actions, r#""load:5->NXM_NX_REG0[]""#, r#""set_field:0x5->reg0""#),
        (Type::Actions, r#""""#, r#""drop""#),
        (Type::set(Type::Int), "[3,1,3]", "[1,3]"),
        (Type::list(Type::Int), "[3,1,3]", "[3,1,3]"),
        (Type::String, r#""\u0000\u00e9""#, r#""\u0000é""#),
        (Type::Int, "-9223372036854775808", "-9223372036854775808"),
    ] {
        let json = serde_json::from_str(given).expect("JSON");
        let value = from_json(&json, &ty).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(written(&value), canonical);
    }
}

#[test]
fn values_of_other_types_are_told_apart() {
    for (ty, given, message) in [
        (
            Type::Int,
            "1.0",
            "expected a value of type int, found 1.0: an int is a 64-bit integer without fraction or exponent",
        ),
        (
            Type::Int,
            "1e3",
            "expected a value of type int, found 1000.0: an int is a 64-bit integer without fraction or exponent",
        ),
        (
            Type::Int,
            "9223372036854775808",
            "expected a value of type int, found 9223372036854775808: the largest int is 9223372036854775807",
        ),
        (Type::Int, r#""1""#, r#"expected a value of type int, found "1""#),
        (Type::Int, "null", "expected a value of type int, found null"),
        (Type::Bool, "0", "expected a value of type bool, found 0"),
        (Type::String, "true", "expected a value of type string, found true"),
        (Type::String, "{\"a\":1}", "expected a value of type string, found an object"),
        (Type::Ip, "[]", "expected a value of type ip, found an array"),
        (
            Type::Ip,
            r#""10.0.0.01""#,
            r#"expected a value of type ip, found "10.0.0.01": not an IPv4 or IPv6 address"#,
        ),
        (
            Type::Net,
            r#""10.0.0.1/24""#,
            r#"expected a value of type net, found "10.0.0.1/24": host bits are set; write 10.0.0.0/24"#,
        ),
        (
            Type::InterfaceAddress,
            r#""10.0.0.254""#,
            r#"expected a value of type interface_address, found "10.0.0.254": the length of the prefix is missing; write it as 10.0.0.254/24"#,
        ),
        (
            Type::Mac,
            r#""2:0:0:0:0:1""#,
            r#"expected a value of type mac, found "2:0:0:0:0:1": six pairs of hexadecimal digits, with colons"#,
        ),
        (
            Type::Mac,
            r#""02-00-00-00-00-01""#,
            r#"expected a value of type mac, found "02-00-00-00-00-01": six pairs of hexadecimal digits, with colons"#,
        ),
        (Type::set(Type::Int), r#"[1,["x"],2]"#, "expected a value of type int, found an array"),
    ] {
        let json = serde_json::from_str(given).expect("JSON");
        assert_eq!(from_json(&json, &ty).map_err(|error| error.to_string()), Err(message.to_string()));
    }
    for text in [r#""reg1=1,reg1=2""#, r#""nosuch=1""#] {
        assert!(from_json(&serde_json::from_str(text).expect("JSON"), &Type::Match).is_err());
    }
}

#[track_caller]
fn refused(line: &str, code: ErrorCode, message: &str) {
    let error = parse_line(line.as_bytes(), 4, &schema()).expect_err(line);
    assert_eq!((error.error.code, error.error.message.as_str()), (code, message), "{line}");
}

#[test]
fn lines_of_another_form_are_bad_json_with_their_place() {
    let bad = |line, message| refused(line, ErrorCode::BadJson, message);
    bad("", "line 4, column 1: EOF while parsing a value");
    bad(
        "[]",
        "line 4, column 1: invalid type: sequence, expected a transaction: an object with the members insert and delete",
    );
    bad(r#"{"txn":1"#, "line 4, column 8: EOF while parsing an object");
    bad(r#"{"txn":-1}"#, "line 4, column 10: txn must be a non-negative integer");
    bad(r#"{"insert":{},"insert":{}}"#, r#"line 4, column 25: duplicate member "insert""#);
    bad(r#"{"insert":{"a":[],"a":[]}}"#, r#"line 4, column 25: table "a" occurs twice in insert"#);
    bad(r#"{"insert":{"no":[],"no":[]}}"#, r#"line 4, column 27: table "no" occurs twice in insert"#);
    bad(
        r#"{"note":"é","delete":{"a":5}}"#,
        "line 4, column 27: invalid type: integer `5`, expected an array of rows",
    );
    bad(
        r#"{"delete":{"a":[5]}}"#,
        "line 4, column 17: invalid type: integer `5`, expected a row: an array of values",
    );
    bad(r"{} {}", "line 4, column 4: trailing characters");
    bad(r#"{"insert":{"a":[[1,"\ud800"]]}}"#, "line 4, column 27: unexpected end of hex escape");
}

#[test]
fn hostile_lines_are_refused_without_harm() {
    let deep = format!(r#"{{"insert":{{"a":[[1,{}"#, "[".repeat(1_000_000));
    assert_eq!(parse_line(deep.as_bytes(), 1, &schema()).expect_err("deep").error.code, ErrorCode::BadJson);
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(parse_line(deep.as_bytes(), 1, &schema()).expect_err("deep").error.code, ErrorCode::BadJson);
    let invalid = b"{\"insert\":{\"a\":[[1,\"\xff\"]]}}";
    assert_eq!(parse_line(invalid, 1, &schema()).expect_err("not UTF-8").error.code, ErrorCode::BadJson);
    let long = format!(r#"{{"insert":{{"a":[[1,"{}"]]}}}}"#, "x".repeat(10_000_000));
    assert!(parse_line(long.as_bytes(), 1, &schema()).is_ok());
    let long = format!(r#"{{"insert":{{"a":[["{}"]]}}}}"#, "x".repeat(10_000_000));
    assert!(parse_line(long.as_bytes(), 1, &schema()).expect_err("arity").error.message.len() < 1000);
    let long = format!(r#"{{"insert":{{"a":[["{}",""]]}}}}"#, "é".repeat(1_000_000));
    assert!(parse_line(long.as_bytes(), 1, &schema()).expect_err("type").error.message.len() < 1000);
}

#[test]
fn faults_name_table_row_and_column() {
    refused(r#"{"insert":{"no":[[1]]}}"#, ErrorCode::UnknownTable, r#"unknown table "no""#);
    refused(
        r#"{"insert":{"out":[[1]]}}"#,
        ErrorCode::NotAnInput,
        "table out is derived by rules; only input tables can be changed",
    );
    refused(
        r#"{"insert":{"a":[[1,"x"],[1]]}}"#,
        ErrorCode::Arity,
        "table a: row 2 of insert has 1 value, but the table has 2 columns: n, s",
    );
    refused(
        r#"{"insert":{"on":[[],[true]]}}"#,
        ErrorCode::Arity,
        "table on: row 2 of insert has 1 value, but the table has no columns",
    );
    refused(
        r#"{"delete":{"a":[["x",1,2]]}}"#,
        ErrorCode::Arity,
        "table a: row 1 of delete has 3 values, but the table has 2 columns: n, s",
    );
    refused(
        r#"{"insert":{"a":[[1,5]]}}"#,
        ErrorCode::TypeMismatch,
        "table a: row 1 of insert, column s: expected a value of type string, found 5",
    );
}

#[test]
fn errors_about_a_long_value_are_short_and_say_how_long_it_is() {
    let million = "x".repeat(1 << 20);
    for (line, cut, end) in [
        (format!(r#"{{"insert":{{"{million}":[]}}}}"#), "… (1,048,576 bytes)", "bytes)"),
        (format!(r#"{{"insert":{{"a":[["{million}",""]]}}}}"#), "… (1,048,576 bytes)", "bytes)"),
        (
            format!(r#"{{"insert":"{million}"}}"#),
            "… (",
            ", expected an object with an array of rows for each table",
        ),
        (format!(r#"{{"{million}":1,"{million}":2}}"#), "… (1,048,576 bytes)", "bytes)"),
    ] {
        let message = parse_line(line.as_bytes(), 1, &schema()).expect_err("a fault").error.message;
        assert!(message.len() < 1000 && message.contains(cut) && message.ends_with(end), "{message}");
    }
}

#[test]
fn what_comes_before_a_fault_is_kept_for_faults_of_its_own() {
    let rows = |line: &str| {
        let before = parse_line(line.as_bytes(), 1, &schema()).expect_err(line).before;
        let count =
            |side: &std::collections::BTreeMap<_, Vec<Row>>| side.values().map(Vec::len).sum::<usize>();
        (count(&before.insert), count(&before.delete))
    };
    assert_eq!(rows(r#"{"insert":{"a":[[1,"x"],[2,"y"]],"zz":[]}}"#), (2, 0));
    assert_eq!(rows(r#"{"insert":{"a":[[1,"x"],[2,5],[3,"z"]]},"delete":{"a":[[3,"z"]]}}"#), (1, 1));
    // Inserts come after deletes, and other tables after this one.
    assert_eq!(rows(r#"{"insert":{"a":[[1,"x"]]},"delete":{"a":[[3,"z"],[4]]}}"#), (0, 1));
    assert_eq!(rows(r#"{"insert":{"aa":[],"a":[[1,"x"]]},"delete":{"b":[],"a":[[4]]}}"#), (0, 0));
    assert_eq!(rows("{"), (0, 0));
}

#[test]
fn of_several_faults_the_first_table_and_row_is_reported() {
    let code = |line: &str| parse_line(line.as_bytes(), 1, &schema()).expect_err(line).error.code;
    assert_eq!(code(r#"{"insert":{"out":[],"b":[[1]],"aa":[]}}"#), ErrorCode::UnknownTable);
    assert_eq!(code(r#"{"insert":{"out":[],"b":[[1]]}}"#), ErrorCode::Arity);
    assert_eq!(code(r#"{"insert":{"a":[["x","y"],[1]]}}"#), ErrorCode::TypeMismatch);
    assert_eq!(code(r#"{"insert":{"a":[[1],["x","y"]]}}"#), ErrorCode::Arity);
    // Deletes come first, even if they are last in the line.
    assert_eq!(code(r#"{"insert":{"a":[[1]]},"delete":{"a":[["x","y"]]}}"#), ErrorCode::TypeMismatch);
    // The rest of the line is still read: it must be JSON.
    assert_eq!(code(r#"{"insert":{"a":[[1]]}"#), ErrorCode::BadJson);
    let number = parse_line(br#"{"insert":{"a":[[1]]},"txn":9}"#, 1, &schema()).expect_err("arity").txn;
    assert_eq!(number, Some(9));
}

#[test]
fn output_lines_are_as_the_contract_says() {
    let schema = schema();
    let mut out = Vec::new();
    write_delta_line(&mut out, 1, &Delta::default(), &schema);
    let mut delta = Delta::default();
    let rows = |n: i64| vec![vec![Value::Int(n), Value::from("\"\n")]];
    let a = TableDelta { insert: rows(1), delete: rows(2), ..TableDelta::default() };
    delta
        .tables
        .insert(schema.find("out").expect("out"), TableDelta { delete: vec![vec![3.into()]], ..a.clone() });
    delta.tables.insert(schema.find("a").expect("a"), a);
    delta.tables.insert(schema.find("b").expect("b"), TableDelta::default());
    write_delta_line(&mut out, 2, &delta, &schema);
    write_error_line(&mut out, 3, &TransactionError::new(ErrorCode::KeyConflict, "a \"b\""));
    write_contents_line(&mut out, [("a", rows(1).as_slice()), ("b", &[])]);
    let expected = r#"{"txn":1,"insert":{},"delete":{}}
{"txn":2,"insert":{"a":[[1,"\"\n"]],"out":[[1,"\"\n"]]},"delete":{"a":[[2,"\"\n"]],"out":[[3]]}}
{"txn":3,"error":{"code":"key-conflict","message":"a \"b\""}}
{"a":[[1,"\"\n"]],"b":[]}
"#;
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
}
