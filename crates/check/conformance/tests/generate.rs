//! Random histories.

use conformance::{Size, Step, history};
use test_random::Random;

#[test]
fn histories_are_the_same_for_a_seed_and_have_all_kinds_of_steps() {
    let (mut changes, mut one_by_one, mut waits, mut frames, mut forged) = (0, 0, 0, 0, 0);
    for seed in 0..20 {
        let [one, other] = [(); 2].map(|()| history(&mut Random::new(seed), Size::default()));
        assert_eq!(one, other, "seed {seed}");
        for step in one.steps {
            match step {
                Step::Change(_) => changes += 1,
                Step::OneByOne { .. } => one_by_one += 1,
                Step::Wait(_) => waits += 1,
                Step::Send(..) | Step::SendGiven(_) => frames += 1,
                Step::Forge(..) => forged += 1,
            }
        }
    }
    let enough = changes > 100 && one_by_one > 50 && waits > 20 && frames > 1000 && forged > 50;
    assert!(enough, "{changes} {one_by_one} {waits} {frames} {forged}");
}
