//! Messages of `proto/weft/v1/weft.proto` as JSON: the forms of the fields whose JSON is not that of their Rust type.
//!
//! The generated code names these functions; the list is in `tests/interface_code.rs`.

#![allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde calls these functions with references to fields"
)]

use serde::Serialize;
use serde::ser::{Error as _, SerializeSeq as _, Serializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::pb;

/// The name of an outcome, such as `created`.
pub(crate) fn outcome<S: Serializer>(outcome: &i32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match pb::Outcome::try_from(*outcome).unwrap_or_default() {
        pb::Outcome::Unspecified => "unspecified",
        pb::Outcome::Created => "created",
        pb::Outcome::Updated => "updated",
        pb::Outcome::Unchanged => "unchanged",
        pb::Outcome::Deleted => "deleted",
        pb::Outcome::Absent => "absent",
    })
}

/// How far a switch is, such as `confirmed`.
pub(crate) fn switch_state<S: Serializer>(state: &i32, to: S) -> Result<S::Ok, S::Error> {
    let name = pb::switch_receipt::State::try_from(*state).unwrap_or_default().as_str_name();
    to.serialize_str(&name.trim_start_matches("STATE_").to_lowercase())
}

/// A number of 64 bits, as Open vSwitch prints cookies: JSON has no numbers that are exact to that length.
pub(crate) fn cookie<S: Serializer>(cookie: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format!("{cookie:#x}"))
}

pub(crate) fn optional_cookie<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => cookie(number, to),
        None => to.serialize_none(),
    }
}

/// A text that is JSON; nothing if it is empty.
pub(crate) fn json_text<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() { to.serialize_none() } else { raw::<S>(text)?.serialize(to) }
}

pub(crate) fn optional_json_text<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    json_text(text.as_deref().unwrap_or_default(), to)
}

/// Texts that are JSON.
pub(crate) fn json_texts<S: Serializer>(texts: &[String], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(texts.len()))?;
    for text in texts {
        list.serialize_element(raw::<S>(text)?)?;
    }
    list.end()
}

fn raw<S: Serializer>(text: &str) -> Result<&RawValue, S::Error> {
    serde_json::from_str(text).map_err(S::Error::custom)
}

/// A message as JSON, in which what is empty is absent.
pub(crate) fn to_json(message: &impl Serialize) -> Json {
    let mut json = serde_json::to_value(message).unwrap_or_default();
    prune(&mut json);
    json
}

/// The members that hold values of users, where an empty text is a value.
const VALUES: [&str; 5] = ["before", "after", "columns", "object", "rows"];

/// Removes members without a value: `null` and empty texts. Numbers and lists stay.
fn prune(json: &mut Json) {
    match json {
        Json::Object(members) => {
            members.retain(|name, value| {
                let is_value = VALUES.contains(&name.as_str());
                !value.is_null() && (is_value || value.as_str() != Some(""))
            });
            let others = members.iter_mut().filter(|(name, _)| !VALUES.contains(&name.as_str()));
            others.for_each(|(_, value)| prune(value));
        }
        Json::Array(values) => values.iter_mut().for_each(prune),
        _ => {}
    }
}
