//! Connections over a network in memory, under paused time: delays are exact, and nothing depends on how busy the
//! machine is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod connection;
mod line_protocol;
mod reconnect;
