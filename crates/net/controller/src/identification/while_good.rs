//! Long answers end with the token that they were asked with.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use mutual_tls::RECHECK;
use tokio::time::{Interval, interval};

use super::Lease;

/// A body that fails once its token is not good any more.
pub(crate) struct WhileGood {
    body: Body,
    lease: Lease,
    recheck: Interval,
}

impl WhileGood {
    /// The body of an answer to somebody with this token.
    pub(crate) fn new(body: Body, lease: Lease) -> Self {
        WhileGood { body, lease, recheck: interval(RECHECK) }
    }
}

impl http_body::Body for WhileGood {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.recheck.poll_tick(context).is_ready() {
            if !self.lease.is_good() {
                return Poll::Ready(Some(Err(axum::Error::new("the token is good no more"))));
            }
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
