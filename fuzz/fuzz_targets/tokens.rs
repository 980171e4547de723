//! The target `tokens`: see `fuzz_targets::tokens`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::tokens(bytes));
