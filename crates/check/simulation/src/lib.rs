//! The controller's core, drivers, switches, network, disk and clock in one thread, with faults, from a seed.
//!
//! A [`Plan`] says what happens: users change a random network, and things fail, of all [`Kind`]s. [`run`] simulates it. The machine of
//! `weft-core` and the drivers of `ovs-driver` are the real ones, and so are the rules and their engine; switches and databases are those of
//! `fake-switch`, in memory. Time is simulated: it passes only while everything waits. So a plan has the same outcome whenever it runs.
//!
//! In reading order: [`Plan`], [`Kind`], [`run`] with `simulation` (users, faults and the controller; `isolation`, `quiescence` and `continuity`: what must hold),
//! `process` (a controller), `links` (the network), `store` (the disk), `network` (what users want), [`smallest`].
//!
//! Left out on purpose: what only the daemon has, its files, sockets, TLS and API.
#![forbid(unsafe_code)]

mod fault;
mod links;
mod network;
mod plan;
mod process;
mod shrink;
mod simulation;
mod store;
mod trace;

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;
use weft_core::rules::Rules;

pub use fault::{Kind, System};
pub use plan::{Action, ActionKind, Plan};
pub use shrink::smallest;

use simulation::Simulation;

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The violation, in plain words, and the end of the log.
    pub violation: Option<(String, String)>,
    /// How long it lasted, in simulated time.
    pub simulated: Duration,
    /// How often each kind of fault happened.
    pub counted: BTreeMap<Kind, usize>,
    /// The transactions in the journal.
    pub transactions: usize,
    /// The requests of users.
    pub requests: u64,
    /// The frames whose ways were checked.
    pub frames: Frames,
    /// The same for two runs in which the same happened at the same times.
    pub checksum: u64,
}

/// Frames that were sent through the flow tables of all hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Sent by machines.
    pub sent: usize,
    /// Received by machines.
    pub received: usize,
    /// Received before a change and after it, at the same place, and followed in between.
    pub followed: usize,
    /// Of these, the frames that met other flows after the change.
    pub rerouted: usize,
}

impl AddAssign for Frames {
    fn add_assign(&mut self, Frames { sent, received, followed, rerouted }: Frames) {
        self.sent += sent;
        self.received += received;
        self.followed += followed;
        self.rerouted += rerouted;
    }
}

/// Simulates a plan, with these rules. Uses a thread of its own, because what is random there comes from the seed.
pub fn run(rules: &Arc<Rules>, plan: &Plan) -> Outcome {
    let (rules, plan) = (rules.clone(), plan.clone());
    let thread = std::thread::spawn(move || simulate(&rules, &plan));
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Outcome {
                violation: Some((format!("it panics: {text}"), String::new())),
                simulated: Duration::ZERO,
                counted: BTreeMap::new(),
                transactions: 0,
                requests: 0,
                frames: Frames::default(),
                checksum: 0,
            }
        }
    }
}

fn simulate(rules: &Arc<Rules>, plan: &Plan) -> Outcome {
    // Delays between attempts to connect are drawn from it.
    fastrand::seed(plan.seed);
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&plan.seed.to_be_bytes()));
    let runtime = builder.build().unwrap_or_else(|error| panic!("no runtime can be made: {error}"));
    runtime.block_on(async {
        let began = Instant::now();
        process::BEGAN
            .scope(began, async {
                let mut simulation = match Simulation::new(rules, plan) {
                    Ok(simulation) => simulation,
                    Err(why) => panic!("{why}"),
                };
                let ran = simulation.run(plan).await;
                Outcome {
                    violation: ran.err().map(|why| (why, simulation.trace.last())),
                    simulated: began.elapsed(),
                    counted: std::mem::take(&mut simulation.counted),
                    transactions: simulation.transactions(),
                    requests: simulation.requested(),
                    frames: simulation.frames,
                    checksum: simulation.trace.checksum(),
                }
            })
            .await
    })
}
