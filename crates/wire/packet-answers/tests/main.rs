//! Answers byte by byte, and what holds for all of them.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod advertisements;
mod dhcp_options;
mod dhcpv4;
mod dhcpv6;
mod dns;
mod golden;
mod instructions;
mod probes;
mod properties;
mod resolutions;
mod settings;
mod unasked;
