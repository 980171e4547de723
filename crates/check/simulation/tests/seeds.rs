//! Seeds, and that they replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use simulation::{Frames, Kind, Plan, run};
use test_random::seeds;
use weft_core::rules::Rules;

fn rules() -> Arc<Rules> {
    Arc::new(Rules::built_in().unwrap())
}

#[test]
fn nothing_is_lost_and_all_hosts_come_in_sync() {
    let rules = rules();
    let seeds = seeds!("nothing_is_lost_and_all_hosts_come_in_sync", 20);
    let is_whole = seeds.is_whole();
    let (mut happened, mut received) = (BTreeSet::new(), 0);
    for seed in seeds {
        let outcome = run(&rules, &Plan { calm_changes: 0, ..Plan::new(seed) });
        if let Some((why, trace)) = outcome.violation {
            panic!("{why}\n{trace}\ncargo xtask sim --seed {seed} makes it smaller");
        }
        happened.extend(outcome.counted.into_keys());
        received += outcome.frames.received;
    }
    assert!(received > 0, "no frame arrives anywhere");
    if is_whole {
        let all: BTreeSet<Kind> = Kind::all().collect();
        assert_eq!(
            all.difference(&happened).collect::<Vec<_>>(),
            Vec::<&Kind>::new(),
            "these never happened"
        );
    }
}

/// The seeds are fixed: the check knows the changes that may lose frames from some hundred seeds, and others may have more. In each of
/// these, a switch that takes new flows 60 ms late loses a frame.
#[test]
fn no_frame_is_lost_by_a_change() {
    let rules = rules();
    let mut frames = Frames::default();
    for seed in [30, 36, 39, 70] {
        let outcome = run(&rules, &Plan::new(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        frames += outcome.frames;
    }
    assert!(frames.rerouted > 10, "{frames:?}");
}

#[test]
fn a_seed_replays_exactly() {
    let rules = rules();
    for seed in 1..4 {
        let [first, second] = [(); 2].map(|()| run(&rules, &Plan::new(seed)));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn the_page_lists_all_kinds_of_fault() {
    let page = include_str!("../../../../docs/internals/simulation.md");
    let is_missing = |name: &String| !page.contains(&format!("| `{name}` |"));
    let missing: Vec<String> = Kind::all().map(Kind::name).filter(is_missing).collect();
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(page.matches("\n| `").count(), Kind::all().count(), "the page lists others");
}
