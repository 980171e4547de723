//! The bytes that messages have in common: bundles, parts of descriptions (OpenFlow Switch Specification 1.5.1, sections
//! 7.1, 7.3.5 and 7.3.9). Messages that are sent by the hundred thousand are encoded in place.

use bytes::BytesMut;
pub(crate) use openflow_connection::{HEADER_LEN, Header, VERSION, kind};
use openflow_rs::{Body, EncodeError, Message};

/// The operations of a bundle control message (`ofp_bundle_ctrl_type`).
pub(crate) mod bundle {
    pub(crate) const OPEN_REQUEST: u16 = 0;
    pub(crate) const COMMIT_REQUEST: u16 = 4;
    pub(crate) const COMMIT_REPLY: u16 = 5;
    pub(crate) const DISCARD_REQUEST: u16 = 6;
    /// `OFPBF_ATOMIC | OFPBF_ORDERED`: all or nothing, in the order given.
    pub(crate) const FLAGS: u16 = 3;
}

/// `OFPMPF_REPLY_MORE`.
pub(crate) const MORE: u16 = 1;

/// A message has no room for what it is to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its message would take {bytes} bytes, and OpenFlow has room for {max}: give it fewer members, such as ports of a switch, \
     next hops of a route or addresses of an ACL",
    max = u16::MAX
)]
pub(crate) struct TooLong {
    pub(crate) bytes: usize,
}

/// Appends a message. The only encoder of messages in place: all lengths inside a message are less than its own, so checking
/// that one checks them all. Appends nothing if the message is too long.
pub(crate) fn put_message(
    out: &mut BytesMut,
    kind: u8,
    xid: u32,
    body: impl FnOnce(&mut BytesMut) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[VERSION, kind, 0, 0]);
    out.extend_from_slice(&xid.to_be_bytes());
    let put = body(out);
    let bytes = out.len() - start;
    let length = put.and_then(|()| u16::try_from(bytes).map_err(|_| TooLong { bytes }));
    match (length, out.get_mut(start + 2..start + 4)) {
        (Ok(length), Some(field)) => field.copy_from_slice(&length.to_be_bytes()),
        (Err(error), _) => {
            out.truncate(start);
            return Err(error);
        }
        (Ok(_), None) => {}
    }
    Ok(())
}

/// Appends a short message, whose body has a fixed size.
pub(crate) fn put_short<const N: usize>(out: &mut BytesMut, kind: u8, xid: u32, body: [u8; N]) {
    const { assert!(HEADER_LEN + N <= u16::MAX as usize) };
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&((HEADER_LEN + N) as u16).to_be_bytes());
    out.extend_from_slice(&xid.to_be_bytes());
    out.extend_from_slice(&body);
}

/// Appends a message that the typed codec encodes.
pub(crate) fn put_typed(out: &mut BytesMut, xid: u32, body: Body) -> Result<(), TooLong> {
    let bytes = (Message { xid, body }).encode().map_err(|error| match error {
        EncodeError::TooLong { len } => TooLong { bytes: len },
        // None is sent in this way.
        EncodeError::NestedBundle => TooLong { bytes: usize::MAX },
    })?;
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Appends a bundle control message.
pub(crate) fn put_bundle_control(out: &mut BytesMut, xid: u32, bundle_id: u32, control: u16) {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&bundle_id.to_be_bytes());
    body[4..6].copy_from_slice(&control.to_be_bytes());
    body[6..].copy_from_slice(&bundle::FLAGS.to_be_bytes());
    put_short(out, kind::BUNDLE_CONTROL, xid, body);
}

/// The control type of a bundle control message, given its body.
pub(crate) fn bundle_control(body: &[u8]) -> Option<u16> {
    body.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes)
}

/// Part of a reply is not a well-formed description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a description is malformed at byte {offset} of its message")]
pub(crate) struct BadDesc {
    pub(crate) offset: usize,
}

/// Reads one part of a reply that consists of descriptions, each beginning with its length. `take` returns whether it
/// understood the description.
pub(crate) fn descriptions(
    body: &[u8],
    kind: u16,
    mut take: impl FnMut(&[u8]) -> Option<()>,
) -> Result<Option<bool>, BadDesc> {
    let [t0, t1, f0, f1, _, _, _, _, rest @ ..] = body else {
        return Err(BadDesc { offset: HEADER_LEN });
    };
    if u16::from_be_bytes([*t0, *t1]) != kind {
        return Ok(None);
    }
    let mut rest = rest;
    while !rest.is_empty() {
        let bad = BadDesc { offset: HEADER_LEN + body.len() - rest.len() };
        let (entry, after) = split_desc(rest).ok_or(bad)?;
        take(entry).ok_or(bad)?;
        rest = after;
    }
    Ok(Some(u16::from_be_bytes([*f0, *f1]) & MORE != 0))
}

fn split_desc(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::from(u16_at(bytes, 0)?))
}

/// Splits off a structure that has its length in its third and fourth byte, with padding to eight bytes.
pub(crate) fn split_padded(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16_at(bytes, 2)?);
    if length < 4 {
        return None;
    }
    bytes.split_at_checked(length.next_multiple_of(8))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow_rs::message::{BundleControl, BundleFlags, BundleOp};

    /// The typed codec is the oracle for the bytes written here.
    #[test]
    fn messages_about_bundles_read_as_what_they_are() {
        for (control, op) in [
            (bundle::OPEN_REQUEST, BundleOp::OpenRequest),
            (bundle::COMMIT_REQUEST, BundleOp::CommitRequest),
            (bundle::DISCARD_REQUEST, BundleOp::DiscardRequest),
        ] {
            let mut bytes = BytesMut::new();
            put_bundle_control(&mut bytes, 9, 3, control);
            let body = Body::BundleControl(BundleControl { bundle_id: 3, op, flags: BundleFlags(3) });
            assert_eq!(Message::decode(&bytes), Ok(Message { xid: 9, body }));
        }
    }

    #[test]
    fn d23_a_message_that_is_too_long_is_refused_and_nothing_of_it_is_sent() {
        let room = usize::from(u16::MAX) - HEADER_LEN;
        for (length, fits) in [(0, true), (room, true), (room + 1, false), (1 << 20, false)] {
            let mut out = BytesMut::from(&b"before"[..]);
            let put = put_message(&mut out, kind::ECHO_REQUEST, 9, |out| {
                out.extend_from_slice(&vec![7; length]);
                Ok(())
            });
            assert_eq!(put, if fits { Ok(()) } else { Err(TooLong { bytes: HEADER_LEN + length }) });
            let message = &out["before".len()..];
            assert_eq!(message.len(), if fits { HEADER_LEN + length } else { 0 });
            if fits {
                assert_eq!(
                    Header::read(message).map(|header| usize::from(header.length)),
                    Some(message.len())
                );
            }
            // The message around one that is too long is not sent either.
            let mut out = BytesMut::new();
            let inner = |out: &mut BytesMut| {
                put_message(out, kind::ECHO_REQUEST, 9, |out| {
                    out.extend_from_slice(&vec![7; length]);
                    Ok(())
                })
            };
            let outer = put_message(&mut out, kind::BUNDLE_ADD, 9, inner);
            assert_eq!((outer.is_ok(), out.is_empty()), (length == 0, length > 0));
        }
        assert_eq!(
            TooLong { bytes: 70_000 }.to_string(),
            "its message would take 70000 bytes, and OpenFlow has room for 65535: give it fewer members, such as ports of a \
             switch, next hops of a route or addresses of an ACL"
        );
    }
}
