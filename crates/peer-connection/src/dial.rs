//! Opens byte streams. No other module touches the network.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::endpoint::Endpoint;

/// A byte stream in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// An open byte stream of any kind.
pub type Stream = Box<dyn ByteStream>;

/// The future of an attempt to open a stream. Dropping it abandons the attempt.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;

/// Opens byte streams to endpoints.
pub trait Dial: Send + Sync {
    /// Opens a stream. The caller sets the deadline.
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a>;
}

/// Dials the unix and TCP sockets of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sockets;

impl Dial for Sockets {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            Ok(match endpoint {
                Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?) as Stream,
                Endpoint::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    // Without this, the last bytes of a request would wait for the acknowledgement of earlier ones.
                    stream.set_nodelay(true)?;
                    Box::new(stream)
                }
            })
        })
    }
}
