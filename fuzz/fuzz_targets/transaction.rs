//! The target `transaction`: see `fuzz_targets::transaction`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::transaction(bytes));
