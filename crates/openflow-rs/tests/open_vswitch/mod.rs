//! Agreement with the installed Open vSwitch: its printer, its parser, and a live switch.
//!
//! These tests need `ovs-ofctl`, `ovs-vsctl`, `ovsdb-server` and `ovs-vswitchd`, but no privileges:
//! the switch they start uses dummy devices and touches no network of the host.

mod literal;
mod live;
mod ofctl;
mod printing;
mod random;
mod spelling;
