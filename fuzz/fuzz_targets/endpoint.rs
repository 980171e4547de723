//! The target `endpoint`: see `fuzz_targets::endpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::endpoint(bytes));
