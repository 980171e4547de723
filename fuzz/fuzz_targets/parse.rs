//! The target `parse`: see `fuzz_targets::parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::parse(bytes));
