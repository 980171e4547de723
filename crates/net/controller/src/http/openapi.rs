//! The description of the API (`OpenAPI` 3.1), made of the kinds that the rules declare.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::response::Response;
use objects::{Kind, Kinds};
use serde_json::{Map, Value as Json, json};
use weft_core::listings::Description;
use weft_core::rules::Rules;

use super::answer::{self, EVENTS, Form, JSON, LINES, YAML, ZSTD};
use super::objects::Here;
use super::paths::{DECLARED, LISTINGS, Listed, OF_MACHINE, OF_NETWORK, PAST, QUESTIONS, RULES, SNAPSHOT};
use super::query::{Path, Query};
use crate::problem::Problem;

mod schemas;

/// The statuses of problems that any request can be answered with.
const ALWAYS: [u16; 7] = [400, 403, 408, 413, 429, 500, 503];
/// Those of a request that changes objects.
const OF_CHANGE: [u16; 3] = [409, 412, 422];

/// `GET /v1/openapi.json`
pub(super) async fn document(
    (Extension(api), _): Here,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let describe =
        |rules: &Rules| Bytes::from(format!("{}\n", describe(rules.kinds(), &Description::all(rules))));
    Ok(answer::answer(Form::Json, api.description(describe)))
}

/// `GET /v1/schema`: the kinds.
pub(super) async fn kinds((Extension(api), _): Here, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let kind =
        |kind: &Arc<Kind>| json!({"kind": kind.name(), "path": path_of(kind), "summary": kind.summary()});
    let kinds: Vec<Json> = api.rules().kinds().iter().map(kind).collect();
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
    let rules = api.rules();
    let kind =
        rules.kinds().get(&kind).ok_or_else(|| super::not_found(format!("there is no kind {kind}")))?;
    let mut schema = kind.json_schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    Ok(answer::json(&schema))
}

fn path_of(kind: &Kind) -> String {
    format!("/v1/{}", kind.plural())
}

/// The whole description.
fn describe(kinds: &Kinds, declared: &[Description]) -> Json {
    let mut paths = Map::new();
    let mut schemas = schemas::shared();
    for kind in kinds.iter() {
        let mut schema = kind.json_schema();
        schemas::ease(&mut schema);
        schemas.insert(kind.name().to_owned(), schema);
        paths.insert(path_of(kind), of_kind(kind));
        paths.insert(format!("{}/{{id}}", path_of(kind)), of_object(kind));
    }
    paths.extend(listings(kinds, declared));
    for question in &QUESTIONS {
        let mut asked = operation(question.name, question.call, question.summary);
        // Of several rows, an explanation is a list.
        asked["responses"] =
            answered(if question.name == "trace" { "message" } else { "any" }, &[JSON], &[404]);
        let schema = if question.name == "trace" { "trace" } else { "question" };
        asked["requestBody"] = json!({"required": true, "content": {JSON: {"schema": schema_of(schema)}}});
        paths.insert(format!("/v1/{}", question.name), json!({"post": asked}));
    }
    paths.insert("/v1/status".to_owned(), json!({"get": status()}));
    paths.insert("/v1/apply".to_owned(), json!({"post": apply()}));
    paths.insert("/v1/transactions".to_owned(), json!({"get": transactions()}));
    paths.insert("/v1/transactions/{txn}".to_owned(), json!({"get": transaction()}));
    paths.extend(past(&kinds_in_path(kinds)));
    paths.extend(of_rules());
    paths.extend(of_itself(kinds));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Logical networks, declared as objects. The kinds are those of the rules that run.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "parameters": schemas::parameters(), "responses": schemas::refusals()},
        "x-problems": schemas::problems(),
    })
}

/// What is listed of objects and of the network.
fn listings(kinds: &Kinds, declared: &[Description]) -> Map<String, Json> {
    let mut paths = declared_listings(kinds, declared);
    let kinds = kinds_in_path(kinds);
    for listing in &LISTINGS {
        let mut read = operation(listing.name, listing.call, listing.summary);
        read["responses"] = answered("message", &[JSON, LINES], &[404, 406]);
        let item = json!({"parameters": [kinds, reference("parameters", "id")], "get": read});
        paths.insert(format!("/v1/{{kinds}}/{{id}}/{}", listing.name), item);
    }
    for path in &OF_NETWORK {
        let mut read = operation(&format!("network_{}", path.name), path.call, path.summary);
        read["responses"] = answered("message", &[JSON, LINES], &[406]);
        paths.insert(format!("/v1/network/{}", path.name), json!({"get": read}));
    }
    let mut read = operation(DECLARED.name, DECLARED.call, DECLARED.summary);
    read["responses"] = answered("message", &[JSON, YAML], &[406]);
    paths.insert(format!("/v1/{}", DECLARED.name), json!({"get": read}));
    let mut read = operation(SNAPSHOT.name, SNAPSHOT.call, SNAPSHOT.summary);
    read["responses"] = answered("message", &[ZSTD], &[404]);
    paths.insert(format!("/v1/{}", SNAPSHOT.name), json!({"get": read}));
    let mut read = operation(OF_MACHINE.name, OF_MACHINE.call, OF_MACHINE.summary);
    read["responses"] = answered("message", &[JSON, LINES], &[406]);
    paths.insert(format!("/v1/{}", OF_MACHINE.name), json!({"get": read}));
    paths
}

/// The listings of the rules: of each kind that they are about, and about all objects.
fn declared_listings(kinds: &Kinds, declared: &[Description]) -> Map<String, Json> {
    let mut paths = Map::new();
    for listing in declared {
        let Description { name, doc, columns, counted, .. } = listing;
        let summary = doc.split_once(". ").map_or(doc.trim(), |(first, _)| first).replace('\n', " ");
        let summary = summary.trim_end_matches('.');
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let read = |id: &str, refusals: &[u16]| {
            let mut read = operation(id, "ReadListing", summary);
            read["description"] = format!("{}\nColumns: {}.", doc.trim(), names.join(", ")).into();
            read["responses"] = answered("message", &[JSON, LINES], refusals);
            if *counted {
                let what = "Also list what hosts have counted, where they can";
                read["parameters"] = json!([query("details", what, json!({"type": "boolean"}))]);
            }
            read
        };
        for kind in listing.kinds.iter().filter_map(|kind| kinds.get(kind)) {
            let of_one = read(&format!("{name}_of_{}", kind.name()), &[404, 406]);
            let item = json!({"parameters": [reference("parameters", "id")], "get": of_one});
            paths.insert(format!("{}/{{id}}/{name}", path_of(kind)), item);
        }
        paths.insert(format!("/v1/network/{name}"), json!({"get": read(name, &[406])}));
    }
    paths
}

/// The parameter of paths that any kind has.
fn kinds_in_path(kinds: &Kinds) -> Json {
    let plurals: Vec<String> = kinds.iter().map(|kind| kind.plural()).collect();
    let schema = json!({"type": "string", "enum": plurals});
    json!({"name": "kinds", "in": "path", "required": true, "description": "The kind, in the plural", "schema": schema})
}

/// The description itself, and the schemas of kinds.
fn of_itself(kinds: &Kinds) -> Map<String, Json> {
    let described = |id: &str, summary: &str, refusals: &[u16]| json!({"operationId": id, "summary": summary, "responses": answered("message", &[JSON], refusals)});
    let names: Vec<String> = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let kind = json!({"name": "kind", "in": "path", "required": true, "description": "The kind", "schema": {"type": "string", "enum": names}});
    let mut schema = described("schema", "The JSON Schema (draft 2020-12) of a kind", &[404]);
    schema["parameters"] = json!([kind]);
    [
        ("/v1/openapi.json", described("openapi", "This description", &[])),
        ("/v1/schema", described("kinds", "The kinds, with their paths", &[])),
        ("/v1/schema/{kind}", schema),
    ]
    .map(|(path, operation)| (path.to_owned(), json!({"get": operation})))
    .into_iter()
    .collect()
}

fn status() -> Json {
    let mut status = operation("status", "Status", "The controller, its switches and the problems");
    status["responses"] = answered("message", &[JSON, YAML], &[404, 406]);
    let what = "A transport node; several separated by commas. Without it, all.";
    let of_tenant = "A tenant, instead of all. With `node`, there are none.";
    let text = || json!({"type": "string"});
    status["parameters"] = json!([query("node", what, text()), query("tenant", of_tenant, text())]);
    status
}

fn apply() -> Json {
    let mut apply = operation("apply", "Apply", "Creates, replaces and deletes objects, in one transaction");
    let mut responses = answered("receipt", &[JSON], &OF_CHANGE);
    refuse(&mut responses, &[415]);
    apply["responses"] = with_headers(responses, &["200"], &["weft-transaction"]);
    let mut terms = terms();
    let flag = json!({"type": "boolean"});
    terms.push(query("prune", "Also delete the objects that the request does not name", flag));
    for (name, what) in [
        ("prune_kind", "With `prune`: delete only objects of this kind"),
        ("prune_label", "With `prune`: delete only objects with this label, as KEY=VALUE"),
        ("prune_tenant", "With `prune`: delete only objects of this tenant"),
    ] {
        terms.push(query(name, what, json!({"type": "string"})));
    }
    apply["parameters"] = terms.into();
    let objects = json!({"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]});
    apply["requestBody"] = json!({"required": true, "content": {
        JSON: {"schema": objects},
        YAML: {"schema": {"description": "Objects, each a document"}},
    }});
    apply
}

fn transactions() -> Json {
    let summary = "Receipts of transactions, one in each line, as they come and as switches confirm them";
    let mut watch = operation("transactions", "WatchReceipts", summary);
    watch["responses"] = answered("message", &[LINES], &[404, 406, 410]);
    let from = "The first transaction. Without it, those from now on.";
    watch["parameters"] = json!([query("from", from, json!({"type": "integer", "minimum": 0}))]);
    // An endless answer is for those who read lines; generated clients would wait for its end.
    watch["x-endless"] = true.into();
    watch
}

fn transaction() -> Json {
    let summary = "The receipt of a transaction of the last 24 hours: what each switch has confirmed";
    let mut one = operation("transaction", "WatchReceipts", summary);
    one["responses"] = answered("message", &[JSON], &[404, 410]);
    let number = json!({"type": "integer", "minimum": 0, "maximum": i64::MAX});
    let txn =
        json!({"name": "txn", "in": "path", "required": true, "description": "Its number", "schema": number});
    one["parameters"] = json!([txn]);
    one
}

/// What was, of all objects and of one, and the way back to it.
fn past(kinds: &Json) -> Map<String, Json> {
    let [history, rollback] = &PAST;
    let number = |most: u64| json!({"type": "integer", "minimum": 0, "maximum": most});
    let read = |id: &str, summary: &str| {
        let mut read = operation(id, history.call, summary);
        read["responses"] = answered("history", &[JSON, YAML], &[404, 406]);
        read["parameters"] = json!([
            query("before", "Only transactions before this one", number(i64::MAX.unsigned_abs())),
            query("limit", "The most transactions; 50 if it is 0", number(1000)),
        ]);
        read
    };
    let of_all = json!({"get": read(history.name, history.summary)});
    let of_one = read(
        "history_of_object",
        "The transactions that changed the object, the newest first, with the object as it was after each",
    );
    let of_one = json!({"parameters": [kinds, reference("parameters", "id")], "get": of_one});
    let mut back = operation(rollback.name, rollback.call, rollback.summary);
    back["responses"] = answered("receipt", &[JSON], &OF_CHANGE);
    refuse(&mut back["responses"], &[410]);
    let of_single = [reference("parameters", "if_match"), reference("parameters", "if_none_match")];
    let mut parameters: Vec<Json> = terms().into_iter().filter(|each| !of_single.contains(each)).collect();
    let mut to = query(
        "to",
        "The transaction after which the objects were as they are to be",
        number(i64::MAX.unsigned_abs()),
    );
    to["required"] = true.into();
    parameters.push(to);
    back["parameters"] = parameters.into();
    let responses = back["responses"].take();
    back["responses"] = with_headers(responses, &["200"], &["weft-transaction"]);
    let back = json!({"post": back});
    [("/v1/history", of_all), ("/v1/{kinds}/{id}/history", of_one), ("/v1/rollback", back)]
        .map(|(path, item)| (path.to_owned(), item))
        .into_iter()
        .collect()
}

/// The rules, their versions, and the change of them.
fn of_rules() -> Map<String, Json> {
    let [history, load, rollback] = &RULES;
    let mut read = operation("rules", history.call, history.summary);
    read["responses"] = answered("message", &[JSON, YAML], &[406]);
    let of_single = [reference("parameters", "if_match"), reference("parameters", "if_none_match")];
    let change = |id: &str, listed: &Listed| {
        let mut change = operation(id, listed.call, listed.summary);
        let mut responses = answered("receipt", &[JSON], &[409, 422]);
        refuse(&mut responses, &[410]);
        change["responses"] = with_headers(responses, &["200"], &["weft-transaction"]);
        change["parameters"] =
            terms().into_iter().filter(|each| !of_single.contains(each)).collect::<Vec<_>>().into();
        change
    };
    let mut loads = change("load_rules", load);
    let text = json!({"type": "string"});
    let schema = json!({
        "type": "object",
        "properties": {
            "files": {"type": "object", "additionalProperties": text},
            "packages": {"type": "array", "items": text},
        },
        "required": ["files"],
        "additionalProperties": false,
    });
    loads["requestBody"] = json!({"required": true, "content": {JSON: {"schema": schema}}});
    let mut back = change("rollback_rules", rollback);
    if let Some(parameters) = back["parameters"].as_array_mut() {
        let number = json!({"type": "integer", "minimum": 0, "maximum": i64::MAX});
        let to = "The transaction that loaded the version; without it, the one before that which runs";
        parameters.push(query("to", to, number));
    }
    [("/v1/rules", json!({"get": read, "post": loads})), ("/v1/rules/rollback", json!({"post": back}))]
        .map(|(path, item)| (path.to_owned(), item))
        .into_iter()
        .collect()
}

/// The objects of a kind.
fn of_kind(kind: &Kind) -> Json {
    let mut list = operation(&format!("list_{}", kind.plural()), "Get", &kind.summary());
    list["responses"] = answered("list", &[JSON, YAML, LINES], &[406, 410]);
    let own = kind.declared().fields.iter().map(|field| field.name.as_str());
    let fields: Vec<&str> = ["id", "labels", "state"].into_iter().chain(own).collect();
    let by_label = query(
        "label",
        "Objects with this label: KEY=VALUE, KEY!=VALUE or KEY; several separated by commas",
        schemas::label_selector(),
    );
    let by_field = query(
        "field",
        "Objects with this field: FIELD=VALUE, FIELD!=VALUE or FIELD, or *=ADDRESS: an IP address in any field; several separated by commas. Dots lead to members.",
        schemas::field_selector(&fields),
    );
    let number = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    list["parameters"] = json!([
        by_label,
        by_field,
        query("limit", "The most objects of a page, in JSON; 0 for all", number(0, u32::MAX.into())),
        query("continue", "Where the page before says that it continues", schemas::place()),
    ]);
    // Not among the parameters: the answer has no end, and generated clients would wait for it.
    let watch = query(
        "watch",
        "Answer with what changes, an event in each line, without an end",
        json!({"const": true}),
    );
    let from = "The `revision` of a list or of a bookmark. Without it, from now on.";
    list["x-watch"] = json!({
        "x-grpc-call": "Watch",
        "parameters": [watch, by_label, by_field, query("from", from, number(1, u64::MAX))],
        "media": [LINES, EVENTS],
    });
    json!({"get": list})
}

/// One object of a kind.
fn of_object(kind: &Kind) -> Json {
    let name = kind.name();
    let of = |verb: &str| format!("{verb}_{name}");
    let mut get = operation(&of("get"), "Get", &format!("The {name}, with its revision and its state"));
    let mut responses = answered("object", &[JSON, YAML], &[404, 406]);
    responses["304"] = json!({"description": "The object is as the client knows it."});
    get["responses"] = with_headers(responses, &["200", "304"], &["etag"]);
    get["parameters"] = json!([reference("parameters", "if_changed")]);

    let mut put = operation(&of("put"), "Apply", &format!("Creates or replaces the {name}"));
    let mut responses = answered("receipt", &[JSON], &OF_CHANGE);
    refuse(&mut responses, &[415]);
    responses["201"] = responses["200"].clone();
    responses["201"]["description"] = "The object is new.".into();
    put["responses"] = responses;
    let content = json!({"schema": schema_of(name)});
    put["requestBody"] = json!({"required": true, "content": {JSON: content, YAML: content}});

    let summary = format!("Changes fields of the {name} (JSON merge patch, RFC 7396)");
    let mut patch = operation(&of("patch"), "Set", &summary);
    let mut responses = answered("receipt", &[JSON], &OF_CHANGE);
    refuse(&mut responses, &[404, 415]);
    patch["responses"] = responses;
    let content = json!({"schema": schema_of("merge_patch")});
    patch["requestBody"] = json!({"required": true, "content": {PATCH: content, JSON: content}});

    let mut delete = operation(&of("delete"), "Delete", &format!("Deletes the {name}"));
    delete["responses"] = answered("receipt", &[JSON], &OF_CHANGE);
    refuse(&mut delete["responses"], &[404]);
    for change in [&mut put, &mut patch, &mut delete] {
        change["parameters"] = terms().into();
        let responses = change["responses"].take();
        change["responses"] = with_headers(responses, &["200", "201"], &["weft-transaction", "etag"]);
    }
    json!({"parameters": [reference("parameters", "id")], "get": get, "put": put, "patch": patch, "delete": delete})
}

/// The media type of a merge patch.
const PATCH: &str = "application/merge-patch+json";

/// An operation without parameters, and the call of gRPC that does the same.
fn operation(id: &str, call: &str, summary: &str) -> Json {
    json!({"operationId": id.replace('-', "_"), "summary": summary, "x-grpc-call": call})
}

/// The answer with this schema in these media types, or a problem with one of these statuses.
fn answered(schema: &str, media: &[&str], refusals: &[u16]) -> Json {
    let schema = match schema {
        "any" => json!({}),
        "message" => json!({"type": "object"}),
        name => schema_of(name),
    };
    let of_media = |media: &&str| {
        let content = if *media == JSON { json!({"schema": schema}) } else { json!({}) };
        ((*media).to_owned(), content)
    };
    let content: Map<String, Json> = media.iter().map(of_media).collect();
    let mut responses = json!({"200": {"description": "As asked.", "content": content}});
    refuse(&mut responses, &ALWAYS);
    refuse(&mut responses, refusals);
    responses
}

/// Adds answers that are problems.
fn refuse(responses: &mut Json, statuses: &[u16]) {
    if let Json::Object(responses) = responses {
        responses.extend(statuses.iter().map(|status| schemas::refusal(*status)));
    }
}

/// Adds headers to those of these answers that there are.
fn with_headers(mut responses: Json, statuses: &[&str], names: &[&str]) -> Json {
    for status in statuses {
        let Some(response) = responses.get_mut(status) else { continue };
        for name in names {
            let what = match *name {
                "etag" => "The revision of the object, in quotes. Absent if nothing changed.",
                _ => "The number of the transaction. Absent if nothing changed.",
            };
            response["headers"][*name] = json!({"description": what, "schema": {"type": "string"}});
        }
    }
    responses
}

fn reference(of: &str, name: &str) -> Json {
    json!({"$ref": format!("#/components/{of}/{name}")})
}

fn schema_of(name: &str) -> Json {
    reference("schemas", name)
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
