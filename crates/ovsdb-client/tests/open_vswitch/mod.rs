//! The client against real Open vSwitch.

mod database;
mod proxy;
mod replica_property;
mod server;
mod switch;
