//! Reads the counters that the configuration names from all switches, again and again, and adds them up for the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nlog_data::quotation::cut;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, warn};
use weft_core::listings::{Counts, Growing, ToRead, growing};
use weft_core::totals::{Sample, Totals};

use crate::config::CounterSettings;
use crate::engine::{Engine, Stopping};
use crate::flow_counts::{self, Counted};
use crate::metrics::{DROPS, LastReading};
use crate::surveys::{Survey, Surveys};

/// Reads them while the controller runs.
pub(crate) struct CounterReadings {
    engine: Engine,
    settings: watch::Receiver<CounterSettings>,
    surveys: Surveys,
    totals: BTreeMap<String, Totals>,
    /// Where the next reading begins among the hosts, so that it is not always the same ones that come too late.
    from: usize,
    unknown: Unknown,
}

/// Names that the log has said to be unknown.
#[derive(Default)]
struct Unknown {
    /// The version of the rules that do not know them.
    rules: Option<String>,
    names: BTreeSet<String>,
}

/// What to read for one name.
enum Plan {
    Drops(flow_counts::Plan),
    Listing(weft_core::listings::Plan),
}

impl Plan {
    fn to_read(&self) -> BTreeMap<String, ToRead> {
        match self {
            Plan::Drops(plan) => plan.to_read(),
            Plan::Listing(plan) => plan.to_read(),
        }
    }

    fn samples(&self, host: &str, counts: &Counts) -> Vec<Sample> {
        match self {
            Plan::Drops(plan) => plan.samples(host, counts),
            Plan::Listing(plan) => plan.samples(host, counts),
        }
    }

    fn has_host(&self, host: &str) -> bool {
        match self {
            Plan::Drops(plan) => plan.has_host(host),
            Plan::Listing(plan) => plan.has_host(host),
        }
    }

    fn owners(&self) -> BTreeSet<Arc<str>> {
        match self {
            Plan::Drops(plan) => plan.causes(),
            Plan::Listing(plan) => plan.owners(),
        }
    }

    fn growing(&self) -> Growing {
        match self {
            Plan::Drops(_) => Growing { packets: true, bytes: true, dropped: false },
            Plan::Listing(plan) => plan.growing(),
        }
    }
}

impl CounterReadings {
    pub(crate) fn new(engine: Engine, settings: watch::Receiver<CounterSettings>) -> Self {
        let surveys = Surveys::default();
        let (totals, unknown) = (BTreeMap::new(), Unknown::default());
        CounterReadings { engine, settings, surveys, totals, from: 0, unknown }
    }

    /// Ends with the engine.
    pub(crate) async fn follow(mut self) {
        loop {
            let CounterSettings { names, every } = self.settings.borrow_and_update().clone();
            let (begun, every) = (Instant::now(), Duration::from_secs(every.get().into()));
            if self.read_all(names.names()).await.is_err() {
                return;
            }
            // Switches rest a while even if they take longer.
            let next = (begun + every).max(Instant::now() + every / 2);
            tokio::select! {
                () = tokio::time::sleep_until(next), if !names.names().is_empty() => {}
                changed = self.settings.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn read_all(&mut self, names: &[String]) -> Result<(), Stopping> {
        let known = self.known(names);
        let wanted: Vec<&String> = names.iter().filter(|name| known.contains(*name)).collect();
        let is_wanted = |name: &str| wanted.iter().any(|wanted| *wanted == name);
        self.totals.retain(|name, _| is_wanted(name));
        self.engine.metrics().counters().keep(is_wanted);
        for name in &wanted {
            let begun = Instant::now();
            let Some(plan) = self.plan(name).await? else { continue };
            let mut readings = self.engine.counts(plan.to_read()).await?;
            let hosts = readings.len();
            readings.rotate_left(self.from.checked_rem(hosts).unwrap_or_default());
            let plan = Arc::new(plan);
            let of_host = plan.clone();
            let mut survey = Survey::begin(readings, self.surveys.clone(), move |host, counts| {
                let samples = counts.map(|counts| of_host.samples(host, &counts));
                (host.to_owned(), samples)
            })
            .await;
            let totals = self.totals.entry((*name).clone()).or_default();
            totals.know(|host| plan.has_host(host), &plan.owners());
            let mut read = 0;
            while let Some((host, samples)) = survey.next().await {
                match samples {
                    Ok(samples) => {
                        totals.read(&host, samples);
                        read += 1;
                    }
                    Err(error) => {
                        debug!(host, counter = name, %error, "the counters of a switch were not read");
                    }
                }
            }
            if read < hosts {
                self.from = self.from.wrapping_add(read.max(1));
            }
            let (growing, took) = (plan.growing(), begun.elapsed());
            let last = LastReading { growing, read, unread: hosts - read, took };
            self.engine.metrics().counters().set(name, last, totals);
        }
        Ok(())
    }

    /// The names that the present rules know. Logs once which of these they do not.
    fn known(&mut self, names: &[String]) -> BTreeSet<String> {
        let rules = self.engine.rules().get();
        let there: BTreeSet<String> = growing(&rules).chain([DROPS.to_owned()]).collect();
        if self.unknown.rules != rules.version() {
            self.unknown = Unknown { rules: rules.version(), names: BTreeSet::new() };
        }
        for name in names.iter().filter(|name| !there.contains(*name)) {
            if self.unknown.names.insert(name.clone()) {
                let there = there.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                warn!(
                    counter = %cut(name),
                    known = there,
                    "the rules have no such counters; metrics_counters can name those that they have"
                );
            }
        }
        there
    }

    /// What to read for a name; `None` if the rules have changed meanwhile, or planning has panicked, which the log has.
    async fn plan(&self, name: &str) -> Result<Option<Plan>, Stopping> {
        let planned = if name == DROPS {
            let counting = self.engine.counting(Counted::Network).await?;
            tokio::task::spawn_blocking(move || Plan::Drops(counting.plan())).await
        } else {
            let Ok(asked) = self.engine.asked(name.to_owned(), None, None).await? else { return Ok(None) };
            tokio::task::spawn_blocking(move || Plan::Listing(asked.plan())).await
        };
        Ok(planned.ok())
    }
}
