//! Finding messages in a byte stream.

use crate::DecodeError;
use crate::error::Fault;

/// Bytes of the header that every message begins with.
pub const HEADER_LEN: usize = 8;

/// The beginning of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The message is incomplete: at least this many more bytes are needed.
    Incomplete(usize),
    /// A message of this many bytes.
    Message(usize),
}

/// Looks for a message at the beginning of `stream`.
///
/// A caller that reads as many bytes as [`Frame::Incomplete`] says never buffers more than 65,535 bytes of one
/// message.
///
/// # Errors
/// The header gives a length below [`HEADER_LEN`], so the rest of the stream cannot be read.
///
/// ```
/// use openflow_rs::{Frame, frame};
/// let barrier = [6, 20, 0, 8, 0, 0, 0, 1];
/// assert_eq!(frame(&barrier[..3]), Ok(Frame::Incomplete(5)));
/// assert_eq!(frame(&barrier), Ok(Frame::Message(8)));
/// ```
pub fn frame(stream: &[u8]) -> Result<Frame, DecodeError> {
    let &[_, _, high, low, ..] = stream else {
        return Ok(Frame::Incomplete(HEADER_LEN - stream.len()));
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < HEADER_LEN {
        return Err(DecodeError { what: "message header", offset: 2, fault: Fault::Length(len) });
    }
    Ok(match len.checked_sub(stream.len()) {
        None | Some(0) => Frame::Message(len),
        Some(more) => Frame::Incomplete(more),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_the_header_then_for_the_rest() {
        assert_eq!(frame(&[]), Ok(Frame::Incomplete(8)));
        assert_eq!(frame(&[6, 2, 0, 12]), Ok(Frame::Incomplete(8)));
        assert_eq!(frame(&[6, 2, 0, 12, 0, 0, 0, 1, 9]), Ok(Frame::Incomplete(3)));
        assert_eq!(frame(&[6, 2, 0, 9, 0, 0, 0, 1, 9, 6]), Ok(Frame::Message(9)));
    }

    #[test]
    fn a_length_shorter_than_the_header_is_malformed() {
        for len in 0..8 {
            assert!(frame(&[6, 2, 0, len, 0, 0, 0, 1]).is_err());
        }
    }
}
