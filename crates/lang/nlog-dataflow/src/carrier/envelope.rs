//! What timely carries from one worker to another, and its bytes.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use timely::bytes::arc::Bytes;
use timely::communication::Bytesable;

/// What timely carries from one worker to another.
pub(super) struct Envelope<B> {
    pub(super) from: usize,
    pub(super) content: Content<B>,
}

pub(super) enum Content<B> {
    /// A message, for a worker of the same process.
    Body(B),
    /// A part of a message as bytes. The flag says whether another part follows.
    Piece(Arc<Vec<u8>>, Range<usize>, bool),
    /// A message between operators.
    Note(Vec<u8>),
    /// The worker ends with success.
    Left,
    /// The worker ends for this reason.
    Failed(String),
    /// The bytes have no meaning.
    Unreadable,
}

const LAST_PIECE: u8 = 1;
const PIECE_BEFORE_OTHERS: u8 = 2;
const NOTE: u8 = 3;
const LEFT: u8 = 4;
const FAILED: u8 = 5;

impl<B> Content<B> {
    /// The bytes for another process, and the byte that says what they are.
    fn as_bytes(&self) -> (&[u8], u8) {
        match self {
            Content::Piece(bytes, range, false) => (&bytes[range.clone()], LAST_PIECE),
            Content::Piece(bytes, range, true) => (&bytes[range.clone()], PIECE_BEFORE_OTHERS),
            Content::Note(bytes) => (bytes, NOTE),
            Content::Left => (&[], LEFT),
            Content::Failed(why) => (why.as_bytes(), FAILED),
            // A message itself never leaves its process.
            Content::Body(_) | Content::Unreadable => (&[], 0),
        }
    }
}

/// The sender's number, the content, and a byte that says what the content is.
impl<B> Bytesable for Envelope<B> {
    fn from_bytes(bytes: Bytes) -> Self {
        let parts = bytes.split_first_chunk().and_then(|(from, rest)| Some((from, rest.split_last()?)));
        let Some((from, (kind, rest))) = parts else {
            return Envelope { from: 0, content: Content::Unreadable };
        };
        let piece = |more| Content::Piece(Arc::new(rest.to_vec()), 0..rest.len(), more);
        let content = match *kind {
            LAST_PIECE => piece(false),
            PIECE_BEFORE_OTHERS => piece(true),
            NOTE => Content::Note(rest.to_vec()),
            LEFT => Content::Left,
            FAILED => Content::Failed(String::from_utf8_lossy(rest).into_owned()),
            _ => Content::Unreadable,
        };
        Envelope { from: u32::from_le_bytes(*from) as usize, content }
    }

    fn length_in_bytes(&self) -> usize {
        size_of::<u32>() + self.content.as_bytes().0.len() + 1
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let (bytes, kind) = self.content.as_bytes();
        // The writer has the announced length. A content that does not fit would be unreadable.
        let written = writer.write_all(&(self.from as u32).to_le_bytes());
        let _ = written.and_then(|()| writer.write_all(bytes)).and_then(|()| writer.write_all(&[kind]));
    }
}
