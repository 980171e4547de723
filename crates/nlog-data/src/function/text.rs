//! Text: Unicode scalar values count, ASCII letters have cases.

use std::sync::Arc;

use super::Function;
use super::define::entry;
use crate::{Type, Value};

/// The part from one position to another, both counted in characters.
fn substring(text: &str, from: i64, to: i64) -> Option<&str> {
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let start = ends.nth(from)?;
    let end = match to.checked_sub(from)? {
        0 => start,
        count => ends.nth(count - 1)?,
    };
    text.get(start..end)
}

fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("++(a, b) -> text", "One text after the other.")
            .example(r#""weft-", "geneve""#, r#""weft-geneve""#)
            .example(r#""", """#, r#""""#)
            .binary(|a: Arc<str>, b: Arc<str>| [&*a, &*b].concat()),
        entry("length(text) -> count", "How many characters (Unicode scalar values) the text has.")
            .example(r#""größe""#, "5")
            .example(r#""""#, "0")
            .unary(|text: Arc<str>| text.chars().count() as i64),
        entry("lower(text) -> lower", "The text with the letters A to Z in lower case; others stay.")
            .example(r#""HV-Ä1""#, r#""hv-Ä1""#)
            .example(r#""""#, r#""""#)
            .unary(|text: Arc<str>| text.to_ascii_lowercase()),
        entry("upper(text) -> upper", "The text with the letters a to z in upper case; others stay.")
            .example(r#""hv-ä1""#, r#""HV-ä1""#)
            .example(r#""""#, r#""""#)
            .unary(|text: Arc<str>| text.to_ascii_uppercase()),
        entry("starts_with(text, start) -> holds", "Whether the text begins so.")
            .example(r#""weft-geneve", "weft-""#, "true")
            .example(r#""we", "weft-""#, "false")
            .example(r#""we", """#, "true")
            .binary(|text: Arc<str>, start: Arc<str>| text.starts_with(&*start)),
        entry("ends_with(text, end) -> holds", "Whether the text ends so.")
            .example(r#""port.11", ".11""#, "true")
            .example(r#""port.11", ".1""#, "false")
            .binary(|text: Arc<str>, end: Arc<str>| text.ends_with(&*end)),
        entry("contains(text, part) -> holds", "Whether the part occurs in the text.")
            .example(r#""a=b", "=""#, "true")
            .example(r#""ab", "ba""#, "false")
            .binary(|text: Arc<str>, part: Arc<str>| text.contains(&*part)),
        entry(
            "substring(text, from, to) -> part",
            "The characters from position `from` up to, but not with, position `to`, both counted from 0; none unless 0 ≤ from ≤ to ≤ length.",
        )
        .example(r#""größe", 2, 4"#, r#""öß""#)
        .example(r#""abc", 3, 3"#, r#""""#)
        .example(r#""abc", 0, 3"#, r#""abc""#)
        .example(r#""abc", 0, 4"#, "none")
        .example(r#""abc", 2, 1"#, "none")
        .example(r#""abc", -1, 1"#, "none")
        .ternary(|text: Arc<str>, from: i64, to: i64| substring(&text, from, to).map(str::to_string)),
        entry("parse_int(text) -> n", "The integer that the text is in decimal digits; none if it is none of 64 bits.")
            .example(r#""-12""#, "-12")
            .example(r#""012""#, "12")
            .example(r#""+1""#, "none")
            .example(r#""9223372036854775808""#, "none")
            .example(r#""""#, "none")
            .unary(|text: Arc<str>| parse_int(&text)),
        entry("parse_ip(text) -> ip", "The address that the text is; none if it is none.")
            .example(r#""10.0.0.1""#, r#"ip"10.0.0.1""#)
            .example(r#""FE80:0::1""#, r#"ip"fe80::1""#)
            .example(r#""10.0.0""#, "none")
            .unary(|text: Arc<str>| match Type::Ip.parse_text(&text) {
                Ok(Value::Ip(ip)) => Some(ip),
                _ => None,
            }),
        entry("parse_net(text) -> net", "The prefix that the text is; none if it is none, or has host bits.")
            .example(r#""10.0.0.0/24""#, r#"net"10.0.0.0/24""#)
            .example(r#""10.0.0.1/24""#, "none")
            .unary(|text: Arc<str>| match Type::Net.parse_text(&text) {
                Ok(Value::Net(net)) => Some(net),
                _ => None,
            }),
        entry("parse_mac(text) -> mac", "The Ethernet address that the text is; none if it is none.")
            .example(r#""02:00:00:00:00:0A""#, r#"mac"02:00:00:00:00:0a""#)
            .example(r#""2:0:0:0:0:a""#, "none")
            .unary(|text: Arc<str>| match Type::Mac.parse_text(&text) {
                Ok(Value::Mac(mac)) => Some(mac),
                _ => None,
            }),
    ]
}
