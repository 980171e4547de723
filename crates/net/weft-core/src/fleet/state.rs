//! The state of one switch: its connections, unconfirmed transactions, and faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nlog_data::quotation::{cut, grouped};
use switch_model::{Channel, ForeignChange, Report};

use super::DriverId;
use super::order::Held;
use crate::core::SwitchAddress;
use crate::levels::{Link, Moment, Observed};
use crate::times::rfc3339;

/// One switch.
pub(super) struct Switch {
    pub(super) driver: DriverId,
    pub(super) address: Arc<SwitchAddress>,
    pub(super) up: BTreeSet<Channel>,
    /// Since when one of the two connections has been missing.
    pub(super) down_since: Option<SystemTime>,
    /// The connection to its flows.
    pub(super) link: Link,
    /// What it is known to be, and the rules do not have yet.
    pub(super) observed: Observed,
    /// What its driver waits for before it writes anything.
    pub(super) writes: Writes,
    /// Whether it is about to be removed. Then what was observed of it waits: it may not count for the next one.
    pub(super) removing: bool,
    /// Whether the switch has been reconciled with the desired state since it connected.
    pub(super) reconciled: bool,
    /// Unanswered transactions, and whether they change tunnels.
    pub(super) pending: BTreeMap<u64, bool>,
    /// Transactions that wait for a connection. Their receipts say `offline`.
    pub(super) flows_backlog: Backlog,
    pub(super) tunnels_backlog: Backlog,
    /// Transactions that the driver has not got, in order.
    pub(super) held: VecDeque<Held>,
    pub(super) last_pushed: Option<u64>,
    pub(super) confirmed_txn: Option<u64>,
    pub(super) sync_flow_mods: Option<usize>,
    /// The number of flows, groups and ports that the switch currently refuses.
    pub(super) refused: usize,
    /// The transactions of which it has refused something, as [`SwitchStatus`](super::SwitchStatus) has them.
    pub(super) refused_txns: Arc<BTreeSet<u64>>,
    /// The number of flows and groups changed by others, and of rows of the database changed without a notification, and the last change with its time.
    pub(super) foreign_changes: usize,
    pub(super) last_foreign_change: String,
    /// The number of failures of the driver, and the last failure with its time.
    pub(super) driver_restarts: usize,
    pub(super) last_driver_failure: String,
    /// The version of Open vSwitch, if it has said so.
    pub(super) ovs_version: String,
    pub(super) faults: Faults,
}

/// When the driver of a switch begins to write. A switch at other endpoints may be another one, whose ports have other numbers, and those of
/// a host that was restarted while no controller ran have other numbers too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// At once.
    Now,
    /// Once the switch has reported its ports.
    OnceReported,
    /// Once the rules know the ports that it has reported.
    OnceKnown,
}

/// Transactions that a switch receives together when it reconnects.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) count: usize,
    /// The driver confirms all of them together with this one.
    pub(super) last: u64,
}

/// Why a switch that is connected gets nothing.
const NOT_WRITTEN: &str = "nothing is written to it before the numbers of its ports are known";

/// The most problems of a switch that one line of the log or of the status lists.
const PROBLEMS_SHOWN: usize = 3;

/// The most transactions of a switch whose refusal is remembered, so that one that refuses everything takes no more and more memory.
const REFUSED_KEPT: usize = 1000;

/// The faults of a switch, each until it is resolved.
#[derive(Default)]
pub(super) struct Faults {
    /// Whose the switch is, if it is not this node's.
    pub(super) withheld: Option<String>,
    /// The connections that are down, and why.
    pub(super) connection: BTreeMap<Channel, String>,
    /// The last refusal, until the driver reports that nothing is refused any more.
    pub(super) refused: Option<String>,
    /// Why its reports are not computed.
    pub(super) put_aside: Option<String>,
    /// Why the rules refused its last report.
    pub(super) report: Option<String>,
    /// The problems that the switch reports.
    pub(super) problems: Option<String>,
    /// The limits that its reports exceed.
    pub(super) excess: Option<String>,
    /// Whether it reports more often than is taken.
    pub(super) too_often: Option<String>,
    /// Changes by others, until they are undone.
    pub(super) foreign: Option<String>,
    /// Why the driver failed, until the switch has been compared again.
    pub(super) driver: Option<String>,
    /// Why there is no driver.
    pub(super) unreachable: Option<String>,
}

impl Switch {
    /// A switch that is managed from now on.
    pub(super) fn new(driver: DriverId, address: Arc<SwitchAddress>, now: Moment, wall: SystemTime) -> Self {
        Switch {
            driver,
            address,
            up: BTreeSet::new(),
            down_since: Some(wall),
            link: Link::Awaited(now),
            observed: Observed::default(),
            writes: Writes::Now,
            removing: false,
            reconciled: false,
            pending: BTreeMap::new(),
            flows_backlog: Backlog::default(),
            tunnels_backlog: Backlog::default(),
            held: VecDeque::new(),
            last_pushed: None,
            confirmed_txn: None,
            sync_flow_mods: None,
            refused: 0,
            refused_txns: Arc::default(),
            foreign_changes: 0,
            last_foreign_change: String::new(),
            driver_restarts: 0,
            last_driver_failure: String::new(),
            ovs_version: String::new(),
            faults: Faults::default(),
        }
    }

    /// Whether its driver could be started. The transport node may lack an endpoint.
    pub(super) fn is_driven(&self) -> bool {
        self.faults.unreachable.is_none()
    }

    pub(super) fn backlog(&mut self, tunnels: bool) -> &mut Backlog {
        if tunnels { &mut self.tunnels_backlog } else { &mut self.flows_backlog }
    }

    /// Whether the connections that a transaction needs are up, and it is written at once. Otherwise it is not known when, and what waits
    /// for that must not grow with each transaction.
    pub(super) fn can_receive(&self, tunnels: bool) -> bool {
        self.writes == Writes::Now
            && self.up.contains(&Channel::OpenFlow)
            && (!tunnels || self.up.contains(&Channel::Ovsdb))
    }

    /// Moves pending transactions whose connection is down to the backlog, and returns them.
    pub(super) fn move_to_backlog(&mut self) -> Vec<u64> {
        let [flows, tunnels] = [false, true].map(|tunnels| self.can_receive(tunnels));
        let lost: Vec<(u64, bool)> = self
            .pending
            .extract_if(.., |_, has_tunnels| !if *has_tunnels { tunnels } else { flows })
            .collect();
        for (txn, tunnels) in &lost {
            self.backlog(*tunnels).add(*txn);
        }
        lost.into_iter().map(|(txn, _)| txn).collect()
    }

    /// Removes an answered transaction. Returns whether its receipt was waiting for the answer.
    pub(super) fn answered(&mut self, txn: u64) -> bool {
        for tunnels in [false, true] {
            let backlog = self.backlog(tunnels);
            if backlog.last == txn {
                *backlog = Backlog::default();
            }
        }
        self.pending.remove(&txn).is_some()
    }

    /// Records that it has refused a part of a transaction.
    pub(super) fn has_refused(&mut self, txn: u64) {
        let refused = Arc::make_mut(&mut self.refused_txns);
        refused.insert(txn);
        if refused.len() > REFUSED_KEPT {
            refused.pop_first();
        }
    }

    /// Records that others changed flows or groups. The driver logs it.
    pub(super) fn changed_by_others(
        &mut self,
        count: usize,
        first: &[ForeignChange],
        repair_in: Duration,
        now: SystemTime,
    ) {
        self.foreign_changes += count;
        let last = first.last().map(ToString::to_string).unwrap_or_default();
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let delay = match repair_in {
            Duration::ZERO => String::new(),
            delay => format!("; this keeps happening, so it is undone in {:.1} s", delay.as_secs_f64()),
        };
        self.faults.foreign = Some(format!("another client changed this switch: {last}{more}{delay}"));
        self.last_foreign_change = format!("{} {last}{more}", rfc3339(now));
    }

    /// Records that the database had changes that it had not notified. The driver logs it, and they count by now.
    pub(super) fn found_changes(&mut self, count: usize, last: &str, now: SystemTime) {
        self.foreign_changes += count;
        self.last_foreign_change = format!("{} {last} (not notified; found by comparison)", rfc3339(now));
    }

    /// Records that the driver failed and was restarted. The driver logs it.
    pub(super) fn driver_failed(&mut self, why: &str, restart_in: Duration, now: SystemTime) {
        self.driver_restarts += 1;
        self.last_driver_failure = format!("{} {why}", rfc3339(now));
        self.faults.driver = Some(format!(
            "the driver of this switch failed and is started again in {:.1} s: {why}; please report this with the log",
            restart_in.as_secs_f64()
        ));
    }

    /// The most important error, and whether the switch is not written to because of it.
    pub(super) fn last_error(&self) -> Option<String> {
        let error = self.faults.last_error()?;
        let waits = self.writes != Writes::Now && self.up.contains(&Channel::OpenFlow);
        Some(if waits { format!("{error}; {NOT_WRITTEN}") } else { error })
    }

    /// Handles a report.
    pub(super) fn reported(&mut self, report: Report) {
        let problems: BTreeSet<String> = report.problems.iter().map(ToString::to_string).collect();
        self.faults.problems = several(problems.iter());
        self.ovs_version.clone_from(&report.ovs_version);
        if self.writes == Writes::OnceReported {
            self.writes = Writes::OnceKnown;
        }
        self.observed.reported(report);
    }

    pub(super) fn unanswered(&self) -> usize {
        self.pending.len() + self.flows_backlog.count + self.tunnels_backlog.count
    }
}

/// The first problems of a switch, each cut if it is long, and how many more there are.
fn several<'a>(problems: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut problems = problems.peekable();
    problems.peek()?;
    let first: Vec<_> = problems.by_ref().take(PROBLEMS_SHOWN).map(|problem| cut(problem)).collect();
    let more = match problems.count() {
        0 => String::new(),
        more => format!("; and {} more", grouped(more)),
    };
    Some(first.join("; ") + &more)
}

impl Backlog {
    pub(super) fn add(&mut self, txn: u64) {
        self.count += 1;
        self.last = self.last.max(txn);
    }
}

impl Faults {
    /// Whether no difference from the desired state is known.
    pub(super) fn are_settled(&self) -> bool {
        self.withheld.is_none() && self.refused.is_none() && self.foreign.is_none() && self.driver.is_none()
    }

    pub(super) fn last_error(&self) -> Option<String> {
        let connection = || self.connection.values().next().cloned();
        let refused = || self.refused.clone();
        let report = || self.report.as_ref().map(|why| format!("report refused: {why}"));
        let withheld = || self.withheld.clone();
        let first =
            self.unreachable.clone().or_else(|| self.driver.clone()).or_else(withheld).or_else(connection);
        let first = first.or_else(|| self.put_aside.clone());
        let first = first.or_else(|| self.foreign.clone()).or_else(refused).or_else(report);
        let first = first.or_else(|| self.too_often.clone()).or_else(|| self.excess.clone());
        first.or_else(|| self.problems.clone())
    }
}
