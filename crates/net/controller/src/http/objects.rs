//! Objects: read, listed and changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::RawQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tokio_stream::StreamExt as _;
use tonic::{Request, Status};

use super::answer::{self, Form, Held, answer, begun, message, streamed};
use super::query::{Path, Query};
use weft_client::message_json::to_json;
use weft_client::pb::controller_server::Controller as _;
use weft_client::pb::{self, change_response};

use crate::answers::Results;
use crate::api::Api;
use crate::listener::Caller;
use crate::problem::Problem;

/// The header with which a client names itself, for the journal.
const BY: &str = "weft-by";
/// The header with which a client gives a request a key, so that it can repeat it.
const KEY: &str = "idempotency-key";
/// The header of an answer that has the number of its transaction.
const TRANSACTION: HeaderName = HeaderName::from_static("weft-transaction");
/// The header by which a reader of server-sent events goes on.
const LAST_EVENT: &str = "last-event-id";
/// How long a request waits for switches, unless it says so.
const WAIT: Duration = Duration::from_mins(1);

/// The shared things of a request.
pub(super) type Here = (Extension<Arc<Api>>, Extension<Caller>);

/// A message as a call from this caller.
pub(super) fn call<T>(caller: Caller, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller);
    request
}

/// `GET /v1/KINDS`
pub(super) async fn list(
    (Extension(api), Extension(caller)): Here,
    Path(kinds): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?;
    let mut query = Query::of(query.as_deref());
    if query.flag("watch")? {
        return watch(&api, caller, kind.to_string(), query, &headers).await;
    }
    let request = pb::GetRequest {
        kind: kind.to_string(),
        id: None,
        labels: query.all("label"),
        fields: query.all("field"),
        limit: query.number("limit")?.unwrap_or_default(),
        r#continue: query.one("continue")?.unwrap_or_default(),
    };
    query.finish()?;
    let form = Form::asked(&headers, &[Form::Json, Form::Yaml, Form::Lines])?;
    if form != Form::Json && request.limit > 0 {
        return Err(Problem::bad_request("only a list in application/json has pages: leave `limit` out"));
    }
    let (found, held) = message(api.get(call(caller, request)).await?);
    let found = begun(found).await?;
    let body = match form {
        Form::Json => streamed(as_list(found)),
        Form::Yaml => streamed(found.map(|part| documents(&part?))),
        _ => streamed(found.map(|part| Ok(items(&part?, "\n", "").into()))),
    };
    Ok(held.until_encoded(answer(form, body)))
}

/// `GET /v1/KINDS?watch=true`: what changes, an event in each line, or server-sent events.
async fn watch(
    api: &Api,
    caller: Caller,
    kind: String,
    mut query: Query,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT).and_then(|id| id.to_str().ok()?.parse().ok());
    let request = pb::WatchRequest {
        kinds: vec![kind],
        labels: query.all("label"),
        fields: query.all("field"),
        // A browser that connects again says it by the header.
        from: last.or(query.number("from")?),
    };
    query.finish()?;
    let form = Form::asked(headers, &[Form::Lines, Form::Events])?;
    let (events, held) = message(api.watch(call(caller, request)).await?);
    let body = streamed(begun(events).await?.map(move |part| Ok(happened(form, &part?).into())));
    Ok(held.until_encoded(answer(form, body)))
}

/// Events as text. The last one says how far the watch is.
fn happened(form: Form, message: &pb::WatchResponse) -> String {
    let mut text = String::new();
    for event in &message.events {
        let name = match event.happened() {
            pb::Happened::Created => "created",
            pb::Happened::Deleted => "deleted",
            pb::Happened::Updated | pb::Happened::Unspecified => "updated",
        };
        let object = item(&event.object, &event.state.clone().unwrap_or_default());
        text += &match form {
            Form::Events => format!("event: {name}\ndata: {{\"type\":\"{name}\",\"object\":{object}}}\n\n"),
            _ => format!("{{\"type\":\"{name}\",\"object\":{object}}}\n"),
        };
    }
    if message.revision > 0 {
        let revision = message.revision;
        let data = format!("{{\"type\":\"bookmark\",\"revision\":{revision}}}");
        text += &match form {
            Form::Events => format!("id: {revision}\nevent: bookmark\ndata: {data}\n\n"),
            _ => data + "\n",
        };
    }
    text
}

/// `{"items": […], "revision": …, "continue": …}`
fn as_list(
    found: Results<pb::GetResponse>,
) -> impl tokio_stream::Stream<Item = Result<Bytes, Status>> + Send {
    let (mut is_first, mut end) = (true, Map::new());
    let head = tokio_stream::once(Ok(Bytes::from_static(b"{\"items\":[")));
    let found = found.map(Some).chain(tokio_stream::once(None));
    let rest = found.map(move |part| {
        let Some(part) = part else {
            let end = Json::Object(std::mem::take(&mut end)).to_string();
            return Ok(format!("],{}\n", &end[1..]).into());
        };
        let part = part?;
        end.insert("revision".to_owned(), part.revision.into());
        if !part.r#continue.is_empty() {
            end.insert("continue".to_owned(), part.r#continue.clone().into());
        }
        let text = items(&part, ",", if is_first { "" } else { "," });
        is_first &= text.is_empty();
        Ok(text.into())
    });
    head.chain(rest)
}

/// The objects of a message as text: of lines, each ends with the separator; of a list, it is between them, and `before` is before the first.
fn items(part: &pb::GetResponse, separator: &str, before: &str) -> String {
    let mut text = String::new();
    for (number, (object, state)) in part.objects.iter().zip(&part.states).enumerate() {
        text += match separator {
            "," if number > 0 => ",",
            "," => before,
            _ => "",
        };
        text += &item(object, state);
        if separator != "," {
            text += separator;
        }
    }
    text
}

/// An object as JSON: its document, with its revision and its state.
pub(super) fn item(object: &str, state: &pb::ObjectState) -> String {
    let mut members: Map<String, Json> = serde_json::from_str(&state.columns).unwrap_or_default();
    members.insert("problems".to_owned(), state.problems.clone().into());
    members.insert("created".to_owned(), state.created.into());
    let object = object.trim_end();
    // One brace alone: the last field can be a mapping.
    let fields = object.strip_suffix('}').unwrap_or(object);
    format!("{fields},\"revision\":{},\"state\":{}}}", state.changed, Json::Object(members))
}

fn documents(part: &pb::GetResponse) -> Result<Bytes, Status> {
    let mut text = String::new();
    for (object, state) in part.objects.iter().zip(&part.states) {
        let value: Json = serde_json::from_str(&item(object, state))
            .map_err(|error| Status::internal(error.to_string()))?;
        text += "---\n";
        text += &serde_norway::to_string(&value).map_err(|error| Status::internal(error.to_string()))?;
    }
    Ok(text.into())
}

/// Fails unless an object exists.
pub(super) async fn exists(api: &Api, caller: &Caller, kind: &str, id: &str) -> Result<(), Problem> {
    let request =
        pb::GetRequest { kind: kind.to_owned(), id: Some(id.to_owned()), ..pb::GetRequest::default() };
    let (mut found, _held) = message(api.get(call(caller.clone(), request)).await?);
    found.next().await.transpose()?;
    Ok(())
}

/// `GET /v1/KINDS/ID`
pub(super) async fn get(
    (Extension(api), Extension(caller)): Here,
    Path((kinds, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?;
    Query::of(query.as_deref()).finish()?;
    let form = Form::asked(&headers, &[Form::Json, Form::Yaml])?;
    let request = pb::GetRequest { kind: kind.to_string(), id: Some(id), ..pb::GetRequest::default() };
    let (mut found, held) = message(api.get(call(caller, request)).await?);
    let part = found.next().await.unwrap_or_else(|| Ok(pb::GetResponse::default()))?;
    let (Some(object), Some(state)) = (part.objects.first(), part.states.first()) else {
        return Err(Status::internal("the answer has no object").into());
    };
    let text = item(object, state);
    let tag = tag(state.changed);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    let is_known = known.flat_map(|known| known.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/").as_bytes() == tag.as_bytes()
    });
    let mut response = match form {
        _ if is_known => answer::empty(StatusCode::NOT_MODIFIED),
        Form::Yaml => {
            let value: Json =
                serde_json::from_str(&text).map_err(|error| Status::internal(error.to_string()))?;
            answer(form, answer::yaml(&value)?)
        }
        _ => answer(form, text + "\n"),
    };
    response.headers_mut().insert(header::ETAG, tag);
    Ok(held.until_encoded(response))
}

/// The entity tag of a revision.
fn tag(revision: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{revision}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// What every request that changes objects can ask.
struct Wish {
    by: String,
    terms: pb::Terms,
    /// Whether a header asks for the revision.
    is_conditional: bool,
}

impl Wish {
    fn of(query: &mut Query, headers: &HeaderMap) -> Result<Self, Problem> {
        let by = line(headers, BY)?;
        let revision = condition(headers)?;
        let terms = pb::Terms {
            strict: query.flag("strict")?,
            careful: query.flag("careful")?,
            dry_run: query.flag("dry_run")?,
            wait_installed: wait(query)?,
            revision,
            key: key(headers)?,
        };
        Ok(Wish { by, terms, is_conditional: revision.is_some() })
    }
}

/// The text of a header; empty if it is not there.
fn line(headers: &HeaderMap, name: &str) -> Result<String, Problem> {
    let text = headers.get(name).map(|value| value.to_str().map(str::to_owned)).transpose();
    let text =
        text.map_err(|_| Problem::bad_request(format!("`{name}` is not a line of printable ASCII text")))?;
    Ok(text.unwrap_or_default())
}

/// The key of the request; empty if there is none.
fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let key = line(headers, KEY)?;
    if key.is_empty() && headers.contains_key(KEY) {
        return Err(Problem::bad_request(format!(
            "`{KEY}` is empty; give the request a key of its own, such as a UUID"
        )));
    }
    Ok(key)
}

/// How long to wait for switches, in milliseconds; 0 not at all.
fn wait(query: &mut Query) -> Result<u32, Problem> {
    let timeout = query.time("timeout")?;
    let wait = query.one("wait")?;
    match wait.as_deref() {
        // An answer never comes before the transaction is computed.
        None | Some("accepted" | "computed") => Ok(0),
        Some("installed") => {
            let milliseconds = timeout.unwrap_or(WAIT).as_millis().max(1);
            Ok(u32::try_from(milliseconds).unwrap_or(u32::MAX))
        }
        Some(other) => Err(Problem::bad_request(format!(
            "`wait` is {}; write accepted, computed or installed",
            nlog_data::quotation::quote_text(other)
        ))),
    }
}

/// The revision that `If-Match` asks for; 0 if `If-None-Match: *` asks for a new object.
fn condition(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    if let Some(given) = text(header::IF_NONE_MATCH) {
        return match given {
            "*" => Ok(Some(0)),
            _ => Err(Problem::bad_request(
                "`if-none-match` of a change can only be *: the object is to be new",
            )),
        };
    }
    let Some(given) = text(header::IF_MATCH) else { return Ok(None) };
    let number =
        given.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|tag| tag.parse().ok());
    number.map(Some).ok_or_else(|| {
        Problem::bad_request(
            "`if-match` is not the tag of a revision; give it as the answer's `etag` has it, such as \"17\"",
        )
    })
}

/// The text of a body, and the name that says in which format it is.
fn text(headers: &HeaderMap, body: Bytes) -> Result<(String, String), Problem> {
    let content = headers.get(header::CONTENT_TYPE).map(|content| content.to_str().unwrap_or_default());
    let name = match content.unwrap_or_default() {
        content if content.contains("ndjson") => "request.jsonl",
        content if content.contains("json") => "request.json",
        content if content.contains("yaml") => "request.yaml",
        content if content.starts_with("multipart/") => {
            let detail = "give objects as application/json or application/yaml";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail));
        }
        _ => "request",
    };
    match String::from_utf8(body.into()) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(error) => {
            Err(Problem::bad_request(format!("the body is not UTF-8 text: {}", error.utf8_error())))
        }
    }
}

/// `POST /v1/apply`
pub(super) async fn apply(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let Wish { by, terms, is_conditional } = Wish::of(&mut query, &headers)?;
    let (prune, prune_kinds) = (query.flag("prune")?, query.all("prune_kind"));
    let (prune_labels, prune_tenants) = (query.all("prune_label"), query.all("prune_tenant"));
    query.finish()?;
    let (name, text) = text(&headers, whole(body).await?)?;
    let documents = vec![pb::Document { name, text, object: None }];
    let (terms, objects) = (Some(terms), Vec::new());
    let request =
        pb::ApplyRequest { documents, objects, by, prune, terms, prune_kinds, prune_labels, prune_tenants };
    changed(api.apply(call(caller, request)).await?, About::Objects, is_conditional).await
}

/// All of a body. Its size was checked when it arrived.
pub(super) async fn whole(body: Body) -> Result<Bytes, Problem> {
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    bytes.map_err(|error| Problem::bad_request(format!("the body cannot be read: {error}")))
}

/// `PUT /v1/KINDS/ID`
pub(super) async fn put(
    (Extension(api), Extension(caller)): Here,
    Path((kinds, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?.to_string();
    let mut query = Query::of(query.as_deref());
    let Wish { by, terms, is_conditional } = Wish::of(&mut query, &headers)?;
    query.finish()?;
    let (name, text) = text(&headers, whole(body).await?)?;
    let object = Some(pb::ObjectRef { kind, id });
    let documents = vec![pb::Document { name, text, object }];
    let request = pb::ApplyRequest { documents, by, terms: Some(terms), ..pb::ApplyRequest::default() };
    changed(api.apply(call(caller, request)).await?, About::Written, is_conditional).await
}

/// `PATCH /v1/KINDS/ID`
pub(super) async fn patch(
    (Extension(api), Extension(caller)): Here,
    Path((kinds, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?.to_string();
    let mut query = Query::of(query.as_deref());
    let Wish { by, terms, is_conditional } = Wish::of(&mut query, &headers)?;
    query.finish()?;
    let (_, patch) = text(&headers, whole(body).await?)?;
    let request = pb::SetRequest {
        object: Some(pb::ObjectRef { kind, id }),
        fields: Vec::new(),
        by,
        terms: Some(terms),
        merge_patch: Some(patch),
    };
    changed(api.set(call(caller, request)).await?, About::Existing, is_conditional).await
}

/// `DELETE /v1/KINDS/ID`
pub(super) async fn delete(
    (Extension(api), Extension(caller)): Here,
    Path((kinds, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?.to_string();
    let mut query = Query::of(query.as_deref());
    let Wish { by, terms, is_conditional } = Wish::of(&mut query, &headers)?;
    query.finish()?;
    let objects = vec![pb::ObjectRef { kind, id }];
    let request = pb::DeleteRequest { objects, by, documents: Vec::new(), terms: Some(terms) };
    changed(api.delete(call(caller, request)).await?, About::Existing, is_conditional).await
}

/// `POST /v1/rollback?to=TXN`
pub(super) async fn rollback(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let to = query.number("to")?;
    let why = "a rollback is of many objects, so it has no `if-match` or `if-none-match`";
    let (by, terms) = unconditional(query, &headers, why)?;
    let to = to.ok_or_else(|| {
        Problem::bad_request("`to` is missing: the transaction to which the objects go back")
    })?;
    let request = pb::RollbackRequest { to, by, terms: Some(terms) };
    changed(api.rollback(call(caller, request)).await?, About::Objects, false).await
}

/// The body of `POST /v1/rules`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRules {
    /// The texts of files by name.
    files: BTreeMap<String, String>,
    #[serde(default)]
    packages: Vec<String>,
}

/// `POST /v1/rules`
pub(super) async fn load_rules(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (by, terms) = unconditional(Query::of(query.as_deref()), &headers, OF_RULES)?;
    let NewRules { files, packages } = serde_json::from_slice(&whole(body).await?)
        .map_err(|error| Problem::bad_request(format!("the body does not describe rules: {error}")))?;
    let files = files.into_iter().map(|(name, text)| pb::RulesFile { name, text }).collect();
    let request = pb::LoadRulesRequest { files, packages, by, terms: Some(terms) };
    changed(api.load_rules(call(caller, request)).await?, About::Objects, false).await
}

/// `POST /v1/rules/rollback?to=TXN`
pub(super) async fn rollback_rules(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let to = query.number("to")?;
    let (by, terms) = unconditional(query, &headers, OF_RULES)?;
    let request = pb::RollbackRulesRequest { to, by, terms: Some(terms) };
    changed(api.rollback_rules(call(caller, request)).await?, About::Objects, false).await
}

/// Why a change of the rules has no condition.
const OF_RULES: &str = "rules are not an object, so they have no `if-match` or `if-none-match`";

/// Who makes a change of more than one object, and on which terms. With a condition it is refused, because of `why`.
fn unconditional(mut query: Query, headers: &HeaderMap, why: &str) -> Result<(String, pb::Terms), Problem> {
    let Wish { by, terms, is_conditional } = Wish::of(&mut query, headers)?;
    query.finish()?;
    if is_conditional { Err(Problem::bad_request(why)) } else { Ok((by, terms)) }
}

/// The objects that a request changes. The form of the answer depends on them.
#[derive(Clone, Copy)]
enum About {
    /// Any objects.
    Objects,
    /// An object that is written. It may be new.
    Written,
    /// An object that has to exist.
    Existing,
}

/// The answer to a request for a change. `is_conditional` says whether a header asked for the revision.
async fn changed(
    answer: tonic::Response<pb::ChangeResponse>,
    about: About,
    is_conditional: bool,
) -> Result<Response, Problem> {
    let (response, held) = message(answer);
    match response.result {
        Some(change_response::Result::Accepted(accepted)) => {
            let first = accepted.objects.first();
            let is_new = first.is_some_and(|object| object.outcome() == pb::Outcome::Created);
            let status = match about {
                About::Written if is_new => StatusCode::CREATED,
                _ => StatusCode::OK,
            };
            receipt(status, accepted, held).await
        }
        Some(change_response::Result::Refusal(refusal)) => Err(match about {
            About::Existing => {
                let faults = refusal.faults.clone();
                Problem::of_refusal(refusal, is_conditional).or_not_found(&faults)
            }
            About::Objects | About::Written => Problem::of_refusal(refusal, is_conditional),
        }),
        None => Err(Status::internal("the answer is empty").into()),
    }
}

/// What a change has done. Made beside the runtime's threads: it can name hundreds of thousands of objects.
async fn receipt(status: StatusCode, accepted: pb::Accepted, held: Held) -> Result<Response, Problem> {
    let (txn, is_one) = (accepted.txn, accepted.objects.len() == 1);
    let made = tokio::task::spawn_blocking(move || answer::json(&to_json(&accepted)));
    let mut response = made.await.map_err(|error| Status::internal(error.to_string()))?;
    *response.status_mut() = status;
    if let Some(txn) = txn {
        response.headers_mut().insert(TRANSACTION, HeaderValue::from(txn));
        if is_one {
            response.headers_mut().insert(header::ETAG, tag(txn));
        }
    }
    Ok(held.until_encoded(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_whose_last_field_is_a_mapping_stays_json() {
        let state = pb::ObjectState { changed: 3, created: 1, ..pb::ObjectState::default() };
        let object = r#"{"kind":"switch","id":"a","learning":{"limit":1}}"#;
        let wanted = r#"{"kind":"switch","id":"a","learning":{"limit":1},"revision":3,"state":{"created":1,"problems":[]}}"#;
        assert_eq!(item(object, &state), wanted);
    }
}
