//! The target `frame`: see `fuzz_targets::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::frame(bytes));
