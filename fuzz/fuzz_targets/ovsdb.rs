//! The target `ovsdb`: see `fuzz_targets::ovsdb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::ovsdb(bytes));
