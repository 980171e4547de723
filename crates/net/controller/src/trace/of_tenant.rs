//! The way of a packet for a tenant: a port of the tenant sends it, and of the answer the tenant reads what is its own ([`OwnTrace`]).

use nlog_data::Cancel;
use nlog_data::quotation::{cut, quote_text};
use packet_trace::{OwnTrace, Owner, port_kinds};
use tonic::{Code, Status};
use weft_client::pb;
use weft_core::rules::Rules;
use weft_core::snapshot::Snapshot;

use super::{network, ports, way};
use crate::engine::{Engine, Stopping};

/// Whether an object belongs to a tenant, by kind and id.
pub(crate) type Has = dyn Fn(&str, &str) -> bool + Send + Sync;

/// Checks that a tenant may ask for a trace. A port of somebody else is refused as one that does not exist.
///
/// # Errors
/// It may not.
#[allow(clippy::result_large_err, reason = "as tonic has it")]
pub(crate) fn check(
    request: &pb::TraceRequest,
    rules: &Rules,
    tenant: &str,
    has: &Has,
) -> Result<(), Status> {
    if request.live || request.change.is_some() {
        return Err(Status::permission_denied(
            "a tenant traces packets through the network as it is to be now; a look at the switches (--live) and a change that is tried \
             out (--diff, --without) need the role viewer",
        ));
    }
    let is_own = |port: &String| port_kinds(rules.program()).any(|kind| has(kind, port));
    // A request without a port asks for one without a name.
    let named = [ports(request), vec![request.from.clone()]].concat();
    match named.iter().find(|port| !is_own(port)) {
        Some(port) => {
            let port = quote_text(&cut(port));
            Err(Status::invalid_argument(format!(
                "tenant {tenant} has no port {port}; name one of its ports"
            )))
        }
        None => Ok(()),
    }
}

/// The way of the packet of a request that was checked.
///
/// # Errors
/// The request is wrong, or the way cannot be told.
#[allow(clippy::result_large_err, reason = "as tonic has it")]
pub(crate) fn trace(
    snapshot: Snapshot,
    request: &pb::TraceRequest,
    tenant: &str,
    has: std::sync::Arc<Has>,
    cancel: &Cancel,
) -> Result<OwnTrace, Status> {
    // Findings are for those who see all. They are not looked for where rows may be missing.
    let (mut network, tables) = network(Snapshot { is_whole: false, ..snapshot }).map_err(untold)?;
    let (known, rules) = (has.clone(), tables.rules.clone());
    network.know(move |port| port_kinds(rules.program()).any(|kind| known(kind, port)));
    if network.is_physical(&request.from) {
        return Err(Status::invalid_argument(format!(
            "packets from a physical network come to others too; name a port with a machine in place of {}, or ask an operator",
            request.from
        )));
    }
    let trace = way(&mut network, request, cancel).map_err(|error| match error.code() {
        // What is wrong with the request says only what the request and the tenant's objects say.
        Code::InvalidArgument => error,
        _ => untold(error),
    })?;
    let name = format!("tenant {tenant}");
    let own = network.own_trace(&trace, &Owner { name: &name, has: &*has });
    if network.is_exhausted() { Err(untold("too many rows")) } else { Ok(own) }
}

/// The refusal of a trace whose reason may be about others.
pub(crate) fn untold(why: impl std::fmt::Display) -> Status {
    tracing::debug!(%why, "a trace of a tenant has failed");
    Status::resource_exhausted("the way of this packet cannot be told to a tenant; ask an operator")
}

/// Whether the switch of one of these hosts is not connected. That its flows are delayed or refused may be due to others.
///
/// # Errors
/// The controller stops.
pub(crate) fn is_cut_off(engine: &Engine, own: &OwnTrace) -> Result<bool, Stopping> {
    // No host would ask for all.
    if own.hosts().is_empty() {
        return Ok(false);
    }
    Ok(engine.status(own.hosts())?.switches.iter().any(|switch| !switch.connected))
}

/// The answer to a request.
pub(crate) fn answer(own: &OwnTrace, form: pb::TraceForm) -> pb::TraceResponse {
    pb::TraceResponse {
        delivered: own.is_delivered(),
        verdict: own.verdict(),
        packet: own.packet().to_owned(),
        not_in_force: own.not_in_force(),
        text: match form {
            pb::TraceForm::Json => own.json().to_string(),
            pb::TraceForm::Verbose | pb::TraceForm::Unspecified => own.text(),
        },
    }
}
