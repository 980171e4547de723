//! Histories of packets that are learned from, flow changes, and passing time.

use std::time::Duration;

use flow_simulator::{Bridge, Packet};
use openflow_rs::{FlowEntry, FlowMod, PortNo};
use test_random::Random;

use crate::open_vswitch::frames::frame;
use ovs_testing::{DummySwitch, hex};

/// The table of learned flows.
const LEARNED: u8 = 21;

enum Step {
    /// A port receives a frame.
    Frame(u16, Vec<u8>),
    /// Seconds pass.
    Seconds(u64),
    /// A line of an `ovs-ofctl` flow file.
    Flow(String),
}

/// The flows of a table, in the order of [`Bridge::flows`], once they are as expected. The switch looks at timeouts only
/// when it revalidates the datapath's flows, so it gets several rounds before the difference counts.
pub(crate) fn learned_flows(switch: &mut DummySwitch, table: u8, expected: &[FlowEntry]) -> Vec<FlowEntry> {
    const ROUNDS: usize = 20;
    let mut flows = Vec::new();
    for _ in 0..ROUNDS {
        let parse = |line: String| line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        flows = switch.flows(table).into_iter().map(parse).collect::<Vec<FlowEntry>>();
        flows.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.matches.cmp(&b.matches)));
        if flows == expected {
            break;
        }
        switch.settle();
    }
    flows
}

/// Runs a history on both sides, and compares output and learned flows after every step.
fn live(switch: &mut DummySwitch, steps: &[Step]) -> Result<(), String> {
    let mut bridge = Bridge::new((1..=crate::open_vswitch::PORTS).map(PortNo));
    switch.load(&[], &[])?;
    for (number, step) in steps.iter().enumerate() {
        let what = match step {
            Step::Frame(port, bytes) => {
                let outcome = bridge.receive(&Packet::new(bytes.clone(), PortNo(*port)));
                let mut here: Vec<(u16, Vec<u8>)> =
                    outcome.emitted.into_iter().map(|one| (one.port.0, one.bytes)).collect();
                here.retain(|(port, _)| (1..=crate::open_vswitch::PORTS).contains(port));
                let mut there = switch.receive(*port, bytes);
                here.sort();
                there.sort();
                if here != there {
                    return Err(format!(
                        "step {number}: {port} {}: sent {there:?}, here {here:?}",
                        hex(bytes)
                    ));
                }
                format!("frame {} on port {port}", hex(bytes))
            }
            Step::Seconds(seconds) => {
                bridge.advance(Duration::from_secs(*seconds));
                switch.call("time/warp", &[&(seconds * 1000).to_string(), "1000"]);
                switch.settle();
                format!("{seconds} seconds")
            }
            Step::Flow(line) => {
                let change: FlowMod = line.parse().map_err(|error| format!("{line}: {error}"))?;
                bridge.apply(&change).map_err(|error| format!("{line}: {error}"))?;
                switch.change(line)?;
                line.clone()
            }
        };
        let here: Vec<FlowEntry> = bridge.learned().into_iter().cloned().collect();
        let there = learned_flows(switch, LEARNED, &here);
        if there != here {
            let print = |flows: &[FlowEntry]| {
                flows.iter().fold(String::new(), |text, flow| text + &format!("  {flow}\n"))
            };
            return Err(format!(
                "step {number}, {what}: Open vSwitch learned\n{}here\n{}",
                print(&there),
                print(&here)
            ));
        }
    }
    Ok(())
}

/// The learning of the network's pipeline, for ports 1 to 3.
fn pipeline() -> Vec<Step> {
    let mut flows = vec![
        "add table=22,reg1=0 actions=ALL".to_owned(),
        "add table=22,priority=1 actions=output:NXM_NX_REG1[]".to_owned(),
    ];
    for port in 1..4 {
        flows.push(format!(
            "add in_port={port} actions=set_field:7->metadata,set_field:{port}->reg0,resubmit(,6),resubmit(,21),\
             resubmit(,22)"
        ));
        flows.push(format!("add {}", learner(port)));
    }
    flows.into_iter().map(Step::Flow).collect()
}

fn learner(port: u16) -> String {
    format!(
        "table=6,metadata=7,reg0={port} actions=learn(table=21,hard_timeout=300,priority=50,cookie={port},\
         delete_learned,OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:NXM_NX_REG0[]->NXM_NX_REG1[])"
    )
}

/// The same with a limit.
fn limited_learner(port: u16, limit: u32) -> String {
    learner(port).replace("delete_learned,", &format!("delete_learned,limit={limit},"))
}

fn ethernet(to: u8, from: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xcc][..], b"hello"].concat()
}

#[test]
fn what_the_pipeline_learns_lives_and_goes_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=crate::open_vswitch::PORTS);
    switch.call("time/stop", &[]);
    let mut steps = pipeline();
    steps.extend([
        // Flooded and learned, answered, refreshed.
        Step::Frame(1, ethernet(9, 1)),
        Step::Frame(2, ethernet(1, 2)),
        Step::Seconds(200),
        Step::Frame(1, ethernet(2, 1)),
        Step::Seconds(99),
        Step::Seconds(2),
        Step::Frame(3, ethernet(2, 3)),
        Step::Frame(3, ethernet(1, 3)),
        // The address moves to another port, and its old port is removed: it stays at the new one.
        Step::Frame(2, ethernet(9, 1)),
        Step::Flow("delete_strict table=6,metadata=7,reg0=1".to_owned()),
        Step::Frame(3, ethernet(1, 3)),
        Step::Frame(2, ethernet(3, 2)),
        // A flow that is added again or modified keeps its learned flows; if it is deleted, they are too.
        Step::Flow(format!("add {}", learner(2))),
        Step::Flow("add table=6,priority=9,metadata=8 actions=drop".to_owned()),
        Step::Flow("delete_strict table=6,metadata=7,reg0=2".to_owned()),
        Step::Flow("modify_strict table=6,metadata=7,reg0=3 actions=drop".to_owned()),
    ]);
    live(&mut switch, &steps).unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn a_port_at_its_limit_learns_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=crate::open_vswitch::PORTS);
    switch.call("time/stop", &[]);
    let mut steps = pipeline();
    steps.extend([
        Step::Flow(format!("add {}", limited_learner(1, 2))),
        Step::Flow(format!("add {}", limited_learner(2, 1))),
        // The third is one too many; the first two are refreshed all the same.
        Step::Frame(1, ethernet(9, 1)),
        Step::Frame(1, ethernet(9, 2)),
        Step::Frame(1, ethernet(9, 3)),
        Step::Frame(3, ethernet(3, 4)),
        Step::Seconds(200),
        Step::Frame(1, ethernet(9, 1)),
        Step::Frame(1, ethernet(9, 3)),
        // The other has aged out, so there is room.
        Step::Seconds(150),
        Step::Frame(1, ethernet(9, 3)),
        Step::Frame(3, ethernet(3, 4)),
        // An address moves to another port only if there is room, and makes room where it was.
        Step::Frame(2, ethernet(9, 1)),
        Step::Frame(2, ethernet(9, 3)),
        Step::Frame(1, ethernet(9, 5)),
        Step::Frame(1, ethernet(9, 6)),
        Step::Frame(1, ethernet(9, 1)),
        // A higher limit counts at once, a lower one removes nothing.
        Step::Flow(format!("add {}", limited_learner(1, 3))),
        Step::Frame(1, ethernet(9, 6)),
        Step::Frame(1, ethernet(9, 7)),
        Step::Flow(format!("add {}", limited_learner(1, 1))),
        Step::Frame(1, ethernet(9, 5)),
        // Another timeout for the same cookie changes no learned flow; another cookie removes all.
        Step::Flow(format!("add {}", learner(1).replace("hard_timeout=300", "hard_timeout=60"))),
        Step::Frame(1, ethernet(9, 5)),
        Step::Flow(format!("add {}", learner(1).replace("cookie=1", "cookie=0x3c000001"))),
        Step::Frame(1, ethernet(9, 5)),
        Step::Flow("delete_strict table=6,metadata=7,reg0=1".to_owned()),
    ]);
    live(&mut switch, &steps).unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn what_only_packets_of_another_length_would_teach_is_learned_too() {
    let mut switch = DummySwitch::start(1..=crate::open_vswitch::PORTS);
    let learn = |larger: u8| {
        format!(
            "add table=1,reg0={larger} actions=learn(table=21,priority=5{larger},NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
             load:{larger}->NXM_NX_REG1[]),output:{}",
            2 + larger
        )
    };
    let compare = "add actions=check_pkt_larger(40)->NXM_NX_REG0[0],resubmit(,1)".to_owned();
    let flows = [compare, learn(0), learn(1)];
    let mut steps: Vec<Step> = flows.into_iter().map(Step::Flow).collect();
    let long = [ethernet(9, 2), vec![0; 40]].concat();
    steps.extend([Step::Frame(1, ethernet(9, 1)), Step::Frame(1, long)]);
    live(&mut switch, &steps).unwrap_or_else(|difference| panic!("{difference}"));
}

/// The matches of random learning flows, by shape: flows of one priority have one shape, so that no two overlap.
const SHAPES: [&str; 5] = [
    "OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]",
    "NXM_OF_ETH_SRC[],NXM_OF_VLAN_TCI[0..11]",
    "eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],NXM_NX_REG5[3..9]=NXM_OF_ETH_DST[0..6]",
    "NXM_NX_REG6[]=0x5,NXM_OF_ETH_DST[40..47]=NXM_OF_ETH_SRC[40..47]",
    "eth_type=0x86dd,NXM_NX_IPV6_DST[]=NXM_NX_IPV6_SRC[]",
];

fn random_learner(random: &mut Random, port: u16) -> String {
    const LESSONS: [&str; 5] = [
        "load:NXM_NX_REG0[]->NXM_NX_REG1[]",
        "load:5->NXM_NX_REG1[0..3]",
        "load:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15],load:NXM_OF_ETH_SRC[0..15]->NXM_NX_XXREG1[3..18]",
        "output:NXM_OF_IN_PORT[]",
        "output:NXM_NX_REG0[0..15],load:7->NXM_NX_REG2[]",
    ];
    let shape = random.below(SHAPES.len() as u64) as usize;
    let mut words = vec![format!("table={LEARNED},priority={},cookie={}", 50 + shape, 1 + random.below(3))];
    for timeout in ["idle_timeout", "hard_timeout"] {
        if random.chance(60) {
            words.push(format!("{timeout}={}", *random.pick(&[3, 10, 20])));
        }
    }
    if random.chance(50) {
        words.push("delete_learned".to_owned());
    }
    if random.chance(50) {
        words.push(format!("limit={}", *random.pick(&[1, 2, 3, 4096])));
    }
    words.push(SHAPES[shape].to_owned());
    words.push((*random.pick(&LESSONS)).to_owned());
    // A field copied from a header must exist.
    let condition = match shape {
        2 => "priority=2,ip,",
        4 => "priority=2,ipv6,",
        _ => *random.pick(&["", "", "priority=2,ip,", "priority=2,ipv6,"]),
    };
    format!("table=6,{condition}reg0={port} actions=learn({}),resubmit(,{LEARNED})", words.join(","))
}

#[test]
fn random_lessons_are_learned_and_forgotten_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=crate::open_vswitch::PORTS);
    switch.call("time/stop", &[]);
    for seed in test_random::seeds!("random_lessons_are_learned_and_forgotten_as_in_open_vswitch", 2) {
        let mut random = Random::new(seed);
        let frames: Vec<_> = (0..6).map(|_| frame(&mut random)).collect();
        let mut steps = vec![Step::Flow("add table=22 actions=output:NXM_NX_REG1[]".to_owned())];
        let entry = "set_field:7->metadata,set_field:5->reg6,resubmit(,6),resubmit(,21),resubmit(,22)";
        for port in 1..4 {
            steps.push(Step::Flow(format!("add in_port={port} actions=set_field:{port}->reg0,{entry}")));
            steps.push(Step::Flow(format!("add {}", random_learner(&mut random, port))));
        }
        for _ in 0..40 {
            let port = 1 + random.below(3) as u16;
            steps.push(match random.below(20) {
                0..=11 => Step::Frame(port, random.pick(&frames).clone()),
                12..=15 => Step::Seconds(*random.pick(&[1, 2, 4, 9])),
                16 => Step::Flow(format!("delete table=6,reg0={port}")),
                17 => Step::Flow(format!("delete table={LEARNED},cookie={port}/-1")),
                _ => Step::Flow(format!("add {}", random_learner(&mut random, port))),
            });
        }
        if let Err(difference) = live(&mut switch, &steps) {
            let history = steps.iter().enumerate().fold(String::new(), |text, (number, step)| {
                let line = match step {
                    Step::Frame(port, bytes) => format!("frame {} on port {port}", hex(bytes)),
                    Step::Seconds(seconds) => format!("{seconds} seconds"),
                    Step::Flow(line) => line.clone(),
                };
                text + &format!("{number}. {line}\n")
            });
            panic!("seed {seed}\n{difference}\n{history}");
        }
    }
}
