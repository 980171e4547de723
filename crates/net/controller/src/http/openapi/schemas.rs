//! The schemas of the description that are the same for all rules.

use serde_json::{Map, Value as Json, json};

use super::{reference, schema_of};
use crate::problem::KNOWN;

/// A name: of an object, or of a label.
const NAME: &str = "[A-Za-z0-9][A-Za-z0-9_.:@-]*";

pub(super) fn shared() -> Map<String, Json> {
    let schemas = [
        ("object", object()),
        ("list", list()),
        ("receipt", receipt()),
        ("history", history()),
        ("problem", problem()),
        ("trace", trace()),
        ("question", question()),
        (
            "merge_patch",
            json!({"description": "Fields to set; `null` gives a field its default.", "type": "object"}),
        ),
    ];
    schemas.map(|(name, schema)| (name.to_owned(), schema)).into_iter().collect()
}

/// Changes a schema into an equal one that generators of clients take: they know no objects as defaults.
pub(super) fn ease(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            if let Some(default) = members.remove("default") {
                let name = if default.is_object() { "x-default" } else { "default" };
                members.insert(name.to_owned(), default);
            }
            for (keyword, value) in members {
                match value {
                    // The names in it are those of fields, and no keywords.
                    Json::Object(fields) if keyword == "properties" => fields.values_mut().for_each(ease),
                    value => ease(value),
                }
            }
        }
        Json::Array(elements) => elements.iter_mut().for_each(ease),
        _ => {}
    }
}

/// The schema of an id.
pub(super) fn id() -> Json {
    json!({"type": "string", "pattern": format!("^{NAME}$"), "maxLength": 255})
}

fn object() -> Json {
    json!({
        "type": "object",
        "required": ["kind", "id", "revision", "state"],
        "properties": {
            "kind": {"type": "string"},
            "id": {"type": "string"},
            "revision": {"description": "The transaction that last changed the object. In quotes it is the `etag`.", "type": "integer"},
            "state": {
                "description": "What the rules say of the object.",
                "type": "object",
                "required": ["problems", "created"],
                "properties": {
                    "problems": {"type": "array", "items": {"type": "string"}},
                    "created": {"description": "The transaction that created the object.", "type": "integer"},
                },
            },
        },
    })
}

fn list() -> Json {
    json!({
        "type": "object",
        "required": ["items", "revision"],
        "properties": {
            "items": {"type": "array", "items": schema_of("object")},
            "revision": {"description": "The moment that the list shows, from which a watch goes on. It is no transaction.", "type": "integer"},
            "continue": {"description": "There is more: the value of `continue` of the next request.", "type": "string"},
        },
    })
}

fn receipt() -> Json {
    json!({
        "type": "object",
        "required": ["objects", "warnings"],
        "properties": {
            "txn": {"description": "The transaction; absent if nothing changed.", "type": "integer"},
            "objects": {"description": "What happened to each.", "type": "array", "items": {"type": "object"}},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "dry_run": {"type": "boolean"},
            "delta": {"description": "With `dry_run`: the flows that would change, by host, table and rule.", "type": "object"},
            "engine": {"description": "For other rules: whether the engine is edited, and how many rows the edit derives. Otherwise, another engine derives all rows.", "type": "object"},
            "repeated": {"description": "This is the answer to an earlier request with the same key.", "type": "boolean"},
            "receipt": {"description": "With `wait=installed`: what each switch has confirmed.", "type": "object"},
        },
    })
}

fn history() -> Json {
    json!({
        "type": "object",
        "required": ["entries"],
        "properties": {
            "entries": {"description": "Transactions, the newest first.", "type": "array", "items": {
                "type": "object",
                "required": ["txn", "at", "by", "objects"],
                "properties": {
                    "txn": {"type": "integer"},
                    "at": {"type": "string"},
                    "by": {"description": "Who asked for it, by its own account.", "type": "string"},
                    "peer": {"description": "Who that was according to the system.", "type": "string"},
                    "objects": {"description": "What became of each.", "type": "array", "items": {"type": "object"}},
                    "more": {"description": "The number of further objects.", "type": "integer"},
                    "object": {"description": "The object that is asked for, as it was after that.", "type": "object"},
                },
            }},
            "before": {"description": "If it is not 0: `before` of the request for older ones.", "type": "integer"},
        },
    })
}

fn problem() -> Json {
    let mut codes: Vec<&str> = KNOWN.iter().map(|known| known.code).collect();
    codes.sort_unstable();
    codes.dedup();
    json!({
        "description": "A refusal or a failure (RFC 9457).",
        "type": "object",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"description": "For programs; `x-problems` lists what they mean.", "type": "string", "enum": codes},
            "detail": {"description": "For people.", "type": "string"},
            "object": {"description": "With `stale`: the object; `faults` has more of them.", "type": "object"},
            "revision": {"description": "With `stale`: the object's present revision; 0 if it is gone.", "type": "integer"},
            "changed_by": {"description": "With `stale`: who changed it last.", "type": "string"},
            "changed_at": {"description": "With `stale`: when that was.", "type": "string"},
            "compared_with": {"description": "The revision that `fields` are compared with; absent if it was not found.", "type": "integer"},
            "fields": {"description": "With `stale`: the fields that differ since then.", "type": "array", "items": {"type": "object"}},
            "faults": {"type": "array", "items": {
                "type": "object",
                "required": ["code", "message", "text"],
                "properties": {
                    "code": {"type": "string"},
                    "path": {"description": "The field, such as `addresses[0].mac`.", "type": "string"},
                    "message": {"type": "string"},
                    "text": {"type": "string"},
                    "changed": {"description": "With `stale`: what has become of the object, by the same names as above.", "type": "object"},
                },
            }},
        },
    })
}

/// The name of an object, in the body of a question.
fn named() -> Json {
    json!({
        "type": "object",
        "required": ["kind", "id"],
        "properties": {"kind": {"type": "string"}, "id": {"type": "string"}},
        "additionalProperties": false,
    })
}

fn trace() -> Json {
    let text = |what: &str| json!({"description": what, "type": "string"});
    let number = |what: &str, least: u32, most: u32| json!({"description": what, "type": ["integer", "null"], "minimum": least, "maximum": most});
    json!({
        "description": "A packet, in words or as a flow expression of Open vSwitch or as a frame, and where it begins.",
        "type": "object",
        "required": ["from"],
        "properties": {
            "from": text("The port that sends it."),
            "to": text("The port that it is for: its addresses become the destination."),
            "ip": text("The destination address."),
            "from_ip": text("The source address, if it is not that of the port."),
            "from_mac": text("The source MAC address, if it is not that of the port."),
            "to_mac": text("The destination MAC address."),
            "tcp": number("The destination port of TCP.", 0, 65535),
            "udp": number("The destination port of UDP.", 0, 65535),
            "ttl": number("The TTL.", 0, 255),
            "size": number("The size of the packet in bytes.", 0, 65535),
            "flow": {"description": "A flow expression of Open vSwitch, instead of the packet in words.", "type": ["string", "null"]},
            "frame": {"description": "An Ethernet frame in hexadecimal digits, instead of the packet in words.", "type": ["string", "null"]},
            "connection": {"description": "Where in its connection the packet is.", "enum": ["new", "established", "reply", "related"], "default": "new"},
            "live": {"description": "Whether to ask the switches about their flows.", "type": "boolean"},
            "with": {"description": "Objects to try out.", "type": "array", "items": {"type": "object"}},
            "without": {"description": "Objects to try to delete.", "type": "array", "items": named()},
        },
        "additionalProperties": false,
    })
}

fn question() -> Json {
    let not = |names: &[&str]| -> Json { names.iter().map(|name| json!({"required": [name]})).collect() };
    json!({
        "description": "About a row, a flow of a host, or an object: one of the three.",
        "type": "object",
        "properties": {
            "row": {"description": "A row as in a rule, such as `switch(\"blue\", ..)`.", "type": "string"},
            "node": {"description": "The transport node that has the flow.", "type": "string"},
            "flow": {"description": "A flow as `ovs-ofctl` prints it.", "type": "string"},
            "object": named(),
            "rows": {"description": "The most rows to explain; 0 for the usual number.", "type": "integer", "minimum": 0, "maximum": u32::MAX},
        },
        "oneOf": [
            {"required": ["row"], "not": {"anyOf": not(&["node", "flow", "object"])}},
            {"required": ["node", "flow"], "not": {"anyOf": not(&["row", "object"])}},
            {"required": ["object"], "not": {"anyOf": not(&["row", "node", "flow"])}},
        ],
        "additionalProperties": false,
    })
}

/// The parameters of several operations.
pub(super) fn parameters() -> Json {
    let query = |name: &str, what: &str, schema: Json| json!({"name": name, "in": "query", "description": what, "schema": schema});
    let flag = |name: &str, what: &str| query(name, what, json!({"type": "boolean"}));
    let header = |name: &str, what: &str, schema: Json| json!({"name": name, "in": "header", "description": what, "schema": schema});
    let tag = || json!({"type": "string", "pattern": "^\"[0-9]{1,19}\"$"});
    json!({
        "id": {"name": "id", "in": "path", "required": true, "description": "The id of the object", "schema": id()},
        "by": header("weft-by", "Who asks, for the journal", json!({"type": "string", "pattern": "^[ -~]{0,255}$"})),
        "key": header(
            "idempotency-key",
            "A key of the request, such as a UUID. Repeated within an hour, the request gets the first answer.",
            json!({"type": "string", "pattern": "^[!-~]{1,255}$"}),
        ),
        "strict": flag("strict", "Refuse the request if it brings new problems"),
        "careful": flag("careful", "Refuse the request if it deletes a host of ports that stay, or prunes more than 10 objects and more than a tenth of all"),
        "dry_run": flag("dry_run", "Answer as if the request took effect, without effect"),
        "wait": query("wait", "When to answer", json!({"enum": ["accepted", "computed", "installed"], "default": "computed"})),
        "timeout": query(
            "timeout",
            "With `wait=installed`: the longest wait for switches, in seconds or as `500ms`, `2m`",
            json!({"type": "string", "pattern": "^[0-9]{1,9}(?:ms|s|m|h)?$", "default": "60"}),
        ),
        "if_match": header("if-match", "Refuse the request unless the object has this `etag`", tag()),
        "if_none_match": header("if-none-match", "Refuse the request if the object exists", json!({"type": "string", "pattern": "^\\*$"})),
        "if_changed": header("if-none-match", "Answer 304 if the object still has this `etag`", json!({"type": "string"})),
    })
}

/// Texts separated by commas, each of this form: as a pattern.
fn several(one: &str) -> Json {
    json!({"type": "string", "pattern": format!("^{one}(?:,{one}){{0,63}}$")})
}

/// What selects objects by labels. A key is not empty, and no value has a comma.
pub(super) fn label_selector() -> Json {
    several("(?:[^=,!][^=,]*|![^=,]+)(?:=[^,]*)?")
}

/// What selects objects by these fields.
pub(super) fn field_selector(fields: &[&str]) -> Json {
    const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let address = format!("{OCTET}(?:\\.{OCTET}){{3}}|[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}}){{7}}");
    several(&format!("(?:(?:{})(?:\\.[^=,]*)?(?:!?=[^,]*)?|\\*=(?:{address}))", fields.join("|")))
}

/// Where a list continues.
pub(super) fn place() -> Json {
    json!({"type": "string", "pattern": "^(?:[0-9]{1,19}:.*)?$"})
}

/// The answers that are problems, by status, with what each code means.
pub(super) fn refusals() -> Map<String, Json> {
    let mut refusals = Map::new();
    for known in &KNOWN {
        let text = format!("`{}`: {} {}", known.code, known.means, known.remedy);
        let answer = refusals.entry(format!("problem_{}", known.status)).or_insert_with(|| {
            json!({"description": "", "content": {crate::problem::MEDIA_TYPE: {"schema": schema_of("problem")}}})
        });
        let so_far = answer["description"].as_str().unwrap_or_default();
        answer["description"] = [so_far, &text].join(if so_far.is_empty() { "" } else { "\n" }).into();
    }
    refusals
}

/// The reference to an answer that is a problem.
pub(super) fn refusal(status: u16) -> (String, Json) {
    (status.to_string(), reference("responses", &format!("problem_{status}")))
}

/// All codes of problems.
pub(super) fn problems() -> Json {
    let of = |known: &crate::problem::Known| json!({"status": known.status, "code": known.code, "means": known.means, "remedy": known.remedy});
    KNOWN.iter().map(of).collect()
}
