//! The description of the API (`OpenAPI` 3.1), made of the kinds that the rules declare.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use objects::{Kind, Kinds};
use serde_json::{Map, Value as Json, json};

use super::answer::{self, JSON, LINES, YAML};
use super::objects::Here;
use super::paths::{LISTINGS, OF_NETWORK, PAST, QUESTIONS};
use super::query::Query;
use crate::problem::{MEDIA_TYPE, Problem};

/// `GET /v1/openapi.json`
pub(super) async fn document(
    (Extension(api), _): Here,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    Ok(answer::json(&describe(api.kinds())))
}

/// `GET /v1/schema`: the kinds.
pub(super) async fn kinds((Extension(api), _): Here, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let kind =
        |kind: &Arc<Kind>| json!({"kind": kind.name(), "path": path_of(kind), "summary": kind.summary()});
    let kinds: Vec<Json> = api.kinds().iter().map(kind).collect();
    Ok(answer::json(&json!({"kinds": kinds})))
}

/// `GET /v1/schema/KIND`: a JSON Schema.
pub(super) async fn schema(
    (Extension(api), _): Here,
    Path(kind): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let kind = api.kind_of_path(&kind)?;
    let kind = api
        .kinds()
        .get(&kind)
        .ok_or_else(|| crate::problem::not_found(format!("there is no kind {kind}")))?;
    let mut schema = kind.json_schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    Ok(answer::json(&schema))
}

fn path_of(kind: &Kind) -> String {
    format!("/v1/{}", kind.plural())
}

/// The whole description.
fn describe(kinds: &Kinds) -> Json {
    let mut paths = Map::new();
    let mut schemas = shared_schemas();
    for kind in kinds.iter() {
        schemas.insert(kind.name().to_owned(), kind.json_schema());
        paths.insert(path_of(kind), of_kind(kind));
        paths.insert(format!("{}/{{id}}", path_of(kind)), of_object(kind));
    }
    let plurals: Vec<String> = kinds.iter().map(|kind| kind.plural()).collect();
    for listing in &LISTINGS {
        let kinds = json!({"name": "kinds", "in": "path", "required": true, "schema": {"enum": plurals}});
        let read = operation(listing.name, listing.call, listing.summary, answered("any", &[JSON, LINES]));
        let item = json!({"parameters": [kinds, reference("parameters", "id")], "get": read});
        paths.insert(format!("/v1/{{kinds}}/{{id}}/{}", listing.name), item);
    }
    for path in &OF_NETWORK {
        let read = operation(path.name, path.call, path.summary, answered("any", &[JSON, LINES]));
        paths.insert(format!("/v1/{}", path.name), json!({"get": read}));
    }
    for question in &QUESTIONS {
        let mut asked = operation(question.name, question.call, question.summary, answered("any", &[JSON]));
        asked["requestBody"] = json!({"required": true, "content": {JSON: {"schema": {"type": "object"}}}});
        paths.insert(format!("/v1/{}", question.name), json!({"post": asked}));
    }
    paths.extend(others());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Logical networks, declared as objects. The kinds are those of the rules that run.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "parameters": parameters()},
    })
}

/// The paths that are like no others.
fn others() -> Map<String, Json> {
    let mut paths = Map::new();

    let mut status = operation(
        "status",
        "Status",
        "The controller, its switches and the problems",
        answered("any", &[JSON, YAML]),
    );
    status["parameters"] = json!([query(
        "node",
        "A transport node; several separated by commas. Without it, all.",
        json!({"type": "string"})
    )]);
    let mut apply = operation(
        "apply",
        "Apply",
        "Creates, replaces and deletes objects, in one transaction",
        answered("receipt", &[JSON]),
    );
    let mut terms = terms();
    terms.push(query(
        "prune",
        "Also delete the objects that the request does not name",
        json!({"type": "boolean"}),
    ));
    for (name, what) in [
        ("prune_kind", "Prune objects of this kind alone"),
        ("prune_label", "Prune objects with this label alone, as KEY=VALUE"),
        ("prune_tenant", "Prune objects of this tenant alone"),
    ] {
        terms.push(query(name, what, json!({"type": "string"})));
    }
    apply["parameters"] = terms.into();
    let objects = json!({"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]});
    apply["requestBody"] = json!({"required": true, "content": {
        JSON: {"schema": objects},
        YAML: {"schema": {"description": "Objects, each a document"}},
    }});
    let mut watch = operation(
        "transactions",
        "WatchReceipts",
        "Receipts of transactions, one in each line, as they come and as switches confirm them",
        answered("any", &[LINES]),
    );
    let from = "The first transaction. Without it, those from now on.";
    watch["parameters"] = json!([query("from", from, json!({"type": "integer", "minimum": 0}))]);
    let mut one = operation(
        "transaction",
        "WatchReceipts",
        "The receipt of a transaction: what each switch has confirmed",
        answered("any", &[JSON]),
    );
    let number = json!({"type": "integer", "minimum": 1});
    one["parameters"] = json!([{"name": "txn", "in": "path", "required": true, "schema": number}]);
    let [history, rollback] = &PAST;
    let mut past = operation(history.name, history.call, history.summary, answered("any", &[JSON, YAML]));
    let number = json!({"type": "integer", "minimum": 0});
    past["parameters"] = json!([
        query("kind", "The kind of the object", json!({"type": "string"})),
        query("id", "The id of the object", json!({"type": "string"})),
        query("before", "Only transactions before this one", number.clone()),
        query("limit", "The most transactions", json!({"type": "integer", "minimum": 0, "maximum": 1000})),
    ]);
    let mut back = operation(rollback.name, rollback.call, rollback.summary, answered("receipt", &[JSON]));
    let mut parameters = self::terms();
    let to = json!({"name": "to", "in": "query", "required": true, "description": "The transaction", "schema": number});
    parameters.push(to);
    back["parameters"] = parameters.into();
    paths.insert("/v1/history".to_owned(), json!({"get": past}));
    paths.insert("/v1/rollback".to_owned(), json!({"post": back}));
    paths.insert("/v1/status".to_owned(), json!({"get": status}));
    paths.insert("/v1/apply".to_owned(), json!({"post": apply}));
    // An endless answer is for those who read lines; generated clients would wait for its end.
    watch["x-endless"] = true.into();
    paths.insert("/v1/transactions".to_owned(), json!({"get": watch}));
    paths.insert("/v1/transactions/{txn}".to_owned(), json!({"get": one}));
    paths
}

/// The objects of a kind.
fn of_kind(kind: &Kind) -> Json {
    let mut list = operation(
        &format!("list_{}", kind.plural()),
        "Get",
        &kind.summary(),
        answered("list", &[JSON, YAML, LINES]),
    );
    list["parameters"] = json!([
        query(
            "label",
            "Objects with this label: KEY=VALUE, KEY!=VALUE or KEY; several separated by commas",
            json!({"type": "string"})
        ),
        query(
            "field",
            "Objects with this field: FIELD=VALUE or FIELD!=VALUE, or *=ADDRESS, an IP address in any field; several separated by commas",
            json!({"type": "string"})
        ),
        query(
            "limit",
            "The most objects of a page",
            json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
        ),
        query("continue", "Where the page before says that it continues", json!({"type": "string"})),
        query(
            "watch",
            "Answer with what changes instead, without an end: an event in each line",
            json!({"const": false})
        ),
        query(
            "from",
            "With `watch`: the `revision` of a list or of a bookmark. Without it, from now on.",
            json!({"type": "integer", "minimum": 1})
        ),
    ]);
    list["x-grpc-watch"] = "Watch".into();
    json!({"get": list})
}

/// One object of a kind.
fn of_object(kind: &Kind) -> Json {
    let name = kind.name();
    let of = |verb: &str| format!("{verb}_{name}");
    let mut put = operation(
        &of("put"),
        "Apply",
        &format!("Creates or replaces a {name}"),
        answered("receipt", &[JSON]),
    );
    put["responses"]["201"] = put["responses"]["200"].clone();
    let content = json!({"schema": reference("schemas", name)});
    put["requestBody"] = json!({"required": true, "content": {JSON: content, YAML: content}});
    let mut patch = operation(
        &of("patch"),
        "Set",
        &format!("Changes fields of a {name} (JSON merge patch, RFC 7396)"),
        answered("receipt", &[JSON]),
    );
    let content = json!({"schema": {"type": "object"}});
    patch["requestBody"] = json!({"required": true, "content": {"application/merge-patch+json": content}});
    let mut delete =
        operation(&of("delete"), "Delete", &format!("Deletes a {name}"), answered("receipt", &[JSON]));
    for change in [&mut put, &mut patch, &mut delete] {
        change["parameters"] = terms().into();
    }
    json!({
        "parameters": [reference("parameters", "id")],
        "get": operation(&of("get"), "Get", &format!("A {name}, with its revision and its state"), answered("object", &[JSON, YAML])),
        "put": put,
        "patch": patch,
        "delete": delete,
    })
}

/// An operation without parameters, and the call of gRPC that does the same.
fn operation(id: &str, call: &str, summary: &str, responses: Json) -> Json {
    json!({
        "operationId": id.replace('-', "_"),
        "summary": summary,
        "x-grpc-call": call,
        "responses": responses,
    })
}

/// The answer with this schema in these media types, or a problem.
fn answered(schema: &str, media: &[&str]) -> Json {
    let of_media = |media: &&str| {
        let schema = if *media == JSON { json!({"schema": reference("schemas", schema)}) } else { json!({}) };
        ((*media).to_owned(), schema)
    };
    let content: Map<String, Json> = media.iter().map(of_media).collect();
    json!({
        "200": {"description": "As asked.", "content": content},
        "default": {
            "description": "Refused or failed; `code` says why.",
            "content": {MEDIA_TYPE: {"schema": reference("schemas", "problem")}},
        },
    })
}

fn reference(of: &str, name: &str) -> Json {
    json!({"$ref": format!("#/components/{of}/{name}")})
}

fn query(name: &str, description: &str, schema: Json) -> Json {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// The parameters of every request that changes objects.
fn terms() -> Vec<Json> {
    ["by", "key", "strict", "careful", "dry_run", "wait", "timeout", "if_match", "if_none_match"]
        .map(|name| reference("parameters", name))
        .into()
}

fn parameters() -> Json {
    let flag = |name: &str, what: &str| query(name, what, json!({"type": "boolean"}));
    let header = |name: &str, what: &str, pattern: &str| json!({"name": name, "in": "header", "description": what, "schema": {"type": "string", "pattern": pattern}});
    json!({
        "id": {
            "name": "id", "in": "path", "required": true,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:@-]*$", "maxLength": 255},
        },
        "by": header("weft-by", "Who asks, for the journal", "^[ -~]{0,255}$"),
        "key": header("idempotency-key", "A key of the request. Repeated within an hour, it gets the first answer.", "^[!-~]{1,255}$"),
        "strict": flag("strict", "Refuse the request if it brings new problems"),
        "careful": flag("careful", "Refuse the request if it does more harm than it may mean"),
        "dry_run": flag("dry_run", "Answer as if the request took effect, without effect"),
        "wait": query("wait", "When to answer", json!({"enum": ["accepted", "computed", "installed"], "default": "computed"})),
        "timeout": query("timeout", "The longest wait for switches, in seconds", json!({"type": "integer", "minimum": 0, "maximum": 3600})),
        "if_match": header("if-match", "Refuse the request unless the object has this `etag`", "^\"[0-9]{1,19}\"$"),
        "if_none_match": header("if-none-match", "Refuse the request if the object exists", "^\\*$"),
    })
}

fn shared_schemas() -> Map<String, Json> {
    let schemas = json!({
        "any": {"type": ["object", "array"]},
        "object": {
            "type": "object",
            "required": ["kind", "id", "revision", "state"],
            "properties": {
                "kind": {"type": "string"},
                "id": {"type": "string"},
                "revision": {"description": "The transaction that last changed the object.", "type": "integer"},
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
        },
        "list": {
            "type": "object",
            "required": ["items", "revision"],
            "properties": {
                "items": {"type": "array", "items": reference("schemas", "object")},
                "revision": {"description": "The last transaction whose effects the list shows.", "type": "integer"},
                "continue": {"description": "There is more: the value of `continue` of the next request.", "type": "string"},
            },
        },
        "receipt": {
            "type": "object",
            "required": ["objects", "warnings"],
            "properties": {
                "txn": {"description": "The transaction; absent if nothing changed.", "type": "integer"},
                "objects": {"type": "array", "items": {"type": "object"}},
                "warnings": {"type": "array", "items": {"type": "string"}},
                "dry_run": {"type": "boolean"},
            },
        },
        "problem": {
            "description": "A refusal or a failure (RFC 9457).",
            "type": "object",
            "required": ["type", "title", "status", "code", "detail"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "code": {"description": "For scripts.", "type": "string"},
                "detail": {"type": "string"},
                "faults": {"type": "array", "items": {
                    "type": "object",
                    "required": ["code", "message", "text"],
                    "properties": {
                        "code": {"type": "string"},
                        "path": {"description": "The field, such as `addresses[0].mac`.", "type": "string"},
                        "message": {"type": "string"},
                        "text": {"type": "string"},
                    },
                }},
            },
        },
    });
    match schemas {
        Json::Object(schemas) => schemas,
        _ => Map::new(),
    }
}
