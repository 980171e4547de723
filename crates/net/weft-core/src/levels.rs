//! What the fleet observes of hosts, as levels: states that hold until they change, rather than news that are told once.
//!
//! For each host there is a snapshot: its `Link`, and `Observed`, what the rules do not have yet of its reports and its learned flows. What the
//! rules have is compared with it after each group of transactions, whether that was committed or rolled back, and whenever time
//! alone changes the answer. A difference that could not be journalled stays a difference, and so is tried again.
//!
//! Everything here is a function of the snapshots, of what is in force, and of the time, which is a parameter: no clock, no thread,
//! no I/O.
//!
//! A host is *lost* once it has had no connection for [`Patience::lost_after`], and back once it has had one for
//! [`Patience::back_after`], so a link that blinks changes nothing. A host whose driver started has `FIRST` to connect, and again after each
//! first connection of a host that started with it ([`Arrivals`]): a start that takes longer than `FIRST` is no loss. Until
//! something else is observed, what was in force stays: a controller that starts takes over what the one before it believed, so that a restart
//! changes neither relays nor leaders, and it needs no record of it: a host without one is present.
//!
//! If more than a share of the hosts is away within a minute ([`Patience::most_lost`]), the controller is what is cut off. It then takes no host
//! for lost. Once enough of them are back, the others have `FIRST` again, as after a start.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use switch_model::Report;

/// A time: since the controller started.
pub(crate) type Moment = Duration;

/// The time that a switch has to connect after the controller, or its driver, started.
pub(crate) const FIRST: Duration = Duration::from_secs(30);
/// Hosts that were lost longer ago do not count among those that a cut of the controller's own connection takes.
const WINDOW: Duration = Duration::from_mins(1);
/// How often a controller that is cut off looks whether it still is, if no host comes back.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The reports of a host that are taken in a second, for a longer time. A transaction for each is then at most a tenth of what an engine does.
pub(crate) const REPORTS_A_SECOND: u32 = 10;
const BETWEEN_REPORTS: Duration = Duration::from_millis(100);
/// The reports that are taken without a delay after a quiet time: a host that starts all its machines.
const REPORTS_AT_ONCE: u32 = 100;

/// When a host counts as lost and when as back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The time without a connection after which a host is lost.
    pub lost_after: Duration,
    /// The time with a connection after which a lost host is back.
    pub back_after: Duration,
    /// How long a host may take for its first connection. The time counts from the start of its driver. It starts over whenever another host
    /// that started with it connects for the first time.
    pub first: Duration,
    /// The share of the hosts, in percent, that can be lost within a minute. If more are, the controller is what is cut off.
    pub most_lost: u8,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            // Open vSwitch restarts within some seconds, and a physical switch converges after a failure within a few.
            lost_after: Duration::from_secs(10),
            back_after: Duration::from_secs(2),
            first: FIRST,
            // A controller that sees less than half of the hosts is in the smaller part of a divided network.
            most_lost: 50,
        }
    }
}

/// The connection to the flows of a host's switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// There has been none since the driver started.
    Awaited(Moment),
    /// It is there since then.
    Up(Moment),
    /// It broke then.
    Down(Moment),
}

impl Link {
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Link::Up(_))
    }

    /// When a host with this link is lost, if nothing changes.
    fn lost_at(self, allowance: &Allowance, patience: &Patience) -> Option<Moment> {
        let own = match self {
            Link::Awaited(since) => allowance.arrivals.last(since, patience).max(since) + patience.first,
            Link::Down(since) => since + patience.lost_after,
            Link::Up(_) => return None,
        };
        Some(allowance.calm.map_or(own, |calm| own.max(calm + patience.first)))
    }
}

/// Why hosts have more time than their own connections give them.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// When the controller was last found cut off itself.
    pub(crate) calm: Option<Moment>,
    /// The hosts that have come in.
    pub(crate) arrivals: Arrivals,
}

/// When hosts connected for the first time: by when their drivers started, the last time.
///
/// What keeps a host waiting is mostly that thousands come in with it. Those that started long after it do not count, so one that is gone is
/// found to be gone, however many hosts are added.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(BTreeMap<Moment, Moment>);

impl Arrivals {
    /// A host whose driver started at `since` has connected for the first time.
    pub(crate) fn arrived(&mut self, since: Moment, now: Moment, patience: &Patience) {
        self.0.retain(|_, last| *last + patience.first >= now);
        self.0.insert(since, now);
    }

    /// The last arrival of a host that started with one that is awaited since then, at the latest [`Patience::first`] after it. Zero if there
    /// is none.
    fn last(&self, since: Moment, patience: &Patience) -> Moment {
        self.0.range(..=since + patience.first).map(|(_, last)| *last).max().unwrap_or_default()
    }
}

/// A host, as far as its connection is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) node: &'a str,
    pub(crate) link: Link,
    /// Whether it is lost according to what is in force.
    pub(crate) is_lost: bool,
}

/// What follows from the connections of all hosts at a time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The hosts that are lost (`false`) or back (`true`) from now on.
    pub(crate) changes: Vec<(String, bool)>,
    /// Why no host is taken for lost, if that is so.
    pub(crate) cut_off: Option<CutOff>,
    /// When the answer may be another though no link changes.
    pub(crate) next: Option<Moment>,
}

/// The controller has lost so many hosts at a time that it must be cut off itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// The hosts that went away.
    pub(crate) away: usize,
    /// All hosts.
    pub(crate) hosts: usize,
    /// The share that can be lost, in percent.
    pub(crate) most_lost: u8,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CutOff { away, hosts, most_lost } = self;
        write!(
            f,
            "{away} of {hosts} hosts went away within a minute, more than {most_lost} %, so the controller itself is taken for cut off: it takes \
             no host for lost and moves nothing away from them; look at its own network, or raise lost_hosts_max if they are really gone"
        )
    }
}

/// Compares the connections of hosts with what is in force.
pub(crate) fn judge<'a>(
    hosts: impl Iterator<Item = Host<'a>>,
    allowance: &Allowance,
    now: Moment,
    patience: &Patience,
) -> Judgement {
    let mut judgement = Judgement::default();
    let (mut all, mut away, mut due) = (0, 0, Vec::new());
    let mut next: Option<Moment> = None;
    let mut look_at = |moment: Moment| next = Some(next.map_or(moment, |next| next.min(moment)));
    for Host { node, link, is_lost } in hosts {
        all += 1;
        match (link, link.lost_at(allowance, patience)) {
            (Link::Up(since), _) if is_lost && since + patience.back_after <= now => {
                judgement.changes.push((node.to_owned(), true));
            }
            (Link::Up(since), _) if is_lost => look_at(since + patience.back_after),
            (_, Some(at)) if !is_lost => {
                away += 1;
                if at <= now { due.push(node) } else { look_at(at) }
            }
            // One that the controller has never seen was lost before.
            (Link::Down(_), Some(at)) if at + WINDOW > now => away += 1,
            _ => {}
        }
    }
    let too_many = away >= 2 && away * 100 > all * usize::from(patience.most_lost);
    if too_many && !due.is_empty() {
        judgement.cut_off = Some(CutOff { away, hosts: all, most_lost: patience.most_lost });
        look_at(now + LOOK_AGAIN);
    } else {
        judgement.changes.extend(due.into_iter().map(|node| (node.to_owned(), false)));
    }
    judgement.next = next;
    judgement
}

/// What was observed of a host and is not in force, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Its last report.
    report: Option<Report>,
    /// The awaited flows that it has, by table and cookie.
    learned: BTreeMap<(u8, u64), Seen>,
    /// When all reports so far would have been taken at the steady rate.
    paid_at: Moment,
}

/// An awaited flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    is_new: bool,
    /// The last transaction when it had no effect: it is tried again after another one.
    refused_at: Option<u64>,
}

/// A difference between a host and what is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The host has reported this.
    Report(Box<Report>),
    /// Its switch has learned an awaited flow.
    Learned {
        /// The table.
        table: u8,
        /// The cookie.
        cookie: u64,
        /// Whether it is known to have come just now.
        is_new: bool,
    },
}

impl Observed {
    /// The host has this report, which replaces those before.
    pub(crate) fn reported(&mut self, report: Report) {
        self.report = Some(report);
    }

    /// The host has this awaited flow.
    pub(crate) fn learned(&mut self, table: u8, cookie: u64, is_new: bool) {
        self.see((table, cookie), Seen { is_new, refused_at: None });
    }

    /// The same, but it had no effect after transaction `last_txn`.
    pub(crate) fn refused(&mut self, table: u8, cookie: u64, is_new: bool, last_txn: u64) {
        self.see((table, cookie), Seen { is_new, refused_at: Some(last_txn) });
    }

    fn see(&mut self, flow: (u8, u64), seen: Seen) {
        let entry = self.learned.entry(flow).or_insert(seen);
        entry.is_new |= seen.is_new;
        entry.refused_at = seen.refused_at;
    }

    /// Whether there is no difference.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_taken_reports() && self.learned.is_empty()
    }

    /// Whether no report waits to be taken.
    pub(crate) fn has_taken_reports(&self) -> bool {
        self.report.is_none()
    }

    /// The report that waits, if it is to be taken by now.
    pub(crate) fn waiting_report(&self, now: Moment) -> Option<&Report> {
        self.report.as_ref().filter(|_| self.ready_at(now).is_none())
    }

    /// When a report that waits is to be taken, if it comes too soon after others.
    pub(crate) fn ready_at(&self, now: Moment) -> Option<Moment> {
        let at = (self.paid_at + BETWEEN_REPORTS).saturating_sub(BETWEEN_REPORTS * REPORTS_AT_ONCE);
        (self.report.is_some() && at > now).then_some(at)
    }

    /// Whether a report waits because others came too soon before it.
    pub(crate) fn comes_too_often(&self, now: Moment) -> bool {
        self.ready_at(now).is_some()
    }

    /// Whether reports have come less often than they may for some time.
    pub(crate) fn is_calm(&self, now: Moment) -> bool {
        self.paid_at <= now + BETWEEN_REPORTS * REPORTS_AT_ONCE / 2
    }

    /// Takes the next difference that may have an effect after transaction `last_txn`. An interface comes before its announcement. A report waits
    /// if its host changes too often; a newer one replaces it meanwhile.
    pub(crate) fn take(&mut self, last_txn: u64, now: Moment) -> Option<Difference> {
        if self.ready_at(now).is_some() {
            return None;
        }
        if let Some(report) = self.report.take() {
            self.paid_at = self.paid_at.max(now) + BETWEEN_REPORTS;
            return Some(Difference::Report(Box::new(report)));
        }
        let ready = |(_, seen): &(&(u8, u64), &Seen)| seen.refused_at != Some(last_txn);
        let flow = *self.learned.iter().find(ready)?.0;
        let Seen { is_new, .. } = self.learned.remove(&flow)?;
        Some(Difference::Learned { table: flow.0, cookie: flow.1, is_new })
    }

    /// What was taken is not in force after all. A newer report stays.
    pub(crate) fn put_back(&mut self, difference: Difference) {
        match difference {
            Difference::Report(report) => drop(self.report.get_or_insert(*report)),
            Difference::Learned { table, cookie, is_new } => self.learned(table, cookie, is_new),
        }
    }
}

#[cfg(test)]
mod tests;
