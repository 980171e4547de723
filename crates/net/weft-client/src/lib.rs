//! The client of the controller: connect to it, ask it, change objects and follow what happens, over gRPC on a unix socket or TCP.
//!
//! ```no_run
//! # async fn example() -> Result<(), weft_client::ClientError> {
//! let mut client = weft_client::Client::connect("unix:/run/weft/weft.sock").await?;
//! for object in client.get("switch_port", None).await? {
//!     println!("{object}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] has a method for each thing that a user does; [`pb`] are the messages of `proto/weft/v1/weft.proto` and the generated client and
//! server, for what it leaves out. [`message_json`] is their JSON, as the API speaks it over HTTP. The controller is built on the same messages.
//!
//! Out of scope: the meaning of objects (the rules that the controller runs) and the command line.
#![forbid(unsafe_code)]

mod client;
mod flow_counts;
pub mod message_json;

/// The messages and services of `proto/weft/v1/weft.proto`, generated. A test compares and, with `UPDATE_EXPECT=1`, writes the file.
#[allow(missing_docs, clippy::pedantic)]
pub mod pb {
    include!("weft.v1.rs");
}

/// The description of the messages and services, which server reflection answers with.
pub const DESCRIPTORS: &[u8] = include_bytes!("weft.v1.descriptors");

/// The largest message, in bytes: objects to apply, or an answer.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The message of a controller that is about to end.
pub const STOPPING: &str = "the controller is stopping";

pub use client::*;
pub use flow_counts::{Drops, FlowCounts};
pub use mutual_tls::{Credentials, Files as CredentialFiles, Pair as CertificateFiles};
