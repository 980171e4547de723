//! The target `saved_state`: see `fuzz_targets::saved_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::saved_state(bytes));
