//! Totals that only grow, made of counters of switches that begin anew: with a switch that restarts, and with each flow that is written again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use switch_model::{FlowCount, FlowKey, MeterCount};

/// The owners that have totals of their own.
const OWNERS_MAX: usize = 1000;

/// A number of packets, and of their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The packets.
    pub packets: u64,
    /// The bytes.
    pub bytes: u64,
    /// The packets that a meter has dropped.
    pub dropped: u64,
}

/// What counts on a host: a hash of the flow, or of the number of the meter. Two of a host that share one would be taken for each other, which
/// of a million has a chance of one in thirty million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(u64);

/// What a source has counted for an owner, since the switch has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The source. It may count for several owners.
    pub source: Source,
    /// What it counts for: the id of an object, or a cause of drops.
    pub owner: Arc<str>,
    /// The count.
    pub count: Count,
}

/// The totals of one kind of counters: of each owner, what its sources have counted since they were read for the first time. What a source has
/// counted before does not count: a flow that drops packets now may have let others pass until then, under the same counter.
#[derive(Debug, Default)]
pub struct Totals {
    /// By host and source, the last count.
    hosts: HashMap<Arc<str>, HashMap<Source, Count>>,
    owners: BTreeMap<Arc<str>, Count>,
    /// Of the owners beyond the first ones.
    others: Count,
}

impl Count {
    /// What was counted since `before`. A smaller count is that of another flow, which began at nothing.
    fn since(self, before: Count) -> Count {
        if self.packets < before.packets || self.bytes < before.bytes || self.dropped < before.dropped {
            return self;
        }
        Count {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            dropped: self.dropped - before.dropped,
        }
    }

    fn add(&mut self, more: Count) {
        self.packets = self.packets.saturating_add(more.packets);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.dropped = self.dropped.saturating_add(more.dropped);
    }
}

impl Source {
    /// A flow.
    pub fn flow(key: &FlowKey) -> Source {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Source(hasher.finish())
    }

    /// A meter, by its number.
    pub fn meter(number: u32) -> Source {
        let mut hasher = DefaultHasher::new();
        ("meter", number).hash(&mut hasher);
        Source(hasher.finish())
    }
}

/// What flows have counted, by flow.
pub fn counts_of_flows(counts: &[FlowCount]) -> HashMap<&FlowKey, Count> {
    let count =
        |FlowCount { packets, bytes, .. }: &FlowCount| Count { packets: *packets, bytes: *bytes, dropped: 0 };
    counts.iter().map(|flow| (&flow.key, count(flow))).collect()
}

/// What meters have counted, by number.
pub fn counts_of_meters(counts: &[MeterCount]) -> HashMap<u32, Count> {
    let count = |MeterCount { packets, bytes, dropped, .. }: &MeterCount| Count {
        packets: *packets,
        bytes: *bytes,
        dropped: *dropped,
    };
    counts.iter().map(|meter| (meter.meter, count(meter))).collect()
}

impl Totals {
    /// All that the sources of a host have counted.
    pub fn read(&mut self, host: &str, samples: impl IntoIterator<Item = Sample>) {
        let before = self.hosts.get(host);
        let mut now = HashMap::new();
        for Sample { source, owner, count } in samples {
            now.insert(source, count);
            let last = before.and_then(|before| before.get(&source));
            let more = last.map(|last| count.since(*last)).unwrap_or_default();
            let is_known = self.owners.contains_key(&owner);
            let total = if is_known || self.owners.len() < OWNERS_MAX {
                self.owners.entry(owner).or_default()
            } else {
                &mut self.others
            };
            total.add(more);
        }
        match self.hosts.get_mut(host) {
            Some(known) => *known = now,
            None => drop(self.hosts.insert(host.into(), now)),
        }
    }

    /// Forgets all hosts and owners but these. The total of an owner that is new is 0.
    pub fn know(&mut self, is_host: impl Fn(&str) -> bool, owners: &BTreeSet<Arc<str>>) {
        self.hosts.retain(|host, _| is_host(host));
        self.owners.retain(|owner, _| owners.contains(owner));
        for owner in owners {
            if self.owners.len() >= OWNERS_MAX {
                break;
            }
            self.owners.entry(owner.clone()).or_default();
        }
    }

    /// The totals by owner.
    pub fn owners(&self) -> impl Iterator<Item = (&str, Count)> {
        self.owners.iter().map(|(owner, count)| (&**owner, *count))
    }

    /// The total of all other owners.
    pub fn others(&self) -> Count {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(source: u32, owner: &str, packets: u64) -> Sample {
        let count = Count { packets, bytes: 100 * packets, dropped: 0 };
        Sample { source: Source::meter(source), owner: owner.into(), count }
    }

    fn packets(totals: &Totals) -> Vec<(&str, u64)> {
        totals.owners().map(|(owner, count)| (owner, count.packets)).collect()
    }

    #[test]
    fn counting_begins_with_the_first_reading_of_a_flow_and_goes_on_over_restarts() {
        let mut totals = Totals::default();
        totals.read("hv1", [sample(1, "web", 50)]);
        assert_eq!(packets(&totals), [("web", 0)]);
        totals.read("hv1", [sample(1, "web", 60), sample(2, "web", 7)]);
        assert_eq!(packets(&totals), [("web", 10)], "another flow begins");
        totals.read("hv2", [sample(1, "web", 1000)]);
        assert_eq!(packets(&totals), [("web", 10)], "another host begins");
        totals.read("hv1", [sample(1, "web", 4), sample(2, "web", 9)]);
        assert_eq!(packets(&totals), [("web", 16)], "the first flow was written again");
        totals.read("hv1", []);
        totals.read("hv1", [sample(2, "web", 12)]);
        assert_eq!(packets(&totals), [("web", 16)], "a flow that was away begins again");
    }

    #[test]
    fn a_source_counts_for_each_of_its_owners() {
        let mut totals = Totals::default();
        totals.read("hv1", [sample(1, "a", 3), sample(1, "b", 3)]);
        totals.read("hv1", [sample(1, "a", 5), sample(1, "b", 5)]);
        assert_eq!(packets(&totals), [("a", 2), ("b", 2)]);
    }

    #[test]
    fn series_are_bounded_and_go_with_their_owners() {
        let mut totals = Totals::default();
        let names: Vec<String> = (0..OWNERS_MAX + 5).map(|number| format!("o{number:04}")).collect();
        let all = |packets| names.iter().zip(1..).map(move |(name, source)| sample(source, name, packets));
        totals.read("hv1", all(1));
        totals.read("hv1", all(3));
        assert_eq!((totals.owners().count(), totals.others().packets), (OWNERS_MAX, 10));
        totals.know(|_| true, &["o0001".into(), "new".into()].into());
        assert_eq!(packets(&totals), [("new", 0), ("o0001", 2)]);
        totals.know(|_| false, &BTreeSet::new());
        totals.read("hv1", all(9));
        assert_eq!(
            packets(&totals).iter().map(|(_, packets)| packets).sum::<u64>(),
            0,
            "the host is a new one"
        );
    }

    proptest! {
        /// Whatever switches say, a total never falls, and it never has more than they have counted.
        #[test]
        fn totals_only_grow(readings in prop::collection::vec((0..3u32, prop::collection::vec((0..4u32, 0..100u64), 0..4)), 1..40)) {
            let (mut totals, mut last, mut most) = (Totals::default(), 0, 0);
            for (host, samples) in readings {
                let samples: BTreeMap<u32, u64> = samples.into_iter().collect();
                most += samples.values().sum::<u64>();
                totals.read(&format!("hv{host}"), samples.into_iter().map(|(source, packets)| sample(source, "web", packets)));
                let now = totals.owners().map(|(_, count)| count.packets).sum::<u64>();
                prop_assert!(last <= now && now <= most, "{last} {now} {most}");
                last = now;
            }
        }
    }
}
