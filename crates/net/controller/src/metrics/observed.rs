//! The present state of the controller, read when somebody asks for metrics.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use nlog_data::{StoredRows, WorkOfRule};
use procfs::process::Process;
use procfs::{ProcError, WithCurrentSystemInfo as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use weft_core::fleet::SwitchStatus;
use weft_core::rules::Rules;
use weft_core::status::Status;

use super::{Labels, Metrics, OTHERS, Times, of, register, registered};

/// The switches that have series of their own: the worst ones.
const SWITCHES_MAX: usize = 20;
/// The rules that have series of their own: those that took the most time.
const RULES_MAX: usize = 50;
/// The tables that have series of their own: the largest ones.
const TABLES_MAX: usize = 1000;

type Numbers = Family<Labels, Gauge>;
type Reals = Family<Labels, Gauge<f64, AtomicU64>>;

/// What the engine has stored, and the rules of which that is.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) rules: Arc<Rules>,
    pub(crate) rows: StoredRows,
}

/// What a reader of metrics finds at one moment.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) status: Option<Status>,
    pub(crate) rules: Option<Arc<Rules>>,
    /// What the engine has stored, as far as it had time to answer, now or earlier.
    pub(crate) stored: Option<Arc<Stored>>,
    /// The requests that wait: changes, questions.
    pub(crate) waiting: [usize; 2],
    /// For how long the engine has been at its work.
    pub(crate) busy: Duration,
    /// The time that it took to find this.
    pub(crate) took: Duration,
}

impl Observed {
    /// Adds its metrics to a registry.
    pub(super) fn register(&self, registry: &mut Registry, metrics: &Metrics) {
        let version = vec![("version", Cow::Borrowed(env!("CARGO_PKG_VERSION")))];
        registry.register(of::BUILD.name, of::BUILD.help, Info::new(version));
        let waiting: Numbers = registered(registry, &of::WAITING);
        set(&waiting, "queue", "changes", self.waiting[0]);
        set(&waiting, "queue", "questions", self.waiting[1]);
        let busy: Gauge<f64, AtomicU64> = registered(registry, &of::BUSY);
        busy.set(self.busy.as_secs_f64());
        if let Some(status) = &self.status {
            of_status(registry, status);
            of_switches(registry, &status.switches, metrics);
        }
        if let Some(rules) = &self.rules {
            let packages = rules.packages().join(",");
            let labels = vec![
                ("version", Cow::Owned(rules.version().unwrap_or_default())),
                ("packages", Cow::Owned(packages)),
            ];
            registry.register(of::RULES.name, of::RULES.help, Info::new(labels));
        }
        // Without /proc there are no such metrics.
        let process = of_process(registry).ok();
        let Some(Stored { rules, rows }) = self.stored.as_deref() else { return };
        of_stored(registry, rows, rules, metrics);
        let memory: Numbers = registered(registry, &of::MEMORY);
        let stored = memory_of(rows);
        set(&memory, "part", "rows", stored[0]);
        set(&memory, "part", "indexes", stored[1]);
        if let Some(resident) = process {
            set(&memory, "part", "other", resident.saturating_sub(stored.iter().sum()));
        }
    }
}

fn of_status(registry: &mut Registry, status: &Status) {
    let last: Gauge = registered(registry, &of::LAST_TRANSACTION);
    last.set(number(status.last_txn));
    let objects: Numbers = registered(registry, &of::OBJECTS);
    for (kind, count) in &status.objects {
        set(&objects, "kind", kind, *count);
    }
    let problems: Numbers = registered(registry, &of::PROBLEMS);
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for ongoing in &status.problems {
        *codes.entry(&ongoing.problem.code).or_default() += 1;
    }
    for (code, count) in codes {
        set(&problems, "code", code, count);
    }
}

fn of_switches(registry: &mut Registry, switches: &[Arc<SwitchStatus>], metrics: &Metrics) {
    let states: Numbers = registered(registry, &of::SWITCHES);
    let mut counts =
        BTreeMap::from(["in_sync", "syncing", "refusing", "disconnected"].map(|state| (state, 0)));
    for switch in switches {
        *counts.entry(state(switch)).or_default() += 1;
    }
    for (state, count) in counts {
        set(&states, "state", state, count);
    }
    let sum = |of: fn(&SwitchStatus) -> usize| switches.iter().map(|switch| of(switch)).sum::<usize>();
    let desired: Numbers = registered(registry, &of::DESIRED);
    set(&desired, "what", "flows", sum(|switch| switch.flows));
    set(&desired, "what", "groups", sum(|switch| switch.groups));
    set(&desired, "what", "tunnels", sum(|switch| switch.tunnels));
    set(&desired, "what", "patches", sum(|switch| switch.patches));
    let vifs: Gauge = registered(registry, &of::VIFS);
    vifs.set(number(sum(|switch| switch.vifs) as u64));

    let pending: Numbers = registered(registry, &of::PENDING);
    let mut most: Vec<(usize, &str)> = switches
        .iter()
        .map(|switch| (switch.pending, &*switch.node))
        .filter(|(pending, _)| *pending > 0)
        .collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let rest = most.split_off(most.len().min(SWITCHES_MAX));
    for (count, node) in most {
        set(&pending, "switch", node, count);
    }
    set(&pending, "switch", OTHERS, rest.into_iter().map(|(count, _)| count).sum());

    let lag: Reals = registered(registry, &of::LAG);
    let now = Instant::now();
    let since = |switch: &SwitchStatus| metrics.release_of(switch.unconfirmed_from?);
    let lags = switches.iter().filter_map(|switch| Some((since(switch)?, &*switch.node)));
    let mut lags: Vec<(Duration, &str)> =
        lags.map(|(since, node)| (now.saturating_duration_since(since), node)).collect();
    lags.sort_unstable_by(|a, b| b.cmp(a));
    let rest = lags.split_off(lags.len().min(SWITCHES_MAX));
    let others = rest.first().map(|(largest, _)| (*largest, OTHERS));
    for (time, node) in lags.into_iter().chain(others) {
        lag.get_or_create(&label("switch", node)).set(time.as_secs_f64());
    }
}

/// A switch counts once, with the worst that is known of it.
fn state(switch: &SwitchStatus) -> &'static str {
    match switch {
        switch if !switch.connected => "disconnected",
        switch if switch.refused > 0 => "refusing",
        switch if switch.synced => "in_sync",
        _ => "syncing",
    }
}

/// The bytes of rows and of indexes.
fn memory_of(stored: &StoredRows) -> [usize; 2] {
    let relations = &stored.relations;
    [
        relations.iter().map(|relation| relation.bytes).sum(),
        relations.iter().map(|relation| relation.index_bytes).sum(),
    ]
}

fn of_stored(registry: &mut Registry, stored: &StoredRows, rules: &Rules, metrics: &Metrics) {
    let program = rules.program();
    // The folder of the first rule of each table.
    let mut packages: BTreeMap<&str, &str> = BTreeMap::new();
    for rule in &program.rules {
        let folder = rule.place.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        packages.entry(&program.schema.table(program.schema.shown(rule.head)).name).or_insert(folder);
    }
    let (rows, bytes): (Numbers, Numbers) =
        (registered(registry, &of::TABLE_ROWS), registered(registry, &of::TABLE_BYTES));
    let mut relations: Vec<_> = stored.relations.iter().collect();
    relations.sort_unstable_by_key(|relation| {
        std::cmp::Reverse((relation.bytes + relation.index_bytes, &relation.name))
    });
    let others = relations.split_off(relations.len().min(TABLES_MAX));
    let add = |name: &str, package: &str, of: (usize, usize)| {
        let labels =
            vec![("table", Cow::Owned(name.to_owned())), ("package", Cow::Owned(package.to_owned()))];
        rows.get_or_create(&labels).inc_by(number(of.0 as u64));
        bytes.get_or_create(&labels).inc_by(number(of.1 as u64));
    };
    for relation in relations {
        // A stage of a rule has the name of its table, and a number.
        let table = relation.name.split(['#', '/', ' ']).next().unwrap_or(&relation.name);
        let package =
            packages.get(&*relation.name).or_else(|| packages.get(table)).copied().unwrap_or_default();
        add(&relation.name, package, (relation.rows, relation.bytes + relation.index_bytes));
    }
    for relation in others {
        add(OTHERS, "", (relation.rows, relation.bytes + relation.index_bytes));
    }
    let times: Times = registered(registry, &of::RULE_TIME);
    let of_rule = |work: &WorkOfRule| {
        let fingerprint = program.rules.get(work.rule.0 as usize)?.fingerprint;
        Some((metrics.time_of_rule(fingerprint, work.nanos), fingerprint))
    };
    let mut heaviest: Vec<(Duration, u64)> = stored.rules.iter().filter_map(of_rule).collect();
    heaviest.sort_unstable_by(|a, b| b.cmp(a));
    for (time, fingerprint) in heaviest.into_iter().take(RULES_MAX) {
        times.get_or_create(&label("rule", &rules.told(fingerprint))).inc_by(time.as_secs_f64());
    }
    let values: Gauge = registered(registry, &of::VALUES);
    values.set(number(stored.values as u64));
}

/// What the system knows of the process. Returns its resident memory.
fn of_process(registry: &mut Registry) -> Result<usize, ProcError> {
    let process = Process::myself()?;
    let (stat, limits) = (process.stat()?, process.limits()?);
    let ticks = procfs::ticks_per_second().max(1) as f64;
    let cpu: Counter<f64, AtomicU64> = registered(registry, &of::PROCESS_CPU);
    cpu.inc_by((stat.utime + stat.stime) as f64 / ticks);
    let resident = stat.rss_bytes().get();
    let gauges = [
        (&of::PROCESS_RESIDENT, resident),
        (&of::PROCESS_VIRTUAL, stat.vsize),
        (&of::PROCESS_FILES, process.fd_count()? as u64),
        (&of::PROCESS_FILES_MAX, soft_limit(&limits)),
        (&of::PROCESS_THREADS, u64::try_from(stat.num_threads).unwrap_or_default()),
    ];
    for (definition, value) in gauges {
        register(registry, definition, Gauge::<i64>::default()).set(number(value));
    }
    let start: Gauge<f64, AtomicU64> = registered(registry, &of::PROCESS_START);
    start.set(procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks);
    Ok(usize::try_from(resident).unwrap_or(usize::MAX))
}

fn soft_limit(limits: &procfs::process::Limits) -> u64 {
    match limits.max_open_files.soft_limit {
        procfs::process::LimitValue::Unlimited => u64::MAX,
        procfs::process::LimitValue::Value(limit) => limit,
    }
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, Cow::Owned(value.to_owned()))]
}

fn set(gauges: &Numbers, name: &'static str, value: &str, count: usize) {
    gauges.get_or_create(&label(name, value)).set(number(count as u64));
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
