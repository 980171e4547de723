//! Quotations in messages.

use nlog_data::Value;
use nlog_data::quotation::{LONGEST, cut, grouped, names, quote, quote_row, quote_text};

#[test]
fn a_short_quotation_is_whole() {
    assert_eq!(cut("a"), "a");
    assert_eq!(cut(&"é".repeat(200)), "é".repeat(200));
    assert_eq!(quote_text("a\"b"), r#""a\"b""#);
    assert_eq!(quote_row(&[Value::Int(1), Value::from("x")]), r#"[1,"x"]"#);
    assert_eq!(names(["a", "b"].iter()), "a, b");
}

#[test]
fn a_long_quotation_ends_with_its_length() {
    let million = "x".repeat(1 << 20);
    let start = "x".repeat(LONGEST);
    assert_eq!(cut(&million), format!("{start}… (1,048,576 bytes)"));
    assert_eq!(quote_text(&million), format!("\"{start}… (1,048,576 bytes)"));
    assert_eq!(quote(&Value::from(million.as_str())), format!("\"{start}… (1,048,576 bytes)"));
    // The brackets and quotes count, since they are part of a row's JSON.
    let row = quote_row(&[Value::from(million.as_str())]);
    assert!(row.starts_with("[\"xx") && row.ends_with("x… (1,048,580 bytes)"), "{row}");
    assert_eq!(names((0..100_000).map(|n| n.to_string())).split(" and ").nth(1), Some("99,980 more"));
}

#[test]
fn no_character_is_cut_in_two() {
    let text = format!("x{}", "é".repeat(LONGEST));
    assert_eq!(cut(&text), format!("x{}… (801 bytes)", "é".repeat(LONGEST / 2 - 1)));
    assert_eq!(quote_text(&text), format!("\"x{}… (801 bytes)", "é".repeat(LONGEST / 2 - 1)));
}

#[test]
fn thousands_have_commas() {
    let grouped: Vec<String> = [0, 999, 1000, 12_345_678].map(grouped).into();
    assert_eq!(grouped, ["0", "999", "1,000", "12,345,678"]);
}
