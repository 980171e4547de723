//! Requests with a token, or of a trace.

use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::channel::ResponseFuture;
use tonic::transport::{Channel, Error};

/// The header that says to which trace a request belongs.
const TRACEPARENT: &str = "traceparent";

/// A channel whose requests are sent with a token and belong to a trace, if there is one.
#[derive(Debug, Clone)]
pub(super) struct Authorized {
    channel: Channel,
    authorization: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
}

impl Authorized {
    pub(super) fn new(channel: Channel, authorization: Option<HeaderValue>) -> Self {
        Authorized { channel, authorization, traceparent: None }
    }

    /// The same for requests of this trace. What no header can have belongs to none.
    pub(super) fn in_trace(self, traceparent: &str) -> Self {
        Authorized { traceparent: HeaderValue::try_from(traceparent).ok(), ..self }
    }
}

/// The header with a token; `None` if it has characters that no header can have.
pub(super) fn header(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    // Whoever prints a request does not print it.
    header.set_sensitive(true);
    Some(header)
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(traceparent) = &self.traceparent {
            request.headers_mut().insert(TRACEPARENT, traceparent.clone());
        }
        self.channel.call(request)
    }
}
