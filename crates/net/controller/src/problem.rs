//! Refusals and failures as problem details (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nlog_data::quotation::{cut, shown};
use serde_json::{Map, Value as Json, json};
use tonic::{Code, Status};

use weft_client::message_json::to_json;
use weft_client::pb;

/// The media type of problem details.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A code of problems, for the description.
pub(super) struct Known {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) means: &'static str,
    pub(super) remedy: &'static str,
}

const fn known(status: u16, code: &'static str, means: &'static str, remedy: &'static str) -> Known {
    Known { status, code, means, remedy }
}

/// Every code, with each status that it comes with.
pub(super) const KNOWN: [Known; 30] = [
    known(
        400,
        "bad-request",
        "A parameter, a header or the body cannot be read.",
        "Correct what `detail` names.",
    ),
    known(400, "bad-object", "The document is no JSON or YAML.", "Correct the place in `faults`."),
    known(
        401,
        "unauthenticated",
        "No certificate was shown, and no good token.",
        "Send `authorization: Bearer TOKEN` with a token of `weft token create`, or show a certificate.",
    ),
    known(
        403,
        "forbidden",
        "The role of the certificate or the token does not allow this.",
        "Ask with one of a role that does.",
    ),
    known(
        403,
        "other-site",
        "A browser asks for the page of another site.",
        "Ask by a program, or from a page at the address of the API.",
    ),
    known(
        404,
        "not-found",
        "There is no such path, kind, object or transaction.",
        "Compare the name with `/v1/schema` and with a list; create the object with `PUT`.",
    ),
    known(
        405,
        "method-not-allowed",
        "The path does not take the method.",
        "Use a method that the header `allow` names.",
    ),
    known(
        406,
        "not-acceptable",
        "The path has none of the media types in `accept`.",
        "Ask for one that `detail` names.",
    ),
    known(
        408,
        "too-slow",
        "The request did not arrive in time, or the answer took too long.",
        "Send it again; send large requests over a faster connection.",
    ),
    known(
        408,
        "cancelled",
        "The client had gone before the request was carried out.",
        "Send it again if it is still wanted.",
    ),
    known(
        409,
        "stale",
        "The object has another `revision` than the one in the request.",
        "Read it, and repeat the change with its revision.",
    ),
    known(
        409,
        "in-use",
        "Other objects name the one that would be deleted.",
        "Delete or change those in `faults` first, or in the same request.",
    ),
    known(
        409,
        "new-problems",
        "With `strict`: the change would bring problems.",
        "Correct the change by `new_problems`, or leave `strict` out.",
    ),
    known(
        409,
        "unconfirmed",
        "With `careful`: the change deletes a host of ports that stay, which `cut_off` names, or prunes much.",
        "Compare it with what was meant, and leave `careful` out.",
    ),
    known(
        409,
        "refused-by-rules",
        "The rules forbid what the network would be. `rules` has their code.",
        "Read `detail`; change other objects first.",
    ),
    known(409, "rules-changed", "Other rules were loaded while the request was read.", "Repeat the request."),
    known(
        409,
        "changed-meanwhile",
        "An object that goes back has changed while the journal was read.",
        "Repeat the request.",
    ),
    known(
        410,
        "too-old",
        "The controller no longer has the moment of `continue` or `from`.",
        "List again, from the first page.",
    ),
    known(
        412,
        "stale",
        "The object has another revision than `if-match`, or exists despite `if-none-match: *`.",
        "Read it, decide again, and repeat the change with its `etag`.",
    ),
    known(413, "too-large", "The request is larger than the controller takes.", "Split it."),
    known(
        415,
        "unsupported-media-type",
        "The body is a form.",
        "Send `application/json` or `application/yaml`.",
    ),
    known(
        422,
        "bad-object",
        "An object is not as its kind demands, or names what does not exist.",
        "Correct each of `faults`; `path` is the field.",
    ),
    known(
        422,
        "bad-rules",
        "New rules have mistakes, or do not fit what is there.",
        "Correct them, or change first what `detail` names.",
    ),
    known(
        422,
        "too-much-work",
        "A rule would derive more rows than `rule_rows` allows.",
        "Split the request, or raise `rule_rows` in the configuration.",
    ),
    known(
        422,
        "key-reused",
        "The `idempotency-key` is that of another request.",
        "Give each request a key of its own.",
    ),
    known(
        429,
        "too-many-requests",
        "This client, or all together, ask more than the controller does at a time.",
        "Wait for `retry-after`, and repeat.",
    ),
    known(
        500,
        "internal",
        "The controller has a fault.",
        "Report it with its log. Read the objects to see whether the request took effect.",
    ),
    known(
        501,
        "unimplemented",
        "The controller, or its rules, have no such operation.",
        "Ask a controller of another version or with other rules.",
    ),
    known(
        503,
        "journal",
        "The journal cannot be written, for example since the disk is full.",
        "Make room; then repeat.",
    ),
    known(
        503,
        "unavailable",
        "The controller stops, or has too much to do.",
        "Wait for `retry-after`, and repeat.",
    ),
];

/// Why a request is refused, or fails.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// For scripts.
    code: &'static str,
    detail: String,
    /// Further members: faults, for example.
    more: Map<String, Json>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Problem { status, code, detail: detail.into(), more: Map::new() }
    }

    /// The request itself cannot be understood.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(crate) fn method_not_allowed(method: &Method, path: &str) -> Self {
        let detail =
            format!("{} does not take {method}; the header `allow` has what it takes", cut(&shown(path)));
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
    }

    /// A refusal that is the result of a call. `is_conditional` says whether a header asked for the revision.
    pub(crate) fn of_refusal(refusal: pb::Refusal, is_conditional: bool) -> Self {
        let codes = || refusal.faults.iter().map(|fault| fault.code.as_str());
        let all = |code: &str| !refusal.faults.is_empty() && codes().all(|each| each == code);
        let stale = if is_conditional { StatusCode::PRECONDITION_FAILED } else { StatusCode::CONFLICT };
        let (status, code) = match refusal.code.as_str() {
            "bad-object" if codes().any(|code| code == "syntax") => (StatusCode::BAD_REQUEST, "bad-object"),
            "bad-object" if codes().any(|code| code == "stale") => (stale, "stale"),
            "bad-object" if all("in-use") => (StatusCode::CONFLICT, "in-use"),
            "bad-object" => (StatusCode::UNPROCESSABLE_ENTITY, "bad-object"),
            "new-problems" => (StatusCode::CONFLICT, "new-problems"),
            "unconfirmed" => (StatusCode::CONFLICT, "unconfirmed"),
            "too-much-work" => (StatusCode::UNPROCESSABLE_ENTITY, "too-much-work"),
            "key-reused" => (StatusCode::UNPROCESSABLE_ENTITY, "key-reused"),
            "bad-rules" => (StatusCode::UNPROCESSABLE_ENTITY, "bad-rules"),
            "rules-changed" => (StatusCode::CONFLICT, "rules-changed"),
            "journal" => (StatusCode::SERVICE_UNAVAILABLE, "journal"),
            "cancelled" => (StatusCode::REQUEST_TIMEOUT, "cancelled"),
            _ => (StatusCode::CONFLICT, "refused-by-rules"),
        };
        let detail = refusal.message.clone();
        let mut problem = Problem::new(status, code, detail);
        if let Json::Object(mut members) = to_json(&refusal) {
            members.remove("message");
            if problem.code == "refused-by-rules" {
                members
                    .remove("code")
                    .into_iter()
                    .for_each(|rules| drop(problem.more.insert("rules".to_owned(), rules)));
            }
            members.remove("code");
            members.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
            // Whoever asked about one object need not look into the list.
            if let Some((object, changed)) = first_changed(&members) {
                problem.more.extend(changed);
                problem.more.insert("object".to_owned(), object);
            }
            problem.more.extend(members);
        }
        problem
    }

    /// The same, if the fault is that a single object does not exist.
    pub(crate) fn or_not_found(mut self, refusal_faults: &[pb::ObjectFault]) -> Self {
        if let [fault] = refusal_faults
            && fault.code == "no-such-object"
            && fault.path.is_empty()
        {
            (self.status, self.code) = (StatusCode::NOT_FOUND, "not-found");
        }
        self
    }
}

/// The first object that has another revision than expected, and what has become of it.
fn first_changed(members: &Map<String, Json>) -> Option<(Json, Map<String, Json>)> {
    let faults = members.get("faults")?.as_array()?;
    faults.iter().find_map(|fault| {
        let changed = fault.get("changed")?.as_object()?;
        Some((fault.get("object")?.clone(), changed.clone()))
    })
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let (http, code) = match status.code() {
            Code::InvalidArgument => (StatusCode::BAD_REQUEST, "bad-request"),
            Code::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Code::PermissionDenied => (StatusCode::FORBIDDEN, "forbidden"),
            Code::OutOfRange => (StatusCode::GONE, "too-old"),
            Code::ResourceExhausted if status.message().contains("split it") => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too-large")
            }
            Code::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests"),
            Code::DeadlineExceeded => (StatusCode::REQUEST_TIMEOUT, "too-slow"),
            Code::Aborted => (StatusCode::CONFLICT, "changed-meanwhile"),
            Code::Cancelled => (StatusCode::REQUEST_TIMEOUT, "cancelled"),
            Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Code::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "unimplemented"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Problem::new(http, code, status.message())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem { status, code, detail, more } = self;
        debug_assert!(
            KNOWN.iter().any(|known| known.code == code && known.status == status.as_u16()),
            "the description lacks {status} {code}"
        );
        let mut body = json!({
            "type": format!("urn:weft:problem:{code}"),
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
        });
        if let Json::Object(members) = &mut body {
            members.extend(more);
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer to a request that failed before it reached a path, in its protocol.
pub(crate) fn failed(status: Status, is_grpc: bool) -> Response {
    if is_grpc { status.into_http() } else { Problem::from(status).into_response() }
}

/// Whether a request with these headers speaks gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE);
    content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc"))
}

pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}
