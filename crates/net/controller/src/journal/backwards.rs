//! The lines of a journal, the last one first: what changed lately is what is asked for.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memrchr;

/// The bytes that are read at a time. A longer line is read in parts that double.
const BLOCK: u64 = 1 << 20;

/// Reads lines from the end of a file to its begin.
pub(crate) struct Backwards {
    file: File,
    /// What precedes `text` in the file has this many bytes.
    begin: u64,
    /// What was read and is not taken yet.
    text: Vec<u8>,
    /// Whether the first line was taken.
    is_over: bool,
    block: u64,
}

impl Backwards {
    /// Begins at the present end of a file. What is appended later is not read, and neither is a last line without an end.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::with_block(path, BLOCK)
    }

    fn with_block(path: &Path, block: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let begin = file.metadata()?.len();
        let mut lines = Backwards { file, begin, text: Vec::new(), is_over: false, block };
        // The last line may be one that is being written.
        drop(lines.part()?);
        Ok(lines)
    }

    /// The line before those that were taken, without its end; `None` at the begin of the file.
    pub(crate) fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_over { Ok(None) } else { self.part().map(Some) }
    }

    /// Whether the first line was taken.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What follows the last line feed of the rest; all of it if there is none. The line feed goes too.
    fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = self.text.len();
        loop {
            if let Some(at) = memrchr(b'\n', &self.text[..searched]) {
                let part = self.text.split_off(at + 1);
                self.text.truncate(at);
                return Ok(part);
            }
            if self.begin == 0 {
                self.is_over = true;
                return Ok(std::mem::take(&mut self.text));
            }
            searched = self.read_more()?;
        }
    }

    /// Reads what precedes the text. Returns its length.
    fn read_more(&mut self) -> io::Result<usize> {
        let count = self.block.max(self.text.len() as u64).min(self.begin);
        self.begin -= count;
        self.file.seek(SeekFrom::Start(self.begin))?;
        let mut more = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
        self.file.read_exact(&mut more)?;
        let length = more.len();
        more.append(&mut self.text);
        self.text = more;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_lines_are_those_of_the_file_in_reverse() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        for text in ["", "\n", "a\n", "a\nbb\nccc\n", "a\nbb\nhalf", "\n\nlonger than a block\nx\n"] {
            fs::write(&path, text).unwrap();
            for block in [1, 2, 3, 100] {
                let mut lines = Backwards::with_block(&path, block).unwrap();
                let mut found = Vec::new();
                while let Some(line) = lines.line().unwrap() {
                    found.push(String::from_utf8(line).unwrap());
                }
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                let wanted: Vec<&str> =
                    if text.contains('\n') { whole.split('\n').rev().collect() } else { Vec::new() };
                assert_eq!(found, wanted, "{text:?} by {block}");
            }
        }
    }
}
