//! Divides the changes of output tables by host and by kind.

use std::collections::BTreeMap;

use nlog_data::{Delta, Row, RuleId, TableDelta, TableId};

use crate::kind::{Edits, Kind, Reader, RowError};

/// The changes of output tables, and the fingerprints of the rules that derive rows.
pub struct Source<'r> {
    /// The changes.
    pub delta: &'r Delta,
    /// The fingerprint of a rule.
    pub fingerprint: &'r dyn Fn(RuleId) -> u64,
}

/// Adds the changes of one kind to those of each host.
pub(crate) fn split<'r, K: Kind, C: Default>(
    table: Option<TableId>,
    source: &Source<'r>,
    reader: &mut Reader<'_, 'r>,
    hosts: &mut BTreeMap<String, C>,
    edits: impl Fn(&mut C) -> &mut Edits<K>,
) -> Result<(), RowError> {
    let Some(delta) = table.and_then(|table| source.delta.tables.get(&table)) else { return Ok(()) };
    reader.pool.note_changes(delta.delete.len());
    for row in &delta.delete {
        let (host, key) = K::key(row, reader)?;
        edits(of_host(hosts, host)).delete.insert(key);
    }
    for (row, rule) in arriving::<K>(delta, source) {
        reader.rule = rule;
        let (host, key, value) = K::read(row, reader)?;
        edits(of_host(hosts, host)).note_come(key, value);
    }
    Ok(())
}

fn of_host<'a, C: Default>(hosts: &'a mut BTreeMap<String, C>, host: &str) -> &'a mut C {
    hosts.entry(host.to_owned()).or_default()
}

/// Rows that are inserted, and if the kind is attributed those that another rule derives now, with the rule's fingerprint; 0
/// without attribution.
fn arriving<'r, K: Kind>(delta: &'r TableDelta, source: &Source<'r>) -> impl Iterator<Item = (&'r Row, u64)> {
    // Without attribution, the list of rules is empty.
    let rules = delta.rules.iter().map(Some).chain(std::iter::repeat(None));
    let inserted = delta.insert.iter().zip(rules);
    let reattributed =
        delta.reattributed.iter().filter(|_| K::ATTRIBUTED).map(|(row, rule)| (row, Some(rule)));
    let fingerprint = source.fingerprint;
    inserted.chain(reattributed).map(move |(row, rule)| (row, rule.map_or(0, |rule| fingerprint(*rule))))
}
