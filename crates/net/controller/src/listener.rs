//! The address of the API, and the connections that it accepts.
//!
//! A client can hold a share of the connections, not all of them: beyond the limit, each new connection closes the
//! one that has been silent for the longest. Connections that send nothing are closed, and so are connections of
//! clients that have vanished (the server probes them; see [`crate::daemon`]). If unread answers take too much memory,
//! the client that holds the most of it loses a connection.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mutual_tls::Identity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, error, warn};
use weft_core::peer::Peer;

use crate::access::Access;
use crate::config::{Listen, SocketMode};

mod account;
mod refusals;
mod registry;

pub(crate) use account::{Account, Charge, UNREAD_MAX};
pub(crate) use refusals::Refusals;
use registry::{Registry, Slot};

/// The number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long a new connection may take to send its first byte.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// How long a connection may be idle in both directions. Live connections answer probes more often.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// The first and the longest delay after a failure to accept a connection.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A bound address.
pub(crate) struct Listener {
    accept: Accept,
    /// The address; if the configured port was 0, the assigned one.
    pub(crate) listen: Listen,
    /// The file of a unix socket.
    pub(crate) socket: Option<SocketFile>,
}

/// The file of a unix socket that this process has bound.
#[derive(Debug, Clone)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode, which another file at the path does not have.
    inode: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), inode: inode(path)? })
    }

    /// Removes the file, unless another one has taken its place.
    pub(crate) fn remove(&self) {
        let removed = match inode(&self.path) {
            Ok(inode) if inode == self.inode => fs::remove_file(&self.path),
            Ok(_) => {
                debug!(socket = %self.path.display(), "another process has replaced the socket, which stays");
                return;
            }
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            warn!(socket = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Device and inode of a file, which is not followed if it is a link.
fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

enum Accept {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// Without descriptors. Counts the attempts.
    #[cfg(test)]
    Exhausted(Arc<std::sync::atomic::AtomicUsize>),
}

/// A client in the sense of fair sharing: connections are divided among clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Client {
    /// A host.
    Host(IpAddr),
    /// A process of this machine; 0 if the system does not reveal it.
    Process(i32),
}

/// The caller, and its connection's account.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    pub(crate) access: Access,
    pub(crate) client: Client,
    pub(crate) account: Account,
}

impl Caller {
    /// The tenant whose objects alone it sees and changes.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.access.tenant()
    }

    /// The same over TLS, which has shown this certificate, or none.
    pub(crate) fn over_tls(self, certificate: Option<&Identity>) -> Caller {
        match certificate {
            Some(identity) => self.known_as(identity, identity.to_string()),
            None => Caller { access: Access::Unknown, ..self },
        }
    }

    /// The same, which is known by this name from now on.
    pub(crate) fn known_as(self, identity: &Identity, name: String) -> Caller {
        Caller { peer: self.peer.identified(name), access: Access::Of(identity.clone()), ..self }
    }
}

/// The address cannot be listened at.
#[derive(Debug)]
pub(crate) struct BindError {
    pub(crate) listen: Listen,
    /// The cause.
    pub(crate) why: String,
}

impl Listener {
    /// Binds an address. A unix socket gets these permissions before anybody can connect.
    pub(crate) async fn bind(listen: Listen, socket_mode: SocketMode) -> Result<Listener, BindError> {
        let bound = match &listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.and_then(|listener| {
                let listen = Listen::Tcp(listener.local_addr()?);
                Ok(Listener { accept: Accept::Tcp(listener), listen, socket: None })
            }),
            Listen::Unix(path) => bind_unix(path, socket_mode).and_then(|listener| {
                let socket = Some(SocketFile::of(path)?);
                Ok(Listener { accept: Accept::Unix(listener), listen: listen.clone(), socket })
            }),
        };
        bound.map_err(|error| {
            error!(%listen, %error, "cannot listen");
            BindError { listen, why: error.to_string() }
        })
    }

    /// The connections, until the stream is dropped.
    pub(crate) fn incoming(self) -> ReceiverStream<io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(self.accept_all(sender));
        ReceiverStream::new(receiver)
    }

    async fn accept_all(self, connections: mpsc::Sender<io::Result<Connection>>) {
        let registry = Arc::new(Registry::default());
        let mut reserve = reserve();
        let mut pause = PAUSE_MIN;
        loop {
            let accepted = tokio::select! {
                () = connections.closed() => return,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer, client)) => {
                    if pause > PAUSE_MIN {
                        warn!("connections are accepted again");
                        pause = PAUSE_MIN;
                    }
                    let connection = Connection::new(stream, peer, registry.admit(client));
                    if connections.send(Ok(connection)).await.is_err() {
                        return;
                    }
                }
                // The client gave up before its connection was accepted.
                Err(error) if is_of_client(&error) => {
                    debug!(%error, "connection lost before it was accepted");
                }
                Err(error) => {
                    if pause == PAUSE_MIN {
                        warn!(%error, "cannot accept connections; trying again with pauses");
                    }
                    // Descriptors are short. The reserved one serves to accept and close one waiting connection, so
                    // that its client notices at once. Closing a silent connection makes room for the next.
                    if reserve.take().is_some() {
                        drop(tokio::time::timeout(PAUSE_MIN, self.accept()).await);
                    }
                    registry.close_most_silent();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    reserve = self::reserve();
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Peer, Client)> {
        match &self.accept {
            Accept::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Answers are small; a client is served even without this option.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::tcp(address), Client::Host(address.ip())))
            }
            Accept::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let credentials = stream.peer_cred()?;
                let client = Client::Process(credentials.pid().unwrap_or(0));
                Ok((
                    Stream::Unix(stream),
                    Peer::unix(credentials.uid(), user_name(credentials.uid()), credentials.pid()),
                    client,
                ))
            }
            #[cfg(test)]
            Accept::Exhausted(attempts) => {
                attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Err(io::Error::from_raw_os_error(24))
            }
        }
    }
}

/// A spare descriptor to release when none is left; absent if there is none even for this.
fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | NotConnected)
}

/// Binds a unix socket, with these permissions from the start. Replaces a socket that a killed process left behind.
/// Anything else at the path stays: a socket that a process listens on, or a file that is no socket.
fn bind_unix(path: &Path, SocketMode(mode): SocketMode) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let why = "exists and is not a socket; move it away, or listen elsewhere";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Ok(_) if is_answered(path)? => {
            let why = "address in use: another process listens on the socket; stop it, or listen elsewhere";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = UnixSocket::new_stream()?;
    // The file inherits the permissions of the socket, so there is no moment at which others can connect.
    let handle = File::from(socket.as_fd().try_clone_to_owned()?);
    handle.set_permissions(fs::Permissions::from_mode(mode))?;
    socket.bind(path)?;
    // The umask may have removed some of them.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)
}

/// Whether a process listens on a socket. Only a refused connection proves that none does.
fn is_answered(path: &Path) -> io::Result<bool> {
    match StdUnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An accepted connection. It ends when it is silent for too long, or when another connection needs its slot.
pub(crate) struct Connection {
    stream: Stream,
    peer: Peer,
    client: Client,
    account: Account,
    /// `None`: it is somebody else's, who decides when it ends.
    tenure: Option<Tenure>,
}

/// How long a connection stays.
struct Tenure {
    slot: Slot,
    /// Completes when the registry gives the slot to another connection.
    closed: oneshot::Receiver<()>,
    silent: Pin<Box<Sleep>>,
    /// Whether the client has sent anything. Until then the greeting that HTTP/2 lets the server send does not count.
    has_spoken: bool,
}

impl Connection {
    fn new(stream: Stream, peer: Peer, (slot, closed): (Slot, oneshot::Receiver<()>)) -> Self {
        let silent = Box::pin(tokio::time::sleep(GREETING_MAX));
        let (client, account) = (slot.client, slot.account.clone());
        let tenure = Some(Tenure { slot, closed, silent, has_spoken: false });
        Connection { stream, peer, client, account, tenure }
    }

    /// Gives up its slot: from now on it may be silent, and makes room for no other connection.
    pub(crate) fn release(&mut self) {
        self.tenure = None;
    }

    /// Who calls over it.
    pub(crate) fn caller(&self) -> Caller {
        let Connection { peer, client, account, .. } = self;
        Caller { peer: peer.clone(), access: Access::Open, client: *client, account: account.clone() }
    }

    /// Whether it came over a network, where TLS is spoken if there is a certificate.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.stream, Stream::Tcp(_))
    }

    /// An error once the connection must end.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(tenure) = &mut self.tenure else { return Ok(()) };
        // What is closed is asked again while it ends, and a receiver that is done must not be polled.
        let is_closed =
            tenure.closed.is_terminated() || Pin::new(&mut tenure.closed).poll(context).is_ready();
        let why = if is_closed {
            "closed in favour of another connection"
        } else if tenure.is_silent(context) {
            "silent for too long"
        } else {
            return Ok(());
        };
        debug!(peer = %self.peer, why, "connection closed");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

impl Tenure {
    /// Whether it was silent for too long. The silence of a client that waits for an answer does not count: HTTP/1 has no probes.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        while self.silent.as_mut().poll(context).is_ready() {
            if !self.slot.account.is_working() {
                return true;
            }
            self.silent.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        false
    }

    fn moved(&mut self, bytes: usize) {
        if bytes > 0 && self.has_spoken {
            self.slot.touch();
            self.silent.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.check(context)?;
        let before = buffer.filled().len();
        ready!(match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        let bytes = buffer.filled().len() - before;
        if let Some(tenure) = &mut this.tenure {
            tenure.has_spoken |= bytes > 0;
            tenure.moved(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.check(context)?;
        let written = ready!(match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        })?;
        if let Some(tenure) = &mut this.tenure {
            tenure.moved(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// The name of a user, if `/etc/passwd` has it.
fn user_name(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mutual_tls::Strangers;
    use test_authority::{Authority, Leaf, controller};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const MODE: SocketMode = SocketMode(0o600);

    #[tokio::test]
    async fn nothing_but_an_abandoned_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/weft.sock");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let listener = bind_unix(&path, MODE).unwrap();
        assert_eq!(mode(&path), 0o600);
        let error = bind_unix(&path, MODE).unwrap_err();
        assert!(error.to_string().starts_with("address in use"), "{error}");
        drop(listener);
        drop(bind_unix(&path, SocketMode(0o660)).unwrap());
        assert_eq!(mode(&path), 0o660);

        let file = folder.path().join("precious");
        fs::write(&file, "text").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for other in [&file, &link, &folder.path().to_owned()] {
            let error = bind_unix(other, MODE).unwrap_err();
            assert!(error.to_string().starts_with("exists and is not a socket"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    #[tokio::test]
    async fn a_connection_over_tls_that_makes_room_for_another_ends_in_order() {
        let authority = Authority::new();
        let server = authority.credentials(&controller());
        let alice = authority.credentials(&Leaf { role: Some("weft:operator"), ..Leaf::new("alice") });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let registry = Arc::new(Registry::default());
        let slot = registry.admit(Client::Host(address.ip()));
        let connection = Connection::new(Stream::Tcp(stream), Peer::tcp(address), slot);
        let (ours, theirs) = tokio::join!(
            server.accept(connection, Strangers::Refused),
            alice.connect_to_controller(dialled, "localhost")
        );
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        theirs.write_all(b"x").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'x');
        registry.close_most_silent();
        let error = ours.read_u8().await.unwrap_err();
        assert_eq!(error.to_string(), "closed in favour of another connection");
        // Its end asks once more whether it must end.
        drop(ours);
        assert!(theirs.read_u8().await.is_err());
    }

    /// Time is virtual here: it passes when nothing can run.
    #[tokio::test(start_paused = true)]
    async fn without_descriptors_there_are_pauses() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let (accept, listen) = (Accept::Exhausted(attempts.clone()), Listen::default());
        let incoming = Listener { accept, listen, socket: None }.incoming();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let attempts = attempts.load(Ordering::SeqCst);
        assert!((60..180).contains(&attempts), "{attempts} in a minute");
        drop(incoming);
    }
}
