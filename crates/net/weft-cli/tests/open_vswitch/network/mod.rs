//! The logical network with real stacks on real Open vSwitch: the documented behaviour of objects, measured by the
//! frames that arrive at machines.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod address_conflicts;
mod addressing;
mod announced_moves;
mod claims;
mod connection_limits;
mod connections;
mod conversation;
mod drops;
mod examples;
mod first_hit;
mod flood_limits;
mod gateways;
mod ipfix;
mod leaders;
mod learning;
mod live_migration;
mod live_rules;
mod logging;
mod long_chains;
mod migration;
mod multicast;
mod names;
mod nat;
mod ovs_pki;
mod probes;
mod random_migrations;
mod remote_host;
mod renewal;
mod responses;
mod rivals;
mod routers;
mod secure_host;
mod secured;
mod shared_addresses;
mod sockets;
mod stacks;
mod support;
mod tls_versions;
mod underlay;

pub(crate) use support::wait_for;
