//! Random flow-mods: `ovs-ofctl` prints our bytes as our text, which reads back as the same
//! flow-mod.

use openflow_rs::{FlowEntry, FlowMod, Message};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::open_vswitch::ofctl::check_printed;

const CASES: usize = 3000;

/// A generator from the seed in `OPENFLOW_RS_SEED`, or a new one, which a failing test prints.
pub(crate) fn runner() -> TestRunner {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let seed = std::env::var("OPENFLOW_RS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(now);
    println!("OPENFLOW_RS_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

pub(crate) fn sample<S: Strategy>(strategy: &S, runner: &mut TestRunner, n: usize) -> Vec<S::Value> {
    (0..n).map(|_| strategy.new_tree(runner).expect("a value").current()).collect()
}

#[test]
fn random_changes_print_alike() {
    let messages: Vec<Message> = sample(&crate::strategies::flow_message(), &mut runner(), CASES);
    check_printed(&messages);
}

/// `ovs-ofctl` reads our text as the same flow.
#[test]
fn random_entries_read_alike() {
    let entries: Vec<FlowEntry> = sample(&crate::strategies::entry(), &mut runner(), CASES);
    let flows: Vec<_> = entries.into_iter().map(|entry| (entry.to_string(), FlowMod::add(entry))).collect();
    crate::open_vswitch::spelling::check_read(&flows);
}
