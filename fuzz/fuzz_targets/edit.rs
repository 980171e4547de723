//! A real program with tokens dropped, doubled, swapped and replaced, as the bytes say: what a slip of the hand makes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = weft_fuzz::edited(bytes);
    weft_fuzz::check(&text);
    weft_fuzz::format(&text);
});
