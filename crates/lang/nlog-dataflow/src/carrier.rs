//! Messages between the workers of a program, carried by timely's communication layer.
//!
//! Each worker has a [`Port`]. Messages between two workers stay in order. A worker of the same process gets the message
//! itself, which can hold an `Arc`. A worker of another process gets bytes, which a [`Codec`] writes and reads.
//!
//! Code that waits for other workers is an `async` function, which has two settings:
//!
//! - [`start()`] starts the workers, as threads of one or several processes. Worker 0 is the caller's thread: a [`Carrier`]
//!   runs a future there until it is complete. Each other worker runs one future, which serves worker 0.
//! - [`operator()`] runs one future at each worker of a dataflow that somebody else has built.
//!
//! The messages use a channel of their own, which timely allocates like the channel of an edge. They bypass progress
//! tracking, so a message costs neither a notification of all workers nor a walk around a feedback loop. Times still
//! follow timely's rules: see [`operator()`].
//!
//! **Loss.** Each worker tells the others when it ends, and why if it fails. If a process dies or its machine fails, the
//! connection to it ends. In each case [`Port::receive`] returns [`Lost`] at all other workers, and [`Port::why`] names
//! the worker or process and the cause.
//!
//! Nothing is encrypted, and a process with the same identity is trusted. Use the loopback interface, or a network
//! without other users.
//!
//! In reading order: `port`, `envelope`, `start`, `operator`, `meeting` (processes connect), `socket` (how connections
//! end).

mod envelope;
mod meeting;
mod operator;
mod port;
mod socket;
mod start;
#[cfg(test)]
mod tests;

pub use meeting::{Processes, hostfile};
pub(crate) use operator::{Desk, operator};
pub(crate) use port::Port;
pub(crate) use start::{Carrier, start};

/// How messages become bytes for other processes.
pub(crate) trait Codec<B>: Send + Sync {
    /// Writes a message, or says why it cannot.
    fn encode(&self, body: B) -> Result<Vec<u8>, String>;

    /// Reads a message, or says what is wrong with it.
    fn decode(&self, bytes: &[u8]) -> Result<B, String>;
}

/// Another worker was lost. [`Port::why`] names it and the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// The reason why workers do not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// There would be no worker.
    #[error("a program needs at least one worker")]
    NoWorker,
    /// A thread does not start.
    #[error("worker {0} does not start: {1}")]
    Thread(usize, String),
    /// The process has a number that no address belongs to.
    #[error("there is no process {0}: the addresses are for {1} processes, which count from 0")]
    NoAddress(usize, usize),
    /// The process cannot listen on its address.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, String),
    /// A process did not connect in time.
    #[error(
        "{who} did not connect within {seconds} seconds ({why}); check that it runs and that its address is right"
    )]
    Late {
        /// The process.
        who: String,
        /// The time limit.
        seconds: u64,
        /// What was tried last.
        why: String,
    },
    /// A process is of another kind.
    #[error("{who} has {what} {theirs}, but this process has {ours}; start all processes alike")]
    Differs {
        /// The process.
        who: String,
        /// What differs.
        what: String,
        /// The value there.
        theirs: String,
        /// The value here.
        ours: String,
    },
    /// The connections do not work.
    #[error("the connections to other processes do not work: {0}")]
    Network(String),
}
