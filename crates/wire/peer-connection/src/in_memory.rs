//! An in-process network, for tests and simulations. It works under paused time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::dial::{Dial, Dialling, Stream};
use crate::endpoint::Endpoint;

/// The capacity of each direction of a stream, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

type Accepting = mpsc::UnboundedSender<DuplexStream>;

/// A network of in-memory endpoints, shared by its clones. An endpoint without a listener refuses connections.
#[derive(Clone, Default)]
pub struct InMemoryNetwork {
    listeners: Arc<Mutex<HashMap<Endpoint, Accepting>>>,
}

impl InMemoryNetwork {
    /// Listens on an endpoint and replaces an earlier listener.
    pub fn listen(&self, endpoint: Endpoint) -> InMemoryListener {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint, sender);
        InMemoryListener { streams: receiver }
    }
}

impl fmt::Debug for InMemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryNetwork").finish_non_exhaustive()
    }
}

impl Dial for InMemoryNetwork {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = listeners.get(endpoint).is_some_and(|listener| listener.send(theirs).is_ok());
        Box::pin(async move {
            if accepted { Ok(Box::new(ours) as Stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
        })
    }
}

/// Accepts the streams dialled to one endpoint. Dropping it closes the endpoint.
#[derive(Debug)]
pub struct InMemoryListener {
    streams: mpsc::UnboundedReceiver<DuplexStream>,
}

impl InMemoryListener {
    /// The server's end of the next stream. Fails once the network is dropped or another listener has replaced this
    /// one.
    pub async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.streams.recv().await.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }
}
