//! What switches count for the rules, as far as the configuration asks for it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weft_core::listings::Growing;
use weft_core::totals::{Count, Totals};

use super::{Counters, Labels, OTHERS, of, registered};

/// The name of the drops by cause among the counters.
pub(crate) const DROPS: &str = "drops";

/// What switches have counted, by the name of the counters.
#[derive(Debug, Default)]
pub(crate) struct OfCounters(Mutex<BTreeMap<String, Told>>);

/// A reading of all switches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastReading {
    /// What they count.
    pub(crate) growing: Growing,
    /// The switches that have answered.
    pub(crate) read: usize,
    /// Those that have not.
    pub(crate) unread: usize,
    /// The time that it took.
    pub(crate) took: Duration,
}

/// What the metrics say of the counters of a name.
#[derive(Debug)]
struct Told {
    last: LastReading,
    /// By cause or object.
    totals: Vec<(String, Count)>,
}

impl OfCounters {
    /// After a reading of all switches, these are the totals.
    pub(crate) fn set(&self, name: &str, last: LastReading, totals: &Totals) {
        let mut all: Vec<_> = totals.owners().map(|(owner, count)| (owner.to_owned(), count)).collect();
        if totals.others() != Count::default() {
            all.push((OTHERS.to_owned(), totals.others()));
        }
        self.told().insert(name.to_owned(), Told { last, totals: all });
    }

    /// Nobody asks for other counters any more.
    pub(crate) fn keep(&self, is_wanted: impl Fn(&str) -> bool) {
        self.told().retain(|name, _| is_wanted(name));
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let dropped: [Counters; 2] =
            [registered(registry, &of::DROPPED_PACKETS), registered(registry, &of::DROPPED_BYTES)];
        let counted: [Counters; 3] = [&of::COUNTER_PACKETS, &of::COUNTER_BYTES, &of::COUNTER_DROPPED]
            .map(|definition| registered(registry, definition));
        let switches: Family<Labels, Gauge> = registered(registry, &of::COUNTER_SWITCHES);
        let times: Family<Labels, Gauge<f64, AtomicU64>> = registered(registry, &of::COUNTER_TIME);
        let set = |counters: &Counters, labels: &Labels, value: u64| {
            let counter: Counter = counters.get_or_create_owned(labels);
            counter.inc_by(value);
        };
        for (name, Told { last: LastReading { growing, read, unread, took }, totals }) in &*self.told() {
            let counter = ("counter", Cow::Owned(name.clone()));
            for (result, count) in [("read", read), ("unread", unread)] {
                let labels = vec![counter.clone(), ("result", Cow::Borrowed(result))];
                switches.get_or_create(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
            }
            times.get_or_create(&vec![counter.clone()]).set(took.as_secs_f64());
            for (owner, Count { packets, bytes, dropped: lost }) in totals {
                if name == DROPS {
                    let labels = vec![("cause", Cow::Owned(owner.clone()))];
                    set(&dropped[0], &labels, *packets);
                    set(&dropped[1], &labels, *bytes);
                    continue;
                }
                let labels = vec![counter.clone(), ("object", Cow::Owned(owner.clone()))];
                let values = [(growing.packets, *packets), (growing.bytes, *bytes), (growing.dropped, *lost)];
                for (counters, (is_counted, value)) in counted.iter().zip(values) {
                    if is_counted {
                        set(counters, &labels, value);
                    }
                }
            }
        }
    }
}
