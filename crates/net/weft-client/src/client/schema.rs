//! The kinds that the controller's rules declare, and its metrics. gRPC has no call for them: they are read by HTTP, on the same connection.

use std::future::poll_fn;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use prost::bytes::Bytes;
use serde_json::Value as Json;
use tonic::Status;
use tonic::body::Body;
use tonic::client::GrpcService as _;

use super::{ANSWER_MAX, Client, ClientError, within};
use crate::MESSAGE_BYTES_MAX;

impl Client {
    /// The kinds: an array of objects with `kind`, `path` and `summary`.
    pub async fn kinds(&mut self) -> Result<Json, ClientError> {
        self.read_by_http("/v1/schema").await.map(|mut answer| answer["kinds"].take())
    }

    /// The JSON Schema of a kind. Its name is read as those of a command line are.
    pub async fn schema(&mut self, kind: &str) -> Result<Json, ClientError> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if kind.is_empty() || !kind.chars().all(is_name) {
            return Err(ClientError::NotFound(format!("{kind:?} is no name of a kind")));
        }
        self.read_by_http(&format!("/v1/schema/{kind}")).await
    }

    /// The metrics of the controller, in the text form of `OpenMetrics`; `None` if it has none.
    pub async fn metrics(&mut self) -> Result<Option<String>, ClientError> {
        let (status, body) = self.get_by_http("/metrics").await?;
        match status {
            StatusCode::OK => Ok(Some(String::from_utf8_lossy(&body).into_owned())),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(self.failed(Status::permission_denied(format!("/metrics: {status}"))))
            }
            _ => Err(self.failed(Status::internal(format!("/metrics: {status}")))),
        }
    }

    async fn read_by_http(&mut self, path: &str) -> Result<Json, ClientError> {
        let (status, body) = self.get_by_http(path).await?;
        let json: Json = serde_json::from_slice(&body)
            .map_err(|error| self.failed(Status::internal(format!("its answer is no JSON: {error}"))))?;
        if status == StatusCode::OK {
            return Ok(json);
        }
        let why = json["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned);
        let is_unknown = status == StatusCode::NOT_FOUND;
        Err(self.failed(if is_unknown { Status::not_found(why) } else { Status::internal(why) }))
    }

    /// The status and the body of what is at a path.
    async fn get_by_http(&mut self, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
        let channel = &mut self.channel;
        let answer = async {
            let failed = |error: &dyn std::fmt::Display| Status::unavailable(error.to_string());
            poll_fn(|context| channel.poll_ready(context)).await.map_err(|error| failed(&error))?;
            let request = Request::get(path).body(Body::empty()).map_err(|error| failed(&error))?;
            let answer = channel.call(request).await.map_err(|error| failed(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MESSAGE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| Status::internal(error.to_string()))?.to_bytes();
            Ok((head.status, body))
        };
        within(ANSWER_MAX, answer).await.map_err(|status| self.failed(status))
    }
}
