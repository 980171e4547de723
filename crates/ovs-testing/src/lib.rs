//! Real Open vSwitch with dummy devices, for tests that compare with it: frames go in, and what comes out is there byte by
//! byte, from tunnels too.
//!
//! In reading order: [`Switch`], the running daemons; [`Wrapped`], the frames that tunnels make of frames.
//!
//! Left out on purpose: anything that a real host has. That is crate `lab`, which needs privileges.
#![forbid(unsafe_code)]

mod switch;
mod wrapping;

pub use switch::{Switch, hex};
pub use wrapping::{Wrapped, unwrap, wrap};
