//! Serves HTTP and gRPC on the connections of a listener.
//!
//! The loop is ours, because neither that of tonic nor that of axum sets all limits: of headers, calls and windows, for both versions of
//! HTTP. hyper speaks the protocols, and tells the version from the first bytes of a connection.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::codegen::{BoxFuture, Service as _, http};
use tracing::debug;

use crate::access::HEALTH;
use crate::http::code;
use crate::identification::{Admitted, Identification, WhileGood};
use crate::listener::{Caller, Listener, Refusals};
use crate::metrics::{Metrics, REFUSED};
use crate::problem::{failed, is_grpc};
use crate::requests::WholeRequests;

/// The number of concurrent calls on a connection of HTTP/2.
const STREAMS_MAX: u32 = 32;
/// The largest headers of a call, in bytes.
const HEADERS_MAX: u32 = 16 << 10;
/// The flow-control window of a call, and that of all calls of a connection, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The buffer of a connection of HTTP/1, in bytes. Headers must fit into it.
const BUFFER: usize = 64 << 10;
/// The time in which the headers of a request over HTTP/1 must arrive, after the request before or the begin of the connection. So it is also
/// the longest pause of a connection that is kept.
const HEADERS_TIME: Duration = Duration::from_secs(40);

/// Serves until `stopped` completes and all calls have ended. If it is dropped before, it cancels them.
pub(crate) async fn serve(
    listener: Listener,
    app: Router,
    probe: Duration,
    (identification, metrics): (Identification, Metrics),
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let builder = builder(probe);
    let app = WholeRequests::new(app);
    let refusals = Arc::new(Refusals::default());
    let (mut connections, graceful) = (JoinSet::new(), GracefulShutdown::new());
    let (mut incoming, mut stopped) = (listener.incoming(), stopped);
    loop {
        let connection = tokio::select! {
            // A dropped sender means stop too.
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => continue,
            connection = incoming.next() => connection,
        };
        let Some(connection) = connection.transpose()? else { break };
        let identification = identification.clone();
        let (builder, app, watcher) = (builder.clone(), app.clone(), graceful.watcher());
        let metrics = metrics.clone();
        let refusals = refusals.clone();
        connections.spawn(async move {
            let caller = connection.caller();
            let strangers = identification.strangers();
            let is_encrypted = identification.credentials.is_some() && connection.is_tcp();
            let _counted = metrics.connected(match connection.is_tcp() {
                _ if is_encrypted => "tls",
                true => "tcp",
                false => "unix",
            });
            let Some(credentials) = identification.credentials.clone().filter(|_| connection.is_tcp()) else {
                let service = OfConnection { app, caller, identification, metrics };
                return serve_one(&builder, connection, service, watcher).await;
            };
            match credentials.accept(connection, strangers).await {
                Ok(stream) => {
                    let caller = caller.over_tls(stream.peer());
                    let service = OfConnection { app, caller, identification, metrics };
                    serve_one(&builder, stream, service, watcher).await;
                }
                Err(error) => {
                    refusals.refused(&caller.peer, &format_args!("the TLS handshake has failed: {error}"));
                }
            }
        });
    }
    drop(incoming);
    graceful.shutdown().await;
    Ok(())
}

/// Serves one connection to its end.
async fn serve_one(
    builder: &Builder<TokioExecutor>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: OfConnection,
    watcher: Watcher,
) {
    let peer = service.caller.peer.clone();
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(served).await {
        debug!(%peer, error, "connection ended");
    }
}

fn builder(probe: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME)
        .max_buf_size(BUFFER)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(probe)
        .keep_alive_timeout(probe);
    builder
}

/// The service of one connection: every request knows its caller, who may make it.
struct OfConnection {
    app: WholeRequests<Router>,
    caller: Caller,
    identification: Identification,
    metrics: Metrics,
}

impl hyper::service::Service<http::Request<Incoming>> for OfConnection {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let Admitted { caller, lease } = match self.identification.admit(&request, &self.caller) {
            Ok(admitted) => admitted,
            Err(status) => {
                let is_grpc = is_grpc(request.headers());
                let refused = failed(status, is_grpc);
                self.metrics.called(REFUSED, &code(&refused, is_grpc), None);
                return Box::pin(std::future::ready(Ok(refused)));
            }
        };
        // Strangers may ask for these: nothing of theirs is held.
        let is_of_health = HEALTH.contains(&request.uri().path());
        let mut request = request.map(|body| if is_of_health { Body::empty() } else { Body::new(body) });
        request.extensions_mut().insert(caller);
        let answer = self.app.clone().call(request);
        let Some(lease) = lease else { return answer };
        Box::pin(async move { Ok(answer.await?.map(|body| Body::new(WhileGood::new(body, lease)))) })
    }
}
