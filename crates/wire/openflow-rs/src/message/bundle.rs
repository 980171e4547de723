//! Bundles: messages that take effect together.

use super::print::{self, bit_names};
use super::{Body, Message};
use crate::error::Fault;
use crate::wire::Reader;
use crate::{DecodeError, EncodeError};

/// How a bundle is applied, as bits on the wire (`OFPBF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleFlags(pub u16);

impl BundleFlags {
    /// In the order they were added.
    pub const ORDERED: BundleFlags = BundleFlags(2);

    pub(super) fn print(self) -> String {
        bit_names(self.0.into(), &[(0, "atomic"), (1, "ordered")])
    }
}

impl std::ops::BitOr for BundleFlags {
    type Output = BundleFlags;

    fn bitor(self, other: BundleFlags) -> BundleFlags {
        BundleFlags(self.0 | other.0)
    }
}

/// A request about a bundle, or the reply to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleOp {
    /// Open a bundle.
    OpenRequest,
    /// The bundle is open.
    OpenReply,
    /// Close the bundle.
    CloseRequest,
    /// The bundle is closed.
    CloseReply,
    /// Commit the messages.
    CommitRequest,
    /// The messages are committed.
    CommitReply,
    /// Discard the messages.
    DiscardRequest,
    /// The messages are discarded.
    DiscardReply,
}

impl BundleOp {
    const ALL: [BundleOp; 8] = [
        BundleOp::OpenRequest,
        BundleOp::OpenReply,
        BundleOp::CloseRequest,
        BundleOp::CloseReply,
        BundleOp::CommitRequest,
        BundleOp::CommitReply,
        BundleOp::DiscardRequest,
        BundleOp::DiscardReply,
    ];

    fn print(self) -> &'static str {
        [
            "OPEN_REQUEST",
            "OPEN_REPLY",
            "CLOSE_REQUEST",
            "CLOSE_REPLY",
            "COMMIT_REQUEST",
            "COMMIT_REPLY",
            "DISCARD_REQUEST",
            "DISCARD_REPLY",
        ][self as usize]
    }
}

/// Begins or ends a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// The bundle, numbered by the controller within the connection.
    pub bundle_id: u32,
    /// The operation.
    pub op: BundleOp,
    /// How it is applied; the same in all its messages.
    pub flags: BundleFlags,
}

impl BundleControl {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bundle_id.to_be_bytes());
        out.extend_from_slice(&(self.op as u16).to_be_bytes());
        out.extend_from_slice(&self.flags.0.to_be_bytes());
    }

    /// Reads the body; properties that may follow are ignored.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<BundleControl, DecodeError> {
        let bundle_id = reader.u32()?;
        let at = reader.clone();
        let op = reader.u16()?;
        let op = *BundleOp::ALL.get(usize::from(op)).ok_or_else(|| at.fault(Fault::Unknown(op.into())))?;
        Ok(BundleControl { bundle_id, op, flags: BundleFlags(reader.u16()?) })
    }

    pub(super) fn print(self) -> String {
        format!("\n bundle_id={:#x} type={} flags={}", self.bundle_id, self.op.print(), self.flags.print())
    }
}

/// Adds a message to a bundle. OpenFlow requires the inner message to have the outer one's
/// transaction id, so only the body is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// The bundle.
    pub bundle_id: u32,
    /// The bundle's flags.
    pub flags: BundleFlags,
    /// The message; Open vSwitch takes flow-mods, group-mods, port-mods and packet-outs.
    pub body: Box<Body>,
}

impl BundleAdd {
    pub(super) fn encode(&self, out: &mut Vec<u8>, xid: u32) -> Result<(), EncodeError> {
        if matches!(*self.body, Body::BundleAdd(_) | Body::BundleControl(_)) {
            return Err(EncodeError::NestedBundle);
        }
        out.extend_from_slice(&self.bundle_id.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.flags.0.to_be_bytes());
        let start = out.len();
        out.extend_from_slice(&[super::VERSION, self.body.kind(), 0, 0]);
        out.extend_from_slice(&xid.to_be_bytes());
        self.body.encode(out, xid)?;
        let len = out.len() - start;
        let len = u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }

    /// Reads the body; properties that may follow the message are ignored.
    pub(super) fn decode(reader: &mut Reader<'_>, xid: u32) -> Result<BundleAdd, DecodeError> {
        let bundle_id = reader.u32()?;
        reader.skip(2)?;
        let flags = BundleFlags(reader.u16()?);
        let at = reader.clone();
        let inner = Message::decode_from(reader, false)?;
        if inner.xid != xid {
            return Err(at.fault(Fault::Xid { inner: inner.xid, outer: xid }));
        }
        Ok(BundleAdd { bundle_id, flags, body: Box::new(inner.body) })
    }

    pub(super) fn print(&self, xid: u32, depth: u8) -> String {
        let inner = print::body(xid, &self.body, depth + 1);
        format!("\n bundle_id={:#x} flags={}\n{inner}", self.bundle_id, self.flags.print())
    }
}
