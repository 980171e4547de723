//! The rules against the specification and real Open vSwitch.

mod acls;
mod drops;
mod filtering;
mod flood;
mod growth;
mod hosts;
mod isolation;
mod layers;
mod learning;
mod open_vswitch;
mod physical;
mod pipeline;
mod planted;
mod problems;
mod random;
mod trees;
