//! A real program after random edits of its tokens, such as typing mistakes make.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = weft_fuzz::program::edited(bytes);
    weft_fuzz::program::check(&text);
    weft_fuzz::program::format(&text);
});
