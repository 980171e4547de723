//! A running controller reads its configuration again when it gets SIGHUP, and takes what can change while it runs.

use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::config::{Changed, Config, CounterSettings, Effective};
use crate::diagnostics::Diagnostics;
use crate::engine::Engine;
use crate::log::Level;
use crate::service;

/// The configuration of a running controller, and who must know of another one.
pub(crate) struct Reload {
    effective: Effective,
    engine: Engine,
    counters: watch::Sender<CounterSettings>,
    level: Level,
    diagnostics: Diagnostics,
}

impl Reload {
    pub(crate) fn new(
        effective: Effective,
        engine: Engine,
        counters: watch::Sender<CounterSettings>,
        level: Level,
        diagnostics: Diagnostics,
    ) -> Self {
        Reload { effective, engine, counters, level, diagnostics }
    }

    /// Reads it again with each signal.
    pub(crate) async fn follow(mut self, mut signals: Signal) {
        while signals.recv().await.is_some() {
            service::reloads();
            match Config::load(&self.effective.path, std::env::vars_os()) {
                Ok(later) => self.take(later),
                Err(fault) => {
                    for fault in fault.to_string().lines() {
                        error!(fault, "the configuration cannot be used; the former one stays in use");
                    }
                }
            }
            service::serves();
        }
    }

    /// Takes what can change. Other changes wait for a restart; each signal logs them again.
    fn take(&mut self, later: Effective) {
        // First, so that the lines below are those of the new level.
        self.level.set(&later.config.log, later.config.log_burst);
        let changes = self.effective.changes_to(&later);
        if changes.is_empty() {
            info!("the configuration has not changed");
        }
        for Changed { key, from, to, origin } in &changes {
            if key.reloads {
                info!(key = key.name, from, to, %origin, "the configuration has changed");
            } else {
                warn!(key = key.name, from, to, %origin, "this change of the configuration takes effect after a restart");
            }
        }
        self.effective.take_what_reloads(later);
        self.diagnostics.configured(&self.effective.to_string());
        self.engine.adjust(self.effective.config.settings());
        let counters = self.effective.config.counters();
        self.counters.send_if_modified(|before| {
            let differs = *before != counters;
            *before = counters;
            differs
        });
    }
}
