//! The order in which switches get transactions that move ports.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::core::Moves;
use crate::fleet::order::HOLD_MAX;

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn set(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|node| (*node).to_owned()).collect()
}

fn from_to(from: &str, to: &str) -> Moves {
    Moves { to: set(&[to]), from: set(&[from]) }
}

impl Setting {
    /// Switches that are connected and in sync.
    fn in_sync() -> Setting {
        let mut setting = Setting::new(&NODES.map(|id| node(id, &format!("/{id}"))));
        for node in NODES {
            setting.come(node);
        }
        setting.told();
        setting
    }

    /// A switch connects, and is brought in sync.
    fn come(&mut self, node: &str) {
        for channel in [Channel::OpenFlow, Channel::Ovsdb] {
            self.connect(node, channel);
        }
        self.event(node, Event::Synced { flow_mods: 0, tunnels_changed: 0 });
    }

    /// Pushes the next transaction, to these switches.
    fn push_to(&mut self, nodes: &[&str], moves: &Moves) -> BTreeMap<String, Progress> {
        self.txn += 1;
        let changes = nodes.iter().map(|node| ((*node).to_owned(), Changes::default())).collect();
        let switches = self.fleet.push_in_order(self.txn, changes, moves);
        let progress = switches.iter().map(|(node, receipt)| (node.clone(), receipt.progress.clone()));
        let progress = progress.collect();
        self.keep_receipt(switches);
        progress
    }

    /// What was pushed since the last call: transaction and switch.
    fn pushed(&mut self) -> Vec<(u64, String)> {
        let push = |what: String| {
            let (txn, address) = what.strip_prefix("push ")?.split_once(" to unix:/")?;
            Some((txn.parse().ok()?, address.strip_suffix("/of")?.to_owned()))
        };
        self.told().into_iter().filter_map(push).collect()
    }

    /// The time is over for the parts of all transactions, one after the other.
    fn time_passes(&mut self) {
        for begun in 1..3 {
            for txn in 1..=self.txn {
                self.fleet.hold_timeout(txn, begun);
            }
        }
    }
}

fn pushes(of: &[(u64, &str)]) -> Vec<(u64, String)> {
    of.iter().map(|(txn, node)| (*txn, (*node).to_owned())).collect()
}

#[test]
fn the_new_home_comes_first_and_the_old_one_last_and_others_do_not_wait() {
    let mut setting = Setting::in_sync();
    let first = setting.txn + 1;
    let progress = setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    assert!(progress.values().all(|progress| *progress == Progress::Pending), "{progress:?}");
    assert_eq!(setting.pushed(), pushes(&[(first, "b")]));
    // A later transaction waits where an earlier one is held back, and nowhere else.
    setting.push_to(&["a", "d"], &Moves::default());
    assert_eq!(setting.pushed(), pushes(&[(first + 1, "d")]));
    assert_eq!(setting.status()[0].pending, 2);
    setting.confirm("d", first + 1);
    assert_eq!(setting.pushed(), []);
    setting.confirm("b", first);
    assert_eq!(setting.pushed(), pushes(&[(first, "c")]));
    setting.confirm("c", first);
    assert_eq!(setting.pushed(), pushes(&[(first, "a"), (first + 1, "a")]));
    assert_eq!(setting.progress(first, "a"), Progress::Pending);
    setting.confirm("a", first);
    assert!(matches!(setting.progress(first, "a"), Progress::Confirmed(_)));
    assert!(setting.fleet.orders.is_empty());
    // Without a move all get it at once.
    setting.push_to(&["a", "b", "c"], &Moves::default());
    assert_eq!(setting.pushed().len(), 3);
}

#[test]
fn a_switch_that_refuses_counts_as_one_that_confirms() {
    let mut setting = Setting::in_sync();
    setting.push_to(&["a", "b"], &from_to("a", "b"));
    let txn = setting.txn;
    assert_eq!(setting.pushed(), pushes(&[(txn, "b")]));
    let first = vec![Rejection { what: "F".to_owned(), reason: "BAD".to_owned() }];
    setting.event("b", Event::Refused { txn: Some(txn), count: 1, first });
    assert_eq!(setting.pushed(), pushes(&[(txn, "a")]));
}

#[test]
fn a_switch_that_is_away_or_not_in_sync_delays_nobody() {
    let mut setting = Setting::in_sync();
    setting.disconnect("b", Channel::OpenFlow);
    let progress = setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    assert_eq!(progress["b"], Progress::Offline);
    assert_eq!(setting.pushed(), pushes(&[(setting.txn, "b"), (setting.txn, "c")]));
    setting.connect("b", Channel::OpenFlow);
    let txn = setting.txn;
    setting.confirm("c", txn);
    assert_eq!(setting.pushed(), pushes(&[(txn, "a")]));
    setting.push_to(&["a", "b"], &from_to("a", "b"));
    assert_eq!(setting.pushed().len(), 2, "b is not in sync");
    // The old home is away: nothing is held back for it.
    setting.come("b");
    setting.disconnect("a", Channel::OpenFlow);
    setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    assert_eq!(setting.pushed(), pushes(&[(setting.txn, "a"), (setting.txn, "b")]));
}

#[test]
fn a_switch_that_goes_away_meanwhile_is_not_waited_for_and_loses_nothing() {
    let mut setting = Setting::in_sync();
    setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    setting.push_to(&["c"], &Moves::default());
    let txn = setting.txn;
    assert_eq!(setting.pushed(), pushes(&[(txn - 1, "b")]));
    setting.disconnect("c", Channel::OpenFlow);
    assert_eq!(setting.pushed(), pushes(&[(txn - 1, "c"), (txn, "c")]));
    assert_eq!([txn - 1, txn].map(|txn| setting.progress(txn, "c")), [Progress::Offline, Progress::Offline]);
    setting.disconnect("b", Channel::OpenFlow);
    assert_eq!(setting.pushed(), pushes(&[(txn - 1, "a")]));
    setting.come("c");
    setting.confirm("c", txn);
    let status = setting.status();
    assert_eq!((status[2].pending, status[2].confirmed_txn), (0, Some(txn)));
}

#[test]
fn nobody_is_waited_for_longer_than_a_moment() {
    let mut setting = Setting::in_sync();
    setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    let txn = setting.txn;
    for (part, node) in [(1, "c"), (2, "a")] {
        setting.pushed();
        let moment = Duration::from_millis(1);
        setting.pass(HOLD_MAX.saturating_sub(moment));
        assert_eq!(setting.pushed(), [], "part {part}");
        setting.pass(moment);
        assert_eq!(setting.pushed(), pushes(&[(txn, node)]));
    }
    // A deadline that comes after a confirmation changes nothing.
    setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    let txn = setting.txn;
    setting.confirm("b", txn);
    setting.pushed();
    setting.fleet.hold_timeout(txn, 1);
    assert_eq!(setting.pushed(), []);
    setting.fleet.hold_timeout(txn, 2);
    assert_eq!(setting.pushed(), pushes(&[(txn, "a")]));
}

#[test]
fn the_old_home_that_is_deleted_gets_its_farewell() {
    let mut setting = Setting::in_sync();
    let deletion = setting.deletion("a");
    setting.push_to(&["a", "b", "c"], &from_to("a", "b"));
    let txn = setting.txn;
    setting.pushed();
    setting.txn -= 1;
    setting.follow(&deletion);
    assert_eq!(setting.pushed(), pushes(&[(txn, "a")]));
    assert_eq!(setting.fleet.draining.len(), 1);
    setting.confirm("a", txn);
    setting.event("a", Event::Left);
    assert_eq!(setting.fleet.draining.len(), 0);
    setting.confirm("b", txn);
    assert_eq!(setting.pushed(), pushes(&[(txn, "c")]));
}

/// What happens to a fleet.
#[derive(Debug, Clone)]
enum Step {
    /// A transaction for the switches of this set of bits, with a move between two.
    Push(u8, Option<(usize, usize)>),
    /// A switch confirms the oldest transaction that it has got.
    Confirm(usize),
    Leave(usize),
    Come(usize),
    TimePasses,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..16, proptest::option::of((0_usize..4, 0_usize..4))).prop_map(|(to, moved)| Step::Push(to, moved)),
        6 => (0_usize..4).prop_map(Step::Confirm),
        1 => (0_usize..4).prop_map(Step::Leave),
        2 => (0_usize..4).prop_map(Step::Come),
        1 => Just(Step::TimePasses),
    ]
}

proptest! {
    #[test]
    fn each_switch_gets_all_its_transactions_in_order(
        history in proptest::collection::vec(step(), 1..60),
    ) {
        let mut setting = Setting::in_sync();
        let mut wanted: [Vec<u64>; 4] = Default::default();
        let mut got: [Vec<u64>; 4] = Default::default();
        let mut unconfirmed: [Vec<u64>; 4] = Default::default();
        let steps = history.into_iter().chain([Step::TimePasses]);
        for step in steps {
            match &step {
                Step::Push(to, moved) => {
                    let to: Vec<usize> = (0..4).filter(|at| to & (1 << at) != 0).collect();
                    let nodes: Vec<&str> = to.iter().map(|at| NODES[*at]).collect();
                    let moves = moved.map(|(from, to)| from_to(NODES[from], NODES[to])).unwrap_or_default();
                    setting.push_to(&nodes, &moves);
                    for at in to {
                        wanted[at].push(setting.txn);
                    }
                }
                Step::Confirm(at) => {
                    let is_up = setting.fleet.switches[NODES[*at]].up.len() == 2;
                    if let Some(txn) = unconfirmed[*at].first().copied().filter(|_| is_up) {
                        unconfirmed[*at].remove(0);
                        setting.confirm(NODES[*at], txn);
                    }
                }
                Step::Leave(at) => {
                    setting.disconnect(NODES[*at], Channel::OpenFlow);
                    // All of them are confirmed with the last one.
                    unconfirmed[*at] = wanted[*at].last().copied().into_iter().collect();
                }
                Step::Come(at) => setting.come(NODES[*at]),
                Step::TimePasses => setting.time_passes(),
            }
            for (txn, node) in setting.pushed() {
                let at = NODES.iter().position(|name| **name == node).unwrap();
                got[at].push(txn);
                unconfirmed[at].push(txn);
                unconfirmed[at].dedup();
            }
        }
        prop_assert_eq!(got, wanted);
        prop_assert!(setting.fleet.orders.is_empty());
        prop_assert!(setting.fleet.switches.values().all(|switch| switch.held.is_empty()));
    }
}
