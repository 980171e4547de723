//! The problems that the rules show are those of the model, and random networks have all kinds of them.

use std::collections::{BTreeMap, BTreeSet};

use conformance::{Simulation, Size, Step, World, history, oracle, program};
use test_random::Random;

const CODES: [&str; 8] = [
    "claimed-twice",
    "member-reported",
    "no-bridge-mapping",
    "no-common-encapsulation",
    "no-tunnel-port",
    "parent-disabled",
    "parent-not-attached",
    "unrequested-host",
];

#[test]
fn rules_show_the_problems_of_the_model() {
    let mut simulation = Simulation::new(program::rules()).unwrap();
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..30 {
        let mut world = World::new(false);
        for step in history(&mut Random::new(seed), Size::default()).steps {
            let Step::Change(changes) = step else { continue };
            for change in &changes {
                world.apply(change);
            }
            simulation.change(&world, &|_| true).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
            let model = oracle::world(&world, simulation.hosts()).problems();
            for code in CODES {
                let of_code = model.iter().filter(|problem| problem.code == code);
                let ids: BTreeSet<&str> = of_code.map(|problem| problem.id.as_str()).collect();
                assert_eq!(simulation.problems(code), ids, "seed {seed}: {code}\n{world}");
                *shown.entry(code).or_default() += ids.len();
            }
        }
        simulation.change(&World::new(false), &|_| true).unwrap();
    }
    println!("{shown:?}");
    assert!(shown.values().all(|number| *number > 0), "{shown:?}");
}
