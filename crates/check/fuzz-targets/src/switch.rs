//! Bytes from switches: OpenFlow messages, and OVSDB's JSON.

use std::sync::LazyLock;

use bytes::BytesMut;
use openflow_rs::{Body, Frame, Message, frame};
use ovsdb_client::framing::JsonCodec;
use ovsdb_client::schema::Schema;
use ovsdb_client::transact::outcomes;
use ovsdb_client::{Datum, Operation, Row};
use switch_model::{Pool, saved_states};
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

/// A database with columns of several types.
static OPEN_VSWITCH: LazyLock<Schema> = LazyLock::new(|| {
    let text = r#"{"name": "Open_vSwitch", "version": "8.3.0", "tables": {"Bridge": {"columns": {
        "name": {"type": "string"},
        "ports": {"type": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": "unlimited"}},
        "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "mcast": {"type": {"key": "boolean", "min": 0, "max": 1}},
        "limit": {"type": "integer"}
    }}}}"#;
    Schema::from_text(text).unwrap_or_else(|error| panic!("{error}"))
});

/// Operations whose results have every form.
static ASKED: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let bridge = || Row::new("Bridge").with("name", "br-int");
    vec![
        Operation::select("Bridge", Vec::new(), &["name", "ports", "external_ids", "mcast", "limit"]),
        Operation::insert(bridge()),
        Operation::update(bridge(), Vec::new()),
    ]
});

/// Bytes as a stream of OVSDB messages, which does not depend on how it is cut into reads; each message as a schema, as a
/// value, and as the reply to a transaction.
pub fn ovsdb(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let whole = messages([bytes]);
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    assert_eq!(whole, messages([first, second]), "messages depend on how the stream is cut");
    for message in whole.0 {
        let text = message.to_string();
        let _schema = decode("a schema", text.len(), || Schema::from_text(&text));
        // A reply to a transaction is read with what was asked.
        let result = message.get("result").map(ToString::to_string);
        if let Some(Err(error)) = result.map(|result| outcomes(&ASKED, &result, &OPEN_VSWITCH)) {
            assert!(!error.to_string().is_empty(), "a reply is refused without a reason");
        }
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

/// Bytes as the saved flows and buckets of switches, and as a part of such a file with the right length and checksum. What is accepted is
/// read back as it is written.
pub fn switch_state(bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("inputs are short");
    let mut part = length.to_le_bytes().to_vec();
    part.extend(crc32fast::hash(bytes).to_le_bytes());
    part.extend_from_slice(bytes);
    part.extend([0; 8]);
    for file in [bytes, &part] {
        let read = |mut file: &[u8]| saved_states::read(&mut file, &mut Pool::default());
        let Ok(switches) = decode("states of switches", file.len(), || read(file)) else { continue };
        let mut written = Vec::new();
        let states = switches.iter().map(|(node, state)| (node.as_str(), state));
        saved_states::write(states, &mut written).expect("a vector takes all bytes");
        let again = read(&written).expect("what was written can be read");
        assert!(again == switches, "the states of switches are not read as they were written");
    }
}
