//! The driver against a fake switch and against real Open vSwitch.

mod announcements;
mod collectors;
mod fake;
mod fake_database;
mod flow_counts;
mod foreign_changes;
mod hostile;
mod limits;
mod meters;
mod mutated;
mod open_vswitch;
mod ownership;
mod resilience;
mod sessions;
mod support;
mod zones;
