//! The client against real Open vSwitch.

mod database;
mod fake;
mod proxy;
mod replica_property;
mod server;
mod switch;
