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
