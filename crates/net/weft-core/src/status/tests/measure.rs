//! What the history costs, to be measured by hand:
//! `cargo test --release -p weft-core --lib -- --ignored --nocapture measure_the_cost`.

use std::time::{Duration, Instant};

use super::*;

const PORTS: usize = 63_000;
const CHANGES: u32 = 10_000;

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::new("switch_port", format!("port-{number:06}"))
}

/// A network of ports, of which every sixth was replaced. Also returns the time of a replacement, and the memory of all.
fn changed(kinds: &Kinds, bounds: Bounds) -> (History, Duration, usize) {
    let mut history = History::bounded(bounds);
    history.begin(KINDS.into_iter().map(Into::into), 1);
    let seen = |number: usize, serial, mtu| kinds.seen(kinds.object(&key(number), serial), serial, mtu);
    history.fill((0..PORTS).map(|number| (key(number), seen(number, number, 1500))));
    let (memory, mut time) = (resident(), Duration::ZERO);
    for number in (0..PORTS).step_by(6).take(CHANGES as usize) {
        let changes = vec![(key(number), Some(seen(number, number + 1, 9000)))];
        let begun = Instant::now();
        drop(history.change(changes));
        time += begun.elapsed();
    }
    let memory = resident().saturating_sub(memory);
    (history, time / CHANGES, memory)
}

#[test]
#[ignore = "it measures and checks nothing"]
fn measure_the_cost_of_the_history() {
    let kinds = Kinds::new();
    let (_none, time, memory) = changed(&kinds, Bounds { versions: 0, of_few_objects: 0, bytes: 0 });
    println!("without a history: {time:?} for a changed object, {} KiB for all", memory >> 10);
    let (history, time, memory) = changed(&kinds, Bounds::default());
    println!("with one: {time:?}, {} KiB; it takes itself for {} KiB", memory >> 10, history.bytes() >> 10);

    let (begun, mut after, mut pages) = (Instant::now(), None::<Arc<str>>, 0);
    loop {
        let looked = history.look("switch_port", after.as_deref(), Some(1), PAGE).unwrap();
        (after, pages) = (looked.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    println!("a page of {PAGE} objects of the past: {:?}", begun.elapsed() / pages);

    let begun = Instant::now();
    for _ in 0..1000 {
        let cursor = history.cursor(history.newest()).unwrap();
        assert!(history.follow(&cursor, None, PAGE).unwrap().versions.is_empty());
    }
    println!("a watcher that is up to date: {:?}", begun.elapsed() / 1000);
}
