//! Quotations in messages: values, rows, texts and lists of names, truncated if they are long.
//!
//! A message quotes the data that it is about, so that people can find it. A quotation of a megabyte would bury the
//! message and fill the logs. So a long quotation ends after its first [`LONGEST`] bytes with `…` and its length.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use crate::Value;
use crate::json::{write_row, write_text, write_value};

/// The longest quotation in a message, in bytes.
pub const LONGEST: usize = 400;

/// The most names that a message lists.
const MOST_NAMES: usize = 20;

/// Whether a character changes how a terminal shows the others: control characters, ends of lines, and directions of writing (CWE-150).
pub fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of a client or of a switch, as a person may read it in a terminal or a log: one line, which cannot look like several or hide a part.
/// Odd characters are escaped: `x\nhv2: in sync`. JSON has escapes of its own and needs none of these.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, is_odd)
}

/// A whole answer, as a person may read it in a terminal: of its odd characters only the ends of its lines stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_odd(c))
}

fn escaped(text: &str, is_odd: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            // Writing to a text cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The text itself, or its beginning if it is long: `reg0=1,reg1=1… (1,048,576 bytes)`.
pub fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let start = &text[..text.floor_char_boundary(LONGEST)];
    Cow::Owned(format!("{start}… ({} bytes)", grouped(text.len())))
}

/// The text itself, or its first bytes and `…` if it has more than `most`.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(most)]))
}

/// The text as JSON, or its beginning if it is long: `"aaa… (1,048,576 bytes)`. The length is that of the text.
pub fn quote_text(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(LONGEST)];
    let mut json = Vec::new();
    write_text(&mut json, start);
    let mut json = String::from_utf8_lossy(&json).into_owned();
    if start.len() < text.len() {
        // Drop the closing quote.
        json.pop();
        json.push_str(&format!("… ({} bytes)", grouped(text.len())));
    }
    json
}

/// A value as JSON, or the beginning of the JSON if it is long.
pub fn quote(value: &Value) -> String {
    if let Value::String(text) = value {
        return quote_text(text);
    }
    let mut json = Vec::new();
    write_value(&mut json, value);
    cut(&String::from_utf8_lossy(&json)).into_owned()
}

/// A row as JSON, or the beginning of the JSON if it is long.
pub fn quote_row(row: &[Value]) -> String {
    let mut json = Vec::new();
    write_row(&mut json, row);
    cut(&String::from_utf8_lossy(&json)).into_owned()
}

/// Names separated by commas: `a, b, c`. A long list ends with the number of omitted names.
pub fn names(names: impl ExactSizeIterator<Item: Display>) -> String {
    let count = names.len();
    let mut list = String::new();
    for (at, name) in names.take(MOST_NAMES).enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        list.push_str(comma);
        list.push_str(&cut(&name.to_string()));
    }
    if count > MOST_NAMES {
        list.push_str(&format!(" and {} more", grouped(count - MOST_NAMES)));
    }
    list
}

/// A number with a comma between thousands: `1,048,576`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
