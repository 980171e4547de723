//! The target `http`: see `fuzz_targets::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::http(bytes));
