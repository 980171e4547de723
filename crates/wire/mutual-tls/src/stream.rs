//! Connections over TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tracing::debug;

use crate::credentials::{Credentials, Strangers};
use crate::explained::{explained, explained_end, explained_silence};
use crate::identity::Identity;

/// How often the certificate of the other side is checked again.
pub const RECHECK: Duration = Duration::from_secs(5);
/// The time that a handshake may take.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// A connection whose peer has shown a certificate of a trusted authority, unless strangers are admitted. Reading from it and writing to it
/// fail once that certificate is not good any more.
///
/// Its end is announced to the peer (`close_notify`), as far as the socket takes that at once: otherwise Open vSwitch logs each end as an error.
pub struct SecureStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tls: TlsStream<S>,
    peer: Option<Identity>,
    chain: Vec<CertificateDer<'static>>,
    credentials: Arc<Credentials>,
    recheck: Pin<Box<Sleep>>,
    /// Whether it is a connection to a switch that has said nothing yet.
    unheard: bool,
    /// Why the connection has ended.
    ended: Option<String>,
}

impl Credentials {
    /// Takes a connection of a client.
    ///
    /// # Errors
    /// The handshake fails, or takes longer than [`HANDSHAKE_MAX`].
    pub async fn accept<S>(self: &Arc<Self>, stream: S, strangers: Strangers) -> io::Result<SecureStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.loaded().server(strangers).map_err(io::Error::other)?);
        let tls = self.in_time(acceptor.accept(stream)).await?;
        SecureStream::new(TlsStream::Server(tls), self.clone())
    }

    /// Makes a connection to a switch, whose certificate must name this node, or this host.
    ///
    /// # Errors
    /// The handshake fails, or takes longer than [`HANDSHAKE_MAX`].
    pub async fn connect_to_switch<S>(self: &Arc<Self>, stream: S, name: &str) -> io::Result<SecureStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.loaded().to_switch(name).map_err(io::Error::other)?;
        // Any address: Open vSwitch is sent none, and the verifier looks at `name`.
        let nobody = ServerName::from(Ipv4Addr::UNSPECIFIED);
        let tls = self.in_time(TlsConnector::from(config).connect(nobody, stream)).await?;
        let mut stream = SecureStream::new(TlsStream::Client(tls), self.clone())?;
        stream.unheard = true;
        Ok(stream)
    }

    /// Makes a connection to a controller, whose certificate must have this DNS name or address.
    ///
    /// # Errors
    /// The handshake fails, or takes longer than [`HANDSHAKE_MAX`].
    pub async fn connect_to_controller<S>(
        self: &Arc<Self>,
        stream: S,
        host: &str,
    ) -> io::Result<SecureStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.loaded().to_controller().map_err(io::Error::other)?;
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        let tls = self.in_time(TlsConnector::from(config).connect(name, stream)).await?;
        SecureStream::new(TlsStream::Client(tls), self.clone())
    }

    async fn in_time<T>(&self, handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake takes too long");
        let done = tokio::time::timeout(HANDSHAKE_MAX, handshake).await.unwrap_or_else(|_| Err(late()));
        done.map_err(|error| explained(error, self.shown()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SecureStream<S> {
    fn new(tls: TlsStream<S>, credentials: Arc<Credentials>) -> io::Result<Self> {
        let chain: Vec<CertificateDer<'static>> = tls
            .get_ref()
            .1
            .peer_certificates()
            .into_iter()
            .flatten()
            .map(|certificate| certificate.clone().into_owned())
            .collect();
        // The verifier has refused strangers who are not admitted.
        let peer = chain.first().map(Identity::of_certificate).transpose();
        let peer = peer.map_err(io::Error::other)?;
        let (_, session) = tls.get_ref();
        debug!(
            peer = peer.as_ref().map(ToString::to_string),
            protocol = session.protocol_version().and_then(|version| version.as_str()),
            cipher = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()),
            "TLS connection begun"
        );
        let recheck = Box::pin(tokio::time::sleep(RECHECK));
        Ok(SecureStream { tls, peer, chain, credentials, recheck, unheard: false, ended: None })
    }

    /// Who is at the other end; `None` if it is a client who has shown no certificate.
    pub fn peer(&self) -> Option<&Identity> {
        self.peer.as_ref()
    }

    /// The connection that carries it.
    pub fn transport_mut(&mut self) -> &mut S {
        self.tls.get_mut().0
    }

    /// Checks the certificate of the other side again when it is time.
    fn recheck(&mut self, context: &mut Context<'_>) {
        let Some(peer) = &self.peer else { return };
        while self.ended.is_none() && self.recheck.as_mut().poll(context).is_ready() {
            let loaded = self.credentials.loaded();
            let checked = match &self.tls {
                TlsStream::Client(_) => loaded.check_server(&self.chain),
                TlsStream::Server(_) => loaded.check_client(&self.chain),
            };
            self.ended = checked.err().map(|error| format!("the certificate of {peer}: {error}"));
            self.recheck.as_mut().reset(Instant::now() + RECHECK);
        }
    }

    /// An error of the stream, with what it means.
    fn explained(&self, error: io::Error) -> io::Error {
        let explained = if self.unheard { explained_silence } else { explained_end };
        explained(error, self.credentials.shown())
    }

    /// An error once that certificate is not good any more.
    fn check(&self) -> io::Result<()> {
        match &self.ended {
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why.clone())),
            None => Ok(()),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Drop for SecureStream<S> {
    fn drop(&mut self) {
        // Nobody waits for a peer that takes nothing.
        let _ = Pin::new(&mut self.tls).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SecureStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever holds a connection reads from it all the time, so reading alone keeps the clock.
        self.recheck(context);
        self.check()?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.tls).poll_read(context, buffer);
        self.unheard &= buffer.filled().len() == before;
        read.map_err(|error| self.explained(error))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SecureStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.tls).poll_write(context, bytes);
        written.map_err(|error| self.explained(error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(context)
    }
}
