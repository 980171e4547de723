//! Announcements to the physical network that are under way: from the transaction that moves an address to the confirmation of its new
//! host that it has sent the last of the frames.
//!
//! Records of the journal say which begin and which have ended. So a controller that ends in between knows at its next start what is to be
//! announced again, at the place that the address has then. A record is written for every transaction anyway, and none for the end of an
//! announcement alone: what ended after the last record is announced once more, which harms nobody.

use std::collections::{BTreeMap, BTreeSet};

use switch_model::{Changes, Frame};

use crate::port_moves::FormerPlaces;
use crate::record::AnnouncementChanges;

#[derive(Debug, Default)]
pub(crate) struct Announcements {
    places: FormerPlaces,
    /// Those under way, by transport node and name.
    pending: BTreeMap<String, BTreeMap<String, Frame>>,
    /// Those that have ended since the last record.
    ended: BTreeSet<String>,
}

impl Announcements {
    /// Those of these names that are still true when the controller starts. `changes` lead from no state to the present one.
    pub(crate) fn resumed(names: BTreeSet<String>, changes: &BTreeMap<String, Changes>) -> Announcements {
        let mut announcements = Announcements { ended: names, ..Announcements::default() };
        for (node, changes) in changes {
            for (name, frame) in &changes.frames.add {
                if announcements.ended.remove(name) {
                    announcements.insert(node, name, frame);
                }
            }
        }
        announcements
    }

    /// Those that go on under other rules, and what the record of the change says. `changes` lead from no state to the present one.
    pub(crate) fn under_other_rules(
        &self,
        changes: &BTreeMap<String, Changes>,
    ) -> (Announcements, AnnouncementChanges) {
        let names = self.pending.values().flat_map(BTreeMap::keys).cloned().collect();
        let mut next = Announcements::resumed(names, changes);
        next.places = self.places.clone();
        let mut ended = std::mem::take(&mut next.ended);
        ended.extend(self.ended.iter().cloned());
        (next, AnnouncementChanges { ended, begun: BTreeSet::new() })
    }

    /// Follows the changes of an accepted transaction, and leaves out of them the frames about what has not moved. Returns what its record
    /// says.
    pub(crate) fn follow(&mut self, changes: &mut BTreeMap<String, Changes>) -> AnnouncementChanges {
        self.places.follow(changes);
        let mut begun = BTreeSet::new();
        for (node, changes) in &*changes {
            self.end(node, &changes.frames.delete);
        }
        for (node, changes) in &*changes {
            for (name, frame) in &changes.frames.add {
                begun.insert(name.clone());
                self.insert(node, name, frame);
            }
        }
        AnnouncementChanges { ended: std::mem::take(&mut self.ended), begun }
    }

    /// Follows the changes that undo a transaction with this record.
    pub(crate) fn undo(&mut self, changes: &BTreeMap<String, Changes>, record: AnnouncementChanges) {
        let AnnouncementChanges { ended, begun } = record;
        self.ended.extend(ended);
        for (node, changes) in changes {
            for name in changes.frames.delete.iter().filter(|name| begun.contains(*name)) {
                self.remove(node, name);
            }
        }
        for (node, changes) in changes {
            for (name, frame) in &changes.frames.add {
                // It may have ended before, and then it ends once more.
                if self.ended.remove(name) || begun.contains(name) {
                    self.insert(node, name, frame);
                }
            }
        }
    }

    /// A transport node has sent these frames as often as they are to be sent, or they are not true there any more.
    pub(crate) fn end(&mut self, node: &str, names: &BTreeSet<String>) {
        for name in names {
            let ended = self.remove(node, name);
            if ended && !self.pending.values().any(|pending| pending.contains_key(name)) {
                self.ended.insert(name.clone());
            }
        }
    }

    /// What the switch of a transport node is to announce.
    pub(crate) fn of(&self, node: &str) -> BTreeMap<String, Frame> {
        self.pending.get(node).cloned().unwrap_or_default()
    }

    fn insert(&mut self, node: &str, name: &str, frame: &Frame) {
        self.pending.entry(node.to_owned()).or_default().insert(name.to_owned(), frame.clone());
    }

    fn remove(&mut self, node: &str, name: &str) -> bool {
        let Some(pending) = self.pending.get_mut(node) else { return false };
        let removed = pending.remove(name).is_some();
        if pending.is_empty() {
            self.pending.remove(node);
        }
        removed
    }
}
