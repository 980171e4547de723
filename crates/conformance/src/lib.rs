//! Whether the rules do what the network model says.
//!
//! A random [`World`] of objects and places lives through a random [`History`]. The rules get its rows, as the controller
//! would write them, and what they derive is loaded into simulated hosts; the model gets the objects as they are. Then a
//! frame goes in at the same place of both, and the same frames must come out at the same places.
//!
//! In reading order: [`world`] (objects, places, changes), [`generate`] (random ones) with [`frames`], [`rows`] (a world
//! for the rules), [`oracle`] (a world for the model), [`derivation`] and [`simulation`] (the rules at work), [`run`] (a history in both),
//! [`mod@check`] (many of them), [`shrink`], [`report`].
//!
//! Left out on purpose: real switches (`datapath` is checked against those), sockets, and the controller's own order of
//! doing things: a change is in force everywhere before the next frame is sent.
#![forbid(unsafe_code)]

pub mod check;
pub mod derivation;
pub mod frames;
pub mod generate;
pub mod oracle;
pub mod program;
pub mod report;
pub mod rows;
pub mod run;
pub mod shrink;
pub mod simulation;
pub mod world;

pub use check::check;
pub use generate::{History, Place, Size, Step, history};
pub use run::{Count, Failure, Runner};
pub use simulation::{Out, Simulation};
pub use world::World;
