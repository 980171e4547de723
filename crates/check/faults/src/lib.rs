//! The fault suite on the real thing: a real `weft controller`, real Open vSwitch on virtual hosts, real pings, and faults from a seed.
//!
//! Reading order: [`kind`] (what fails), [`network`] (what it happens to), [`plan`] (from the seed to faults), [`world`] (all processes of a
//! run), [`injection`] (how faults begin and end), [`round`] (a fault and what must hold afterwards), [`checks`]. What fails on demand is in
//! [`proxy`], [`disk`] and [`clock`]; who notices, in [`load`] with its [`book`], in [`flows`] and in [`traffic`].
//!
//! A seed decides which faults happen, where, and for how long. Processes run as they like meanwhile, so a run of the same seed has the
//! same faults at other moments of the controller's life.
#![forbid(unsafe_code)]

pub mod book;
pub mod checks;
pub mod clock;
pub mod disk;
pub mod events;
pub mod flows;
pub mod injection;
pub mod kind;
pub mod load;
pub mod network;
pub mod plan;
pub mod proxy;
pub mod report;
pub mod requirements;
pub mod round;
pub mod traffic;
pub mod world;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::events::Events;
use crate::kind::Kind;
use crate::plan::Plan;
use crate::report::Report;
use crate::world::World;

/// A run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The name of the lab.
    pub name: String,
    /// The `weft` program.
    pub weft: PathBuf,
    /// The seed.
    pub seed: u64,
    /// The kinds of fault.
    pub kinds: Vec<Kind>,
    /// It ends after so many faults,
    pub faults: u64,
    /// or, with the fault that is then under way, after this time.
    pub time: Duration,
    /// Faults do not last long, and two happen at a time.
    pub is_short: bool,
    /// Whether events are printed as they happen.
    pub is_told: bool,
}

impl Run {
    /// Runs it. A failure names the seed and the number of the fault, and has the last events.
    pub fn run(&self) -> (Report, Result<()>) {
        let (begun, events) = (Instant::now(), Events::new(self.is_told));
        let mut report = Report::new(self.seed);
        let done = World::start(&self.name, &self.weft, self.seed, events.clone())
            .with_context(|| format!("seed {}: the network does not start", self.seed))
            .and_then(|mut world| self.rounds(&mut world, &mut report, begun));
        report.time = begun.elapsed();
        (report, done)
    }

    fn rounds(&self, world: &mut World, report: &mut Report, begun: Instant) -> Result<()> {
        let mut plan = Plan::new(self.seed, &self.kinds, self.is_short);
        for mark in 1.. {
            let done = report.faults() as u64;
            if done >= self.faults || begun.elapsed() >= self.time {
                break;
            }
            let faults = plan.next(self.faults - done);
            let kinds: Vec<String> = faults.iter().map(|fault| fault.kind.name()).collect();
            let round = world.round(faults, mark);
            report.requests = world.load.book().requests();
            let round = round.map_err(|error| {
                error.context(format!(
                    "seed {}, fault {} ({})\nthe last events:\n{}\nthe end of the controller's log:\n{}\nwhat is wrong",
                    self.seed,
                    done + 1,
                    kinds.join(" and "),
                    world.events.text(),
                    world.log()
                ))
            })?;
            report.add(&round);
        }
        Ok(())
    }
}
