//! The memory that a decoder takes for each byte of its input, for tests and fuzz targets.
//!
//! A process that decodes input from outside must take memory in proportion to that input: a peer that sends a little must not
//! be able to take much. A program that links this crate has an allocator that counts; [`bounded`] runs a decoder and fails when
//! its peak was higher than [`FACTOR`] bytes for each byte of input, beyond what it takes for any input.
//!
//! The count is that of the whole process. `cargo nextest` runs each test in a process of its own; under plain `cargo test`, use
//! `--test-threads 1`.
#![forbid(unsafe_code)]

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most bytes of memory for each byte of input. A JSON value of two bytes (`0,`) takes 32 bytes, and twice as much again
/// while a list of them grows: 48 for each byte. What takes more is a mistake or an attack.
pub const FACTOR: usize = 64;

/// Runs a decoder. Returns its result, and the most bytes that were allocated at a time beyond those allocated before.
pub fn peak<R>(decode: impl FnOnce() -> R) -> (R, usize) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = decode();
    (result, MEMORY.peak_usage().saturating_sub(before))
}

/// Like [`bounded`], without a word, for a fuzz target, which decodes a million inputs.
///
/// # Panics
///
/// As [`bounded`].
pub fn checked<R>(name: &str, input: usize, fixed: usize, decode: impl FnOnce() -> R) -> R {
    let (result, peak) = peak(decode);
    check(name, "while it was read", peak, input, fixed);
    result
}

/// Runs a decoder on `input` bytes. Prints the memory for each byte.
///
/// # Panics
///
/// The decoder took more than [`FACTOR`] bytes for each byte of input and `fixed` bytes, which the caller has a reason for.
pub fn bounded<R>(name: &str, input: usize, fixed: usize, decode: impl FnOnce() -> R) -> R {
    let (result, peak) = peak(decode);
    judge(name, "while it was read", peak, input, fixed);
    result
}

/// Like [`bounded`], but counts the memory that is still held when the decoder has returned.
///
/// # Panics
///
/// As [`bounded`].
pub fn kept<R>(name: &str, input: usize, fixed: usize, decode: impl FnOnce() -> R) -> R {
    let before = MEMORY.current_usage();
    let result = decode();
    judge(name, "afterwards", MEMORY.current_usage().saturating_sub(before), input, fixed);
    result
}

fn judge(name: &str, when: &str, taken: usize, input: usize, fixed: usize) {
    let each = taken as f64 / input.max(1) as f64;
    println!("{name}: {each:.1} bytes of memory for each byte {when} ({taken} for {input})");
    check(name, when, taken, input, fixed);
}

fn check(name: &str, when: &str, taken: usize, input: usize, fixed: usize) {
    assert!(
        taken <= FACTOR * input + fixed,
        "{name}: {taken} bytes of memory {when} for {input} bytes of input; the limit is {FACTOR} for each and {fixed}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_and_not_what_remains() {
        let (length, peak) = peak(|| Vec::<u8>::with_capacity(1 << 20).len());
        assert_eq!(length, 0);
        assert!((1 << 20..2 << 20).contains(&peak), "{peak}");
    }

    #[test]
    #[should_panic = "a greedy decoder: "]
    fn a_decoder_beyond_the_bound_fails() {
        bounded("a greedy decoder", 1000, 0, || vec![0_u8; 65 * 1000]);
    }
}
