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
//! | `answer` | messages as answers, whole or as lines |
//! | `openapi` | the description of all this, made of the rules that run |
//!
//! Refusals and failures are in [`crate::problem`], the JSON of messages in [`crate::message_json`].

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use tonic::Status;
use tonic::service::Routes;

use crate::api::Api;
use crate::pb::controller_server::ControllerServer;
use crate::problem::{Problem, not_found};
use crate::requests::MESSAGE_BYTES_MAX;

mod answer;
mod objects;
mod openapi;
mod paths;
mod query;
mod questions;

/// The encoded description of the API, for gRPC's server reflection.
const DESCRIPTORS: &[u8] = include_bytes!("api/weft.v1.descriptors");

/// HTTP and gRPC.
///
/// # Errors
/// The description that is built in cannot be read.
pub(crate) fn app(api: Api) -> Result<Router, String> {
    let api = Arc::new(api);
    let grpc = grpc(api.clone())?.into_axum_router().reset_fallback();
    let http = paths::router();
    let http = http.method_not_allowed_fallback(async |request: Request| {
        Problem::method_not_allowed(request.method(), request.uri().path()).into_response()
    });
    Ok(http.merge(grpc).fallback(fallback).layer(axum::Extension(api)))
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
    // Whoever gets an answer gets it from a controller that serves: it listens once its state is restored.
    let (reporter, health) = tonic_health::server::health_reporter();
    drop(reporter);
    Ok(Routes::new(controller).add_service(health).add_service(v1).add_service(v1alpha))
}

/// What has no path, in the protocol of the request.
async fn fallback(request: Request) -> Response {
    let content = request.headers().get(axum::http::header::CONTENT_TYPE);
    if content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc")) {
        return Status::unimplemented("there is no such call").into_http::<Body>();
    }
    not_found(format!("there is no {}; /v1/openapi.json describes what there is", request.uri().path()))
        .into_response()
}
