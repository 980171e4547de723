//! Reports from the rows of the journal.

use serde_json::Value as Json;
use switch_model::Conflict;

use super::{Announced, CONFLICTS, CONNECTION, Connection, PATCH, PROBED, Probed, Reports, TUNNEL, Vif};
use crate::record::Record;

/// The tables of reports. An announcement needs its interface.
const TABLES: [&str; 9] =
    [CONNECTION, PATCH, TUNNEL, "vif", "announced", "contested", "unopened", PROBED, CONFLICTS];

impl Reports {
    /// Adds the reports of a journal record. The error describes the record's fault.
    ///
    /// A correction of rows for other rules is not a report of a switch.
    pub(crate) fn restore(&mut self, record: &Record) -> Result<(), String> {
        let (insert, delete) = match &record.reports {
            Some(changes) => (&changes.insert, &changes.delete),
            None if record.is_correction() => return Ok(()),
            None => (&record.insert, &record.delete),
        };
        for table in TABLES {
            for row in delete.get(table).into_iter().flatten() {
                let (node, item) = item(table, row)?;
                let report = self.nodes.entry(node).or_default();
                match item {
                    Item::Vif(port, _) => drop(report.vifs.remove(&port)),
                    Item::Tunnel(tunnel, _) => drop(report.tunnels.remove(&tunnel)),
                    Item::Patch(patch, _) => drop(report.patches.remove(&patch)),
                    Item::Connection(_) => report.connection = None,
                    Item::Announced(port, _) => drop(report.announced.remove(&port)),
                    Item::Contested(port, _) => drop(report.contested.remove(&port)),
                    Item::Unopened(port, _) => drop(report.unopened.remove(&port)),
                    Item::Probed(probe, _) => drop(report.probes.remove(&probe)),
                    Item::Conflict(conflict) => drop(report.conflicts.remove(&conflict)),
                }
            }
        }
        for table in TABLES {
            for row in insert.get(table).into_iter().flatten() {
                let (node, item) = item(table, row)?;
                let report = self.nodes.entry(node).or_default();
                match item {
                    Item::Vif(port, vif) => drop(report.vifs.insert(port, vif)),
                    Item::Tunnel(tunnel, ofport) => drop(report.tunnels.insert(tunnel, ofport)),
                    Item::Patch(patch, ofport) => drop(report.patches.insert(patch, ofport)),
                    Item::Connection(connection) => report.connection = Some(connection),
                    Item::Contested(port, names) => drop(report.contested.insert(port, names)),
                    Item::Unopened(port, why) => drop(report.unopened.insert(port, why)),
                    Item::Probed(probe, found) => drop(report.probes.insert(probe, found)),
                    Item::Conflict(conflict) => drop(report.conflicts.insert(conflict)),
                    Item::Announced(port, since) => {
                        let claim = report.vifs.get(&port).map(|vif| vif.since);
                        let claim = claim.ok_or_else(|| format!("{port} is announced, but not plugged"))?;
                        report.announced.insert(port, Announced { since, claim });
                    }
                }
            }
        }
        Ok(())
    }
}

enum Item {
    Vif(String, Vif),
    Tunnel(String, u16),
    Patch(String, u16),
    Connection(Connection),
    Announced(String, u64),
    Contested(String, String),
    Unopened(String, (String, String)),
    Probed(String, Probed),
    Conflict(Conflict),
}

/// The transport node and the contents of a row of the journal.
fn item(table: &str, row: &[Json]) -> Result<(String, Item), String> {
    let number = |value: &Json| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let fault = || format!("no row of {table}: {}", Json::Array(row.to_vec()));
    match (table, row) {
        ("vif", [Json::String(node), Json::String(port), ofport, Json::String(mac), since]) => {
            let (ofport, since) = number(ofport).zip(since.as_u64()).ok_or_else(fault)?;
            Ok((node.clone(), Item::Vif(port.clone(), Vif { ofport, mac: mac.clone(), since })))
        }
        (CONNECTION, [Json::String(node), Json::Bool(connected), since]) => {
            let since = since.as_u64().ok_or_else(fault)?;
            Ok((node.clone(), Item::Connection(Connection { connected: *connected, since })))
        }
        ("announced", [Json::String(node), Json::String(port), since]) => {
            let since = since.as_u64().ok_or_else(fault)?;
            Ok((node.clone(), Item::Announced(port.clone(), since)))
        }
        ("contested", [Json::String(node), Json::String(port), Json::String(names)]) => {
            Ok((node.clone(), Item::Contested(port.clone(), names.clone())))
        }
        ("unopened", [Json::String(node), Json::String(port), Json::String(name), Json::String(error)]) => {
            Ok((node.clone(), Item::Unopened(port.clone(), (name.clone(), error.clone()))))
        }
        (PROBED, [Json::String(node), Json::String(probe), Json::Bool(up), Json::String(cause), since]) => {
            let since = since.as_u64().ok_or_else(fault)?;
            let found = Probed { up: *up, cause: cause.clone(), since };
            Ok((node.clone(), Item::Probed(probe.clone(), found)))
        }
        (CONFLICTS, [Json::String(node), label, Json::String(address)]) => {
            let label = label.as_u64().and_then(|label| u32::try_from(label).ok()).ok_or_else(fault)?;
            let address = address.parse().map_err(|_| fault())?;
            Ok((node.clone(), Item::Conflict(Conflict { label, address })))
        }
        (TUNNEL | PATCH, [Json::String(node), Json::String(name), ofport]) => {
            let ofport = number(ofport).ok_or_else(fault)?;
            let item = if table == PATCH { Item::Patch } else { Item::Tunnel };
            Ok((node.clone(), item(name.clone(), ofport)))
        }
        _ => Err(fault()),
    }
}
