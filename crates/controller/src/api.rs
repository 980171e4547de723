//! The gRPC interface: `proto/weft/v1/weft.proto` to the [`Engine`] and back.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;

use network::{Batch, Kind, ObjectError, ObjectKey, Outcome, UnknownKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::core::{Problem, Refusal};
use crate::engine::{Applied, Engine, Found, Listing, Stopping};
use crate::fleet::SwitchStatus;
use crate::pb;
use crate::receipt::{Progress, Receipt, SwitchReceipt};
use crate::rules::RuleSource;

/// How many objects or flows go into one message of a stream.
const CHUNK: usize = 1000;
/// The largest request: a few hundred thousand objects.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Serves the interface.
pub(crate) struct Api {
    engine: Engine,
}

type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Api {
    pub(crate) fn new(engine: Engine) -> Self {
        Api { engine }
    }
}

#[tonic::async_trait]
impl pb::controller_server::Controller for Api {
    async fn apply(&self, request: Request<pb::ApplyRequest>) -> Result<Response<pb::ApplyResponse>, Status> {
        let pb::ApplyRequest { documents, objects, by } = request.into_inner();
        // Parsing takes its time; other requests go on meanwhile.
        let batch = tokio::task::spawn_blocking(move || {
            let mut batch = Batch::default();
            for document in &documents {
                batch.add_document(&document.name, &document.text);
            }
            batch.add_json("request", &objects.join("\n"));
            batch
        });
        let batch = batch.await.map_err(|error| Status::internal(error.to_string()))?;
        let result = self.engine.apply(batch, origin(by)).await.map_err(stopping)?;
        let result = match result {
            Ok(applied) => pb::apply_response::Result::Accepted(accepted(applied)),
            Err(refusal) => pb::apply_response::Result::Refusal(refused(&refusal)),
        };
        Ok(Response::new(pb::ApplyResponse { result: Some(result) }))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::DeleteResponse>, Status> {
        let pb::DeleteRequest { objects, by } = request.into_inner();
        let key = |object: pb::ObjectRef| Ok(ObjectKey { kind: kind(&object.kind)?, id: object.id });
        let keys = objects.into_iter().map(key).collect::<Result<_, Status>>()?;
        let result = self.engine.delete(keys, origin(by)).await.map_err(stopping)?;
        let result = match result {
            Ok(applied) => pb::delete_response::Result::Accepted(accepted(applied)),
            Err(refusal) => pb::delete_response::Result::Refusal(refused(&refusal)),
        };
        Ok(Response::new(pb::DeleteResponse { result: Some(result) }))
    }

    type GetStream = Results<pb::GetResponse>;

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let pb::GetRequest { kind: name, id } = request.into_inner();
        let objects = self.engine.get(kind(&name)?, id.clone()).await.map_err(stopping)?;
        if let Some(id) = id
            && objects.is_empty()
        {
            return Err(Status::not_found(format!("{name} {id} does not exist")));
        }
        let messages: Vec<_> = objects.chunks(CHUNK).map(|objects| Ok(get_response(objects))).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    type ListFlowsStream = Results<pb::ListFlowsResponse>;

    async fn list_flows(
        &self,
        request: Request<pb::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let node = request.into_inner().transport_node;
        let listing = self.engine.list(node.clone()).await.map_err(stopping)?;
        let listing =
            listing.ok_or_else(|| Status::not_found(format!("transport_node {node} does not exist")))?;
        let messages = tokio::task::spawn_blocking(move || listing_messages(&listing));
        let messages = messages.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(Box::pin(tokio_stream::iter(messages.into_iter().map(Ok)))))
    }

    async fn status(
        &self,
        _request: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        let status = self.engine.status().await.map_err(stopping)?;
        Ok(Response::new(pb::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            last_txn: status.last_txn,
            switches: status.switches.into_iter().map(|(switch, vifs)| switch_status(switch, vifs)).collect(),
            objects: status.objects.iter().map(|(kind, count)| (kind.to_string(), *count as u64)).collect(),
            problems: status.problems.into_iter().map(problem).collect(),
        }))
    }

    type WatchReceiptsStream = Results<pb::Receipt>;

    async fn watch_receipts(
        &self,
        request: Request<pb::WatchReceiptsRequest>,
    ) -> Result<Response<Self::WatchReceiptsStream>, Status> {
        let pb::WatchReceiptsRequest { from_txn: from, strict } = request.into_inner();
        let (kept, mut live) = self.engine.watch(from).await.map_err(stopping)?;
        if let Some(from) = from.filter(|_| strict)
            && kept.first().is_none_or(|first| first.txn != from)
        {
            return Err(Status::not_found(format!(
                "the receipt of transaction {from} is not kept: the transaction is too old, precedes the last start of the controller, or has not happened yet"
            )));
        }
        let (sender, receiver) = mpsc::channel(CHUNK);
        tokio::spawn(async move {
            for receipt in &kept {
                if sender.send(Ok(receipt_message(receipt))).await.is_err() {
                    return;
                }
            }
            loop {
                let message = tokio::select! {
                    () = sender.closed() => return,
                    received = live.recv() => match received {
                        Ok(receipt) if from.is_some_and(|from| receipt.txn < from) => continue,
                        Ok(receipt) => Ok(receipt_message(&receipt)),
                        Err(RecvError::Lagged(missed)) => {
                            Err(Status::data_loss(format!("the watcher is too slow and missed {missed} receipts; watch again from the last one received")))
                        }
                        Err(RecvError::Closed) => return,
                    },
                };
                let last = message.is_err();
                if sender.send(message).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn get_response(found: &[Found]) -> pb::GetResponse {
    let state = |found: &Found| pb::ObjectState { mtu: found.mtu, problems: found.problems.clone() };
    pb::GetResponse {
        objects: found.iter().map(|found| found.object.clone()).collect(),
        states: found.iter().map(state).collect(),
    }
}

fn problem(problem: Problem) -> pb::Problem {
    let Problem { kind, id, text } = problem;
    pb::Problem { object: Some(pb::ObjectRef { kind, id }), text }
}

fn origin(by: String) -> String {
    if by.is_empty() { "api".to_owned() } else { by }
}

fn stopping(error: Stopping) -> Status {
    Status::unavailable(error.to_string())
}

fn kind(name: &str) -> Result<Kind, Status> {
    name.parse().map_err(|error: UnknownKind| match &error {
        UnknownKind::Planned(_) => Status::unimplemented(error.to_string()),
        UnknownKind::Unknown { .. } => Status::invalid_argument(format!("kind {name:?}: {error}")),
    })
}

fn accepted(applied: Applied) -> pb::Accepted {
    let outcome = |(key, outcome): (ObjectKey, Outcome)| pb::ObjectOutcome {
        object: Some(pb::ObjectRef { kind: key.kind.to_string(), id: key.id }),
        outcome: match outcome {
            Outcome::Created => pb::Outcome::Created,
            Outcome::Updated => pb::Outcome::Updated,
            Outcome::Unchanged => pb::Outcome::Unchanged,
            Outcome::Deleted => pb::Outcome::Deleted,
        }
        .into(),
    };
    pb::Accepted {
        txn: applied.txn,
        objects: applied.outcomes.into_iter().map(outcome).collect(),
        warnings: applied.warnings,
    }
}

fn refused(refusal: &Refusal) -> pb::Refusal {
    let (code, faults) = match refusal {
        Refusal::Objects { faults } => ("bad-object", faults.iter().map(fault).collect()),
        Refusal::Labels(_) => ("labels-exhausted", Vec::new()),
        Refusal::Rules(error) => (error.code.name(), Vec::new()),
        Refusal::Journal(_) => ("journal", Vec::new()),
    };
    let message = match refusal {
        Refusal::Objects { faults } => match faults.as_slice() {
            [fault] => fault.to_string(),
            faults => format!("{} faults; nothing was applied", faults.len()),
        },
        Refusal::Labels(message) | Refusal::Journal(message) => message.clone(),
        Refusal::Rules(error) => error.message.clone(),
    };
    pb::Refusal { code: code.to_owned(), message, faults }
}

fn fault(error: &ObjectError) -> pb::ObjectFault {
    pb::ObjectFault {
        code: error.code.name().to_owned(),
        document: error.place.as_ref().map(|place| place.document.clone()).unwrap_or_default(),
        place: error.place.as_ref().map(|place| place.number),
        object: (error.kind.is_some() || error.id.is_some()).then(|| pb::ObjectRef {
            kind: error.kind.clone().unwrap_or_default(),
            id: error.id.clone().unwrap_or_default(),
        }),
        path: error.path.clone(),
        message: error.message.clone(),
        text: error.to_string(),
    }
}

/// Flows in the order that people read them; at least one message.
fn listing_messages(listing: &Listing) -> Vec<pb::ListFlowsResponse> {
    let unreadable = |error: openflow_rs::DecodeError| format!("cannot be decoded: {error}");
    let mut flows: Vec<pb::Flow> = listing
        .desired
        .flows
        .iter()
        .map(|(key, flow)| pb::Flow {
            table_id: key.table().into(),
            priority: key.priority().into(),
            r#match: key.matching().map_or_else(unreadable, |matching| matching.to_string()),
            actions: flow.actions().map_or_else(unreadable, |actions| actions.to_string()),
            cookie: flow.cookie(),
            origin: listing.origin(key),
        })
        .collect();
    flows.sort_by(|a, b| {
        let order = |flow: &pb::Flow| (flow.table_id, std::cmp::Reverse(flow.priority));
        order(a).cmp(&order(b)).then_with(|| a.r#match.cmp(&b.r#match))
    });
    let tunnel = |(name, tunnel): (&String, &ovs_driver::Tunnel)| pb::Tunnel {
        name: name.clone(),
        encap: tunnel.encap.to_string(),
        remote: tunnel.remote.to_string(),
    };
    let patch = |(name, patch): (&String, &ovs_driver::Patch)| pb::Patch {
        name: name.clone(),
        bridge: patch.bridge.clone(),
        peer: patch.peer.clone(),
    };
    let bucket = |((group, bucket), what): (&(u32, u32), &ovs_driver::Bucket)| pb::Bucket {
        group: *group,
        bucket: *bucket,
        actions: what.actions().map_or_else(unreadable, |actions| actions.to_string()),
        rule: what.rule(),
    };
    let buckets: Vec<pb::Bucket> = listing.desired.groups.iter().map(bucket).collect();
    let mut told = HashSet::new();
    let mut messages = vec![pb::ListFlowsResponse {
        tunnels: listing.desired.tunnels.iter().map(tunnel).collect(),
        patches: listing.desired.patches.iter().map(patch).collect(),
        ..pb::ListFlowsResponse::default()
    }];
    let mut rules = |fingerprints: &mut dyn Iterator<Item = u64>| -> Vec<pb::Rule> {
        let rules: BTreeMap<u64, pb::Rule> = fingerprints
            .filter(|fingerprint| told.insert(*fingerprint))
            .filter_map(|fingerprint| listing.rules.source(fingerprint))
            .map(|rule| (rule.fingerprint, rule_message(rule)))
            .collect();
        rules.into_values().collect()
    };
    for chunk in flows.chunks(CHUNK) {
        let rules = rules(&mut chunk.iter().flat_map(|flow| [flow.cookie].into_iter().chain(flow.origin)));
        messages.push(pb::ListFlowsResponse { flows: chunk.to_vec(), rules, ..Default::default() });
    }
    for chunk in buckets.chunks(CHUNK) {
        let rules = rules(&mut chunk.iter().map(|bucket| bucket.rule));
        messages.push(pb::ListFlowsResponse { buckets: chunk.to_vec(), rules, ..Default::default() });
    }
    messages
}

fn rule_message(rule: &RuleSource) -> pb::Rule {
    pb::Rule {
        fingerprint: rule.fingerprint,
        file: rule.file.to_string(),
        line: rule.line,
        column: rule.column,
        text: rule.text.to_string(),
    }
}

fn switch_status(status: SwitchStatus, vifs: usize) -> pb::SwitchStatus {
    pb::SwitchStatus {
        transport_node: status.node,
        connected: status.connected,
        synced: status.synced,
        last_error: status.last_error,
        pending: status.pending as u64,
        confirmed_txn: status.confirmed_txn,
        flows: status.flows as u64,
        tunnels: status.tunnels as u64,
        sync_flow_mods: status.sync_flow_mods.map(|count| count as u64),
        vifs: vifs as u64,
        refused: status.refused as u64,
        groups: status.groups as u64,
        patches: status.patches as u64,
        foreign_changes: status.foreign_changes as u64,
        last_foreign_change: status.last_foreign_change,
        driver_restarts: status.driver_restarts as u64,
        last_driver_failure: status.last_driver_failure,
    }
}

fn receipt_message(receipt: &Receipt) -> pb::Receipt {
    pb::Receipt {
        txn: receipt.txn,
        by: receipt.by.clone(),
        at: receipt.at.clone(),
        computed_us: receipt.computed.as_micros() as u64,
        journalled_us: receipt.journalled.as_micros() as u64,
        switches: receipt.switches.iter().map(|(node, switch)| switch_receipt(node, switch)).collect(),
        complete: receipt.is_complete(),
    }
}

fn switch_receipt(node: &str, receipt: &SwitchReceipt) -> pb::SwitchReceipt {
    use pb::switch_receipt::State;
    let (state, confirmed_us, error) = match &receipt.progress {
        Progress::Pending => (State::Pending, None, String::new()),
        Progress::Confirmed(after) => (State::Confirmed, Some(after.as_micros() as u64), String::new()),
        Progress::Refused(why) => (State::Refused, None, why.clone()),
        Progress::Offline => (State::Offline, None, String::new()),
    };
    pb::SwitchReceipt {
        transport_node: node.to_owned(),
        state: state.into(),
        flows_added: receipt.flows_added as u64,
        flows_deleted: receipt.flows_deleted as u64,
        tunnels_added: receipt.tunnels_added as u64,
        tunnels_deleted: receipt.tunnels_deleted as u64,
        confirmed_us,
        error,
    }
}
