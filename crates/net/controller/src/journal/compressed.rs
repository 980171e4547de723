//! Files with records, as text or compressed by Zstandard (RFC 8878).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The first bytes of a compressed file (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The bytes that are read at a time.
const BUFFER: usize = 1 << 18;
/// The memory that a decompressor may take for what it refers back to, as a power of two: what `zstd --long` makes and no more.
const WINDOW: u32 = 27;
/// The level of compression: the one that costs less time than the text itself.
const LEVEL: i32 = 3;

/// Opens a file, and decompresses it if it is compressed.
///
/// # Errors
/// It cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
    if !file.fill_buf()?.starts_with(&MAGIC) {
        return Ok(Box::new(file));
    }
    let mut decoder = zstd::Decoder::with_buffer(file)?;
    decoder.window_log_max(WINDOW)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
}

/// Compresses a text, with a checksum of its own.
pub(crate) fn compress(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut &*text, &mut encoder)?;
    encoder.finish()
}
