//! The target `merge`: see `fuzz_targets::merge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::merge(bytes));
