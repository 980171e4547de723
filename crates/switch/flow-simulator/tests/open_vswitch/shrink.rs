//! Shrinks a failing case as long as it keeps failing.

use openflow_rs::{Action, Actions, Match};

use crate::open_vswitch::Setting;
use crate::open_vswitch::compare::{Failure, first_difference};
use crate::open_vswitch::tables::Case;
use ovs_testing::DummySwitch;

/// A failing case that no removal makes smaller.
pub(crate) fn smallest(switch: &mut DummySwitch, setting: &Setting, mut failure: Failure) -> Failure {
    loop {
        let smaller = candidates(&failure.case).into_iter().find_map(|case| {
            // A case that the switch refuses does not count as smaller.
            first_difference(switch, setting, &[case]).ok().flatten()
        });
        match smaller {
            Some(smaller) => failure = smaller,
            None => return failure,
        }
    }
}

/// Cases with a little less each, the largest steps first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for at in 1..case.flows.len() {
        let mut less = case.clone();
        less.flows.remove(at);
        all.push(less);
    }
    for at in 0..case.groups.len() {
        let mut less = case.clone();
        less.groups.remove(at);
        all.push(less);
        for bucket in 0..case.groups[at].buckets.len() {
            for actions in shorter(&case.groups[at].buckets[bucket].actions) {
                let mut less = case.clone();
                less.groups[at].buckets[bucket].actions = actions;
                all.push(less);
            }
            let mut less = case.clone();
            less.groups[at].buckets.remove(bucket);
            all.push(less);
        }
    }
    for at in 1..case.flows.len() {
        for actions in shorter(&case.flows[at].actions) {
            let mut less = case.clone();
            less.flows[at].actions = actions;
            all.push(less);
        }
        let demands: Vec<_> = case.flows[at].matches.iter().collect();
        for left_out in demands.iter().filter(|demand| demand.field != crate::open_vswitch::tables::CASE) {
            let mut less = case.clone();
            let mut rest = demands.iter().filter(|demand| demand.field != left_out.field);
            let matches = rest.try_fold(Match::any(), |matches, demand| {
                matches.with_masked(demand.field, demand.value, demand.mask)
            });
            if let Ok(matches) = matches
                && matches.validate().is_ok()
            {
                less.flows[at].matches = matches;
                all.push(less);
            }
        }
    }
    all
}

/// The list without one action, or without one within a clone.
fn shorter(actions: &Actions) -> Vec<Actions> {
    let mut all = Vec::new();
    for at in 0..actions.0.len() {
        let mut less = actions.clone();
        less.0.remove(at);
        all.push(less);
        if let Action::CloneActions(clone) = &actions.0[at] {
            for inner in shorter(&clone.actions) {
                let mut less = actions.clone();
                less.0[at] = openflow_rs::action::CloneActions { actions: inner }.into();
                all.push(less);
            }
        }
    }
    all
}
