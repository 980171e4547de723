//! The handshake of processes: membership, comparison of programs, and exchange of addresses.
//!
//! Each message is a JSON text preceded by its length. Every process sends a hello to process 0, with the secret and a
//! fingerprint of its program. Once all have joined, process 0 replies with the settings by which the program runs.
//! Each process plans the program and reports that it is ready. It then receives the addresses of the others, and each
//! pair connects from the higher to the lower number.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nlog::Program;
use nlog_data::TableId;
use nlog_data::state::signature;
use nlog_plan::Settings;
use nlog_plan::query::Plan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::MeetingError;
use crate::dataflow::Options;
use crate::symbol::digest;

/// The version of the protocol. Any change of the messages between processes must change it.
const PROTOCOL: u32 = 2;
/// The maximum length of a message from a known process, in bytes. Statistics and pinned orders of a large program take
/// some megabytes.
const MAX_TEXT: u32 = 1 << 28;
/// The maximum length of a message from an unauthenticated peer, in bytes.
const MAX_HELLO: u32 = 1 << 12;
/// The time that a new connection has to identify itself.
const HELLO: Duration = Duration::from_secs(2);
/// The interval of checks for new connections.
const LOOK: Duration = Duration::from_millis(2);
/// The idle time after which a connection is probed, the interval of probes, and their number. Together they let a
/// process notice the loss of a machine after half a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// Connections to all processes by number, each with the process's name. The process's own entry is empty.
pub(super) type Connections = Vec<Option<(TcpStream, String)>>;

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    secret: String,
    program: Fingerprint,
    /// The address at which the process listens for other processes.
    address: SocketAddr,
}

/// The properties that all processes must share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprint {
    protocol: u32,
    version: String,
    tables: u64,
    rules: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Welcome(Box<Welcome>),
    Refused(String),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Welcome {
    me: usize,
    processes: usize,
    wanted: BTreeSet<u32>,
    attribute: bool,
    settings: Settings,
    /// The digest of the plan.
    plan: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Ready {
    Yes,
    /// The process cannot take part, for this reason.
    No(String),
}

/// The addresses at which processes listen, from process 1 on.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    addresses: Vec<SocketAddr>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Peer {
    secret: String,
    me: usize,
}

impl Fingerprint {
    fn of(program: &Program) -> Self {
        let mut tables = String::new();
        for (_, table) in program.schema.iter() {
            tables += &format!("{:?} {} {}\n", table.role, table.name, signature(table));
        }
        let rules: Vec<u8> = program.rules.iter().flat_map(|rule| rule.fingerprint.to_le_bytes()).collect();
        Fingerprint {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tables: digest(tables.as_bytes()),
            rules: digest(&rules),
        }
    }

    /// The difference from another process, if there is one.
    fn difference(&self, other: &Fingerprint) -> Option<String> {
        if (self.protocol, &self.version) != (other.protocol, &other.version) {
            return Some(format!(
                "it runs version {}, but process 0 runs version {}; run the same version on all machines",
                other.version, self.version
            ));
        }
        let what = match (self.tables == other.tables, self.rules == other.rules) {
            (true, true) => return None,
            (false, _) => "its program declares different tables than process 0",
            (true, false) => "its program has different rules than process 0",
        };
        Some(format!("{what}; use the same files for both"))
    }
}

/// A digest of everything that processes must agree on when they evaluate a plan.
pub(crate) fn digest_of_plan(plan: &Plan) -> u64 {
    digest(format!("{:?}\n{:?}\n{:?}", plan.relations, plan.indexes, plan.rules).as_bytes())
}

/// Waits, as process 0, until all others have joined.
pub(super) fn gather(
    listener: &TcpListener,
    secret: &str,
    processes: usize,
    patience: Duration,
    plan: &Plan,
    options: &Options,
) -> Result<Connections, MeetingError> {
    let fingerprint = Fingerprint::of(&plan.program);
    let wanted = plan.relations.iter().filter(|relation| relation.wanted);
    let wanted = wanted.filter_map(|relation| relation.table).map(|table| table.0).collect();
    let mut welcome = Welcome {
        me: 0,
        processes,
        wanted,
        attribute: options.attribute,
        settings: options.planning.clone(),
        plan: digest_of_plan(plan),
    };
    let deadline = Instant::now() + patience;
    let mut joined: Vec<(TcpStream, SocketAddr)> = Vec::new();
    while joined.len() + 1 < processes {
        let Some(mut stream) = accept(listener, deadline)? else {
            return Err(MeetingError::Late { came: joined.len() + 1, processes, patience });
        };
        // Ignore a peer without the secret.
        let Some(hello) = hear_stranger::<Hello>(&mut stream).filter(|hello| hello.secret == secret) else {
            continue;
        };
        if let Some(difference) = fingerprint.difference(&hello.program) {
            let _ = say(&mut stream, &Reply::Refused(difference.clone()));
            return Err(MeetingError::Differs { who: hello.address.to_string(), difference });
        }
        joined.push((stream, hello.address));
    }
    let name = |at: usize, address: &SocketAddr| format!("process {at} ({address})");
    let lost = |at: usize, address: &SocketAddr, error: io::Error| MeetingError::Lost {
        who: name(at, address),
        why: error.to_string(),
    };
    for (at, (stream, address)) in (1..).zip(&mut joined) {
        welcome.me = at;
        say(stream, &Reply::Welcome(Box::new(welcome.clone()))).map_err(|error| lost(at, address, error))?;
    }
    for (at, (stream, address)) in (1..).zip(&mut joined) {
        let patient = stream.set_read_timeout(Some(patience.max(LOOK)));
        let ready =
            patient.and_then(|()| hear(stream, MAX_TEXT)).map_err(|error| lost(at, address, error))?;
        if let Ready::No(difference) = ready {
            return Err(MeetingError::Differs { who: name(at, address), difference });
        }
    }
    let begin = Begin { addresses: joined.iter().map(|(_, address)| *address).collect() };
    let mut connections = vec![None];
    for (at, (mut stream, address)) in (1..).zip(joined) {
        let done = say(&mut stream, &begin).and_then(|()| settle(&stream));
        done.map_err(|error| lost(at, &address, error))?;
        connections.push(Some((stream, name(at, &address))));
    }
    Ok(connections)
}

/// A process that has joined the others.
pub(super) struct Joined {
    pub(super) me: usize,
    pub(super) plan: Plan,
    pub(super) attribute: bool,
    pub(super) connections: Connections,
}

/// Joins process 0 and the other processes.
pub(super) fn join(
    program: std::sync::Arc<Program>,
    coordinator: &[SocketAddr],
    secret: &str,
    patience: Duration,
) -> Result<Joined, MeetingError> {
    let deadline = Instant::now() + patience;
    let mut stream = connect(coordinator, deadline)?;
    let lost = |error: io::Error| MeetingError::Lost { who: "process 0".to_owned(), why: error.to_string() };
    settle(&stream).map_err(lost)?;
    let here: IpAddr = stream.local_addr().map_err(lost)?.ip();
    let bind = |error: io::Error| MeetingError::Address { address: here.to_string(), why: error.to_string() };
    let listener = TcpListener::bind((here, 0)).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let hello = Hello { secret: secret.to_owned(), program: Fingerprint::of(&program), address };
    say(&mut stream, &hello).map_err(lost)?;
    // Process 0 answers once all have joined, which may take as long as its own limit.
    let welcome = match hear(&mut stream, MAX_TEXT).map_err(lost)? {
        Reply::Welcome(welcome) => *welcome,
        Reply::Refused(difference) => {
            return Err(MeetingError::Differs { who: "this process".to_owned(), difference });
        }
    };
    let (me, processes, attribute) = (welcome.me, welcome.processes, welcome.attribute);
    let plan = plan_as_told(program, welcome).inspect_err(|difference| {
        let _ = say(&mut stream, &Ready::No(difference.clone()));
    });
    let plan =
        plan.map_err(|difference| MeetingError::Differs { who: "this process".to_owned(), difference })?;
    say(&mut stream, &Ready::Yes).map_err(lost)?;
    let begin: Begin = hear(&mut stream, MAX_TEXT).map_err(lost)?;
    let mut connections: Connections = vec![Some((stream, "process 0".to_owned()))];
    connections.resize_with(processes, || None);
    let deadline = Instant::now() + patience;
    meet_peers(&mut connections, me, &listener, &begin.addresses, secret, deadline)?;
    Ok(Joined { me, plan, attribute, connections })
}

/// Plans the program with the settings of process 0, and checks that the plan is the same.
fn plan_as_told(program: std::sync::Arc<Program>, told: Welcome) -> Result<Plan, String> {
    let tables = program.schema.iter().map(|(id, _)| id).collect::<BTreeSet<TableId>>();
    let wanted: BTreeSet<TableId> = told.wanted.into_iter().map(TableId).collect();
    if !wanted.is_subset(&tables) || told.me == 0 || told.me >= told.processes {
        return Err("process 0 requested an unknown table".to_owned());
    }
    let plan = Plan::new(program, &wanted, &told.settings);
    if digest_of_plan(&plan) == told.plan {
        Ok(plan)
    } else {
        Err("its query plan differs from that of process 0; run the same build on all machines".to_owned())
    }
}

/// Connects to processes with lower numbers and waits for those with higher ones.
fn meet_peers(
    connections: &mut Connections,
    me: usize,
    listener: &TcpListener,
    addresses: &[SocketAddr],
    secret: &str,
    deadline: Instant,
) -> Result<(), MeetingError> {
    let processes = connections.len();
    let name = |at: usize| {
        let address = addresses.get(at - 1).map_or_else(|| "nowhere".to_owned(), SocketAddr::to_string);
        format!("process {at} ({address})")
    };
    let lost = |at: usize, error: io::Error| MeetingError::Lost { who: name(at), why: error.to_string() };
    for (at, connection) in connections.iter_mut().enumerate().take(me).skip(1) {
        let mut stream = connect(addresses.get(at - 1..at).unwrap_or_default(), deadline)?;
        let peer = Peer { secret: secret.to_owned(), me };
        say(&mut stream, &peer).and_then(|()| settle(&stream)).map_err(|error| lost(at, error))?;
        *connection = Some((stream, name(at)));
    }
    while let Some(missing) = (me + 1..processes).find(|at| connections[*at].is_none()) {
        let Some(mut stream) = accept(listener, deadline)? else {
            let why = "it did not join";
            return Err(MeetingError::Lost { who: name(missing), why: why.to_owned() });
        };
        let peer = hear_stranger::<Peer>(&mut stream);
        let Some(peer) = peer.filter(|peer| peer.secret == secret && (me + 1..processes).contains(&peer.me))
        else {
            continue;
        };
        settle(&stream).map_err(|error| lost(peer.me, error))?;
        connections[peer.me] = Some((stream, name(peer.me)));
    }
    Ok(())
}

/// Waits for a connection; `None` after the deadline.
fn accept(listener: &TcpListener, deadline: Instant) -> Result<Option<TcpStream>, MeetingError> {
    let failed = |error: io::Error| MeetingError::Address {
        address: listener.local_addr().map(|address| address.to_string()).unwrap_or_default(),
        why: error.to_string(),
    };
    listener.set_nonblocking(true).map_err(failed)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(failed)?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Ok(None);
                }
                std::thread::sleep(LOOK);
            }
            // The peer has disconnected already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Connects to the first address that answers, until the deadline.
fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, MeetingError> {
    let mut why = "it has no address".to_owned();
    loop {
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now()).max(LOOK);
            match TcpStream::connect_timeout(address, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error.to_string(),
            }
        }
        if addresses.is_empty() || Instant::now() >= deadline {
            let address = addresses.first().map(SocketAddr::to_string).unwrap_or_default();
            return Err(MeetingError::Address { address, why });
        }
        std::thread::sleep(LOOK);
    }
}

/// Configures an established connection.
fn settle(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    let (idle, interval, count) = KEEPALIVE;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, idle)?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, interval)?;
    rustix::net::sockopt::set_tcp_keepcnt(stream, count)?;
    // Unacknowledged data has the same time limit.
    let limit = idle + interval * count;
    rustix::net::sockopt::set_tcp_user_timeout(stream, limit.as_millis() as u32)?;
    Ok(())
}

fn say(stream: &mut TcpStream, what: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; size_of::<u32>()];
    serde_json::to_writer(&mut bytes, what)?;
    let length = u32::try_from(bytes.len() - size_of::<u32>()).map_err(io::Error::other)?;
    bytes[..size_of::<u32>()].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&bytes)
}

fn hear<T: DeserializeOwned>(stream: &mut TcpStream, limit: u32) -> io::Result<T> {
    let mut length = [0; size_of::<u32>()];
    stream.read_exact(&mut length).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it closed the connection"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::other("it did not answer in time"),
        _ => error,
    })?;
    let length = u32::from_be_bytes(length);
    if length > limit {
        return Err(io::Error::other("it does not speak the Weft protocol"));
    }
    let mut text = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Reads a message from an unauthenticated peer.
fn hear_stranger<T: DeserializeOwned>(stream: &mut TcpStream) -> Option<T> {
    stream.set_read_timeout(Some(HELLO)).ok()?;
    hear(stream, MAX_HELLO).ok()
}
