//! The controller daemon: keeps the switches of a network in sync with its objects and rules.
//!
//! What to do is decided in `weft-core`, a machine without clocks and I/O. This crate gives it its events (requests from the API, news of
//! the drivers, time) and carries out its effects: records go to the journal, orders to drivers, answers to clients. After a restart, the
//! controller restores its state from the journal.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use controller::Config;
//! use weft_client::Client;
//!
//! let config = Config::load("/etc/weft.toml".as_ref(), std::env::vars_os())?;
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
//! In reading order: [`engine`] (the loop); [`journal`] (the state on disk); [`drivers`] (one for each switch); [`daemon`] (start and end
//! of all this) with `run`, [`config`], `reload`, `service` (notifications to systemd) and [`metrics`]; `listener` (the API's address and connections), [`dial_in`] (where switches connect), `requests` (requests from the network), `answers`
//! (answers on their way to clients), `server` (HTTP and gRPC on a connection), `spans` (where the time of a call goes), `identification` (who sends a request) with [`tokens`], `access` (what they may do), `api` (the calls of `proto/weft/v1/weft.proto`), `http` (the same calls as
//! paths), `problem` (their forms), `watchers` (who follows receipts), `receipts` (those on disk), `object_news` (who follows objects),
//! `history` (what was), `snapshots` (all of it as one file), `diagnostics` (the configuration and the log, with `last_lines`); and
//! questions, which are computed beside the engine (`aside`): `trace` (a packet's path; `trace/of_tenant.rs`: what of it a tenant reads), `what_if` (its path after a change that is not
//! applied), `explain` (why rows and flows exist or not), `surveys` and `flow_counts` (what switches are asked), also for the metrics (`counter_readings`).
//!
//! Out of scope: driving one switch (crate `ovs-driver`), decisions (crate `weft-core`), and the meaning of objects (crate `objects` and the
//! rules).
#![forbid(unsafe_code)]

mod access;
mod activity;
mod answers;
mod api;
mod aside;
pub mod config;
mod counter_readings;
pub mod daemon;
mod diagnostics;
pub mod dial_in;
pub mod drivers;
pub mod engine;
mod evaluators;
mod explain;
mod flow_counts;
mod history;
mod http;
mod identification;
pub mod journal;
mod journal_view;
mod last_lines;
mod listener;
mod log;
pub mod metrics;
mod object_news;
mod prepared_rules;
mod problem;
#[cfg(test)]
mod random_networks;
#[cfg(test)]
mod random_rules;
mod receipts;
mod reload;
mod requests;
mod run;
mod running_rules;
mod server;
mod service;
mod shares;
pub mod snapshots;
mod spans;
mod surveys;
pub mod tokens;
mod trace;
mod watchers;
mod what_if;

pub use api::{delta_message, engine_message, refusal_message};
pub use config::{Config, ConfigError, Effective, Listen};
pub use daemon::{Daemon, DaemonError, PROBE, Parts};
pub use diagnostics::Diagnostics;
pub use dial_in::DialIn;
pub use evaluators::{edit, evaluator};
pub use journal_view::JournalView;
pub use run::{check, run};
pub use spans::Spans;
