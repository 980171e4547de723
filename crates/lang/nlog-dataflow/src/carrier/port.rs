//! A worker's end of the channel that carries messages.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timely::communication::{Pull, Push};
use timely::worker::Worker;

use super::envelope::{Content, Envelope};
use super::meeting::name;
use super::socket::Link;
use super::{Codec, Lost};

/// The number of bytes of a message to send at once. Timely's buffers have 1 MiB and grow permanently if more is
/// written to them.
const PIECE: usize = 1 << 18;

/// How long a worker that waits in the middle of its work stays awake. A round of a small transaction takes a few
/// microseconds, and it takes tens of them to wake a thread that sleeps.
const AWAKE: Duration = Duration::from_micros(100);

/// The worker that the others serve.
pub(super) const LEAD: usize = 0;

/// A worker's end. Clones are the same end.
pub(crate) struct Port<B>(Rc<RefCell<Line<B>>>);

impl<B> Clone for Port<B> {
    fn clone(&self) -> Self {
        Port(Rc::clone(&self.0))
    }
}

/// The process of a worker, and the connections to the others.
#[derive(Clone)]
pub(super) struct Site {
    /// The workers of this process.
    pub(super) local: Range<usize>,
    /// By process, except this one. Empty if there is only one process, or if the connections are timely's.
    pub(super) links: Arc<Vec<Option<Arc<Link>>>>,
    /// The addresses of all processes, for messages about them.
    pub(super) addresses: Arc<Vec<String>>,
}

struct Line<B> {
    me: usize,
    peers: usize,
    site: Site,
    codec: Arc<dyn Codec<B>>,
    /// Present until the worker leaves.
    ends: Option<Ends<B>>,
    /// By worker, the received part of an incomplete message.
    begun: Vec<Vec<u8>>,
    /// By worker, what has arrived from it.
    arrived: Vec<VecDeque<Arrived<B>>>,
    /// What to do with a note of worker 0.
    on_note: OnNote,
    /// The workers that have left with success.
    left: Vec<bool>,
    /// By process, how far this worker has followed the end of the connection.
    closed: Vec<Closed>,
    lost: Option<String>,
    /// Whether the others know that this worker fails.
    told: bool,
    waits_since: Option<Instant>,
}

type OnNote = Box<dyn Fn(&[u8])>;

/// Timely's ends of the channel.
struct Ends<B> {
    out: Vec<Box<dyn Push<Envelope<B>>>>,
    incoming: Box<dyn Pull<Envelope<B>>>,
}

enum Arrived<B> {
    Body(B),
    Note(Vec<u8>),
}

/// How far a worker has followed the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    No,
    /// The connection has ended. Timely surfaces what has arrived before that at the next step.
    Noticed,
    Yes,
}

impl<B: Send + 'static> Port<B> {
    /// The end of a worker of timely. All workers must make it at the same point of their work. What arrives activates
    /// the operator at `address`.
    pub(super) fn new(worker: &Worker, address: Rc<[usize]>, site: Site, codec: Arc<dyn Codec<B>>) -> Self {
        let (out, incoming) = worker.allocate(worker.new_identifier(), address);
        let peers = worker.peers();
        Port(Rc::new(RefCell::new(Line {
            me: worker.index(),
            peers,
            closed: vec![Closed::No; site.links.len()],
            site,
            codec,
            ends: Some(Ends { out, incoming }),
            begun: vec![Vec::new(); peers],
            arrived: (0..peers).map(|_| VecDeque::new()).collect(),
            on_note: Box::new(|_| {}),
            left: vec![false; peers],
            lost: None,
            told: false,
            waits_since: None,
        })))
    }
}

impl<B> Port<B> {
    /// The number of this worker.
    pub(crate) fn me(&self) -> usize {
        self.0.borrow().me
    }

    /// The number of workers in all processes.
    pub(crate) fn peers(&self) -> usize {
        self.0.borrow().peers
    }

    /// Whether another worker has the same memory.
    pub(crate) fn is_local(&self, worker: usize) -> bool {
        self.0.borrow().site.local.contains(&worker)
    }

    /// Sends a message to a worker, which may be this one.
    pub(crate) fn send(&self, to: usize, body: B) -> Result<(), Lost> {
        self.0.borrow_mut().send(to, body)
    }

    /// Sends a message to each other worker. It becomes bytes once.
    pub(crate) fn broadcast(&self, body: B) -> Result<(), Lost>
    where
        B: Clone,
    {
        self.0.borrow_mut().broadcast(body)
    }

    /// Waits for the next message of a worker, in the middle of work that needs it. Stays awake for a while. Messages of
    /// other workers wait: a fast worker can send one before this worker expects it.
    pub(crate) async fn receive(&self, from: usize) -> Result<B, Lost> {
        poll_fn(|context| self.0.borrow_mut().poll_receive(from, context)).await
    }

    /// Waits for the message of worker 0 that begins the next work, and sleeps at once. Returns `None` after worker 0 has
    /// left.
    pub(crate) async fn rest(&self) -> Result<Option<B>, Lost> {
        poll_fn(|context| self.0.borrow_mut().poll_rest(context)).await
    }

    /// Who was lost and why.
    pub(crate) fn why(&self) -> String {
        self.0.borrow().lost.clone().unwrap_or_else(|| "no worker was lost".to_owned())
    }

    /// Tells all other workers that this one cannot continue.
    pub(crate) fn fail(&self, why: &str) {
        self.0.borrow_mut().fail(why);
    }

    /// The name of this worker in messages.
    pub(super) fn name(&self) -> String {
        let line = self.0.borrow();
        line.name_of(line.me)
    }

    /// Ends the worker's part. Tells the others, and gives the channel back to timely.
    pub(super) fn leave(&self) {
        self.0.borrow_mut().leave();
    }

    /// Sends a note to each other worker.
    pub(super) fn send_note(&self, note: &[u8]) {
        let mut line = self.0.borrow_mut();
        line.others().for_each(|to| line.push(to, Content::Note(note.to_vec())));
    }

    /// Sets what to do with a note, after all messages that were sent before it.
    pub(super) fn on_note(&self, on_note: impl Fn(&[u8]) + 'static) {
        self.0.borrow_mut().on_note = Box::new(on_note);
    }
}

impl<B> Line<B> {
    fn others(&self) -> impl Iterator<Item = usize> + use<B> {
        let me = self.me;
        (0..self.peers).filter(move |worker| *worker != me)
    }

    fn name_of(&self, worker: usize) -> String {
        let process = worker / self.site.local.len().max(1);
        match self.site.addresses.get(process) {
            Some(address) => format!("worker {worker} of {}", name(process, address)),
            None => format!("worker {worker}"),
        }
    }

    fn push(&mut self, to: usize, content: Content<B>) {
        // Timely's own connections can be broken while the thread panics, and must not be used then.
        if std::thread::panicking() && self.site.links.is_empty() && !self.site.local.contains(&to) {
            return;
        }
        if let Some(ends) = &mut self.ends {
            ends.out[to].send(Envelope { from: self.me, content });
        }
    }

    fn push_bytes(&mut self, to: usize, bytes: &Arc<Vec<u8>>) {
        let mut begin = 0;
        loop {
            let end = bytes.len().min(begin + PIECE);
            let more = end < bytes.len();
            self.push(to, Content::Piece(Arc::clone(bytes), begin..end, more));
            if !more {
                return;
            }
            begin = end;
        }
    }

    fn encode(&mut self, body: B) -> Result<Arc<Vec<u8>>, Lost> {
        let bytes = self.codec.encode(body);
        bytes.map(Arc::new).map_err(|why| {
            let why = format!("{} cannot send a message: {why}", self.name_of(self.me));
            self.lose(why)
        })
    }

    fn send(&mut self, to: usize, body: B) -> Result<(), Lost> {
        if self.lost.is_some() {
            return Err(Lost);
        }
        if self.site.local.contains(&to) {
            self.push(to, Content::Body(body));
        } else {
            let bytes = self.encode(body)?;
            self.push_bytes(to, &bytes);
        }
        Ok(())
    }

    fn broadcast(&mut self, body: B) -> Result<(), Lost>
    where
        B: Clone,
    {
        if self.lost.is_some() {
            return Err(Lost);
        }
        let mut bytes = None;
        for to in self.others() {
            if self.site.local.contains(&to) {
                self.push(to, Content::Body(body.clone()));
            } else {
                let whole = bytes.take().map_or_else(|| self.encode(body.clone()), Ok)?;
                self.push_bytes(to, &whole);
                bytes = Some(whole);
            }
        }
        Ok(())
    }

    fn lose(&mut self, why: String) -> Lost {
        self.lost.get_or_insert(why);
        Lost
    }

    fn fail(&mut self, why: &str) {
        self.lose(why.to_owned());
        let why = self.lost.clone().unwrap_or_default();
        if !std::mem::replace(&mut self.told, true) {
            self.others().for_each(|to| self.push(to, Content::Failed(why.clone())));
        }
    }

    fn leave(&mut self) {
        if self.ends.is_none() {
            return;
        }
        if std::thread::panicking() {
            let why = format!("{} panicked", self.name_of(self.me));
            self.lose(why);
        } else if self.me != LEAD && !self.left[LEAD] {
            let why = format!("{} ended before worker {LEAD}", self.name_of(self.me));
            self.lose(why);
        }
        match self.lost.clone() {
            Some(why) => self.fail(&why),
            None => self.others().for_each(|to| self.push(to, Content::Left)),
        }
        self.ends = None;
    }

    /// Takes what has arrived.
    fn collect(&mut self) {
        let Some(mut ends) = self.ends.take() else { return };
        while let Some(Envelope { from, content }) = ends.incoming.recv() {
            match content {
                _ if from >= self.peers => {}
                Content::Body(body) => self.arrived[from].push_back(Arrived::Body(body)),
                Content::Piece(bytes, range, true) => self.begun[from].extend_from_slice(&bytes[range]),
                Content::Piece(bytes, range, false) if self.begun[from].is_empty() => {
                    self.decode(from, &bytes[range]);
                }
                Content::Piece(bytes, range, false) => {
                    let mut whole = std::mem::take(&mut self.begun[from]);
                    whole.extend_from_slice(&bytes[range]);
                    self.decode(from, &whole);
                }
                Content::Note(note) => self.arrived[from].push_back(Arrived::Note(note)),
                Content::Left => self.left[from] = true,
                Content::Failed(why) => {
                    self.lose(why);
                }
                Content::Unreadable => self.decode_failed(from, "it has no meaning"),
            }
        }
        self.ends = Some(ends);
    }

    fn decode(&mut self, from: usize, bytes: &[u8]) {
        match self.codec.decode(bytes) {
            Ok(body) => self.arrived[from].push_back(Arrived::Body(body)),
            Err(why) => self.decode_failed(from, &why),
        }
    }

    fn decode_failed(&mut self, from: usize, why: &str) {
        let why = format!("{} sent an invalid message: {why}", self.name_of(from));
        self.lose(why);
    }

    /// The next message of a worker, if it has arrived.
    fn next(&mut self, from: usize) -> Option<B> {
        self.collect();
        loop {
            match self.arrived[from].pop_front()? {
                Arrived::Body(body) => {
                    self.waits_since = None;
                    return Some(body);
                }
                Arrived::Note(note) => (self.on_note)(&note),
            }
        }
    }

    /// Follows the ends of connections. Returns whether this worker must look once more, after a step of timely.
    fn follow_links(&mut self) -> bool {
        let mut again = false;
        for process in 0..self.closed.len() {
            let Some(why) = self.site.links[process].as_ref().and_then(|link| link.ended()) else { continue };
            match self.closed[process] {
                Closed::No => {
                    self.closed[process] = Closed::Noticed;
                    again = true;
                }
                Closed::Noticed => {
                    self.closed[process] = Closed::Yes;
                    let workers = self.site.local.len();
                    if !self.left[process * workers..(process + 1) * workers].iter().all(|left| *left) {
                        let name = name(process, &self.site.addresses[process]);
                        self.lose(format!("{name} disconnected: {why}"));
                    }
                }
                Closed::Yes => {}
            }
        }
        again
    }

    fn poll_rest(&mut self, context: &Context) -> Poll<Result<Option<B>, Lost>> {
        if let Some(message) = self.next(LEAD) {
            return Poll::Ready(Ok(Some(message)));
        }
        if self.follow_links() {
            context.waker().wake_by_ref();
        }
        if self.lost.is_some() {
            return Poll::Ready(Err(Lost));
        }
        if self.left[LEAD] { Poll::Ready(Ok(None)) } else { Poll::Pending }
    }

    fn poll_receive(&mut self, from: usize, context: &Context) -> Poll<Result<B, Lost>> {
        if let Some(message) = self.next(from) {
            return Poll::Ready(Ok(message));
        }
        let again = self.follow_links();
        if self.left[from] {
            let why = format!("{} ended in the middle of the work", self.name_of(from));
            self.lose(why);
        }
        if self.lost.is_some() {
            return Poll::Ready(Err(Lost));
        }
        let is_awake = self.waits_since.is_none_or(|since| since.elapsed() < AWAKE);
        self.waits_since.get_or_insert_with(Instant::now);
        if again || is_awake {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<B> Drop for Line<B> {
    fn drop(&mut self) {
        self.leave();
    }
}
