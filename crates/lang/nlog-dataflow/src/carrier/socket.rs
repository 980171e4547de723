//! Connections for timely's communication layer that record how they end.
//!
//! Timely's threads panic if a connection breaks, which takes the whole process down. Here the end is recorded in a
//! [`Link`], which waiting workers check, and timely always sees a stream that ends properly: a message is passed on
//! once it has arrived whole, and the empty message follows that ends timely's streams.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use timely::communication::allocator::zero_copy::stream::Stream;

/// The size of a message's header: six numbers.
const HEADER: usize = 6 * size_of::<u64>();
/// The position in the header of the number of bytes that follow, highest byte first.
const LENGTH: std::ops::Range<usize> = 4 * size_of::<u64>()..5 * size_of::<u64>();

/// The state of the connection to a process.
#[derive(Debug, Default)]
pub(super) struct Link {
    ended: Mutex<Option<String>>,
    changed: Condvar,
}

impl Link {
    /// The reason why the process cannot send anything more. Timely has all that it has sent before.
    pub(super) fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, why: &str) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
    }

    /// Waits until the process has closed the connection, but not for ever.
    pub(super) fn await_end(&self, limit: Duration) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(ended, limit, |ended| ended.is_none()));
    }
}

/// A connection to a process.
pub(super) struct Socket {
    stream: BufReader<TcpStream>,
    link: Arc<Link>,
    /// A whole message, of which this many bytes are read.
    message: Vec<u8>,
    read: usize,
    /// Whether the message is the last one.
    last: bool,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, link: Arc<Link>) -> Self {
        Socket { stream: BufReader::new(stream), link, message: Vec::new(), read: 0, last: false }
    }

    /// Waits for a message. At the end of the connection, it is the empty one.
    fn next_message(&mut self) {
        self.message.clear();
        self.read = 0;
        let whole = read_message(&mut self.stream, &mut self.message);
        if let Err(error) = &whole {
            let closed = error.kind() == io::ErrorKind::UnexpectedEof;
            self.link
                .end(if closed { "it closed the connection".to_owned() } else { error.to_string() }.as_str());
            self.message.clear();
            self.message.resize(HEADER, 0);
        }
        self.last = self.message[LENGTH].iter().all(|byte| *byte == 0);
        if self.last && whole.is_ok() {
            self.link.end("it ended");
        }
    }
}

/// Reads a header and what it announces.
fn read_message(stream: &mut impl Read, message: &mut Vec<u8>) -> io::Result<()> {
    stream.take(HEADER as u64).read_to_end(message)?;
    let length =
        message.get(LENGTH).and_then(|length| length.first_chunk()).map(|length| u64::from_be_bytes(*length));
    let length = length.filter(|_| message.len() == HEADER).ok_or(io::ErrorKind::UnexpectedEof)?;
    let read = stream.take(length).read_to_end(message)?;
    if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.message.len() && !self.last {
            self.next_message();
        }
        let read = (&self.message[self.read..]).read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for Socket {
    /// Drops bytes for a lost process. The reader notices the loss.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self.stream.get_ref().write(buffer) {
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
        Ok(Socket::new(self.stream.get_ref().try_clone()?, Arc::clone(&self.link)))
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.get_ref().set_nonblocking(nonblocking)
    }

    /// Closing a closed connection is no error.
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let _ = self.stream.get_ref().shutdown(how);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A message in timely's format.
    fn message(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [0, 0, 0, 0, body.len() as u64, 0] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_stream_that_breaks_anywhere_ends_in_good_order() {
        let (first, second) = (message(b"first"), message(&[7; 300]));
        let whole = [first.clone(), second].concat();
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
            assert_eq!(link.ended().as_deref(), Some("it closed the connection"));
            let complete = if cut == whole.len() {
                cut
            } else if cut < first.len() {
                0
            } else {
                first.len()
            };
            assert_eq!(read, [&whole[..complete], &message(b"")].concat().as_slice(), "after {cut} bytes");
        }
    }
}
