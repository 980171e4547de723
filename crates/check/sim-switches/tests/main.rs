//! Tests of simulated hosts, alone and beside real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod dialling;
mod hosts;
mod open_vswitch;

use sim_switches::{Fleet, Layout};
use tokio::runtime::Runtime;

/// Hosts on free ports, and the runtime that they live in.
fn start(count: usize) -> (Runtime, Fleet) {
    let runtime = Runtime::new().unwrap();
    let layout = Layout { hosts: count, ovsdb_port: 0, openflow_port: 0, ..Layout::default() };
    let fleet = {
        let _in_it = runtime.enter();
        Fleet::start(&layout).unwrap()
    };
    (runtime, fleet)
}
