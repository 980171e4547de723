//! Connections for timely's communication layer that record how they end.
//!
//! Timely's threads panic if a connection breaks, and report nothing if a peer closes it. Here, both events are
//! recorded in a [`Link`], which waiters check, and timely always sees a stream that ends properly: zeros replace the
//! missing part of a message, by which [`Frame`](super::mesh::Frame) recognises that it is truncated, and the empty
//! message that ends timely's streams follows.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use timely::communication::allocator::zero_copy::stream::Stream;

/// The size of a message's header: six numbers (`timely_communication::networking::MessageHeader`).
const HEADER: usize = 6 * size_of::<u64>();
/// The position in the header of the number of bytes that follow, highest byte first.
const LENGTH: std::ops::Range<usize> = 4 * size_of::<u64>()..5 * size_of::<u64>();

/// The state of the connection to a peer.
#[derive(Debug, Default)]
pub(super) struct Link {
    ended: Mutex<Option<String>>,
}

impl Link {
    /// The reason why the peer cannot send anything more.
    pub(super) fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, why: &str) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.to_owned());
    }
}

/// A connection to a peer.
pub(super) struct Socket {
    stream: TcpStream,
    link: Arc<Link>,
    messages: Messages,
    /// Whether the stream has ended.
    over: bool,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, link: Arc<Link>) -> Self {
        Socket { stream, link, messages: Messages::default(), over: false }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.over {
            match self.stream.read(buffer) {
                Ok(0) => self.link.end("it closed the connection"),
                Ok(read) => {
                    self.messages.follow(&buffer[..read]);
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => self.link.end(&error.to_string()),
            }
            self.over = true;
        }
        let filled = self.messages.missing().min(buffer.len());
        buffer[..filled].fill(0);
        self.messages.follow(&buffer[..filled]);
        Ok(filled)
    }
}

impl Write for Socket {
    /// Drops bytes for a lost peer. The reader notices the loss.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self.stream.write(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Ok(buffer.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Socket {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Socket::new(self.stream.try_clone()?, Arc::clone(&self.link)))
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    /// Closes both directions, no matter which one is requested: a process that sends nothing more waits for nothing
    /// more. Closing a closed connection is no error.
    fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        let _ = self.stream.shutdown(Shutdown::Both);
        Ok(())
    }
}

/// The boundaries of messages in a stream.
#[derive(Debug, Default)]
struct Messages {
    /// The number of header bytes read.
    read: usize,
    /// The number of bytes after the header, as far as it has been read.
    length: usize,
    /// The number of missing bytes after the header.
    rest: usize,
    /// Whether the empty message, the last one, has been read.
    last: bool,
}

impl Messages {
    /// Advances over bytes that were read.
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.last {
            if self.rest > 0 {
                let taken = self.rest.min(bytes.len());
                self.rest -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            if LENGTH.contains(&self.read) {
                self.length = self.length << 8 | usize::from(bytes[0]);
            }
            self.read += 1;
            bytes = &bytes[1..];
            if self.read == HEADER {
                *self = Messages { read: 0, length: 0, rest: self.length, last: self.length == 0 };
            }
        }
    }

    /// The number of bytes missing until the message, or the stream, is complete.
    fn missing(&self) -> usize {
        match self.rest {
            _ if self.last => 0,
            0 => HEADER - self.read,
            rest => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A message in timely's format.
    fn message(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [0, 1, 0, 1, body.len() as u64, 0] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_stream_that_breaks_anywhere_ends_in_good_order() {
        let whole = [message(b"first"), message(&[7; 300])].concat();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        for cut in 0..=whole.len() {
            let mut peer = TcpStream::connect(address).expect("somebody listens");
            let (stream, _) = listener.accept().expect("somebody came");
            peer.write_all(&whole[..cut]).expect("somebody reads");
            drop(peer);
            let link = Arc::new(Link::default());
            let mut read = Vec::new();
            Socket::new(stream, Arc::clone(&link)).read_to_end(&mut read).expect("it ends");
            assert!(link.ended().is_some());
            assert!(read.starts_with(&whole[..cut]));
            assert!(read[cut..].iter().all(|byte| *byte == 0), "what is missing is zeros");
            let mut messages = Messages::default();
            messages.follow(&read);
            assert!(messages.last, "after {cut} bytes");
            messages = Messages::default();
            messages.follow(&read[..read.len() - 1]);
            assert!(!messages.last, "it ends where it has to");
        }
    }
}
