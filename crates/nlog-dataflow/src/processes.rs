//! Engines distributed over several processes, on one or several machines.
//!
//! The results are the same as those of one process, byte for byte. Process 0 takes transactions and returns deltas.
//! Every other process holds its part of the derived rows and serves until process 0 ends. All processes must have the
//! same program and the same build, which they check when they meet. Process 0 tells the others the planning settings
//! and the observed tables.
//!
//! ```
//! use nlog_data::{Evaluator, Transaction, Value};
//! use nlog_dataflow::processes::{Meeting, serve};
//! use nlog_dataflow::{Dataflow, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "input table on(port: string, hv: string) key(port);
//!             output table peer(a: string, b: string);
//!             peer(a, b) :- on(p, a), on(q, b), a != b;";
//! let sources = nlog::Sources::from_texts([("peers.nlog", text)]);
//! let program = nlog::compile(&sources).program.ok_or("it compiles")?;
//! let (on, peer) = (program.schema.find("on").ok_or("declared")?, program.schema.find("peer").ok_or("declared")?);
//!
//! let meeting = Meeting::new("127.0.0.1:0", "a secret that both know", 2)?;
//! let address = meeting.address();
//! // This would be another process, perhaps on another machine.
//! let again = program.clone();
//! let other = std::thread::spawn(move || serve(again, address, "a secret that both know"));
//!
//! let mut engine = Dataflow::across(program, Options::default(), meeting)?;
//! let row = |port: &str, hv: &str| vec![Value::String(port.into()), Value::String(hv.into())];
//! let mut transaction = Transaction::default();
//! transaction.insert.insert(on, vec![row("p1", "hv1"), row("p2", "hv2")]);
//! let committed = engine.commit(&transaction)?;
//! assert_eq!(committed.delta.tables[&peer].insert, vec![row("hv1", "hv2"), row("hv2", "hv1")]);
//! drop(engine);
//! other.join().map_err(|_| "it panicked")??;
//! # Ok(()) }
//! ```
//!
//! Packets go through timely's communication layer. If a process ends or its machine fails, every wait for it becomes
//! an error: the engine then answers each transaction with that error and must be restarted. The engine waits for slow
//! processes without a limit. A shared secret authenticates processes, but nothing is encrypted, and a process with the
//! secret is trusted. Use the loopback interface, or a network without other users.
//!
//! In reading order: `handshake` (meeting), `socket` and `mesh` (transport of messages), `wire` (their contents).
//!
//! Out of scope: several workers in each process (start more processes), and edits of rules in a running engine of
//! several processes.

pub(crate) mod handshake;
mod mesh;
mod socket;
mod wire;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nlog::Program;
use nlog_plan::query::Plan;

use crate::dataflow::Options;
use crate::fused::NEW_SYMBOLS;
use crate::fused::engine::State;
use crate::fused::workers::{self, Workers, part};
use crate::panic::message;
use crate::symbol::{Marks, Symbols};
use mesh::Mesh;

/// The default time limit for processes to meet.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The meeting point of the processes, at process 0.
#[derive(Debug)]
pub struct Meeting {
    listener: TcpListener,
    address: SocketAddr,
    secret: String,
    processes: usize,
    patience: Duration,
}

/// The reason why processes cannot meet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeetingError {
    /// There would be only one process.
    #[error("cannot distribute work over {0} processes; use 2 or more, or start a single-process engine")]
    TooFew(usize),
    /// [`Options::workers`] is not 1.
    #[error(
        "with several processes, each process has one worker; increase the number of processes, not of \
    workers"
    )]
    Threads,
    /// [`Options::engine`] is the composed one.
    #[error("the composed engine runs in a single process; use the fused engine")]
    Composed,
    /// Listening on an address, or connecting to it, failed.
    #[error("{address}: {why}")]
    Address {
        /// The address.
        address: String,
        /// The cause.
        why: String,
    },
    /// Not all processes joined in time.
    #[error(
        "only {came} of {processes} processes joined within {} seconds; check that the others are running, \
        can reach process 0 and have the secret",
        patience.as_secs()
    )]
    Late {
        /// The number of processes that joined, including process 0.
        came: usize,
        /// The number of expected processes.
        processes: usize,
        /// The time allowed.
        patience: Duration,
    },
    /// A process runs another program, or another build.
    #[error("{who} cannot join: {difference}")]
    Differs {
        /// The process.
        who: String,
        /// The difference, and the remedy.
        difference: String,
    },
    /// A process was lost.
    #[error("{who} disconnected during startup: {why}; check its output and restart all processes")]
    Lost {
        /// The process.
        who: String,
        /// The cause, according to the connection.
        why: String,
    },
}

/// The reason why a process stopped serving before process 0 was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The processes did not meet.
    #[error(transparent)]
    Meeting(#[from] MeetingError),
    /// Another process ended or failed.
    #[error("{0}; restart all processes")]
    Lost(String),
    /// A function of a rule, or the engine, panicked.
    #[error("{0}; restart all processes")]
    Panicked(String),
}

impl Meeting {
    /// Listens for the other processes. Port 0 selects a free port, which [`Meeting::address`] returns.
    pub fn new(address: impl ToSocketAddrs, secret: &str, processes: usize) -> Result<Self, MeetingError> {
        if processes < 2 {
            return Err(MeetingError::TooFew(processes));
        }
        let failed = |error: std::io::Error| MeetingError::Address {
            address: "the address of process 0".to_owned(),
            why: error.to_string(),
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Meeting { listener, address, secret: secret.to_owned(), processes, patience: PATIENCE })
    }

    /// Sets how long to wait for the others, instead of [`PATIENCE`].
    pub fn with_patience(self, patience: Duration) -> Self {
        Meeting { patience, ..self }
    }

    /// The address at which the others reach process 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the others, as process 0.
    pub(crate) fn start(self, plan: &Arc<Plan>, options: &Options) -> Result<(State, Workers), MeetingError> {
        let Meeting { listener, secret, processes, patience, .. } = self;
        let connections = handshake::gather(&listener, &secret, processes, patience, plan, options)?;
        let symbols = Arc::new(Symbols::of_one_process());
        let state = part(plan, &symbols, options.attribute, 0, processes);
        let mesh = mesh(0, connections, &symbols)?;
        Ok((state, Workers::new(Box::new(mesh))))
    }
}

fn mesh(
    me: usize,
    connections: handshake::Connections,
    symbols: &Arc<Symbols>,
) -> Result<Mesh, MeetingError> {
    Mesh::new(me, connections, Arc::clone(symbols))
        .map_err(|error| MeetingError::Lost { who: format!("process {me}"), why: error.to_string() })
}

/// Serves process 0 until it ends. Waits for process 0 if it does not listen yet.
pub fn serve(program: Arc<Program>, process_0: impl ToSocketAddrs, secret: &str) -> Result<(), ServeError> {
    let addresses = process_0.to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses
        .map_err(|error| MeetingError::Address {
            address: "the address of process 0".to_owned(),
            why: error.to_string(),
        })?
        .collect();
    let handshake::Joined { me, plan, attribute, connections } =
        handshake::join(program, &addresses, secret, PATIENCE)?;
    let symbols = Arc::new(Symbols::of_one_process());
    let mut state = part(&Arc::new(plan), &symbols, attribute, me, connections.len());
    let mut mesh = mesh(me, connections, &symbols)?;
    let mut limit = NEW_SYMBOLS;
    let served = catch_unwind(AssertUnwindSafe(|| {
        workers::serve(&mut state, &mut mesh, |state| collect_symbols(state, &mut limit))
    }));
    let error = match served {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(_)) => ServeError::Lost(mesh.why()),
        Err(panic) => ServeError::Panicked(format!("process {me} panicked: {}", message(panic.as_ref()))),
    };
    // Tell the others the cause.
    let (ServeError::Lost(why) | ServeError::Panicked(why)) = &error else { return Err(error) };
    mesh.say_failed(why);
    Err(error)
}

/// Collects this process's unused symbols once their number has doubled since the last time, and grown by
/// [`NEW_SYMBOLS`].
fn collect_symbols(state: &mut State, limit: &mut usize) {
    if state.symbols.len() < *limit {
        return;
    }
    let mut marks = Marks::default();
    state.mark(&mut marks);
    state.symbols.sweep(&marks);
    let left = state.symbols.len();
    *limit = left + left.max(NEW_SYMBOLS);
}

#[cfg(test)]
mod tests {
    use nlog_data::Value;

    use super::*;

    #[test]
    fn a_process_gives_symbols_back_that_nothing_holds() {
        let text = "input table a(x: string); output table b(x: string); b(x) :- a(x), x != \"a constant\";";
        let program = nlog::compile(&nlog::Sources::from_texts([("test.nlog", text)])).program;
        let plan = Arc::new(Plan::for_outputs(program.expect("it compiles")));
        let symbols = Arc::new(Symbols::of_one_process());
        let mut state = part(&plan, &symbols, false, 1, 2);
        let constants = symbols.len();
        let mut limit = NEW_SYMBOLS;
        for number in 0..10 * NEW_SYMBOLS {
            symbols.intern(&Value::from(format!("name {number}")));
            collect_symbols(&mut state, &mut limit);
            assert!(symbols.len() <= constants + NEW_SYMBOLS, "{number}");
        }
        let before = symbols.len();
        symbols.intern(&Value::from("a constant"));
        assert_eq!((constants, symbols.len()), (1, before), "what rules hold stays");
    }
}
