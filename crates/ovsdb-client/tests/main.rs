//! The client against a real ovsdb-server and against faulty peers.

mod common;
mod database;
mod peers;
mod replica_property;
mod switch;
