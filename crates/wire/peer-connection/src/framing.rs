//! Messages on a byte stream: bytes are read, cut into messages by a codec, and written, in buffers that exist only while
//! they are used.
//!
//! A controller has thousands of connections, and nearly all of them wait nearly all the time. What arrives is read into
//! a buffer of the thread, and only an incomplete message is kept.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::{ConnectionError, ConnectionResult, Protocol};
use crate::memory::{Account, Charge};
use crate::timed_stream::TimedStream;

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// A connection lets others run after it has read so many bytes.
const TURN_BYTES: usize = 256 << 10;

thread_local! {
    /// Where the connections of this thread read into.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

pub(crate) struct Framing<P> {
    pub(crate) stream: TimedStream,
    pub(crate) protocol: P,
    /// The beginning of a message.
    read: BytesMut,
    /// Whether `read` may have a whole message.
    is_fresh: bool,
    ended: bool,
    pub(crate) write: BytesMut,
    /// For large messages.
    memory: Charge,
}

impl<P: Protocol> Framing<P> {
    pub(crate) fn new(stream: TimedStream, protocol: P, account: &Account) -> Self {
        let (read, write, memory) = (BytesMut::new(), BytesMut::new(), account.charge());
        Framing { stream, protocol, read, is_fresh: false, ended: false, write, memory }
    }

    /// The number of bytes of the incomplete message.
    pub(crate) fn received(&self) -> usize {
        self.read.len()
    }

    /// The bytes that its buffers take.
    pub(crate) fn capacity(&self) -> usize {
        self.read.capacity() + self.write.capacity()
    }

    /// The next message; none after the end of the stream.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionResult<P::Item, P>>> {
        let mut read = 0;
        loop {
            if self.is_fresh {
                let decoded = if self.ended {
                    self.protocol.decode_eof(&mut self.read)
                } else {
                    self.protocol.decode(&mut self.read)
                };
                if let Some(message) = decoded.transpose() {
                    self.tidy();
                    return Poll::Ready(Some(message));
                }
                self.is_fresh = false;
                if let Err(error) = self.account() {
                    return Poll::Ready(Some(Err(error)));
                }
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if read >= TURN_BYTES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(self.poll_read(cx)) {
                Ok(bytes) => {
                    (self.is_fresh, self.ended) = (true, bytes == 0);
                    read += bytes;
                }
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut into = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
            self.read.extend_from_slice(into.filled());
            Poll::Ready(Ok(into.filled().len()))
        })
    }

    /// Frees what a whole message has left behind.
    fn tidy(&mut self) {
        if self.read.is_empty() {
            self.read = BytesMut::new();
        } else if self.memory.bytes() > 0 {
            // The rest is that of one read, in the buffer of a large message.
            self.read = BytesMut::from(&*self.read);
        } else {
            return;
        }
        // Less never fails, unless the peer is to be disconnected, which the connection learns by itself.
        let _ = self.memory.set(0);
    }

    /// Charges the buffer of a large incomplete message.
    fn account(&mut self) -> ConnectionResult<(), P> {
        let capacity = self.read.capacity();
        if self.read.is_empty() {
            self.read = BytesMut::new();
        } else if capacity > READ_BYTES {
            self.memory.set(capacity).map_err(ConnectionError::OverBudget)?;
        }
        Ok(())
    }

    /// Writes as much as the peer takes. Ready when it has taken everything.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.write.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.write))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.write.advance(written);
        }
        self.write = BytesMut::new();
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}
