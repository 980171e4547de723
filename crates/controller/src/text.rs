//! Texts of clients and of switches: which are stored, and how a person reads them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest name that a client gives itself, in bytes. Each transaction stores it.
const BY_BYTES_MAX: usize = 255;

/// Whether a character changes how a terminal shows the others: control characters, ends of lines, and directions of writing (CWE-150).
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of a client or of a switch, as a person may read it in a terminal or a log: one line, which cannot look like several or hide a part.
/// Odd characters are escaped: `x\nhv2: in sync`. JSON has escapes of its own and needs none of these.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_odd) {
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

/// The name that a client gives itself, which is stored with each of its transactions: a line of at most 255 bytes. The error says why it is
/// not.
pub(crate) fn requester(by: String) -> Result<String, String> {
    if by.len() > BY_BYTES_MAX {
        return Err(format!(
            "`by` is {} bytes long; name the client in at most {BY_BYTES_MAX} bytes",
            by.len()
        ));
    }
    match by.chars().find(|c| is_odd(*c)) {
        Some(odd) => {
            Err(format!("`by` contains the character {odd:?}; name the client in a line of printable text"))
        }
        None if by.is_empty() => Ok("api".to_owned()),
        None => Ok(by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d17_the_name_of_a_client_is_a_short_line() {
        assert_eq!(requester(String::new()).as_deref(), Ok("api"));
        assert_eq!(requester("é".repeat(127)), Ok("é".repeat(127)));
        assert!(requester("x".repeat(256)).unwrap_err().contains("256 bytes long"));
        for odd in ["a\nb", "a\u{1b}[31m", "\u{7f}", "\u{9b}", "\u{202e}a"] {
            assert!(requester(odd.to_owned()).unwrap_err().contains("contains the character"), "{odd:?}");
        }
    }

    #[test]
    fn d29_a_text_of_a_switch_stays_in_its_line() {
        assert_eq!(shown("x\nhv2: in sync\u{1b}[31m"), "x\\nhv2: in sync\\u{1b}[31m");
        assert_eq!(shown("a\u{202e}b\u{2028}\u{85}"), "a\\u{202e}b\\u{2028}\\u{85}");
        assert!(matches!(shown("vNIC é is down"), Cow::Borrowed(_)));
    }
}
