//! The daemon: keeps a network of switches as its objects and rules say.
//!
//! One loop does everything. A request (objects applied or deleted, a switch's report) is judged, becomes a transaction
//! of rows, goes through the rules, is put on disk, and only then do its effects leave the process: changes for each
//! switch, a receipt, the answer. A controller that is started again reads its journal and knows what it knew.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use controller::{Client, Config};
//!
//! let config = Config::load("/etc/weft.toml".as_ref())?;
//! std::thread::spawn(move || controller::run(&config));
//!
//! let mut client = Client::connect("127.0.0.1:6657").await?;
//! let text = "{kind: switch, id: blue}".to_owned();
//! let accepted = client.apply([("net.yaml".to_owned(), text)], "me").await?;
//! println!("transaction {:?}", accepted.txn);
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`core`] (state, and what a request does to it; no I/O) with [`rules`], `labels`, `reports`,
//! `refused`, `outputs`, `notices` and `fold`; [`record`] and [`journal`] (what is on disk); [`engine`] (the loop); [`fleet`] (the switches); [`receipt`];
//! `api` and [`client`] (gRPC, `proto/weft/v1/weft.proto`); [`config`]; [`daemon`] (how all this starts and ends).
//!
//! Left out on purpose: how one switch is driven (crate `switch`), what objects mean (crate `network` and the rules).
#![forbid(unsafe_code)]

mod api;
pub mod client;
pub mod config;
pub mod core;
pub mod daemon;
pub mod engine;
pub mod fleet;
mod fold;
pub mod journal;
mod labels;
mod notices;
mod origins;
mod outputs;
pub mod receipt;
pub mod record;
mod refused;
mod reports;
pub mod rules;
mod run;

/// What `proto/weft/v1/weft.proto` says, generated.
#[allow(missing_docs, clippy::pedantic)]
pub mod pb {
    tonic::include_proto!("weft.v1");
}

pub use client::{Client, ClientError};
pub use config::{Config, ConfigError, Listen};
pub use daemon::{Daemon, DaemonError, Parts};
pub use rules::Rules;
pub use run::{check, run};
