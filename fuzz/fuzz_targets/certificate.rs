//! The target `certificate`: see `fuzz_targets::certificate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::certificate(bytes));
