//! One accepted transaction, as a line of the journal.
//!
//! A line has the form that `weft eval` reads: `txn`, `insert` and `delete`, and as the transaction's origin `at`,
//! `by`, `objects`, `reports`, `filled`, `memory`, `announcements` and `program`. The rows replay the rules; the other members have the information that
//! rows lack, so that a controller with other rules can start from the same journal. Unknown members are refused,
//! because their effect is unknown. The journal appends the members of its seal (`controller::journal`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Delta, Memories, Row, Schema, TableDelta, TableId};
use objects::{ChangeSet, Object, ObjectKey, Outcome, Revision, Rows};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::answered::{AnsweredRequest, RequestKey};
use crate::peer::Peer;
use crate::rules_versions::RulesVersions;
pub use crate::rules_versions::{RulesChange, RulesText};

/// An accepted transaction, as read from the journal.
///
/// A row is of type `R` and an object of type `O`. A transaction that the controller has just accepted is a [`NewRecord`]:
/// it shares rows and objects with the rest of the controller, because as JSON values they would take several times as much
/// memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record<R = Vec<Json>, O = ObjectText> {
    /// The transaction number: 1 for the first record, then one more than the previous record's.
    pub txn: u64,
    /// The time of acceptance: RFC 3339, UTC.
    pub at: String,
    /// The requester: `api`, `switch hv1`, `switches hv1, hv2 and 3 more`, …
    pub by: String,
    /// The identity of the requester according to the system, if the request arrived over a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The key of the request, if its client gave it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<RequestKey>,
    /// Inserted rows, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<Arc<str>, Vec<R>>,
    /// Deleted rows, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<Arc<str>, Vec<R>>,
    /// Created, changed and deleted objects.
    #[serde(default, skip_serializing_if = "ObjectChanges::is_empty")]
    pub objects: ObjectChanges<O>,
    /// The complete report of a switch, if the rules lack a table for its rows in `insert` and `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<RowChanges<R>>,
    /// The changes of tables that hooks with a memory fill. A restart follows them instead of the whole history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<RowChanges<R>>,
    /// What hooks remember before this transaction, by the table that each fills, if that does not follow from the records
    /// before.
    #[serde(default, skip_serializing_if = "Memories::is_empty")]
    pub memory: Memories,
    /// The announcements to the physical network that begin with it, and those that have ended before it.
    #[serde(default, skip_serializing_if = "AnnouncementChanges::is_empty")]
    pub announcements: AnnouncementChanges,
    /// Whether it has only what was observed of connections. A replay needs it, since every input counts; a start does not, and
    /// no other record relies on it. So all such records may be left out of a journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observation: bool,
    /// The rules that run from this transaction on, if it changed them. `memory` then has all that hooks remember after it. In the lines that
    /// `weft eval` takes, `rules` edits the program; a replay of the rows needs no such thing, so this has another name.
    #[serde(default, rename = "program", skip_serializing_if = "Option::is_none")]
    pub rules: Option<Box<RulesChange>>,
    /// If the record stands for all records up to this one, which came before it in the journal that it was made of: what else they add up to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Box<Base>>,
}

/// What the records up to some transaction add up to, besides the members of a [`Record`]: there, `insert` has all rows, `objects` all
/// objects in the order of `revisions`, `reports` all that switches have reported, `memory` what hooks remember after the transaction, and
/// `announcements` those under way. So a journal that begins with it needs no record of before.
///
/// Unknown members are left out, so that a reader can say that a newer version wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The format of what is here and of records after it: [`Base::FORMAT`], or a greater number of a newer version.
    pub format: u32,
    /// What tells that journal, and its copies, from all others.
    pub journal: Arc<str>,
    /// The checksum of the transaction's record there: the next record follows it.
    pub sum: u32,
    /// The revision of each object.
    pub revisions: Vec<Revision>,
    /// The requests that clients can repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<AnsweredRequest>,
    /// The rules that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesText>,
    /// The last versions of the rules, if they changed while the controller ran.
    #[serde(default, skip_serializing_if = "RulesVersions::is_empty")]
    pub versions: RulesVersions,
}

impl Base {
    /// The format that this version writes. It reads this one, and journals that begin with no base.
    pub const FORMAT: u32 = 1;
}

/// An object as its text in the journal. As a tree of JSON values it would take up to 84 bytes for each byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectText(Box<RawValue>);

impl ObjectText {
    /// That of an object that is there.
    pub(crate) fn of(object: &Object) -> Self {
        let text = serde_json::value::to_raw_value(object);
        ObjectText(text.unwrap_or_else(|error| unreachable!("an object prints as JSON: {error}")))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

/// No object, which no record has.
impl Default for ObjectText {
    fn default() -> Self {
        ObjectText(RawValue::NULL.to_owned())
    }
}

impl PartialEq for ObjectText {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl From<Json> for ObjectText {
    fn from(json: Json) -> Self {
        let text = RawValue::from_string(json.to_string());
        ObjectText(text.unwrap_or_else(|error| unreachable!("JSON prints as JSON: {error}")))
    }
}

/// A transaction that was accepted just now.
pub type NewRecord = Record<Row, Arc<Object>>;

impl NewRecord {
    /// The record as the next start reads it from the journal.
    pub fn journalled(&self) -> Record {
        let text = serde_json::to_string(self);
        let record = text.and_then(|text| serde_json::from_str(&text));
        record.unwrap_or_else(|error| unreachable!("a record can be read back: {error}"))
    }
}

/// Changes of the announcements that are under way, by name: a MAC address and its port. What has begun and not ended when the controller
/// ends is announced again by its next start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnouncementChanges {
    /// Announced by their hosts, or not true any more, since the record before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ended: BTreeSet<String>,
    /// To be announced from this transaction on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub begun: BTreeSet<String>,
}

impl AnnouncementChanges {
    fn is_empty(&self) -> bool {
        *self == AnnouncementChanges::default()
    }
}

/// Changes of tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowChanges<R = Vec<Json>> {
    /// Inserted rows, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<Arc<str>, Vec<R>>,
    /// Deleted rows, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<Arc<str>, Vec<R>>,
}

impl RowChanges<Row> {
    /// The changes of these tables in a delta; `None` if there are none.
    pub(crate) fn of_tables(delta: &Delta, tables: &[TableId], schema: &Schema) -> Option<Self> {
        let mut changes = Self::default();
        for (table, TableDelta { insert, delete, .. }) in &delta.tables {
            if tables.contains(table) {
                let name = &schema.table(*table).name;
                for (side, rows) in [(&mut changes.insert, insert), (&mut changes.delete, delete)] {
                    if !rows.is_empty() {
                        let mut rows = rows.clone();
                        // Hooks follow them in this order.
                        rows.sort_unstable();
                        side.insert(name.as_str().into(), rows);
                    }
                }
            }
        }
        (changes != Self::default()).then_some(changes)
    }
}

impl From<Rows> for RowChanges<Row> {
    fn from(Rows { insert, delete }: Rows) -> Self {
        RowChanges { insert, delete }
    }
}

/// The requester of a record with a [`Base`].
pub(crate) const BASE: &str = "base";

/// The requester of a record that adapts the journal's rows to other rules or another version.
pub(crate) const UPGRADE: &str = "upgrade";

impl<R, O> Record<R, O> {
    /// Whether the record only adapts rows to other rules. Requests have objects, and reports come from a switch.
    pub(crate) fn is_correction(&self) -> bool {
        self.rules.is_some() || self.by == UPGRADE && self.objects.is_empty()
    }
}

/// The objects that a transaction creates, changes and deletes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectChanges<O = ObjectText> {
    /// Created and changed objects, in canonical form.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<O>,
    /// Kinds and ids of deleted objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<(String, String)>,
}

/// No change.
impl<O> Default for ObjectChanges<O> {
    fn default() -> Self {
        ObjectChanges { put: Vec::new(), delete: Vec::new() }
    }
}

impl<O> ObjectChanges<O> {
    /// Whether no object changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }
}

impl ObjectChanges<Arc<Object>> {
    /// A change of objects in the journal's form.
    pub(crate) fn of(changes: &ChangeSet) -> Self {
        let mut objects = ObjectChanges::default();
        for change in changes.effective() {
            match &change.after {
                Some(object) => objects.put.push(object.clone()),
                None => objects.delete.push((change.key.kind.to_string(), change.key.id.to_string())),
            }
        }
        objects
    }
}

/// What became of the objects of a transaction: those that are there, then those that are not. `is_new` tells which it created.
pub(crate) fn outcomes<'o>(
    put: impl Iterator<Item = (ObjectKey, bool)> + 'o,
    delete: &'o [(String, String)],
) -> Vec<(ObjectKey, Outcome)> {
    let put = put.map(|(key, is_new)| (key, if is_new { Outcome::Created } else { Outcome::Updated }));
    let gone = |(kind, id): &(String, String)| (ObjectKey::new(kind.as_str(), id.as_str()), Outcome::Deleted);
    put.chain(delete.iter().map(gone)).collect()
}

/// Rows in their JSON form, by table.
pub(crate) type JsonRows = BTreeMap<Arc<str>, Vec<Vec<Json>>>;
