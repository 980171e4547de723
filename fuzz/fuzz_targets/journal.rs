//! The target `journal`: see `fuzz_targets::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::journal(bytes));
