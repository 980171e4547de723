//! Where a fake takes its connections from.

use std::io;

use peer_connection::{InMemoryListener, Stream};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

/// The source of connections.
pub(crate) enum Listener {
    Unix(UnixListener),
    InMemory(InMemoryListener),
    /// Somebody else accepts them and hands them over.
    Given(mpsc::UnboundedReceiver<Stream>),
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
            Listener::InMemory(listener) => Box::new(listener.accept().await?),
            Listener::Given(streams) => streams.recv().await.ok_or(io::ErrorKind::BrokenPipe)?,
        })
    }
}
