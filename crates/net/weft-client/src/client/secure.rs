//! Connections to a controller over TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use mutual_tls::{Credentials, SecureStream};
use tokio::net::TcpStream;
use tonic::codegen::Service;

/// The begin of addresses at which TLS is spoken.
pub(super) const SCHEME: &str = "https://";

/// Makes the connections of a channel, which believes that they are clear: what it needs of TLS is done here.
#[derive(Debug, Clone)]
pub(super) struct Secure(pub(super) Arc<Credentials>);

impl Service<Uri> for Secure {
    type Response = TokioIo<SecureStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let credentials = self.0.clone();
        Box::pin(async move {
            let host = address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let port = address.port_u16().ok_or_else(|| io::Error::other("the address has no port"))?;
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            // Requests are small; they are made even without this option.
            let _ = stream.set_nodelay(true);
            Ok(TokioIo::new(credentials.connect_to_controller(stream, &host).await?))
        })
    }
}
