//! `docs/reference/api.md` says what `/v1/openapi.json` of the built-in rules says.

use serde_json::Value as Json;
use std::fmt::Write as _;

use super::{Controller, Listens};
use crate::support::root;

/// What no description says.
const HEAD: &str = include_str!("reference.md");
/// The kind that stands for all: their paths differ in the name alone.
const EXAMPLE: (&str, &str) = ("/v1/switches", "switch");
const METHODS: [&str; 5] = ["get", "put", "patch", "post", "delete"];

/// A member that is text.
fn text<'j>(json: &'j Json, name: &str) -> &'j str {
    json[name].as_str().unwrap_or_default()
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn members(json: &Json) -> impl Iterator<Item = (&String, &Json)> {
    json.as_object().into_iter().flatten()
}

/// What a reference names, or the value itself.
fn resolved<'j>(document: &'j Json, json: &'j Json) -> &'j Json {
    let path = json["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    path.and_then(|path| document.pointer(path)).unwrap_or(json)
}

/// The values that a parameter takes.
fn values(schema: &Json) -> String {
    let quoted = |values: &Json| {
        list(values).map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect::<Vec<_>>()
    };
    if let Some(only) = schema.get("const") {
        return format!("`{}`", only.as_str().map_or_else(|| only.to_string(), str::to_owned));
    }
    match (&schema["enum"], text(schema, "type")) {
        (Json::Array(all), _) if all.len() > 4 => "a kind".to_owned(),
        (values @ Json::Array(_), _) => quoted(values).join(", "),
        (_, "boolean") => "`true`, `false`".to_owned(),
        (_, "integer") => format!("a number from {}", schema["minimum"].as_u64().unwrap_or_default()),
        _ => "text".to_owned(),
    }
}

fn parameters<'j>(document: &'j Json, all: impl Iterator<Item = &'j Json>) -> String {
    let mut table = String::new();
    for parameter in all.map(|parameter| resolved(document, parameter)) {
        let (name, place) = (text(parameter, "name"), text(parameter, "in"));
        let _ = writeln!(
            table,
            "| `{name}` | {place} | {} | {} |",
            values(&parameter["schema"]),
            text(parameter, "description").trim_end_matches('.')
        );
    }
    match table.as_str() {
        "" => table,
        rows => format!("\n| parameter | in | value | means |\n|---|---|---|---|\n{rows}"),
    }
}

/// The members of a body, unless they are those of an object.
fn fields(document: &Json, schema: &Json) -> String {
    if !["#/components/schemas/trace", "#/components/schemas/question"].contains(&text(schema, "$ref")) {
        return String::new();
    }
    let schema = resolved(document, schema);
    let mut table = format!("\n{}\n\n| member | means |\n|---|---|\n", text(schema, "description"));
    for (name, member) in members(&schema["properties"]) {
        let what = match (text(member, "description"), member["enum"].as_array()) {
            ("", _) => "The object: its `kind` and `id`.".to_owned(),
            (what, Some(_)) => format!("{what} {}", values(member)),
            (what, None) => what.to_owned(),
        };
        let _ = writeln!(table, "| `{name}` | {} |", what.trim_end_matches('.'));
    }
    table
}

/// The media types of a body or of an answer.
fn media(content: &Json) -> String {
    members(content).map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn operation(document: &Json, path: &str, method: &str, item: &Json) -> String {
    let operation = &item[method];
    let mut page = format!("\n### {} {path}\n\n{}.", method.to_uppercase(), text(operation, "summary"));
    if let Some(call) = operation["x-grpc-call"].as_str() {
        let _ = write!(page, " gRPC: `{call}`.");
    }
    page.push('\n');
    page += &parameters(document, list(&item["parameters"]).chain(list(&operation["parameters"])));
    let body = media(&operation["requestBody"]["content"]);
    if !body.is_empty() {
        let _ = write!(page, "\nBody: {body}.\n");
        page += &fields(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
    }
    let answers = |is_problem: bool| {
        members(&operation["responses"]).filter(move |(status, _)| (status.as_str() >= "400") == is_problem)
    };
    page.push('\n');
    for (status, answer) in answers(false) {
        let _ = write!(page, "- {status}: {}", text(answer, "description").trim_end_matches('.'));
        let body = media(&answer["content"]);
        let _ = if body.is_empty() { writeln!(page) } else { writeln!(page, ": {body}") };
        for (header, what) in members(&answer["headers"]) {
            let _ = writeln!(page, "  - header `{header}`: {}", text(what, "description"));
        }
    }
    let statuses: Vec<&str> = answers(true).map(|(status, _)| status.as_str()).collect();
    let _ = writeln!(page, "- [problems](#problems): {}", statuses.join(", "));
    if operation.get("x-endless").is_some() {
        page += "\nThe answer has no end.\n";
    }
    if let Some(watch) = operation.get("x-watch") {
        let media: Vec<String> =
            list(&watch["media"]).filter_map(Json::as_str).map(|media| format!("`{media}`")).collect();
        let _ = write!(
            page,
            "\nWith `watch=true` the answer is a [watch](#watches). gRPC: `{}`. Media types: {}.\n",
            text(watch, "x-grpc-call"),
            media.join(", ")
        );
        page += &parameters(document, list(&watch["parameters"]));
    }
    page
}

fn problems(document: &Json) -> String {
    let mut page = "\n## Problems\n\nA problem has `type` (`urn:weft:problem:CODE`), `title`, `status`, `code` and `detail`. `faults` has each fault of refused objects, with the object, the `path` of the field, and the place in the \
        request.\n\n| status | `code` | means | remedy |\n|---|---|---|---|\n".to_owned();
    for problem in list(&document["x-problems"]) {
        let _ = writeln!(
            page,
            "| {} | `{}` | {} | {} |",
            problem["status"],
            text(problem, "code"),
            text(problem, "means"),
            text(problem, "remedy")
        );
    }
    page
}

fn page(document: &Json, kinds: &Json) -> String {
    let mut page = HEAD.to_owned() + "## Kinds\n\n| path | objects |\n|---|---|\n";
    for kind in list(&kinds["kinds"]) {
        let name = text(kind, "kind");
        let _ = writeln!(
            page,
            "| `{}` | [{name}](objects.md#{name}): {} |",
            text(kind, "path"),
            text(kind, "summary")
        );
    }
    page += "\n## Operations\n\n`KINDS` stands for the plural of a kind, `KIND` for a kind.\n";
    let of_kinds: Vec<&str> = list(&kinds["kinds"]).map(|kind| text(kind, "path")).collect();
    for (path, item) in members(&document["paths"]) {
        let of_kind =
            of_kinds.iter().find(|kind| path == *kind || path.strip_prefix(**kind) == Some("/{id}"));
        if of_kind.is_some_and(|kind| *kind != EXAMPLE.0) {
            continue;
        }
        let shown = match of_kind {
            Some(kind) => path.replace(kind, "/v1/KINDS"),
            None => path.replace("{kinds}", "KINDS"),
        };
        for method in METHODS.into_iter().filter(|method| item.get(*method).is_some()) {
            let described = operation(document, &shown, method, item);
            page += &match of_kind {
                Some(_) => of_all(&described, &shown, text(&item[method], "summary")),
                None => described,
            };
        }
    }
    page + &problems(document)
}

/// An operation of the example, in the words of all kinds.
fn of_all(page: &str, shown: &str, summary: &str) -> String {
    let name = EXAMPLE.1;
    let page =
        page.replace(&format!("the {name}"), "the object").replace(&format!("The {name}"), "The object");
    if shown == "/v1/KINDS" { page.replacen(summary, "The objects of a kind", 1) } else { page }
}

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn the_page_of_the_api_is_up_to_date() {
    let controller = Controller::start(&Listens::Unix);
    let page = page(&controller.get("/v1/openapi.json"), &controller.get("/v1/schema"));
    expect_test::expect_file![root().join("docs/reference/api.md")].assert_eq(&page);
}
