//! The controller daemon: keeps the switches of a network in sync with its objects and rules.
//!
//! One loop does everything. A request (objects to apply or to delete, the report of a switch) is validated, becomes a
//! transaction of rows, passes through the rules, and is written to disk. Only then do its effects leave the process:
//! changes for each switch, a receipt, the answer. After a restart, the controller restores its state from the journal.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use controller::{Client, Config};
//!
//! let config = Config::load("/etc/weft.toml".as_ref())?;
//! std::thread::spawn(move || controller::run(&config, || ()));
//!
//! let mut client = Client::connect("unix:/run/weft/weft.sock").await?;
//! let text = "{kind: switch, id: blue}".to_owned();
//! let accepted = client.apply([("net.yaml".to_owned(), text)], "me").await?;
//! println!("transaction {:?}", accepted.txn);
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`core`] (state, and what a request does to it; no I/O) with [`rules`], [`builtin`], `reports`,
//! `refused_reports`, `input_rows`, `derived`, `port_moves`, `object_status`, `universal`, `provenance`, `logical_flows`,
//! `learned` and `restore`; [`record`] and
//! [`journal`] (the state on disk); [`engine`] (the loop); [`status`]; [`fleet`] (the switches); [`receipt`];
//! `trace` (a packet's path through the present state), `what_if` (its path after a change that is not applied) and `explain` (why rows and flows exist or not) with `neighbourhood`; `listener` (the API's address and connections) and [`peer`] (the client's identity), `requests` (requests from the
//! network), `answers` (answers on their way to clients), `api` and [`client`] (gRPC, `proto/weft/v1/weft.proto`);
//! [`config`]; [`daemon`] (start and end of all this).
//!
//! Out of scope: driving one switch (crate `ovs-driver`), and the meaning of objects (crate `network` and the rules).
#![forbid(unsafe_code)]

mod activity;
mod answers;
mod api;
mod aside;
pub mod client;
pub mod config;
pub mod daemon;
pub mod drivers;
pub mod engine;
mod explain;
mod flood_drops;
mod flow_counts;
pub mod journal;
mod learned;
mod listener;
mod log;

mod journal_view;
#[cfg(test)]
mod random_networks;
mod requests;
mod run;
mod trace;
mod watchers;
mod what_if;

/// The messages and services of `proto/weft/v1/weft.proto`, generated. A test compares and, with `UPDATE_EXPECT=1`, writes the file.
#[allow(missing_docs, clippy::pedantic)]
pub mod pb {
    include!("api/weft.v1.rs");
}

pub use client::{Client, ClientError};
pub use config::{Config, ConfigError, Listen};
pub use daemon::{Daemon, DaemonError, PROBE, Parts};
pub use journal_view::JournalView;
pub use run::{check, evaluator, run};
