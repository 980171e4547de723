//! The events of a simulation and their times: drawn from its seed beforehand, so that one can be left out and the others stay.

use std::fmt;
use std::time::Duration;

use test_random::Random;

use crate::fault::Kind;

/// The actions of a simulation.
const ACTIONS: u64 = 60;
/// The longest pause between two of them.
const PAUSE_MOST: u64 = 20_000;
/// The changes after them.
const CALM_CHANGES: usize = 15;

/// A simulation to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The events, in order.
    pub actions: Vec<Action>,
    /// How often the network changes after that, while nothing fails and frames are followed.
    pub calm_changes: usize,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// The time since the beginning.
    pub at: Duration,
    /// Its kind.
    pub what: ActionKind,
    /// The seed of its random choices.
    pub draw: u64,
}

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// Users change the network by so many steps, and interfaces come and go.
    Change(usize),
    /// Something fails.
    Fault(Kind),
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = Random::new(seed ^ 0x5eed);
        let kinds: Vec<Kind> = Kind::all().collect();
        // Some simulations have few kinds of fault, so that several of one kind meet.
        let few = random.chance(30).then(|| (0..3).map(|_| *random.pick(&kinds)).collect::<Vec<_>>());
        let kinds = few.unwrap_or(kinds);
        let faulty = *random.pick(&[20, 50, 50, 80]);
        let mut at = Duration::ZERO;
        let action = |number: u64| {
            // Many things at one time, and few over a long one.
            let most = if random.chance(40) { 200 } else { PAUSE_MOST };
            at += Duration::from_millis(random.below(most));
            let what = if number > 2 && random.chance(faulty) {
                ActionKind::Fault(*random.pick(&kinds))
            } else {
                ActionKind::Change(if number < 2 { 12 } else { 1 + random.below(3) as usize })
            };
            Action { at, what, draw: random.below(u64::MAX) }
        };
        Plan { seed, actions: (0..ACTIONS).map(action).collect(), calm_changes: CALM_CHANGES }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Action { at, what, draw: _ } in &self.actions {
            match what {
                ActionKind::Change(steps) => writeln!(f, "  {:>7.1} s  {steps} changes", at.as_secs_f64())?,
                ActionKind::Fault(kind) => writeln!(f, "  {:>7.1} s  {}", at.as_secs_f64(), kind.name())?,
            }
        }
        Ok(())
    }
}
