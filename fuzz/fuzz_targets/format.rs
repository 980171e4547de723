//! Arbitrary bytes through the formatter.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::program::format(&String::from_utf8_lossy(bytes));
});
