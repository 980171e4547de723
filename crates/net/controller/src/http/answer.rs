//! Messages as answers: whole, as lines, or as YAML.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value as Json;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use weft_client::message_json::to_json;

use crate::answers::{Results, Turn};
use crate::problem::Problem;

/// The media types of answers.
pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const LINES: &str = "application/x-ndjson";
pub(super) const ZSTD: &str = "application/zstd";
pub(super) const EVENTS: &str = "text/event-stream";

/// The form that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON value.
    Json,
    /// A JSON value in each line.
    Lines,
    /// YAML, a document for each object.
    Yaml,
    /// Server-sent events.
    Events,
}

impl Form {
    /// The first form in `Accept` that there is, of those that the path has. Without the header it is the first of these.
    pub(super) fn asked(headers: &HeaderMap, has: &[Form]) -> Result<Form, Problem> {
        let accept = headers.get(header::ACCEPT).map(|accept| accept.to_str().unwrap_or_default());
        let first = *has.first().unwrap_or(&Form::Json);
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return Ok(first) };
        let types = accept.split(',').map(|each| each.split(';').next().unwrap_or_default().trim());
        let form = |media: &str| match media {
            "*/*" | "application/*" => Some(first),
            "application/yaml" | "application/x-yaml" | "text/yaml" => Some(Form::Yaml),
            JSON => Some(Form::Json),
            "application/x-ndjson" | "application/jsonl" | "application/ndjson" => Some(Form::Lines),
            EVENTS => Some(Form::Events),
            _ => None,
        };
        types.filter_map(form).find(|form| has.contains(form)).ok_or_else(|| {
            let has: Vec<&str> = has.iter().map(|form| form.media_type()).collect();
            let detail = format!("none of the media types in `accept` is there; there is {}", has.join(", "));
            Problem::new(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail)
        })
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Form::Json => JSON,
            Form::Lines => LINES,
            Form::Yaml => YAML,
            Form::Events => EVENTS,
        }
    }
}

/// An answer with this body.
pub(super) fn answer(form: Form, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let media = HeaderValue::from_static(form.media_type());
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// A JSON value as an answer. It ends with a line feed, for terminals.
pub(super) fn json(value: &Json) -> Response {
    answer(Form::Json, format!("{value}\n"))
}

/// A JSON value in the form that is asked for.
pub(super) fn value(form: Form, value: &Json) -> Result<Response, Problem> {
    match form {
        Form::Yaml => yaml(value).map(|text| answer(Form::Yaml, text)),
        _ => Ok(json(value)),
    }
}

/// A value as YAML.
pub(super) fn yaml(value: &Json) -> Result<String, Problem> {
    serde_norway::to_string(value).map_err(|error| Problem::from(Status::internal(error.to_string())))
}

/// The message of an answer to a call. The turn in which it was made ends with the response.
pub(super) fn message<T>(answer: tonic::Response<T>) -> (T, Held) {
    let (_, message, mut extensions) = answer.into_parts();
    (message, Held(extensions.remove()))
}

/// The one message of a call, in the form that is asked for.
pub(super) fn one<T: Serialize>(form: Form, answer_of_call: tonic::Response<T>) -> Result<Response, Problem> {
    let (message, held) = message(answer_of_call);
    Ok(held.until_encoded(value(form, &to_json(&message))?))
}

/// What ends once an answer is encoded.
pub(super) struct Held(Option<std::sync::Arc<Turn>>);

impl Held {
    /// Hands it on to the response.
    pub(super) fn until_encoded(self, mut response: Response) -> Response {
        if let Some(turn) = self.0 {
            response.extensions_mut().insert(turn);
        }
        response
    }
}

/// The messages of a call, whose first one is there. A call that fails at once is answered with a problem, and not with half a body.
pub(super) async fn begun<T: Send + 'static>(mut messages: Results<T>) -> Result<Results<T>, Problem> {
    match messages.next().await {
        Some(first) => Ok(Box::pin(tokio_stream::once(Ok(first?)).chain(messages))),
        None => Ok(messages),
    }
}

/// The messages of a call: as one value, whose lists are those of all messages, or each in a line.
pub(super) async fn messages<T: Serialize + Send + 'static>(
    form: Form,
    answer_of_call: tonic::Response<Results<T>>,
) -> Result<Response, Problem> {
    let (messages, held) = message(answer_of_call);
    let response = match form {
        Form::Lines => answer(form, streamed(begun(messages).await?.map(|message| Ok(line(&message?))))),
        _ => json(&whole(messages).await?),
    };
    Ok(held.until_encoded(response))
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> Bytes {
    format!("{}\n", to_json(message)).into()
}

/// One value with the members of all messages. Lists follow each other.
async fn whole<T: Serialize>(mut messages: Results<T>) -> Result<Json, Problem> {
    let mut all: BTreeMap<String, Json> = BTreeMap::new();
    while let Some(message) = messages.next().await {
        let Json::Object(members) = to_json(&message?) else { continue };
        for (name, value) in members {
            match (all.get_mut(&name), value) {
                (Some(Json::Array(list)), Json::Array(more)) => list.extend(more),
                // Messages after the first leave these out, which reads as zero.
                (Some(_), Json::Number(number)) if number.as_u64() == Some(0) => {}
                (Some(_), Json::Bool(false)) => {}
                (_, value) => drop(all.insert(name, value)),
            }
        }
    }
    Ok(Json::Object(all.into_iter().collect()))
}

/// A body of parts. If they end with an error, the connection or stream is broken off, so that nobody takes the parts for the whole.
pub(super) fn streamed(parts: impl Stream<Item = Result<Bytes, Status>> + Send + 'static) -> Body {
    Body::from_stream(parts)
}

/// A file of this type.
pub(super) fn file(content: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, content)], body).into_response()
}

/// An answer without content, with a status.
pub(super) fn empty(status: StatusCode) -> Response {
    status.into_response()
}
