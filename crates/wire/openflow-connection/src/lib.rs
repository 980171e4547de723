//! OpenFlow over a [`Connection`](peer_connection::Connection): messages cut from a byte stream, and the echo messages that probe a peer.
//! Whoever speaks OpenFlow to a switch uses it, and decides itself which messages it decodes.
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod codec;
mod header;

pub use codec::{Excerpt, Frame, Malformed, OpenFlowCodec, PROBE_XID};
pub use header::{HEADER_LEN, Header, VERSION, kind};
