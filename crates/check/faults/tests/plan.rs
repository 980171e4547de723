//! From a seed to faults.

use std::collections::BTreeSet;

use faults::clock::seconds_of;
use faults::kind::{Kind, Part};
use faults::plan::Plan;

#[test]
fn a_seed_has_the_same_faults_again_and_all_kinds_before_one_comes_twice() {
    for seed in 0..200 {
        for is_short in [false, true] {
            let [mut plan, mut again] = [(); 2].map(|()| Plan::new(seed, &Kind::ALL, is_short));
            let (mut seen, mut left) = (BTreeSet::new(), Kind::ALL.len() as u64);
            while left > 0 {
                let faults = plan.next(left);
                assert_eq!(faults, again.next(left), "seed {seed}");
                assert!((1..=2).contains(&faults.len()));
                left -= faults.len() as u64;
                for fault in faults {
                    assert!(seen.insert(fault.kind), "seed {seed}: {:?} comes twice", fault.kind);
                }
            }
            assert_eq!(seen.len(), Kind::ALL.len());
        }
    }
}

#[test]
fn two_faults_at_a_time_are_about_different_things() {
    let mut plan = Plan::new(7, &Kind::ALL, true);
    let mut pairs = 0;
    for _ in 0..500 {
        if let [first, second] = &plan.next(2)[..] {
            pairs += 1;
            let differ = first.kind.part() != second.kind.part() || first.host != second.host;
            assert!(differ, "{first:?} and {second:?}");
            let is_of_controller = |part| part == Part::Controller;
            assert!(!(is_of_controller(first.kind.part()) && is_of_controller(second.kind.part())));
        }
    }
    assert!(pairs > 300, "{pairs}");
}

#[test]
fn the_time_of_a_record_is_read() {
    assert_eq!(seconds_of("1970-01-01T00:00:00"), Some(0));
    assert_eq!(seconds_of("2024-02-29T23:59:59"), Some(1_709_251_199));
    assert_eq!(seconds_of("2026-11-29T21:30:49"), Some(1_795_987_849));
    assert_eq!(seconds_of("yesterday"), None);
}
