//! Simulated hosts with their drivers, for tests of rules.
//!
//! [`Hosts`] are given the changes of the rules' output tables ([`Outputs`]): they load flows and groups in the driver's
//! order, make the tunnel and patch ports that are wanted, and report those. A frame that enters at a [`Place`] leaves as
//! [`Out`]s. The caller says which hosts and interfaces there are, and which ports hosts fail to make.
//!
//! In reading order: [`Outputs`], [`Place`], [`Hosts`]. The flow tables themselves are those of `flow-simulator`.
#![forbid(unsafe_code)]

mod groups;
mod hosts;
mod outputs;
mod place;

pub use hosts::{Hosts, Number, Passage, Reports, Site, Wanted};
pub use outputs::Outputs;
pub use place::{Out, Place};
