//! What the rules say of the places of ports: which learned flows tell that an interface has announced itself, what is to be
//! announced to the physical network, and which ports move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Committed, Row, TableDelta, TableId, TransactionError};
use openflow_rs::MacAddr;
use ovs_driver::{Changes, Frame};
use switch_tables::rows::{Announcement, AwaitedFlow, announcement, awaited_flow, port_home};

use crate::delta_split::range;
use crate::rules::Rules;

/// The ports whose interfaces announce themselves, by transport node, table and cookie of the learned flow.
#[derive(Debug, Default)]
pub(crate) struct AwaitedFlows(BTreeMap<(Arc<str>, u8, u64), Arc<str>>);

impl AwaitedFlows {
    /// Applies the changes of `awaited_flow`.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let Some(delta) = delta(committed, rules.awaited_flows) else { return };
        let entry = |row: &Row| {
            awaited_flow(row).map(|AwaitedFlow { host, table, cookie, port }| ((host, table, cookie), port))
        };
        for (key, _) in delta.delete.iter().filter_map(entry) {
            self.0.remove(&key);
        }
        self.0.extend(delta.insert.iter().filter_map(entry));
    }

    /// The port that a learned flow tells of.
    pub(crate) fn port(&self, node: &str, table: u8, cookie: u64) -> Option<&str> {
        self.0.get(&(node.into(), table, cookie)).map(|port| &**port)
    }
}

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

/// Adds the changes of `awaited_flow` to those of each transport node, and a frame for each new row of `announcement`.
pub(crate) fn split_by_node(
    committed: &Committed,
    rules: &Rules,
    changes: &mut BTreeMap<String, Changes>,
) -> Result<(), TransactionError> {
    if let Some(delta) = delta(committed, rules.awaited_flows) {
        for row in &delta.delete {
            let AwaitedFlow { host, table, cookie, .. } = awaited(row)?;
            changes.entry(host.to_string()).or_default().awaited_delete.insert((table, cookie));
        }
        for row in &delta.insert {
            let AwaitedFlow { host, table, cookie, .. } = awaited(row)?;
            let changes = changes.entry(host.to_string()).or_default();
            // The same flow may now tell of another port.
            changes.awaited_delete.remove(&(table, cookie));
            changes.awaited_add.insert((table, cookie));
        }
    }
    if let Some(delta) = delta(committed, rules.announcements) {
        for row in &delta.delete {
            let Announcement { host, port, mac, .. } = announced(row)?;
            changes.entry(host.to_string()).or_default().frames_delete.insert(name(&port, mac));
        }
        for row in &delta.insert {
            let Announcement { host, port, mac, ofport, tag } = announced(row)?;
            let (changes, name) = (changes.entry(host.to_string()).or_default(), name(&port, mac));
            // What only leaves by another port or VLAN is where it was.
            if !changes.frames_delete.contains(&name) {
                changes.frames_add.insert(name, Frame { ofport, bytes: rarp(mac, tag).into() });
            }
        }
    }
    Ok(())
}

/// Where addresses were that are announced nowhere now. What comes back to the same place has not moved.
#[derive(Debug, Default)]
pub(crate) struct FormerPlaces(BTreeMap<String, String>);

/// The most of them. If there are more, all are forgotten, and some places announced in vain.
const FORMER_MAX: usize = 100_000;

impl FormerPlaces {
    /// Follows the changes of an accepted transaction, and leaves out of them the frames about what has not moved.
    pub(crate) fn follow(&mut self, changes: &mut BTreeMap<String, Changes>) {
        for (host, changes) in &*changes {
            self.0.extend(changes.frames_delete.iter().map(|name| (name.clone(), host.clone())));
        }
        for (host, changes) in changes {
            changes.frames_add.retain(|name, _| self.0.remove(name).as_ref() != Some(host));
        }
        if self.0.len() > FORMER_MAX {
            self.0.clear();
        }
    }
}

fn delta(committed: &Committed, table: Option<TableId>) -> Option<&TableDelta> {
    committed.delta.tables.get(&table?)
}

fn awaited(row: &Row) -> Result<AwaitedFlow, TransactionError> {
    awaited_flow(row).ok_or_else(|| {
        range(format!("awaited_flow: {row:?}: the last table is 254, and a cookie is not negative"))
    })
}

fn announced(row: &Row) -> Result<Announcement, TransactionError> {
    announcement(row).ok_or_else(|| {
        range(format!("announcement: {row:?}: a port has a number from 1 to 65279, a VLAN from 0 to 4094"))
    })
}

/// The name of a frame: one for each address of a port.
fn name(port: &str, mac: MacAddr) -> String {
    format!("{mac} {port}")
}

/// The announcement of a MAC address, with a VLAN tag if it is not 0.
fn rarp(MacAddr(mac): MacAddr, tag: u16) -> Vec<u8> {
    let frame = frame_builder::announcement(mac);
    if tag == 0 { frame } else { frame_builder::tagged(&frame, frame_builder::VLAN, tag) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `announce_self_create` writes it.
    const OF_QEMU: &str =
        "ffffffffffff 525400123456 8035 0001 0800 06 04 0003 525400123456 00000000 525400123456 00000000
         000000000000000000000000000000000000";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("digits");
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn the_frame_is_that_of_qemu() {
        let mac = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        let frame = hex(OF_QEMU);
        assert_eq!((rarp(mac, 0), frame.len()), (frame.clone(), 60));
        let tagged = [&frame[..12], &[0x81, 0, 0x0f, 0xfe], &frame[12..]].concat();
        assert_eq!(rarp(mac, 4094), tagged);
    }

    #[test]
    fn what_comes_back_to_its_place_has_not_moved() {
        let mut places = FormerPlaces::default();
        let mut follow = |changes: &[(&str, Option<&str>, Option<&str>)]| {
            let change = |&(host, delete, add): &(&str, Option<&str>, Option<&str>)| {
                let frame = Frame { ofport: 1, bytes: [].into() };
                let frames_add = add.into_iter().map(|name| (name.to_owned(), frame.clone())).collect();
                let frames_delete = delete.into_iter().map(str::to_owned).collect();
                (host.to_owned(), Changes { frames_add, frames_delete, ..Changes::default() })
            };
            let mut changes = changes.iter().map(change).collect();
            places.follow(&mut changes);
            let announced = changes.into_iter().filter(|(_, changes)| !changes.frames_add.is_empty());
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
