//! Requests with a token.

use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::channel::ResponseFuture;
use tonic::transport::{Channel, Error};

/// A channel whose requests are sent with a token, if there is one.
#[derive(Debug, Clone)]
pub(super) struct Authorized {
    channel: Channel,
    authorization: Option<HeaderValue>,
}

impl Authorized {
    pub(super) fn new(channel: Channel, authorization: Option<HeaderValue>) -> Self {
        Authorized { channel, authorization }
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
        self.channel.call(request)
    }
}
