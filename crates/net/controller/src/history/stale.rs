//! What has become of objects since the revision that a request expects.

use std::collections::BTreeSet;
use std::path::Path;

use nlog_data::Cancel;
use nlog_data::quotation::{cut, shown};
use objects::ObjectKey;
use serde_json::{Map, Value as Json};
use tonic::Status;

use super::{Line, Lines};
use weft_client::pb;

/// The bytes at the end of the journal in which a revision is looked for.
const BYTES_MAX: u64 = 64 << 20;
/// The most fields that a text names.
const FIELDS_MAX: usize = 8;
/// What names an object, and is no field of it.
const NAMES: [&str; 2] = ["kind", "id"];
const LABELS: &str = "labels";

/// An object that does not have the revision that a request expects.
#[derive(Debug, Clone)]
pub(crate) struct Stale {
    pub(crate) key: ObjectKey,
    /// 0 for an object that is not there.
    pub(crate) expected: u64,
    /// The revision that it has; 0 if it is not there.
    pub(crate) revision: u64,
}

/// What has become of an object.
pub(crate) type Found = (ObjectKey, pb::ChangedSince);

/// What is known of it so far, while the journal is read backwards.
struct Search {
    stale: Stale,
    /// Who changed it last, and when.
    last: Option<(String, String)>,
    now: Option<String>,
    then: Option<String>,
    /// Whether nothing earlier is of interest.
    is_over: bool,
}

/// Says of each object who changed it last and which fields differ, as far as the end of the journal says it.
pub(crate) fn find(journal: &Path, stale: Vec<Stale>, cancel: &Cancel) -> Result<Vec<Found>, Status> {
    find_within(journal, stale, BYTES_MAX, cancel)
}

fn find_within(
    journal: &Path,
    stale: Vec<Stale>,
    bytes_max: u64,
    cancel: &Cancel,
) -> Result<Vec<Found>, Status> {
    let mut lines = Lines::open_for(journal, stale.iter().map(|stale| &stale.key))?;
    lines.bound(bytes_max);
    let mut searches: Vec<Search> = stale.into_iter().map(Search::new).collect();
    while !searches.iter().all(|search| search.is_over)
        && let Some(text) = lines.next(cancel)?
    {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(&text) else { continue };
        if line.base.is_some() {
            break;
        }
        for search in searches.iter_mut().filter(|search| !search.is_over) {
            search.take(&line);
        }
    }
    Ok(searches.into_iter().map(Search::answer).collect())
}

/// The answer if the journal is not read.
pub(crate) fn unread(stale: Vec<Stale>) -> Vec<Found> {
    stale.into_iter().map(|stale| Search::new(stale).answer()).collect()
}

impl Search {
    fn new(stale: Stale) -> Self {
        Search { stale, last: None, now: None, then: None, is_over: false }
    }

    fn take(&mut self, line: &Line<'_>) {
        let Stale { key, expected, revision } = &self.stale;
        let put = || line.put().find(|(named, _)| named == key).map(|(_, text)| text.to_owned());
        let is_last = match revision {
            // What deleted it is the last line that names it.
            0 => self.last.is_none() && line.deleted().any(|deleted| deleted == *key),
            revision => line.txn == *revision,
        };
        if is_last {
            self.last = Some((line.by.clone(), line.at.clone()));
            self.now = put();
        }
        if line.txn == *expected {
            self.then = put();
        }
        let has_last = self.last.is_some() || (*revision > 0 && line.txn < *revision);
        // Of an object that is or was not there, there is nothing to compare.
        let has_then = *expected == 0 || *revision == 0 || line.txn <= *expected;
        self.is_over = has_last && has_then;
    }

    fn answer(self) -> Found {
        let Stale { key, expected, revision } = self.stale;
        let (changed_by, changed_at) = self.last.unwrap_or_default();
        let fields = self.then.zip(self.now).and_then(|(then, now)| differing(&then, &now));
        let compared_with = fields.is_some().then_some(expected);
        let fields = fields.unwrap_or_default();
        (key, pb::ChangedSince { revision, changed_by, changed_at, fields, compared_with })
    }
}

/// The fields that differ between two texts of an object, and its labels one by one.
fn differing(then: &str, now: &str) -> Option<Vec<pb::FieldChange>> {
    let [then, now]: [Map<String, Json>; 2] =
        [serde_json::from_str(then).ok()?, serde_json::from_str(now).ok()?];
    let mut fields = between("", &then, &now);
    fields.retain(|change| change.field != LABELS && !NAMES.contains(&&*change.field));
    let labels = |object: &Map<String, Json>| object.get(LABELS).and_then(Json::as_object).cloned();
    fields.extend(between("labels.", &labels(&then).unwrap_or_default(), &labels(&now).unwrap_or_default()));
    Some(fields)
}

fn between(prefix: &str, then: &Map<String, Json>, now: &Map<String, Json>) -> Vec<pb::FieldChange> {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
    let change = |name: &String| pb::FieldChange {
        field: format!("{prefix}{name}"),
        before: then.get(name).map(Json::to_string),
        after: now.get(name).map(Json::to_string),
        left_out: false,
    };
    changed.map(change).collect()
}

/// What people read behind the fault: who did it, and what.
pub(crate) fn text(changed: &pb::ChangedSince) -> Option<String> {
    let pb::ChangedSince { revision, changed_by, changed_at, fields, compared_with } = changed;
    if changed_at.is_empty() {
        return None;
    }
    let by = shown(changed_by);
    if *revision == 0 {
        return Some(format!("{by} deleted it at {changed_at}"));
    }
    let value = |text: &Option<String>| {
        text.as_deref().map_or_else(|| "none".to_owned(), |text| cut(&shown(text)).into_owned())
    };
    let one = |change: &pb::FieldChange| {
        format!("{}: {} -> {}", shown(&change.field), value(&change.before), value(&change.after))
    };
    let mut parts: Vec<String> = fields.iter().take(FIELDS_MAX).map(one).collect();
    if let Some(more) = fields.len().checked_sub(FIELDS_MAX).filter(|more| *more > 0) {
        parts.push(format!("and {more} more fields"));
    }
    let what = match compared_with {
        None => String::new(),
        Some(_) if parts.is_empty() => ", and all fields are as they were".to_owned(),
        Some(then) => format!("; since {then}: {}", parts.join(", ")),
    };
    Some(format!("{by} changed it last, at {changed_at}{what}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const JOURNAL: &str = concat!(
        r#"{"txn":1,"at":"1970-01-01T00:00:01Z","by":"ann","objects":{"put":[{"kind":"switch","id":"a","tenant":"t","labels":{"x":"1","y":"2"}},{"kind":"switch","id":"b"}]}}"#,
        "\n",
        r#"{"txn":2,"at":"1970-01-01T00:00:02Z","by":"switch hv1"}"#,
        "\n",
        r#"{"txn":3,"at":"1970-01-01T00:00:03Z","by":"bob","objects":{"put":[{"kind":"switch","id":"a","tenant":"u","labels":{"x":"1","y":"2"}}]}}"#,
        "\n",
        r#"{"txn":4,"at":"1970-01-01T00:00:04Z","by":"eve","objects":{"put":[{"kind":"switch","id":"a","mtu":9000,"labels":{"y":"3"}}]}}"#,
        "\n",
        r#"{"txn":5,"at":"1970-01-01T00:00:05Z","by":"dan","objects":{"delete":[["switch","b"]]}}"#,
        "\n",
    );

    fn told(id: &str, expected: u64, revision: u64, bytes_max: u64) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        fs::write(&path, JOURNAL).unwrap();
        let stale = Stale { key: ObjectKey::new("switch", id), expected, revision };
        let found = find_within(&path, vec![stale], bytes_max, &Cancel::default()).unwrap();
        assert_eq!(found[0].1.revision, revision);
        text(&found[0].1).unwrap_or_default()
    }

    #[test]
    fn the_fields_that_differ_are_those_since_the_expected_revision() {
        assert_eq!(
            told("a", 1, 4, u64::MAX),
            "eve changed it last, at 1970-01-01T00:00:04Z; since 1: mtu: none -> 9000, tenant: \"t\" -> none, \
             labels.x: \"1\" -> none, labels.y: \"2\" -> \"3\""
        );
        assert!(told("a", 3, 4, u64::MAX).contains("since 3: mtu: none -> 9000, tenant: \"u\" -> none"));
        assert_eq!(
            told("a", 1, 3, u64::MAX),
            "bob changed it last, at 1970-01-01T00:00:03Z; since 1: tenant: \"t\" -> \"u\""
        );
    }

    #[test]
    fn what_is_not_found_is_not_said() {
        let last = "eve changed it last, at 1970-01-01T00:00:04Z";
        assert_eq!(told("a", 2, 4, u64::MAX), last, "it never had this revision");
        assert_eq!(told("a", 9, 4, u64::MAX), last, "nor this one");
        assert_eq!(told("a", 0, 4, u64::MAX), last, "it was not expected to be there");
        assert_eq!(told("b", 1, 0, u64::MAX), "dan deleted it at 1970-01-01T00:00:05Z");
        assert_eq!(told("c", 1, 0, u64::MAX), "");
        assert_eq!(told("a", 1, 4, 250), last, "the journal is read no further");
        assert_eq!(told("a", 1, 4, 10), "");
    }
}
