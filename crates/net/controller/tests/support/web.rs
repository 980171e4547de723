//! A client of HTTP over a unix socket, or another stream.

use std::path::Path;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::support::running::within;

/// A connection.
pub(crate) struct Web(SendRequest<String>);

/// The answer to a request, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Its body as JSON.
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Its body, if it has this status.
    pub(crate) fn expect(&self, status: u16) -> Json {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

impl Web {
    pub(crate) async fn connect(socket: &Path) -> Self {
        Web::over(UnixStream::connect(socket).await.expect("it listens")).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        tokio::spawn(connection);
        Web(sender)
    }

    /// Sends a request, and returns the head of the answer with its body as it comes.
    pub(crate) async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> http::Response<Incoming> {
        let mut request = Request::new(body.to_owned());
        *request.method_mut() = Method::from_bytes(method.as_bytes()).expect("a method");
        *request.uri_mut() = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        request.headers_mut().insert("host", "localhost".parse().expect("a value"));
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a value"));
        }
        self.0.ready().await.expect("the connection is open");
        within(self.0.send_request(request)).await.expect("an answer")
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Answer {
        let (head, mut body) = self.open(method, path, headers, body).await.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = next(&mut body).await {
            bytes.extend_from_slice(&frame);
        }
        let text = String::from_utf8(bytes).expect("text");
        Answer { status: head.status, headers: head.headers, text }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Answer {
        self.ask("PUT", path, &[("content-type", "application/json")], body).await
    }

    pub(crate) async fn patch(&mut self, path: &str, body: &str) -> Answer {
        self.ask("PATCH", path, &[("content-type", "application/merge-patch+json")], body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Answer {
        self.ask("DELETE", path, &[], "").await
    }
}

/// The next bytes of a body.
pub(crate) async fn next(body: &mut Incoming) -> Option<Vec<u8>> {
    loop {
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context));
        let frame = within(frame).await?;
        if let Ok(data) = frame.expect("the body is whole").into_data() {
            return Some(data.to_vec());
        }
    }
}
