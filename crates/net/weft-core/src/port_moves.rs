//! What the rules say of the places of ports: which ports move, and what is to be announced to the physical network.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{Committed, TableDelta, TableId};
use switch_model::{Changes, rows::port_home};

use crate::rules::Rules;

/// The transport nodes between which a transaction moves ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// The new homes.
    pub to: BTreeSet<String>,
    /// The old ones.
    pub from: BTreeSet<String>,
}

impl Moves {
    /// The moves of a transaction. A port that has no home before or after it does not move.
    pub(crate) fn of(committed: &Committed, rules: &Rules) -> Moves {
        let Some(delta) = delta(committed, rules.homes) else { return Moves::default() };
        let before: BTreeMap<_, _> = delta.delete.iter().filter_map(port_home).collect();
        let mut moves = Moves::default();
        for (port, to) in delta.insert.iter().filter_map(port_home) {
            if let Some(from) = before.get(&port).filter(|from| **from != to) {
                moves.to.insert(to.to_string());
                moves.from.insert(from.to_string());
            }
        }
        moves
    }

    /// The switches that a transaction changes, in the order in which they get it: the new homes, then all others, then the old
    /// homes. Those in one part get it at the same time. No part is empty.
    pub(crate) fn in_order<'a>(&self, nodes: impl Iterator<Item = &'a String>) -> Vec<BTreeSet<String>> {
        let mut parts: [BTreeSet<String>; 3] = Default::default();
        for node in nodes {
            let part = match (self.to.contains(node), self.from.contains(node)) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            parts[part].insert(node.clone());
        }
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }
}

/// Where addresses were that are announced nowhere now. What comes back to the same place has not moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormerPlaces(BTreeMap<String, String>);

/// The most of them. If there are more, all are forgotten, and some places announced in vain.
const FORMER_MAX: usize = 100_000;

impl FormerPlaces {
    /// Follows the changes of an accepted transaction, and leaves out of them the frames about what has not moved.
    pub(crate) fn follow(&mut self, changes: &mut BTreeMap<String, Changes>) {
        for (host, changes) in &*changes {
            self.0.extend(changes.frames.delete.iter().map(|name| (name.clone(), host.clone())));
        }
        for (host, changes) in changes {
            changes.frames.add.retain(|name, _| self.0.remove(name).as_ref() != Some(host));
        }
        if self.0.len() > FORMER_MAX {
            self.0.clear();
        }
    }
}

fn delta(committed: &Committed, table: Option<TableId>) -> Option<&TableDelta> {
    committed.delta.tables.get(&table?)
}

#[cfg(test)]
mod tests {
    use switch_model::{Edits, Frame};

    use super::*;

    #[test]
    fn what_comes_back_to_its_place_has_not_moved() {
        let mut places = FormerPlaces::default();
        let mut follow = |changes: &[(&str, Option<&str>, Option<&str>)]| {
            let change = |&(host, delete, add): &(&str, Option<&str>, Option<&str>)| {
                let frame = Frame { ofport: 1, bytes: [].into() };
                let add = add.into_iter().map(|name| (name.to_owned(), frame.clone())).collect();
                let delete = delete.into_iter().map(str::to_owned).collect();
                (host.to_owned(), Changes { frames: Edits { delete, add }, ..Changes::default() })
            };
            let mut changes = changes.iter().map(change).collect();
            places.follow(&mut changes);
            let announced = changes.into_iter().filter(|(_, changes)| !changes.frames.add.is_empty());
            announced.map(|(host, _)| host).collect::<Vec<_>>()
        };
        assert_eq!(follow(&[("a", None, Some("m"))]), ["a"]);
        assert_eq!(follow(&[("a", Some("m"), None)]), [] as [&str; 0]);
        assert_eq!(follow(&[("a", None, Some("m"))]), [] as [&str; 0], "a switch that restarts");
        assert_eq!(follow(&[("a", Some("m"), None), ("b", None, Some("m"))]), ["b"]);
        assert_eq!(follow(&[("b", Some("m"), None)]), [] as [&str; 0]);
        assert_eq!(follow(&[("a", None, Some("m"))]), ["a"]);
    }

    #[test]
    fn new_homes_come_first_and_old_ones_last() {
        let set = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<BTreeSet<String>>();
        let moves = Moves { to: set(&["b", "c"]), from: set(&["a", "c", "z"]) };
        let nodes = set(&["a", "b", "c", "d", "e"]);
        assert_eq!(moves.in_order(nodes.iter()), [set(&["b", "c"]), set(&["d", "e"]), set(&["a"])]);
        assert_eq!(Moves::default().in_order(nodes.iter()), std::slice::from_ref(&nodes));
        assert_eq!(moves.in_order(set(&["d", "a"]).iter()), [set(&["d"]), set(&["a"])]);
    }
}
