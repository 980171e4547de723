//! The target `capture`: see `fuzz_targets::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::capture(bytes));
