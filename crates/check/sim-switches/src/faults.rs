//! Faults on purpose, by seed: which host fails next, and how. The same seed has the same faults in the same order; when a fault meets a
//! message depends on the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fake_switch::{database, openflow};
use test_random::Random;
use tokio::time::{Instant, sleep_until};

use crate::SimulatedHost;

/// How long a host that stands still, is slow or refuses does so at most.
const LASTS_MOST: Duration = Duration::from_secs(20);
/// How slow a slow reader is.
const SLOW: (Duration, usize) = (Duration::from_millis(20), 1 << 10);
/// How late an answer is at most: less than the probes of a controller wait.
const LATE_MOST: Duration = Duration::from_secs(4);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All connections of the switch are closed.
    SwitchReset,
    /// All connections of the database are closed.
    DatabaseReset,
    /// At the next message of some kind, the switch stops reading and sending.
    SwitchStalls,
    /// At the next message of some kind, the switch sends half of a message and stops.
    SwitchStallsInMessage,
    /// At the next message of some kind, the switch sends bytes that are not OpenFlow.
    SwitchSendsGarbage,
    /// The switch ignores a message that it has to answer.
    SwitchIgnores,
    /// The switch loses all flows, groups and meters, as ovs-vswitchd does when it starts.
    SwitchRestarts,
    /// The switch stands still for some time, as a process that is stopped by a signal.
    SwitchFreezes,
    /// The switch reads slowly for some time.
    SwitchIsSlow,
    /// The switch refuses every new flow for some time.
    SwitchRefuses,
    /// A flow is gone, and nothing says so.
    FlowLost,
    /// Another client deletes a flow.
    FlowDeleted,
    /// At the next message of some kind, the database stops.
    DatabaseStalls,
    /// The database sends half of an answer and stops.
    DatabaseStallsInMessage,
    /// The database sends bytes that are not JSON.
    DatabaseSendsGarbage,
    /// The database gives a wrong answer.
    DatabaseAnswersWrong,
    /// The database answers late.
    DatabaseIsLate,
    /// The database refuses a transaction.
    DatabaseRefuses,
    /// All ports get other numbers.
    PortsRenumbered,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 19] = [
        Kind::SwitchReset,
        Kind::DatabaseReset,
        Kind::SwitchStalls,
        Kind::SwitchStallsInMessage,
        Kind::SwitchSendsGarbage,
        Kind::SwitchIgnores,
        Kind::SwitchRestarts,
        Kind::SwitchFreezes,
        Kind::SwitchIsSlow,
        Kind::SwitchRefuses,
        Kind::FlowLost,
        Kind::FlowDeleted,
        Kind::DatabaseStalls,
        Kind::DatabaseStallsInMessage,
        Kind::DatabaseSendsGarbage,
        Kind::DatabaseAnswersWrong,
        Kind::DatabaseIsLate,
        Kind::DatabaseRefuses,
        Kind::PortsRenumbered,
    ];
}

/// Faults that happen one after another.
#[derive(Debug)]
pub struct Faults {
    random: Random,
    counted: BTreeMap<Kind, usize>,
    struck: BTreeSet<(Kind, usize)>,
    /// What ends later: when, and the host that is well again then.
    ending: Vec<(Instant, usize)>,
}

impl Faults {
    /// The faults of a seed.
    pub fn new(seed: u64) -> Faults {
        Faults {
            random: Random::new(seed),
            counted: BTreeMap::new(),
            struck: BTreeSet::new(),
            ending: Vec::new(),
        }
    }

    /// How often each kind happened.
    pub fn counted(&self) -> &BTreeMap<Kind, usize> {
        &self.counted
    }

    /// The hosts at which a kind happened.
    pub fn hosts_with(&self, kind: Kind) -> BTreeSet<usize> {
        self.struck.iter().filter(|(of, _)| *of == kind).map(|(_, host)| *host).collect()
    }

    /// Has the next fault happen, and returns its host and its kind. Hosts whose time has come are well again first.
    pub fn next(&mut self, hosts: &[SimulatedHost]) -> Option<(usize, Kind)> {
        let kind = *self.random.pick(&Kind::ALL);
        let number = self.random.below(hosts.len().max(1) as u64) as usize;
        self.happens(hosts, number, kind).then_some((number, kind))
    }

    /// Has a fault of this kind happen at a host. Returns whether the host is there. Hosts whose time has come are well again first.
    pub fn happens(&mut self, hosts: &[SimulatedHost], number: usize, kind: Kind) -> bool {
        self.end(hosts, Instant::now());
        let Some(host) = hosts.get(number) else { return false };
        self.strike(host, number, kind);
        *self.counted.entry(kind).or_default() += 1;
        self.struck.insert((kind, number));
        true
    }

    /// Faults at this rate, until the future is dropped.
    pub async fn run(&mut self, hosts: &[SimulatedHost], each: Duration) {
        let mut next = Instant::now();
        loop {
            next += each;
            sleep_until(next).await;
            self.next(hosts);
        }
    }

    /// All hosts are well again, at once.
    pub fn finish(&mut self, hosts: &[SimulatedHost]) {
        self.ending.clear();
        for host in hosts {
            host.switch().forget_faults();
            host.database().forget_faults();
            heal(host);
        }
    }

    fn end(&mut self, hosts: &[SimulatedHost], now: Instant) {
        let mut still = Vec::new();
        for (end, number) in self.ending.drain(..) {
            if end > now {
                still.push((end, number));
            } else if let Some(host) = hosts.get(number) {
                heal(host);
            }
        }
        self.ending = still;
    }

    fn strike(&mut self, host: &SimulatedHost, number: usize, kind: Kind) {
        let (switch, database) = (host.switch(), host.database());
        match kind {
            Kind::SwitchReset => switch.disconnect(),
            Kind::DatabaseReset => database.disconnect(),
            Kind::SwitchStalls => self.in_openflow(host, openflow::Fault::Stall),
            Kind::SwitchStallsInMessage => self.in_openflow(host, openflow::Fault::StallMidMessage),
            Kind::SwitchSendsGarbage => self.in_openflow(host, openflow::Fault::Garbage),
            Kind::SwitchIgnores => self.in_openflow(host, openflow::Fault::Ignore),
            Kind::SwitchRestarts => switch.restart(),
            Kind::SwitchFreezes => {
                switch.freeze();
                self.lasts(number);
            }
            Kind::SwitchIsSlow => {
                switch.slow(SLOW.0, SLOW.1);
                self.lasts(number);
            }
            Kind::SwitchRefuses => {
                switch.refuse(|_, flow| flow.map(|_| openflow::Refusal::BAD_OUT_PORT));
                self.lasts(number);
            }
            Kind::FlowLost | Kind::FlowDeleted => {
                let flows = switch.flows();
                let at = self.random.below(flows.len().max(1) as u64) as usize;
                match flows.into_keys().nth(at) {
                    Some(key) if kind == Kind::FlowLost => switch.lose(&key),
                    Some(key) => switch.remove(&key),
                    None => {}
                }
            }
            Kind::DatabaseStalls => self.in_database(host, database::Fault::Stall),
            Kind::DatabaseStallsInMessage => self.in_database(host, database::Fault::StallMidMessage),
            Kind::DatabaseSendsGarbage => self.in_database(host, database::Fault::Garbage),
            Kind::DatabaseAnswersWrong => {
                let wrong = [database::Fault::Empty, database::Fault::Short, database::Fault::Null];
                let fault = self.random.pick(&wrong).clone();
                self.in_database(host, fault);
            }
            Kind::DatabaseIsLate => {
                let late = Duration::from_millis(self.random.below(LATE_MOST.as_millis() as u64));
                self.in_database(host, database::Fault::Late(late));
            }
            Kind::DatabaseRefuses => {
                database.fault(database::Stage::Transact, database::Fault::Refuse("not allowed"));
            }
            Kind::PortsRenumbered => database.renumber(),
        }
    }

    fn in_openflow(&mut self, host: &SimulatedHost, fault: openflow::Fault) {
        let stage = *self.random.pick(&openflow::Stage::ALL);
        host.switch().fault(stage, fault);
    }

    fn in_database(&mut self, host: &SimulatedHost, fault: database::Fault) {
        let stage = *self.random.pick(&database::Stage::ALL);
        host.database().fault(stage, fault);
    }

    fn lasts(&mut self, number: usize) {
        let time = Duration::from_millis(self.random.below(LASTS_MOST.as_millis() as u64));
        self.ending.push((Instant::now() + time, number));
    }
}

fn heal(host: &SimulatedHost) {
    host.switch().thaw();
    host.switch().quick();
    host.switch().accept();
}
