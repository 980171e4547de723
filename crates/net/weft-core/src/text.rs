//! Texts of clients: which are stored.

pub use nlog_data::quotation::shown;
use nlog_data::quotation::{cut, is_odd};

/// The longest name that a client gives itself, in bytes. Each transaction stores it.
const BY_BYTES_MAX: usize = 255;

/// The name that a client gives itself, which is stored with each of its transactions: a line of at most 255 bytes. The error says why it is
/// not.
pub fn requester(by: String) -> Result<String, String> {
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

/// The longest name of a document, in bytes: that of a path.
const NAME_BYTES_MAX: usize = 4096;

/// Checks the names that a client gives its documents: faults and logs repeat them. The error says why one is refused.
pub fn document_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    for name in names {
        if name.len() > NAME_BYTES_MAX {
            let length = name.len();
            return Err(format!(
                "the name of a document is {length} bytes long; name it in at most {NAME_BYTES_MAX} bytes"
            ));
        }
        if let Some(odd) = name.chars().find(|c| is_odd(*c)) {
            return Err(format!(
                "the name of the document `{}` contains the character {odd:?}; name it in a line of printable text",
                shown(&cut(name))
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

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
    fn d17_the_name_of_a_document_is_a_line() {
        assert_eq!(document_names(["net.yaml", "/a b/é.json", "standard input", ""]), Ok(()));
        assert!(document_names(["x".repeat(4097).as_str()]).unwrap_err().contains("4097 bytes long"));
        for odd in ["a\nb", "a\u{1b}[31m", "\u{9b}", "\u{202e}a"] {
            let error = document_names(["net.yaml", odd]).unwrap_err();
            assert!(error.contains("contains the character") && !error.contains(odd), "{error}");
        }
    }

    #[test]
    fn d29_a_text_of_a_switch_stays_in_its_line() {
        assert_eq!(shown("x\nhv2: in sync\u{1b}[31m"), "x\\nhv2: in sync\\u{1b}[31m");
        assert_eq!(shown("a\u{202e}b\u{2028}\u{85}"), "a\\u{202e}b\\u{2028}\\u{85}");
        assert!(matches!(shown("vNIC é is down"), Cow::Borrowed(_)));
    }
}
