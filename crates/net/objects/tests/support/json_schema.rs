//! Whether a JSON value satisfies a schema: the keywords that `Kinds::json_schema` uses. `format` asserts nothing, as
//! in the standard.

use regex::Regex;
use serde_json::Value as Json;

/// Keywords without effect on validity.
const NOTES: &[&str] =
    &["$schema", "$defs", "title", "description", "default", "deprecated", "format", "then", "else"];

pub(crate) fn accepts(root: &Json, json: &Json) -> bool {
    holds(root, root, json)
}

fn holds(root: &Json, schema: &Json, json: &Json) -> bool {
    let keywords = match schema {
        Json::Bool(all) => return *all,
        Json::Object(keywords) => keywords,
        other => panic!("{other} is no schema"),
    };
    keywords.iter().all(|(keyword, wanted)| keyword_holds(root, schema, keyword, wanted, json))
}

fn keyword_holds(root: &Json, schema: &Json, keyword: &str, wanted: &Json, json: &Json) -> bool {
    let list = || wanted.as_array().expect("a list");
    let each = |schema: &Json| holds(root, schema, json);
    match keyword {
        "$ref" => {
            let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
            holds(root, root.pointer(pointer).expect("a definition"), json)
        }
        "type" => match wanted {
            Json::Array(types) => types.iter().any(|ty| has_type(ty, json)),
            ty => has_type(ty, json),
        },
        "const" => json == wanted,
        "enum" => list().contains(json),
        "oneOf" => list().iter().filter(|schema| each(schema)).count() == 1,
        "anyOf" => list().iter().any(each),
        "allOf" => list().iter().all(each),
        "not" => !each(wanted),
        "if" => {
            let branch = if each(wanted) { "then" } else { "else" };
            schema.get(branch).is_none_or(each)
        }
        "minimum" => json.as_f64().is_none_or(|n| n >= wanted.as_f64().expect("a number")),
        "maximum" => json.as_f64().is_none_or(|n| n <= wanted.as_f64().expect("a number")),
        "maxLength" => {
            json.as_str().is_none_or(|s| s.chars().count() as u64 <= wanted.as_u64().expect("a number"))
        }
        "pattern" => json
            .as_str()
            .is_none_or(|text| Regex::new(wanted.as_str().expect("text")).expect("a pattern").is_match(text)),
        "items" => json.as_array().is_none_or(|items| items.iter().all(|item| holds(root, wanted, item))),
        "required" => json
            .as_object()
            .is_none_or(|map| list().iter().all(|name| map.contains_key(name.as_str().expect("text")))),
        "properties" => json.as_object().is_none_or(|map| {
            map.iter().all(|(name, value)| wanted.get(name).is_none_or(|schema| holds(root, schema, value)))
        }),
        "propertyNames" => json
            .as_object()
            .is_none_or(|map| map.keys().all(|name| holds(root, wanted, &Json::String(name.clone())))),
        "additionalProperties" => json.as_object().is_none_or(|map| {
            let is_named = |name: &String| schema["properties"].get(name).is_some();
            map.iter().filter(|(name, _)| !is_named(name)).all(|(_, value)| holds(root, wanted, value))
        }),
        other if NOTES.contains(&other) => true,
        other => panic!("the checker does not know `{other}`"),
    }
}

fn has_type(ty: &Json, json: &Json) -> bool {
    match ty.as_str().expect("the name of a type") {
        "null" => json.is_null(),
        "boolean" => json.is_boolean(),
        "string" => json.is_string(),
        "array" => json.is_array(),
        "object" => json.is_object(),
        "integer" => json.is_i64() || json.is_u64() || json.as_f64().is_some_and(|n| n.fract() == 0.0),
        other => panic!("the checker does not know type `{other}`"),
    }
}
