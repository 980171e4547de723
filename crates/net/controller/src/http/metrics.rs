//! `GET /metrics`, for Prometheus; and what is counted of every call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::access::{CALLS, METHODS, METRICS};
use crate::engine::Engine;
use crate::metrics::{Metrics, OPEN_METRICS, Observed, PLAIN, Stored, plain, wants_open_metrics};
use crate::problem::is_grpc;

/// The time that a busy engine has to say what it has stored. After it, the last answer counts.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long an answer of the engine is good enough.
const GOOD: Duration = Duration::from_secs(1);
/// The call of what has no path.
const UNKNOWN: &str = "(unknown)";

/// What metrics are read from.
#[derive(Clone)]
struct Source {
    engine: Engine,
    stored: LastStored,
}

/// What the engine had stored when it last had time to say so.
#[derive(Clone, Default)]
pub(crate) struct LastStored(Arc<Mutex<Answer>>);

#[derive(Default)]
struct Answer {
    stored: Option<Arc<Stored>>,
    /// When the engine was asked.
    at: Option<Instant>,
}

impl LastStored {
    /// What it has stored now, or had a moment ago: readers that come often do not wake it each time.
    async fn read(&self, engine: &Engine) -> Option<Arc<Stored>> {
        let mut last = self.0.lock().await;
        if last.at.is_none_or(|at| at.elapsed() >= GOOD) {
            if let Ok(Ok(stored)) = timeout(PATIENCE, engine.stored()).await {
                last.stored = Some(Arc::new(stored));
            }
            last.at = Some(Instant::now());
        }
        last.stored.clone()
    }
}

pub(super) fn router(engine: Engine, stored: LastStored) -> Router {
    Router::new().route(METRICS, get(metrics)).with_state(Source { engine, stored })
}

async fn metrics(State(source): State<Source>, headers: HeaderMap) -> Response {
    let text = source.engine.metrics().text(&source.observed().await);
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let (content, text) =
        if wants_open_metrics(accept) { (OPEN_METRICS, text) } else { (PLAIN, plain(&text)) };
    ([(header::CONTENT_TYPE, content), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

impl Source {
    async fn observed(&self) -> Observed {
        let begun = Instant::now();
        let stored = self.stored.read(&self.engine).await;
        Observed {
            status: self.engine.status(&[].into()).ok(),
            rules: Some(self.engine.rules().get()),
            stored,
            waiting: self.engine.waiting(),
            busy: self.engine.busy().map(|busy| busy.time).unwrap_or_default(),
            took: begun.elapsed(),
        }
    }
}

/// Counts a call, and the time until its answer begins.
pub(super) async fn observe(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let (begun, call, is_grpc) = (Instant::now(), call(&request), is_grpc(request.headers()));
    let response = next.run(request).await;
    metrics.called(&call, &code(&response, is_grpc), Some(begun.elapsed()));
    response
}

/// The call, as a label: the path with placeholders, or the name of the gRPC call. There are few.
fn call(request: &Request) -> String {
    if is_grpc(request.headers()) {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        return CALLS.iter().find(|(call, _)| *call == name).map_or(UNKNOWN, |(call, _)| call).to_owned();
    }
    let path = request.extensions().get::<MatchedPath>().filter(|_| METHODS.contains(request.method()));
    path.map_or_else(|| UNKNOWN.to_owned(), |path| format!("{} {}", request.method(), path.as_str()))
}

/// How the call went, as far as the head of the answer says so.
pub(crate) fn code(response: &Response, is_grpc: bool) -> String {
    if !is_grpc {
        return response.status().as_u16().to_string();
    }
    let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
    format!("{code:?}")
}
