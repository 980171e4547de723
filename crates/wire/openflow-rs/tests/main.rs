//! Messages, fields and actions against `ovs-ofctl`.

mod memory;
mod open_vswitch;
mod properties;
mod reference;
mod strategies;
