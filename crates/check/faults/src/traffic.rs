//! Pings all along, and what of them is lost.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use lab::{Lab, PingResult, RunningPing};
use testbed::reach::echoes_received;

use crate::network::{ACROSS, Guest, PINGS, SILENT};

/// The time between two probes of a pair.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long the first answer of a pair may take.
const DEADLINE: Duration = Duration::from_mins(3);

/// The running pings.
pub struct Traffic {
    within: Vec<(&'static str, &'static str, RunningPing)>,
    across: Vec<(&'static str, &'static str, RunningPing)>,
}

/// What pings of a pair came to.
#[derive(Debug, Clone, Copy)]
pub struct PairResult {
    /// Who sent.
    pub from: Guest,
    /// To whom.
    pub to: Guest,
    /// What came of it.
    pub result: PingResult,
}

impl PairResult {
    /// Whether one of the machines is at one of these hosts.
    pub fn touches(&self, hosts: &[&str]) -> bool {
        hosts.contains(&self.from.host) || hosts.contains(&self.to.host)
    }
}

/// Tells machines the MAC addresses of those of the other tenant that they ping, so that frames with them are really sent.
pub fn introduce(lab: &Lab) -> Result<()> {
    for (from, to) in ACROSS {
        let to = Guest::named(to);
        let (ip, mac) = (to.ip().to_string(), to.mac());
        let output = lab.exec(
            from,
            &["ip", "neighbour", "replace", &ip, "lladdr", &mac, "nud", "permanent", "dev", "eth0"],
        )?;
        if !output.success() {
            bail!("{from} cannot be told the address of {}: {}", to.name, output.stderr.trim());
        }
    }
    Ok(())
}

/// Waits until each pair of one tenant has an answer.
pub fn wait_for_all(lab: &Lab) -> Result<()> {
    for (from, to) in PINGS {
        lab.wait_ping(from, Guest::named(to).ip(), DEADLINE)
            .with_context(|| format!("pings from {from} to {to} do not pass again"))?;
    }
    Ok(())
}

/// Checks that nothing has ever arrived at the machines that only the other tenant pings.
pub fn check_silence(lab: &Lab) -> Result<()> {
    for machine in SILENT {
        let arrived = echoes_received(lab, machine)?;
        if arrived > 0 {
            bail!("{arrived} pings of the other tenant have arrived at {machine}");
        }
    }
    Ok(())
}

impl Traffic {
    /// Starts all pings.
    pub fn start(lab: &Lab) -> Result<Traffic> {
        let start = |pairs: &[(&'static str, &'static str)]| {
            let start = |&(from, to): &(&'static str, &'static str)| {
                Ok((from, to, lab.spawn_ping(from, Guest::named(to).ip(), INTERVAL)?))
            };
            pairs.iter().map(start).collect::<Result<Vec<_>>>()
        };
        Ok(Traffic { within: start(&PINGS)?, across: start(&ACROSS)? })
    }

    /// Waits until each pair of one tenant has had an answer since the start.
    pub fn wait_for_answers(&self) -> Result<()> {
        for (from, to, ping) in &self.within {
            let waited = if ping.received() > 0 { Ok(()) } else { ping.wait_received(1, DEADLINE) };
            waited.with_context(|| format!("no ping from {from} to {to} is answered"))?;
        }
        Ok(())
    }

    /// Ends the pings. An answer across tenants is an error.
    pub fn stop(self) -> Result<Vec<PairResult>> {
        for (from, to, ping) in self.across {
            // They are never answered, so there is nothing to wait for.
            let received = ping.received();
            if received > 0 {
                bail!("{received} pings from {from} to {to} of the other tenant were answered");
            }
        }
        let stopped = std::thread::scope(|scope| {
            // Each takes a moment to end, so they end together.
            let stop = |(from, to, ping): (_, _, RunningPing)| scope.spawn(move || (from, to, ping.stop()));
            let handles: Vec<_> = self.within.into_iter().map(stop).collect();
            handles.into_iter().map(|handle| handle.join().ok()).collect::<Option<Vec<_>>>()
        });
        let result = |(from, to, result): (&str, &str, Result<PingResult, lab::Error>)| {
            Ok(PairResult { from: Guest::named(from), to: Guest::named(to), result: result? })
        };
        stopped.context("a thread that ends a ping has failed")?.into_iter().map(result).collect()
    }
}
