//! The rows of the listings and the tables of counters that the rules declare, by object.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nlog::program::{Counter, Listing};
use nlog_data::{Committed, Row, Value};
use openflow_rs::Match;
use switch_model::FlowKey;

use crate::rules::Rules;

/// Those of all listings.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    /// In the order of the program.
    all: Vec<Rows>,
}

/// The rows of one listing.
#[derive(Debug, Default)]
struct Rows {
    /// By the id of the object.
    objects: HashMap<Arc<str>, BTreeSet<Row>>,
    /// If a table says which hosts count for an object: these, by the id of the object.
    hosts: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Listings {
    /// Applies the changes of the rules' tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let listings = &rules.program().listings;
        self.all.resize_with(listings.len(), Rows::default);
        for (listing, rows) in listings.iter().zip(&mut self.all) {
            let row = |row: &Row| Some((text(row, 0)?, row.clone()));
            if let Some(delta) = committed.delta.tables.get(&listing.table) {
                remove(&mut rows.objects, delta.delete.iter().filter_map(row));
                insert(&mut rows.objects, delta.insert.iter().filter_map(row));
            }
            let host = |row: &Row| Some((text(row, 1)?, text(row, 0)?));
            let on = listing.reads.as_ref().and_then(|reads| reads.on);
            if let Some(delta) = on.and_then(|table| committed.delta.tables.get(&table)) {
                remove(&mut rows.hosts, delta.delete.iter().filter_map(host));
                insert(&mut rows.hosts, delta.insert.iter().filter_map(host));
            }
        }
    }

    /// The rows of the listing with this number: of an object, or of all in the order of their ids.
    pub(crate) fn rows(&self, listing: usize, id: Option<&str>) -> Vec<Row> {
        let Some(rows) = self.all.get(listing) else { return Vec::new() };
        if let Some(id) = id {
            return rows.objects.get(id).into_iter().flatten().cloned().collect();
        }
        let ordered: BTreeMap<&Arc<str>, &BTreeSet<Row>> = rows.objects.iter().collect();
        ordered.into_values().flatten().cloned().collect()
    }

    /// The hosts that count for an object, or for any, if a table says it.
    pub(crate) fn hosts(&self, listing: usize, id: Option<&str>) -> BTreeSet<Arc<str>> {
        let Some(rows) = self.all.get(listing) else { return BTreeSet::new() };
        match id {
            Some(id) => rows.hosts.get(id).cloned().unwrap_or_default(),
            None => rows.hosts.values().flatten().cloned().collect(),
        }
    }

    /// The flows whose packets are counted for an object, as switches have them.
    pub(crate) fn flows_of(&self, rules: &Rules, kind: &str, id: &str) -> BTreeSet<FlowKey> {
        let schema = &rules.program().schema;
        let of_kind = |listing: &Listing| listing.kinds(schema).iter().any(|own| own == kind);
        let mut flows = BTreeSet::new();
        for (listing, rows) in rules.program().listings.iter().zip(&self.all) {
            let Some(counter @ Counter::Flow { .. }) = listing.reads.as_ref().map(|reads| reads.counter)
            else {
                continue;
            };
            if of_kind(listing) {
                let rows = rows.objects.get(id).into_iter().flatten();
                flows.extend(rows.filter_map(|row| flow_key(counter, row)));
            }
        }
        flows
    }
}

fn insert<T: Ord>(to: &mut HashMap<Arc<str>, BTreeSet<T>>, rows: impl Iterator<Item = (Arc<str>, T)>) {
    for (id, row) in rows {
        to.entry(id).or_default().insert(row);
    }
}

fn remove<T: Ord>(from: &mut HashMap<Arc<str>, BTreeSet<T>>, rows: impl Iterator<Item = (Arc<str>, T)>) {
    for (id, row) in rows {
        if let Some(rows) = from.get_mut(&id) {
            rows.remove(&row);
            if rows.is_empty() {
                from.remove(&id);
            }
        }
    }
}

/// The text in a column.
pub(crate) fn text(row: &Row, column: usize) -> Option<Arc<str>> {
    match row.get(column) {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The flow that a row names; `None` if no switch can have it, because its match is too long.
pub(crate) fn flow_key(counter: Counter, row: &Row) -> Option<FlowKey> {
    let Counter::Flow { table, priority, matching } = counter else { return None };
    let priority = u16::try_from(int(row, priority)?).ok()?;
    FlowKey::new(table_of(row, table)?, priority, &match_of(row, matching)?).ok()
}

pub(crate) fn table_of(row: &Row, column: usize) -> Option<u8> {
    u8::try_from(int(row, column)?).ok()
}

pub(crate) fn match_of(row: &Row, column: usize) -> Option<Match> {
    match row.get(column) {
        Some(Value::Match(matching)) => Some(matching.get()),
        _ => None,
    }
}

pub(crate) fn int(row: &Row, column: usize) -> Option<i64> {
    match row.get(column) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }
}
