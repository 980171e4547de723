//! Spans of `OpenTelemetry`: where the time of one call goes, for who collects traces.
//!
//! A call of the API is a span. It continues the trace of its client (`traceparent`), if the client has sampled that; other calls are sampled
//! by a share of the configuration. Below it are the stages of its transaction, which the engine's thread measures (`stages`): the wait in the
//! queue, the derivation, the journal, and each switch, with the bundle and its confirmation. A transaction belongs to one request, but
//! shares its write of the journal with others: each of them has a span of that write, with the number of transactions in it.
//!
//! Spans are made once their times are known. Without a receiver in the configuration there are none of these objects, and a call that is not
//! sampled costs a look at its headers and a random number. They go to the receiver by a queue that is bounded (`export`): nothing waits for it.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use nlog_data::quotation::cut;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    FutureExt as _, Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use weft_core::core::Refusal;
use weft_core::machine::Applied;

use crate::access::{Access, METHODS};
use crate::listener::Caller;
use crate::problem::is_grpc;

mod export;
mod stages;

use export::{Export, Queue};
pub(crate) use stages::Stages;

/// The name of a call until it is known that somebody wants it.
const CALL: &str = "call";
/// The header of the result of a gRPC call.
const GRPC_STATUS: &str = "grpc-status";

/// Makes spans, and sends them to their receiver. Clones share it.
#[derive(Debug, Clone)]
pub struct Spans {
    tracer: SdkTracer,
    export: Export,
}

/// A call whose spans are wanted, for the stages of its transaction.
#[derive(Debug)]
pub(crate) struct Traced(Context);

impl Traced {
    /// What its trace is found by.
    pub(crate) fn trace_id(&self) -> String {
        self.0.span().span_context().trace_id().to_string()
    }
}

impl Spans {
    /// Sends spans to a receiver of OTLP over gRPC, such as `http://127.0.0.1:4317`: those of this share of the calls, from 0 to 1, and those of
    /// calls whose clients have sampled them. The receiver need not be there.
    ///
    /// # Errors
    /// It is not the address of a receiver.
    pub fn start(endpoint: &str, share: f64, runtime: &Handle) -> Result<Spans, String> {
        let resource = Resource::builder()
            .with_service_name("weft-controller")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let (queue, export) = Queue::start(endpoint, &resource, runtime)?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share)));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(sampler)
            .with_span_processor(queue)
            .build();
        Ok(Spans { tracer: provider.tracer("weft"), export })
    }

    /// Waits until the spans so far are sent, and no longer than this.
    pub(crate) async fn flush(&self, within: Duration) {
        self.export.flush(within).await;
    }
}

/// The layer of the API that makes the span of each call. It runs within the thread that serves the call.
pub(crate) async fn of_call(State(spans): State<Spans>, request: Request, next: Next) -> Response {
    let parent =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(request.headers()));
    let builder = spans.tracer.span_builder(CALL).with_kind(SpanKind::Server);
    let span = builder.start_with_context(&spans.tracer, &parent);
    if !span.is_recording() {
        return next.run(request).await;
    }
    let call = Context::new().with_span(span);
    let is_grpc = is_grpc(request.headers());
    describe(&call, &request, is_grpc);
    let response = next.run(request).with_context(call.clone()).await;
    ended(&call, &response, is_grpc);
    call.span().end();
    response
}

/// What a call is, and who makes it.
fn describe(call: &Context, request: &Request, is_grpc: bool) {
    let (span, path) = (call.span(), request.uri().path());
    if is_grpc {
        let name = cut(path.trim_start_matches('/')).into_owned();
        span.set_attribute(KeyValue::new("rpc.system", "grpc"));
        if let Some((service, method)) = name.split_once('/') {
            span.set_attribute(KeyValue::new("rpc.service", service.to_owned()));
            span.set_attribute(KeyValue::new("rpc.method", method.to_owned()));
        }
        span.update_name(name);
    } else {
        // As the conventions of OpenTelemetry have it: any word can be a method.
        let is_known = METHODS.contains(request.method());
        let method = if is_known { request.method().to_string() } else { "_OTHER".to_owned() };
        let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
        span.update_name(match &route {
            Some(route) => format!("{method} {route}"),
            None => method.clone(),
        });
        span.set_attribute(KeyValue::new("http.request.method", method));
        span.set_attributes(route.map(|route| KeyValue::new("http.route", route)));
    }
    let identity = match request.extensions().get::<Caller>().map(|caller| (&caller.access, &caller.peer)) {
        Some((Access::Of(_), peer))
            if peer.identity.as_ref().is_some_and(|name| name.starts_with("token ")) =>
        {
            "token"
        }
        Some((Access::Of(_), _)) => "certificate",
        Some((Access::Open, peer)) if peer.uid.is_some() => "unix user",
        Some((Access::Open, _)) => "loopback",
        Some((Access::Unknown, _)) | None => "unknown",
    };
    span.set_attribute(KeyValue::new("weft.identity", identity));
}

/// What has become of a call. A call of gRPC that answers in messages has its result after them, so this is whether it began to.
fn ended(call: &Context, response: &Response, is_grpc: bool) {
    let (span, status) = (call.span(), response.status());
    if is_grpc {
        let code =
            response.headers().get(GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse::<i64>().ok());
        let code = code.unwrap_or_default();
        span.set_attribute(KeyValue::new("rpc.grpc.status_code", code));
        if code != 0 {
            span.set_status(Status::error(tonic::Code::from_i32(code as i32).description()));
        }
    } else {
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_server_error() {
            span.set_status(Status::error(status.to_string()));
        }
    }
}

impl Traced {
    /// The call that is being served, if its spans are wanted.
    pub(crate) fn current() -> Option<Traced> {
        Context::map_current(|call| {
            let span = call.span();
            let is_wanted = call.has_active_span() && span.span_context().is_sampled();
            // Of the span, its name alone: it ends when the call does.
            is_wanted.then(|| Traced(Context::new().with_remote_span_context(span.span_context().clone())))
        })
    }

    /// What has become of the change that the present call asks for.
    pub(crate) fn result(result: &Result<Applied, Refusal>) {
        Context::map_current(|call| match result {
            Ok(Applied { txn: Some(txn), .. }) => {
                call.span().set_attribute(KeyValue::new("weft.txn", *txn as i64));
            }
            Ok(_) => {}
            Err(refusal) => call.span().set_status(Status::error(cut(&refusal.to_string()).into_owned())),
        });
    }
}

/// The headers of a request, for `traceparent` and `tracestate`.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}
