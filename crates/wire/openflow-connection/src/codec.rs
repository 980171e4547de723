//! The OpenFlow codec. The header of a message contains its length (OpenFlow Switch Specification 1.5.1, section
//! 7.1).

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use openflow_rs::{Body, Message};
use peer_connection::{ConnectionError, Protocol, Received};
use tokio_util::codec::{Decoder, Encoder};

use crate::{HEADER_LEN, Header, VERSION, kind};

/// The transaction id of probes. Requests use smaller ids.
pub const PROBE_XID: u32 = u32::MAX;

/// Why bytes are not an OpenFlow message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the switch sent bytes that are not OpenFlow 1.5: {problem} (bytes {bytes})")]
pub struct Malformed {
    /// What is wrong with them.
    pub problem: String,
    /// The first of them.
    pub bytes: Excerpt,
}

/// The first bytes of a message, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(Vec<u8>);

impl Excerpt {
    /// The first bytes of these.
    pub fn new(bytes: &[u8]) -> Self {
        Excerpt(bytes.iter().take(16).copied().collect())
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A whole message, header included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its first eight bytes.
    pub header: Header,
    /// All of it.
    pub bytes: Bytes,
}

impl Frame {
    /// What follows the header.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }
}

/// Splits a byte stream into messages, and encodes single messages.
#[derive(Debug)]
pub struct OpenFlowCodec {
    /// Before the hellos are exchanged a message may have any version.
    negotiating: bool,
}

impl OpenFlowCodec {
    /// The codec of a new connection.
    pub fn negotiating() -> Self {
        OpenFlowCodec { negotiating: true }
    }

    /// From now on every message must have version 1.5.
    pub fn negotiated(&mut self) {
        self.negotiating = false;
    }
}

impl Decoder for OpenFlowCodec {
    type Item = Frame;
    type Error = ConnectionError<Malformed>;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, Self::Error> {
        let Some(header) = Header::read(bytes) else { return Ok(None) };
        let length = usize::from(header.length);
        // Checked before the message is complete, since garbage may announce bytes that never arrive.
        let problem = if length < HEADER_LEN {
            Some(format!("a message of length {length}"))
        } else if header.version != VERSION && !self.negotiating {
            Some(format!("a message of version {:#04x}", header.version))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(ConnectionError::Malformed(Malformed { problem, bytes: Excerpt::new(bytes) }));
        }
        if bytes.len() < length {
            bytes.reserve(length - bytes.len());
            return Ok(None);
        }
        Ok(Some(Frame { header, bytes: bytes.split_to(length).freeze() }))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, Self::Error> {
        self.decode(bytes)
    }
}

impl Encoder<Message> for OpenFlowCodec {
    type Error = io::Error;

    fn encode(&mut self, message: Message, out: &mut BytesMut) -> io::Result<()> {
        let bytes = message.encode().map_err(io::Error::other)?;
        out.extend_from_slice(&bytes);
        Ok(())
    }
}

impl Protocol for OpenFlowCodec {
    type Outgoing = Message;
    type Malformed = Malformed;
    const PEER: &'static str = "the switch";
    const DIAL_IN: &'static str = "the controller sets this target of the bridge once the database is connected, and if the bridge cannot \
                                   connect, ovs-vswitchd.log on its host says why";

    fn echo_request(&self) -> Message {
        Message { xid: PROBE_XID, body: Body::EchoRequest(Vec::new()) }
    }

    fn classify(&self, frame: Frame) -> Received<Frame, Message> {
        match frame.header.kind {
            // The first message must be a hello.
            _ if self.negotiating => Received::Message(frame),
            kind::ECHO_REQUEST => {
                let body = Body::EchoReply(frame.body().to_vec());
                Received::Request { answer: Message { xid: frame.header.xid, body } }
            }
            kind::ECHO_REPLY => Received::EchoReply,
            _ => Received::Message(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(negotiated: bool) -> OpenFlowCodec {
        OpenFlowCodec { negotiating: !negotiated }
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_frames() {
        let mut stream = BytesMut::new();
        for (xid, length) in [(1, 0), (2, 5), (3, 60_000)] {
            let body = Body::EchoRequest(vec![7; length]);
            codec(true).encode(Message { xid, body }, &mut stream).expect("short enough");
        }
        for cut in [0, 1, 7, 8, 9, 15, 20, 21, 22, 30_000, stream.len()] {
            let (mut codec, mut buffer) = (codec(true), BytesMut::new());
            let mut frames = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(frame) = codec.decode(&mut buffer).expect("well-formed") {
                    frames.push((frame.header.xid, frame.body().len()));
                }
            }
            assert_eq!(frames, [(1, 0), (2, 5), (3, 60_000)], "cut at {cut}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn a_bad_header_is_refused_before_the_message_is_whole() {
        for (negotiated, bytes, says) in [
            (true, b"HTTP/1.1", "a message of version 0x48 (bytes 485454502f312e31)"),
            (true, b"\x06\x02\x00\x07\x00\x00\x00\x01", "a message of length 7"),
            (false, b"\x04\x00\x00\x00\x00\x00\x00\x01", "a message of length 0"),
        ] {
            let error = codec(negotiated).decode(&mut BytesMut::from(&bytes[..])).expect_err("a bad header");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
