//! Random networks, histories and frames: what comes out of the flow tables of all hosts is what the model says.

use conformance::{Size, check, program};

/// Histories of an ordinary run; `WEFT_TEST_CASES` says how many a longer one has.
const HISTORIES: u64 = 1_000;

#[test]
fn the_rules_do_what_the_model_says() {
    let begun = std::time::Instant::now();
    match check(&program::rules(), test_random::seeds(HISTORIES), Size::default()) {
        Ok(count) => eprintln!("{count:?} in {:?}", begun.elapsed()),
        Err(failure) => panic!("{failure}"),
    }
}
