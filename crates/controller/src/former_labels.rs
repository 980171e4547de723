//! Labels in the journals of versions that allocated them outside the rules. They become numbers of the rules' hooks, so that
//! objects keep them.

use std::collections::BTreeMap;

use nlog_hooks::Recorded;
use serde_json::{Value as Json, json};

use crate::record::{LabelRecord, Record};

/// The tables whose rows these versions wrote.
pub(crate) const TABLES: [&str; 4] = ["datapath_label", "node_label", "port_label", "replication_label"];

/// The names of labels, the table that has them now, and the owner's first column there, if it has two.
const NAMES: [(&str, &str, Option<&str>); 8] = [
    ("switch", "datapath_label", None),
    ("switch_port", "tunnel_label", Some("port")),
    ("localnet_port", "tunnel_label", Some("port")),
    ("switch/all", "tunnel_label", Some("replication_all")),
    ("switch/all/relay", "tunnel_label", Some("replication_all_relay")),
    ("switch/unknown", "tunnel_label", Some("replication_unknown")),
    ("switch/unknown/relay", "tunnel_label", Some("replication_unknown_relay")),
    ("transport_node", "node_label", None),
];

/// The labels in use, by index into [`NAMES`] and id. Later records have the changes of tables that hooks fill instead.
#[derive(Debug, Default)]
pub(crate) struct FormerLabels(BTreeMap<(usize, String), u32>);

/// The deleted and inserted rows of a table.
type Changes = [Vec<Vec<Json>>; 2];

impl FormerLabels {
    /// Lets the hooks give and release the numbers of the next record. The error explains why the record is invalid.
    pub(crate) fn follow(&mut self, hooks: &mut Recorded, record: &Record) -> Result<(), String> {
        if record.filled.is_some() || !record.memory.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let mut changes: BTreeMap<&str, Changes> = BTreeMap::new();
        let mut change = |side: usize, name: usize, id: &str, label: u32| {
            let (_, table, first) = NAMES[name];
            let row = first.into_iter().chain([id]).map(Json::from).chain([json!(label)]);
            changes.entry(table).or_default()[side].push(row.collect());
        };
        for (kind, id) in &record.objects.delete {
            for (name, _) in
                NAMES.iter().enumerate().filter(|(_, name)| name.0.split('/').next() == Some(kind))
            {
                if let Some(label) = self.0.remove(&(name, id.clone())) {
                    change(0, name, id, label);
                }
            }
        }
        for LabelRecord(name, id, label) in &record.labels {
            let known = NAMES.iter().position(|(known, ..)| known == name);
            let known = known.ok_or_else(|| format!("nothing has a label as {name}"))?;
            if self.0.insert((known, id.clone()), *label).is_some() {
                return Err(format!("{name} {id} has a label already"));
            }
            change(1, known, id, *label);
        }
        for (table, [delete, insert]) in changes {
            if hooks.has(table) {
                hooks.follow(table, &delete, &insert)?;
            }
        }
        Ok(())
    }
}
