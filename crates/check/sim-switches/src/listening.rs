//! Two listeners for all hosts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fake_switch::Stream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc::UnboundedSender;

/// The interface that hosts are reached over.
const LOOPBACK: &[u8] = b"lo";
/// The connections that wait to be accepted: a controller dials thousands at once. Linux takes at most `net.core.somaxconn`.
const BACKLOG: u32 = 4096;
/// Connections of one host: a controller has one to the switch and one to the database.
const CONNECTIONS: u64 = 2;
/// Other files of the process: connections of tools, and those that a controller replaces.
const OTHER_FILES: u64 = 1024;

/// Raises the limit of open files as far as hosts need it.
pub(crate) fn raise_file_limit(hosts: usize) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let needed = hosts as u64 * CONNECTIONS + OTHER_FILES;
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let maximum = limit.maximum.unwrap_or_default();
        let why = format!(
            "{hosts} hosts need {needed} open files and the limit is {maximum}; raise it (ulimit -Hn {needed}) or start fewer hosts"
        );
        return Err(io::Error::other(why));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).map_err(io::Error::from)
}

/// Listens on all addresses of the loopback interface.
pub(crate) fn bind(port: u16) -> io::Result<TcpListener> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind_device(Some(LOOPBACK))?;
        socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
        socket.listen(BACKLOG)
    };
    listen()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on port {port} of lo: {error}")))
}

/// Accepts connections, and hands each over to the host whose address was dialled. One to another address is closed.
pub(crate) async fn hand_over(listener: TcpListener, first: Ipv4Addr, hosts: Vec<UnboundedSender<Stream>>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                eprintln!("simulated hosts accept no more connections: {error}");
                return;
            }
        };
        let Ok(IpAddr::V4(dialled)) = stream.local_addr().map(|address| address.ip()) else { continue };
        let number = u32::from(dialled).checked_sub(u32::from(first));
        let host = number.and_then(|number| hosts.get(usize::try_from(number).ok()?));
        // As Open vSwitch does: a message is sent at once.
        if let Some(host) = host.filter(|_| stream.set_nodelay(true).is_ok()) {
            // A host that is gone takes no connection.
            let _ = host.send(Box::new(stream));
        }
    }
}
