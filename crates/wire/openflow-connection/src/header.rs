//! The head of a message, and its kinds (OpenFlow Switch Specification 1.5.1, section 7.1).

/// OpenFlow 1.5.
pub const VERSION: u8 = 6;
/// Version, type, length, transaction id.
pub const HEADER_LEN: usize = 8;

/// Message types (section 7.1.1).
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod kind {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const EXPERIMENTER: u8 = 4;
    pub const FEATURES_REPLY: u8 = 6;
    pub const GET_CONFIG_REPLY: u8 = 8;
    pub const PORT_STATUS: u8 = 12;
    pub const FLOW_MOD: u8 = 14;
    pub const GROUP_MOD: u8 = 15;
    pub const MULTIPART_REQUEST: u8 = 18;
    pub const MULTIPART_REPLY: u8 = 19;
    pub const BARRIER_REQUEST: u8 = 20;
    pub const BARRIER_REPLY: u8 = 21;
    pub const ROLE_REPLY: u8 = 25;
    pub const ROLE_STATUS: u8 = 30;
    pub const BUNDLE_CONTROL: u8 = 33;
    pub const BUNDLE_ADD: u8 = 34;
}

/// The first eight bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The version of the protocol; a hello may have any.
    pub version: u8,
    /// One of [`kind`].
    pub kind: u8,
    /// The length of the whole message, in bytes.
    pub length: u16,
    /// The transaction id, which an answer has from its request.
    pub xid: u32,
}

impl Header {
    /// The header at the start of these bytes, if they are long enough.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER_LEN>()?;
        let (length, xid) = (u16::from_be_bytes([l0, l1]), u32::from_be_bytes([x0, x1, x2, x3]));
        Some(Header { version, kind, length, xid })
    }
}
