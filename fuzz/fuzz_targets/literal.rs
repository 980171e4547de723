//! Literals, matches, actions and addresses as text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::data::literal(&String::from_utf8_lossy(bytes));
});
