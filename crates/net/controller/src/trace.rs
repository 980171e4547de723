//! The way of a packet through the network as it is now, for whoever asks. Nothing is kept for it.
//!
//! The engine thread hands out a [`Snapshot`].
//! Away from it, the packet goes through the desired flows, and the rows that explain these are derived on demand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nlog_data::{Cancel, Row, RuleId, TableDelta, TableId};
use openflow_rs::{DecodeError, FlowEntry, MacAddr};
use packet_trace::live::{self, FlowOwner, Seen};
use packet_trace::{Connection, FlowRules, HostTables, Network, Payload, Trace, TraceError, Words};
use switch_model::{Desired, Flow, FlowKey, SeenFlow};
use tokio::task::JoinSet;
use tonic::Status;
use tracing::debug;
use weft_client::pb;
use weft_client::pb::trace_request::Packet;
use weft_core::fleet::SwitchStatus;
use weft_core::provenance::Provenance;
use weft_core::rules::{Conventions, Rules};
use weft_core::snapshot::Snapshot;
use weft_core::times::to_the_second;

use crate::aside::{COMBINATIONS, asked_for, too_long};
use crate::engine::{Engine, Stopping};

pub(crate) mod of_tenant;

/// The most switches that are read for one trace: a flood can meet thousands.
const LIVE_MAX: usize = 64;

/// The desired flow tables of all switches.
#[derive(Clone)]
pub(crate) struct Tables {
    rules: Arc<Rules>,
    desired: BTreeMap<String, Arc<Desired>>,
    provenance: Provenance,
    by_fingerprint: Arc<HashMap<u64, RuleId>>,
}

impl Tables {
    /// Keeps the states of these hosts only. Whoever holds a state while the engine changes it makes the engine copy it.
    fn retain(&mut self, hosts: &BTreeMap<String, BTreeSet<u8>>) {
        self.desired.retain(|host, _| hosts.contains_key(host));
    }

    /// Whose a flow is that a switch has; none if it is to have it.
    fn whose(&self, host: &str, flow: &FlowEntry) -> Option<FlowOwner> {
        let key = FlowKey::new(flow.table, flow.priority, &flow.matches).ok();
        let desired = self.desired.get(host);
        if key.is_some_and(|key| desired.is_some_and(|desired| desired.flows.contains_key(&key))) {
            return None;
        }
        let Conventions { learned_tables, watched_tables, conflict_tables, .. } = self.rules.conventions();
        let is_learned = [learned_tables, watched_tables, conflict_tables]
            .iter()
            .any(|tables| tables.contains(&flow.table));
        Some(match self.by_fingerprint.contains_key(&flow.cookie) {
            _ if is_learned => FlowOwner::Learned,
            true => FlowOwner::Stale,
            false => FlowOwner::Foreign,
        })
    }
}

impl HostTables for Tables {
    fn flows(&self, host: &str) -> Result<Vec<FlowEntry>, String> {
        flows_of(&self.desired, host)
    }

    fn others(&self, host: &str) -> Result<BTreeMap<TableId, TableDelta>, String> {
        let Some(desired) = self.desired.get(host) else { return Ok(BTreeMap::new()) };
        // What the simulator asks for in another way, or does not need.
        let (flows, zones, limits, collectors, bfd, awaited) = Default::default();
        let tables =
            switch_model::Tables { flows, zones, limits, collectors, bfd, awaited, ..self.rules.switch };
        let rows = desired.rows(host, &tables);
        let rows = rows.map_err(|error| format!("the state of {host} cannot be read: {error}"))?;
        let inserted = |insert: Vec<Row>| TableDelta { insert, ..TableDelta::default() };
        Ok(rows.into_iter().map(|(table, rows)| (table, inserted(rows))).collect())
    }

    fn rules(&self, host: &str, flow: &FlowEntry) -> Option<FlowRules> {
        let key = FlowKey::new(flow.table, flow.priority, &flow.matches).ok()?;
        let cookie = self.desired.get(host)?.flows.get(&key)?.cookie();
        let rule = |fingerprint: u64| self.by_fingerprint.get(&fingerprint).copied();
        let placed = rule(cookie)?;
        let said = self.provenance.logical_rule(&key).and_then(rule).unwrap_or(placed);
        Some(FlowRules { said, placed })
    }
}

/// The flows that the switch of a host is to have.
pub(crate) fn flows_of(
    desired: &BTreeMap<String, Arc<Desired>>,
    host: &str,
) -> Result<Vec<FlowEntry>, String> {
    let flows = desired.get(host).into_iter().flat_map(|desired| &desired.flows);
    let entry = |(key, flow): (&FlowKey, &Flow)| {
        Ok(FlowEntry::new(key.table(), key.priority(), key.matching()?, flow.actions()?))
    };
    let unreadable = |error: DecodeError| format!("the flows of {host} cannot be read: {error}");
    flows.map(entry).collect::<Result<_, _>>().map_err(unreadable)
}

/// A network over the desired flows of a snapshot, and these.
fn network(snapshot: Snapshot) -> Result<(Network, Tables), String> {
    let Snapshot { rules, origins, is_whole, desired, provenance, .. } = snapshot;
    let program = Arc::clone(rules.program());
    let by_fingerprint =
        (0..).map(RuleId).zip(&program.rules).map(|(id, rule)| (rule.fingerprint, id)).collect();
    let tables = Tables { rules, desired, provenance, by_fingerprint: Arc::new(by_fingerprint) };
    Ok((Network::over(&program, origins, Box::new(tables.clone()), !is_whole)?, tables))
}

/// The ports that a request names.
pub(crate) fn ports(request: &pb::TraceRequest) -> Vec<String> {
    let to = match &request.packet {
        Some(Packet::Words(words)) => Some(words.to.clone()),
        _ => None,
    };
    std::iter::once(request.from.clone()).chain(to).filter(|port| !port.is_empty()).collect()
}

/// The way of the packet of a request, and the tables that it went through.
///
/// # Errors
/// The request is wrong, or the rules refuse the rows, which are those of a network that they accepted.
#[allow(clippy::result_large_err, reason = "as tonic has it")]
pub(crate) fn trace(
    snapshot: Snapshot,
    request: &pb::TraceRequest,
    journal: &Path,
    cancel: &Cancel,
) -> Result<(Trace, Tables), Status> {
    let (is_cut, rows) = (snapshot.is_cut, snapshot.origins.len());
    let begun = Instant::now();
    let (mut network, tables) = network(snapshot).map_err(Status::internal)?;
    let derived = begun.elapsed();
    let mut trace = way(&mut network, request, cancel)?;
    if is_cut {
        let note =
            "the network around the ports is large: the objects behind flows were looked for in a part of it";
        trace.notes.push(note.to_owned());
    }
    let traced = begun.elapsed();
    asked_for(&mut trace, tables.rules.program(), journal);
    debug!(rows, ?derived, ?traced, told = ?begun.elapsed(), "packet traced");
    Ok((trace, tables))
}

/// The way of the packet of a request through a network.
#[allow(clippy::result_large_err, reason = "as tonic has it")]
pub(crate) fn way(
    network: &mut Network,
    request: &pb::TraceRequest,
    cancel: &Cancel,
) -> Result<Trace, Status> {
    network.bound(COMBINATIONS, cancel);
    let traced = way_within(network, request);
    // Rows that were not derived any more would only look as if they were missing.
    if network.is_exhausted() { Err(too_long()) } else { traced }
}

#[allow(clippy::result_large_err, reason = "as tonic has it")]
fn way_within(network: &mut Network, request: &pb::TraceRequest) -> Result<Trace, Status> {
    let from = &request.from;
    let state = connection(request.connection());
    let sent = match &request.packet {
        Some(Packet::Words(packet)) => {
            let words = words(packet).map_err(Status::invalid_argument)?;
            // What is wrong with the words themselves is the caller's affair.
            let sent = network.packet(from, &words).map_err(Status::invalid_argument)?;
            if state != Connection::New {
                return network.trace_within(from, &words, state).map_err(|error| match error {
                    TraceError::Asked(why) => Status::invalid_argument(why),
                    TraceError::Failed(why) => Status::internal(why),
                });
            }
            Ok(sent)
        }
        Some(_) if state != Connection::New => {
            Err("only a packet in words has a connection state".to_owned())
        }
        Some(Packet::Flow(fields)) => network.packet_of_flow(from, fields),
        Some(Packet::Frame(bytes)) => network.packet_of_bytes(from, bytes.clone()),
        None => Err("the request names no packet".to_owned()),
    };
    network.trace(&sent.map_err(Status::invalid_argument)?).map_err(Status::internal)
}

fn connection(state: pb::ConnectionState) -> Connection {
    match state {
        pb::ConnectionState::Unspecified => Connection::New,
        pb::ConnectionState::Established => Connection::Established,
        pb::ConnectionState::Reply => Connection::Reply,
        pb::ConnectionState::Related => Connection::Related,
    }
}

fn words(packet: &pb::PacketInWords) -> Result<Words, String> {
    fn read<T: std::str::FromStr>(what: &str, text: &str) -> Result<Option<T>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("{text:?} is no {what}"))
    }
    fn number<T: TryFrom<u32>>(what: &str, number: Option<u32>) -> Result<Option<T>, String> {
        let bad = |number| format!("{number} is too large for {what}");
        number.map(|number| T::try_from(number).map_err(|_| bad(number))).transpose()
    }
    let payload = match (packet.tcp, packet.udp) {
        (Some(_), Some(_)) => return Err("a packet is TCP or UDP, not both".to_owned()),
        (tcp @ Some(_), None) => number("a port", tcp)?.map(Payload::Tcp),
        (None, udp) => number("a port", udp)?.map(Payload::Udp),
    };
    Ok(Words {
        to: Some(packet.to.clone()).filter(|to| !to.is_empty()),
        ip: read("IP address", &packet.ip)?,
        from_ip: read("IP address", &packet.from_ip)?,
        from_mac: read::<MacAddr>("MAC address", &packet.from_mac)?,
        to_mac: read::<MacAddr>("MAC address", &packet.to_mac)?,
        payload: payload.unwrap_or(Payload::Echo),
        ttl: number("a hop limit", packet.ttl)?,
        size: number("the length of a packet", packet.size)?,
    })
}

/// The most switches that are named because they may have other flows.
const BEHIND_MAX: usize = 3;

/// Says which switches on the packet's way may have other flows than those that it went through.
///
/// # Errors
/// The controller stops.
pub(crate) fn note_behind(engine: &Engine, trace: &mut Trace) -> Result<(), Stopping> {
    let hosts: BTreeSet<String> = trace.hops.iter().map(|hop| hop.host.clone()).collect();
    // No host would ask for all.
    if hosts.is_empty() {
        return Ok(());
    }
    let status = engine.status(&hosts)?;
    let lasts = status.switches.iter().filter(|switch| !switch.connected || switch.refused > 0);
    let why = lasts.filter_map(|switch| Some(format!("the switch of {} {}", switch.node, state(switch)?)));
    trace.not_in_force = why.take(BEHIND_MAX).collect();
    let mut notes = status.switches.iter().filter_map(|switch| behind(switch));
    trace.notes.extend(notes.by_ref().take(BEHIND_MAX));
    if let more @ 1.. = notes.count() {
        let note =
            format!("the switches of {more} more hosts may have other flows than these: see `weft status`");
        trace.notes.push(note);
    }
    Ok(())
}

/// Why a switch may have other flows than the desired ones.
fn behind(switch: &SwitchStatus) -> Option<String> {
    let (why, SwitchStatus { node, last_error, .. }) = (state(switch)?, switch);
    let error = if last_error.is_empty() { String::new() } else { format!(" ({last_error})") };
    Some(format!("the switch of {node} {why}{error}, so it may have other flows than these"))
}

/// What a switch lacks of its desired flows, as the rest of a sentence about it.
fn state(switch: &SwitchStatus) -> Option<String> {
    let SwitchStatus { connected, not_connected_since, synced, pending, refused, .. } = switch;
    Some(match (connected, refused, synced, pending) {
        (false, ..) => match not_connected_since {
            Some(since) => format!("is not connected (since {})", to_the_second(*since)),
            None => "is not connected".to_owned(),
        },
        (true, 1.., ..) => format!("refuses {refused} of its flows, groups and ports"),
        (true, 0, true, _) => return None,
        (true, 0, false, 0) => "is not in sync yet".to_owned(),
        (true, 0, false, 1) => "has not confirmed one transaction yet".to_owned(),
        (true, 0, false, _) => format!("has not confirmed {pending} transactions yet"),
    })
}

/// Compares the flows that a packet met with those of the switches.
///
/// # Errors
/// The controller stops.
pub(crate) async fn compare(engine: &Engine, trace: &mut Trace, mut tables: Tables) -> Result<(), Stopping> {
    let met: BTreeMap<_, _> = live::tables(&trace.met).into_iter().take(LIVE_MAX).collect();
    // Switches may take half a minute to answer.
    tables.retain(&met);
    let mut asked = JoinSet::new();
    for (node, reading) in engine.table_flows(met).await? {
        asked.spawn(async move { (node, reading.await) });
    }
    let mut seen = BTreeMap::new();
    while let Some(read) = asked.join_next().await {
        // No reading panics or is aborted.
        let Ok((node, read)) = read else { continue };
        let flows = read.map(|flows| flows.into_iter().map(of_switch).collect());
        seen.insert(node, flows.map_err(|error| error.to_string()));
    }
    trace.live = Some(live::compare(&trace.met, &seen, &|host, flow| tables.whose(host, flow)));
    Ok(())
}

fn of_switch(SeenFlow { entry, packets, bytes }: SeenFlow) -> Seen {
    Seen { entry, packets, bytes }
}

/// The answer to a request.
pub(crate) fn answer(trace: &Trace, form: pb::TraceForm) -> pb::TraceResponse {
    pb::TraceResponse {
        delivered: trace.is_delivered(),
        verdict: packet_trace::text::verdict(trace),
        packet: trace.packet.clone(),
        not_in_force: trace.not_in_force.clone(),
        text: match form {
            pb::TraceForm::Json => packet_trace::json::json(trace).to_string(),
            pb::TraceForm::Verbose => packet_trace::text::text(trace, true),
            pb::TraceForm::Unspecified => packet_trace::text::text(trace, false),
        },
    }
}

#[cfg(test)]
mod tests;
