//! A TCP proxy between the controller and a daemon of a host, which fails on demand.
//!
//! The controller dials it as the endpoint of a transport node, and it dials the unix socket of the daemon. Bytes pass unchanged unless a
//! [`Mode`] says otherwise.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use test_random::Random;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// The time between two bytes of a connection that trickles.
const TRICKLE: Duration = Duration::from_millis(1);
/// What a pump reads at a time.
const READ: usize = 16 * 1024;

/// How the proxy treats bytes and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Bytes pass.
    #[default]
    Clear,
    /// No byte passes, and connections stay open.
    Stalled,
    /// Each connection is reset after a number of bytes in one direction. Both are drawn, the number below the limit of its direction.
    Cut {
        /// The limit of bytes to the daemon.
        to_daemon: u64,
        /// The limit of bytes from it.
        from_daemon: u64,
    },
    /// Bytes pass one by one.
    Trickling,
}

/// What the modes did so far.
#[derive(Debug, Default)]
struct Counters {
    /// Numbers the connections.
    made: AtomicU64,
    reset: AtomicU64,
    cut: AtomicU64,
    trickled: AtomicU64,
    held: AtomicU64,
}

/// What a proxy did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Connections that [`Proxy::reset`] ended.
    pub reset: u64,
    /// Connections that ended after a number of bytes.
    pub cut: u64,
    /// Bytes that trickled.
    pub trickled: u64,
    /// Bytes that arrived while connections stood still.
    pub held: u64,
}

/// A proxy of one daemon. Dropping it ends its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Changes when all connections are to be reset.
    resets: watch::Sender<u64>,
    counters: Arc<Counters>,
}

/// What a connection of the proxy needs to know.
#[derive(Clone)]
struct Shared {
    seed: u64,
    target: PathBuf,
    mode: watch::Receiver<Mode>,
    resets: watch::Receiver<u64>,
    counters: Arc<Counters>,
}

/// Why a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// One of its ends closed it.
    Closed,
    /// It had carried as many bytes as [`Mode::Cut`] grants.
    Cut,
    Reset,
}

impl Proxy {
    /// A proxy to the socket `target`, on a free port of the loopback interface.
    pub async fn start(target: PathBuf, seed: u64) -> Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port for a proxy is free")?;
        let address = listener.local_addr()?;
        let (mode, resets) = (watch::Sender::new(Mode::Clear), watch::Sender::new(0));
        let counters = Arc::new(Counters::default());
        let shared = Shared {
            seed,
            target,
            mode: mode.subscribe(),
            resets: resets.subscribe(),
            counters: Arc::clone(&counters),
        };
        tokio::spawn(listen(listener, shared));
        Ok(Proxy { address, mode, resets, counters })
    }

    /// The endpoint for a transport node, `tcp:...`.
    pub fn endpoint(&self) -> String {
        format!("tcp:{}", self.address)
    }

    /// From now on, bytes and connections are treated so.
    pub fn treat(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Resets all connections.
    pub fn reset(&self) {
        self.resets.send_modify(|number| *number += 1);
    }

    /// What the modes did so far.
    pub fn done(&self) -> Done {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let Counters { reset, cut, trickled, held, .. } = &*self.counters;
        Done { reset: count(reset), cut: count(cut), trickled: count(trickled), held: count(held) }
    }
}

async fn listen(listener: TcpListener, shared: Shared) {
    let mut gone = shared.mode.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The proxy has been dropped.
            () = closed(&mut gone) => return,
        };
        // A connection that is gone before it is accepted is no matter.
        let Ok((client, _)) = accepted else { continue };
        tokio::spawn(serve(client, shared.clone()));
    }
}

async fn closed(mode: &mut watch::Receiver<Mode>) {
    while mode.changed().await.is_ok() {}
}

async fn serve(mut client: TcpStream, shared: Shared) {
    let number = shared.counters.made.fetch_add(1, Ordering::SeqCst);
    let mut resets = shared.resets.clone();
    resets.mark_unchanged();
    // As if nobody listened there, if the daemon does not run.
    let Ok(mut daemon) = UnixStream::connect(&shared.target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = client.set_nodelay(true);
    let mut random = Random::new(shared.seed ^ (number + 1));
    // One of the directions is cut, at a byte that differs from connection to connection.
    let (cuts_requests, part) = (random.chance(50), random.below(1 << 20));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_daemon, to_daemon) = daemon.split();
        tokio::select! {
            end = pump(from_client, to_daemon, &shared, true, cuts_requests.then_some(part)) => end,
            end = pump(from_daemon, to_client, &shared, false, (!cuts_requests).then_some(part)) => end,
            _ = resets.changed() => End::Reset,
        }
    };
    match end {
        End::Closed => {}
        End::Cut => drop(shared.counters.cut.fetch_add(1, Ordering::SeqCst)),
        End::Reset => drop(shared.counters.reset.fetch_add(1, Ordering::SeqCst)),
    }
    if end != End::Closed {
        let _ = client.set_zero_linger();
    }
}

/// Carries bytes in one direction. `part` of 2^20 is where in its limit of [`Mode::Cut`] this direction is cut, if it is.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    shared: &Shared,
    is_to_daemon: bool,
    part: Option<u64>,
) -> End {
    let mut mode = shared.mode.clone();
    let mut bytes = vec![0; READ];
    let mut carried = 0_u64;
    loop {
        let now = *mode.borrow_and_update();
        let limit = match now {
            Mode::Clear => READ as u64,
            Mode::Trickling => 1,
            Mode::Cut { to_daemon, from_daemon } => part.map_or(READ as u64, |part| {
                let limit = if is_to_daemon { to_daemon } else { from_daemon };
                let at = (limit * part) >> 20;
                at.saturating_sub(carried).min(READ as u64)
            }),
            // What arrives is read, so that it is known that something was held, and then waits.
            Mode::Stalled => READ as u64,
        };
        if limit == 0 {
            return End::Cut;
        }
        let read = tokio::select! {
            read = from.read(&mut bytes[..limit as usize]) => read,
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return End::Closed,
            },
        };
        let Ok(read @ 1..) = read else { return End::Closed };
        if *mode.borrow() == Mode::Stalled {
            shared.counters.held.fetch_add(read as u64, Ordering::SeqCst);
            if mode.wait_for(|mode| *mode != Mode::Stalled).await.is_err() {
                return End::Closed;
            }
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return End::Closed;
        }
        carried += read as u64;
        if now == Mode::Trickling {
            shared.counters.trickled.fetch_add(read as u64, Ordering::SeqCst);
            tokio::time::sleep(TRICKLE).await;
        }
    }
}
