//! Kinds and fields as a person reads them.

use serde_json::Value as Json;

use super::{Field, alternatives, elements, fields, present};

/// The columns of a line.
const COLUMNS: usize = 100;

/// The kinds, each with its sentence.
pub(super) fn kinds(kinds: &[Json], json: bool) -> String {
    if json {
        return kinds.iter().map(|kind| kind.to_string() + "\n").collect();
    }
    let name = |kind: &'_ Json| kind["kind"].as_str().unwrap_or_default().to_owned();
    let width = kinds.iter().map(|kind| name(kind).len()).max().unwrap_or_default();
    let line = |kind: &Json| {
        let line = format!("{:width$}  {}", name(kind), kind["summary"].as_str().unwrap_or_default());
        line.trim_end().to_owned() + "\n"
    };
    kinds.iter().map(line).collect()
}

/// A kind or a field at a place: what it is, what it is for, and its fields.
pub(super) fn of_field(place: &str, field: &Field<'_>) -> String {
    let is_kind =
        field.is_required.is_none() && field.schema.get("properties").is_some() && !place.contains('.');
    let mut text = if is_kind { format!("{place}\n") } else { format!("{}\n", headline(place, field)) };
    let described = documentation(field.schema);
    if !described.is_empty() {
        text += &format!("\n{}", wrapped(&described, ""));
    }
    let inner = elements(field.schema);
    let below = fields(inner);
    if !below.is_empty() {
        text += "\nFields:\n";
    }
    for (name, field) in below {
        text += &format!("  {}\n{}", headline(name, &field), wrapped(&documentation(field.schema), "      "));
    }
    text
}

/// The name of a field, its type, and what it is without a value.
fn headline(name: &str, field: &Field<'_>) -> String {
    let ty = in_words(field.schema);
    let default = match (field.is_required, field.schema.get("default")) {
        (Some(true), _) => ", required".to_owned(),
        (_, Some(default)) => format!(", default {default}"),
        (Some(false), None) => ", optional".to_owned(),
        (None, None) => String::new(),
    };
    format!("{name} <{ty}>{default}")
}

fn documentation(schema: &Json) -> String {
    let own = schema["description"].as_str().unwrap_or_default();
    own.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The type of a value.
fn in_words(schema: &Json) -> String {
    let schema = present(schema);
    if let Some(members) = schema["enum"].as_array() {
        let members = members.iter().filter(|member| !member.is_null());
        return members
            .map(|member| member.as_str().map_or_else(|| member.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join("|");
    }
    if let Some(all) = schema["oneOf"].as_array() {
        // Lists and words need no name.
        let is_unnamed = |one: &Json| one["type"] == "array" || !one["enum"].is_null();
        let mut ways: Vec<String> = all.iter().filter(|one| is_unnamed(one)).map(in_words).collect();
        let named: Vec<&str> =
            alternatives(schema).filter(|(_, schema)| !is_unnamed(schema)).map(|(name, _)| name).collect();
        if !named.is_empty() {
            ways.push(format!("mapping with {}", named.join("|")));
        }
        return ways.join(", or ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(ty) => vec![ty],
        Json::Array(types) => types.iter().filter_map(Json::as_str).filter(|ty| *ty != "null").collect(),
        _ => Vec::new(),
    };
    match types.first().copied() {
        // Values of header fields are numbers, or texts that mean numbers.
        Some("integer") if types.contains(&"string") => "number or text".to_owned(),
        Some("boolean") => "true|false".to_owned(),
        Some("integer") => integer(schema),
        Some("array") => format!("list of {}", in_words(&schema["items"])),
        Some("object") => match schema.get("additionalProperties") {
            Some(value) if value.is_object() => format!("mapping of names to {}", in_words(value)),
            _ => "mapping".to_owned(),
        },
        Some("string") => schema["title"].as_str().unwrap_or("text").to_owned(),
        _ => "value".to_owned(),
    }
}

/// A whole number, with its bounds if they are not those of 64 bits.
fn integer(schema: &Json) -> String {
    let [least, greatest] = ["minimum", "maximum"].map(|bound| &schema[bound]);
    let least = least.as_i64().filter(|least| *least != i64::MIN);
    let greatest = greatest.as_u64().filter(|greatest| *greatest < i64::MAX as u64);
    match (least, greatest) {
        (Some(least), Some(greatest)) => format!("number from {least} to {greatest}"),
        (Some(least), None) => format!("number from {least}"),
        (None, Some(greatest)) => format!("number up to {greatest}"),
        (None, None) => "number".to_owned(),
    }
}

/// A text in lines of a terminal, each after this margin.
fn wrapped(text: &str, margin: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let would_be = margin.len() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && would_be > COLUMNS {
            lines += &format!("{margin}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        lines += &format!("{margin}{line}\n");
    }
    lines
}
