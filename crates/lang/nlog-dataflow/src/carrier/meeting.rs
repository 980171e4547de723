//! Processes connect to each other before they start.
//!
//! Each process listens on its address and connects to the processes with lower numbers. On each connection, both send
//! a [`Hello`] and compare them.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::StartError;

/// What a connection begins with.
const MAGIC: [u8; 8] = *b"nlogwork";
/// The maximum length of a hello in bytes.
const MAX_HELLO: u32 = 1 << 16;
/// The time that a new connection has to identify itself.
const HELLO: Duration = Duration::from_secs(2);
/// The time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(10);
/// The time limit for all processes to connect.
const PATIENCE: Duration = Duration::from_secs(30);
/// The idle time after which a connection is probed, the interval of probes, and their number. Together they let a
/// process notice the loss of a machine after half a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// One of several processes, and where the others are.
pub struct Processes {
    /// The number of this process.
    pub(crate) process: usize,
    /// The address of each process.
    pub(crate) addresses: Vec<String>,
    /// What listens on this process's address, if somebody does already.
    pub(crate) listener: Option<TcpListener>,
    /// What must be equal in all processes: names and values, for messages.
    pub(crate) identity: Vec<(String, String)>,
    /// The time limit for all processes to connect.
    pub(crate) patience: Duration,
}

impl Processes {
    /// Process `process` of those at these addresses, each `host:port`.
    pub fn new(process: usize, addresses: Vec<String>) -> Self {
        Processes { process, addresses, listener: None, identity: Vec::new(), patience: PATIENCE }
    }

    /// The same, with names and values that must be equal in all processes.
    pub(crate) fn alike(self, identity: Vec<(String, String)>) -> Self {
        Processes { identity, ..self }
    }

    /// The same, which listens already.
    #[must_use]
    pub fn listening(self, listener: TcpListener) -> Self {
        Processes { listener: Some(listener), ..self }
    }

    /// The same, with another time limit for all processes to connect than 30 seconds.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Processes { patience, ..self }
    }
}

/// The addresses in the text of a host file: one `host:port` a line for each process.
pub fn hostfile(text: &str, processes: usize) -> Result<Vec<String>, String> {
    let mut addresses = Vec::new();
    for (line, number) in
        text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty()).take(processes)
    {
        let port = line.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none() {
            return Err(format!("line {number} is `{line}`, but must be `host:port`"));
        }
        addresses.push(line.to_owned());
    }
    if addresses.len() < processes {
        return Err(format!("it has {} addresses, but there are {processes} processes", addresses.len()));
    }
    Ok(addresses)
}

/// The name of a process in messages.
pub(super) fn name(process: usize, address: &str) -> String {
    format!("process {process} ({address})")
}

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    process: usize,
    identity: Vec<(String, String)>,
}

/// Connects to all other processes. The entry of this process is empty.
pub(super) fn meet(processes: Processes, workers: usize) -> Result<Vec<Option<TcpStream>>, StartError> {
    let Processes { process: me, addresses, listener, mut identity, patience } = processes;
    let Some(here) = addresses.get(me) else { return Err(StartError::NoAddress(me, addresses.len())) };
    identity.push(("number of processes".to_owned(), addresses.len().to_string()));
    identity.push(("number of workers".to_owned(), workers.to_string()));
    let deadline = Instant::now() + patience;
    let failed = |error: io::Error| StartError::Listen(here.clone(), error.to_string());
    let listener = listener.map_or_else(|| TcpListener::bind(here), Ok).map_err(failed)?;
    let late = |process: usize, why: &str| StartError::Late {
        who: name(process, &addresses[process]),
        seconds: patience.as_secs(),
        why: why.to_owned(),
    };
    let hello = Hello { process: me, identity };
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    connections.resize_with(addresses.len(), || None);
    for process in 0..me {
        let (stream, theirs) =
            connect(&addresses[process], process, &hello, deadline).map_err(|why| late(process, &why))?;
        compare(&hello, &theirs, &addresses[process])?;
        connections[process] = Some(stream);
    }
    while let Some(missing) = (me + 1..addresses.len()).find(|process| connections[*process].is_none()) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(missing, "this process listens"));
        }
        // A listener honours the time limit of reading.
        sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(left))
            .map_err(|error| failed(error.into()))?;
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_temporary(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        // Whoever does not say hello is nobody, and gets no answer.
        let theirs = hear(&mut stream, HELLO).and_then(|theirs| say(&mut stream, &hello).map(|()| theirs));
        let Ok(theirs) = theirs else { continue };
        if theirs.process <= me || theirs.process >= addresses.len() || connections[theirs.process].is_some()
        {
            let why = format!("another process calls itself process {}", theirs.process);
            return Err(StartError::Network(why));
        }
        compare(&hello, &theirs, &addresses[theirs.process])?;
        connections[theirs.process] = Some(stream);
    }
    let settled = connections.iter().flatten().try_for_each(settle);
    settled.map_err(|error| StartError::Network(error.to_string()))?;
    Ok(connections)
}

fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | TimedOut | WouldBlock)
}

/// Connects to a process that may not listen yet, until the deadline.
fn connect(
    address: &str,
    process: usize,
    hello: &Hello,
    deadline: Instant,
) -> Result<(TcpStream, Hello), String> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(RETRY);
        let why = match connect_once(address, hello, left) {
            Ok((stream, theirs)) if theirs.process == process => return Ok((stream, theirs)),
            Ok((_, theirs)) => format!("process {} answers there", theirs.process),
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            return Err(why);
        }
        std::thread::sleep(RETRY);
    }
}

fn connect_once(address: &str, hello: &Hello, limit: Duration) -> io::Result<(TcpStream, Hello)> {
    let mut last = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        let connected = TcpStream::connect_timeout(&address, limit).and_then(|mut stream| {
            say(&mut stream, hello)?;
            // The process may have to connect to others first.
            let theirs = hear(&mut stream, limit)?;
            Ok((stream, theirs))
        });
        match connected {
            Ok(connected) => return Ok(connected),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn say(stream: &mut TcpStream, hello: &Hello) -> io::Result<()> {
    let text = postcard::to_allocvec(hello).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    stream.write_all(&[&MAGIC[..], &length.to_be_bytes(), &text].concat())
}

fn hear(stream: &mut TcpStream, limit: Duration) -> io::Result<Hello> {
    stream.set_read_timeout(Some(limit))?;
    let (mut magic, mut length) = (MAGIC, [0; size_of::<u32>()]);
    stream.read_exact(&mut magic)?;
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if magic != MAGIC || length > MAX_HELLO {
        return Err(io::Error::other("another program answers there"));
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text)?;
    postcard::from_bytes(&text).map_err(io::Error::other)
}

/// Returns an error if a process has another identity.
fn compare(ours: &Hello, theirs: &Hello, address: &str) -> Result<(), StartError> {
    let value = |of: &Hello, what: &str| {
        let entry = of.identity.iter().find(|(name, _)| name == what);
        entry.map_or_else(|| "nothing".to_owned(), |(_, value)| value.clone())
    };
    for (what, _) in ours.identity.iter().chain(&theirs.identity) {
        let (ours, theirs_) = (value(ours, what), value(theirs, what));
        if ours != theirs_ {
            let who = name(theirs.process, address);
            return Err(StartError::Differs { who, what: what.clone(), theirs: theirs_, ours });
        }
    }
    Ok(())
}

/// Configures an established connection.
fn settle(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, count)?;
    // Unacknowledged data has the same time limit.
    sockopt::set_tcp_user_timeout(stream, (idle + interval * count).as_millis() as u32)?;
    Ok(())
}
