//! Starts the log of a process.

use std::io;
use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;

use super::limits::{Limited, Limits};
use super::lines::{JsonLines, Lines};
use super::{Level, Log};
use crate::config::{Config, LogFormat};
use crate::last_lines::LastLines;

/// The log of a process that runs.
pub(crate) struct Started {
    /// Changes which lines it has.
    pub(crate) level: Level,
    lines: Lines,
    limits: Arc<Limits>,
}

impl Started {
    /// The last lines, for those who ask over the API.
    pub(crate) fn last_lines(&self) -> LastLines {
        self.lines.log.last_lines()
    }

    /// Logs what was left out, and waits until all lines so far are written, and no longer than this.
    pub(crate) fn flush(&self, within: Duration) {
        for summary in self.limits.rest() {
            self.lines.summary(&summary);
        }
        self.lines.log.flush(within);
    }
}

/// Starts the log, which goes to standard error. Panics go the same way: a panic that waited for a reader would hold the locks of its thread.
///
/// # Errors
/// A thread cannot be started.
#[allow(clippy::disallowed_methods, reason = "the thread of the log alone writes to it")]
pub(crate) fn start(config: &Config) -> io::Result<Started> {
    let lines = Lines { log: Log::start(io::stderr(), config.log_format)?, format: config.log_format };
    let limits = Arc::new(Limits::default());
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&config.log));
    let level = Level::of(handle, limits.clone());
    level.set(&config.log, config.log_burst);
    let (log, format) = (lines.log.clone(), lines.format);
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    let text = || tracing_subscriber::fmt::layer().with_writer(log.clone()).with_ansi(is_terminal);
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with((format == LogFormat::Text).then(text))
        .with((format == LogFormat::Json).then(|| JsonLines(log.clone())))
        .with(Limited { limits: limits.clone(), lines: lines.clone() });
    // A process that already has a logger keeps it.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let (counts, of_counts) = (limits.clone(), lines.clone());
    thread::Builder::new().name("log counts".to_owned()).spawn(move || counts.follow(&of_counts))?;
    panic::set_hook(Box::new(move |panic| log.add_panic(panic)));
    Ok(Started { level, lines, limits })
}
