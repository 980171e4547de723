//! Checks the rules against the network model on random networks.
//!
//! A random [`World`] of objects and places goes through a random [`History`]. The rules get the world's rows, as the
//! controller would write them, and simulated hosts load the flows that the rules derive. The model gets the objects
//! themselves. A frame then enters both at the same place, and both must deliver the same frames to the same places.
//!
//! In reading order: [`world`] (objects, places, changes), [`generate`] (random worlds and histories) with [`frames`],
//! [`rows`] (a world for the rules), [`oracle`] (a world for the model), [`derivation`] and [`simulation`] (the rules on
//! simulated hosts), [`run`] (a history in both), [`rehearsal`] (in the model alone), [`mod@check`] (the history of a seed), [`shrink`], [`report`].
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
pub use world::World;
