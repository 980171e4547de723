//! Splits the changes of output tables by transport node, and converts them to changes of switches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use nlog_data::{Canonical, Committed, ErrorCode, Row, TableDelta, TransactionError, Value};
use openflow_rs::{Actions, Match};
use ovs_driver::{
    BUCKET_MAX, BfdSession, Bucket, Changes, CollectorSet, Flow, FlowError, FlowKey, GROUP_MAX, METER_MAX,
    Meter, Patch, Pool, RemoteError, Tunnel, UnknownEncap, ZONE_TABLE, ZoneLimits, ZoneOwner,
};

use crate::choices;
use crate::homes;
use crate::rules::Rules;

/// Splits the changes of a transaction by transport node.
///
/// A value that no switch supports (a table number over 254, an unknown encapsulation) is a `range` error of the
/// transaction, since rules cannot check it.
pub(crate) fn split_by_node(
    committed: &Committed,
    rules: &Rules,
    pool: &mut Pool,
) -> Result<BTreeMap<String, Changes>, TransactionError> {
    let mut changes: BTreeMap<String, Changes> = BTreeMap::new();
    let empty = TableDelta::default();
    let delta = |table| committed.delta.tables.get(&table).unwrap_or(&empty);
    let has_zones = rules.zones.is_some();
    let mut encoder =
        Encoder { pool, has_zones, keys: HashMap::new(), flows: HashMap::new(), buckets: HashMap::new() };

    if let Some(table) = rules.flows {
        let delta = delta(table);
        encoder.pool.note_changes(delta.delete.len());
        for row in &delta.delete {
            let (node, key, _) = flow(row, &mut encoder)?;
            changes.entry(node).or_default().flows_delete.insert(key);
        }
        for (row, cookie) in attributed(delta, rules) {
            let (node, key, actions) = flow(row, &mut encoder)?;
            let flow = encoder.flow(cookie, actions);
            let flow = flow.map_err(|error| range(format!("of_flow: {node}: {error}")))?;
            let changes = changes.entry(node).or_default();
            changes.flows_delete.remove(&key);
            changes.flows_add.insert(key, flow);
        }
    }
    if let Some(table) = rules.buckets {
        let delta = delta(table);
        encoder.pool.note_changes(delta.delete.len());
        for row in &delta.delete {
            let (node, key, _) = bucket(row)?;
            changes.entry(node).or_default().buckets_delete.insert(key);
        }
        for (row, rule) in attributed(delta, rules) {
            let (node, key, actions) = bucket(row)?;
            let bucket = encoder.bucket(rule, actions);
            let bucket = bucket.map_err(|error| range(format!("of_bucket: {node}: {error}")))?;
            let changes = changes.entry(node).or_default();
            changes.buckets_delete.remove(&key);
            changes.buckets_add.insert(key, bucket);
        }
    }
    if let Some(table) = rules.meters {
        split(delta(table), &mut changes, meter, |to| (&mut to.meters_delete, &mut to.meters_add))?;
    }
    if let Some(table) = rules.zones {
        split(delta(table), &mut changes, zone, |to| (&mut to.zones_delete, &mut to.zones_add))?;
    }
    if let Some(table) = rules.limits {
        split(delta(table), &mut changes, limits, |to| (&mut to.limits_delete, &mut to.limits_add))?;
    }
    if let Some(table) = rules.collectors {
        split(delta(table), &mut changes, collectors, |to| {
            (&mut to.collectors_delete, &mut to.collectors_add)
        })?;
    }
    if let Some(table) = rules.tunnels {
        split(delta(table), &mut changes, tunnel, |to| (&mut to.tunnels_delete, &mut to.tunnels_add))?;
    }
    if let Some(table) = rules.bfd_sessions {
        split(delta(table), &mut changes, bfd_session, |to| (&mut to.bfd_delete, &mut to.bfd_add))?;
    }
    if let Some(table) = rules.patches {
        split(delta(table), &mut changes, patch, |to| (&mut to.patches_delete, &mut to.patches_add))?;
    }
    choices::split_by_node(committed, rules, encoder.pool, &mut changes)?;
    homes::split_by_node(committed, rules, &mut changes)?;
    Ok(changes)
}

/// The keys to delete and the values to add of one transport node.
type Edits<'a, K, V> = (&'a mut BTreeSet<K>, &'a mut BTreeMap<K, V>);

/// Adds the changes of a table whose rows `read` as transport node, key and value, to the `edits` of each node. A key that is
/// deleted and inserted is only added, which replaces its value.
pub(crate) fn split<K: Ord, V>(
    delta: &TableDelta,
    changes: &mut BTreeMap<String, Changes>,
    read: impl Fn(&Row) -> Result<(String, K, V), TransactionError>,
    edits: impl Fn(&mut Changes) -> Edits<'_, K, V>,
) -> Result<(), TransactionError> {
    for row in &delta.delete {
        let (node, key, _) = read(row)?;
        edits(changes.entry(node).or_default()).0.insert(key);
    }
    for row in &delta.insert {
        let (node, key, value) = read(row)?;
        let (delete, add) = edits(changes.entry(node).or_default());
        delete.remove(&key);
        add.insert(key, value);
    }
    Ok(())
}

/// Encodes each match and each action list of a transaction once, and shares equal bytes with earlier transactions.
struct Encoder<'a> {
    pool: &'a mut Pool,
    /// Whether the driver has a table of its own for the owners of zones.
    has_zones: bool,
    keys: HashMap<&'a Canonical<Match>, FlowKey>,
    flows: HashMap<&'a Canonical<Actions>, Flow>,
    buckets: HashMap<&'a Canonical<Actions>, Bucket>,
}

impl<'a> Encoder<'a> {
    fn key(
        &mut self,
        table: u8,
        priority: u16,
        matching: &'a Canonical<Match>,
    ) -> Result<FlowKey, FlowError> {
        if let Some(key) = self.keys.get(matching) {
            return Ok(key.at(table, priority));
        }
        let mut key = FlowKey::new(table, priority, &matching.get())?;
        key.share(self.pool);
        self.keys.insert(matching, key.clone());
        Ok(key)
    }

    fn flow(&mut self, cookie: u64, actions: &'a Canonical<Actions>) -> Result<Flow, FlowError> {
        if let Some(flow) = self.flows.get(actions) {
            return Ok(flow.with_cookie(cookie));
        }
        let mut flow = Flow::new(cookie, &actions.get())?;
        flow.share(self.pool);
        self.flows.insert(actions, flow.clone());
        Ok(flow)
    }

    fn bucket(&mut self, rule: u64, actions: &'a Canonical<Actions>) -> Result<Bucket, FlowError> {
        if let Some(bucket) = self.buckets.get(actions) {
            return Ok(bucket.with_rule(rule));
        }
        let mut bucket = Bucket::new(rule, &actions.get())?;
        bucket.share(self.pool);
        self.buckets.insert(actions, bucket.clone());
        Ok(bucket)
    }
}

/// Rows that are inserted or are now derived by another rule, with the rule's fingerprint; 0 without attribution.
pub(crate) fn attributed<'a>(
    delta: &'a TableDelta,
    rules: &'a Rules,
) -> impl Iterator<Item = (&'a Row, u64)> {
    // Without attribution, the list of rules is empty.
    let rules_of_rows = delta.rules.iter().map(Some).chain(std::iter::repeat(None));
    let inserted = delta.insert.iter().zip(rules_of_rows);
    let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, Some(rule)));
    inserted.chain(reattributed).map(|(row, rule)| (row, rule.map_or(0, |rule| rules.fingerprint(*rule))))
}

/// A row of `of_flow`: transport node, key, actions.
fn flow<'a>(
    row: &'a Row,
    encoder: &mut Encoder<'a>,
) -> Result<(String, FlowKey, &'a Canonical<Actions>), TransactionError> {
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
    if encoder.has_zones && table_id == ZONE_TABLE {
        return Err(fault(format!(
            "table {ZONE_TABLE} is where the driver notes the owners of conntrack_zone"
        )));
    }
    let priority = u16::try_from(*priority)
        .map_err(|_| fault(format!("priority {priority} is out of range; the highest is 65535")))?;
    let key = encoder.key(table_id, priority, matching).map_err(|error| fault(error.to_string()))?;
    Ok((node.to_string(), key, actions))
}

/// A group and a bucket in it.
type BucketKey = (u32, u32);

/// A row of `of_bucket`: transport node, group and bucket, actions.
fn bucket(row: &Row) -> Result<(String, BucketKey, &Canonical<Actions>), TransactionError> {
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
    Ok((node.to_string(), key, actions))
}

/// A row of `of_meter`: transport node, number and meter.
fn meter(row: &Row) -> Result<(String, u32, Meter), TransactionError> {
    let [Value::String(node), Value::Int(id), Value::Int(rate), Value::Int(burst)] = row.as_slice() else {
        return Err(misfit("of_meter", row));
    };
    let number = |what: &str, number: i64, last: u32| {
        let fault =
            || range(format!("of_meter: {node}: {what} {number} is out of range; it is from 1 to {last}"));
        u32::try_from(number).ok().filter(|number| (1..=last).contains(number)).ok_or_else(fault)
    };
    let meter = Meter { rate: number("rate", *rate, u32::MAX)?, burst: number("burst", *burst, u32::MAX)? };
    Ok((node.to_string(), number("meter", *id, METER_MAX)?, meter))
}

/// A row of `conntrack_zone`: transport node, zone and owner.
fn zone(row: &Row) -> Result<(String, u16, ZoneOwner), TransactionError> {
    let [Value::String(node), Value::Int(zone), Value::String(owner)] = row.as_slice() else {
        return Err(misfit("conntrack_zone", row));
    };
    let fault = |why: String| range(format!("conntrack_zone: {node}: zone {zone} {why}"));
    let number = zone_number(*zone).map_err(fault)?;
    let owner = ZoneOwner::new(owner).map_err(|error| fault(format!("has too long an owner: {error}")))?;
    Ok((node.to_string(), number, owner))
}

fn zone_number(zone: i64) -> Result<u16, String> {
    let number = u16::try_from(zone).ok().filter(|zone| *zone > 0);
    number.ok_or_else(|| "is out of range; it is from 1 to 65535".to_owned())
}

/// A row of `conntrack_limit`: transport node, zone and limits.
fn limits(row: &Row) -> Result<(String, u16, ZoneLimits), TransactionError> {
    let [
        Value::String(node),
        Value::Int(zone),
        Value::Int(connections),
        Value::Int(unanswered),
        Value::Int(answered),
        Value::Int(established),
        Value::Int(closing),
    ] = row.as_slice()
    else {
        return Err(misfit("conntrack_limit", row));
    };
    let fault = |why: String| range(format!("conntrack_limit: {node}: zone {zone} {why}"));
    let number = |what: &str, number: i64, first: u32| {
        let fault = || {
            fault(format!("has {what} {number}, which is out of range; it is from {first} to {}", u32::MAX))
        };
        u32::try_from(number).ok().filter(|number| *number >= first).ok_or_else(fault)
    };
    let limits = ZoneLimits {
        connections: Some(number("connections", *connections, 0)?).filter(|most| *most > 0),
        unanswered: number("unanswered", *unanswered, 1)?,
        answered: number("answered", *answered, 1)?,
        established: number("established", *established, 1)?,
        closing: number("closing", *closing, 1)?,
    };
    Ok((node.to_string(), zone_number(*zone).map_err(fault)?, limits))
}

/// A row of `collector_set`: transport node, number and set.
fn collectors(row: &Row) -> Result<(String, u32, CollectorSet), TransactionError> {
    let [
        Value::String(node),
        Value::Int(number),
        Value::Set(targets),
        Value::Int(active_timeout),
        Value::Int(flows_max),
    ] = row.as_slice()
    else {
        return Err(misfit("collector_set", row));
    };
    let fault = |what: &str, number: &i64, last: u32| {
        range(format!("collector_set: {node}: {what} {number} is out of range; it is from 0 to {last}"))
    };
    let targets = targets.iter().map(|target| match target {
        Value::String(target) => Ok(target.to_string()),
        _ => Err(misfit("collector_set", row)),
    });
    let set = CollectorSet {
        targets: targets.collect::<Result<_, _>>()?,
        active_timeout: u16::try_from(*active_timeout)
            .map_err(|_| fault("active_timeout", active_timeout, u16::MAX.into()))?,
        flows_max: u32::try_from(*flows_max).map_err(|_| fault("flows_max", flows_max, u32::MAX))?,
    };
    let number = u32::try_from(*number).map_err(|_| fault("number", number, u32::MAX))?;
    Ok((node.to_string(), number, set))
}

/// A row of `bfd_session`.
fn bfd_session(row: &Row) -> Result<(String, String, BfdSession), TransactionError> {
    let [Value::String(node), Value::String(tunnel), Value::Int(interval)] = row.as_slice() else {
        return Err(misfit("bfd_session", row));
    };
    let fault = || {
        let last = u16::MAX;
        range(format!(
            "bfd_session: {node}: {tunnel} has interval {interval}, which is out of range; it is from 1 to {last}"
        ))
    };
    let interval = u16::try_from(*interval).ok().filter(|interval| *interval > 0).ok_or_else(fault)?;
    Ok((node.to_string(), tunnel.to_string(), BfdSession { interval }))
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

pub(crate) fn range(message: String) -> TransactionError {
    TransactionError::new(ErrorCode::Range, message)
}

/// A bug in the evaluator: `Rules::new` has checked the columns, and rows conform to their tables.
pub(crate) fn misfit(table: &str, row: &Row) -> TransactionError {
    TransactionError::new(ErrorCode::TypeMismatch, format!("{table} has no such row: {row:?}"))
}
