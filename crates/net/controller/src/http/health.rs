//! Whether the controller lives (`/livez`) and whether it serves (`/readyz`): for supervisors and load balancers, which need no role. Both answer
//! while the state is restored, when everything else waits.

use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::HEALTH;
use crate::engine::Engine;

/// The time without progress after which the engine is taken for dead.
const STUCK: Duration = Duration::from_mins(1);

/// What both look at.
#[derive(Clone)]
struct Observed {
    engine: Engine,
    restored: watch::Receiver<bool>,
}

pub(super) fn router(engine: Engine, restored: watch::Receiver<bool>) -> Router {
    let [live, ready] = HEALTH;
    let observed = Observed { engine, restored };
    Router::new().route(live, get(livez)).route(ready, get(readyz)).with_state(observed)
}

async fn livez(State(observed): State<Observed>) -> Response {
    answer(observed.stuck().into_iter())
}

async fn readyz(State(observed): State<Observed>) -> Response {
    let starts =
        (!*observed.restored.borrow()).then(|| "starting: the state is restored from the journal".to_owned());
    let stops = observed.engine.is_stopping().then(|| "stopping".to_owned());
    answer(starts.into_iter().chain(stops).chain(observed.stuck()))
}

impl Observed {
    /// Why the engine is taken for dead.
    fn stuck(&self) -> Option<String> {
        // Without its work, which has names: strangers may ask.
        let time = self.engine.activity().stuck(Instant::now().into_std()).filter(|time| *time >= STUCK)?;
        Some(format!("the engine has made no progress for {} s", time.as_secs()))
    }
}

/// All is well if there are no reasons against it.
fn answer(reasons: impl Iterator<Item = String>) -> Response {
    let mut text = String::new();
    for reason in reasons {
        let _ = writeln!(text, "{reason}");
    }
    let (status, text) = if text.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, text)
    };
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")], text)
        .into_response()
}
