//! Checks the rules against the network model on random networks.
//!
//! A random [`World`](network_spec::World) goes through a random [`History`]. The model gets the world itself. The rules get its
//! rows, as the controller would write them, and simulated hosts load the flows that the rules derive. A frame then enters both at the
//! same place, and both must deliver the same frames to the same places.
//!
//! Networks are described once, by the types of [`network_spec`]. What the specification must not know is beside its world, in a
//! [`NumberedWorld`]: labels, meters and `OpenFlow` ports, whose values must make no difference to frames. What a world becomes for rules is
//! here alone: rows, and the names of values in them.
//!
//! In reading order: [`world`] (numbers, changes), [`generate`] (random worlds and histories) with [`frames`], [`rows`] (a world for the
//! rules), [`derivation`] and [`simulation`] (the rules on simulated hosts), [`responder`] (the answers to what these hand over), [`oracle`] (what these observe, in the model's terms), [`run`]
//! (a history in both), [`rehearsal`] (in the model alone), [`mod@check`] (the history of a seed), [`shrink`], [`report`].
//!
//! Left out on purpose: real switches (`flow-simulator` is checked against those), and sockets. A change is in force everywhere
//! before the next frame is sent, unless the step says that hosts change one after another ([`Step::OneByOne`]).
#![forbid(unsafe_code)]

pub mod check;
pub mod derivation;
pub mod frames;
pub mod generate;
pub mod oracle;
pub mod program;
pub(crate) mod rehearsal;
pub mod report;
pub mod responder;
pub mod rows;
pub mod run;
pub mod shrink;
mod silence;
pub mod simulation;
pub mod world;

pub use check::check;
pub use generate::{History, Place, Size, Step, history};
pub use rehearsal::{Filtered, rehearse};
pub use run::{Count, Failure, Runner};
pub use simulation::{Out, Simulation};
pub use world::{Change, NumberedWorld};
