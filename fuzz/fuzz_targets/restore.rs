//! The target `restore`: see `fuzz_targets::restore`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::restore(bytes));
