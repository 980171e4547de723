//! Changes of output tables, as what each switch is to change.

use std::collections::BTreeMap;

use nlog_data::{Committed, ErrorCode, Row, TableDelta, TransactionError, Value};
use openflow_rs::Actions;
use switch::{Changes, Flow, FlowKey, Tunnel};

use crate::rules::Rules;

/// Splits the changes of a transaction by transport node.
///
/// A value that no switch can have (a table number over 254, an unknown encapsulation) is an error of the transaction
/// as `range` is: rules could not check it.
pub(crate) fn split(
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
        // With attribution there is a rule for each inserted row, without it there is none.
        let rules_of_rows = delta.rules.iter().map(Some).chain(std::iter::repeat(None));
        let inserted = delta.insert.iter().zip(rules_of_rows);
        let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, Some(rule)));
        for (row, rule) in inserted.chain(reattributed) {
            let (node, key, actions) = flow(row)?;
            let cookie = rule.map_or(0, |rule| rules.fingerprint(*rule));
            let changes = changes.entry(node.clone()).or_default();
            changes.flows_delete.remove(&key);
            let flow =
                Flow::new(cookie, &actions).map_err(|error| range(format!("of_flow: {node}: {error}")))?;
            changes.flows_add.insert(key, flow);
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
    Ok(changes)
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
    let table_id = table_id.ok_or_else(|| fault(format!("there is no table {table}; the last is 254")))?;
    let priority = u16::try_from(*priority)
        .map_err(|_| fault(format!("there is no priority {priority}; the highest is 65535")))?;
    let key = FlowKey::new(table_id, priority, &matching.get()).map_err(|error| fault(error.to_string()))?;
    Ok((node.to_string(), key, actions.get()))
}

/// A row of `ovsdb_tunnel`.
fn tunnel(row: &Row) -> Result<(String, String, Tunnel), TransactionError> {
    let [Value::String(node), Value::String(name), Value::String(encap), Value::String(remote)] =
        row.as_slice()
    else {
        return Err(misfit("ovsdb_tunnel", row));
    };
    let fault = |error| range(format!("ovsdb_tunnel: {node}: {name}: {error}"));
    let tunnel = Tunnel { encap: encap.parse().map_err(fault)?, remote: remote.parse().map_err(fault)? };
    Ok((node.to_string(), name.to_string(), tunnel))
}

fn range(message: String) -> TransactionError {
    TransactionError::new(ErrorCode::Range, message)
}

/// `Rules::new` has compared the columns, and rows fit their tables; so this says that an evaluator is at fault.
fn misfit(table: &str, row: &Row) -> TransactionError {
    TransactionError::new(ErrorCode::TypeMismatch, format!("{table} has no such row: {row:?}"))
}
