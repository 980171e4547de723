//! What a request changes in an object, field by field.

use nlog_data::Value;
use serde_json::Value as Json;

use super::Change;
use crate::Object;
use crate::print::Printed;
use crate::read::LABELS;

/// A field of an object that a request changes.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Its name; `labels.KEY` of a label.
    pub field: String,
    /// The value before, as documents have it; `None` if there was none.
    pub before: Option<Json>,
    /// The value after.
    pub after: Option<Json>,
    /// Whether it has its default again because the request leaves it out.
    pub left_out: bool,
}

impl Change {
    /// The fields of an updated object that change, in declared order, then its labels. Of a deleted object, those that do not have their
    /// defaults.
    pub fn fields(&self) -> Vec<FieldChange> {
        let (before, after) = match (&self.before, &self.after) {
            (Some(before), Some(after)) => (before, after),
            (Some(before), None) => return content(before),
            _ => return Vec::new(),
        };
        let declared = after.kind().declared().fields.iter().enumerate();
        let mut changes = Vec::new();
        for ((number, field), (old, new)) in declared.zip(before.values().iter().zip(after.values())) {
            if old != new {
                let value = |value: &Value| {
                    let is_there = *value != Value::None;
                    is_there.then(|| json(&Printed { ty: &field.ty, value }))
                };
                changes.push(FieldChange {
                    field: field.name.clone(),
                    before: value(old),
                    after: value(new),
                    left_out: !self.named.has(number),
                });
            }
        }
        changes.extend(labels(before, after));
        changes
    }
}

/// What an object has and would not have by default.
fn content(object: &Object) -> Vec<FieldChange> {
    let gone =
        |field: String, value: Json| FieldChange { field, before: Some(value), after: None, left_out: false };
    let fields = object.kind().declared().fields.iter().zip(object.values());
    let own = fields.filter(|(field, value)| field.default.as_ref().unwrap_or(&Value::None) != *value);
    let fields = own.map(|(field, value)| gone(field.name.clone(), json(&Printed { ty: &field.ty, value })));
    let labels =
        object.labels().iter().map(|(key, text)| gone(format!("{LABELS}.{key}"), text.as_str().into()));
    fields.chain(labels).collect()
}

/// The labels that change. Those of a document are all that the object has.
fn labels(before: &Object, after: &Object) -> Vec<FieldChange> {
    let keys =
        before.labels().keys().chain(after.labels().keys().filter(|key| !before.labels().contains_key(*key)));
    let changed = keys.filter(|key| before.labels().get(*key) != after.labels().get(*key));
    let change = |key: &String| {
        let value = |object: &Object| object.labels().get(key).map(|text| Json::from(text.as_str()));
        let (before, after) = (value(before), value(after));
        FieldChange { field: format!("{LABELS}.{key}"), left_out: after.is_none(), before, after }
    };
    changed.map(change).collect()
}

fn json(value: &Printed<'_>) -> Json {
    serde_json::to_value(value).unwrap_or_else(|error| unreachable!("maps have text keys alone: {error}"))
}
