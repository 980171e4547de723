//! The target `literal`: see `fuzz_targets::literal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::literal(bytes));
