//! Random flow-mods: `ovs-ofctl` prints our bytes as our text, which reads back as the same
//! flow-mod.

use openflow_rs::{FlowEntry, FlowMod, Message};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use test_random::seeds;

use crate::open_vswitch::ofctl::check_printed;

const CASES: usize = 3000;

/// A generator.
pub(crate) fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

pub(crate) fn sample<S: Strategy>(strategy: &S, runner: &mut TestRunner, n: usize) -> Vec<S::Value> {
    (0..n).map(|_| strategy.new_tree(runner).expect("a value").current()).collect()
}

#[test]
fn random_changes_print_alike() {
    for seed in seeds!("random_changes_print_alike", 1) {
        let messages: Vec<Message> = sample(&crate::strategies::flow_message(), &mut runner(seed), CASES);
        check_printed(&messages);
    }
}

/// `ovs-ofctl` reads our text as the same flow.
#[test]
fn random_entries_read_alike() {
    for seed in seeds!("random_entries_read_alike", 1) {
        let entries: Vec<FlowEntry> = sample(&crate::strategies::entry(), &mut runner(seed), CASES);
        let flows: Vec<_> =
            entries.into_iter().map(|entry| (entry.to_string(), FlowMod::add(entry))).collect();
        crate::open_vswitch::spelling::check_read(&flows);
    }
}
