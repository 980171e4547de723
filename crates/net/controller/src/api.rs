//! The gRPC interface: `proto/weft/v1/weft.proto` to the [`Engine`] and back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use mutual_tls::Credentials;
use nlog_data::quotation::{cut, quote_text};
use ovs_driver::Inbound;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};
use weft_client::pb;
use weft_core::answered::RequestKey;
use weft_core::core::MakeEvaluator;
use weft_core::peer::Origin;
use weft_core::rules::Rules;
use weft_core::text::{document_names, requester};

use crate::activity::{Busy, STALLED};
use crate::answers::{Results, Turn, Turns, all_at_once, parts};
use crate::aside::Aside;
use crate::diagnostics::Diagnostics;
use crate::engine::{Engine, Stopping};
use crate::explain::{self, Form};
use crate::flow_counts::Counted;
use crate::history;
use crate::journal::{self, FoldError};
use crate::listener::{Account, Caller};
use crate::receipts::{Reader, folder_of};
use crate::shares::Shares;
use crate::snapshots;
use crate::surveys::Surveys;
use crate::trace;
use crate::what_if;

mod certificate;
mod changes;
mod listings;
mod messages;
mod objects;
mod receipts;
mod rules;
mod selector;
mod stale;
mod tenants;
mod unexpected_switch;
mod viewer;

use viewer::Viewer;

use messages::{
    chunks, history_message, listing_messages, logical_messages, measured_message, ongoing, switch_status,
    tenant_status,
};
pub use messages::{delta as delta_message, engine as engine_message, refused as refusal_message};

/// The number of large requests parsed at a time. The engine and the switches need CPU time too.
const PARSERS: usize = 2;

/// The bytes of a snapshot in a message.
const SNAPSHOT_PART: usize = 256 << 10;
/// The longest that a snapshot may take. That of the largest network that is measured takes seconds.
const SNAPSHOT_TIME: Duration = Duration::from_mins(10);

/// Serves the interface.
pub(crate) struct Api {
    engine: Engine,
    /// The description of the API over HTTP, once somebody has asked for it, and the rules on which alone it depends.
    description: Mutex<Option<(Arc<Rules>, Bytes)>>,
    journal: Arc<Path>,
    /// Makes engines of other rules.
    make: MakeEvaluator,
    /// The certificate of the controller.
    credentials: Option<Arc<Credentials>>,
    /// The switches that dial in.
    inbound: Option<Arc<Inbound>>,
    parsers: Arc<Semaphore>,
    aside: Aside,
    /// Receipts on disk, and places where these and changes of single objects are read: such work is short, and waits for no explanation.
    receipts: Reader,
    reading: Aside,
    snapshots: Aside,
    turns: Turns,
    /// Those of answers that wait for the engine thread. They hold up no others.
    engine_turns: Turns,
    surveys: Surveys,
    of_tenants: tenants::Transactions,
    shares: Shares,
    /// Those of tenants in the work beside the engine.
    shares_aside: Shares,
    diagnostics: Diagnostics,
}

impl Api {
    pub(crate) fn new(
        engine: Engine,
        journal: PathBuf,
        make: MakeEvaluator,
        credentials: Option<Arc<Credentials>>,
        inbound: Option<Arc<Inbound>>,
        diagnostics: Diagnostics,
    ) -> Self {
        let receipts = Reader::new(folder_of(&journal));
        Api {
            engine,
            description: Mutex::default(),
            journal: journal.into(),
            make,
            credentials,
            inbound,
            parsers: Arc::new(Semaphore::new(PARSERS)),
            aside: Aside::default(),
            receipts,
            reading: Aside::default(),
            snapshots: Aside::default(),
            turns: Turns::default(),
            engine_turns: Turns::default(),
            surveys: Surveys::default(),
            of_tenants: tenants::Transactions::default(),
            shares: Shares::of_changes(),
            shares_aside: Shares::of_traces(),
            diagnostics,
        }
    }

    /// The kind of this name, in the singular or the plural, in any case, with hyphens or underscores.
    fn kind(&self, name: &str) -> Result<Arc<str>, Status> {
        match self.rules().kinds().forgiving(name) {
            Ok(kind) => Ok(kind.shared_name().clone()),
            Err(error) => Err(Status::invalid_argument(format!("kind {}: {error}", quote_text(name)))),
        }
    }

    /// The engine that it asks.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The problems of the controller itself.
    fn own_problems(&self) -> Vec<pb::Problem> {
        let not_after = self.credentials.as_ref().and_then(|own| own.not_after());
        let expiry = not_after.and_then(|not_after| certificate::expiry(not_after, SystemTime::now()));
        let unexpected = self.inbound.iter().flat_map(|inbound| inbound.unexpected());
        expiry.into_iter().chain(unexpected.map(|switch| unexpected_switch::problem(&switch))).collect()
    }

    /// The rules that run.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.engine.rules().get()
    }

    /// The description of the API over HTTP, made when somebody asks for the first time.
    pub(crate) fn description(&self, describe: impl FnOnce(&Rules) -> Bytes) -> Bytes {
        let rules = self.rules();
        let mut made = self.description.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = made.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &rules)) {
            return bytes.clone();
        }
        let bytes = describe(&rules);
        *made = Some((rules, bytes.clone()));
        bytes
    }

    /// The kind that a path names, in the plural.
    pub(crate) fn kind_of_path(&self, name: &str) -> Result<Arc<str>, Status> {
        let rules = self.rules();
        let kinds = rules.kinds();
        if let Ok(kind) = kinds.forgiving(name) {
            return Ok(kind.shared_name().clone());
        }
        let plurals: Vec<String> = kinds.iter().map(|kind| kind.plural()).collect();
        let hint = match openflow_rs::nearest(name, plurals.iter().map(String::as_str)) {
            Some(near) => format!("did you mean /v1/{near}?"),
            None => "/v1/schema lists the kinds".to_owned(),
        };
        Err(Status::not_found(format!("there are no {}; {hint}", quote_text(&cut(name)))))
    }

    /// Answers a question about rows.
    async fn asked(
        &self,
        account: &Account,
        question: Option<pb::RowQuestion>,
        form: Form,
    ) -> Result<String, Status> {
        let place = self.aside.place(account).await?;
        let journal = self.journal.clone();
        explain::answer(&self.engine, &self.rules(), question, form, journal, place).await
    }

    /// What the engine thread is doing, if it is doing anything.
    fn busy(&self, busy: Busy) -> pb::EngineWork {
        let Busy { with, time, rule, rows } = busy;
        let rule = rule.map(|rule| self.rules().told(rule)).unwrap_or_default();
        let stalled = time >= STALLED;
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        pb::EngineWork { with, milliseconds, rule, rows, stalled }
    }
}

#[tonic::async_trait]
impl pb::controller_server::Controller for Api {
    async fn apply(
        &self,
        request: Request<pb::ApplyRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        self.apply_objects(request).await
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        self.delete_objects(request).await
    }

    async fn set(&self, request: Request<pb::SetRequest>) -> Result<Response<pb::ChangeResponse>, Status> {
        self.set_fields(request).await
    }

    type GetStream = Results<pb::GetResponse>;

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        self.get_objects(request).await
    }

    type WatchStream = Results<pb::WatchResponse>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.watch_objects(request).await
    }

    type ListFlowsStream = Results<pb::ListFlowsResponse>;

    async fn list_flows(
        &self,
        request: Request<pb::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let account = account(request.extensions());
        let node = request.into_inner().node;
        let turn = self.engine_turns.next(&account).await?;
        let listing = self.engine.list(node.clone()).await.map_err(stopping)?;
        let listing = listing
            .ok_or_else(|| Status::not_found(format!("transport node {} does not exist", cut(&node))))?;
        all_at_once(account, turn, move || listing_messages(&listing)).await
    }

    type ListLogicalFlowsStream = Results<pb::ListLogicalFlowsResponse>;

    async fn list_logical_flows(
        &self,
        request: Request<pb::ListLogicalFlowsRequest>,
    ) -> Result<Response<Self::ListLogicalFlowsStream>, Status> {
        let account = account(request.extensions());
        let id = request.into_inner().id;
        let turn = self.engine_turns.next(&account).await?;
        let flows = self.engine.logical_flows(id.clone()).await.map_err(stopping)?;
        let flows = flows.ok_or_else(|| no_logical_flows(&id))?;
        all_at_once(account, turn, move || logical_messages(&flows)).await
    }

    type ReadListingStream = Results<pb::ReadListingResponse>;

    async fn read_listing(
        &self,
        request: Request<pb::ReadListingRequest>,
    ) -> Result<Response<Self::ReadListingStream>, Status> {
        self.listing(request).await
    }

    async fn list_listings(
        &self,
        _: Request<pb::ListListingsRequest>,
    ) -> Result<Response<pb::ListListingsResponse>, Status> {
        Ok(Response::new(self.listings()))
    }

    type CountFlowsStream = Results<pb::CountFlowsResponse>;

    async fn count_flows(
        &self,
        request: Request<pb::CountFlowsRequest>,
    ) -> Result<Response<Self::CountFlowsStream>, Status> {
        let account = account(request.extensions());
        account.room().await?;
        let pb::CountFlowsRequest { kind, id } = request.into_inner();
        let of = match (&*kind, &*id) {
            ("", "") => Counted::Network,
            _ => Counted::Object(self.kind(&kind)?, id),
        };
        let turn = self.engine_turns.next(&account).await?;
        let counting = self.engine.counting(of).await.map_err(stopping)?;
        let planned = tokio::task::spawn_blocking(move || counting.plan());
        let plan = planned.await.map_err(|error| Status::internal(error.to_string()))?;
        let asked = self.engine.counts(plan.to_read()).await.map_err(stopping)?;
        drop(turn);
        let (sender, parts) = parts(account);
        tokio::spawn(plan.send(asked, self.surveys.clone(), sender));
        Ok(Response::new(Box::pin(parts)))
    }

    type ListTunnelsStream = Results<pb::ListTunnelsResponse>;

    async fn list_tunnels(
        &self,
        request: Request<pb::ListTunnelsRequest>,
    ) -> Result<Response<Self::ListTunnelsStream>, Status> {
        let account = account(request.extensions());
        let node = Some(request.into_inner().node).filter(|node| !node.is_empty());
        let turn = self.engine_turns.next(&account).await?;
        let tunnels = self.engine.tunnels(node.clone()).await.map_err(stopping)?;
        let tunnels = tunnels.ok_or_else(|| {
            Status::not_found(format!("transport node {} does not exist", cut(&node.unwrap_or_default())))
        })?;
        all_at_once(account, turn, move || {
            let tunnels = tunnels.into_iter().map(measured_message).collect();
            chunks(tunnels).map(|tunnels| pb::ListTunnelsResponse { tunnels }).collect()
        })
        .await
    }

    async fn trace(&self, request: Request<pb::TraceRequest>) -> Result<Response<pb::TraceResponse>, Status> {
        if let Some(tenant) = tenant(request.extensions()) {
            return self.trace_of_tenant(&tenant, request).await;
        }
        let account = account(request.extensions());
        let request = request.into_inner();
        let names = request.change.iter().flat_map(|change| &change.documents);
        document_names(names.map(|document| document.name.as_str())).map_err(Status::invalid_argument)?;
        let place = self.aside.place(&account).await?;
        let change = what_if::change(&request);
        let without = change.as_ref().map(|change| change.without.clone());
        let snapshot = self.engine.snapshot(trace::ports(&request), without).await.map_err(stopping)?;
        let snapshot = snapshot.map_err(|error| Status::internal(error.to_string()))?;
        let journal = self.journal.clone();
        if let Some(change) = change {
            let compared = place
                .work(move |cancel| what_if::compare(snapshot, &request, &change, &journal, cancel))
                .await?;
            return Ok(Turn::charged(&account, &compared).until_encoded(compared));
        }
        let (live, form) = (request.live, request.form());
        let traced = place.work(move |cancel| trace::trace(snapshot, &request, &journal, cancel));
        let (mut traced, tables) = traced.await?;
        trace::note_behind(&self.engine, &mut traced).map_err(stopping)?;
        if live {
            trace::compare(&self.engine, &mut traced, tables).await.map_err(stopping)?;
        }
        let answer = trace::answer(&traced, form);
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    async fn explain(
        &self,
        request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let account = account(request.extensions());
        let pb::ExplainRequest { question, rows, json } = request.into_inner();
        let answer = pb::ExplainResponse {
            text: self.asked(&account, question, Form::Explanation { rows, json }).await?,
        };
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    async fn why_not(
        &self,
        request: Request<pb::WhyNotRequest>,
    ) -> Result<Response<pb::WhyNotResponse>, Status> {
        let account = account(request.extensions());
        let pb::WhyNotRequest { question, json } = request.into_inner();
        let answer =
            pb::WhyNotResponse { text: self.asked(&account, question, Form::WhyNot { json }).await? };
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    async fn status(
        &self,
        request: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        // It waits for no call of another kind, and for no thread: whoever looks for the cause of a delay asks for it.
        let account = account(request.extensions());
        let _turn = account.status_turn().await?;
        if let Some(tenant) = tenant(request.extensions()) {
            let answer = self.status_of_tenant(&tenant, &Viewer::of(&self.engine, request.extensions()))?;
            return Ok(Turn::charged(&account, &answer).until_encoded(answer));
        }
        let pb::StatusRequest { nodes, tenant } = request.into_inner();
        let nodes = nodes.into_iter().collect();
        let status = self.engine.status(&nodes).map_err(stopping)?;
        let tenants = if nodes.is_empty() { self.engine.tenants(tenant.as_deref()) } else { Vec::new() };
        let own_problems = if nodes.is_empty() { self.own_problems() } else { Vec::new() };
        let rules = self.rules();
        let answer = pb::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            last_txn: status.last_txn,
            switches: status.switches.iter().map(|switch| switch_status(switch)).collect(),
            objects: status.objects.iter().map(|(kind, count)| (kind.to_string(), *count as u64)).collect(),
            problems: own_problems.into_iter().chain(status.problems.iter().map(ongoing)).collect(),
            node_kind: rules.host_kind().unwrap_or_default().to_owned(),
            rules: rules.packages().to_vec(),
            tenants: tenants.into_iter().map(tenant_status).collect(),
            engine: self.engine.busy().map(|busy| self.busy(busy)),
        };
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    async fn history(
        &self,
        request: Request<pb::HistoryRequest>,
    ) -> Result<Response<pb::HistoryResponse>, Status> {
        let account = account(request.extensions());
        let pb::HistoryRequest { object, before, limit } = request.into_inner();
        let of = object.map(|object| self.key(object)).transpose()?;
        let newest = self.engine.status(&BTreeSet::new()).map_err(stopping)?.last_txn;
        let newest = if before == 0 { newest } else { newest.min(before - 1) };
        let asked = history::Asked { of, newest, limit: limit as usize };
        let (place, journal) = (self.aside.place(&account).await?, self.journal.clone());
        let found = place.work(move |cancel| history::find(&journal, &asked, cancel)).await?;
        let answer = history_message(found);
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    async fn rollback(
        &self,
        request: Request<pb::RollbackRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        self.roll_back(request).await
    }

    async fn load_rules(
        &self,
        request: Request<pb::LoadRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        self.load_these_rules(request).await
    }

    async fn rollback_rules(
        &self,
        request: Request<pb::RollbackRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        self.load_former_rules(request).await
    }

    async fn rules_history(
        &self,
        _: Request<pb::RulesHistoryRequest>,
    ) -> Result<Response<pb::RulesHistoryResponse>, Status> {
        Ok(Response::new(self.versions().await?))
    }

    type TakeSnapshotStream = Results<pb::TakeSnapshotResponse>;

    async fn take_snapshot(
        &self,
        request: Request<pb::TakeSnapshotRequest>,
    ) -> Result<Response<Self::TakeSnapshotStream>, Status> {
        let account = account(request.extensions());
        let place = self.snapshots.place(&account).await?;
        let (journal, rules) = (self.journal.clone(), self.rules());
        let file = place.work_within(SNAPSHOT_TIME, move |cancel| {
            snapshots::of_folder(journal::folder_of(&journal), &rules, cancel).map_err(|error| match error {
                FoldError::Empty { .. } => Status::not_found(error.to_string()),
                error => Status::internal(error.to_string()),
            })
        });
        let file = file.await?;
        let (sender, parts) = parts(account);
        tokio::spawn(async move {
            for part in file.chunks(SNAPSHOT_PART) {
                let part = pb::TakeSnapshotResponse { part: part.to_vec() };
                if sender.send(Ok(part)).await.is_none() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(parts)))
    }

    type ReadDiagnosticsStream = Results<pb::ReadDiagnosticsResponse>;

    async fn read_diagnostics(
        &self,
        request: Request<pb::ReadDiagnosticsRequest>,
    ) -> Result<Response<Self::ReadDiagnosticsStream>, Status> {
        // It waits for no thread: whoever looks for the cause of a delay asks for it.
        let account = account(request.extensions());
        let turn = self.turns.next(&account).await?;
        let diagnostics = self.diagnostics.clone();
        all_at_once(account, turn, move || diagnostics.messages()).await
    }

    type WatchReceiptsStream = Results<pb::Receipt>;

    async fn watch_receipts(
        &self,
        request: Request<pb::WatchReceiptsRequest>,
    ) -> Result<Response<Self::WatchReceiptsStream>, Status> {
        self.receipts_of(request).await
    }
}

fn no_logical_flows(id: &str) -> Status {
    let id = quote_text(id);
    Status::not_found(format!("no object {id} has logical flows: give the id of a logical switch"))
}

/// The requester, as named by the client and as identified by the system, and the key of the request.
fn origin(by: String, extensions: &tonic::Extensions, key: Option<RequestKey>) -> Result<Origin, Status> {
    let by = requester(by).map_err(Status::invalid_argument)?;
    let tenant = tenant(extensions);
    // A key of one tenant must not say that another one has used the same.
    let key = key.map(|key| match &tenant {
        Some(tenant) => RequestKey { text: format!("{tenant}/{}", key.text), ..key },
        None => key,
    });
    Ok(Origin { by, peer: extensions.get::<Caller>().map(|caller| caller.peer.clone()), key, tenant })
}

/// The tenant whose objects alone the caller sees and changes.
fn tenant(extensions: &tonic::Extensions) -> Option<String> {
    extensions.get::<Caller>().and_then(Caller::tenant).map(str::to_owned)
}

/// The account of the connection that a call came over.
fn account(extensions: &tonic::Extensions) -> Account {
    extensions.get::<Caller>().map_or_else(Account::detached, |caller| caller.account.clone())
}

fn stopping(error: Stopping) -> Status {
    Status::unavailable(error.to_string())
}

#[cfg(test)]
mod tests;
