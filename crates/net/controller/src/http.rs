//! The API over HTTP: JSON in and out, beside gRPC on the same connections.
//!
//! A request becomes a message of `proto/weft/v1/weft.proto` and takes the way of a gRPC call ([`Api`]), so both have the same operations,
//! limits and faults. The paths follow from the kinds that the rules declare; a test compares the operations of both.
//!
//! | file | |
//! |---|---|
//! | `paths` | every path, with its methods, parameters and operation |
//! | `query` | parameters of a request |
//! | `objects` | objects: read, listed, changed |
//! | `questions` | everything else |
//! | `health` | whether the controller lives and serves |
//! | `metrics` | metrics, and how often each call was made |
//! | `answer` | messages as answers, whole or as lines |
//! | `openapi` | the description of all this, made of the rules that run |
//!
//! Refusals and failures are in [`crate::problem`], the JSON of messages in [`weft_client::message_json`].

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;
use tonic::Status;
use tonic::service::Routes;
use weft_client::pb::controller_server::ControllerServer;
use weft_client::{DESCRIPTORS, MESSAGE_BYTES_MAX};

use crate::api::Api;
use crate::engine::Engine;
use crate::problem::{Problem, is_grpc, not_found};
use crate::spans::{self, Spans};

mod answer;
mod health;
mod metrics;
mod objects;
mod openapi;
mod paths;
mod query;
mod questions;

pub(crate) use metrics::{LastStored, code};

/// HTTP and gRPC. Requests wait until `restored` is true. With `spans`, each call has one. Also returns what keeps the health service of gRPC
/// up to date, which never completes.
///
/// # Errors
/// The description that is built in cannot be read.
pub(crate) fn app(
    api: Api,
    restored: watch::Receiver<bool>,
    (spans, stored): (Option<Spans>, LastStored),
) -> Result<(Router, impl Future<Output = ()> + Send + 'static), String> {
    let (engine, api) = (api.engine().clone(), Arc::new(api));
    let (health, follow) = health::grpc(engine.clone(), restored.clone());
    let apart = apart(&engine, restored.clone(), stored).merge(health);
    let grpc = grpc(api.clone())?.into_axum_router().reset_fallback();
    let http = paths::router();
    let http = http.method_not_allowed_fallback(async |request: Request| {
        Problem::method_not_allowed(request.method(), request.uri().path()).into_response()
    });
    let http = http.layer(axum::middleware::from_fn(from_no_other_site));
    let all = http.merge(grpc).fallback(fallback).layer(axum::Extension(api));
    let all = all.layer(axum::middleware::from_fn_with_state(restored, once_restored));
    let all = match spans {
        Some(spans) => all.layer(axum::middleware::from_fn_with_state(spans, spans::of_call)),
        None => all,
    };
    let observe = axum::middleware::from_fn_with_state(engine.metrics().clone(), metrics::observe);
    Ok((all.layer(observe).merge(apart), follow))
}

/// What answers also while the state is restored: whether the controller lives and serves, and its metrics.
pub(crate) fn apart(engine: &Engine, restored: watch::Receiver<bool>, stored: LastStored) -> Router {
    health::router(engine.clone(), restored).merge(metrics::router(engine.clone(), stored))
}

/// Lets a request wait for the controller that starts. What it says before it knows its state would be wrong.
async fn once_restored(
    State(mut restored): State<watch::Receiver<bool>>,
    request: Request,
    next: Next,
) -> Response {
    // The sender is gone if the start has failed or the controller ends; then the operations say so.
    let _ = restored.wait_for(|is_restored| *is_restored).await;
    next.run(request).await
}

/// The services of gRPC.
fn grpc(api: Arc<Api>) -> Result<Routes, String> {
    let controller = ControllerServer::from_arc(api)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let unreadable = |error: tonic_reflection::server::Error| error.to_string();
    // Clients of the first version of reflection are still in use, such as those of Python.
    let (v1, v1alpha) =
        (reflection().build_v1().map_err(unreadable)?, reflection().build_v1alpha().map_err(unreadable)?);
    Ok(Routes::new(controller).add_service(v1).add_service(v1alpha))
}

/// Refuses what a browser sends for the page of another site: it reaches addresses of its own machine, where the API asks for no password.
async fn from_no_other_site(request: Request, next: Next) -> Response {
    if !is_of_another_site(request.headers()) {
        return next.run(request).await;
    }
    let detail = "a page of another site asks by a browser; ask by a program, or from a page at the address of the API";
    Problem::new(StatusCode::FORBIDDEN, "other-site", detail).into_response()
}

/// Whether a request has the origin of a page, and this is not the address that is asked.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let host = text(header::HOST).unwrap_or_default();
    let is_same = ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host));
    // A name of another site can lead here.
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    !(is_same && (name == "localhost" || name.parse::<IpAddr>().is_ok()))
}

/// What has no path, in the protocol of the request.
async fn fallback(request: Request) -> Response {
    if is_grpc(request.headers()) {
        return Status::unimplemented("there is no such call").into_http::<Body>();
    }
    not_found(format!("there is no {}; /v1/openapi.json describes what there is", request.uri().path()))
        .into_response()
}
