//! The driver against real Open vSwitch.

mod address_conflicts;
mod announcements;
mod bfd;
mod choices;
mod end_points;
mod flow_counts;
mod flows_and_tunnels;
mod foreign_changes;
mod groups;
mod learned;
mod meters;
mod ownership;
mod switch;
mod zones;
