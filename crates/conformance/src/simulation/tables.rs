//! Rows of the rules' output tables.

use std::net::Ipv4Addr;
use std::sync::Arc;

use nlog_data::{Canonical, Row, Value};
use openflow_rs::{Actions, Match};

use crate::world::Encap;

/// A row of `of_flow`.
pub(super) struct Flow {
    pub(super) host: Arc<str>,
    pub(super) table: u8,
    pub(super) priority: u16,
    pub(super) matches: Arc<Canonical<Match>>,
    pub(super) actions: Arc<Canonical<Actions>>,
}

pub(super) fn flow(row: &Row) -> Option<Flow> {
    let [
        Value::String(host),
        Value::Int(table),
        Value::Int(priority),
        Value::Match(matches),
        Value::Actions(actions),
    ] = &row[..]
    else {
        return None;
    };
    let (table, priority) = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?);
    Some(Flow { host: host.clone(), table, priority, matches: matches.clone(), actions: actions.clone() })
}

/// A row of `of_bucket`.
pub(super) struct Bucket {
    pub(super) host: Arc<str>,
    pub(super) group: u32,
    pub(super) id: u32,
    pub(super) actions: Arc<Canonical<Actions>>,
}

/// The first group number reserved for the driver, and the first invalid bucket number.
const GROUPS: u32 = 0x400_0000;
const BUCKETS: u32 = 0xffff_ff00;

pub(super) fn bucket(row: &Row) -> Option<Bucket> {
    let [Value::String(host), Value::Int(group), Value::Int(bucket), Value::Actions(actions)] = &row[..]
    else {
        return None;
    };
    let group = u32::try_from(*group).ok().filter(|group| *group < GROUPS)?;
    let id = u32::try_from(*bucket).ok().filter(|bucket| *bucket < BUCKETS)?;
    Some(Bucket { host: host.clone(), group, id, actions: actions.clone() })
}

/// A row of `ovsdb_tunnel`.
pub(super) struct Tunnel {
    pub(super) host: String,
    pub(super) name: String,
    pub(super) encap: Encap,
    /// The peer; none for `flow`.
    pub(super) remote: Option<Ipv4Addr>,
}

/// The maximum length of a port's name, which is the name of a network device.
const NAME: usize = 15;

pub(super) fn tunnel(row: &Row) -> Option<Tunnel> {
    let [Value::String(host), Value::String(name), Value::String(kind), Value::String(remote)] = &row[..]
    else {
        return None;
    };
    let remote = if **remote == *"flow" { None } else { Some(remote.parse().ok()?) };
    let (host, name) = (host.to_string(), Some(name.to_string()).filter(|name| name.len() <= NAME)?);
    Some(Tunnel { host, name, encap: kind.parse().ok()?, remote })
}

/// A row of `ovsdb_patch`.
pub(super) struct Patch {
    pub(super) host: String,
    pub(super) name: String,
    pub(super) bridge: String,
}

pub(super) fn patch(row: &Row) -> Option<Patch> {
    let [Value::String(host), Value::String(name), Value::String(bridge), Value::String(peer)] = &row[..]
    else {
        return None;
    };
    let short = name.len() <= NAME && peer.len() <= NAME;
    short.then(|| Patch { host: host.to_string(), name: name.to_string(), bridge: bridge.to_string() })
}
