//! The kinds as JSON Schema, for editors.

use nlog_data::{Constrained, Meaning, ObjectField, ObjectKind, Record, Type, Value};

use serde_json::{Map, Value as Json, json};

use crate::field::{LABEL_CHARS_MAX, NAME_BYTES_MAX};
use crate::print::{Printed, Unnamed, pair, single};
use crate::read::{DELETE, ID, KIND, LABELS, REVISION, STATE};
use crate::value::{absent, range};
use crate::{Kind, Kinds};

/// The form of an IP address with the length of its prefix.
const INTERFACE_ADDRESS_PATTERN: &str = "^[0-9A-Fa-f:.]+/[0-9]{1,3}$";

/// The form of six pairs of hexadecimal digits; a pair can be one digit.
const MAC_PATTERN: &str = "^([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}$";

impl Kinds {
    /// A JSON Schema, draft 2020-12, of one object in a document of `weft apply`. It says which form a document must
    /// have: fields, types, ranges, members of enumerations. What only the reader checks, such as declared conditions,
    /// it does not say.
    pub fn json_schema(&self) -> Json {
        let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let of_kinds: Map<String, Json> =
            self.iter().map(|kind| (kind.name().to_owned(), of_kind(kind.declared()))).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "A network object",
            "type": "object",
            "required": [KIND, ID],
            "oneOf": self.names().map(reference).collect::<Vec<_>>(),
            "$defs": of_kinds,
        })
    }
}

impl Kind {
    /// A JSON Schema, draft 2020-12, of an object of this kind in a request that names the kind and the id besides: it need not have them.
    pub fn json_schema(&self) -> Json {
        let kind = self.declared();
        let mut schema = whole(kind);
        schema["title"] = kind.name.as_str().into();
        schema["type"] = "object".into();
        if !kind.doc.trim().is_empty() {
            schema["description"] = kind.doc.trim().into();
        }
        schema
    }
}

/// The schema of a kind. The fields of an object to delete do not count.
fn of_kind(kind: &ObjectKind) -> Json {
    let mut schema = json!({
        "type": "object",
        "properties": {KIND: {"const": kind.name}, ID: name(), REVISION: revision()},
        "required": [KIND, ID],
        "if": {"properties": {DELETE: {"const": true}}, "required": [DELETE]},
        "else": whole(kind),
    });
    if !kind.doc.trim().is_empty() {
        schema["description"] = kind.doc.trim().into();
    }
    schema
}

/// The schema of an object that is not deleted.
fn whole(kind: &ObjectKind) -> Json {
    let mut properties = Map::new();
    properties.insert(KIND.to_owned(), json!({"const": kind.name}));
    let id = format!("Unique among the ids of name space `{}`.", kind.id_space);
    properties.insert(ID.to_owned(), with(name(), "description", id));
    properties.insert(LABELS.to_owned(), labels());
    properties.insert(STATE.to_owned(), json!({"description": "Ignored: what `weft get --json` adds."}));
    properties.insert(
        DELETE.to_owned(),
        json!({"description": "Whether the object is deleted: not this one.", "type": ["boolean", "null"], "not": {"const": true}}),
    );
    properties.insert(REVISION.to_owned(), revision());
    let mut required = Vec::new();
    let mut conditions = Vec::new();
    for field in &kind.fields {
        let schema = nullable_if(is_optional(field), of_type(&field.ty));
        for former in &field.formers {
            properties.insert(former.clone(), former_schema(field));
        }
        properties.insert(field.name.clone(), described(field, schema));
        match (is_optional(field), field.formers.is_empty()) {
            (true, _) => {}
            (false, true) => required.push(field.name.clone()),
            (false, false) => {
                let names: Vec<Json> = names(field).map(|name| json!({"required": [name]})).collect();
                conditions.push(json!({"anyOf": names}));
            }
        }
        let names: Vec<&str> = names(field).collect();
        for (at, first) in names.iter().enumerate() {
            let pairs = names[at + 1..].iter().map(|second| json!({"not": {"required": [first, second]}}));
            conditions.extend(pairs);
        }
    }
    let mut whole = json!({"properties": properties, "required": required, "additionalProperties": false});
    if !conditions.is_empty() {
        whole["allOf"] = conditions.into();
    }
    whole
}

/// The names of a field, present and former.
fn names(field: &ObjectField) -> impl Iterator<Item = &str> {
    std::iter::once(&field.name).chain(&field.formers).map(String::as_str)
}

fn is_optional(field: &ObjectField) -> bool {
    field.default.is_some()
}

/// Under a former name, a list of one value can be given as that value.
fn former_schema(field: &ObjectField) -> Json {
    let schema = match single(&field.ty) {
        Some(of) => json!({"anyOf": [of_type(&field.ty), of_type(of)]}),
        None => of_type(&field.ty),
    };
    let schema = nullable_if(is_optional(field), schema);
    let schema = with(schema, "description", format!("The former name of `{}`.", field.name));
    with(schema, "deprecated", true)
}

fn described(field: &ObjectField, mut schema: Json) -> Json {
    if !field.doc.trim().is_empty() {
        schema = with(schema, "description", field.doc.trim());
    }
    match &field.default {
        None | Some(Value::None) => schema,
        Some(value) => with(schema, "default", to_json(&field.ty, value)),
    }
}

/// A value as JSON.
pub(crate) fn to_json(ty: &Type, value: &Value) -> Json {
    serde_json::to_value(Printed { ty, value }).unwrap_or_default()
}

fn with(mut schema: Json, keyword: &str, value: impl Into<Json>) -> Json {
    schema[keyword] = value.into();
    schema
}

/// The schema, which also admits `null` if the value can be absent.
fn nullable_if(is_nullable: bool, schema: Json) -> Json {
    if is_nullable { nullable(schema) } else { schema }
}

fn nullable(mut schema: Json) -> Json {
    if let Some(members) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        if !members.contains(&Json::Null) {
            members.push(Json::Null);
        }
        return schema;
    }
    match schema.get("type") {
        Some(Json::String(ty)) => {
            let types = json!([ty, "null"]);
            with(schema, "type", types)
        }
        Some(_) => schema,
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn name() -> Json {
    json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:@-]*$", "maxLength": NAME_BYTES_MAX})
}

fn revision() -> Json {
    json!({
        "description": "The transaction that changed the object last: the object is written only if that is so. \
            With 0, only if the object does not exist.",
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": u64::MAX,
    })
}

fn labels() -> Json {
    // A text of one line: no control characters.
    let value = json!({"type": "string", "maxLength": LABEL_CHARS_MAX, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"});
    json!({
        "description": "Texts by key, for rules.",
        "type": ["object", "null"],
        "propertyNames": name(),
        "additionalProperties": value,
    })
}

/// The schema of a value. Texts of a special form have titles, which tell a person what is wanted; they are no names of types.
fn of_type(ty: &Type) -> Json {
    match ty {
        Type::Bool => json!({"type": "boolean"}),
        Type::Int => integer(ty),
        Type::String => json!({"type": "string"}),
        Type::Match => json!({"type": "string", "title": "OpenFlow match"}),
        Type::Actions => json!({"type": "string", "title": "OpenFlow actions"}),
        Type::Mac => json!({"type": "string", "title": "MAC address", "pattern": MAC_PATTERN}),
        Type::Ip => {
            json!({"type": "string", "title": "IP address", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
        }
        Type::Net => json!({"type": "string", "title": "prefix or IP address"}),
        Type::InterfaceAddress => json!({
            "type": "string", "title": "IP address with the length of its prefix", "pattern": INTERFACE_ADDRESS_PATTERN,
        }),
        Type::PacketFilter => packet_filter(),
        Type::Enum(of) => json!({"enum": of.members}),
        Type::Opt(of) => nullable(of_type(of)),
        Type::List(of) | Type::Set(of) => json!({"type": "array", "items": of_type(of)}),
        Type::Record(of) => of_record(of),
        Type::Constrained(of) => of_constrained(of, ty),
    }
}

/// The schema of a mapping of header fields, whose values are numbers or texts.
fn packet_filter() -> Json {
    let value = json!({"type": ["integer", "string", "null"], "minimum": i64::MIN, "maximum": u64::MAX});
    let properties: Map<String, Json> =
        packet_filter::field_names().map(|name| (name.to_owned(), value.clone())).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn of_constrained(of: &Constrained, ty: &Type) -> Json {
    match &of.meaning {
        Meaning::Value if ty.base() == &Type::Int => integer(ty),
        Meaning::Value => of_type(&of.base),
        Meaning::Reference(kinds) => {
            let id = format!("id of a {}", kinds.join(" or a "));
            let schema = with(name(), "description", format!("The {id}."));
            with(schema, "title", id)
        }
        Meaning::Mapping => match pair(of) {
            Some((key, value)) => {
                json!({"type": "object", "propertyNames": of_key(key), "additionalProperties": of_type(value)})
            }
            None => json!(false),
        },
        Meaning::Choice => ty.alternatives().map_or(json!(false), of_choice),
    }
}

fn integer(ty: &Type) -> Json {
    let (least, greatest) = range(ty).unwrap_or((i64::MIN, i64::MAX));
    json!({"type": "integer", "minimum": least, "maximum": greatest})
}

/// The schema of the keys of a mapping, which are texts.
fn of_key(ty: &Type) -> Json {
    match ty.base() {
        Type::Int => json!({"pattern": "^[+-]?[0-9]+$"}),
        Type::Bool => json!({"enum": ["true", "false"]}),
        _ => of_type(ty),
    }
}

fn of_record(of: &Record) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, ty) in &of.fields {
        let is_optional = absent(ty).is_some();
        properties.insert(name.clone(), nullable_if(is_optional, of_type(ty)));
        if !is_optional {
            required.push(name.clone());
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The schema of just one of several alternatives, of which some may need no name.
fn of_choice(alternatives: &Record) -> Json {
    // A field without a value is absent.
    let absent = json!({"type": "null"});
    let absent: Map<String, Json> =
        alternatives.fields.iter().map(|(name, _)| (name.clone(), absent.clone())).collect();
    let present = |ty: &Type| match ty.base() {
        Type::Opt(of) => of_type(of),
        _ => json!(false),
    };
    let named = alternatives.fields.iter().map(|(name, ty)| {
        let mut properties = absent.clone();
        properties.insert(name.clone(), present(ty));
        json!({"type": "object", "properties": properties, "required": [name], "additionalProperties": false})
    });
    let unnamed = alternatives.fields.iter().filter(|(_, ty)| Unnamed::of(ty).is_some());
    let all: Vec<Json> = unnamed.map(|(_, ty)| present(ty)).chain(named).collect();
    json!({"oneOf": all})
}
