//! Connections of peers that dial in. Who they are is known before they come here: their certificates name them.
//!
//! A peer is admitted while somebody [expects](Inbound::expect) it, and has one connection at a time. A second one is refused, because
//! nothing tells which of the two is the right one. A peer that was cut off can come back once its former connection is found dead, which
//! its owner does by probes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::dial::Stream;

/// How long a peer that nobody expects is remembered after its last attempt. Open vSwitch tries again after eight seconds at most.
const REMEMBERED: Duration = Duration::from_secs(30);
/// The most peers that are remembered.
const REMEMBERED_MAX: usize = 64;

/// The peers that are expected, by where they dial in, and their connections.
#[derive(Debug, Default)]
pub struct Inbound {
    places: Mutex<BTreeMap<Key, Arc<Place>>>,
    /// Peers that dialled in and were not expected, with the time of the last attempt.
    unexpected: Mutex<BTreeMap<Key, (String, Instant)>>,
}

/// Where a peer dials in, and its name.
type Key = (String, String);

/// A peer that dials in and that nobody expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexpected {
    /// Its name.
    pub name: String,
    /// Where it dials.
    pub target: String,
    /// The address that it has.
    pub from: String,
}

/// A second connection of a peer, which was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The address that it came from.
    pub from: String,
    /// The address of the peer that is connected.
    pub connected: String,
    /// When.
    pub at: Instant,
}

/// Why a connection is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Nobody expects the peer.
    #[error("nobody expects {0}")]
    Unexpected(String),
    /// The peer is connected.
    #[error("{name} is connected from {connected}")]
    Connected {
        /// Its name.
        name: String,
        /// The address that it is connected from.
        connected: String,
    },
}

/// The place of one expected peer.
struct Place {
    state: Mutex<State>,
    arrived: Notify,
    refused: watch::Sender<Option<Refused>>,
}

#[derive(Default)]
struct State {
    /// A connection that its owner has not taken yet.
    waiting: Option<Stream>,
    /// The address of the peer that has the connection, whether it waits or is in use.
    connected: Option<String>,
    /// Nobody expects the peer any more.
    closed: bool,
}

impl Place {
    fn state(&self) -> MutexGuard<'_, State> {
        // No method leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

/// A peer is expected while this is kept.
#[derive(Debug)]
pub struct Expected {
    inbound: Arc<Inbound>,
    key: Key,
    place: Arc<Place>,
}

impl Expected {
    /// The last connection that was refused because the peer has another one.
    pub fn refused(&self) -> watch::Receiver<Option<Refused>> {
        self.place.refused.subscribe()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut places = self.inbound.places();
        // Another one may expect the same peer by now.
        if places.get(&self.key).is_some_and(|place| Arc::ptr_eq(place, &self.place)) {
            places.remove(&self.key);
        }
        drop(places);
        let mut state = self.place.state();
        state.closed = true;
        let waiting = state.waiting.take();
        drop(state);
        drop(waiting);
    }
}

impl Inbound {
    fn places(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unexpected_ones(&self) -> MutexGuard<'_, BTreeMap<Key, (String, Instant)>> {
        self.unexpected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects a peer of this name at this target.
    pub fn expect(self: &Arc<Self>, name: &str, target: &str) -> Expected {
        let key = (target.to_owned(), name.to_owned());
        let place = Arc::new(Place {
            state: Mutex::default(),
            arrived: Notify::new(),
            refused: watch::Sender::new(None),
        });
        self.unexpected_ones().remove(&key);
        self.places().insert(key.clone(), place.clone());
        Expected { inbound: self.clone(), key, place }
    }

    /// Hands a connection over to whoever expects this peer. `from` is the address of the peer, for people.
    ///
    /// # Errors
    /// Nobody does, or the peer has another connection. Then this one ends.
    pub fn arrived(&self, name: &str, target: &str, from: &str, stream: Stream) -> Result<(), NotTaken> {
        let key = (target.to_owned(), name.to_owned());
        let Some(place) = self.places().get(&key).cloned() else {
            self.remember(key, from);
            return Err(NotTaken::Unexpected(name.to_owned()));
        };
        let mut state = place.state();
        if state.closed {
            return Err(NotTaken::Unexpected(name.to_owned()));
        }
        // One that nobody has taken yet may be dead by now, and gives way.
        if let Some(connected) = state.connected.clone().filter(|_| state.waiting.is_none()) {
            drop(state);
            let refused = Refused { from: from.to_owned(), connected: connected.clone(), at: Instant::now() };
            place.refused.send_replace(Some(refused));
            return Err(NotTaken::Connected { name: name.to_owned(), connected });
        }
        state.connected = Some(from.to_owned());
        let former = state.waiting.replace(stream);
        drop(state);
        // Its end writes to the peer.
        drop(former);
        place.arrived.notify_one();
        Ok(())
    }

    /// The next connection of an expected peer. Cancel safe.
    pub(crate) async fn take(&self, name: &str, target: &str) -> io::Result<Stream> {
        let key = (target.to_owned(), name.to_owned());
        let place = self.places().get(&key).cloned();
        let place = place.ok_or_else(|| io::Error::other("nobody expects this peer to dial in"))?;
        loop {
            let waiting = place.state().waiting.take();
            if let Some(stream) = waiting {
                return Ok(Box::new(Used { stream, place }));
            }
            place.arrived.notified().await;
        }
    }

    /// Peers that dialled in lately although nobody expects them, in the order of their names.
    pub fn unexpected(&self) -> Vec<Unexpected> {
        let mut unexpected = self.unexpected_ones();
        unexpected.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        let of = |((target, name), (from, _)): (&Key, &(String, Instant))| Unexpected {
            name: name.clone(),
            target: target.clone(),
            from: from.clone(),
        };
        let mut all: Vec<Unexpected> = unexpected.iter().map(of).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn remember(&self, key: Key, from: &str) {
        let mut unexpected = self.unexpected_ones();
        unexpected.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        if unexpected.len() < REMEMBERED_MAX || unexpected.contains_key(&key) {
            unexpected.insert(key, (from.to_owned(), Instant::now()));
        }
    }
}

/// A connection in use. When it is dropped, the peer can dial in again.
struct Used {
    stream: Stream,
    place: Arc<Place>,
}

impl Drop for Used {
    fn drop(&mut self) {
        self.place.state().connected = None;
    }
}

impl AsyncRead for Used {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Used {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use mutual_tls::Strangers;
    use test_authority::{Authority, Leaf, controller};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    const TARGET: &str = "ssl:192.0.2.1:6640";

    fn pair() -> (DuplexStream, Stream) {
        let (theirs, ours) = tokio::io::duplex(64);
        (theirs, Box::new(ours))
    }

    async fn is_closed(stream: &mut DuplexStream) -> bool {
        stream.read(&mut [0]).await.is_ok_and(|bytes| bytes == 0)
    }

    #[tokio::test]
    async fn a_connection_goes_to_whoever_expects_its_peer() {
        let inbound = Arc::new(Inbound::default());
        let _expected = [inbound.expect("hv1", TARGET), inbound.expect("hv2", TARGET)];
        // Whether it comes before it is waited for or after.
        let (mut hv1, stream) = pair();
        inbound.arrived("hv1", TARGET, "192.0.2.11:1", stream).unwrap();
        let mut of_hv1 = inbound.take("hv1", TARGET).await.unwrap();
        let (mut hv2, stream) = pair();
        let (of_hv2, ()) = tokio::join!(inbound.take("hv2", TARGET), async {
            inbound.arrived("hv2", TARGET, "192.0.2.12:1", stream).unwrap();
        });
        let mut of_hv2 = of_hv2.unwrap();
        for (peer, stream) in [(&mut hv1, &mut of_hv1), (&mut hv2, &mut of_hv2)] {
            peer.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            stream.write_all(b"y").await.unwrap();
            assert_eq!(peer.read_u8().await.unwrap(), b'y');
        }
    }

    #[tokio::test]
    async fn a_peer_has_one_connection_and_another_after_its_end() {
        let inbound = Arc::new(Inbound::default());
        let expected = inbound.expect("hv1", TARGET);
        let refused = expected.refused();
        let (_peer, stream) = pair();
        inbound.arrived("hv1", TARGET, "192.0.2.11:1", stream).unwrap();
        // The newest of those that nobody has taken counts.
        let (_peer, stream) = pair();
        inbound.arrived("hv1", TARGET, "192.0.2.11:1", stream).unwrap();
        let used = inbound.take("hv1", TARGET).await.unwrap();
        let (mut second, stream) = pair();
        let error = inbound.arrived("hv1", TARGET, "192.0.2.99:2", stream).unwrap_err();
        assert_eq!(error.to_string(), "hv1 is connected from 192.0.2.11:1");
        assert!(is_closed(&mut second).await);
        let told = refused.borrow().clone().unwrap();
        assert_eq!((told.from.as_str(), told.connected.as_str()), ("192.0.2.99:2", "192.0.2.11:1"));
        drop(used);
        let (_third, stream) = pair();
        inbound.arrived("hv1", TARGET, "192.0.2.11:3", stream).unwrap();
    }

    #[tokio::test]
    async fn a_connection_over_tls_that_gives_way_says_so_to_its_peer_and_harms_nobody() {
        let authority = Authority::new();
        let (controller, hv1) =
            (authority.credentials(&controller()), authority.credentials(&Leaf::new("hv1")));
        let secure = async || {
            let (here, there) = tokio::io::duplex(1 << 14);
            let accepted = controller.accept(there, Strangers::Refused);
            let (ours, theirs) = tokio::join!(accepted, hv1.connect_to_controller(here, "localhost"));
            (Box::new(ours.unwrap()), theirs.unwrap())
        };
        let inbound = Arc::new(Inbound::default());
        let _expected = inbound.expect("hv1", TARGET);
        let (stream, mut former) = secure().await;
        inbound.arrived("hv1", TARGET, "192.0.2.11:1", stream).unwrap();
        let (stream, mut latter) = secure().await;
        inbound.arrived("hv1", TARGET, "192.0.2.11:2", stream).unwrap();
        // An end without an announcement would be an error.
        assert_eq!(former.read(&mut [0]).await.unwrap(), 0);
        let mut used = inbound.take("hv1", TARGET).await.unwrap();
        latter.write_all(b"x").await.unwrap();
        assert_eq!(used.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_nobody_expects_is_refused_and_remembered_for_a_while() {
        let inbound = Arc::new(Inbound::default());
        let arrives = |name: &str| {
            let (peer, stream) = pair();
            (peer, inbound.arrived(name, TARGET, "192.0.2.11:1", stream))
        };
        let (mut peer, error) = arrives("hv1");
        assert_eq!(error, Err(NotTaken::Unexpected("hv1".to_owned())));
        assert!(is_closed(&mut peer).await);
        let names = || inbound.unexpected().into_iter().map(|unexpected| unexpected.name).collect::<Vec<_>>();
        assert_eq!(names(), ["hv1"]);
        let expected = inbound.expect("hv1", TARGET);
        assert_eq!(names(), [""; 0]);
        let (mut peer, arrived) = arrives("hv1");
        assert_eq!(arrived, Ok(()));
        // What was not taken ends with it.
        drop(expected);
        assert!(is_closed(&mut peer).await);
        for n in 0..1000 {
            assert!(arrives(&format!("n{n}")).1.is_err());
        }
        assert_eq!(names().len(), REMEMBERED_MAX);
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(names(), [""; 0]);
    }

    #[tokio::test]
    async fn a_successor_keeps_its_place_when_its_predecessor_goes() {
        let inbound = Arc::new(Inbound::default());
        let former = inbound.expect("hv1", TARGET);
        let _successor = inbound.expect("hv1", TARGET);
        drop(former);
        let (_peer, stream) = pair();
        inbound.arrived("hv1", TARGET, "192.0.2.11:1", stream).unwrap();
    }
}
