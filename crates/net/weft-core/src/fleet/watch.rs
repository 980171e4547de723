//! What the fleet observes and the rules do not have: which switches differ, and which of them are lost or back.

use std::collections::BTreeSet;

use tracing::{error, warn};

use super::Fleet;
use super::state::Writes;
use crate::levels::{
    Allowance, CutOff, Difference, Host, Judgement, Link, Moment, Patience, REPORTS_A_SECOND, judge,
};

/// Which switches are to be compared with the rules, and when.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Patience,
    /// The transport nodes whose switches may differ.
    differing: BTreeSet<String>,
    /// Whether a connection has changed since the connections were last judged.
    is_changed: bool,
    /// When they are to be judged though none changes.
    next: Option<Moment>,
    /// The time that hosts have beyond that of their own.
    allowance: Allowance,
    /// Whether the controller is cut off itself.
    cut_off: Option<CutOff>,
}

impl Default for Watch {
    /// Nothing is known of any connection.
    fn default() -> Self {
        Watch {
            patience: Patience::default(),
            differing: BTreeSet::new(),
            is_changed: true,
            next: None,
            allowance: Allowance::default(),
            cut_off: None,
        }
    }
}

impl Watch {
    /// A connection has changed, or there is another host.
    pub(super) fn look(&mut self) {
        self.is_changed = true;
    }

    /// A host has a connection, which it did not have before.
    pub(super) fn connected(&mut self, before: Link, now: Moment) {
        if let Link::Awaited(since) = before {
            self.allowance.arrivals.arrived(since, now, &self.patience);
        }
        self.look();
    }

    /// What was observed of a switch differs from what the rules have.
    pub(super) fn differs(&mut self, node: String) {
        self.differing.insert(node);
    }

    /// Follows a judgement.
    fn follow(&mut self, judgement: &Judgement, now: Moment) {
        (self.is_changed, self.next) = (false, judgement.next);
        if judgement.cut_off.is_some() {
            self.allowance.calm = Some(now);
        }
        match (self.cut_off, judgement.cut_off) {
            (None, Some(cut_off)) => error!("{cut_off}"),
            (Some(_), None) => warn!("enough hosts are back; those that are away have some time to follow"),
            _ => {}
        }
        self.cut_off = judgement.cut_off;
    }
}

impl Fleet {
    /// The transport nodes whose switches may differ from what the rules have.
    pub(crate) fn differing(&self) -> Vec<String> {
        self.watch.differing.iter().cloned().collect()
    }

    /// The report that [`Fleet::take_difference`] would take next of a switch, if it is one.
    pub(crate) fn waiting_report(&self, node: &str) -> Option<&switch_model::Report> {
        let switch = self.switches.get(node).filter(|switch| !switch.removing)?;
        switch.observed.waiting_report(self.now())
    }

    /// Takes the next difference of a switch that may have an effect after transaction `last_txn`.
    pub(crate) fn take_difference(&mut self, node: &str, last_txn: u64) -> Option<Difference> {
        let now = self.now();
        let Some(switch) = self.switches.get_mut(node) else {
            self.watch.differing.remove(node);
            return None;
        };
        // The next switch of the node is another one.
        if switch.removing {
            return None;
        }
        let difference = switch.observed.take(last_txn, now);
        let too_often = switch.observed.comes_too_often(now);
        if too_often && switch.faults.too_often.is_none() {
            let text = format!(
                "its interfaces change more than {REPORTS_A_SECOND} times a second; changes are taken together"
            );
            warn!(switch = node, "{text}");
            switch.faults.too_often = Some(text);
        } else if !too_often && switch.observed.is_calm(now) {
            switch.faults.too_often = None;
        }
        if switch.observed.is_settled() {
            self.watch.differing.remove(node);
        }
        difference
    }

    /// Records that what a switch tells is not computed. Unless `is_known`, it has reported other port numbers than the rules have.
    pub(crate) fn is_put_aside(&mut self, node: &str, why: String, is_known: bool) {
        if let Some(switch) = self.switches.get_mut(node) {
            switch.faults.put_aside = Some(why);
            if !is_known && switch.writes == Writes::OnceKnown {
                switch.writes = Writes::OnceReported;
            }
        }
    }

    /// Records the limits that the last report of a switch exceeds.
    pub(crate) fn report_exceeds(&mut self, node: &str, excess: Option<String>) {
        let Some(switch) = self.switches.get_mut(node) else { return };
        if let Some(excess) = excess.as_ref().filter(|_| switch.faults.excess != excess) {
            warn!(switch = node, excess, "the report of the switch exceeds limits");
        }
        switch.faults.excess = excess;
    }

    /// When a report that came too soon is to be taken.
    pub(crate) fn takes_at(&self) -> Option<Moment> {
        let now = self.now();
        let switches = self.watch.differing.iter().filter_map(|node| self.switches.get(node));
        switches.filter_map(|switch| switch.observed.ready_at(now)).min()
    }

    /// What was taken has had no effect.
    pub(crate) fn put_back(&mut self, node: &str, difference: Difference) {
        if let Some(switch) = self.switches.get_mut(node) {
            switch.observed.put_back(difference);
            self.watch.differs(node.to_owned());
        }
    }

    /// An awaited flow that was taken can have no effect before a transaction after `last_txn`.
    pub(crate) fn put_off(&mut self, node: &str, (table, cookie): (u8, u64), is_new: bool, last_txn: u64) {
        if let Some(switch) = self.switches.get_mut(node) {
            switch.observed.refused(table, cookie, is_new, last_txn);
            self.watch.differs(node.to_owned());
        }
    }

    /// From now on, hosts count as lost and back with this patience.
    pub(crate) fn wait_for_hosts(&mut self, patience: Patience) {
        self.watch.patience = patience;
        self.watch.look();
    }

    /// The connections are to be judged again.
    pub(crate) fn look_again(&mut self) {
        self.watch.look();
    }

    /// When the connections are to be judged.
    pub(crate) fn judged_at(&self) -> Option<Moment> {
        if self.watch.is_changed { Some(Moment::ZERO) } else { self.watch.next }
    }

    /// Which switches are lost or back, if that is known of them. The answer is the same until a connection changes or time passes.
    pub(crate) fn judge(&mut self, is_lost: impl Fn(&str) -> bool) -> Vec<(String, bool)> {
        let now = self.now();
        // Without a driver there is nothing to connect to; one that is about to go is not waited for.
        let watched = self.switches.iter().filter(|(_, switch)| switch.is_driven() && !switch.removing);
        let hosts = watched.map(|(node, switch)| Host { node, link: switch.link, is_lost: is_lost(node) });
        let judgement = judge(hosts, &self.watch.allowance, now, &self.watch.patience);
        self.watch.follow(&judgement, now);
        judgement.changes
    }

    /// Why no host is taken for lost, if that is so.
    pub(crate) fn cut_off(&self) -> Option<CutOff> {
        self.watch.cut_off
    }
}
