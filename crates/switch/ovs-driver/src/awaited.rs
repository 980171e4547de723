//! The learned flows that the owner waits for, and which of them the switch has.
//!
//! A switch writes such a flow itself, by a `learn` action. The driver reports each once: when the switch writes it, or when
//! the driver finds it after it was told to wait for it. What was known before a connection was lost is not reported again.

use std::collections::{BTreeMap, BTreeSet};

use switch_model::{Changes, Event, FlowKey};

/// The table of learned flows, and their cookie.
pub(crate) type Source = (u8, u64);

#[derive(Debug, Default)]
pub(crate) struct Awaited {
    wanted: BTreeSet<Source>,
    /// What is awaited since a version of the intent that is perhaps not in force. Until it is, the switch may have flows
    /// that go with that version.
    asked: BTreeMap<Source, u64>,
    /// The flows of the watched tables; `None` before the switch was read for the first time.
    present: Option<Present>,
}

/// The most flows of watched tables that are known. A switch has one for each port.
const PRESENT_MAX: usize = 200_000;

/// The flows of the watched tables.
#[derive(Debug, Default)]
struct Present {
    cookies: BTreeMap<FlowKey, u64>,
    /// How many flows there are of each kind.
    sources: BTreeMap<Source, usize>,
}

impl Present {
    fn new(flows: BTreeMap<FlowKey, u64>) -> Self {
        let mut present = Present::default();
        for (key, cookie) in flows {
            present.insert(key, cookie);
        }
        present
    }

    fn has(&self, source: Source) -> bool {
        self.sources.contains_key(&source)
    }

    fn insert(&mut self, key: FlowKey, cookie: u64) {
        self.remove(&key);
        if self.cookies.len() < PRESENT_MAX {
            *self.sources.entry((key.table(), cookie)).or_default() += 1;
            self.cookies.insert(key, cookie);
        }
    }

    fn remove(&mut self, key: &FlowKey) {
        let Some(cookie) = self.cookies.remove(key) else { return };
        let source = (key.table(), cookie);
        if let Some(count) = self.sources.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&source);
            }
        }
    }
}

impl Awaited {
    /// Replaces what is awaited.
    pub(crate) fn set(&mut self, wanted: BTreeSet<Source>, version: u64) {
        self.asked.retain(|source, _| wanted.contains(source));
        self.asked.extend(wanted.difference(&self.wanted).map(|source| (*source, version)));
        self.wanted = wanted;
    }

    /// Applies the changes of a transaction.
    pub(crate) fn push(&mut self, changes: &Changes, version: u64) {
        for source in changes.awaited.gone() {
            self.wanted.remove(source);
            self.asked.remove(source);
        }
        for source in changes.awaited.add.keys() {
            if self.wanted.insert(*source) {
                self.asked.insert(*source, version);
            }
        }
    }

    /// Takes over the flows of the watched tables after a read. Returns what to report: what has come while the driver did
    /// not look.
    pub(crate) fn read(&mut self, flows: BTreeMap<FlowKey, u64>) -> Vec<Event> {
        let Some(before) = self.present.replace(Present::new(flows)) else { return Vec::new() };
        let new: Vec<Source> =
            self.wanted.iter().copied().filter(|source| !before.has(*source) && self.has(*source)).collect();
        new.into_iter().map(|source| self.report(source, true)).collect()
    }

    /// Takes the report that the switch has written a flow. Returns what to report.
    pub(crate) fn seen(&mut self, key: FlowKey, cookie: u64) -> Option<Event> {
        let source = (key.table(), cookie);
        let was_there = self.has(source);
        // What comes before the first read is read.
        self.present.as_mut()?.insert(key, cookie);
        (!was_there && self.wanted.contains(&source)).then(|| self.report(source, true))
    }

    /// Takes the report that the switch has removed a flow.
    pub(crate) fn gone(&mut self, key: &FlowKey) {
        if let Some(present) = &mut self.present {
            present.remove(key);
        }
    }

    /// Notes that this version of the intent is in force. Returns what to report: the flows that the switch had already when
    /// they began to be awaited.
    pub(crate) fn settled(&mut self, version: u64) -> Vec<Event> {
        let settled: Vec<Source> =
            self.asked.extract_if(.., |_, asked| *asked <= version).map(|(source, _)| source).collect();
        let there: Vec<Source> = settled.into_iter().filter(|source| self.has(*source)).collect();
        there.into_iter().map(|source| self.report(source, false)).collect()
    }

    fn has(&self, source: Source) -> bool {
        self.present.as_ref().is_some_and(|present| present.has(source))
    }

    fn report(&mut self, source: Source, is_new: bool) -> Event {
        self.asked.remove(&source);
        let (table, cookie) = source;
        Event::Learned { table, cookie, is_new }
    }
}

#[cfg(test)]
mod tests {
    use switch_model::Edits;

    use super::*;
    use openflow_rs::FlowEntry;

    const TABLE: u8 = 12;

    fn key(port: u16) -> FlowKey {
        let entry: FlowEntry = format!("table={TABLE},in_port={port} actions=drop").parse().expect("a flow");
        FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a short match")
    }

    fn learned(cookie: u64, is_new: bool) -> Event {
        Event::Learned { table: TABLE, cookie, is_new }
    }

    fn adding(cookie: u64) -> Changes {
        Changes { awaited: Edits::add([((TABLE, cookie), "p".into())]), ..Changes::default() }
    }

    fn deleting(cookie: u64) -> Changes {
        Changes { awaited: Edits::delete([(TABLE, cookie)]), ..Changes::default() }
    }

    #[test]
    fn a_flow_is_reported_once_for_all_that_an_announcement_writes_and_anew_after_all_are_gone() {
        let mut awaited = Awaited::default();
        awaited.set([(TABLE, 7), (TABLE, 8)].into(), 1);
        assert_eq!(awaited.seen(key(1), 7), None, "nothing was read yet");
        assert_eq!(awaited.read([(key(1), 7), (key(9), 99)].into()), []);
        assert_eq!(awaited.settled(1), [learned(7, false)]);
        assert_eq!(awaited.settled(2), []);
        assert_eq!(awaited.seen(key(2), 7), None, "a second flow of the same announcement");
        assert_eq!(awaited.seen(key(3), 8), Some(learned(8, true)));
        assert_eq!(awaited.seen(key(3), 8), None);
        awaited.gone(&key(1));
        assert_eq!(awaited.seen(key(1), 7), None, "the second one is still there");
        awaited.gone(&key(1));
        awaited.gone(&key(2));
        assert_eq!(awaited.seen(key(1), 7), Some(learned(7, true)));
        // The same match may become that of another port.
        assert_eq!(awaited.seen(key(1), 8), None);
        assert_eq!(awaited.seen(key(2), 7), Some(learned(7, true)));
    }

    /// Each announcement was looked for among all flows.
    #[test]
    fn d26_tens_of_thousands_of_ports_announce_themselves() {
        const PORTS: u16 = 60_000;
        let mut awaited = Awaited::default();
        awaited.set((0..PORTS).map(|port| (TABLE, u64::from(port))).collect(), 1);
        awaited.read(BTreeMap::new());
        awaited.settled(1);
        let keys: Vec<FlowKey> = (0..PORTS).map(key).collect();
        for (port, key) in (0..PORTS).zip(&keys) {
            assert_eq!(awaited.seen(key.clone(), port.into()), Some(learned(port.into(), true)));
        }
        for key in &keys {
            awaited.gone(key);
        }
        assert!(
            awaited.present.is_some_and(|present| present.cookies.is_empty() && present.sources.is_empty())
        );
    }

    #[test]
    fn what_was_known_before_an_outage_is_old_and_what_comes_during_one_is_new() {
        let mut awaited = Awaited::default();
        awaited.set([(TABLE, 7), (TABLE, 8), (TABLE, 9)].into(), 1);
        awaited.read([(key(1), 7), (key(3), 9)].into());
        awaited.settled(1);
        assert_eq!(awaited.read([(key(1), 7), (key(2), 8)].into()), [learned(8, true)]);
        assert_eq!(awaited.read([(key(1), 7), (key(2), 8), (key(3), 9)].into()), [learned(9, true)]);
    }

    #[test]
    fn what_goes_with_the_transaction_that_awaits_it_is_not_reported() {
        let mut awaited = Awaited::default();
        awaited.set([(TABLE, 7)].into(), 1);
        awaited.read([(key(1), 7)].into());
        assert_eq!(awaited.settled(1), [learned(7, false)]);
        // The interface is replaced: its flows go, and come again with that of another.
        awaited.push(&deleting(7), 2);
        awaited.push(&adding(7), 3);
        assert_eq!(awaited.settled(2), []);
        awaited.gone(&key(1));
        assert_eq!(awaited.settled(3), []);
        assert_eq!(awaited.seen(key(1), 7), Some(learned(7, true)));
        // If the flow stays, it counts.
        awaited.push(&deleting(7), 4);
        awaited.push(&adding(7), 5);
        assert_eq!(awaited.settled(5), [learned(7, false)]);
        awaited.push(&deleting(7), 6);
        awaited.gone(&key(1));
        assert_eq!(awaited.seen(key(1), 7), None, "nobody waits for it");
    }
}
