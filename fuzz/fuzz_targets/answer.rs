//! The target `answer`: see `fuzz_targets::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::answer(bytes));
