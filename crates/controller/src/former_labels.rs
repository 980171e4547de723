//! Labels in the journals of versions that allocated them outside the rules. They become numbers of the rules' hooks, so that
//! objects keep them.

use std::collections::BTreeMap;

use nlog::Program;
use nlog_data::Value;
use nlog_hooks::Recorded;
use serde_json::{Value as Json, json};

use crate::record::{LabelRecord, Record};

/// The tables whose rows these versions wrote.
pub(crate) const TABLES: [&str; 4] = ["datapath_label", "node_label", "port_label", "replication_label"];

/// The constant of the rules that says what these labels are now (`rules/interface/labels.nlog`).
const CONSTANT: &str = "FORMER_LABELS";

/// A label of these versions.
#[derive(Debug)]
struct Label {
    /// Its name: a kind of objects, and what follows a slash.
    name: String,
    /// The table that has it now.
    table: String,
    /// The owner's first column there, if it has two.
    first: Option<String>,
}

/// The labels in use. Later records have the changes of tables that hooks fill instead.
#[derive(Debug)]
pub(crate) struct FormerLabels {
    names: Vec<Label>,
    /// By index into `names` and id.
    given: BTreeMap<(usize, String), u32>,
}

/// The deleted and inserted rows of a table.
type Changes = [Vec<Vec<Json>>; 2];

impl FormerLabels {
    /// No labels, of the names that the rules know.
    pub(crate) fn new(program: &Program) -> Self {
        let label = |value: &Value| match value {
            Value::Record(fields) => match &**fields {
                [Value::String(name), Value::String(table), first] => Some(Label {
                    name: name.to_string(),
                    table: table.to_string(),
                    first: if let Value::String(first) = first { Some(first.to_string()) } else { None },
                }),
                _ => None,
            },
            _ => None,
        };
        let names = match program.constants.get(CONSTANT) {
            Some(Value::List(labels)) => labels.iter().filter_map(label).collect(),
            _ => Vec::new(),
        };
        FormerLabels { names, given: BTreeMap::new() }
    }

    /// Lets the hooks give and release the numbers of the next record. The error explains why the record is invalid.
    pub(crate) fn follow(&mut self, hooks: &mut Recorded, record: &Record) -> Result<(), String> {
        if record.filled.is_some() || !record.memory.is_empty() {
            self.given.clear();
            return Ok(());
        }
        let FormerLabels { names, given } = self;
        let mut changes: BTreeMap<&str, Changes> = BTreeMap::new();
        let mut change = |side: usize, name: usize, id: &str, label: u32| {
            let Label { table, first, .. } = &names[name];
            let row = first.as_deref().into_iter().chain([id]).map(Json::from).chain([json!(label)]);
            changes.entry(table).or_default()[side].push(row.collect());
        };
        for (kind, id) in &record.objects.delete {
            let of_kind = names.iter().enumerate();
            for (name, _) in of_kind.filter(|(_, label)| label.name.split('/').next() == Some(kind)) {
                if let Some(label) = given.remove(&(name, id.clone())) {
                    change(0, name, id, label);
                }
            }
        }
        for LabelRecord(name, id, label) in &record.labels {
            let known = names.iter().position(|known| known.name == *name);
            let known = known.ok_or_else(|| format!("nothing has a label as {name}"))?;
            if given.insert((known, id.clone()), *label).is_some() {
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
