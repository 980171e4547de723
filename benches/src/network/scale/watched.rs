//! What a user sees while the network starts: flows in force over time, and how long requests take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::runtime::Builder;

use super::{connect, ms, probe};
use crate::measure::Spread;

/// The pause between two requests of the user.
const PAUSE: Duration = Duration::from_millis(200);

/// What there was at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Since the first request.
    pub(super) at: Duration,
    /// Flows in force.
    pub(super) flows: usize,
    /// Hosts in sync.
    pub(super) synced: usize,
    /// Ports that hosts have reported.
    pub(super) reported: u64,
}

/// All moments.
pub(super) struct Samples {
    pub(super) samples: Vec<Sample>,
    pub(super) asked: Asked,
}

impl Samples {
    /// When this share of the flows was in force.
    pub(super) fn time_of_share(&self, share: f64) -> Duration {
        let all = self.samples.last().map_or(0, |last| last.flows) as f64;
        let first = self.samples.iter().find(|sample| sample.flows as f64 >= all * share);
        first.map_or(Duration::ZERO, |sample| sample.at)
    }
}

/// When requests were asked, and how long they took, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Asked {
    changes: Vec<(Instant, f64)>,
    questions: Vec<(Instant, f64)>,
}

impl Asked {
    /// Median and greatest of changes and of questions, of those before this moment or of the others.
    pub(super) fn described(&self, moment: Instant, is_before: bool) -> String {
        let of = |times: &Vec<(Instant, f64)>| {
            let wanted = times.iter().filter(|(at, _)| (*at < moment) == is_before);
            let wanted: Vec<f64> = wanted.map(|(_, took)| *took).collect();
            if wanted.is_empty() {
                return "none".to_owned();
            }
            let spread = Spread::new(wanted);
            format!("{:.1}, {:.1}", spread.median(), spread.greatest())
        };
        format!("{}; {}", of(&self.changes), of(&self.questions))
    }
}

/// A user who asks all the time.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Asked>>,
}

impl Watch {
    /// Asks from now on.
    pub(super) fn start(socket: PathBuf) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let thread = std::thread::spawn(move || {
            Builder::new_current_thread().enable_all().build()?.block_on(ask(socket, until))
        });
        Watch { is_over, thread }
    }

    /// Stops asking.
    pub(super) fn finish(self) -> Result<Asked> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow!("the user's thread has panicked"))?
    }
}

async fn ask(socket: PathBuf, is_over: Arc<AtomicBool>) -> Result<Asked> {
    let mut client = connect(&socket).await?;
    let mut asked = Asked::default();
    let (object, key) = probe();
    while !is_over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        client.apply_objects(vec![object.clone()], "user").await?;
        asked.changes.push((begun, ms(begun.elapsed())));
        let begun = Instant::now();
        client.status_of(vec!["hv-0".to_owned()]).await?;
        asked.questions.push((begun, ms(begun.elapsed())));
        client.delete(std::slice::from_ref(&key), "user").await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(asked)
}
