//! Whether the controller lives (`/livez`) and whether it serves (`/readyz`, the health service of gRPC): for supervisors and load balancers. The
//! paths of HTTP need no role. All answer while the state is restored, when everything else waits.

use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::service::Routes;
use tonic_health::ServingStatus;

use crate::access::{HEALTH, SERVICE};
use crate::engine::Engine;

/// The time without progress after which the engine is taken for dead.
const STUCK: Duration = Duration::from_mins(1);

/// How often the health service of gRPC looks.
const LOOK: Duration = Duration::from_millis(500);

/// What all of them look at.
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

/// The health service of gRPC, and what keeps it up to date, which never completes: it serves as long as `/readyz` says so.
pub(super) fn grpc(
    engine: Engine,
    mut restored: watch::Receiver<bool>,
) -> (Router, impl Future<Output = ()> + Send + 'static) {
    let (reporter, service) = tonic_health::server::health_reporter();
    let follow = async move {
        loop {
            let observed = Observed { engine: engine.clone(), restored: restored.clone() };
            let is_ready = observed.against().is_empty();
            let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
            // The empty name stands for the whole server.
            for name in ["", SERVICE] {
                reporter.set_service_status(name, status).await;
            }
            tokio::select! {
                // Whoever waits for the start hears of it at once. The sender is gone afterwards.
                Ok(()) = restored.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    };
    (Routes::new(service).into_axum_router().reset_fallback(), follow)
}

async fn livez(State(observed): State<Observed>) -> Response {
    answer(observed.stuck().into_iter())
}

async fn readyz(State(observed): State<Observed>) -> Response {
    answer(observed.against().into_iter())
}

impl Observed {
    /// What is against sending requests here.
    fn against(&self) -> Vec<String> {
        let starts = (!*self.restored.borrow()).then_some("starting: the state is restored from the journal");
        let stops = self.engine.is_stopping().then_some("stopping");
        let refused = self.engine.activity().is_refused().then_some(
            "the disk refuses the journal, so changes are refused; the log has the error, and the next write that succeeds ends this",
        );
        let reasons = [starts, stops, refused].into_iter().flatten().map(str::to_owned);
        reasons.chain(self.stuck()).collect()
    }

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
