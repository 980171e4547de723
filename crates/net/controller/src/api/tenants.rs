//! What callers with the role of a tenant learn besides their objects: the status of these, how far their transactions are, and the ways of
//! packets from their ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nlog_data::Value;
use objects::Object;
use prost::Message;
use tonic::{Extensions, Request, Response, Status};
use weft_core::core::Problem;

use super::messages::{ongoing, tenant_status};
use super::viewer::Viewer;
use super::{Api, account, stopping, tenant};
use weft_client::pb;

use crate::answers::Turn;
use crate::trace::{of_tenant, ports};

/// The kind of tenants.
const TENANT: &str = "tenant";
/// The number of transactions whose tenants are known.
const KNOWN_MAX: usize = 10_000;

/// The last transactions that tenants have made, in this start of the controller.
#[derive(Debug, Default)]
pub(super) struct Transactions(Mutex<BTreeMap<u64, Arc<str>>>);

impl Transactions {
    /// A tenant has made a transaction.
    pub(super) fn add(&self, tenant: &str, txn: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(txn, tenant.into());
        if known.len() > KNOWN_MAX {
            known.pop_first();
        }
    }

    /// The last transaction of a tenant.
    fn last(&self, tenant: &str) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().rev().find(|(_, made_by)| ***made_by == *tenant).map(|(txn, _)| *txn)
    }

    /// Checks that a tenant asks for the receipt of a transaction of its own.
    ///
    /// # Errors
    /// It asks for others, or for one that is not known to be its own.
    pub(super) fn check(&self, tenant: &str, request: &pb::WatchReceiptsRequest) -> Result<(), Status> {
        let (Some(txn), true) = (request.from_txn, request.only) else {
            return Err(Status::permission_denied(
                "a tenant may follow the receipts of its own transactions, one by one; others need the role viewer",
            ));
        };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&txn).is_some_and(|made_by| **made_by == *tenant) {
            return Ok(());
        }
        Err(Status::not_found(format!("tenant {tenant} has made no transaction {txn} lately")))
    }
}

/// The quotas of a tenant that limit its requests, by their names in the rules.
const CHANGES: &str = "changes";
const CHANGE_BYTES: &str = "change_bytes";

/// The number in the quota of a tenant for what `kind` says.
fn quota(tenant: &Object, kind: &str) -> Option<u64> {
    let Some(Value::Set(quotas)) = tenant.value("quota") else { return None };
    quotas.iter().find_map(|quota| match quota {
        Value::Record(fields) => match &fields[..] {
            [Value::String(of), Value::Int(most)] if **of == *kind => u64::try_from(*most).ok(),
            _ => None,
        },
        _ => None,
    })
}

impl Api {
    /// Counts a change against the quotas of its tenant, before it is parsed. The changes of others have none, and are not measured.
    ///
    /// # Errors
    /// It is too large, or the tenant has made as many as it may in this second.
    pub(super) fn count_change(&self, extensions: &Extensions, request: &impl Message) -> Result<(), Status> {
        let Some(tenant) = tenant(extensions) else { return Ok(()) };
        let Some((seen, _)) = self.engine.object(TENANT, &tenant).map_err(stopping)? else { return Ok(()) };
        let (object, bytes) = (seen.object(), u64::try_from(request.encoded_len()).unwrap_or(u64::MAX));
        if let Some(most) = quota(object, CHANGE_BYTES).filter(|most| bytes > *most) {
            return Err(Status::resource_exhausted(format!(
                "the change has {bytes} bytes, and tenant {tenant} may send {most} (`{CHANGE_BYTES}` of its quota); split it"
            )));
        }
        let most = quota(object, CHANGES).map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        most.map_or(Ok(()), |most| self.shares.count(&tenant, most, Instant::now()))
    }

    /// The way of a packet that a port of a tenant sends, as far as it is the tenant's.
    pub(super) async fn trace_of_tenant(
        &self,
        tenant: &str,
        request: Request<pb::TraceRequest>,
    ) -> Result<Response<pb::TraceResponse>, Status> {
        let account = account(request.extensions());
        let viewer = Viewer::of(&self.engine, request.extensions());
        let has: Arc<of_tenant::Has> = Arc::new(move |kind, id| viewer.has(kind, id));
        let request = request.into_inner();
        of_tenant::check(&request, &self.rules(), tenant, &*has)?;
        // A tenant with many connections would otherwise come before all others.
        let _turn = self.shares_aside.turn(tenant).await?;
        let place = self.aside.place(&account).await?;
        let snapshot = self.engine.snapshot(ports(&request), None).await.map_err(stopping)?;
        let snapshot = snapshot.map_err(of_tenant::untold)?;
        let (form, name) = (request.form(), tenant.to_owned());
        let traced = place.work(move |cancel| of_tenant::trace(snapshot, &request, &name, has, cancel));
        let mut own = traced.await?;
        own.is_cut_off = of_tenant::is_cut_off(&self.engine, &own).map_err(stopping)?;
        let answer = of_tenant::answer(&own, form);
        Ok(Turn::charged(&account, &answer).until_encoded(answer))
    }

    /// The status as far as it is about objects of a tenant. The last transaction is the last one that the tenant has made.
    pub(super) fn status_of_tenant(
        &self,
        tenant: &str,
        viewer: &Viewer,
    ) -> Result<pb::StatusResponse, Status> {
        let status = self.engine.status(&BTreeSet::new()).map_err(stopping)?;
        let mut problems = Vec::new();
        for found in &status.problems {
            let Problem { kind, id, text, .. } = &*found.problem;
            let object = self.engine.object(kind, id).map_err(stopping)?;
            if object.is_some_and(|(seen, _)| viewer.sees(&seen)) {
                problems.push(pb::Problem { text: viewer.told(text), ..ongoing(found) });
            }
        }
        let rules = self.rules();
        Ok(pb::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            last_txn: self.of_tenants.last(tenant).unwrap_or_default(),
            problems,
            node_kind: rules.host_kind().unwrap_or_default().to_owned(),
            rules: rules.packages().to_vec(),
            tenants: self.engine.tenants(Some(tenant)).into_iter().map(tenant_status).collect(),
            ..pb::StatusResponse::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(txn: Option<u64>, only: bool) -> pb::WatchReceiptsRequest {
        pb::WatchReceiptsRequest { from_txn: txn, only, ..pb::WatchReceiptsRequest::default() }
    }

    #[test]
    fn a_tenant_follows_its_own_transactions_alone() {
        let known = Transactions::default();
        known.add("acme", 3);
        known.add("umbra", 4);
        assert_eq!((known.last("acme"), known.last("umbra"), known.last("other")), (Some(3), Some(4), None));
        let code = |request| known.check("acme", &request).map_err(|status| status.code());
        assert_eq!(code(of(Some(3), true)), Ok(()));
        assert_eq!(code(of(Some(4), true)), Err(tonic::Code::NotFound));
        assert_eq!(code(of(Some(9), true)), Err(tonic::Code::NotFound));
        assert_eq!(code(of(Some(3), false)), Err(tonic::Code::PermissionDenied));
        assert_eq!(code(of(None, true)), Err(tonic::Code::PermissionDenied));
        for txn in 5..5 + KNOWN_MAX as u64 {
            known.add("umbra", txn);
        }
        assert_eq!(known.last("acme"), None);
    }
}
