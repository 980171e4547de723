//! Random networks have all kinds of problems, so the histories compare each.

use std::collections::BTreeMap;

use conformance::{NumberedWorld, Size, history, oracle};
use test_random::Random;

const CODES: [&str; 10] = [
    "claimed-twice",
    "member-reported",
    "next-hop-far",
    "no-bridge-mapping",
    "no-common-encapsulation",
    "no-tunnel-port",
    "parent-disabled",
    "parent-not-attached",
    "physical-network",
    "unrequested-host",
];

#[test]
fn random_networks_have_every_problem() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..30 {
        let mut world = NumberedWorld::new(false);
        let size = Size { routed: 100 * (seed % 2), ..Size::default() };
        for step in history(&mut Random::new(seed), size).steps {
            if step.changes().is_empty() {
                continue;
            }
            for change in step.changes() {
                world.apply(change);
            }
            for problem in oracle::world(&world).problems() {
                *seen.entry(problem.code).or_default() += 1;
            }
        }
    }
    assert!(CODES.iter().all(|code| seen.contains_key(code)), "{seen:?}");
    assert_eq!(seen.len(), CODES.len(), "{seen:?}");
}
