//! Text. Characters are Unicode scalar values, positions count from 0, and only the letters A to Z have case.

use std::sync::Arc;

use super::define::{Argument, Give, entry};
use super::{Failure, Function, Shape, pattern};
use crate::quotation::{grouped, quote_text};
use crate::{InterfaceAddress, Type, Value};

/// A list of `string`, as a result.
struct Texts(Vec<Arc<str>>);

impl Give for Texts {
    fn shape() -> Shape {
        <Vec<Arc<str>> as Argument>::shape()
    }

    fn value(self) -> Value {
        Value::list(self.0.into_iter().map(Value::from))
    }
}

/// An empty separator splits between all characters.
fn split(text: &str, separator: &str) -> Texts {
    if separator.is_empty() {
        let mut buffer = [0; 4];
        return Texts(text.chars().map(|c| Arc::from(&*c.encode_utf8(&mut buffer))).collect());
    }
    Texts(text.split(separator).map(Arc::from).collect())
}

/// The longest text in bytes that a function builds from others, so that rules that double a text do not exhaust
/// memory.
const LONGEST_TEXT: usize = 1 << 24;

/// Refuses to build a longer text.
fn bounded(function: &str, bytes: usize) -> Result<(), Failure> {
    if bytes <= LONGEST_TEXT {
        return Ok(());
    }
    let bytes = grouped(bytes);
    Err(Failure::range(format!("{function}: a text of {bytes} bytes; at most {LONGEST_TEXT} are possible")))
}

fn replace(text: &str, part: &str, by: &str) -> Result<String, Failure> {
    // An empty part has no position.
    if part.is_empty() {
        return Ok(text.to_string());
    }
    // The text grows only if the replacement is longer.
    if by.len() > part.len() {
        let more = text.matches(part).count().saturating_mul(by.len() - part.len());
        bounded("replace", text.len().saturating_add(more))?;
    }
    Ok(text.replace(part, by))
}

/// The most characters that `pad_left` returns, so that a wrong width does not exhaust memory.
const WIDEST: usize = 1 << 16;

fn pad_left(text: &str, width: i64, fill: &str) -> Result<String, Failure> {
    let mut characters = fill.chars();
    let (Some(fill), None) = (characters.next(), characters.next()) else {
        return Err(Failure::range(format!("pad_left: {} is not a single character", quote_text(fill))));
    };
    // A negative width counts as 0.
    let width = usize::try_from(width.max(0)).ok().filter(|width| *width <= WIDEST).ok_or_else(|| {
        Failure::range(format!("pad_left: width {width} exceeds the maximum of {WIDEST} characters"))
    })?;
    let missing = width.saturating_sub(text.chars().count());
    Ok(std::iter::repeat_n(fill, missing).chain(text.chars()).collect())
}

/// The first position of the part, in characters.
fn index_of(text: &str, part: &str) -> Option<i64> {
    let before = text.get(..text.find(part)?)?;
    Some(before.chars().count() as i64)
}

/// The part between two positions, both in characters.
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

fn parse_hex(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if plain { i64::from_str_radix(digits, 16).ok() } else { None }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = whole();
    functions.extend(parts());
    functions.extend(parsers());
    functions
}

fn whole() -> Vec<Function> {
    vec![
        entry("++(a, b) -> text", "The concatenation of two strings.")
            .example(r#""weft-", "geneve""#, r#""weft-geneve""#)
            .example(r#""", """#, r#""""#)
            .binary(|a: Arc<str>, b: Arc<str>| {
                bounded("++", a.len().saturating_add(b.len()))?;
                Ok::<_, Failure>([&*a, &*b].concat())
            }),
        entry("length(text) -> count", "The number of characters (Unicode scalar values) in the string.")
            .example(r#""größe""#, "5")
            .example(r#""""#, "0")
            .unary(|text: Arc<str>| text.chars().count() as i64),
        entry(
            "lower(text) -> lower",
            "The string with the letters A to Z in lower case; other characters \
        are unchanged.",
        )
        .example(r#""HV-Ä1""#, r#""hv-Ä1""#)
        .example(r#""""#, r#""""#)
        .unary(|text: Arc<str>| text.to_ascii_lowercase()),
        entry(
            "upper(text) -> upper",
            "The string with the letters a to z in upper case; other characters \
        are unchanged.",
        )
        .example(r#""hv-ä1""#, r#""HV-ä1""#)
        .example(r#""""#, r#""""#)
        .unary(|text: Arc<str>| text.to_ascii_uppercase()),
        entry(
            "trim(text) -> trimmed",
            "The string without leading and trailing white space (the Unicode property White_Space).",
        )
        .example(r#"" a b\n""#, r#""a b""#)
        .example(r#""\t""#, r#""""#)
        .unary(|text: Arc<str>| text.trim().to_string()),
        entry(
            "pad_left(text, width, fill) -> padded",
            "The string padded on the left with the character `fill` to the width. A string that is already \
            as wide is unchanged. The width is at most 65536.",
        )
        .example(r#""7", 3, "0""#, r#""007""#)
        .example(r#""größe", 6, "·""#, r#""·größe""#)
        .example(r#""1000", 3, "0""#, r#""1000""#)
        .example(r#""7", -1, "0""#, r#""7""#)
        .example(r#""7", 3, """#, "error range")
        .example(r#""7", 3, "ab""#, "error range")
        .example(r#""7", 65537, "0""#, "error range")
        .ternary(|text: Arc<str>, width: i64, fill: Arc<str>| pad_left(&text, width, &fill)),
    ]
}

fn parts() -> Vec<Function> {
    vec![
        entry("starts_with(text, start) -> holds", "True if the string starts with the prefix.")
            .example(r#""weft-geneve", "weft-""#, "true")
            .example(r#""we", "weft-""#, "false")
            .example(r#""we", """#, "true")
            .binary(|text: Arc<str>, start: Arc<str>| text.starts_with(&*start)),
        entry("ends_with(text, end) -> holds", "True if the string ends with the suffix.")
            .example(r#""port.11", ".11""#, "true")
            .example(r#""port.11", ".1""#, "false")
            .binary(|text: Arc<str>, end: Arc<str>| text.ends_with(&*end)),
        entry("contains(text, part) -> holds", "True if the part occurs in the string.")
            .example(r#""a=b", "=""#, "true")
            .example(r#""ab", "ba""#, "false")
            .binary(|text: Arc<str>, part: Arc<str>| text.contains(&*part)),
        pattern::matches(),
        entry(
            "substring(text, from, to) -> part",
            "The characters from position `from` (inclusive) to position `to` (exclusive), starting at 0. \
            No result unless 0 ≤ from ≤ to ≤ length.",
        )
        .example(r#""größe", 2, 4"#, r#""öß""#)
        .example(r#""abc", 3, 3"#, r#""""#)
        .example(r#""abc", 0, 3"#, r#""abc""#)
        .example(r#""abc", 0, 4"#, "none")
        .example(r#""abc", 2, 1"#, "none")
        .example(r#""abc", -1, 1"#, "none")
        .ternary(|text: Arc<str>, from: i64, to: i64| substring(&text, from, to).map(str::to_string)),
        entry(
            "index_of(text, part) -> position",
            "The position of the first occurrence of the part, in characters from 0. No result if it does \
            not occur.",
        )
        .example(r#""größe=1", "=""#, "5")
        .example(r#""aXbX", "X""#, "1")
        .example(r#""ab", """#, "0")
        .example(r#""ab", "ba""#, "none")
        .binary(|text: Arc<str>, part: Arc<str>| index_of(&text, &part)),
        entry(
            "replace(text, part, by) -> replaced",
            "The string with every non-overlapping occurrence of the part, from the start, replaced by \
            `by`. An empty part does not occur.",
        )
        .example(r#""a-b-c", "-", ".""#, r#""a.b.c""#)
        .example(r#""aaa", "aa", "b""#, r#""ba""#)
        .example(r#""abc", "", "-""#, r#""abc""#)
        .example(r#""abc", "b", """#, r#""ac""#)
        .ternary(|text: Arc<str>, part: Arc<str>, by: Arc<str>| replace(&text, &part, &by)),
        entry(
            "split(text, separator) -> parts",
            "The parts of the string between the separators, one more than there are separators. If the \
            separator is empty, the characters.",
        )
        .example(r#""10.0.0.1/24", "/""#, r#"["10.0.0.1", "24"]"#)
        .example(r#"",a,,", ",""#, r#"["", "a", "", ""]"#)
        .example(r#""", ",""#, r#"[""]"#)
        .example(r#""größe", """#, r#"["g", "r", "ö", "ß", "e"]"#)
        .example(r#""", """#, "[]")
        .binary(|text: Arc<str>, separator: Arc<str>| split(&text, &separator)),
        entry("join(parts, separator) -> text", "The parts joined by the separator.")
            .example(r#"["a", "b", "c"], ", ""#, r#""a, b, c""#)
            .example(r#"["a"], ", ""#, r#""a""#)
            .example(r#"[], ", ""#, r#""""#)
            .binary(|parts: Vec<Arc<str>>, separator: Arc<str>| {
                let separators = parts.len().saturating_sub(1).saturating_mul(separator.len());
                let texts: usize = parts.iter().map(|part| part.len()).sum();
                bounded("join", texts.saturating_add(separators))?;
                Ok::<_, Failure>(parts.join(&*separator))
            }),
    ]
}

fn parsers() -> Vec<Function> {
    vec![
        entry(
            "parse_int(text) -> n",
            "The integer written in decimal digits. No result if the string is \
        not a 64-bit integer.",
        )
        .example(r#""-12""#, "-12")
        .example(r#""012""#, "12")
        .example(r#""+1""#, "none")
        .example(r#""9223372036854775808""#, "none")
        .example(r#""""#, "none")
        .unary(|text: Arc<str>| parse_int(&text)),
        entry(
            "parse_hex(text) -> n",
            "The integer written in hexadecimal digits of either case, with or without the prefix 0x. No \
            result if the string is not an integer of 63 bits.",
        )
        .example(r#""0x1A""#, "26")
        .example(r#""00000242ac110002""#, "2485377892354")
        .example(r#""7fffffffffffffff""#, "9223372036854775807")
        .example(r#""8000000000000000""#, "none")
        .example(r#""-1""#, "none")
        .example(r#""0x""#, "none")
        .unary(|text: Arc<str>| parse_hex(&text)),
        entry(
            "parse_ip(text) -> ip",
            "The IP address written in the string. No result if it is not an \
        address.",
        )
        .example(r#""10.0.0.1""#, r#"ip"10.0.0.1""#)
        .example(r#""FE80:0::1""#, r#"ip"fe80::1""#)
        .example(r#""10.0.0""#, "none")
        .unary(|text: Arc<str>| match Type::Ip.parse_text(&text) {
            Ok(Value::Ip(ip)) => Some(ip),
            _ => None,
        }),
        entry(
            "parse_net(text) -> net",
            "The prefix written in the string. No result if it is not a prefix \
        or has host bits.",
        )
        .example(r#""10.0.0.0/24""#, r#"net"10.0.0.0/24""#)
        .example(r#""10.0.0.1/24""#, "none")
        .unary(|text: Arc<str>| match Type::Net.parse_text(&text) {
            Ok(Value::Net(net)) => Some(net),
            _ => None,
        }),
        entry(
            "parse_interface_address(text) -> address",
            "The address of an interface written in the string. No result if it is not an IP address with the \
            length of its prefix.",
        )
        .example(r#""10.0.0.254/24""#, r#"interface_address"10.0.0.254/24""#)
        .example(r#""FD00:0::1/64""#, r#"interface_address"fd00::1/64""#)
        .example(r#""10.0.0.254""#, "none")
        .unary(|text: Arc<str>| text.parse::<InterfaceAddress>().ok()),
        entry(
            "parse_mac(text) -> mac",
            "The Ethernet address written in the string. No result if it is not \
        an Ethernet address.",
        )
        .example(r#""02:00:00:00:00:0A""#, r#"mac"02:00:00:00:00:0a""#)
        .example(r#""2:0:0:0:0:a""#, "none")
        .unary(|text: Arc<str>| match Type::Mac.parse_text(&text) {
            Ok(Value::Mac(mac)) => Some(mac),
            _ => None,
        }),
    ]
}
