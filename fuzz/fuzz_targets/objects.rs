//! The target `objects`: see `fuzz_targets::objects`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::objects(bytes));
