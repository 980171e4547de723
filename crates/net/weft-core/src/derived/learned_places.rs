//! Which learned flows belong to which port, and which hosts learn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Committed, Row, TableId, Value};

use crate::rules::Rules;

/// Whose learned flows with a cookie are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The id of the port; empty for what was heard without a label.
    pub port: Arc<str>,
    /// The most that a host learns there.
    pub limit: u64,
}

/// What the rules say of learned flows.
#[derive(Debug, Default)]
pub struct LearnedPlaces {
    /// By switch and cookie.
    places: BTreeMap<(Arc<str>, u64), Place>,
    /// Switches, and hosts that learn their addresses.
    hosts: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl LearnedPlaces {
    /// Applies the changes of the rules' tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let delta = |table: Option<TableId>| committed.delta.tables.get(&table?);
        if let Some(delta) = delta(rules.learned_addresses) {
            for (key, _) in delta.delete.iter().filter_map(place) {
                self.places.remove(&key);
            }
            self.places.extend(delta.insert.iter().filter_map(place));
        }
        if let Some(delta) = delta(rules.learning_hosts) {
            for key in delta.delete.iter().filter_map(learning_host) {
                self.hosts.remove(&key);
            }
            self.hosts.extend(delta.insert.iter().filter_map(learning_host));
        }
    }

    /// The places of a switch, by cookie.
    pub fn places_of(&self, switch: &str) -> BTreeMap<u64, Place> {
        let first = (Arc::from(switch), 0);
        let of_switch = self.places.range(first..).take_while(|((of, _), _)| &**of == switch);
        of_switch.map(|((_, cookie), place)| (*cookie, place.clone())).collect()
    }

    /// The hosts that learn addresses of a switch.
    pub fn hosts_of(&self, switch: &str) -> impl Iterator<Item = &str> {
        let first: (Arc<str>, Arc<str>) = (Arc::from(switch), Arc::from(""));
        let of_switch = self.hosts.range(first..).take_while(move |(of, _)| &**of == switch);
        of_switch.map(|(_, host)| &**host)
    }
}

fn place(row: &Row) -> Option<((Arc<str>, u64), Place)> {
    let [Value::String(switch), Value::Int(cookie), Value::String(port), Value::Int(limit)] = row.as_slice()
    else {
        return None;
    };
    let (cookie, limit) = (u64::try_from(*cookie).ok()?, u64::try_from(*limit).ok()?);
    Some(((switch.clone(), cookie), Place { port: port.clone(), limit }))
}

fn learning_host(row: &Row) -> Option<(Arc<str>, Arc<str>)> {
    match row.as_slice() {
        [Value::String(host), Value::String(switch)] => Some((switch.clone(), host.clone())),
        _ => None,
    }
}
