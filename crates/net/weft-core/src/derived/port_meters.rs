//! Whose floods, or new connections, each meter limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{Committed, Row, TableId, Value};

/// What the meter of a port limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metered {
    /// Frames that the port floods.
    Floods,
    /// Connections of the port that begin.
    Connections,
}

/// The meter of a port on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMeter {
    /// The port.
    pub port: Arc<str>,
    /// Frames, or connections, a second.
    pub limit: u64,
}

/// What the rules say of meters of one use.
#[derive(Debug, Default)]
pub struct PortMeters {
    /// By host, and by number.
    pub hosts: BTreeMap<Arc<str>, BTreeMap<u32, PortMeter>>,
}

impl PortMeters {
    /// Applies the changes of the rules' table.
    pub(crate) fn apply(&mut self, committed: &Committed, table: Option<TableId>) {
        let Some(delta) = table.and_then(|table| committed.delta.tables.get(&table)) else {
            return;
        };
        for (host, meter, _) in delta.delete.iter().filter_map(port_meter) {
            if let Some(meters) = self.hosts.get_mut(&host) {
                meters.remove(&meter);
                if meters.is_empty() {
                    self.hosts.remove(&host);
                }
            }
        }
        for (host, meter, of) in delta.insert.iter().filter_map(port_meter) {
            self.hosts.entry(host).or_default().insert(meter, of);
        }
    }
}

fn port_meter(row: &Row) -> Option<(Arc<str>, u32, PortMeter)> {
    let [Value::String(host), Value::String(port), Value::Int(meter), Value::Int(limit)] = row.as_slice()
    else {
        return None;
    };
    let meter = u32::try_from(*meter).ok()?;
    Some((host.clone(), meter, PortMeter { port: port.clone(), limit: u64::try_from(*limit).ok()? }))
}
