//! The smallest protocol that has echo messages: lines of text. `ping` asks for `pong`.

use std::io;

use bytes::BytesMut;
use peer_connection::{ConnectionError, Protocol, Received};
use tokio_util::codec::{Decoder, Encoder};

pub(crate) const LINE_MAX: usize = 40;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {LINE_MAX} bytes")]
pub(crate) struct TooLong;

#[derive(Debug)]
pub(crate) struct Lines;

impl Decoder for Lines {
    type Item = String;
    type Error = ConnectionError<TooLong>;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, Self::Error> {
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= LINE_MAX => {
                let line = bytes.split_to(end + 1);
                Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()))
            }
            None if bytes.len() <= LINE_MAX => Ok(None),
            _ => Err(ConnectionError::Malformed(TooLong)),
        }
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, Self::Error> {
        self.decode(bytes)
    }
}

impl Encoder<String> for Lines {
    type Error = io::Error;

    fn encode(&mut self, line: String, out: &mut BytesMut) -> io::Result<()> {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\n");
        Ok(())
    }
}

impl Protocol for Lines {
    type Outgoing = String;
    type Malformed = TooLong;
    const PEER: &'static str = "the peer";
    const DIAL_IN: &'static str = "start it";

    fn echo_request(&self) -> String {
        "ping".to_owned()
    }

    fn classify(&self, line: String) -> Received<String, String> {
        match line.as_str() {
            "ping" => Received::Request { answer: "pong".to_owned() },
            "pong" => Received::EchoReply,
            _ => Received::Message(line),
        }
    }
}
