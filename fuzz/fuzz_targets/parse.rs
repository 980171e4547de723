//! Arbitrary bytes through the parser: the tree holds every character of the text, and errors lie inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let parsed = nlog::syntax::parse(&text);
    assert_eq!(parsed.root().text().to_string(), *text, "the tree is not the text");
    for error in &parsed.errors {
        assert!(text.get(error.range.clone()).is_some(), "an error outside of the text: {error:?}");
        assert!(!error.message.is_empty() && !error.help.is_empty(), "an error without words: {error:?}");
    }
});
