//! JSON values one after another on a byte stream, without separators (RFC 7047, section 4.1).
//!
//! Invariant: a byte is looked at once by the scanner that finds where a value ends, however the stream is cut
//! into reads, so a snapshot of many megabytes costs linear time. Only a whole value goes to the JSON parser.

use serde_json::Value;

/// The default limit on one message, in bytes. A snapshot of a database is one message.
pub const MESSAGE_SIZE_MAX: usize = 64 << 20;

/// Nesting beyond this is refused; OVSDB's own messages stay below 12, and the JSON parser's limit is 128.
const DEPTH_MAX: usize = 100;

/// Why a byte stream is not a sequence of JSON objects. `position` counts the stream's bytes from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// Not JSON, or not an object.
    #[error("malformed JSON at byte {position} of the stream: {problem}")]
    Malformed {
        /// Of the offending byte.
        position: u64,
        /// What the parser says.
        problem: String,
    },
    /// The message that starts at `position` is over the limit.
    #[error("the message that starts at byte {position} of the stream is larger than {limit} bytes")]
    TooLarge {
        /// Of the message's first byte.
        position: u64,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Cuts a byte stream into JSON objects: [`feed`](Decoder::feed) it what was read, take
/// [`next_message`](Decoder::next_message) until it has none.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Start of the unfinished message in `buffer`.
    start: usize,
    /// How far the scanner is in `buffer`.
    scanned: usize,
    /// The stream's position of `buffer[0]`.
    base: u64,
    /// The open brackets of the message, by the byte that must close each.
    open: Vec<u8>,
    string: StringState,
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringState {
    Outside,
    Inside,
    Escaped,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new(MESSAGE_SIZE_MAX)
    }
}

impl Decoder {
    /// A decoder that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            base: 0,
            open: Vec::new(),
            string: StringState::Outside,
            limit,
        }
    }

    /// Appends bytes read from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.base += self.start as u64;
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether the stream ends inside a message, were it to end here.
    pub fn is_mid_message(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next whole message, or `None` until more is fed. After an error the stream cannot be used any more.
    pub fn next_message(&mut self) -> Result<Option<Value>, FramingError> {
        while self.scanned < self.buffer.len() {
            let byte = self.buffer[self.scanned];
            if self.open.is_empty() && byte.is_ascii_whitespace() {
                self.scanned += 1;
                self.start = self.scanned;
                continue;
            }
            let ended = self.scan(byte)?;
            self.scanned += 1;
            if self.scanned - self.start > self.limit {
                return Err(FramingError::TooLarge {
                    position: self.base + self.start as u64,
                    limit: self.limit,
                });
            }
            if ended {
                return self.parse().map(Some);
            }
        }
        Ok(None)
    }

    /// Looks at one byte; true if it ends the message. What this lets through the JSON parser may still refuse,
    /// but a stream that can never become JSON should not be waited for.
    fn scan(&mut self, byte: u8) -> Result<bool, FramingError> {
        match self.string {
            StringState::Escaped => self.string = StringState::Inside,
            StringState::Inside => match byte {
                b'\\' => self.string = StringState::Escaped,
                b'"' => self.string = StringState::Outside,
                _ => {}
            },
            StringState::Outside => match byte {
                b'{' => self.open_bracket(b'}')?,
                _ if self.open.is_empty() => return Err(self.malformed("a message must start with {")),
                b'[' => self.open_bracket(b']')?,
                b'}' | b']' if self.open.pop() == Some(byte) => return Ok(self.open.is_empty()),
                b'}' | b']' => return Err(self.malformed("a closing bracket does not match")),
                b'"' => self.string = StringState::Inside,
                b',' | b':' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E' => {}
                // The letters of true, false, null and of an exponent.
                b't' | b'r' | b'u' | b'e' | b'f' | b'a' | b'l' | b's' | b'n' => {}
                _ if byte.is_ascii_whitespace() => {}
                _ => return Err(self.malformed("this byte cannot stand outside a string")),
            },
        }
        Ok(false)
    }

    fn open_bracket(&mut self, closing: u8) -> Result<(), FramingError> {
        if self.open.len() == DEPTH_MAX {
            return Err(self.malformed("nested too deeply"));
        }
        self.open.push(closing);
        Ok(())
    }

    fn parse(&mut self) -> Result<Value, FramingError> {
        let message = &self.buffer[self.start..self.scanned];
        let value = serde_json::from_slice(message).map_err(|error| {
            let offset = byte_offset(message, error.line(), error.column());
            FramingError::Malformed {
                position: self.base + (self.start + offset) as u64,
                problem: error.to_string(),
            }
        })?;
        self.start = self.scanned;
        Ok(value)
    }

    fn malformed(&self, problem: &str) -> FramingError {
        FramingError::Malformed { position: self.base + self.scanned as u64, problem: problem.to_owned() }
    }
}

/// From the parser's line and column (both from 1, columns in bytes) to an offset.
fn byte_offset(message: &[u8], line: usize, column: usize) -> usize {
    let line_start = message
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .nth(line.wrapping_sub(2))
        .unwrap_or(0);
    (line_start + column.saturating_sub(1)).min(message.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn all(decoder: &mut Decoder) -> Result<Vec<Value>, FramingError> {
        let mut values = Vec::new();
        while let Some(value) = decoder.next_message()? {
            values.push(value);
        }
        Ok(values)
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_messages() {
        let messages = [
            json!({"id": 1, "result": ["a\\", "}{\"", "\u{1f600}"], "error": null}),
            json!({}),
            json!({"x": [[], {"y": -1.5e3}]}),
        ];
        let mut stream = Vec::new();
        for message in &messages {
            stream.extend(serde_json::to_vec(message).expect("serialises"));
        }
        stream.extend(b" \n\t{}\n");
        let expected: Vec<_> = messages.iter().cloned().chain([json!({})]).collect();
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::default();
            decoder.feed(&stream[..cut]);
            let mut values = all(&mut decoder).expect("well-formed");
            decoder.feed(&stream[cut..]);
            values.extend(all(&mut decoder).expect("well-formed"));
            assert_eq!(values, expected, "cut at {cut}");
        }
        let mut decoder = Decoder::default();
        let mut values = Vec::new();
        for byte in &stream {
            decoder.feed(&[*byte]);
            values.extend(all(&mut decoder).expect("well-formed"));
        }
        assert_eq!(values, expected);
        assert!(!decoder.is_mid_message());
    }

    #[test]
    fn garbage_is_refused_at_its_byte() {
        for (stream, position) in [
            (&b"hello"[..], 0),
            (b"{}{}nonsense", 4),
            (b"{} [1]", 3),
            (b"{\"a\":1}{\"b\":?}", 12),
            (b"{\"a\":[1}", 7),
            (b"{}}", 2),
            (b"{}{\"a\" 1}", 7),
            (b"{}\n{\"a\":\n1,\n,}", 12),
            (b"{\"a\":tru}", 8),
            (b"{\"a\":\"\xff\xfe\"}", 6),
            (b"\x16\x03\x01\x00", 0),
        ] {
            // The position must not depend on how the stream is cut.
            for cut in 0..stream.len() {
                let mut decoder = Decoder::default();
                decoder.feed(&stream[..cut]);
                let error = all(&mut decoder).and_then(|_| {
                    decoder.feed(&stream[cut..]);
                    all(&mut decoder)
                });
                match error {
                    Err(FramingError::Malformed { position: at, .. }) => {
                        assert_eq!(at, position, "{}", String::from_utf8_lossy(stream));
                    }
                    other => panic!("{}: {other:?}", String::from_utf8_lossy(stream)),
                }
            }
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_is_whole() {
        let mut decoder = Decoder::new(8);
        decoder.feed(b"{\"a\":12}{\"a\":123");
        assert_eq!(decoder.next_message(), Ok(Some(json!({"a": 12}))));
        assert_eq!(decoder.next_message(), Ok(None));
        decoder.feed(b"4");
        assert_eq!(decoder.next_message(), Err(FramingError::TooLarge { position: 8, limit: 8 }));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let mut decoder = Decoder::default();
        decoder.feed(b"{\"a\":");
        decoder.feed(&[b'['; 1000]);
        assert!(matches!(decoder.next_message(), Err(FramingError::Malformed { position: 104, .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_end_in_messages_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new(64);
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_message() {}
        }
    }
}
