//! Arbitrary bytes through the checker: every diagnostic can be rendered.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::program::check(&String::from_utf8_lossy(bytes));
});
