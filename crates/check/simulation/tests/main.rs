//! Simulations that every change of the project has to pass.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod seeds;
