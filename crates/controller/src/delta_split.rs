//! Splits the changes of output tables by transport node, and converts them to changes of switches.

use std::collections::BTreeMap;
use std::fmt;

use nlog_data::{Committed, ErrorCode, Row, TableDelta, TransactionError, Value};
use openflow_rs::Actions;
use ovs_driver::{
    BUCKET_MAX, Bucket, Changes, Flow, FlowKey, GROUP_MAX, Patch, RemoteError, Tunnel, UnknownEncap,
};

use crate::rules::Rules;

/// Splits the changes of a transaction by transport node.
///
/// A value that no switch supports (a table number over 254, an unknown encapsulation) is a `range` error of the
/// transaction, since rules cannot check it.
pub(crate) fn split_by_node(
    committed: &Committed,
    rules: &Rules,
) -> Result<BTreeMap<String, Changes>, TransactionError> {
    let mut changes: BTreeMap<String, Changes> = BTreeMap::new();
    let empty = TableDelta::default();
    let delta = |table| committed.delta.tables.get(&table).unwrap_or(&empty);

    if let Some(table) = rules.flows {
        let delta = delta(table);
        for row in &delta.delete {
            let (node, key, _) = flow(row)?;
            changes.entry(node).or_default().flows_delete.insert(key);
        }
        for (row, cookie) in attributed(delta, rules) {
            let (node, key, actions) = flow(row)?;
            let changes = changes.entry(node.clone()).or_default();
            changes.flows_delete.remove(&key);
            let flow =
                Flow::new(cookie, &actions).map_err(|error| range(format!("of_flow: {node}: {error}")))?;
            changes.flows_add.insert(key, flow);
        }
    }
    if let Some(table) = rules.buckets {
        let delta = delta(table);
        for row in &delta.delete {
            let (node, key, _) = bucket(row)?;
            changes.entry(node).or_default().buckets_delete.insert(key);
        }
        for (row, rule) in attributed(delta, rules) {
            let (node, key, actions) = bucket(row)?;
            let changes = changes.entry(node.clone()).or_default();
            changes.buckets_delete.remove(&key);
            let bucket =
                Bucket::new(rule, &actions).map_err(|error| range(format!("of_bucket: {node}: {error}")))?;
            changes.buckets_add.insert(key, bucket);
        }
    }
    if let Some(table) = rules.tunnels {
        let delta = delta(table);
        for row in &delta.delete {
            let (node, name, _) = tunnel(row)?;
            changes.entry(node).or_default().tunnels_delete.insert(name);
        }
        for row in &delta.insert {
            let (node, name, tunnel) = tunnel(row)?;
            let changes = changes.entry(node).or_default();
            changes.tunnels_delete.remove(&name);
            changes.tunnels_add.insert(name, tunnel);
        }
    }
    if let Some(table) = rules.patches {
        let delta = delta(table);
        for row in &delta.delete {
            let (node, name, _) = patch(row)?;
            changes.entry(node).or_default().patches_delete.insert(name);
        }
        for row in &delta.insert {
            let (node, name, patch) = patch(row)?;
            let changes = changes.entry(node).or_default();
            changes.patches_delete.remove(&name);
            changes.patches_add.insert(name, patch);
        }
    }
    Ok(changes)
}

/// Rows that are inserted or are now derived by another rule, with the rule's fingerprint; 0 without attribution.
fn attributed<'a>(delta: &'a TableDelta, rules: &'a Rules) -> impl Iterator<Item = (&'a Row, u64)> {
    // The list of rules is empty without attribution.
    let rules_of_rows = delta.rules.iter().map(Some).chain(std::iter::repeat(None));
    let inserted = delta.insert.iter().zip(rules_of_rows);
    let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, Some(rule)));
    inserted.chain(reattributed).map(|(row, rule)| (row, rule.map_or(0, |rule| rules.fingerprint(*rule))))
}

/// A row of `of_flow`: transport node, key, actions.
fn flow(row: &Row) -> Result<(String, FlowKey, Actions), TransactionError> {
    let [
        Value::String(node),
        Value::Int(table),
        Value::Int(priority),
        Value::Match(matching),
        Value::Actions(actions),
    ] = row.as_slice()
    else {
        return Err(misfit("of_flow", row));
    };
    let fault = |why: String| range(format!("of_flow: {node}: {why}"));
    // 255 is OFPTT_ALL.
    let table_id = u8::try_from(*table).ok().filter(|table| *table < u8::MAX);
    let table_id = table_id.ok_or_else(|| fault(format!("table {table} does not exist; the last is 254")))?;
    let priority = u16::try_from(*priority)
        .map_err(|_| fault(format!("priority {priority} is out of range; the highest is 65535")))?;
    let key = FlowKey::new(table_id, priority, &matching.get()).map_err(|error| fault(error.to_string()))?;
    Ok((node.to_string(), key, actions.get()))
}

/// A row of `of_bucket`: transport node, group and bucket, actions.
fn bucket(row: &Row) -> Result<(String, (u32, u32), Actions), TransactionError> {
    let [Value::String(node), Value::Int(group), Value::Int(bucket), Value::Actions(actions)] =
        row.as_slice()
    else {
        return Err(misfit("of_bucket", row));
    };
    let number = |what: &str, number: i64, max: u32| {
        let fault =
            || range(format!("of_bucket: {node}: {what} {number} is out of range; the last is {max}"));
        u32::try_from(number).ok().filter(|number| *number <= max).ok_or_else(fault)
    };
    let key = (number("group", *group, GROUP_MAX)?, number("bucket", *bucket, BUCKET_MAX)?);
    Ok((node.to_string(), key, actions.get()))
}

/// A row of `ovsdb_patch`.
fn patch(row: &Row) -> Result<(String, String, Patch), TransactionError> {
    let [Value::String(node), Value::String(name), Value::String(bridge), Value::String(peer)] =
        row.as_slice()
    else {
        return Err(misfit("ovsdb_patch", row));
    };
    let patch = Patch { bridge: bridge.to_string(), peer: peer.to_string() };
    Ok((node.to_string(), name.to_string(), patch))
}

/// A row of `ovsdb_tunnel`.
fn tunnel(row: &Row) -> Result<(String, String, Tunnel), TransactionError> {
    let [Value::String(node), Value::String(name), Value::String(encap), Value::String(remote)] =
        row.as_slice()
    else {
        return Err(misfit("ovsdb_tunnel", row));
    };
    let fault = |error: &dyn fmt::Display| range(format!("ovsdb_tunnel: {node}: {name}: {error}"));
    let encap = encap.parse().map_err(|error: UnknownEncap| fault(&error))?;
    let remote = remote.parse().map_err(|error: RemoteError| fault(&error))?;
    let tunnel = Tunnel { encap, remote };
    Ok((node.to_string(), name.to_string(), tunnel))
}

fn range(message: String) -> TransactionError {
    TransactionError::new(ErrorCode::Range, message)
}

/// A fault of the evaluator: `Rules::new` has compared the columns, and rows fit their tables.
fn misfit(table: &str, row: &Row) -> TransactionError {
    TransactionError::new(ErrorCode::TypeMismatch, format!("{table} has no such row: {row:?}"))
}
