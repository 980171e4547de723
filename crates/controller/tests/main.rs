//! The daemon, with switches in the tests' hands.

mod announcements;
mod built_in;
mod choices;
mod configuration;
mod connections;
mod core;
mod daemon;
mod encapsulations;
mod flood_drops;
mod flow_counts;
mod full_disk;
mod groups;
mod hostile;
mod interface;
mod learned;
mod load;
mod logical_flows;
mod lying_hosts;
mod numbers;
mod other_rules;
mod refused_state;
mod routes;
mod shutdown;
mod support;
mod trace;
mod zones;
