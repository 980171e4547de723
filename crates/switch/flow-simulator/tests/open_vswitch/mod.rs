//! Random tables and frames, through real Open vSwitch and through [`flow_simulator::Bridge`].
//!
//! The tests compare the fields of the frame before and after, as `ofproto/trace` prints them, and the frames
//! that the switch's ports really send, byte by byte.

mod beside;
mod buckets;
mod compare;
mod directed;
mod frames;
mod learning;
mod pipeline;
mod refused;
mod shrink;
mod speakers;
mod tables;
mod tracking;
mod tunnels;

use flow_simulator::{Bridge, VlanLimit};
use openflow_rs::PortNo;
use ovs_testing::DummySwitch;
use tables::{Case, case, case_of_groups};
use test_random::Random;

/// Ports of the switch, and cases loaded at a time: each has an ingress port of its own.
const PORTS: u16 = 16;

/// What a switch and a bridge are told besides flows and groups.
#[derive(Clone, Debug)]
struct Setting {
    vlan_limit: VlanLimit,
    /// The ports that are not live.
    dead: Vec<u16>,
}

impl Setting {
    /// Sets the number of VLAN tags that the switch reads. All its ports are live.
    fn new(switch: &mut DummySwitch, vlan_limit: u8) -> Setting {
        switch.set_vlan_limit(vlan_limit);
        Setting { vlan_limit: VlanLimit::new(vlan_limit), dead: Vec::new() }
    }

    /// Changes which ports are live.
    fn kill(&mut self, switch: &mut DummySwitch, dead: Vec<u16>) {
        let (before, now) = (std::mem::replace(&mut self.dead, dead.clone()), dead);
        switch.set_live(before.iter().copied().filter(|port| !now.contains(port)), true);
        switch.set_live(now.into_iter().filter(|port| !before.contains(port)), false);
    }

    /// A bridge without flows, with these settings.
    fn bridge(&self) -> Bridge {
        let mut bridge = Bridge::new((1..=PORTS).map(PortNo));
        bridge.vlan_limit = self.vlan_limit;
        self.dead.iter().for_each(|port| bridge.set_live(PortNo(*port), false));
        bridge
    }
}

/// Compares random cases of one seed, with a random set of ports that are not live.
fn compare_cases(switch: &mut DummySwitch, seed: u64, case: fn(&mut Random, u16) -> Case) {
    let mut setting = Setting::new(switch, (seed % 3) as u8);
    let mut random = Random::new(seed);
    // Groups watch ports 1 to 3 and one that is not there.
    let dead = (1..=3).filter(|_| random.chance(30)).collect();
    setting.kill(switch, dead);
    let cases: Vec<Case> = (1..=PORTS).map(|port| case(&mut random, port)).collect();
    if let Some(failure) =
        compare::first_difference(switch, &setting, &cases).expect("the switch takes the flows")
    {
        let small = shrink::smallest(switch, &setting, failure);
        panic!("seed {seed}, not live: {:?}\n{small}", setting.dead);
    }
    setting.kill(switch, Vec::new());
}

#[test]
fn random_tables_and_frames_go_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=PORTS);
    for seed in test_random::seeds!("random_tables_and_frames_go_as_in_open_vswitch", 9) {
        compare_cases(&mut switch, seed, case);
    }
}

#[test]
fn random_groups_choose_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=PORTS);
    for seed in test_random::seeds!("random_groups_choose_as_in_open_vswitch", 6) {
        compare_cases(&mut switch, seed, case_of_groups);
    }
}
