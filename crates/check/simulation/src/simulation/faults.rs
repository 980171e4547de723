//! How each kind of fault is made, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use peer_connection::Dial;
use tokio::time::{Instant, sleep};

use super::Simulation;
use crate::fault::{Kind, System};
use crate::links::{Condition, Cut};
use crate::network::{Objects, database_of, endpoints_of, switch_of};
use crate::process::{Identity, Process};
use crate::store::{Crash, Store};

/// The journal of another controller.
const ANOTHER: &str = "another";

/// The end of a fault that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The links whose endpoints begin so are healthy again.
    Link(String),
    /// The other controller is gone.
    OtherController,
    /// A controller that has just started is killed again.
    Started,
    /// The second interface of a port is unplugged.
    Duplicate((String, String)),
}

impl Simulation {
    /// Has something fail.
    pub(super) async fn fail(&mut self, kind: Kind) -> Result<(), String> {
        self.trace.note(&kind.name());
        *self.counted.entry(kind).or_default() += 1;
        let number = self.random.below(self.hosts.len().max(1) as u64) as usize;
        match kind {
            Kind::Host(kind) => {
                self.host_faults.happens(&self.hosts, number, kind);
                Ok(())
            }
            Kind::System(kind) => {
                let Some(host) = self.names.get(number).cloned() else { return Ok(()) };
                match kind {
                    System::HostDies => self.host_dies(number, &host),
                    System::LinkReset
                    | System::LinkCut
                    | System::LinkStalls
                    | System::LinkRefuses
                    | System::LinkHangs
                    | System::LinkIsSlow
                    | System::LinkTrickles
                    | System::HostPartitioned
                    | System::HostDeaf => self.link_fails(kind, &host),
                    System::ControllerPartitioned => {
                        for host in self.names.clone() {
                            if self.random.chance(80) {
                                self.link_fails(System::HostPartitioned, &host);
                            }
                        }
                    }
                    System::FormerGoesOn | System::OtherController => return self.another(kind).await,
                    System::WriteFails => self.store.failing += 1 + self.random.below(3) as usize,
                    System::DiskFull => self.store.full_until = Some(Instant::now() + self.some_time(60)),
                    System::WriteIsSlow => self.store.slow = self.some_time(8),
                    // A controller that runs does it.
                    System::JournalFolded if self.process.is_none() => {}
                    System::JournalFolded => {
                        let count = self.random.below(self.store.records().len() as u64 + 1) as usize;
                        return self.store.fold(count, &self.rules);
                    }
                    System::ClockAhead | System::ClockBack => {
                        let (skew, jump) = (self.skew, self.some_time(7200));
                        self.clock(if kind == System::ClockAhead {
                            skew + jump
                        } else {
                            skew.saturating_sub(jump)
                        });
                    }
                    System::PortTwice => return self.port_twice(),
                    System::EngineBusy => {
                        let busy = self.some_time(15);
                        sleep(busy).await;
                    }
                    System::ClientVanishes
                    | System::ClientRepeats
                    | System::ClientErrs
                    | System::ClientsFlood => return self.client(kind).await,
                    _ => return self.killed(kind).await,
                }
                Ok(())
            }
        }
    }

    /// At most so many seconds.
    fn some_time(&mut self, most: u64) -> Duration {
        Duration::from_millis(1 + self.random.below(most * 1000))
    }

    fn ends_within(&mut self, most: u64, what: Recovery) {
        let at = Instant::now() + self.some_time(most);
        self.recoveries.push((at, what));
    }

    fn host_dies(&mut self, number: usize, host: &str) {
        let here = endpoints_of(host);
        self.links.change(&here, |condition| {
            condition.refuses = true;
            condition.resets += 1;
        });
        self.hosts[number].switch().restart();
        self.ends_within(60, Recovery::Link(here));
    }

    fn link_fails(&mut self, kind: System, host: &str) {
        let here = endpoints_of(host);
        let one = if self.random.chance(50) { switch_of(host) } else { database_of(host) };
        let cut = Cut {
            direction: self.random.below(2) as usize,
            bytes: self.random.below(3000) as usize,
            closes: kind == System::LinkCut,
        };
        let latency = Duration::from_millis(1 + self.random.below(300));
        let segment = 1 + self.random.below(64) as usize;
        let change: &dyn Fn(&mut Condition) = match kind {
            System::LinkReset => &|condition| condition.resets += 1,
            System::LinkCut | System::LinkStalls => return self.links.arm(&one, cut),
            System::LinkRefuses => &|condition| {
                condition.refuses = true;
                condition.resets += 1;
            },
            System::LinkHangs => &|condition| {
                condition.hangs = true;
                condition.resets += 1;
            },
            System::LinkIsSlow => &|condition| condition.latency = latency,
            System::LinkTrickles => &|condition| condition.segment = segment,
            System::HostDeaf => &|condition| condition.passes[0] = false,
            _ => &|condition| condition.passes = [false; 2],
        };
        self.links.change(&here, change);
        if kind != System::LinkReset {
            self.ends_within(60, Recovery::Link(here));
        }
    }

    fn clock(&mut self, skew: Duration) {
        self.skew = skew;
        self.requests.forget_the_last();
        if let Some(process) = &mut self.process {
            process.skew = skew;
        }
    }

    async fn killed(&mut self, kind: System) -> Result<(), String> {
        let percent = self.random.below(100) as usize;
        match kind {
            System::KilledBeforeWriting => self.store.crash = Some(Crash::Before),
            System::KilledWhileWriting => self.store.crash = Some(Crash::Within(percent)),
            System::KilledAfterWriting => self.store.crash = Some(Crash::After),
            System::KilledForLong => {
                let down = Duration::from_mins(1) + self.some_time(240);
                self.dies(down);
            }
            System::KilledTwice => {
                let (down, again) = (self.some_time(2), Duration::from_millis(self.random.below(300)));
                self.dies(down);
                self.recoveries.push((Instant::now() + down + again, Recovery::Started));
            }
            System::Restarted => {
                if let Some(process) = self.process.take() {
                    process.stop().await;
                }
                self.starts_at = Some(Instant::now());
            }
            _ => {
                let down = self.some_time(5);
                self.dies(down);
            }
        }
        // So that something is written.
        if self.store.crash.is_some() { self.change(1).await } else { Ok(()) }
    }

    /// A second controller, if there is none already.
    async fn another(&mut self, kind: System) -> Result<(), String> {
        if self.other.is_some() {
            return Ok(());
        }
        if kind == System::FormerGoesOn {
            let Some(former) = self.process.take() else { return Ok(()) };
            self.other = Some((former, self.store.clone()));
            self.start().await?;
        } else {
            // Of a host that nobody has yet, the first one becomes the owner.
            let status = self.process.as_ref().map(Process::status).unwrap_or_default();
            let owned = |key: &&objects::ObjectKey| {
                &*key.kind == "transport_node"
                    && status.switches.iter().any(|switch| *switch.node == *key.id && switch.synced)
            };
            let known = self.requests.known();
            let hosts: Objects =
                known.keys().filter(owned).map(|key| (key.clone(), known[key].clone())).collect();
            let mut store = Store::default();
            let dialler: Arc<dyn Dial> = Arc::new(self.links.clone());
            let identity = Identity { journal: ANOTHER, epoch: 1 };
            let mut process = Process::start(&self.rules, &mut store, dialler, identity, self.skew).await?;
            let events = super::Requests::default().one_by_one(&hosts, &self.rules);
            process.group(events, &mut store).await?;
            self.other = Some((process, store));
        }
        self.ends_within(60, Recovery::OtherController);
        Ok(())
    }

    async fn client(&mut self, kind: System) -> Result<(), String> {
        if self.process.is_none() {
            return Ok(());
        }
        let rules = self.rules.clone();
        self.network.advance(2);
        self.remember_tenants();
        let wanted = self.network.objects(&rules);
        let events = match kind {
            System::ClientVanishes => vec![self.requests.vanishing(&wanted, &rules)],
            System::ClientRepeats => self.requests.again(&rules).into_iter().collect(),
            System::ClientErrs => vec![self.requests.wrong(&rules)],
            _ => self.requests.one_by_one(&wanted, &rules),
        };
        self.group(events).await
    }

    fn port_twice(&mut self) -> Result<(), String> {
        let plugged: Vec<_> = self.plugged.iter().cloned().collect();
        if plugged.is_empty() {
            return Ok(());
        }
        let (_, port) = self.random.pick(&plugged).clone();
        let host = self.random.pick(&self.names).clone();
        if !self.plugged.contains(&(host.clone(), port.clone())) {
            self.duplicates.insert((host.clone(), port.clone()));
            self.ends_within(60, Recovery::Duplicate((host, port)));
        }
        self.plug()
    }

    /// Does what is due by now.
    pub(super) async fn what_is_due(&mut self) -> Result<(), String> {
        let now = Instant::now();
        while let Some(at) = self.recoveries.iter().position(|(at, _)| *at <= now) {
            let (_, what) = self.recoveries.remove(at);
            self.end(what)?;
        }
        if self.starts_at.is_some_and(|at| at <= now) {
            self.start().await?;
        }
        Ok(())
    }

    fn end(&mut self, what: Recovery) -> Result<(), String> {
        self.trace.note(&format!("ends: {what:?}"));
        match what {
            Recovery::Link(here) => self.links.change(&here, |condition| {
                *condition = Condition { resets: condition.resets, ..Condition::HEALTHY };
            }),
            Recovery::OtherController => self.other = None,
            Recovery::Started if self.process.is_some() => self.dies(Duration::from_secs(1)),
            Recovery::Started => {}
            Recovery::Duplicate(both) => {
                self.duplicates.remove(&both);
                return self.plug();
            }
        }
        Ok(())
    }

    /// All is well from now on, and the controller runs.
    pub(super) async fn heal(&mut self) -> Result<(), String> {
        self.trace.note("all is well");
        for (_, what) in std::mem::take(&mut self.recoveries) {
            self.end(what)?;
        }
        self.host_faults.finish(&self.hosts);
        self.links.heal();
        self.store.heal();
        self.other = None;
        if self.process.is_none() {
            self.start().await?;
        }
        self.change(0).await
    }
}
