//! The target `message`: see `fuzz_targets::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::message(bytes));
