//! The target `format`: see `fuzz_targets::format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::format(bytes));
