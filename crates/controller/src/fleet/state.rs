//! What is known of one switch: its connections, what it has not answered, what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use ovs_driver::{Channel, Report};
use tracing::warn;

use super::Driver;

/// One switch.
#[derive(Default)]
pub(super) struct Switch {
    pub(super) generation: u64,
    pub(super) reach: [Option<String>; 3],
    /// `None`: the transport node says too little to reach its switch.
    pub(super) driver: Option<Box<dyn Driver>>,
    pub(super) up: BTreeSet<Channel>,
    /// Whether it is about to be let go, and what it has reported since that is known.
    pub(super) goes: bool,
    pub(super) held_back: Option<Report>,
    /// Whether it was compared with the desired state since it was connected.
    pub(super) compared: bool,
    /// Transactions that are sent and not answered, and whether they have tunnels.
    pub(super) pending: BTreeMap<u64, bool>,
    /// Transactions that wait for a connection: their receipts say so, and nobody waits for their answers.
    pub(super) flows_behind: Behind,
    pub(super) tunnels_behind: Behind,
    pub(super) last_pushed: Option<u64>,
    pub(super) confirmed_txn: Option<u64>,
    pub(super) sync_flow_mods: Option<usize>,
    /// How many flows and tunnels the switch refuses now.
    pub(super) refused: usize,
    pub(super) faults: Faults,
}

/// Transactions that a switch gets together when it is back.
#[derive(Default)]
pub(super) struct Behind {
    pub(super) count: usize,
    /// The driver confirms all of them by this one.
    pub(super) last: u64,
}

/// What is wrong with a switch, each until it is mended.
#[derive(Default)]
pub(super) struct Faults {
    /// The connection that is down, and why.
    pub(super) connection: BTreeMap<Channel, String>,
    /// What the switch refused last, until its driver says that nothing is refused any more.
    pub(super) refused: Option<String>,
    /// Its last report, refused by the rules.
    pub(super) report: Option<String>,
    /// What it reports as wrong.
    pub(super) problems: Option<String>,
    /// Why there is no driver.
    pub(super) unreachable: Option<String>,
}

impl Switch {
    pub(super) fn behind(&mut self, tunnels: bool) -> &mut Behind {
        if tunnels { &mut self.tunnels_behind } else { &mut self.flows_behind }
    }

    /// Whether a transaction can be in force soon.
    pub(super) fn reaches(&self, tunnels: bool) -> bool {
        self.up.contains(&Channel::OpenFlow) && (!tunnels || self.up.contains(&Channel::Ovsdb))
    }

    /// Takes the transactions that wait for a connection now, out of those that are pending.
    pub(super) fn fall_behind(&mut self) -> Vec<u64> {
        let [flows, tunnels] = [false, true].map(|tunnels| self.reaches(tunnels));
        let lost: Vec<(u64, bool)> = self
            .pending
            .extract_if(.., |_, has_tunnels| !if *has_tunnels { tunnels } else { flows })
            .collect();
        for (txn, tunnels) in &lost {
            self.behind(*tunnels).add(*txn);
        }
        lost.into_iter().map(|(txn, _)| txn).collect()
    }

    /// A transaction is answered; whether its receipt waits for that.
    pub(super) fn answered(&mut self, txn: u64) -> bool {
        for tunnels in [false, true] {
            let behind = self.behind(tunnels);
            if behind.last == txn {
                *behind = Behind::default();
            }
        }
        self.pending.remove(&txn).is_some()
    }

    /// Takes a report; gives it back if it is for the rules.
    pub(super) fn reported(&mut self, node: &str, report: Report) -> Option<Report> {
        if self.goes {
            self.held_back = Some(report);
            return None;
        }
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        let problems = (!problems.is_empty()).then(|| problems.join("; "));
        if let Some(problems) = problems.as_ref().filter(|_| self.faults.problems != problems) {
            warn!(switch = node, problems, "switch reports problems");
        }
        self.faults.problems = problems;
        Some(report)
    }

    pub(super) fn unanswered(&self) -> usize {
        self.pending.len() + self.flows_behind.count + self.tunnels_behind.count
    }
}

impl Behind {
    pub(super) fn add(&mut self, txn: u64) {
        self.count += 1;
        self.last = self.last.max(txn);
    }
}

impl Faults {
    pub(super) fn worst(&self) -> Option<String> {
        let connection = || self.connection.values().next().cloned();
        let refused = || self.refused.clone();
        let report = || self.report.as_ref().map(|why| format!("report refused: {why}"));
        let first = self.unreachable.clone().or_else(connection).or_else(refused).or_else(report);
        first.or_else(|| self.problems.clone())
    }
}
