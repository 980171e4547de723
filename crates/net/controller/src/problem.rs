//! Refusals and failures as problem details (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nlog_data::quotation::{cut, shown};
use serde_json::{Map, Value as Json, json};
use tonic::{Code, Status};

use crate::message_json::to_json;
use crate::pb;

/// The media type of problem details.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

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

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let (http, code) = match status.code() {
            Code::InvalidArgument => (StatusCode::BAD_REQUEST, "bad-request"),
            Code::NotFound => (StatusCode::NOT_FOUND, "not-found"),
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
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer to a request that failed before it reached a path.
pub(crate) fn problem_of(status: &Status) -> Response {
    Problem::from(status.clone()).into_response()
}

pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}
