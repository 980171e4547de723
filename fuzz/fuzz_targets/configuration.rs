//! The target `configuration`: see `fuzz_targets::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::configuration(bytes));
