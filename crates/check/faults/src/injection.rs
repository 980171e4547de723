//! How each kind of fault begins and ends, and how it shows that it had an effect.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use test_random::Random;

use crate::clock::{self, WallClock};
use crate::disk::{Tampered, Tampering};
use crate::kind::{Kind, Part};
use crate::network::PROBE;
use crate::plan::Fault;
use crate::proxy::{Done, Mode, Proxy};
use crate::world::World;

/// How much longer than planned a fault lasts at most that has had no effect yet.
const PATIENCE: Duration = Duration::from_mins(1);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How far a record in the journal may be from the time when it is looked for, in seconds.
const CLOCK_TOLERANCE: i64 = 120;

/// The member of a record in the journal that has its time.
const MEMBER: &str = "\"at\":\"";

/// The places where connections are cut: a session begins with more bytes in each direction.
const CUT_OPENFLOW: Mode = Mode::Cut { to_daemon: 4000, from_daemon: 40_000 };
const CUT_OVSDB: Mode = Mode::Cut { to_daemon: 800, from_daemon: 30_000 };

/// A fault that has begun.
pub struct Active {
    /// The fault.
    pub fault: Fault,
    begun: Instant,
    detail: Detail,
}

/// What the end of a fault needs.
enum Detail {
    None,
    /// What the proxy had done before.
    Link(Done),
    /// How many requests the controller had refused before.
    Disk(u64),
    Tampered(Tampered),
    /// The process that stands still.
    Frozen(Pid),
    /// How the clock jumped, in seconds.
    Clock(i64),
}

impl World {
    /// Lets a fault happen.
    pub fn begin(&mut self, fault: Fault) -> Result<Active> {
        let host = if fault.kind.part() == Part::Host { fault.host } else { "the controller" };
        self.events.add(format!("{} begins at {host}, for {:?}", fault.kind.name(), fault.lasts));
        let begun = Instant::now();
        let mut random = Random::new(fault.seed);
        let detail = match fault.kind {
            Kind::ControllerKilled => {
                self.kill_controller()?;
                Detail::None
            }
            Kind::ControllerRestarted => {
                self.stop_controller()?;
                Detail::None
            }
            Kind::SwitchKilled => {
                self.host(fault.host)?.kill_vswitchd()?;
                Detail::None
            }
            Kind::DatabaseKilled => {
                self.host(fault.host)?.kill_ovsdb()?;
                Detail::None
            }
            Kind::ControllerFrozen | Kind::SwitchFrozen | Kind::DatabaseFrozen => {
                Detail::Frozen(freeze(self.process(&fault)?)?)
            }
            Kind::ClockAhead | Kind::ClockBack => {
                let seconds = 3600 + random.below(12 * 3600) as i64;
                let jump = if fault.kind == Kind::ClockAhead { seconds } else { -seconds };
                self.clock.jump(jump)?;
                Detail::Clock(jump)
            }
            Kind::DiskFull => {
                let before = self.load.book().requests().refused;
                self.disk.fill()?;
                Detail::Disk(before)
            }
            Kind::KilledOnFullDisk => Detail::Disk(self.kill_on_full_disk()?),
            Kind::WriteFails | Kind::SyncFails | Kind::DiskFails | Kind::SyncIsSlow => {
                Detail::Tampered(self.tamper(fault.kind, &mut random)?)
            }
            _ => Detail::Link(self.disturb(&fault, &mut random)?),
        };
        Ok(Active { fault, begun, detail })
    }

    /// Starts the controller while it cannot write. Returns how many requests it had refused before.
    fn kill_on_full_disk(&mut self) -> Result<u64> {
        let before = self.load.book().requests().refused;
        self.disk.fill()?;
        let begun = Instant::now();
        while self.load.book().requests().refused == before {
            ensure!(begun.elapsed() < PATIENCE, "the disk is full, and no request is refused");
            std::thread::sleep(LOOK);
        }
        self.kill_controller()?;
        self.start_controller().context("it does not start on a full disk")?;
        Ok(before)
    }

    fn process(&self, fault: &Fault) -> Result<u32> {
        let pid = match fault.kind {
            Kind::ControllerFrozen => self.testbed.controller_pid(),
            Kind::SwitchFrozen => self.host(fault.host)?.vswitchd_pid(),
            _ => self.host(fault.host)?.ovsdb_pid(),
        };
        pid.with_context(|| format!("{}: the process does not run", fault.kind.name()))
    }

    fn tamper(&self, kind: Kind, random: &mut Random) -> Result<Tampered> {
        let every = 2 + random.below(4);
        let tampering = match kind {
            Kind::WriteFails => {
                // strace compares with what a descriptor leads to, which has no symbolic links.
                let journal = self.journal().canonicalize().context("the journal is missing")?;
                Tampering::Writes { journal, every }
            }
            Kind::SyncFails => Tampering::DataSyncs { every },
            Kind::DiskFails => Tampering::AllSyncs,
            _ => Tampering::SlowSyncs(Duration::from_millis(200 + random.below(1300))),
        };
        let pid = self.testbed.controller_pid().context("the controller does not run")?;
        Tampered::begin(pid, &tampering, self.testbed.folder())
    }

    /// Lets a proxy misbehave. What only shows in a new connection begins with a reset, and half of the stalls do.
    fn disturb(&self, fault: &Fault, random: &mut Random) -> Result<Done> {
        let (proxy, cut) = self.proxy(fault);
        let before = proxy.done();
        let starts_anew = random.chance(50);
        match fault.kind {
            Kind::OpenflowReset | Kind::OvsdbReset => proxy.reset(),
            Kind::OpenflowStalls | Kind::OvsdbStalls => {
                proxy.treat(Mode::Stalled);
                if starts_anew {
                    proxy.reset();
                }
                if fault.kind == Kind::OvsdbStalls {
                    // Little is said of a database that does not change.
                    let set = format!("external_ids:iface-id=stalled-{}", random.below(1 << 20));
                    self.host(fault.host)?.vsctl(&["--no-wait", "set", "Interface", PROBE, &set])?;
                }
            }
            Kind::OpenflowCut | Kind::OvsdbCut => {
                proxy.treat(cut);
                proxy.reset();
            }
            _ => {
                proxy.treat(Mode::Trickling);
                proxy.reset();
            }
        }
        Ok(before)
    }

    fn proxy(&self, fault: &Fault) -> (&Proxy, Mode) {
        let links = self.links(fault.host);
        match fault.kind {
            Kind::OpenflowReset | Kind::OpenflowStalls | Kind::OpenflowCut | Kind::OpenflowTrickles => {
                (&links.openflow, CUT_OPENFLOW)
            }
            _ => (&links.ovsdb, CUT_OVSDB),
        }
    }

    /// Waits as long as the fault lasts; longer if it has had no effect yet.
    pub fn last(&mut self, active: &Active) -> Result<()> {
        while active.begun.elapsed() < active.fault.lasts {
            std::thread::sleep(LOOK);
        }
        while !self.had_effect(active)? && active.begun.elapsed() < active.fault.lasts + PATIENCE {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn had_effect(&self, active: &Active) -> Result<bool> {
        Ok(match &active.detail {
            Detail::None => true,
            Detail::Frozen(pid) => state_of(pid.as_raw_nonzero().get().cast_unsigned()) == Some('T'),
            Detail::Link(before) => {
                let done = self.proxy(&active.fault).0.done();
                match active.fault.kind {
                    Kind::OpenflowReset | Kind::OvsdbReset => done.reset > before.reset,
                    Kind::OpenflowCut | Kind::OvsdbCut => done.cut > before.cut,
                    Kind::OpenflowTrickles | Kind::OvsdbTrickles => done.trickled > before.trickled,
                    _ => done.held > before.held,
                }
            }
            Detail::Disk(before) => self.load.book().requests().refused > *before,
            // It ends the controller.
            Detail::Tampered(tampered) if active.fault.kind == Kind::DiskFails => {
                let pid = self.testbed.controller_pid();
                tampered.count() > 0 && pid.is_none_or(has_ended)
            }
            Detail::Tampered(tampered) => tampered.count() > 0,
            Detail::Clock(_) => {
                self.last_record()?.is_some_and(|at| (at - self.clock.now()).abs() < CLOCK_TOLERANCE)
            }
        })
    }

    /// The time of the journal's last record, in seconds since 1970.
    fn last_record(&self) -> Result<Option<i64>> {
        let text = std::fs::read_to_string(self.journal()).context("cannot read the journal")?;
        let found = text.rfind(MEMBER).and_then(|at| text.get(at + MEMBER.len()..at + MEMBER.len() + 19));
        Ok(found.and_then(clock::seconds_of))
    }

    /// Ends a fault, and tells whether it had an effect.
    pub fn end(&mut self, active: Active) -> Result<bool> {
        let mut had_effect = self.had_effect(&active)?;
        let Active { fault, detail, .. } = active;
        match (fault.kind, detail) {
            (Kind::ControllerKilled | Kind::ControllerRestarted, _) => self.start_controller()?,
            (Kind::SwitchKilled, _) => self.host(fault.host)?.start_vswitchd()?,
            (Kind::DatabaseKilled, _) => self.host(fault.host)?.start_ovsdb()?,
            (_, Detail::Frozen(pid)) => {
                kill_process(pid, Signal::CONT).context("a process cannot go on")?;
            }
            (_, Detail::Clock(jump)) => self.clock.jump(-jump)?,
            (_, Detail::Disk(_)) => self.disk.free()?,
            (kind, Detail::Tampered(tampered)) => {
                had_effect &= tampered.end()? > 0;
                self.after_tampering(kind)?;
            }
            _ => self.proxy(&fault).0.treat(Mode::Clear),
        }
        self.events.add(format!(
            "{} is over{}",
            fault.kind.name(),
            if had_effect { "" } else { ", without effect" }
        ));
        Ok(had_effect)
    }

    /// Starts a controller again that ended because its disk failed twice, as systemd does.
    fn after_tampering(&mut self, kind: Kind) -> Result<()> {
        let pid = self.testbed.controller_pid();
        let Some(status) = self.testbed.controller_ended()? else {
            return Ok(());
        };
        pid.into_iter().for_each(WallClock::forget);
        ensure!(
            kind == Kind::DiskFails && status.code() == Some(3),
            "the controller ended ({status}) at {}; its log:\n{}",
            kind.name(),
            self.log()
        );
        self.start_controller()
    }
}

/// Whether a child process has ended: it may still wait to be asked for its status.
fn has_ended(pid: u32) -> bool {
    state_of(pid).is_none_or(|state| state == 'Z')
}

/// The state of a process by proc(5): `R`, `S`, `T`, `Z` and so on. None if there is no such process.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Lets a process stand still.
fn freeze(pid: u32) -> Result<Pid> {
    let pid = Pid::from_raw(pid.cast_signed()).context("0 is no process")?;
    kill_process(pid, Signal::STOP).context("a process cannot be stopped")?;
    Ok(pid)
}
