//! Random tables and frames, through real Open vSwitch and through [`flow_simulator::Bridge`].
//!
//! The tests compare the fields of the frame before and after, as `ofproto/trace` prints them, and the frames
//! that the switch's ports really send, byte by byte.

mod beside;
mod compare;
mod directed;
mod frames;
mod learning;
mod pipeline;
mod shrink;
mod speakers;
mod tables;
mod tunnels;

use flow_simulator::VlanLimit;
use ovs_testing::DummySwitch;
use tables::{Case, case};
use test_random::Random;

/// Ports of the switch, and cases loaded at a time: each has an ingress port of its own.
const PORTS: u16 = 16;

/// Sets the number of VLAN tags that the switch reads.
fn vlan_limit(switch: &mut DummySwitch, setting: u8) -> VlanLimit {
    switch.set_vlan_limit(setting);
    VlanLimit::new(setting)
}

#[test]
fn random_tables_and_frames_go_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=PORTS);
    for seed in test_random::seeds!("random_tables_and_frames_go_as_in_open_vswitch", 9) {
        let limit = vlan_limit(&mut switch, (seed % 3) as u8);
        let mut random = Random::new(seed);
        let cases: Vec<Case> = (1..=PORTS).map(|port| case(&mut random, port)).collect();
        let Some(failure) =
            compare::first_difference(&mut switch, limit, &cases).expect("the switch takes the flows")
        else {
            continue;
        };
        let small = shrink::smallest(&mut switch, limit, failure);
        panic!("seed {seed}\n{small}");
    }
}
