//! Encodings of texts from outside. Weft reads UTF-8 and ignores a byte order mark.

/// The bytes without the byte order mark of UTF-8.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The encoding, as a name for messages, of a Unicode text that is not in UTF-8. It is recognised by its byte order
/// mark, or by the zero bytes of UTF-16's ASCII characters at the start of the text.
pub fn other_than_utf8(bytes: &[u8]) -> Option<&'static str> {
    const ASCII: std::ops::RangeInclusive<u8> = 1..=0x7f;
    match bytes {
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32 (little-endian)"),
        [0, 0, 0xfe, 0xff, ..] => Some("UTF-32 (big-endian)"),
        [0xff, 0xfe, ..] => Some("UTF-16 (little-endian)"),
        [0xfe, 0xff, ..] => Some("UTF-16 (big-endian)"),
        [first, 0, second, 0, ..] if ASCII.contains(first) && ASCII.contains(second) => {
            Some("UTF-16 (little-endian)")
        }
        [0, first, 0, second, ..] if ASCII.contains(first) && ASCII.contains(second) => {
            Some("UTF-16 (big-endian)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_told_apart() {
        let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
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
}
