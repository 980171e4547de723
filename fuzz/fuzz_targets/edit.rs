//! The target `edit`: see `fuzz_targets::edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::edit(bytes));
