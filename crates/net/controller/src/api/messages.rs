//! What the engine says, as messages of `proto/weft/v1/weft.proto`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use nlog_data::Stopped;
use objects::{FieldChange, ObjectError, ObjectKey, Outcome};
use prost::Message as _;
use serde_json::Value as Json;
use weft_client::pb;
use weft_core::answered::Repeated;
use weft_core::core::{EngineTransition, Problem, Refusal};
use weft_core::fleet::SwitchStatus;
use weft_core::harm::CutOff;
use weft_core::logical_flows::{LogicalFlow, LogicalFlows};
use weft_core::receipt::{Progress, Receipt, SwitchReceipt, Update};
use weft_core::rules::{RuleSource, Rules};
use weft_core::status::{Members, Ongoing};
use weft_core::switch_delta::{Part, SwitchDelta};
use weft_core::times::{rfc3339, to_the_second};
use weft_core::underlay::Measured;

use crate::engine::{Applied, Listing};
use crate::history;

/// The number of flows in one message of a stream.
const CHUNK: usize = 1000;
/// The most bytes with which an answer says what changed in objects. The client takes four times as many.
const DETAILS_BYTES: usize = 64 << 20;

pub(super) fn problem(problem: &Problem) -> pb::Problem {
    let Problem { kind, id, code, text } = problem.clone();
    pb::Problem { object: Some(pb::ObjectRef { kind, id }), text, code, since: String::new() }
}

/// A problem that there is.
pub(super) fn ongoing(Ongoing { problem: found, since }: &Ongoing) -> pb::Problem {
    pb::Problem { since: to_the_second(*since), ..problem(found) }
}

fn object(key: &ObjectKey) -> pb::ObjectRef {
    pb::ObjectRef { kind: key.kind.to_string(), id: key.id.to_string() }
}

pub(super) fn accepted(applied: Applied, rules: &[Arc<Rules>]) -> pb::Accepted {
    if let Some(request) = applied.repeated {
        return repeated(&request);
    }
    let mut details = Details::default();
    let mut outcome = |change: &objects::Change| pb::ObjectOutcome {
        object: Some(object(&change.key)),
        outcome: outcome_message(change.outcome()).into(),
        ..details.of(change)
    };
    pb::Accepted {
        txn: applied.txn,
        objects: applied.changes.changes.iter().map(&mut outcome).collect(),
        warnings: applied.warnings.into_iter().chain(details.warning()).collect(),
        reconnecting: applied.reconnecting,
        connecting: applied.connecting,
        leaving: applied.leaving,
        new_problems: applied.problems.new.iter().map(|new| problem(new)).collect(),
        resolved_problems: applied.problems.gone.iter().map(|gone| problem(gone)).collect(),
        cut_off: applied.cut_off.iter().map(cut_off).collect(),
        objects_before: applied.objects_before as u64,
        dry_run: applied.dry_run,
        receipt: None,
        repeated: false,
        delta: applied.delta.map(|told| Box::new(delta(&told, rules))),
        engine: applied.engine.map(engine),
    }
}

/// How the engine comes to other rules, as a message.
pub fn engine(transition: EngineTransition) -> pb::EngineTransition {
    match transition {
        EngineTransition::Edited { rows } => pb::EngineTransition { edited: true, rows },
        EngineTransition::Replaced => pb::EngineTransition::default(),
    }
}

fn outcome_message(outcome: Outcome) -> pb::Outcome {
    match outcome {
        Outcome::Created => pb::Outcome::Created,
        Outcome::Updated => pb::Outcome::Updated,
        Outcome::Unchanged => pb::Outcome::Unchanged,
        Outcome::Deleted => pb::Outcome::Deleted,
        Outcome::Absent => pb::Outcome::Absent,
    }
}

/// The answer to a request that took effect before.
fn repeated(request: &Repeated) -> pb::Accepted {
    let outcome = |(key, outcome): &(ObjectKey, Outcome)| pb::ObjectOutcome {
        object: Some(object(key)),
        outcome: outcome_message(*outcome).into(),
        ..pb::ObjectOutcome::default()
    };
    let objects = request.outcomes.iter().flat_map(|outcomes| outcomes.iter().map(outcome)).collect();
    let unknown = "the request took effect before; it changed too many objects to name them again";
    let warnings = request.outcomes.is_none().then(|| unknown.to_owned()).into_iter().collect();
    pb::Accepted { txn: Some(request.txn), objects, warnings, repeated: true, ..pb::Accepted::default() }
}

/// What changes in switches as a message: rules by their places and texts, as the first of these has them.
pub fn delta(delta: &SwitchDelta, rules: &[Arc<Rules>]) -> pb::SwitchDelta {
    let tell = |fingerprint| {
        let all = rules.iter().map(|rules| rules.told(fingerprint));
        all.into_iter().find(|told| !told.is_empty()).unwrap_or_default()
    };
    // Of many parts, the same rules come again and again.
    let mut told: BTreeMap<u64, String> = BTreeMap::new();
    let part = |part: &Part| pb::FlowDelta {
        node: part.node.clone(),
        table_id: part.table.into(),
        rule: part.rule,
        derived_by: told.entry(part.rule).or_insert_with(|| tell(part.rule)).clone(),
        added: part.counts.added as u64,
        replaced: part.counts.replaced as u64,
        deleted: part.counts.deleted as u64,
        example: part.example.clone(),
    };
    pb::SwitchDelta {
        flows: delta.parts.iter().map(part).collect(),
        left_out: delta.left_out as u64,
        switches: delta.switches as u64,
        added: delta.flows.added as u64,
        replaced: delta.flows.replaced as u64,
        deleted: delta.flows.deleted as u64,
        others: delta.others as u64,
    }
}

/// A refusal as a message.
pub fn refused(refusal: &Refusal) -> pb::Refusal {
    let (code, faults) = match refusal {
        Refusal::Objects { faults } => ("bad-object", faults.iter().map(fault).collect()),
        Refusal::Rules(error) => (error.code.name(), Vec::new()),
        Refusal::Stopped(Stopped::TooMuch(_)) => ("too-much-work", Vec::new()),
        Refusal::Stopped(Stopped::Cancelled) => ("cancelled", Vec::new()),
        Refusal::Problems(_) => ("new-problems", Vec::new()),
        Refusal::Unconfirmed(_) => ("unconfirmed", Vec::new()),
        Refusal::KeyReused { .. } => ("key-reused", Vec::new()),
        Refusal::NewRules(_) | Refusal::NotByEdit => ("bad-rules", Vec::new()),
        Refusal::RulesChanged => ("rules-changed", Vec::new()),
        Refusal::Journal(_) => ("journal", Vec::new()),
    };
    let message = match refusal {
        Refusal::Objects { faults } => match faults.as_slice() {
            [fault] => fault.to_string(),
            faults => format!("{} faults; nothing was applied", faults.len()),
        },
        Refusal::Stopped(_)
        | Refusal::Problems(_)
        | Refusal::Unconfirmed(_)
        | Refusal::KeyReused { .. }
        | Refusal::NewRules(_)
        | Refusal::NotByEdit
        | Refusal::RulesChanged => refusal.to_string(),
        Refusal::Journal(message) => message.clone(),
        Refusal::Rules(error) => error.message.clone(),
    };
    let new_problems = match refusal {
        Refusal::Problems(problems) => problems.iter().map(|new| problem(new)).collect(),
        _ => Vec::new(),
    };
    let cut_off = match refusal {
        Refusal::Unconfirmed(harm) => harm.cut_off.iter().map(cut_off).collect(),
        _ => Vec::new(),
    };
    pb::Refusal { code: code.to_owned(), message, faults, new_problems, cut_off }
}

fn cut_off(cut_off: &CutOff) -> pb::CutOff {
    pb::CutOff { node: cut_off.node.clone(), ports: cut_off.ports.clone() }
}

/// What an answer says of each object besides its outcome, in bounded memory.
#[derive(Default)]
struct Details {
    /// Their bytes so far.
    bytes: usize,
    /// The number of objects that are beyond the limit.
    left_out: usize,
}

impl Details {
    /// The changed fields of an object, and what a deleted one was.
    fn of(&mut self, change: &objects::Change) -> pb::ObjectOutcome {
        let mut details = pb::ObjectOutcome::default();
        let is_deleted = match change.outcome() {
            Outcome::Updated => false,
            Outcome::Deleted => true,
            _ => return details,
        };
        if self.bytes > DETAILS_BYTES {
            self.left_out += 1;
            return details;
        }
        details.fields = change.fields().into_iter().map(field_change).collect();
        if let Some(before) = change.before.as_ref().filter(|_| is_deleted) {
            details.before = before.to_json();
        }
        self.bytes += details.encoded_len();
        details
    }

    fn warning(&self) -> Option<String> {
        let count = self.left_out;
        (count > 0)
            .then(|| format!("the answer does not say what changed in {count} more objects: it is too long"))
    }
}

fn field_change(change: FieldChange) -> pb::FieldChange {
    let FieldChange { field, before, after, left_out } = change;
    let [before, after] = [before, after].map(|value| value.map(|value| value.to_string()));
    pb::FieldChange { field, before, after, left_out }
}

fn fault(error: &ObjectError) -> pb::ObjectFault {
    pb::ObjectFault {
        code: error.code.name().to_owned(),
        document: error.place.as_ref().map(|place| place.document.to_string()).unwrap_or_default(),
        place: error.place.as_ref().map(|place| place.number),
        object: (error.kind.is_some() || error.id.is_some()).then(|| pb::ObjectRef {
            kind: error.kind.clone().unwrap_or_default(),
            id: error.id.clone().unwrap_or_default(),
        }),
        path: error.path.clone(),
        message: error.message.clone(),
        text: error.to_string(),
        changed: None,
    }
}

pub(super) fn history_message(found: history::Found) -> pb::HistoryResponse {
    let before = found.entries.last().filter(|_| found.has_more).map_or(0, |entry| entry.txn);
    let outcome = |(key, outcome): &(ObjectKey, Outcome)| pb::ObjectOutcome {
        object: Some(object(key)),
        outcome: outcome_message(*outcome).into(),
        ..pb::ObjectOutcome::default()
    };
    let entry = |entry: history::Entry| pb::HistoryEntry {
        txn: entry.txn,
        at: entry.at,
        by: entry.by,
        peer: entry.peer,
        objects: entry.changes.iter().map(outcome).collect(),
        more: entry.more as u64,
        object: entry.object.unwrap_or_default(),
    };
    pb::HistoryResponse { entries: found.entries.into_iter().map(entry).collect(), before }
}

/// The flows in reading order. Yields at least one message.
pub(super) fn listing_messages(listing: &Listing) -> Vec<pb::ListFlowsResponse> {
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
    let tunnel = |(name, tunnel): (&String, &switch_model::Tunnel)| pb::Tunnel {
        name: name.clone(),
        encap: tunnel.encap.to_string(),
        remote: tunnel.remote.to_string(),
        bfd_interval: listing.desired.bfd.get(name).map_or(0, |session| session.interval.into()),
    };
    let patch = |(name, patch): (&String, &switch_model::Patch)| pb::Patch {
        name: name.clone(),
        bridge: patch.bridge.clone(),
        peer: patch.peer.clone(),
    };
    let bucket = |((group, bucket), what): (&(u32, u32), &switch_model::Bucket)| pb::Bucket {
        group: *group,
        bucket: *bucket,
        actions: what.actions().map_or_else(unreadable, |actions| actions.to_string()),
        rule: what.rule(),
        choice: listing.desired.choices.get(group).map(ToString::to_string).unwrap_or_default(),
        weight: what.weight().into(),
        watch_port: what.watched().port.map_or(0, |port| port.0.into()),
        watch_group: what.watched().group.unwrap_or(0),
    };
    let buckets = listing.desired.buckets.iter().chain(&listing.desired.candidates);
    let mut buckets: Vec<pb::Bucket> = buckets.map(bucket).collect();
    buckets.sort_by_key(|bucket| (bucket.group, bucket.bucket));
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
    for flows in chunks(flows) {
        let rules = rules(&mut flows.iter().flat_map(|flow| [flow.cookie].into_iter().chain(flow.origin)));
        messages.push(pb::ListFlowsResponse { flows, rules, ..Default::default() });
    }
    for buckets in chunks(buckets) {
        let rules = rules(&mut buckets.iter().map(|bucket| bucket.rule));
        messages.push(pb::ListFlowsResponse { buckets, rules, ..Default::default() });
    }
    messages
}

/// The flows of a datapath. Yields at least one message.
pub(super) fn logical_messages(flows: &LogicalFlows) -> Vec<pb::ListLogicalFlowsResponse> {
    let (kind, id) = (flows.datapath.kind.to_string(), flows.datapath.id.to_string());
    let datapath = Some(pb::ObjectRef { kind, id });
    let mut messages = vec![pb::ListLogicalFlowsResponse { datapath, ..Default::default() }];
    let mut told = HashSet::new();
    for chunk in chunks(flows.list()) {
        // Each rule is sent with the first of its flows.
        let new: BTreeSet<u64> =
            chunk.iter().map(|flow| flow.rule).filter(|rule| told.insert(*rule)).collect();
        let rules = new.into_iter().filter_map(|rule| flows.rules.source(rule)).map(rule_message).collect();
        let flows = chunk.into_iter().map(logical_flow).collect();
        messages.push(pb::ListLogicalFlowsResponse { flows, rules, datapath: None });
    }
    messages
}

fn logical_flow(flow: LogicalFlow) -> pb::LogicalFlow {
    pb::LogicalFlow {
        form: flow.form,
        space: flow.space,
        owner: flow.owner,
        table_id: flow.table.into(),
        stage: flow.stage,
        priority: flow.priority.into(),
        priority_name: flow.priority_name,
        r#match: flow.matches,
        actions: flow.actions,
        columns: Json::Object(flow.columns).to_string(),
        rule: flow.rule,
    }
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

pub(super) fn measured_message(tunnel: Measured) -> pb::MeasuredTunnel {
    let (text, state) = (tunnel.text(), tunnel.verdict.code().to_owned());
    pb::MeasuredTunnel {
        from: tunnel.from.to_string(),
        to: tunnel.to.to_string(),
        encap: tunnel.encap.to_string(),
        ip: tunnel.ip.to_string(),
        bytes: u32::try_from(tunnel.bytes).unwrap_or(u32::MAX),
        mtu: tunnel.mtu,
        sent: tunnel.sent,
        arrived: tunnel.arrived,
        last_arrival: tunnel.last.map(rfc3339).unwrap_or_default(),
        state,
        text,
    }
}

/// Parts of a list, each for one message.
pub(super) fn chunks<T>(list: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut rest = list.into_iter();
    std::iter::from_fn(move || {
        Some(rest.by_ref().take(CHUNK).collect()).filter(|chunk: &Vec<T>| !chunk.is_empty())
    })
}

pub(super) fn switch_status(status: &SwitchStatus) -> pb::SwitchStatus {
    let status = status.clone();
    pb::SwitchStatus {
        node: status.node,
        connected: status.connected,
        not_connected_since: status.not_connected_since.map(to_the_second).unwrap_or_default(),
        synced: status.synced,
        last_error: status.last_error,
        pending: status.pending as u64,
        confirmed_txn: status.confirmed_txn,
        flows: status.flows as u64,
        tunnels: status.tunnels as u64,
        sync_flow_mods: status.sync_flow_mods.map(|count| count as u64),
        vifs: status.vifs as u64,
        refused: status.refused as u64,
        groups: status.groups as u64,
        patches: status.patches as u64,
        foreign_changes: status.foreign_changes as u64,
        last_foreign_change: status.last_foreign_change,
        driver_restarts: status.driver_restarts as u64,
        last_driver_failure: status.last_driver_failure,
        ovs_version: status.ovs_version,
        stray_count: status.strays.count as u64,
        strays: status.strays.first.into_iter().map(stray).collect(),
    }
}

pub(super) fn tenant_status((tenant, members): (Arc<str>, Members)) -> pb::TenantStatus {
    pb::TenantStatus {
        tenant: tenant.to_string(),
        up: members.are_up(),
        members: members.all as u64,
        members_up: members.up as u64,
        not_up: members.not_up.iter().map(object).collect(),
    }
}

fn stray((id, nearest): (String, Option<ObjectKey>)) -> pb::StrayInterface {
    pb::StrayInterface { id, nearest: nearest.as_ref().map(object) }
}

/// The new information about a transaction.
pub(super) fn update_message(update: &Update) -> pb::Receipt {
    match update {
        Update::New(receipt) => receipt_message(receipt),
        Update::Progress { txn, switches, complete } => pb::Receipt {
            txn: *txn,
            switches: switches.iter().map(|(node, switch)| switch_receipt(node, switch)).collect(),
            complete: *complete,
            partial: true,
            ..pb::Receipt::default()
        },
    }
}

pub(super) fn receipt_message(receipt: &Receipt) -> pb::Receipt {
    pb::Receipt {
        txn: receipt.txn,
        by: receipt.by.clone(),
        at: receipt.at.clone(),
        computed_us: receipt.computed.as_micros() as u64,
        journalled_us: receipt.journalled.as_micros() as u64,
        switches: receipt.switches.iter().map(|(node, switch)| switch_receipt(node, switch)).collect(),
        complete: receipt.is_complete(),
        partial: false,
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
        node: node.to_owned(),
        state: state.into(),
        flows_added: receipt.flows_added as u64,
        flows_deleted: receipt.flows_deleted as u64,
        tunnels_added: receipt.tunnels_added as u64,
        tunnels_deleted: receipt.tunnels_deleted as u64,
        buckets_added: receipt.buckets_added as u64,
        buckets_deleted: receipt.buckets_deleted as u64,
        patches_added: receipt.patches_added as u64,
        patches_deleted: receipt.patches_deleted as u64,
        confirmed_us,
        error,
    }
}
