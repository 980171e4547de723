//! The network between the controller and its hosts, with faults.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use peer_connection::{Dial, Dialling, Endpoint, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::sleep;

/// The capacity of each half of a link, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes of a segment.
const SEGMENT_BYTES: usize = 16 << 10;

/// All endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links(Arc<BTreeMap<String, Arc<Link>>>);

/// The link to one endpoint.
pub(crate) struct Link {
    condition: watch::Sender<Condition>,
    /// The fault of the next connection that carries enough bytes.
    next: Mutex<Option<Cut>>,
    accepting: UnboundedSender<Stream>,
}

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Whether bytes pass to the host, and from it.
    pub(crate) passes: [bool; 2],
    /// Whether dialling is refused.
    pub(crate) refuses: bool,
    /// Whether dialling gets no answer.
    pub(crate) hangs: bool,
    /// The delay of each segment.
    pub(crate) latency: Duration,
    /// The most bytes of a segment.
    pub(crate) segment: usize,
    /// How often all connections were reset.
    pub(crate) resets: u64,
}

/// A fault at one byte of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// 0 for bytes to the host, 1 for bytes from it.
    pub(crate) direction: usize,
    /// The bytes that still pass in this direction.
    pub(crate) bytes: usize,
    /// Whether the connection is closed then. If not, it carries nothing any more and stays open.
    pub(crate) closes: bool,
}

impl Condition {
    /// Without any fault.
    pub(crate) const HEALTHY: Condition = Condition {
        passes: [true, true],
        refuses: false,
        hangs: false,
        latency: Duration::ZERO,
        segment: SEGMENT_BYTES,
        resets: 0,
    };
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("condition", &self.condition)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Links {
    /// Links to these endpoints, each with the place where its connections are accepted.
    pub(crate) fn new(endpoints: impl IntoIterator<Item = (String, UnboundedSender<Stream>)>) -> Links {
        let link = |accepting| Link {
            condition: watch::channel(Condition::HEALTHY).0,
            next: Mutex::new(None),
            accepting,
        };
        let links = endpoints.into_iter().map(|(endpoint, accepting)| (endpoint, Arc::new(link(accepting))));
        Links(Arc::new(links.collect()))
    }

    /// Changes the condition of the links whose endpoints begin so.
    pub(crate) fn change(&self, beginning: &str, change: impl Fn(&mut Condition)) {
        for (_, link) in self.of(beginning) {
            link.condition.send_modify(&change);
        }
    }

    /// Cuts the next connections over the links whose endpoints begin so.
    pub(crate) fn arm(&self, beginning: &str, cut: Cut) {
        for (_, link) in self.of(beginning) {
            *link.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
        }
    }

    /// Ends all faults. A connection that has stalled stays so until one of its ends closes it.
    pub(crate) fn heal(&self) {
        for link in self.0.values() {
            *link.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
            link.condition.send_modify(|condition| {
                *condition = Condition { resets: condition.resets, ..Condition::HEALTHY };
            });
        }
    }

    fn of<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = (&'a String, &'a Arc<Link>)> {
        self.0.iter().filter(move |(endpoint, _)| endpoint.starts_with(beginning))
    }
}

impl Dial for Links {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        let link = self.0.get(&endpoint.to_string()).cloned();
        Box::pin(async move {
            let link = link.ok_or(io::ErrorKind::NotFound)?;
            let mut condition = link.condition.subscribe();
            let is_answered = |condition: &Condition| {
                condition.refuses || !condition.hangs && condition.passes == [true; 2]
            };
            let now = *condition.wait_for(is_answered).await.map_err(|_| io::ErrorKind::NotConnected)?;
            sleep(now.latency).await;
            let ((ours, near), (far, theirs)) = (duplex(BUFFER_BYTES), duplex(BUFFER_BYTES));
            if now.refuses || link.accepting.send(Box::new(theirs)).is_err() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            tokio::spawn(carry(link, now.resets, Box::new(near), Box::new(far)));
            Ok(Box::new(ours) as Stream)
        })
    }
}

/// Carries bytes in both directions until one of the ends closes or the link is reset.
async fn carry(link: Arc<Link>, resets: u64, near: Stream, far: Stream) {
    let mut condition = link.condition.subscribe();
    let ((from_near, to_near), (from_far, to_far)) = (split(near), split(far));
    tokio::select! {
        biased;
        _ = condition.wait_for(|condition| condition.resets != resets) => {}
        _ = one_way(&link, 0, from_near, to_far) => {}
        _ = one_way(&link, 1, from_far, to_near) => {}
    }
}

async fn one_way(
    link: &Link,
    direction: usize,
    mut from: ReadHalf<Stream>,
    mut to: WriteHalf<Stream>,
) -> io::Result<()> {
    let mut condition = link.condition.subscribe();
    let mut bytes = vec![0; SEGMENT_BYTES];
    let broken = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    loop {
        let most = condition.borrow().segment;
        let read = from.read(&mut bytes[..most]).await?;
        // The end of a connection is delayed like its bytes.
        let latency =
            condition.wait_for(|condition| condition.passes[direction]).await.map_err(broken)?.latency;
        sleep(latency).await;
        if read == 0 {
            return Ok(());
        }
        match link.cut(direction, read) {
            None => to.write_all(&bytes[..read]).await?,
            Some(cut) => {
                to.write_all(&bytes[..cut.bytes]).await?;
                if cut.closes {
                    return Ok(());
                }
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Link {
    /// What happens within this many bytes.
    fn cut(&self, direction: usize, read: usize) -> Option<Cut> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let cut = next.as_mut().filter(|cut| cut.direction == direction)?;
        if cut.bytes >= read {
            cut.bytes -= read;
            return None;
        }
        next.take()
    }
}
