//! `weft history`: who changed what.

use clap::Args;
use controller::pb::{self, HistoryEntry, HistoryResponse, ObjectOutcome};
use serde_json::{Map, Value as Json};
use weft_core::shown;

use super::answer::{flow, short, word};
use super::{Address, failed};
use crate::exit::{Failure, print_as, say};

/// The most objects that a line names, and the most characters of a value.
const OBJECTS_MAX: usize = 3;
const VALUE_MAX: usize = 60;

/// Arguments of `weft history`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft history                         the last transactions that changed objects\n  \
        weft history switch_port web-1       ... that changed this one, and how\n\n\
        `weft rollback --to TXN` brings all objects back to what they were after a transaction.")]
pub(crate) struct History {
    /// A kind of object
    #[arg(requires = "id")]
    kind: Option<String>,
    /// The object
    id: Option<String>,
    /// Only transactions before this one
    #[arg(long, value_name = "TXN", default_value_t = 0, hide_default_value = true)]
    before: u64,
    /// The most transactions
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u32,
    /// Print JSON, one transaction per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl History {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let History { kind, id, before, limit, json, address } = self;
        let object = kind.zip(id).map(|(kind, id)| pb::ObjectRef { kind, id });
        let is_one = object.is_some();
        // The fields that changed follow from a comparison with the entry before.
        let request = pb::HistoryRequest { object, before, limit: limit.saturating_add(u32::from(is_one)) };
        let mut found =
            address.with(|mut client| async move { client.history(request).await.map_err(failed) })?;
        let older = is_one.then(|| cut(&mut found, limit)).flatten();
        let text = if json { lines(&found) } else { to_text(&found, older.as_ref(), is_one) };
        print_as(json, &text)?;
        if found.entries.is_empty() {
            say("nothing has changed");
        } else if found.before > 0 && !json {
            say(format_args!("there is more: --before {}", found.before));
        }
        Ok(())
    }
}

/// Takes off the entry beyond the limit, which only serves to tell what the last one changed.
fn cut(found: &mut HistoryResponse, limit: u32) -> Option<HistoryEntry> {
    let limit = limit as usize;
    if found.entries.len() <= limit {
        return None;
    }
    found.before = found.entries.get(limit.wrapping_sub(1)).map_or(0, |entry| entry.txn);
    found.entries.truncate(limit + 1);
    found.entries.pop()
}

fn lines(found: &HistoryResponse) -> String {
    found.entries.iter().map(|entry| to_json(entry).to_string() + "\n").collect()
}

/// A transaction as JSON.
pub(super) fn to_json(entry: &HistoryEntry) -> Json {
    let objects = entry.objects.iter().map(|object| {
        let key = object.object.clone().unwrap_or_default();
        serde_json::json!({"kind": key.kind, "id": key.id, "outcome": word(object)})
    });
    let mut json = serde_json::json!({
        "txn": entry.txn, "at": entry.at, "by": entry.by, "peer": entry.peer,
        "objects": objects.collect::<Vec<_>>(), "more": entry.more,
    });
    if !entry.object.is_empty() {
        json["object"] = serde_json::from_str(&entry.object).unwrap_or_default();
    }
    json
}

fn to_text(found: &HistoryResponse, older: Option<&HistoryEntry>, is_one: bool) -> String {
    let mut text = String::new();
    for (at, entry) in found.entries.iter().enumerate() {
        let peer = Some(&entry.peer).filter(|peer| !peer.is_empty());
        let peer = peer.map(|peer| format!(" ({})", shown(peer))).unwrap_or_default();
        let (at_time, by) = (&entry.at, shown(&entry.by));
        text += &format!("{}  {at_time}  {by}{peer}\n", entry.txn);
        if is_one {
            let before = found.entries.get(at + 1).or(older);
            text += &changes(entry, before.map_or("", |before| &before.object));
        } else {
            text += &format!("  {}\n", objects(entry));
        }
    }
    text
}

/// The objects of a transaction, in one line.
pub(super) fn objects(entry: &HistoryEntry) -> String {
    let name = |object: &ObjectOutcome| {
        let key = object.object.clone().unwrap_or_default();
        format!("{} {}: {}", key.kind, key.id, word(object))
    };
    let named: Vec<String> = entry.objects.iter().take(OBJECTS_MAX).map(name).collect();
    let more = entry.objects.len().saturating_sub(OBJECTS_MAX) as u64 + entry.more;
    let rest = if more > 0 { format!(", and {more} more objects") } else { String::new() };
    named.join(", ") + &rest
}

/// What a transaction changed of the object, a line for each field.
fn changes(entry: &HistoryEntry, before: &str) -> String {
    let [before, after] = [before, &entry.object]
        .map(|text| serde_json::from_str::<Map<String, Json>>(text).unwrap_or_default());
    let outcome = entry.objects.first().map_or("changed", word);
    let mut text = format!("  {outcome}\n");
    if before.is_empty() || after.is_empty() {
        return text;
    }
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
        let [was, is] = [&before, &after].map(|object| {
            object.get(name).map_or_else(|| "none".to_owned(), |value| short(&flow(value), VALUE_MAX))
        });
        text += &format!("    {name}: {was} -> {is}\n");
    }
    text
}
