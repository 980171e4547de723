//! The way of spans to their receiver: a bounded queue, for which nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tracing::{info, warn};

/// The most spans that wait, about a kilobyte each.
const WAITING_MAX: usize = 4096;
/// The most spans of a message, and how long the first of them waits for others.
const BATCH_MAX: usize = 512;
const BATCH_TIME: Duration = Duration::from_millis(500);
/// How long the receiver may take to connect, and to answer.
const CONNECT_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What the task gets that sends spans.
#[derive(Debug)]
enum Item {
    Span(Box<SpanData>),
    /// All before it is to be sent at once.
    Flush(oneshot::Sender<()>),
}

/// Takes spans that have ended.
#[derive(Debug)]
pub(super) struct Queue {
    items: mpsc::Sender<Item>,
    lost: Arc<AtomicU64>,
}

/// The task that sends spans.
#[derive(Debug, Clone)]
pub(super) struct Export(mpsc::Sender<Item>);

impl Queue {
    /// Starts the task, which ends with the runtime.
    pub(super) fn start(
        endpoint: &str,
        resource: &Resource,
        runtime: &Handle,
    ) -> Result<(Queue, Export), String> {
        let _runtime = runtime.enter();
        let fault = |error: &dyn std::error::Error| format!("{endpoint}: {error}");
        let channel = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| fault(&error))?;
        // It connects once there is a span.
        let channel = channel.connect_timeout(CONNECT_MAX).connect_lazy();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel)
            .with_timeout(ANSWER_MAX)
            .with_retry_policy(RetryPolicy::disabled())
            .build();
        let mut exporter = exporter.map_err(|error| fault(&error))?;
        exporter.set_resource(resource);
        let (items, waiting) = mpsc::channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let sending = Sending {
            exporter,
            endpoint: endpoint.to_owned(),
            lost: lost.clone(),
            lost_before: 0,
            state: State::Well,
        };
        tokio::spawn(sending.run(waiting));
        Ok((Queue { items: items.clone(), lost }, Export(items)))
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.items.try_send(Item::Span(Box::new(span))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Export {
    /// Waits until the spans so far are sent, and no longer than this.
    pub(super) async fn flush(&self, within: Duration) {
        let (sender, flushed) = oneshot::channel();
        let flush = async {
            if self.0.send(Item::Flush(sender)).await.is_ok() {
                // It is dropped if the task has ended.
                let _ = flushed.await;
            }
        };
        // Whoever ends does not wait for a receiver that does not answer.
        let _ = tokio::time::timeout(within, flush).await;
    }
}

/// Sends spans, and logs whether it can.
struct Sending {
    exporter: SpanExporter,
    endpoint: String,
    /// The spans that were lost since the log said so for the last time.
    lost: Arc<AtomicU64>,
    /// As many were lost when the last message was sent.
    lost_before: u64,
    state: State,
}

/// Whether spans arrive, as the log said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Unreachable,
    TooFast,
}

impl Sending {
    async fn run(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(first) = items.recv().await {
            let (mut batch, mut flush) = (Vec::new(), None);
            let until = Instant::now() + BATCH_TIME;
            let mut next = Some(first);
            while let Some(item) = next.take() {
                match item {
                    Item::Span(span) => batch.push(*span),
                    Item::Flush(done) => {
                        flush = Some(done);
                        break;
                    }
                }
                if batch.len() < BATCH_MAX {
                    next = tokio::time::timeout_at(until, items.recv()).await.ok().flatten();
                }
            }
            self.send(batch).await;
            if let Some(done) = flush {
                self.count();
                let _ = done.send(());
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let (count, endpoint) = (batch.len() as u64, &self.endpoint);
        let exported = self.exporter.export(batch).await;
        let lost = self.lost.load(Ordering::Relaxed);
        match exported {
            Err(error) => {
                self.lost.fetch_add(count, Ordering::Relaxed);
                if self.state != State::Unreachable {
                    warn!(endpoint, %error, "spans cannot be sent; they are dropped until the receiver answers");
                }
                self.state = State::Unreachable;
            }
            Ok(()) if self.state == State::Unreachable => {
                info!(endpoint, lost = self.lost.swap(0, Ordering::Relaxed), "spans are sent again");
                self.state = State::Well;
            }
            Ok(()) if lost > self.lost_before => {
                if self.state != State::TooFast {
                    warn!(endpoint, "spans come faster than they can be sent; what is more is dropped");
                }
                self.state = State::TooFast;
            }
            Ok(()) => self.state = State::Well,
        }
        self.lost_before = self.lost.load(Ordering::Relaxed);
    }

    /// Logs at the end how many were lost.
    fn count(&mut self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(endpoint = self.endpoint, lost, "spans were lost");
        }
    }
}
