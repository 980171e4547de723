//! The target `snapshot`: see `fuzz_targets::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::snapshot(bytes));
