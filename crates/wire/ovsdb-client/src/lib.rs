//! OVSDB client (RFC 7047 and the extensions of Open vSwitch, `ovsdb-server(7)`): monitor, transact, reconnect.
//!
//! The replica mirrors the monitored part of the database. Every change is reported exactly once and in order, even
//! when connections are lost, and every wait has a deadline. [`Client::compare`] finds changes that the server has not notified.
//!
//! ```
//! use ovsdb_client::{Client, Condition, Endpoint, Event, MonitorSpec, Operation, Options};
//!
//! async fn print_interfaces(endpoint: Endpoint) -> Result<(), Box<dyn std::error::Error>> {
//!     let monitor = MonitorSpec::nothing().table("Interface", &["name", "ofport"]);
//!     let (client, mut events) = Client::spawn(endpoint, "Open_vSwitch", monitor, Options::default());
//!     let select = Operation::select("Bridge", vec![Condition::equal("name", "br-int")], &["_uuid"]);
//!     println!("{:?}", client.transact(&[select]).await?.rows(0));
//!     while let Some(event) = events.recv().await {
//!         if let Event::Changes(changes) = event {
//!             for row in changes.iter().filter_map(|change| change.new.as_ref()) {
//!                 println!("{} {:?}", row.get::<String>("name")?, row.get::<Option<i64>>("ofport")?);
//!             }
//!         }
//!     }
//!     Ok(())
//! }
//! # let endpoint: Endpoint = "unix:/run/openvswitch/db.sock".parse().unwrap();
//! # drop(print_interfaces(endpoint));
//! ```
//!
//! In reading order: `text` (JSON, part by part), [`value`] (atoms and data), [`schema`] (column types), [`row`]; [`framing`]
//! (bytes to messages), `connection` (JSON-RPC); [`transact`] (operations and their results), [`replica`]
//! (monitored rows and their changes), [`events`] (reports), [`session`] (the task that stays connected, and compares the replica
//! with the database when asked to), `lock` (which keeps
//! other clients from writing); on top of
//! these [`open_vswitch`], a typed view of the `Open_vSwitch` schema. The crate `fake-switch` has a server for tests.
//!
//! Out of scope: conditions on monitored rows, and several databases per client.
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod collections;
pub mod connection;
pub mod events;
pub mod framing;
mod known;
mod lock;
pub mod open_vswitch;
pub mod replica;
pub mod row;
pub mod schema;
pub mod session;
mod text;
pub mod transact;
pub mod value;

pub use collections::{Atoms, Pairs};
pub use connection::{Options, SessionError};
pub use events::Event;
pub use peer_connection::{Dial, Endpoint, EndpointError};
pub use replica::{Change, MonitorSpec, Replica};
pub use row::{ColumnError, Row};
pub use session::Client;
pub use transact::{Condition, Mutation, Mutator, Operation, Outcome, Outcomes, TransactError};
pub use value::{Atom, Datum};
