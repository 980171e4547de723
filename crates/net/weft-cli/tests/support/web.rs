//! A client of HTTP over a unix socket, for controllers that may be killed at any time.

use std::path::Path;
use std::pin::Pin;

use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::net::UnixStream;

use super::controller::DEADLINE;

/// A connection.
pub(crate) struct Web(SendRequest<String>);

/// The connection broke before the answer was whole, or there was nobody to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// The answer to a request, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The revision in its `etag`.
    pub(crate) tag: Option<u64>,
    pub(crate) text: String,
}

impl Answer {
    /// Its body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Its body, if it has this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }
}

impl Web {
    pub(crate) async fn connect(socket: &Path) -> Result<Web, Lost> {
        let stream = UnixStream::connect(socket).await.map_err(|_| Lost)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Lost)?;
        tokio::spawn(connection);
        Ok(Web(sender))
    }

    /// Sends a request, and returns the head of the answer with its body as it comes. A body to send is JSON.
    pub(crate) async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
        body: String,
    ) -> Result<Response<Incoming>, Lost> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        *request.uri_mut() = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        self.0.ready().await.map_err(|_| Lost)?;
        self.0.send_request(request).await.map_err(|_| Lost)
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
        body: String,
    ) -> Result<Answer, Lost> {
        let (head, mut body) = self.open(method, path, headers, body).await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(part) = next(&mut body).await? {
            bytes.extend_from_slice(&part);
        }
        let tag = head.headers.get("etag").and_then(|tag| tag.to_str().ok()?.trim_matches('"').parse().ok());
        let text = String::from_utf8(bytes).expect("the API answers with text");
        Ok(Answer { status: head.status.as_u16(), tag, text })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer, Lost> {
        self.ask("GET", path, &[], String::new()).await
    }
}

/// The next bytes of a body; `None` at its end.
pub(crate) async fn next(body: &mut Incoming) -> Result<Option<Vec<u8>>, Lost> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame.transpose().map_err(|_| Lost)? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data.to_vec()));
                }
            }
        }
    }
}

/// The events of an answer that does not end.
pub(crate) struct Events {
    _web: Web,
    body: Incoming,
    text: String,
    /// The `id` of the event, in server-sent events.
    id: Option<u64>,
}

impl Events {
    /// Those of this body, whose connection is kept.
    pub(crate) fn new(web: Web, body: Incoming) -> Events {
        Events { _web: web, body, text: String::new(), id: None }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Json, Lost> {
        loop {
            while let Some(end) = self.text.find('\n') {
                let line: String = self.text.drain(..=end).collect();
                let line = line.trim_end();
                if let Some(id) = line.strip_prefix("id: ") {
                    self.id = Some(id.parse().unwrap());
                }
                let data = line.strip_prefix("data: ").unwrap_or(line);
                if !data.starts_with('{') {
                    continue;
                }
                let event: Json =
                    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {line}"));
                let is_sse = data.len() < line.len();
                assert!(
                    !is_sse || event["revision"].as_u64() == self.id.take(),
                    "the id is the bookmark: {event}"
                );
                return Ok(event);
            }
            let bytes = tokio::time::timeout(DEADLINE, next(&mut self.body))
                .await
                .expect("a bookmark comes in time")?;
            // Nobody must take what came for all there is: a watch breaks off.
            let bytes = bytes.expect("a watch has no end");
            self.text += std::str::from_utf8(&bytes).expect("messages are whole lines");
        }
    }
}
