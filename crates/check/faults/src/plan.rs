//! Which faults happen, from the seed: their kinds, hosts and times. When exactly something else happens meanwhile is not in it.

use std::time::Duration;

use test_random::Random;

use crate::kind::{Kind, Part};
use crate::network::HOSTS;

/// How often two faults happen at the same time, in percent.
const TOGETHER: u64 = 35;

/// A fault to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    /// The host, if it happens to one.
    pub host: &'static str,
    /// How many requests are answered before it happens.
    pub answers: u64,
    /// The time between the last of them and the fault: a moment anywhere in a transaction.
    pub moment: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// For what else it draws.
    pub seed: u64,
}

/// The faults of a run. All kinds happen before one of them happens again.
#[derive(Debug, Clone)]
pub struct Plan {
    random: Random,
    kinds: Vec<Kind>,
    left: Vec<Kind>,
    is_short: bool,
}

impl Plan {
    /// The plan of a seed with these kinds. In a short one faults do not last long, and always two happen together if they can.
    pub fn new(seed: u64, kinds: &[Kind], is_short: bool) -> Plan {
        Plan { random: Random::new(seed), kinds: kinds.to_vec(), left: Vec::new(), is_short }
    }

    /// The faults that happen next, at the same time: one or two, and at most `most`. What may end the controller comes last, so that the
    /// other one happens to a controller that runs.
    pub fn next(&mut self, most: u64) -> Vec<Fault> {
        let mut faults = Vec::new();
        let Some(kind) = self.draw(|_| true) else { return faults };
        faults.push(self.fault(kind, None));
        if most > 1 && (self.random.chance(TOGETHER) || self.is_short) {
            let first = faults[0].clone();
            // Of hosts, there are several.
            let fits = |other: Kind| other.part() != first.kind.part() || other.part() == Part::Host;
            if let Some(kind) = self.draw(fits) {
                faults.push(self.fault(kind, Some(first.host)));
            }
        }
        faults.sort_by_key(|fault| fault.kind.part() == Part::Controller);
        faults
    }

    fn draw(&mut self, fits: impl Fn(Kind) -> bool) -> Option<Kind> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.random.shuffle(&mut self.left);
        }
        let at = self.left.iter().position(|kind| fits(*kind))?;
        Some(self.left.remove(at))
    }

    fn fault(&mut self, kind: Kind, other: Option<&str>) -> Fault {
        let hosts: Vec<&'static str> = HOSTS.into_iter().filter(|host| Some(*host) != other).collect();
        let host = *self.random.pick(&hosts);
        Fault {
            kind,
            host,
            answers: self.random.below(10),
            moment: Duration::from_micros(self.random.below(3000)),
            lasts: self.lasts(kind),
            seed: self.random.below(u64::MAX),
        }
    }

    fn lasts(&mut self, kind: Kind) -> Duration {
        let (least, most) = match kind {
            Kind::OpenflowReset | Kind::OvsdbReset => (0, 300),
            // Sometimes longer than the driver waits for answers.
            Kind::OpenflowStalls | Kind::OvsdbStalls | Kind::SwitchFrozen | Kind::DatabaseFrozen
                if !self.is_short && self.random.chance(25) =>
            {
                (25_000, 45_000)
            }
            Kind::OpenflowStalls
            | Kind::OvsdbStalls
            | Kind::SwitchFrozen
            | Kind::DatabaseFrozen
            | Kind::ControllerFrozen => (1000, 12_000),
            Kind::OpenflowCut | Kind::OvsdbCut | Kind::OpenflowTrickles | Kind::OvsdbTrickles => (2000, 6000),
            Kind::ControllerKilled | Kind::SwitchKilled | Kind::DatabaseKilled => (0, 4000),
            _ => (500, 4000),
        };
        let drawn = least + self.random.below(most - least);
        Duration::from_millis(if self.is_short { drawn.min(2500) } else { drawn })
    }
}
