//! The last lines of the log, in memory, for somebody who cannot read the log itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most lines, and the most bytes of them.
const LINES_MAX: usize = 4000;
const BYTES_MAX: usize = 1 << 20;
/// The most bytes of a line.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The last lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastLines(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Box<str>>,
    bytes: usize,
}

impl LastLines {
    /// Adds a text of one line or several, and forgets the oldest lines that are too many.
    pub(crate) fn add(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut kept = self.lines();
        for line in text.lines() {
            let line = without_colours(&line[..line.floor_char_boundary(LINE_BYTES_MAX)]);
            kept.bytes += line.len();
            kept.lines.push_back(line.into());
        }
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
    }

    /// The lines, the oldest first.
    pub(crate) fn read(&self) -> Vec<String> {
        self.lines().lines.iter().map(ToString::to_string).collect()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line without terminal colours (`ESC [ … m`).
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        let is_colour = end.is_some_and(|end| part[end..].starts_with('m'));
        text += match end {
            Some(end) if is_colour => &part[end + 1..],
            _ => part,
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_stay_within_both_limits() {
        let last = LastLines::default();
        for number in 0..LINES_MAX + 10 {
            last.add(format!("line {number}\n").as_bytes());
        }
        let lines = last.read();
        assert_eq!((lines.len(), lines[0].as_str()), (LINES_MAX, "line 10"));
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        for _ in 0..2 * BYTES_MAX / LINE_BYTES_MAX {
            last.add(long.as_bytes());
        }
        let lines = last.read();
        assert_eq!(lines.len(), BYTES_MAX / LINE_BYTES_MAX);
        assert!(lines.iter().all(|line| line.len() == LINE_BYTES_MAX));
        assert_eq!(last.lines().bytes, BYTES_MAX);
    }

    #[test]
    fn colours_and_bytes_that_are_no_text_are_no_obstacle() {
        let last = LastLines::default();
        last.add(b"\x1b[2m2026\x1b[0m \x1b[33m WARN\x1b[0m \x1b[1;3mweft\x1b[0m: \xff \x1b[2J\n\n");
        assert_eq!(last.read(), ["2026  WARN weft: \u{fffd} 2J", ""]);
    }
}
