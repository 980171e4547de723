//! A stream that records the last time at which bytes moved in each direction.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::dial::Stream;

pub(crate) struct TimedStream {
    stream: Stream,
    pub(crate) last_read: Instant,
    pub(crate) last_write: Instant,
    /// The last time at which the peer took bytes after it had taken none. Only this proves that the peer reads.
    pub(crate) last_drain: Instant,
    full: bool,
}

impl TimedStream {
    pub(crate) fn new(stream: Stream) -> Self {
        let now = Instant::now();
        TimedStream { stream, last_read: now, last_write: now, last_drain: now, full: false }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.last_read = Instant::now();
        }
        polled
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        match polled {
            Poll::Ready(Ok(1..)) => {
                self.last_write = Instant::now();
                if std::mem::take(&mut self.full) {
                    self.last_drain = self.last_write;
                }
            }
            Poll::Pending => self.full = true,
            Poll::Ready(_) => {}
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
