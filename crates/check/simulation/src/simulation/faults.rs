//! How each kind of fault is made, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use peer_connection::Dial;
use tokio::time::{Instant, sleep};

use super::Simulation;
use crate::fault::{Kind, Other};
use crate::links::{At, Weather};
use crate::network::{Objects, database_of, endpoints_of, switch_of};
use crate::process::{Identity, Process};
use crate::store::{Crash, Store};

/// The journal of another controller.
const ANOTHER: &str = "another";

/// What ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// A fault of the ways to a host.
    Weather(String),
    /// The other controller.
    Other,
    /// The controller, which has just started.
    Started,
    /// The second interface of a port.
    Twice((String, String)),
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
            Kind::Other(kind) => {
                let Some(host) = self.names.get(number).cloned() else { return Ok(()) };
                match kind {
                    Other::HostDies => self.host_dies(number, &host),
                    Other::LinkReset
                    | Other::LinkCut
                    | Other::LinkStalls
                    | Other::LinkRefuses
                    | Other::LinkHangs
                    | Other::LinkIsSlow
                    | Other::LinkTrickles
                    | Other::HostPartitioned
                    | Other::HostDeaf => self.link_fails(kind, &host),
                    Other::ControllerPartitioned => {
                        for host in self.names.clone() {
                            if self.random.chance(80) {
                                self.link_fails(Other::HostPartitioned, &host);
                            }
                        }
                    }
                    Other::FormerGoesOn | Other::OtherController => return self.another(kind).await,
                    Other::WriteFails => self.store.failing += 1 + self.random.below(3) as usize,
                    Other::DiskFull => self.store.full_until = Some(Instant::now() + self.some_time(60)),
                    Other::WriteIsSlow => self.store.slow = self.some_time(8),
                    Other::ClockAhead | Other::ClockBack => {
                        let (skew, jump) = (self.skew, self.some_time(7200));
                        self.clock(if kind == Other::ClockAhead {
                            skew + jump
                        } else {
                            skew.saturating_sub(jump)
                        });
                    }
                    Other::PortTwice => return self.port_twice(),
                    Other::EngineBusy => {
                        let busy = self.some_time(15);
                        sleep(busy).await;
                    }
                    Other::ClientVanishes
                    | Other::ClientRepeats
                    | Other::ClientErrs
                    | Other::ClientsFlood => return self.client(kind).await,
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

    fn ends_within(&mut self, most: u64, what: Ending) {
        let at = Instant::now() + self.some_time(most);
        self.ending.push((at, what));
    }

    fn host_dies(&mut self, number: usize, host: &str) {
        let here = endpoints_of(host);
        self.links.change(&here, |weather| {
            weather.refuses = true;
            weather.resets += 1;
        });
        self.hosts[number].switch().restart();
        self.ends_within(60, Ending::Weather(here));
    }

    fn link_fails(&mut self, kind: Other, host: &str) {
        let here = endpoints_of(host);
        let one = if self.random.chance(50) { switch_of(host) } else { database_of(host) };
        let at = At {
            direction: self.random.below(2) as usize,
            bytes: self.random.below(3000) as usize,
            ends: kind == Other::LinkCut,
        };
        let latency = Duration::from_millis(1 + self.random.below(300));
        let piece = 1 + self.random.below(64) as usize;
        let change: &dyn Fn(&mut Weather) = match kind {
            Other::LinkReset => &|weather| weather.resets += 1,
            Other::LinkCut | Other::LinkStalls => return self.links.arm(&one, at),
            Other::LinkRefuses => &|weather| {
                weather.refuses = true;
                weather.resets += 1;
            },
            Other::LinkHangs => &|weather| {
                weather.hangs = true;
                weather.resets += 1;
            },
            Other::LinkIsSlow => &|weather| weather.latency = latency,
            Other::LinkTrickles => &|weather| weather.piece = piece,
            Other::HostDeaf => &|weather| weather.travels[0] = false,
            _ => &|weather| weather.travels = [false; 2],
        };
        self.links.change(&here, change);
        if kind != Other::LinkReset {
            self.ends_within(60, Ending::Weather(here));
        }
    }

    fn clock(&mut self, skew: Duration) {
        self.skew = skew;
        self.requests.forget_the_last();
        if let Some(process) = &mut self.process {
            process.skew = skew;
        }
    }

    async fn killed(&mut self, kind: Other) -> Result<(), String> {
        let percent = self.random.below(100) as usize;
        match kind {
            Other::KilledBeforeWriting => self.store.crash = Some(Crash::Before),
            Other::KilledWhileWriting => self.store.crash = Some(Crash::Within(percent)),
            Other::KilledAfterWriting => self.store.crash = Some(Crash::After),
            Other::KilledForLong => {
                let down = Duration::from_mins(1) + self.some_time(240);
                self.dies(down);
            }
            Other::KilledTwice => {
                let (down, again) = (self.some_time(2), Duration::from_millis(self.random.below(300)));
                self.dies(down);
                self.ending.push((Instant::now() + down + again, Ending::Started));
            }
            Other::Restarted => {
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
    async fn another(&mut self, kind: Other) -> Result<(), String> {
        if self.other.is_some() {
            return Ok(());
        }
        if kind == Other::FormerGoesOn {
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
        self.ends_within(60, Ending::Other);
        Ok(())
    }

    async fn client(&mut self, kind: Other) -> Result<(), String> {
        if self.process.is_none() {
            return Ok(());
        }
        let rules = self.rules.clone();
        self.network.advance(2);
        let wanted = self.network.objects(&rules);
        let events = match kind {
            Other::ClientVanishes => vec![self.requests.vanishing(&wanted, &rules)],
            Other::ClientRepeats => self.requests.again(&rules).into_iter().collect(),
            Other::ClientErrs => vec![self.requests.wrong(&rules)],
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
            self.twice.insert((host.clone(), port.clone()));
            self.ends_within(60, Ending::Twice((host, port)));
        }
        self.plug()
    }

    /// Does what is due by now.
    pub(super) async fn what_is_due(&mut self) -> Result<(), String> {
        let now = Instant::now();
        while let Some(at) = self.ending.iter().position(|(at, _)| *at <= now) {
            let (_, what) = self.ending.remove(at);
            self.end(what)?;
        }
        if self.starts_at.is_some_and(|at| at <= now) {
            self.start().await?;
        }
        Ok(())
    }

    fn end(&mut self, what: Ending) -> Result<(), String> {
        self.trace.note(&format!("ends: {what:?}"));
        match what {
            Ending::Weather(here) => self.links.change(&here, |weather| {
                *weather = Weather { resets: weather.resets, ..Weather::FINE };
            }),
            Ending::Other => self.other = None,
            Ending::Started if self.process.is_some() => self.dies(Duration::from_secs(1)),
            Ending::Started => {}
            Ending::Twice(both) => {
                self.twice.remove(&both);
                return self.plug();
            }
        }
        Ok(())
    }

    /// All is well from now on, and the controller runs.
    pub(super) async fn heal(&mut self) -> Result<(), String> {
        self.trace.note("all is well");
        for (_, what) in std::mem::take(&mut self.ending) {
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
