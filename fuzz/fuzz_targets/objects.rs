//! Network objects.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::objects::objects(&String::from_utf8_lossy(bytes));
});
