//! The target `switch_state`: see `fuzz_targets::switch_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::switch_state(bytes));
