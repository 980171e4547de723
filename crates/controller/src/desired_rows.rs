//! The desired state of a switch as rows of the rules' output tables: the inverse of `delta_split`, for readers of rows.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use nlog_data::{Canonical, Row, TableDelta, TableId, Value};
use openflow_rs::DecodeError;
use ovs_driver::{Choice, Desired, Flow, FlowKey};
use switch_tables::{FAST_FAILOVER, SELECT};

use crate::rules::Rules;

/// The rows of a transport node's switch, as inserted ones, without its flows and the owners of conntrack zones.
///
/// # Errors
/// A part cannot be decoded.
pub(crate) fn others(
    node: &str,
    desired: &Desired,
    rules: &Rules,
) -> Result<BTreeMap<TableId, TableDelta>, String> {
    let unreadable = |error: DecodeError| format!("the groups of {node} cannot be read: {error}");
    let host = text(node);
    let mut tables: BTreeMap<TableId, TableDelta> = BTreeMap::new();
    let mut add = |table: Option<TableId>, rows: Result<Vec<Row>, DecodeError>| -> Result<(), String> {
        let rows = rows.map_err(unreadable)?;
        if let Some(table) = table {
            tables.entry(table).or_default().insert.extend(rows);
        }
        Ok(())
    };
    let actions = |bucket: &ovs_driver::Bucket| {
        Ok::<_, DecodeError>(Value::Actions(Arc::new(Canonical::new(bucket.actions()?))))
    };
    let bucket = |((group, id), bucket): (&(u32, u32), &ovs_driver::Bucket)| {
        Ok(vec![host.clone(), number(*group), number(*id), actions(bucket)?])
    };
    add(rules.buckets, desired.groups.iter().map(bucket).collect())?;
    let choice = |(group, choice): (&u32, &Choice)| {
        let (kind, fields) = match choice {
            Choice::Select(fields) => (SELECT, fields.iter().map(|field| text(field.name())).collect()),
            Choice::FastFailover => (FAST_FAILOVER, Vec::new()),
        };
        Ok(vec![host.clone(), number(*group), text(kind), Value::Set(fields.into())])
    };
    add(rules.groups, desired.choices.iter().map(choice).collect())?;
    let candidate = |((group, id), bucket): (&(u32, u32), &ovs_driver::Bucket)| {
        let watched = bucket.watched();
        let (port, live) = (watched.port.map_or(0, |port| port.0), watched.group.unwrap_or(0));
        let numbers = [number(*group), number(*id), number(bucket.weight()), number(port), number(live)];
        Ok([&[host.clone()][..], &numbers, &[actions(bucket)?]].concat())
    };
    add(rules.candidates, desired.candidates.iter().map(candidate).collect())?;
    let meter = |(id, meter): (&u32, &ovs_driver::Meter)| {
        Ok(vec![host.clone(), number(*id), number(meter.rate), number(meter.burst)])
    };
    add(rules.meters, desired.meters.iter().map(meter).collect())?;
    let tunnel = |(name, tunnel): (&String, &ovs_driver::Tunnel)| {
        Ok(vec![host.clone(), text(name), shown(&tunnel.encap), shown(&tunnel.remote)])
    };
    add(rules.tunnels, desired.tunnels.iter().map(tunnel).collect())?;
    let patch = |(name, patch): (&String, &ovs_driver::Patch)| {
        Ok(vec![host.clone(), text(name), text(&patch.bridge), text(&patch.peer)])
    };
    add(rules.patches, desired.patches.iter().map(patch).collect())?;
    Ok(tables)
}

/// The row of a flow of a transport node.
///
/// # Errors
/// It cannot be decoded.
pub(crate) fn flow(node: &str, key: &FlowKey, flow: &Flow) -> Result<Row, DecodeError> {
    let matching = Value::Match(Arc::new(Canonical::new(key.matching()?)));
    let actions = Value::Actions(Arc::new(Canonical::new(flow.actions()?)));
    Ok(vec![text(node), number(key.table()), number(key.priority()), matching, actions])
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn shown(value: &impl Display) -> Value {
    text(&value.to_string())
}

fn number(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}
