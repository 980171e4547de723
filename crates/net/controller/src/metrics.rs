//! Metrics, for Prometheus: what happened is counted as it happens ([`Metrics`]), and the present state is read when somebody asks
//! ([`observed`]). [`definitions`] lists all of them.

mod counters;
mod definitions;
mod observed;
mod stages;
mod text;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit as ClientUnit};
use switch_model::{Channel, Event, Rejection};
use weft_core::core::Refusal;
use weft_core::fleet::News;
use weft_core::machine::Applied;

use self::counters::OfCounters;
pub(crate) use self::counters::{DROPS, LastReading};
use self::definitions as of;
pub use self::definitions::{DEFINITIONS, Definition, Kind, Unit};
pub(crate) use self::observed::{Observed, Stored};
pub(crate) use self::stages::{Spent, StageClock};
pub(crate) use self::text::{OPEN_METRICS, PLAIN, plain, wants_open_metrics};
use crate::journal::Written;

/// The labels of a series.
type Labels = Vec<(&'static str, Cow<'static, str>)>;
type Counters = Family<Labels, Counter>;
type Times = Family<Labels, Counter<f64, AtomicU64>>;
type Histogram = HistogramWithExemplars<Labels>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The bounds of times, in seconds: a stage of a small transaction takes some microseconds, a load of a large network a minute.
const TIMES: [f64; 15] = [
    0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0,
    60.0,
];
/// The transactions whose release is remembered, to know how long switches take to confirm them.
const RELEASED_MAX: usize = 4096;
/// The tenants that have series of their own: the first ones.
const TENANTS_MAX: usize = 1000;
/// The series that stands for the rest.
const OTHERS: &str = "(others)";
/// A call that was not admitted.
pub(crate) const REFUSED: &str = "(refused)";

/// Counts what happens. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    clock: Arc<StageClock>,
    requests: Counters,
    stages: Stages,
    api_requests: Counters,
    api_time: Histograms,
    api_connections: Family<Labels, Gauge>,
    switches: OfSwitches,
    journal: OfJournal,
    tenants: OfTenants,
    counters: OfCounters,
    released: Mutex<Released>,
    /// By the fingerprint of each rule, its time as the engine last said, and all of it, in nanoseconds.
    rules: Mutex<HashMap<u64, (u64, u64)>>,
}

/// Histograms of the stages, each made once.
#[derive(Debug)]
struct Stages {
    queue: Histogram,
    validate: Histogram,
    derive: Histogram,
    number: Histogram,
    follow: Histogram,
    append: Histogram,
    sync: Histogram,
    send: Histogram,
    confirm: Histogram,
}

#[derive(Debug)]
struct OfSwitches {
    connected: Counters,
    disconnected: Counters,
    reports: Counter,
    resyncs: Counter,
    resync_mods: Counter,
    foreign: Counters,
    repairs: Counter,
    repair_mods: Counter,
    refusals: Counters,
    driver_failures: Counter,
}

/// Changes, and the time for them.
type SeriesOfTenant = (Counter, Counter<f64, AtomicU64>);

/// What tenants ask of the engine.
#[derive(Debug)]
struct OfTenants {
    changes: Counters,
    time: Times,
    /// The series of each.
    known: Mutex<BTreeMap<String, SeriesOfTenant>>,
}

#[derive(Debug)]
struct OfJournal {
    bytes: Gauge,
    records: Counter,
    written: Counter,
    failures: Counter,
    folds: Counters,
}

/// When transactions were handed to drivers: the newest ones, in order.
#[derive(Debug, Default)]
struct Released {
    newest: VecDeque<(u64, Instant)>,
    /// Whether there were older ones.
    has_dropped: bool,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::default();
        let registry_of = &mut registry;
        let stages: Histograms =
            register(registry_of, &of::STAGES, Family::new_with_constructor(histogram as fn() -> Histogram));
        let stage = |name| stages.get_or_create_owned(&vec![("stage", Cow::Borrowed(name))]);
        let stages = Stages {
            queue: stage("queue"),
            validate: stage("validate"),
            derive: stage("derive"),
            number: stage("number"),
            follow: stage("follow"),
            append: stage("append"),
            sync: stage("sync"),
            send: stage("send"),
            confirm: stage("confirm"),
        };
        let inner = Inner {
            clock: Arc::default(),
            requests: registered(registry_of, &of::REQUESTS),
            stages,
            api_requests: registered(registry_of, &of::API_REQUESTS),
            api_time: register(
                registry_of,
                &of::API_TIME,
                Family::new_with_constructor(histogram as fn() -> Histogram),
            ),
            api_connections: registered(registry_of, &of::API_CONNECTIONS),
            switches: OfSwitches {
                connected: registered(registry_of, &of::CONNECTED),
                disconnected: registered(registry_of, &of::DISCONNECTED),
                reports: registered(registry_of, &of::REPORTS),
                resyncs: registered(registry_of, &of::RESYNCS),
                resync_mods: registered(registry_of, &of::RESYNC_MODS),
                foreign: registered(registry_of, &of::FOREIGN),
                repairs: registered(registry_of, &of::REPAIRS),
                repair_mods: registered(registry_of, &of::REPAIR_MODS),
                refusals: registered(registry_of, &of::REFUSALS),
                driver_failures: registered(registry_of, &of::DRIVER_FAILURES),
            },
            journal: OfJournal {
                bytes: registered(registry_of, &of::JOURNAL_SIZE),
                records: registered(registry_of, &of::JOURNAL_RECORDS),
                written: registered(registry_of, &of::JOURNAL_WRITTEN),
                failures: registered(registry_of, &of::JOURNAL_FAILURES),
                folds: registered(registry_of, &of::FOLDS),
            },
            tenants: OfTenants {
                changes: registered(registry_of, &of::TENANT_CHANGES),
                time: registered(registry_of, &of::TENANT_TIME),
                known: Mutex::default(),
            },
            counters: OfCounters::default(),
            released: Mutex::default(),
            rules: Mutex::default(),
            registry,
        };
        inner.begin_at_zero();
        Metrics(Arc::new(inner))
    }
}

impl Inner {
    /// Exports the series whose labels are known from the start on: an increase from nothing would be none.
    fn begin_at_zero(&self) {
        let (of, journal) = (&self.switches, &self.journal);
        let channels = [Channel::Ovsdb, Channel::OpenFlow].map(|channel| channel.to_string());
        let series = [
            (&self.requests, "result", ["applied", "unchanged", "tried", "repeated", "refused"].as_slice()),
            (&of.foreign, "what", &["flows", "database"]),
            (&journal.folds, "result", &["done", "failed"]),
            (&of.connected, "channel", &channels.each_ref().map(String::as_str)),
            (&of.disconnected, "channel", &channels.each_ref().map(String::as_str)),
        ];
        for (counters, label, values) in series {
            for value in values {
                drop(counters.get_or_create(&vec![(label, Cow::Owned((*value).to_owned()))]));
            }
        }
    }
}

impl Metrics {
    /// What the engine's thread reports the stages of requests to.
    pub(crate) fn clock(&self) -> &Arc<StageClock> {
        &self.0.clock
    }

    /// A request was computed: how long it waited, the time of its stages, and the trace in which its spans are, if somebody wants them.
    pub(crate) fn computed(&self, waited: Duration, spent: Spent, trace: Option<&str>) {
        let Stages { queue, validate, derive, number, follow, .. } = &self.0.stages;
        let Spent { validate: validated, derive: derived, number: numbered, follow: followed } = spent;
        for (stage, time) in [
            (queue, waited),
            (validate, validated),
            (derive, derived),
            (number, numbered),
            (follow, followed),
        ] {
            let exemplar = trace.map(|trace| vec![("trace_id", Cow::Owned(trace.to_owned()))]);
            stage.observe(time.as_secs_f64(), exemplar, None);
        }
    }

    /// The engine has computed a request of a tenant, which took this time.
    pub(crate) fn computed_for(&self, tenant: &str, time: Duration) {
        let of = &self.0.tenants;
        let mut known = of.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = if known.contains_key(tenant) || known.len() < TENANTS_MAX { tenant } else { OTHERS };
        let (changes, total) = known.entry(tenant.to_owned()).or_insert_with(|| {
            let labels = vec![("tenant", Cow::Owned(tenant.to_owned()))];
            (of.changes.get_or_create_owned(&labels), of.time.get_or_create_owned(&labels))
        });
        changes.inc();
        total.inc_by(time.as_secs_f64());
    }

    /// What switches have counted.
    pub(crate) fn counters(&self) -> &OfCounters {
        &self.0.counters
    }

    /// The result of a request.
    pub(crate) fn answered(&self, result: &Result<Applied, Refusal>) {
        let result = match result {
            Err(_) => "refused",
            Ok(applied) if applied.dry_run => "tried",
            Ok(applied) if applied.repeated.is_some() => "repeated",
            Ok(applied) if applied.txn.is_some() => "applied",
            Ok(_) => "unchanged",
        };
        count(&self.0.requests, "result", result, 1);
    }

    /// A group of transactions is on disk. `append` is the time before and after that.
    pub(crate) fn journalled(&self, written: Written, append: Duration) {
        let (stages, journal) = (&self.0.stages, &self.0.journal);
        if written.records > 0 {
            observe(&stages.append, append);
            observe(&stages.sync, written.sync);
            journal.records.inc_by(written.records);
            journal.written.inc_by(written.bytes);
        }
    }

    /// The size of the journal.
    pub(crate) fn journal_has(&self, bytes: u64) {
        self.0.journal.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// The disk has refused a group.
    pub(crate) fn unwritten(&self) {
        self.0.journal.failures.inc();
    }

    /// A fold of the journal has ended.
    pub(crate) fn folded(&self, is_done: bool) {
        count(&self.0.journal.folds, "result", if is_done { "done" } else { "failed" }, 1);
    }

    /// These transactions were handed to drivers and clients, which took this time.
    pub(crate) fn released(&self, txns: impl IntoIterator<Item = u64>, time: Duration, now: Instant) {
        let mut released = self.0.released.lock().unwrap_or_else(PoisonError::into_inner);
        let before = released.newest.len();
        released.newest.extend(txns.into_iter().map(|txn| (txn, now)));
        let has_some = released.newest.len() > before;
        let surplus = released.newest.len().saturating_sub(RELEASED_MAX);
        released.newest.drain(..surplus);
        released.has_dropped |= surplus > 0;
        drop(released);
        if has_some {
            observe(&self.0.stages.send, time);
        }
    }

    /// When a transaction was handed to drivers, in this start of the controller. Of an old one, a time when it already was.
    fn release_of(&self, txn: u64) -> Option<Instant> {
        let released = self.0.released.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, time) = *released.newest.front()?;
        if txn < first {
            return released.has_dropped.then_some(time);
        }
        let at = released.newest.binary_search_by_key(&txn, |(txn, _)| *txn).ok()?;
        released.newest.get(at).map(|(_, time)| *time)
    }

    /// The time that a rule has taken since the start. `nanos` is what the engine knows, which begins anew with another plan.
    fn time_of_rule(&self, fingerprint: u64, nanos: u64) -> Duration {
        let mut rules = self.0.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, total) = rules.entry(fingerprint).or_default();
        *total += if nanos < *last { nanos } else { nanos - *last };
        *last = nanos;
        Duration::from_nanos(*total)
    }

    /// The driver of a switch says this.
    pub(crate) fn heard(&self, news: &News) {
        let News::Event(event) = news else { return };
        let of = &self.0.switches;
        let many = |number: &usize| *number as u64;
        match event {
            Event::Connected { channel } => count(&of.connected, "channel", &channel.to_string(), 1),
            Event::Disconnected { channel, .. } => {
                count(&of.disconnected, "channel", &channel.to_string(), 1);
            }
            Event::Report(_) => drop(of.reports.inc()),
            Event::Confirmed { txn, at, sent } => {
                // A switch may have been away when it was released.
                let sent = sent.as_ref().map(|sent| sent.begun);
                if let Some(from) = self.release_of(*txn).max(sent) {
                    observe(&self.0.stages.confirm, at.saturating_duration_since(from));
                }
            }
            Event::Refused { count: all, first, .. } => {
                for Rejection { reason, .. } in first {
                    count(&of.refusals, "code", error_name(reason), 1);
                }
                count(&of.refusals, "code", "(more)", many(all).saturating_sub(first.len() as u64));
            }
            Event::ForeignChanges { count: changes, .. } => {
                count(&of.foreign, "what", "flows", many(changes));
            }
            Event::MissedChanges { count: changes, .. } => {
                count(&of.foreign, "what", "database", many(changes));
            }
            Event::Repaired { flow_mods } => {
                of.repairs.inc();
                of.repair_mods.inc_by(many(flow_mods));
            }
            Event::Synced { flow_mods, .. } => {
                of.resyncs.inc();
                of.resync_mods.inc_by(many(flow_mods));
            }
            Event::Failed { .. } => drop(of.driver_failures.inc()),
            Event::RefusedTotal { .. }
            | Event::Learned { .. }
            | Event::Announced { .. }
            | Event::Withheld { .. }
            | Event::Left => {}
        }
    }

    /// The API has answered a call.
    pub(crate) fn called(&self, call: &str, code: &str, time: Option<Duration>) {
        let labels = vec![("call", Cow::Owned(call.to_owned())), ("code", Cow::Owned(code.to_owned()))];
        self.0.api_requests.get_or_create(&labels).inc();
        if let Some(time) = time {
            let labels = vec![("call", Cow::Owned(call.to_owned()))];
            observe(&self.0.api_time.get_or_create(&labels), time);
        }
    }

    /// A client has connected. It is counted until the guard is dropped.
    pub(crate) fn connected(&self, transport: &'static str) -> Connected {
        let gauge =
            self.0.api_connections.get_or_create_owned(&vec![("transport", Cow::Borrowed(transport))]);
        gauge.inc();
        Connected(gauge)
    }

    /// All metrics, in the text format of `OpenMetrics`.
    pub(crate) fn text(&self, observed: &Observed) -> String {
        let begun = Instant::now();
        let mut registry = Registry::default();
        observed.register(&mut registry, self);
        self.0.counters.register(&mut registry);
        let scrape: Gauge<f64, AtomicU64> = registered(&mut registry, &of::SCRAPE);
        scrape.set((observed.took + begun.elapsed()).as_secs_f64());
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode_registry(&mut text, &self.0.registry)
            .and_then(|()| encode_registry(&mut text, &registry))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}

/// An open connection of a client.
#[derive(Debug)]
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn histogram() -> Histogram {
    Histogram::new(TIMES.into_iter())
}

fn observe(histogram: &Histogram, time: Duration) {
    histogram.observe(time.as_secs_f64(), None, None);
}

fn count(counters: &Counters, label: &'static str, value: &str, more: u64) {
    if more > 0 {
        counters.get_or_create(&vec![(label, Cow::Owned(value.to_owned()))]).inc_by(more);
    }
}

/// The name of an error of OpenFlow, which is one of few; of other texts, which may name anything, only that they are others.
fn error_name(reason: &str) -> &str {
    let name = reason.split([' ', ':', '(']).next().unwrap_or_default();
    let is_name = |name: &str| {
        name.len() > 3
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    if is_name(name) { name } else { "other" }
}

fn registered<M: Metric + Clone + Default>(registry: &mut Registry, definition: &Definition) -> M {
    register(registry, definition, M::default())
}

fn register<M: Metric + Clone>(registry: &mut Registry, definition: &Definition, metric: M) -> M {
    let Definition { name, unit, help, .. } = definition;
    match unit {
        None => registry.register(*name, *help, metric.clone()),
        Some(unit) => {
            let unit = match unit {
                Unit::Seconds => ClientUnit::Seconds,
                Unit::Bytes => ClientUnit::Bytes,
            };
            registry.register_with_unit(*name, *help, unit, metric.clone());
        }
    }
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_errors_become_labels() {
        assert_eq!(error_name("OFPBMC_BAD_PREREQ"), "OFPBMC_BAD_PREREQ");
        assert_eq!(error_name("OFPFMFC_TABLE_FULL: no room for port of alice"), "OFPFMFC_TABLE_FULL");
        assert_eq!([error_name("no such bridge br-alice"), error_name("")], ["other"; 2]);
    }

    #[test]
    fn a_confirmation_counts_from_the_release_of_its_transaction() {
        let (metrics, begun) = (Metrics::new(), Instant::now());
        metrics.released([7, 8], Duration::from_micros(3), begun);
        let at = begun + Duration::from_secs(20);
        for txn in [6, 8] {
            metrics.heard(&News::Event(Event::Confirmed { txn, at, sent: None }));
        }
        let text = metrics.text(&Observed::default());
        assert!(text.contains("weft_stage_seconds_count{stage=\"confirm\"} 1\n"), "{text}");
        assert!(text.contains("weft_stage_seconds_sum{stage=\"confirm\"} 20.0\n"), "{text}");
        for txn in 9..20_000 {
            metrics.released([txn], Duration::ZERO, begun);
        }
        assert_eq!(metrics.release_of(20_000), None);
        let later = begun + Duration::from_secs(1);
        metrics.released([20_000], Duration::ZERO, later);
        // Of an old one, it is known that it is at least as old as the oldest known one.
        assert_eq!([metrics.release_of(9), metrics.release_of(20_000)], [Some(begun), Some(later)]);
        let kept = metrics.0.released.lock().map(|released| released.newest.len());
        assert_eq!(kept.ok(), Some(RELEASED_MAX));
    }

    #[test]
    fn the_first_tenants_have_series_of_their_own() {
        let metrics = Metrics::new();
        for number in 0..TENANTS_MAX + 3 {
            metrics.computed_for(&format!("t{number}"), Duration::from_secs(2));
        }
        metrics.computed_for("t7", Duration::from_secs(1));
        let text = metrics.text(&Observed::default());
        for line in [
            "weft_tenant_changes_total{tenant=\"t7\"} 2\n",
            "weft_tenant_seconds_total{tenant=\"t7\"} 3.0\n",
            "weft_tenant_changes_total{tenant=\"t999\"} 1\n",
            "weft_tenant_changes_total{tenant=\"(others)\"} 3\n",
            "weft_tenant_seconds_total{tenant=\"(others)\"} 6.0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(text.matches("weft_tenant_changes_total{").count(), TENANTS_MAX + 1);
    }

    #[test]
    fn the_time_of_a_rule_goes_on_with_another_plan() {
        let metrics = Metrics::new();
        let seconds = [3, 5, 1, 2].map(|seconds| metrics.time_of_rule(7, seconds * 1_000_000_000).as_secs());
        assert_eq!(seconds, [3, 5, 6, 7]);
    }
}
