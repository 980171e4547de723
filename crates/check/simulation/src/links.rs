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

/// The capacity of each half of a way, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes that travel together.
const PIECE_BYTES: usize = 16 << 10;

/// All endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links(Arc<BTreeMap<String, Arc<Link>>>);

/// The way to one endpoint.
pub(crate) struct Link {
    weather: watch::Sender<Weather>,
    /// The fault of the next connection that carries so many bytes.
    next: Mutex<Option<At>>,
    accepting: UnboundedSender<Stream>,
}

/// What a way is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Whether bytes travel to the host, and from it.
    pub(crate) travels: [bool; 2],
    /// Whether dialling is refused.
    pub(crate) refuses: bool,
    /// Whether dialling gets no answer.
    pub(crate) hangs: bool,
    /// How long each piece takes.
    pub(crate) latency: Duration,
    /// The most bytes that travel together.
    pub(crate) piece: usize,
    /// How often all connections were reset.
    pub(crate) resets: u64,
}

/// What happens to a connection after so many more bytes in this direction: 0 to the host, 1 from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) direction: usize,
    pub(crate) bytes: usize,
    /// Whether the connection ends. If not, it carries nothing any more.
    pub(crate) ends: bool,
}

impl Weather {
    /// A good day.
    pub(crate) const FINE: Weather = Weather {
        travels: [true, true],
        refuses: false,
        hangs: false,
        latency: Duration::ZERO,
        piece: PIECE_BYTES,
        resets: 0,
    };
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("weather", &self.weather)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Links {
    /// Ways to these endpoints, and who accepts what is dialled there.
    pub(crate) fn new(endpoints: impl IntoIterator<Item = (String, UnboundedSender<Stream>)>) -> Links {
        let link =
            |accepting| Link { weather: watch::channel(Weather::FINE).0, next: Mutex::new(None), accepting };
        let links = endpoints.into_iter().map(|(endpoint, accepting)| (endpoint, Arc::new(link(accepting))));
        Links(Arc::new(links.collect()))
    }

    /// Changes the weather on the ways whose endpoints begin so.
    pub(crate) fn change(&self, beginning: &str, change: impl Fn(&mut Weather)) {
        for (_, link) in self.of(beginning) {
            link.weather.send_modify(&change);
        }
    }

    /// Has something happen on the ways whose endpoints begin so.
    pub(crate) fn arm(&self, beginning: &str, at: At) {
        for (_, link) in self.of(beginning) {
            *link.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        }
    }

    /// All is well everywhere. Connections that carry nothing any more end.
    pub(crate) fn heal(&self) {
        for link in self.0.values() {
            *link.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
            link.weather.send_modify(|weather| {
                *weather = Weather { resets: weather.resets, ..Weather::FINE };
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
            let mut weather = link.weather.subscribe();
            let is_answered =
                |weather: &Weather| weather.refuses || !weather.hangs && weather.travels == [true; 2];
            let now = *weather.wait_for(is_answered).await.map_err(|_| io::ErrorKind::NotConnected)?;
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

/// Carries bytes in both directions until one of the ends closes or the way is reset.
async fn carry(link: Arc<Link>, resets: u64, near: Stream, far: Stream) {
    let mut weather = link.weather.subscribe();
    let ((from_near, to_near), (from_far, to_far)) = (split(near), split(far));
    tokio::select! {
        biased;
        _ = weather.wait_for(|weather| weather.resets != resets) => {}
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
    let mut weather = link.weather.subscribe();
    let mut bytes = vec![0; PIECE_BYTES];
    let broken = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    loop {
        let most = weather.borrow().piece;
        let read = from.read(&mut bytes[..most]).await?;
        // That a connection ends travels like its bytes.
        let latency = weather.wait_for(|weather| weather.travels[direction]).await.map_err(broken)?.latency;
        sleep(latency).await;
        if read == 0 {
            return Ok(());
        }
        match link.at(direction, read) {
            None => to.write_all(&bytes[..read]).await?,
            Some(at) => {
                to.write_all(&bytes[..at.bytes]).await?;
                if at.ends {
                    return Ok(());
                }
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Link {
    /// What happens within this many bytes.
    fn at(&self, direction: usize, read: usize) -> Option<At> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = next.as_mut().filter(|at| at.direction == direction)?;
        if at.bytes >= read {
            at.bytes -= read;
            return None;
        }
        next.take()
    }
}
