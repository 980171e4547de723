//! Hosts that dial their controller over TLS, as Open vSwitch does: a database whose manager is `ssl:ADDRESS:PORT`, and a bridge whenever one
//! of its controllers is such a target, which the controller of the network sets in the database.
//!
//! Left out on purpose: that a bridge discards its flows when it dials for the first time. Here it has none then.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fake_switch::Stream;
use fake_switch::database::Watched;
use mutual_tls::{Credentials, Files};
use ovsdb_client::Replica;
use ovsdb_client::open_vswitch::{Bridge, Controller};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpSocket;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::host::BRIDGE;

/// The pause before a host dials again: the first one, and the longest one, if the target has no limit of its own. It doubles until a
/// connection has lasted for longer than the pause before it (`reconnect_disconnected` in `lib/reconnect.c` of Open vSwitch).
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// How long nothing may pass before a host dials again: Open vSwitch sends probes after half of it.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// What targets over TLS begin with.
const SSL: &str = "ssl:";

/// How hosts dial in.
pub struct DialIn<'a> {
    /// Where their databases dial; `listen_ovsdb` of the controller.
    pub manager: SocketAddr,
    /// The files of a host, by its name.
    pub files: Box<dyn Fn(&str) -> Files + 'a>,
}

/// A host that dials, at one of its two ends.
pub(crate) struct Caller {
    /// The address that it dials from.
    pub(crate) from: Ipv4Addr,
    pub(crate) credentials: Arc<Credentials>,
    /// Who takes its connections.
    pub(crate) to: UnboundedSender<Stream>,
}

/// A target, and the longest pause before it is dialled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    address: SocketAddr,
    pause_max: Duration,
}

impl Caller {
    /// Keeps a database connected to its manager.
    pub(crate) async fn keep_manager(self, manager: SocketAddr) {
        self.keep(Target { address: manager, pause_max: PAUSE_MAX }).await;
    }

    /// Keeps a bridge connected to the first controller that it has to dial, which may change at any time.
    pub(crate) async fn keep_controller(self, mut database: Watched) {
        let mut target = target_of(&database.rows());
        loop {
            let changed = other_than(&mut database, target);
            target = match target {
                None => changed.await,
                Some(dialled) => tokio::select! {
                    // Nobody takes its connections any more.
                    () = self.keep(dialled) => return,
                    other = changed => other,
                },
            };
        }
    }

    /// Dials, hands the connection over, waits until it has ended, and begins again. Returns when nobody takes it.
    async fn keep(&self, target: Target) {
        let mut pause = Duration::ZERO;
        loop {
            let mut lasted = Duration::ZERO;
            if let Ok(stream) = self.dial(target.address).await {
                let (watched, mut end) = Watching::new(stream);
                let begun = Instant::now();
                if self.to.send(Box::new(watched)).is_err() {
                    return;
                }
                end.come().await;
                lasted = begun.elapsed();
            }
            let is_lasting = lasted > pause.max(PAUSE_MIN);
            pause = if is_lasting { PAUSE_MIN } else { (2 * pause).clamp(PAUSE_MIN, target.pause_max) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn dial(&self, address: SocketAddr) -> io::Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.from, 0)))?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let controller = address.ip().to_string();
        Ok(Box::new(self.credentials.connect_to_controller(stream, &controller).await?))
    }
}

/// Waits until the bridge has to dial something else.
async fn other_than(database: &mut Watched, target: Option<Target>) -> Option<Target> {
    loop {
        let other = target_of(&database.changed().await);
        if other != target {
            return other;
        }
    }
}

/// The first controller of the bridge that it has to dial.
fn target_of(rows: &Replica) -> Option<Target> {
    let bridges = rows.rows(Bridge::TABLE).filter_map(|(uuid, row)| Bridge::from_row(uuid, row).ok());
    let controllers = bridges.filter(|bridge| bridge.name == BRIDGE).flat_map(|bridge| bridge.controllers);
    controllers.filter_map(|uuid| rows.row(Controller::TABLE, uuid)).find_map(|row| {
        let target: String = row.get("target").ok()?;
        let limit: Option<u64> =
            row.get::<Option<i64>>("max_backoff").ok()?.and_then(|ms| ms.try_into().ok());
        let address = target.strip_prefix(SSL)?.parse().ok()?;
        let pause_max = limit.map_or(PAUSE_MAX, Duration::from_millis).max(PAUSE_MIN);
        Some(Target { address, pause_max })
    })
}

/// A connection that counts what passes, until it is dropped.
struct Watching {
    stream: Stream,
    passed: watch::Sender<u64>,
}

/// The end of a connection.
struct End(watch::Receiver<u64>);

impl Watching {
    fn new(stream: Stream) -> (Watching, End) {
        let (passed, end) = watch::channel(0);
        (Watching { stream, passed }, End(end))
    }

    fn count<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Ok(_)) = done {
            self.passed.send_modify(|passed| *passed += 1);
        }
        done
    }
}

impl End {
    /// Waits until the connection is dropped, or nothing has passed for [`SILENCE_MAX`], as when a host stands still that keeps it.
    async fn come(&mut self) {
        while let Ok(Ok(())) = tokio::time::timeout(SILENCE_MAX, self.0.changed()).await {}
    }
}

impl AsyncRead for Watching {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(context, into);
        self.count(done)
    }
}

impl AsyncWrite for Watching {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
