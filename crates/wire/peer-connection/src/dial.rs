//! Opens byte streams. No other module touches the network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use mutual_tls::Credentials;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::endpoint::Endpoint;
use crate::inbound::{Expected, Inbound};
use crate::resolve::Resolver;

/// Why an `ssl:` endpoint cannot be dialled.
const NO_CERTIFICATE: &str = "the controller has no certificate; set `tls_certificate`, `tls_key` and `tls_authorities` in its configuration";

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

    /// Admits the peer of an endpoint that dials in, for as long as the value is kept. `None` for other endpoints, which need not be
    /// admitted.
    fn expect(&self, endpoint: &Endpoint) -> Option<Expected> {
        let _ = endpoint;
        None
    }
}

/// Dials the unix and TCP sockets of the operating system, and waits for peers that dial in. Its default resolves names with the resolver
/// of the process, and has no certificate, so it cannot dial `ssl:` endpoints.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    resolver: Resolver,
    credentials: Option<Arc<Credentials>>,
    inbound: Arc<Inbound>,
}

impl Sockets {
    /// Sockets that resolve names of hosts in this way.
    pub fn new(resolver: Resolver) -> Self {
        Sockets { resolver, ..Sockets::default() }
    }

    /// The same, with this certificate for `ssl:` endpoints, if there is one.
    #[must_use]
    pub fn with_credentials(self, credentials: Option<Arc<Credentials>>) -> Self {
        Sockets { credentials, ..self }
    }

    /// The connections of peers that dial in, for whoever accepts them.
    pub fn inbound(&self) -> &Arc<Inbound> {
        &self.inbound
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses = self.addresses(host, port).await?;
        let stream = TcpStream::connect(&*addresses).await?;
        // Without this, the last bytes of a request would wait for the acknowledgement of earlier ones.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host).await?,
        };
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

impl Dial for Sockets {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            Ok(match endpoint {
                Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?) as Stream,
                Endpoint::Tcp { host, port } => Box::new(self.connect(host, *port).await?),
                Endpoint::Ssl { host, port, name } => {
                    let credentials =
                        self.credentials.as_ref().ok_or_else(|| io::Error::other(NO_CERTIFICATE))?;
                    let stream = self.connect(host, *port).await?;
                    Box::new(credentials.connect_to_switch(stream, name).await?)
                }
                Endpoint::DialIn { name, target } => self.inbound.take(name, target).await?,
            })
        })
    }

    fn expect(&self, endpoint: &Endpoint) -> Option<Expected> {
        match endpoint {
            Endpoint::DialIn { name, target } => Some(self.inbound.expect(name, target)),
            Endpoint::Unix(_) | Endpoint::Tcp { .. } | Endpoint::Ssl { .. } => None,
        }
    }
}
