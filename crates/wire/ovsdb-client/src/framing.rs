//! The JSON codec: JSON objects back to back on a byte stream, without separators (RFC 7047, section 4.1).
//!
//! Invariant: the scanner that finds the end of a message visits each byte once, no matter how the stream is split
//! into reads, so a snapshot of many megabytes takes linear time. The JSON parser sees complete messages only. A client keeps
//! a message as text ([`JsonCodec::next_text`]), because a tree of its values takes many times its length.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use peer_connection::ConnectionError;
use serde_json::Value;
use tokio_util::codec::{Decoder, Encoder};

/// The default limit on one message, in bytes. A snapshot of a database is one message: that of a host with 20,000 interfaces
/// takes 20 MB.
pub(crate) const MESSAGE_SIZE_MAX: usize = 32 << 20;

/// The deepest nesting accepted. OVSDB's own messages stay below 12, and the JSON parser's limit is 128.
const DEPTH_MAX: usize = 100;

/// The reason why a byte stream is not a sequence of JSON objects. `position` counts bytes of the stream from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The bytes are not JSON, or not a JSON object.
    #[error("malformed JSON at byte {position} of the stream: {problem}")]
    Malformed {
        /// The position of the offending byte.
        position: u64,
        /// The parser's explanation.
        problem: String,
    },
    /// The message that starts at `position` exceeds the limit.
    #[error("the message that starts at byte {position} of the stream is larger than {limit} bytes")]
    TooLarge {
        /// The position of the message's first byte.
        position: u64,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Decodes and encodes JSON messages. The stream is unusable after an error.
#[derive(Debug)]
pub struct JsonCodec {
    /// The number of bytes of the current message that have been scanned.
    scanned: usize,
    /// The stream's position of the current message.
    position: u64,
    /// The position of the last whole message.
    last: u64,
    /// The open brackets of the current message, by the byte that must close each.
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

impl Default for JsonCodec {
    fn default() -> Self {
        JsonCodec::new(MESSAGE_SIZE_MAX)
    }
}

impl Decoder for JsonCodec {
    type Item = Value;
    type Error = ConnectionError<FramingError>;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Value>, Self::Error> {
        self.next_message(bytes).map_err(ConnectionError::Malformed)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Value>, Self::Error> {
        self.decode(bytes)
    }
}

impl Encoder<Value> for JsonCodec {
    type Error = io::Error;

    fn encode(&mut self, message: Value, out: &mut BytesMut) -> io::Result<()> {
        Ok(serde_json::to_writer(out.writer(), &message)?)
    }
}

impl JsonCodec {
    /// A codec that refuses to decode messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        JsonCodec { scanned: 0, position: 0, last: 0, open: Vec::new(), string: StringState::Outside, limit }
    }

    /// The stream's position of the last whole message.
    pub(crate) fn last_position(&self) -> u64 {
        self.last
    }

    /// From now on messages of more than `limit` bytes are refused.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Removes the next whole message from `bytes`, or returns `None` if there is none yet.
    fn next_message(&mut self, bytes: &mut BytesMut) -> Result<Option<Value>, FramingError> {
        self.next_text(bytes)?.map(|text| parse(&text, self.last)).transpose()
    }

    /// Removes the text of the next whole message from `bytes`, or returns `None` if there is none yet. Its brackets match; it
    /// is not parsed.
    pub fn next_text(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, FramingError> {
        while let Some(&byte) = bytes.get(self.scanned) {
            if self.open.is_empty() && byte.is_ascii_whitespace() {
                bytes.advance(1);
                self.position += 1;
                continue;
            }
            let ended = self.scan(byte)?;
            self.scanned += 1;
            if self.scanned > self.limit {
                return Err(FramingError::TooLarge { position: self.position, limit: self.limit });
            }
            if ended {
                let message = bytes.split_to(self.scanned).freeze();
                self.last = self.position;
                self.position += self.scanned as u64;
                self.scanned = 0;
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Scans one byte. Returns whether it ends the message, which the JSON parser may still refuse. Bytes that can
    /// never become JSON are refused here at once, because the scanner would wait for their end for ever.
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
                _ => return Err(self.malformed("this byte is not allowed outside a string")),
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

    fn malformed(&self, problem: &str) -> FramingError {
        FramingError::Malformed { position: self.position + self.scanned as u64, problem: problem.to_owned() }
    }
}

/// Parses the message that begins at this position of the stream.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(
    message: &'a [u8],
    position: u64,
) -> Result<T, FramingError> {
    let text = std::str::from_utf8(message).map_err(|error| FramingError::Malformed {
        position: position + error.valid_up_to() as u64,
        problem: error.to_string(),
    })?;
    serde_json::from_str(text).map_err(|error| {
        let offset = byte_offset(message, error.line(), error.column());
        FramingError::Malformed { position: position + offset as u64, problem: error.to_string() }
    })
}

/// Converts the parser's line and column (both from 1, columns in bytes) to an offset.
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

    /// A codec and its read buffer.
    struct Stream {
        codec: JsonCodec,
        buffer: BytesMut,
    }

    impl Stream {
        fn new(limit: usize) -> Stream {
            Stream { codec: JsonCodec::new(limit), buffer: BytesMut::new() }
        }

        /// The messages completed by these bytes.
        fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Value>, FramingError> {
            self.buffer.extend_from_slice(bytes);
            let mut messages = Vec::new();
            while let Some(message) = self.codec.next_message(&mut self.buffer)? {
                messages.push(message);
            }
            Ok(messages)
        }
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_messages() {
        let messages = [
            json!({"id": 1, "result": ["a\\", "}{\"", "\u{1f600}"], "error": null}),
            json!({}),
            json!({"x": [[], {"y": -1.5e3}]}),
        ];
        let mut bytes = BytesMut::new();
        for message in &messages {
            JsonCodec::default().encode(message.clone(), &mut bytes).expect("serialises");
        }
        bytes.extend_from_slice(b" \n\t{}\n");
        let expected: Vec<_> = messages.iter().cloned().chain([json!({})]).collect();
        for cut in 0..=bytes.len() {
            let mut stream = Stream::new(MESSAGE_SIZE_MAX);
            let mut values = stream.feed(&bytes[..cut]).expect("well-formed");
            values.extend(stream.feed(&bytes[cut..]).expect("well-formed"));
            assert_eq!(values, expected, "cut at {cut}");
        }
        let mut stream = Stream::new(MESSAGE_SIZE_MAX);
        let mut values = Vec::new();
        for byte in &bytes {
            values.extend(stream.feed(&[*byte]).expect("well-formed"));
        }
        assert_eq!(values, expected);
        assert!(stream.buffer.is_empty(), "white space is consumed");
    }

    #[test]
    fn garbage_is_refused_at_its_byte() {
        for (bytes, position) in [
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
            // The position must not depend on how the stream is split.
            for cut in 0..bytes.len() {
                let mut stream = Stream::new(MESSAGE_SIZE_MAX);
                match stream.feed(&bytes[..cut]).and_then(|_| stream.feed(&bytes[cut..])) {
                    Err(FramingError::Malformed { position: at, .. }) => {
                        assert_eq!(at, position, "{}", String::from_utf8_lossy(bytes));
                    }
                    other => panic!("{}: {other:?}", String::from_utf8_lossy(bytes)),
                }
            }
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_is_whole() {
        let mut stream = Stream::new(8);
        assert_eq!(stream.feed(b"{\"a\":12}{\"a\":123"), Ok(vec![json!({"a": 12})]));
        assert_eq!(stream.feed(b"4"), Err(FramingError::TooLarge { position: 8, limit: 8 }));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let mut stream = Stream::new(MESSAGE_SIZE_MAX);
        assert_eq!(stream.feed(b"{\"a\":"), Ok(vec![]));
        let error = stream.feed(&[b'['; 1000]);
        assert!(matches!(error, Err(FramingError::Malformed { position: 104, .. })), "{error:?}");
    }

    proptest! {
            #[test]
        fn any_bytes_end_in_messages_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Stream::new(64).feed(&bytes);
        }
    }
}
