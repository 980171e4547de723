//! Values as text.

use nlog_data::Value;
use nlog_data::literal::{parse, parse_list};

#[test]
fn what_a_value_prints_is_read_back() {
    for text in [
        "12",
        "-9223372036854775808",
        r#""a \"b\" \\ \n \u{1b}é""#,
        "true",
        r#"ip"::1""#,
        r#"net"10.0.0.0/24""#,
        r#"interface_address"10.0.0.254/24""#,
        r#"interface_address"10.0.0.0/24""#,
        r#"mac"02:00:00:00:00:01""#,
        r#"match"reg1=0x1a""#,
        r#"actions"output:3""#,
        r#"packet_filter"ip_proto=tcp,tp_dst=22""#,
        "{1, 2}",
        r#"[["b"], [], ["a", "b"]]"#,
    ] {
        assert_eq!(parse(text).map(|value| value.to_string()), Ok(text.to_string()));
    }
}

#[test]
fn other_spellings_mean_the_same() {
    assert_eq!(parse("0x1F"), Ok(Value::Int(31)));
    assert_eq!(parse("{2, 1, 2,}").map(|value| value.to_string()), Ok("{1, 2}".to_string()));
    assert_eq!(parse_list(" 1 , \"a,b\" ").map(|values| values.len()), Ok(2));
    assert_eq!(parse_list(" "), Ok(vec![]));
}

#[test]
fn faults_name_their_place() {
    for (text, at) in [
        ("", 0),
        ("1 2", 2),
        ("9223372036854775808", 0),
        ("--1", 0),
        ("0x", 0),
        ("\"a", 0),
        (r#""a\x""#, 2),
        (r#""\u{d800}""#, 1),
        (r#""\u{+1}""#, 1),
        ("[1 2]", 3),
        ("[,]", 1),
        ("ip \"::1\"", 2),
        ("net\"10.0.0.1/24\"", 0),
        ("interface_address\"10.0.0.1\"", 0),
        ("[1", 2),
    ] {
        assert_eq!(parse(text).map_err(|error| error.at), Err(at), "{text}");
    }
    assert!(parse(&"[".repeat(100_000)).is_err());
}
