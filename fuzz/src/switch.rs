//! Bytes from switches: OpenFlow messages, and OVSDB's JSON.

use bytes::BytesMut;
use openflow_rs::{Body, Frame, Message, frame};
use ovsdb_client::Datum;
use ovsdb_client::framing::JsonCodec;
use ovsdb_client::schema::Schema;
use tokio_util::codec::Decoder;

use crate::decode;

/// Bytes as a stream of OpenFlow messages. An encoded message is decoded to one that is encoded
/// in the same way.
pub fn openflow(mut stream: &[u8]) {
    while let Ok(Frame::Message(length)) = frame(stream) {
        let Some((bytes, rest)) = stream.split_at_checked(length) else { return };
        stream = rest;
        let decoded = decode("an OpenFlow message", bytes.len(), || Message::decode(bytes));
        let Ok(message) = decoded else { continue };
        let text = message.to_string();
        assert!(!text.is_empty());
        if matches!(message.body, Body::PortStatus(_) | Body::PortDescReply(_)) {
            // Names of ports that are no UTF-8, or have no NUL at their end, are not encoded as they were.
            continue;
        }
        let Ok(encoded) = message.encode() else { continue };
        let again = Message::decode(&encoded).expect("an encoded message can be decoded");
        // What could not be read, such as a group of an unknown form, is not encoded.
        assert_eq!(again.encode().as_ref(), Ok(&encoded), "a message is not encoded as it was");
    }
}

/// Bytes as a stream of OVSDB messages, which does not depend on how it is cut into reads; each message as a schema and
/// as a value.
pub fn ovsdb(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let whole = messages([bytes]);
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    assert_eq!(whole, messages([first, second]), "messages depend on how the stream is cut");
    for message in whole.0 {
        let text = message.to_string();
        let _schema = decode("a schema", text.len(), || Schema::from_text(&text));
        let values = message.as_object().into_iter().flat_map(|members| members.values());
        for value in values {
            let Ok(datum) = Datum::from_json(value) else { continue };
            assert_eq!(
                Datum::from_json(&datum.to_json()),
                Ok(datum),
                "a value is not read as it was written"
            );
        }
    }
}

/// The messages of a stream, and whether it is at fault after them.
fn messages<const N: usize>(reads: [&[u8]; N]) -> (Vec<serde_json::Value>, bool) {
    let (mut codec, mut buffer, mut messages) = (JsonCodec::default(), BytesMut::new(), Vec::new());
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}
