//! Connections to network devices, shared by the OVSDB and OpenFlow clients.
//!
//! A protocol brings its codec and its echo messages ([`Protocol`]). This crate does the rest:
//!
//! - [`Dial`] opens a byte stream to an [`Endpoint`]. [`Sockets`] dials unix and TCP sockets, with TLS or without;
//!   tests and simulations supply an [`InMemoryNetwork`] instead.
//! - [`Inbound`] has the connections of peers that dial in, each for whoever expects that peer.
//! - [`Connection`] frames messages with a [`tokio_util::codec`], reads and writes at the same time, probes an idle
//!   peer, and disconnects a peer that has failed. Every wait has a deadline.
//! - [`Resolver`] looks up names of hosts, away from everything else.
//! - [`MemoryBudget`] bounds the memory that all peers together make their owner hold.
//! - [`Reconnect`] decides when to dial again: exponential backoff with jitter.
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

mod connection;
mod dial;
mod endpoint;
mod framing;
mod in_memory;
mod inbound;
mod memory;
mod reconnect;
mod resolve;
mod timed_stream;

pub use connection::{
    Connection, ConnectionError, ConnectionResult, Partial, Probes, Protocol, Received, Timeouts,
};
pub use dial::{ByteStream, Dial, Dialling, Sockets, Stream};
pub use endpoint::{Endpoint, EndpointError};
pub use in_memory::{InMemoryListener, InMemoryNetwork};
pub use inbound::{Expected, Inbound, NotTaken, Refused, Unexpected};
pub use memory::{Account, Charge, MemoryBudget, OverBudget, PeerMemory};
pub use reconnect::{Reconnect, Retry};
pub use resolve::{Lookup, Resolver};

use std::time::Duration;
use tokio::time::Instant;

/// Waits for a future until a deadline, and returns `None` if it has not completed by then. The future gets a short
/// extra time, because its input may have arrived while the runtime was starved.
pub async fn within<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    if let Ok(output) = tokio::time::timeout_at(deadline, &mut future).await {
        return Some(output);
    }
    tokio::time::timeout(connection::GRACE, future).await.ok()
}

/// `instant + duration`, capped at thirty years from `instant`: `Duration::MAX` means "never" and must not overflow.
pub fn after(instant: Instant, duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_hours(30 * 365 * 24);
    instant + duration.min(NEVER)
}
