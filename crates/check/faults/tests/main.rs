//! Parts of the fault suite that need neither Open vSwitch nor a controller. Its short form is a test of `weft-cli`, which builds the controller.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod book;
mod flows;
mod page;
mod plan;
mod proxy;
