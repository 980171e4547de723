//! Faults that are logged once they have lasted: many of a start are over within milliseconds.
//!
//! Pure: the time is a parameter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::levels::Moment;

/// The time after which a fault is logged. A switch connects, gets its ports and reports them within a fraction of it.
pub(crate) const LASTS: Duration = Duration::from_secs(2);
/// The most faults that are logged one by one at a time. The status has all of them.
pub(crate) const LINES_MAX: usize = 20;

/// Faults, and which of them were logged.
#[derive(Debug)]
pub(crate) struct Lasting<F> {
    /// Those that were not, with the time when they began.
    begun: BTreeMap<F, Moment>,
    /// The same in the order of time.
    waiting: BTreeSet<(Moment, F)>,
    logged: BTreeSet<F>,
}

impl<F> Default for Lasting<F> {
    fn default() -> Self {
        Lasting { begun: BTreeMap::new(), waiting: BTreeSet::new(), logged: BTreeSet::new() }
    }
}

impl<F: Ord + Clone> Lasting<F> {
    /// A fault is there. One that was there before began then.
    pub(crate) fn begins(&mut self, fault: F, now: Moment) {
        if !self.logged.contains(&fault) && !self.begun.contains_key(&fault) {
            self.begun.insert(fault.clone(), now);
            self.waiting.insert((now, fault));
        }
    }

    /// A fault is over. Returns whether it was logged.
    pub(crate) fn ends(&mut self, fault: &F) -> bool {
        if let Some((fault, begun)) = self.begun.remove_entry(fault) {
            self.waiting.remove(&(begun, fault));
        }
        self.logged.remove(fault)
    }

    /// The faults for which `is_of` holds are over, except for these.
    pub(crate) fn become_these(&mut self, is_of: impl Fn(&F) -> bool, these: &BTreeSet<F>, now: Moment) {
        let gone = |fault: &&F| is_of(fault) && !these.contains(*fault);
        let over: Vec<F> = self.begun.keys().chain(&self.logged).filter(gone).cloned().collect();
        for fault in over {
            self.ends(&fault);
        }
        for fault in these {
            self.begins(fault.clone(), now);
        }
    }

    /// Takes the faults that are to be logged now: all that have lasted.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<F> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            let Some((_, fault)) = self.waiting.pop_first() else { break };
            self.begun.remove(&fault);
            self.logged.insert(fault.clone());
            due.push(fault);
        }
        due
    }

    /// When the next one is due, if it lasts.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.waiting.first().map(|(begun, _)| *begun + LASTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn d10_a_fault_is_logged_once_it_has_lasted_and_its_end_only_then() {
        let mut faults = Lasting::default();
        faults.begins("blinks", at(0));
        faults.begins("lasts", at(100));
        faults.begins("lasts", at(1000));
        assert_eq!((faults.due(at(1999)), faults.next()), (vec![], Some(at(2000))));
        assert!(!faults.ends(&"blinks"));
        assert_eq!(faults.next(), Some(at(2100)));
        assert_eq!(
            (faults.due(at(2100)), faults.due(at(9000)), faults.next()),
            (vec!["lasts"], vec![], None)
        );
        faults.begins("lasts", at(9000));
        assert_eq!(faults.next(), None, "it was logged");
        assert!(faults.ends(&"lasts"));
        assert!(!faults.ends(&"lasts"));
        faults.begins("blinks", at(10_000));
        assert_eq!(faults.due(at(12_000)), ["blinks"], "each time counts for itself");
    }

    #[test]
    fn d10_of_a_list_of_faults_only_those_that_stay_are_logged_and_once() {
        let mut faults = Lasting::default();
        let is_of = |host: &'static str| move |fault: &(&str, u8)| fault.0 == host;
        faults.begins(("b", 1), at(0));
        faults.become_these(is_of("a"), &[("a", 1), ("a", 2)].into(), at(0));
        faults.become_these(is_of("a"), &[("a", 2), ("a", 3)].into(), at(1000));
        assert_eq!(faults.due(at(2000)), [("a", 2), ("b", 1)]);
        faults.become_these(is_of("a"), &[("a", 2), ("a", 3), ("a", 4)].into(), at(2500));
        assert_eq!(faults.due(at(9000)), [("a", 3), ("a", 4)], "what was logged is not logged again");
    }
}
