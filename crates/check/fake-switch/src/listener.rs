//! Where a fake takes its connections from.

use std::io;

use peer_connection::{InMemoryListener, Stream};
use tokio::net::UnixListener;

/// The source of connections.
pub(crate) enum Listener {
    Unix(UnixListener),
    InMemory(InMemoryListener),
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
            Listener::InMemory(listener) => Box::new(listener.accept().await?),
        })
    }
}
