//! Carries packets, requests and replies between processes over timely's communication layer.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use timely::bytes::arc::Bytes;
use timely::communication::allocator::ProcessBuilder;
use timely::communication::allocator::zero_copy::initialize::{
    CommsGuard, initialize_networking_from_sockets,
};
use timely::communication::{Allocator, Bytesable, Hooks, Pull, Push};

use super::socket::{Link, Socket};
use super::wire::{Message, decode, encode};
use crate::fused::rounds::{Carrier, Lost, Packet};
use crate::fused::workers::{Answer, Order, Others, Superior};
use crate::symbol::Symbols;

/// The number of bytes of a message to send at once. Timely's buffers have 1 MiB and grow permanently if more is
/// written to them.
const PIECE: usize = 1 << 18;
/// The number of empty buffers kept per connection.
const SPARE_BUFFERS: usize = 2;

/// A process with its connections to all others.
pub(super) struct Mesh {
    me: usize,
    /// Present until this is dropped.
    lines: Option<Lines>,
    peers: Vec<Peer>,
    symbols: Arc<Symbols>,
    /// The reason why this process cannot continue.
    failed: Option<String>,
}

/// Timely's handles to the connections. They are dropped in this order, which ends the streams after everything is
/// sent.
struct Lines {
    out: Vec<Box<dyn Push<Frame>>>,
    incoming: Box<dyn Pull<Frame>>,
    allocator: Allocator,
    _threads: CommsGuard,
}

/// Another process. This process's own entry is empty.
struct Peer {
    /// Its name in errors.
    name: String,
    stream: Option<TcpStream>,
    link: Arc<Link>,
    /// The received part of an incomplete message.
    begun: Vec<u8>,
    messages: VecDeque<Vec<u8>>,
}

/// A piece of a message.
pub(super) struct Frame {
    from: u32,
    bytes: Vec<u8>,
    end: End,
}

/// The last byte of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum End {
    /// The frame was truncated.
    Torn = 0,
    /// The frame ends its message.
    OfMessage = 1,
    /// Another frame follows.
    OfPiece = 2,
}

impl Bytesable for Frame {
    fn from_bytes(bytes: Bytes) -> Self {
        let torn = Frame { from: 0, bytes: Vec::new(), end: End::Torn };
        let Some((from, rest)) = bytes.split_first_chunk() else { return torn };
        let Some((end, rest)) = rest.split_last() else { return torn };
        let end = match end {
            1 => End::OfMessage,
            2 => End::OfPiece,
            _ => return torn,
        };
        Frame { from: u32::from_le_bytes(*from), bytes: rest.to_vec(), end }
    }

    fn length_in_bytes(&self) -> usize {
        size_of_val(&self.from) + self.bytes.len() + 1
    }

    fn into_bytes<W: std::io::Write>(&self, writer: &mut W) {
        // The writer has the announced length; a frame that does not fit would arrive truncated.
        let written = writer.write_all(&self.from.to_le_bytes());
        let written = written.and_then(|()| writer.write_all(&self.bytes));
        let _ = written.and_then(|()| writer.write_all(&[self.end as u8]));
    }
}

impl Mesh {
    /// Takes over the connections to all other processes, each with the process's name, in order. This process's own
    /// entry is empty. The mesh stays in its thread, which timely's threads wake.
    pub(super) fn new(
        me: usize,
        connections: Vec<Option<(TcpStream, String)>>,
        symbols: Arc<Symbols>,
    ) -> std::io::Result<Self> {
        let mut peers = Vec::new();
        let mut sockets = Vec::new();
        for connection in connections {
            let link = Arc::new(Link::default());
            let (stream, name) = connection.unzip();
            let again = stream.as_ref().map(TcpStream::try_clone).transpose()?;
            sockets.push(again.map(|stream| Socket::new(stream, Arc::clone(&link))));
            let name = name.unwrap_or_default();
            peers.push(Peer { name, stream, link, begun: Vec::new(), messages: VecDeque::new() });
        }
        let mut hooks = Hooks::default();
        hooks.refill.limit = Some(SPARE_BUFFERS);
        let inner = ProcessBuilder::new_typed_vector(1, hooks.refill.clone(), None);
        let (builders, threads) = initialize_networking_from_sockets(inner, sockets, me, 1, hooks)?;
        let builder =
            builders.into_iter().next().ok_or_else(|| std::io::Error::other("there is no worker"))?;
        let mut allocator = Allocator::Tcp(builder.build());
        let (out, incoming) = allocator.allocate(0);
        let lines = Some(Lines { out, incoming, allocator, _threads: threads });
        Ok(Mesh { me, lines, peers, symbols, failed: None })
    }

    /// The reason why this process cannot continue.
    pub(super) fn why(&self) -> String {
        self.failed.clone().unwrap_or_else(|| "unexpected answer from a process".to_owned())
    }

    fn fail(&mut self, why: String) -> Lost {
        self.failed.get_or_insert(why);
        Lost
    }

    /// Tells all others that this process cannot continue.
    pub(super) fn say_failed(&mut self, why: &str) {
        self.say(Message::Failed(why.to_owned()));
    }

    fn say(&mut self, message: Message) {
        if let Ok(bytes) = encode(message, &self.symbols) {
            self.others().for_each(|peer| self.send_bytes(peer, &bytes));
        }
    }

    fn send_bytes(&mut self, to: usize, bytes: &[u8]) {
        let Some(lines) = &mut self.lines else { return };
        let mut pieces = bytes.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let end = if pieces.peek().is_some() { End::OfPiece } else { End::OfMessage };
            lines.out[to].send(Frame { from: self.me as u32, bytes: piece.to_vec(), end });
        }
        lines.allocator.release();
    }

    fn send(&mut self, to: usize, message: Message) -> Result<(), Lost> {
        let bytes = encode(message, &self.symbols).map_err(|why| self.fail(why))?;
        self.send_bytes(to, &bytes);
        Ok(())
    }

    /// Waits for a message from a process. The end of that process is an error, reported after all its messages.
    fn receive(&mut self, from: usize) -> Result<Message, Lost> {
        loop {
            if let Some(bytes) = self.peers[from].messages.pop_front() {
                let message = decode(&bytes, &self.symbols);
                let name = &self.peers[from].name;
                return match message {
                    Ok(Message::Failed(why)) => Err(self.fail(why)),
                    Ok(message) => Ok(message),
                    Err(why) => {
                        let why = format!("{name} sent an invalid message: {why}");
                        Err(self.fail(why))
                    }
                };
            }
            // Read this before polling: if the end is recorded, everything has arrived.
            let ended = self.peers[from].link.ended();
            self.look();
            if !self.peers[from].messages.is_empty() {
                continue;
            }
            if let Some(why) = ended {
                let why = format!("{} disconnected: {why}", self.peers[from].name);
                return Err(self.fail(why));
            }
            if let Some(lines) = &self.lines {
                lines.allocator.await_events(None);
            }
        }
    }

    /// Collects the messages that have arrived.
    fn look(&mut self) {
        let Some(lines) = &mut self.lines else { return };
        lines.allocator.receive();
        while let Some(frame) = lines.incoming.recv() {
            let Some(peer) = self.peers.get_mut(frame.from as usize) else { continue };
            match frame.end {
                End::Torn => {}
                End::OfPiece => peer.begun.extend_from_slice(&frame.bytes),
                End::OfMessage if peer.begun.is_empty() => peer.messages.push_back(frame.bytes),
                End::OfMessage => {
                    peer.begun.extend_from_slice(&frame.bytes);
                    peer.messages.push_back(std::mem::take(&mut peer.begun));
                }
            }
        }
        lines.allocator.events().borrow_mut().clear();
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.peers.len()).filter(move |peer| *peer != me)
    }

    fn unexpected(&mut self, from: usize) -> Lost {
        let why = format!("{} sent an unexpected message", self.peers[from].name);
        self.fail(why)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Timely would panic in all its threads, and once more here, which would abort the whole process. Therefore
            // leak its parts. The others learn from their connections that this process has ended.
            for stream in self.peers.iter().filter_map(|peer| peer.stream.as_ref()) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            std::mem::forget(self.lines.take());
        } else if self.me == 0 && self.failed.is_none() {
            self.say(Message::Done);
        }
    }
}

impl Carrier for Mesh {
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
        for (to, packet) in out.into_iter().enumerate() {
            if to != self.me {
                self.send(to, Message::Packet(packet))?;
            }
        }
        let mut received = vec![Packet::default()];
        received.resize_with(self.peers.len(), Packet::default);
        for from in self.others() {
            match self.receive(from)? {
                Message::Packet(packet) => received[from] = packet,
                _ => return Err(self.unexpected(from)),
            }
        }
        Ok(received)
    }
}

impl Others for Mesh {
    fn tell(&mut self, order: &Order) -> Result<(), Lost> {
        let bytes = encode(Message::Order(order.clone()), &self.symbols).map_err(|why| self.fail(why))?;
        self.others().for_each(|to| self.send_bytes(to, &bytes));
        Ok(())
    }

    fn answers(&mut self) -> Result<Vec<Answer>, Lost> {
        let mut answers = Vec::new();
        for from in self.others() {
            match self.receive(from)? {
                Message::Answer(answer) => answers.push(answer),
                _ => return Err(self.unexpected(from)),
            }
        }
        Ok(answers)
    }

    fn have_own_symbols(&self) -> bool {
        true
    }

    fn stop(&mut self) -> String {
        let why = self.why();
        self.say_failed(&why);
        self.failed = Some(why.clone());
        why
    }
}

impl Superior for Mesh {
    fn order(&mut self) -> Result<Option<Order>, Lost> {
        match self.receive(0)? {
            Message::Order(order) => Ok(Some(order)),
            Message::Done => Ok(None),
            _ => Err(self.unexpected(0)),
        }
    }

    fn answer(&mut self, answer: Answer) -> Result<(), Lost> {
        self.send(0, Message::Answer(answer))
    }
}
