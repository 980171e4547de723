//! Texts in other encodings than UTF-8, and marks of byte order.

use nlog_data::encoding::{other_than_utf8, without_mark};

#[test]
fn encodings_are_told_apart() {
    let utf16 =
        |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(bytes).collect() };
    for text in ["{}", "\u{feff}{}", "\u{feff}é"] {
        assert_eq!(other_than_utf8(&utf16(text, u16::to_le_bytes)), Some("UTF-16 (little-endian)"));
        assert_eq!(other_than_utf8(&utf16(text, u16::to_be_bytes)), Some("UTF-16 (big-endian)"));
    }
    assert_eq!(other_than_utf8(b"\xff\xfe\0\0{\0\0\0"), Some("UTF-32 (little-endian)"));
    assert_eq!(other_than_utf8(b"\0\0\xfe\xff\0\0\0{"), Some("UTF-32 (big-endian)"));
    for text in ["", "{", "{}", "é", "\u{feff}{}", "\0\0\0\0"] {
        assert_eq!(other_than_utf8(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn a_mark_is_dropped_once() {
    assert_eq!(without_mark("\u{feff}{}".as_bytes()), b"{}");
    assert_eq!(without_mark("\u{feff}\u{feff}".as_bytes()), "\u{feff}".as_bytes());
    assert_eq!(without_mark(b"{}"), b"{}");
}
