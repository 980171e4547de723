//! The flows of one host of a network, as derived by the rules: port security, neighbours, learning, trunks, a
//! physical network, tunnels in three encapsulations.
//!
//! `pipeline/network.jsonl` is the network, `flows.txt` and `groups.txt` are `of_flow` and `of_bucket` of `hv1` from
//! `weft eval rules -i network.jsonl --final`, as `ovs-ofctl` reads them; tunnel ports are 200 to 202 there. Its labels are
//! input, as when rules did not allocate them, and spread over their 24 bits.

use frame_builder::{Encapsulation, Wrapped};
use openflow_rs::FlowEntry;
use test_random::Random;

use crate::open_vswitch::beside::{Beside, FOR_ALL, PEERS, address};
use crate::open_vswitch::frames::frame;
use crate::open_vswitch::learning::learned_flows;
use crate::open_vswitch::speakers::{SPEAKERS, frame_of};

/// Ports of the host: vNICs, some of them trunks, and the one to the physical network.
const HOST_PORTS: [u16; 7] = [1, 2, 3, 4, 5, 6, 9];
/// Labels of ports, and of replication for each of the four switches.
const LABELS: std::ops::RangeInclusive<u32> = 0x101..=0x111;
const REPLICATION: [u32; 4] = [0xf0_0000, 0xe0_0000, 0xd0_0000, 0xc0_0000];
/// The table of learned flows.
const FDB: u8 = 21;

#[test]
fn the_pipeline_of_a_host_goes_as_in_open_vswitch() {
    let mut both = Beside::start();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (groups, flows) =
        (lines(include_str!("pipeline/groups.txt")), lines(include_str!("pipeline/flows.txt")));
    for seed in test_random::seeds!("the_pipeline_of_a_host_goes_as_in_open_vswitch", 1) {
        both.load(&groups, &flows);
        let mut random = Random::new(seed);
        for number in 0..400 {
            let speaker = random.pick(&SPEAKERS);
            let same = match random.below(10) {
                0..=5 => both.receive(speaker.port, &frame_of(&mut random, speaker)),
                6 | 7 => both.receive(*random.pick(&HOST_PORTS), &frame(&mut random)),
                kind => {
                    let known = kind == 8;
                    let inner = if known { frame_of(&mut random, speaker) } else { frame(&mut random) };
                    both.receive_tunnelled(&from_peer(&mut random, inner))
                }
            };
            if let Err(difference) = same {
                panic!("seed {seed}, packet {number}\n{difference}");
            }
        }
        let here = &both.fabric.host("here").expect("it is there").bridge;
        let learned: Vec<FlowEntry> = here.learned().into_iter().cloned().collect();
        assert!(!learned.is_empty(), "nothing was learned");
        assert_eq!(learned_flows(&mut both.switch, FDB, &learned), learned, "seed {seed}");
    }
}

fn from_peer(random: &mut Random, inner: Vec<u8>) -> Wrapped {
    let encapsulation = random.pick(&FOR_ALL).1;
    let mut label = || LABELS.start() + random.below(LABELS.count() as u64) as u32;
    let (port, ingress) = (label(), label());
    let replication = *random.pick(&REPLICATION) + 5 + random.below(4) as u32;
    let key = if random.chance(60) { port } else { replication };
    let option = Some(ingress).filter(|_| encapsulation == Encapsulation::Geneve && random.chance(90));
    Wrapped { encapsulation, from: address(*random.pick(&PEERS)), to: address(1), key, option, inner }
}
