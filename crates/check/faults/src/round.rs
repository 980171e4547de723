//! One round: one fault, or two at the same time, and what must hold afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::kind::{Kind, Part};
use crate::plan::Fault;
use crate::traffic::{PairResult, Traffic};
use crate::world::World;

/// How long a fault waits for the load at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a round came to.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its faults.
    pub faults: Vec<Happened>,
    /// The time from the end of the last fault until all hosts were in sync again.
    pub in_sync: Duration,
    /// Objects, flows and groups that were compared afterwards.
    pub compared: usize,
    /// Pings within tenants that were sent.
    pub probes: u64,
    /// Those that were not answered.
    pub lost: u64,
    /// The longest time without an answer between two machines.
    pub longest_gap: Duration,
}

/// A fault that happened.
#[derive(Debug, Clone, Copy)]
pub struct Happened {
    /// Its kind.
    pub kind: Kind,
    /// Whether it showed an effect.
    pub had_effect: bool,
}

impl World {
    /// Lets the faults happen at the same time under load, and checks what must hold afterwards. `mark` differs from round to round.
    pub fn round(&mut self, faults: Vec<Fault>, mark: u64) -> Result<Round> {
        // The switches forget their neighbours in time, and the first packet to one that is forgotten is lost.
        self.lab()?.warm_underlay()?;
        let traffic = Traffic::start(self.lab()?)?;
        traffic.wait_for_answers().context("before the fault")?;
        let touched: Vec<&str> =
            faults.iter().filter(|fault| fault.kind.stops_packets()).map(|fault| fault.host).collect();
        self.load.go_on(!faults.iter().any(|fault| fault.kind.part() == Part::Clock));
        let mut active = Vec::new();
        for fault in faults {
            self.load.wait_for_answers(fault.answers, PATIENCE);
            std::thread::sleep(fault.moment);
            active.push(self.begin(fault)?);
        }
        let mut happened = Vec::new();
        // Each lasts as long as it should; those that began last end first.
        while let Some(fault) = active.pop() {
            self.last(&fault)?;
            let kind = fault.fault.kind;
            let had_effect = self.end(fault).with_context(|| format!("at the end of {}", kind.name()))?;
            happened.push(Happened { kind, had_effect });
        }
        // A switch that was started again knows no neighbour.
        self.lab()?.warm_underlay()?;
        let over = Instant::now();
        self.load.pause()?;
        self.wait_in_sync(mark)?;
        let in_sync = over.elapsed();
        let compared = self.check()?;
        let results = traffic.stop()?;
        check_losses(&results, &touched)?;
        let sum = |of: fn(&PairResult) -> u64| results.iter().map(of).sum();
        let round = Round {
            faults: happened,
            in_sync,
            compared,
            probes: sum(|pair| pair.result.sent),
            lost: sum(|pair| pair.result.lost()),
            longest_gap: results.iter().map(|pair| pair.result.longest_gap).max().unwrap_or_default(),
        };
        self.events.add(format!(
            "in sync after {:.2} s; {} of {} pings lost",
            round.in_sync.as_secs_f64(),
            round.lost,
            round.probes
        ));
        Ok(round)
    }
}

/// No packet passes the controller, so only hosts whose switch or database was killed may lose any.
fn check_losses(results: &[PairResult], touched: &[&str]) -> Result<()> {
    for pair in results.iter().filter(|pair| !pair.touches(touched)) {
        ensure!(
            pair.result.lost() == 0,
            "{} of {} pings from {} at {} to {} at {} were lost, although no fault touched these hosts; the longest gap was {:?}",
            pair.result.lost(),
            pair.result.sent,
            pair.from.name,
            pair.from.host,
            pair.to.name,
            pair.to.host,
            pair.result.longest_gap
        );
    }
    Ok(())
}
