//! Open vSwitch's hash functions, of a build without SSE 4.2 as distributions ship it (`lib/hash.h`).
//!
//! Switches that are built for newer processors hash otherwise, and so give a flow to another bucket.

/// Adds a word to a hash (`mhash_add`).
fn add(hash: u32, word: u32) -> u32 {
    let mixed = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// Ends the hash of this many bytes (`hash_finish`).
fn finish(hash: u32, bytes: u32) -> u32 {
    let mut hash = hash ^ bytes;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The hash of a word (`hash_int`).
pub(crate) fn of_word(word: u32, basis: u32) -> u32 {
    finish(add(add(word, 0), basis), 8)
}

/// The hash of a double word (`hash_uint64`).
pub(crate) fn of_double_word(value: u64) -> u32 {
    finish(add(add(0, value as u32), (value >> 32) as u32), 8)
}

/// The hash of bytes (`hash_bytes`).
pub(crate) fn of_bytes(bytes: &[u8], basis: u32) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let hash = bytes.chunks(4).fold(basis, |hash, bytes| add(hash, word(bytes)));
    finish(hash, bytes.len() as u32)
}
