//! The calls that change objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nlog_data::quotation::{cut, quote_text};
use objects::{Amendment, Batch, Cancel, Deletion, ObjectKey, Selection};
use prost::Message;
use serde_json::json;
use tonic::{Request, Response, Status};
use tracing::debug;
use weft_core::answered::RequestKey;
use weft_core::core::Refusal;
use weft_core::machine::Change;
use weft_core::peer::Origin;
use weft_core::receipt::Receipt;
use weft_core::rules::Rules;
use weft_core::terms::Terms;
use weft_core::text::document_names;

use super::messages::{accepted, receipt_message, refused};
use super::{Api, account, origin, stopping};
use weft_client::pb::{self, change_response};

use crate::aside::CancelOnDrop;
use crate::engine::{Applied, Stopping};
use crate::history::stale::Found;
use crate::history::{self, Back};
use crate::listener::Account;
use crate::watchers::Wanted;

/// Below this many bytes a request is parsed without a wait.
const SMALL: usize = 64 << 10;
/// The field of objects that says to which tenant they belong, and what refers to them.
const TENANT: &str = "tenant";

/// The result of a change. Made beside the runtime's threads: it can have hundreds of thousands of objects.
async fn result_of(
    result: Result<Applied, Refusal>,
    stale: Vec<Found>,
    rules: Vec<Arc<Rules>>,
) -> Result<change_response::Result, Status> {
    let made = tokio::task::spawn_blocking(move || match result {
        Ok(applied) => change_response::Result::Accepted(accepted(applied, &rules)),
        Err(refusal) => {
            let mut refusal = refused(&refusal);
            super::stale::add_to(&mut refusal, stale);
            change_response::Result::Refusal(refusal)
        }
    });
    made.await.map_err(|error| Status::internal(error.to_string()))
}

impl Api {
    pub(super) async fn apply_objects(
        &self,
        request: Request<pb::ApplyRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let selection = self.selection(&request)?;
        self.count_change(&extensions, &request)?;
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::ApplyRequest { documents, objects, by, prune, terms, .. } = request;
        let origin = origin(by, &extensions, key)?;
        if !prune && !selection.is_all() {
            return Err(Status::invalid_argument("a selection limits what is pruned: set `prune` too"));
        }
        let account = account(&extensions);
        account.room().await?;
        let mut batch = self.parse(documents, objects).await?;
        (batch.prune, batch.selection) = (prune, selection);
        if let Some(revision) = terms.as_ref().and_then(|terms| terms.revision) {
            batch.expect(revision);
        }
        self.change(Change::Apply(Box::new(batch)), terms, origin, &account).await
    }

    pub(super) async fn delete_objects(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.count_change(&extensions, &request)?;
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::DeleteRequest { objects, by, documents, terms } = request;
        let origin = origin(by, &extensions, key)?;
        let expected = terms.as_ref().and_then(|terms| terms.revision);
        let deletion = |object| self.key(object).map(|key| Deletion { key, expected });
        let mut deletions = objects.into_iter().map(deletion).collect::<Result<Vec<_>, Status>>()?;
        let account = account(&extensions);
        account.room().await?;
        let mut faults = Vec::new();
        if !documents.is_empty() {
            match self.parse(documents, Vec::new()).await?.deletions() {
                Ok(named) => deletions.extend(named),
                Err(found) => faults.extend(found.into_iter().cloned()),
            }
        }
        if faults.is_empty() {
            return self.change(Change::Delete(deletions), terms, origin, &account).await;
        }
        let result = result_of(Err(Refusal::Objects { faults }), Vec::new(), Vec::new()).await?;
        Ok(Response::new(pb::ChangeResponse { result: Some(result) }))
    }

    pub(super) async fn set_fields(
        &self,
        request: Request<pb::SetRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.count_change(&extensions, &request)?;
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::SetRequest { object, fields, by, terms, merge_patch } = request;
        let origin = origin(by, &extensions, key)?;
        let key = self.key(object.unwrap_or_default())?;
        let account = account(&extensions);
        account.room().await?;
        let amendment = |pb::FieldValue { field, value }| Amendment { field, value };
        let is_without_fields = fields.is_empty();
        let amendments = fields.into_iter().map(amendment).collect();
        let expected = terms.as_ref().and_then(|terms| terms.revision);
        let change = match merge_patch {
            Some(_) if !is_without_fields => {
                return Err(Status::invalid_argument("a change has `fields` or `merge_patch`, not both"));
            }
            Some(patch) => Change::Merge { key, patch, expected },
            None => Change::Set { key, amendments, expected },
        };
        self.change(change, terms, origin, &account).await
    }

    pub(super) async fn roll_back(
        &self,
        request: Request<pb::RollbackRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::RollbackRequest { to, by, terms } = request;
        let (origin, account) = (origin(by, &extensions, key)?, account(&extensions));
        let from = self.engine.status(&BTreeSet::new()).map_err(stopping)?.last_txn;
        if to > from {
            return Err(Status::out_of_range(format!(
                "there is no transaction {to} yet; the last one is {from}"
            )));
        }
        let (place, journal) = (self.aside.place(&account).await?, self.journal.clone());
        let back = place.work(move |cancel| history::back(&journal, from, to, cancel)).await?;
        let batch = self.batch_of(&back, from, to)?;
        self.change(Change::Apply(Box::new(batch)), terms, origin, &account).await
    }

    /// The objects as they were, each on the condition that nobody changes it meanwhile.
    fn batch_of(&self, back: &Back, from: u64, to: u64) -> Result<Batch, Status> {
        let mut lines = Vec::new();
        for (key, object) in back {
            let now = self.engine.object(&key.kind, &key.id).map_err(stopping)?;
            let revision = now.map_or(0, |(seen, _)| seen.object().revision().changed);
            if revision > from {
                return Err(Status::aborted(format!(
                    "{key} has changed meanwhile, by transaction {revision}; try again"
                )));
            }
            match object {
                None if revision == 0 => {}
                None => {
                    let gone =
                        json!({"kind": &*key.kind, "id": &*key.id, "delete": true, "revision": revision});
                    lines.push(gone.to_string());
                }
                Some(object) => {
                    let members = object.trim_start().strip_prefix('{').unwrap_or_default();
                    lines.push(format!("{{\"revision\":{revision},{members}"));
                }
            }
        }
        let mut batch = Batch::new(self.rules().kinds(), Cancel::default());
        batch.add_json(&format!("transaction {to}"), &lines.join("\n"));
        Ok(batch)
    }

    /// Makes a change on these terms.
    pub(super) async fn change(
        &self,
        change: Change,
        terms: Option<pb::Terms>,
        origin: Origin,
        account: &Account,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let tenant = origin.tenant.clone();
        let turn = match &tenant {
            Some(tenant) => Some(self.shares.turn(tenant).await?),
            None => None,
        };
        let result =
            self.engine.change(change, core_terms(terms.as_ref()), origin).await.map_err(stopping)?;
        drop(turn);
        if let (Some(tenant), Ok(Applied { txn: Some(txn), .. })) = (tenant, &result) {
            self.of_tenants.add(&tenant, *txn);
        }
        self.answer(result, vec![self.rules()], terms.as_ref(), account).await
    }

    /// The answer to a change. `rules` are those that may have made or had what it changes, first those that run then.
    pub(super) async fn answer(
        &self,
        result: Result<Applied, Refusal>,
        rules: Vec<Arc<Rules>>,
        terms: Option<&pb::Terms>,
        account: &Account,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let wait_installed = terms.map_or(0, |terms| terms.wait_installed);
        let stale = match &result {
            Err(refusal) => self.changed_since(refusal, account).await,
            Ok(_) => Vec::new(),
        };
        let mut result = result_of(result, stale, rules).await?;
        if let change_response::Result::Accepted(accepted) = &mut result
            && let Some(txn) = accepted.txn.filter(|_| wait_installed > 0)
        {
            let end = tokio::time::sleep(Duration::from_millis(wait_installed.into()));
            accepted.receipt =
                self.installed(txn, end).await?.map(|receipt| Box::new(receipt_message(&receipt)));
        }
        Ok(Response::new(pb::ChangeResponse { result: Some(result) }))
    }

    /// The receipt of a transaction once all its switches have answered, or once it is time.
    async fn installed(
        &self,
        txn: u64,
        end: impl Future<Output = ()>,
    ) -> Result<Option<Arc<Receipt>>, Status> {
        let watch = self.engine.watch(Wanted::Only(txn)).await.map_err(stopping)?;
        let mut watch = watch.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let mut receipt = watch.kept.pop();
        let mut end = std::pin::pin!(end);
        while receipt.as_ref().is_some_and(|receipt| !receipt.is_complete()) {
            let update = tokio::select! {
                () = &mut end => break,
                update = watch.next() => update,
            };
            match update {
                None => break,
                Some(Err(error)) => return Err(Status::resource_exhausted(error.to_string())),
                Some(Ok(update)) => {
                    if let Some(receipt) = &mut receipt {
                        Arc::make_mut(receipt).follow(&update);
                    }
                }
            }
        }
        Ok(receipt)
    }

    pub(super) fn key(&self, object: pb::ObjectRef) -> Result<ObjectKey, Status> {
        Ok(ObjectKey { kind: self.kind(&object.kind)?, id: object.id.into() })
    }

    /// What a request may prune.
    fn selection(&self, request: &pb::ApplyRequest) -> Result<Selection, Status> {
        let pb::ApplyRequest { prune_kinds, prune_labels, prune_tenants, .. } = request;
        let kinds = prune_kinds.iter().map(|kind| self.kind(kind)).collect::<Result<_, Status>>()?;
        let label = |label: &String| {
            let parts = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            parts.ok_or_else(|| {
                let label = quote_text(label);
                Status::invalid_argument(format!("label {label}: write it as KEY=VALUE"))
            })
        };
        let labels = prune_labels.iter().map(label).collect::<Result<_, Status>>()?;
        let owners = prune_tenants.iter().map(|tenant| (TENANT.to_owned(), tenant.clone())).collect();
        Ok(Selection { kinds, labels, owners })
    }

    /// Parses the objects of a request without blocking other requests. Stops early if the caller has gone.
    async fn parse(&self, documents: Vec<pb::Document>, objects: Vec<String>) -> Result<Batch, Status> {
        let names = documents.iter().map(|document| document.name.as_str());
        document_names(names).map_err(Status::invalid_argument)?;
        let bytes: usize = documents.iter().map(|document| document.text.len()).sum::<usize>()
            + objects.iter().map(String::len).sum::<usize>();
        let permit = match bytes {
            0..SMALL => None,
            _ => Some(self.parsers.clone().acquire_owned().await.map_err(|_| stopping(Stopping))?),
        };
        let (cancel, kinds) = (Cancel::default(), self.rules().kinds().clone());
        // Cancelled when this future is dropped; after the end it is in vain.
        let _guard = CancelOnDrop(cancel.clone());
        let batch = tokio::task::spawn_blocking(move || {
            debug!(bytes, "reading the objects of a request");
            let mut batch = Batch::new(&kinds, cancel.clone());
            for document in &documents {
                let pb::Document { name, text, object } = document;
                match object {
                    Some(object) => batch.add_named(name, text, &object.kind, &object.id),
                    None => batch.add_document(name, text),
                }
            }
            batch.add_json("request", &objects.join("\n"));
            drop(permit);
            if cancel.is_cancelled() {
                debug!(objects = batch.count(), "nobody waits for the objects of a request any more");
            }
            batch
        });
        batch.await.map_err(|error| Status::internal(error.to_string()))
    }
}

/// The longest key of a request, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The key of a request, with its checksum.
pub(super) fn key_of(
    terms: Option<&pb::Terms>,
    request: &impl Message,
) -> Result<Option<RequestKey>, Status> {
    let Some(text) = terms.map(|terms| terms.key.clone()).filter(|key| !key.is_empty()) else {
        return Ok(None);
    };
    if text.len() > KEY_BYTES_MAX || text.chars().any(|c| !c.is_ascii_graphic()) {
        let text = quote_text(&cut(&text));
        return Err(Status::invalid_argument(format!(
            "the key {text} of the request is not 1 to {KEY_BYTES_MAX} printable ASCII characters without blanks; a UUID is a good one"
        )));
    }
    Ok(Some(RequestKey { text, checksum: crc32fast::hash(&request.encode_to_vec()) }))
}

/// The terms that the core knows.
pub(super) fn core_terms(terms: Option<&pb::Terms>) -> Terms {
    terms.map_or_else(Terms::default, |terms| Terms {
        strict: terms.strict,
        careful: terms.careful,
        dry_run: terms.dry_run,
    })
}
