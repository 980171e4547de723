//! The addresses of switches, computed by the rules: which hosts have a switch that this controller manages, and where.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{Committed, Row, Value};

use crate::rules::Rules;

/// How the switch of a transport node is reached, and how its bridge is created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchAddress {
    /// Its OVSDB endpoint, in the notation of Open vSwitch. With `None`, the switch connects to the controller.
    pub ovsdb: Option<String>,
    /// The OpenFlow endpoint of its integration bridge, likewise.
    pub openflow: Option<String>,
    /// The datapath type of the bridge if the controller creates it. With `None`, Open vSwitch's default.
    pub datapath_type: Option<String>,
}

/// The change of one switch's address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressChange {
    /// The address before; `None` if the switch was not managed.
    pub before: Option<Arc<SwitchAddress>>,
    /// The address after; `None` if the switch is not managed any more.
    pub after: Option<Arc<SwitchAddress>>,
}

impl AddressChange {
    /// Whether the node has no switch any more.
    pub(crate) fn leaves(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }

    /// Whether the node keeps a switch that must be connected again.
    pub fn reconnects(&self) -> bool {
        self.before.is_some() && self.after.is_some()
    }
}

/// The changes of addresses by transport node.
pub type AddressChanges = BTreeMap<String, AddressChange>;

/// The addresses of all switches, by transport node.
#[derive(Debug, Default)]
pub(crate) struct SwitchAddresses(BTreeMap<String, Arc<SwitchAddress>>);

impl SwitchAddresses {
    /// Applies the changes of `switch_address`, and returns those that have an effect.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) -> AddressChanges {
        let mut changes = AddressChanges::new();
        let delta = rules.addresses.and_then(|table| committed.delta.tables.get(&table));
        let Some(delta) = delta else { return changes };
        for (node, _) in delta.delete.iter().filter_map(address) {
            let before = self.0.remove(&node);
            changes.insert(node, AddressChange { before, after: None });
        }
        for (node, address) in delta.insert.iter().filter_map(address) {
            let address = Arc::new(address);
            self.0.insert(node.clone(), address.clone());
            changes.entry(node).or_default().after = Some(address);
        }
        changes.retain(|_, change| change.before != change.after);
        changes
    }

    /// What leads from these addresses to others.
    pub(crate) fn changes_to(&self, after: &SwitchAddresses) -> AddressChanges {
        let nodes = self.0.keys().chain(after.0.keys());
        let change = |node: &String| {
            let [before, after] = [self, after].map(|addresses| addresses.0.get(node).cloned());
            (before != after).then(|| (node.clone(), AddressChange { before, after }))
        };
        nodes.filter_map(change).collect()
    }

    /// All addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Arc<SwitchAddress>)> {
        self.0.iter()
    }

    /// Whether the switch of a transport node is managed.
    pub(crate) fn contains(&self, node: &str) -> bool {
        self.0.contains_key(node)
    }
}

/// A row of `switch_address`, whose columns `Rules::new` has checked.
fn address(row: &Row) -> Option<(String, SwitchAddress)> {
    let [Value::String(node), ovsdb, openflow, datapath_type] = row.as_slice() else { return None };
    let [ovsdb, openflow, datapath_type] = [ovsdb, openflow, datapath_type].map(|value| match value {
        Value::String(text) => Some(text.to_string()),
        _ => None,
    });
    Some((node.to_string(), SwitchAddress { ovsdb, openflow, datapath_type }))
}
