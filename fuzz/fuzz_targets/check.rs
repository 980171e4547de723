//! The target `check`: see `fuzz_targets::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::check(bytes));
