//! The target `openflow`: see `fuzz_targets::openflow`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::openflow(bytes));
