//! `weft trace` in `nvp-eval` with routers and ACLs, on a saved state and on a running controller: packets between two switches of
//! one router. The controller has no switches: it drives hosts that it cannot reach.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nlog_data::Value;
use ovs_driver::{InterfaceId, Report, Vif};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use weft_client::pb;

use super::world::{Step, TUNNEL, World};
use super::{Run, line};
use crate::daemon::Daemon;
use crate::figure6::workload::Network;
use crate::measure;
use crate::recorded::Recorded;
use crate::report::{Aim, Line};

/// A packet, and whether it arrives.
struct Packet {
    payload: Payload,
    is_delivered: bool,
}

#[derive(Clone, Copy)]
enum Payload {
    Tcp(u16),
    Udp(u16),
}

impl Packet {
    /// The word of its verdict.
    fn verdict(&self) -> &'static str {
        if self.is_delivered { "delivered" } else { "dropped" }
    }

    /// It in words of the command line.
    fn arguments(&self) -> [String; 5] {
        let (option, port) = match self.payload {
            Payload::Tcp(port) => ("--tcp", port),
            Payload::Udp(port) => ("--udp", port),
        };
        [FROM, "--to", TO, option, &port.to_string()].map(str::to_owned)
    }

    /// It as a question for a controller.
    fn request(&self) -> pb::TraceRequest {
        let (tcp, udp) = match self.payload {
            Payload::Tcp(port) => (Some(port.into()), None),
            Payload::Udp(port) => (None, Some(port.into())),
        };
        let words = pb::PacketInWords { to: TO.to_owned(), tcp, udp, ..pb::PacketInWords::default() };
        let packet = Some(pb::trace_request::Packet::Words(words));
        pb::TraceRequest { from: FROM.to_owned(), packet, ..pb::TraceRequest::default() }
    }
}

/// The first ports of the first two switches. The ACLs of the second one let nothing but its web server be reached.
const FROM: &str = "vif-0";
const TO: &str = "vif-2";
const PACKETS: [Packet; 2] = [
    Packet { payload: Payload::Tcp(443), is_delivered: true },
    Packet { payload: Payload::Udp(9), is_delivered: false },
];

/// One trace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the start of the process to its end.
    time_s: f64,
    peak_mib: f64,
}

/// Writes the network as objects and reports, and saves its state: what `weft trace` starts from.
fn write(run: Run, folder: &Path) -> Result<PathBuf> {
    let (_, step) = World::new(&Network::nvp_eval(run.divisor), run);
    let [objects, reports, state] = ["objects.jsonl", "reports.jsonl", "state"].map(|name| folder.join(name));
    std::fs::write(&objects, &step.documents)?;
    std::fs::write(&reports, format!("{}\n", step.reports()))?;
    let mut eval = Command::new(measure::weft()?);
    eval.args(["eval", "builtin", "--objects"]).arg(objects).arg("-i").arg(reports);
    let status = eval.arg("--save-state").arg(&state).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "the state is not saved ({status})");
    Ok(state)
}

/// Traces a packet in a child of this process, which ends after it: from a saved state, or from a journal as of a transaction.
pub(crate) fn run(file: &Path, packet: usize, at: Option<u64>) -> Result<Figures> {
    let packet = PACKETS.get(packet).context("there is no such packet")?;
    let start = Instant::now();
    let mut trace = Command::new(measure::weft()?);
    trace.args(["trace", "builtin", "--json"]).args(packet.arguments());
    match at {
        None => trace.arg("--state").arg(file),
        Some(at) => trace.arg("-i").arg(file).args(["--at", &at.to_string()]),
    };
    let output = trace.stderr(Stdio::inherit()).output()?;
    let time_s = start.elapsed().as_secs_f64();
    let told: Json = serde_json::from_slice(&output.stdout).context("the trace is no JSON")?;
    let verdict = told["verdict"].as_str().unwrap_or_default();
    ensure!(verdict.contains(packet.verdict()), "the packet is not {}: {told}", packet.verdict());
    Ok(Figures { time_s, peak_mib: measure::peak_of_children_mib()? })
}

/// The figures of several runs.
pub(crate) fn lines(runs: usize, settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the state")?;
    let state = write(settings, folder.path())?;
    let state = state.to_string_lossy();
    let mut lines = Vec::new();
    for (number, packet) in PACKETS.iter().enumerate() {
        let number = number.to_string();
        let all: Result<Vec<Figures>> =
            (0..=runs).map(|_| measure::child(&["traced-run", &state, &number])).collect();
        let all = all?.split_off(1);
        let what = format!("weft trace from a saved state, {}, s", packet.verdict());
        lines.push(line(&all, &what, 2, Aim::AtMost(5.0), |run| run.time_s));
        lines.push(line(&all, "… peak memory, MiB", 0, Aim::None, |run| run.peak_mib));
    }
    Ok(lines)
}

/// The transactions of a long journal.
const LONG: u64 = 100_000;
/// The ports that move in it, one after the other, to another host and back.
const MOVED: usize = 50;

/// The figures of several runs on a long journal, as of its middle.
pub(crate) fn lines_of_journal(runs: usize, settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the journal")?;
    let (mut recorded, mut reports) = record(settings, folder.path())?;
    let planted = recorded.count() + 1;
    recorded.apply(planted_objects())?;
    let hosts: Vec<String> = reports.keys().cloned().collect();
    for round in 0..2 {
        let begun = recorded.count();
        for pair in hosts.chunks_exact(2).take(MOVED) {
            let (from, to) = (&pair[0], &pair[1]);
            let port = reports[from].vifs.keys().find(|port| ![FROM, TO].contains(&&***port));
            let port = port.context("a host has no port")?.clone();
            move_port(&mut recorded, &mut reports, &port, [from, to])?;
            move_port(&mut recorded, &mut reports, &port, [to, from])?;
        }
        // All later rounds are like the second one.
        if round == 1 {
            recorded.repeat(recorded.count() - begun, LONG as usize);
        }
    }
    recorded.write(folder.path())?;
    let journal = folder.path().join("state/journal.jsonl");
    let (journal, middle) = (journal.to_string_lossy(), (LONG / 2).to_string());
    let mut lines = Vec::new();
    for (number, packet) in PACKETS.iter().enumerate() {
        let arguments = ["traced-run", &journal, &number.to_string(), "--at", &middle];
        let all: Result<Vec<Figures>> = (0..=runs).map(|_| measure::child(&arguments)).collect();
        let all = all?.split_off(1);
        let what =
            format!("weft trace --at {middle} in a journal of {LONG} transactions, {}, s", packet.verdict());
        lines.push(line(&all, &what, 2, Aim::AtMost(10.0), |run| run.time_s));
        lines.push(line(&all, "… peak memory, MiB", 0, Aim::None, |run| run.peak_mib));
    }
    let times = (0..runs).map(|_| deltas(&journal)).collect::<Result<Vec<f64>>>()?;
    let what = format!("weft replay --from {middle}: a transaction's changes of rows, ms");
    lines.push(Line::alone(what, 3, times, Aim::AtMost(1.0)));
    let [row, packet] =
        [r#"switch(id: "planted", ..)"#.to_owned(), format!("packet {FROM} --to {TO} --udp {PLANTED}")];
    for (what, asked, answer) in [
        ("a row", row, format!("appeared with transaction {planted}, ")),
        ("a packet", packet, format!("Transaction {planted}, ")),
    ] {
        let times = (0..runs).map(|_| bisect(&journal, &asked, &answer)).collect::<Result<Vec<f64>>>()?;
        let what =
            format!("weft replay --bisect of {what} over {LONG} transactions, planted among the first, s");
        lines.push(Line::alone(what, 1, times, Aim::AtMost(60.0)));
    }
    Ok(lines)
}

/// The UDP port that a planted ACL opens.
const PLANTED: u16 = 53;

/// What a bisect looks for: a switch, and an ACL that lets a packet arrive.
fn planted_objects() -> [Json; 2] {
    [
        json!({"kind": "switch", "id": "planted"}),
        json!({"kind": "acl", "id": "planted", "port": TO, "direction": "to_port", "priority": 10000,
            "match": {"ip_proto": "udp", "tp_dst": PLANTED}, "action": "allow"}),
    ]
}

/// Replays the changes of the transactions after the middle of a journal. Returns the milliseconds for each, without those until the first.
fn deltas(journal: &str) -> Result<f64> {
    const ALL: u64 = 10_000;
    let replay = |count: u64| -> Result<f64> {
        let [from, to] = [LONG / 2, LONG / 2 + count].map(|txn| txn.to_string());
        let begun = Instant::now();
        let output = Command::new(measure::weft()?)
            .args(["replay", journal, "--from", &from, "--at", &to])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the journal is not replayed ({})", output.status);
        // Each of them moves a port.
        let lines = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
        ensure!(lines == count, "the replay has {lines} transactions instead of {count}");
        Ok(begun.elapsed().as_secs_f64())
    };
    Ok((replay(ALL)? - replay(1)?) * 1e3 / (ALL - 1) as f64)
}

/// Bisects a journal. Returns the seconds that it takes.
fn bisect(journal: &str, asked: &str, answer: &str) -> Result<f64> {
    let begun = Instant::now();
    let output = Command::new(measure::weft()?)
        .args(["replay", journal, "--bisect", asked])
        .stderr(Stdio::inherit())
        .output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(told.contains(answer), "{asked}: {told}");
    Ok(begun.elapsed().as_secs_f64())
}

/// The switches of two hosts report that a port is with the other one now.
fn move_port(
    recorded: &mut Recorded,
    reports: &mut BTreeMap<String, Report>,
    port: &str,
    [from, to]: [&str; 2],
) -> Result<()> {
    let report = reports.get_mut(from).context("there is no such host")?;
    let vif = report.vifs.remove(port).context("there is no such port")?;
    report.interfaces.retain(|(own, _)| own != port);
    recorded.report(from, report)?;
    let report = reports.get_mut(to).context("there is no such host")?;
    let free = (1..0x4000).rev().find(|number| report.vifs.values().all(|own| own.ofport != *number));
    let vif = Vif { ofport: free.context("a switch has no number left")?, ..vif };
    report.interfaces.insert((port.to_owned(), vif.interface));
    report.vifs.insert(port.to_owned(), vif);
    recorded.report(to, report)
}

/// Traces and explanations that a running controller is asked for, of each kind.
const QUESTIONS: usize = 20;

/// The figures of a controller with this network.
pub(crate) fn lines_of_running(settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the controller")?;
    record(settings, folder.path())?.0.write(folder.path())?;
    let mut daemon = Daemon::start(folder.path())?;
    let before = daemon.at_rest()?;
    let mut lines = Vec::new();
    for packet in &PACKETS {
        let mut times = Vec::new();
        for _ in 0..QUESTIONS {
            let begun = Instant::now();
            let answer = daemon.ask(async |client| Ok(client.trace(packet.request()).await?))?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            let is_right = answer.delivered == packet.is_delivered;
            ensure!(is_right, "the packet is not {}: {}", packet.verdict(), answer.text);
        }
        let what = format!("weft trace on a running controller, {}, ms", packet.verdict());
        lines.push(Line::alone(what, 1, times, Aim::AtMost(50.0)));
    }
    let flows = daemon.ask(async |client| Ok(client.flows("hv-0").await?))?.flows;
    let mut times = Vec::new();
    for flow in flows.iter().step_by(flows.len().div_ceil(QUESTIONS).max(1)) {
        let flow =
            format!("table={},priority={},{} actions=drop", flow.table_id, flow.priority, flow.r#match);
        let about = pb::row_question::About::Flow(pb::HostFlow { node: "hv-0".to_owned(), flow });
        let question = Some(pb::RowQuestion { about: Some(about) });
        let request = pb::ExplainRequest { question, ..pb::ExplainRequest::default() };
        let begun = Instant::now();
        let text = daemon.ask(async |client| Ok(client.explain(request).await?))?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        ensure!(text.contains("of_flow"), "no flow is explained: {text}");
    }
    lines.push(Line::alone(
        "weft explain of a flow on a running controller, ms",
        1,
        times,
        Aim::AtMost(20.0),
    ));
    let kept = daemon.at_rest()? - before;
    lines.push(Line::alone("… memory that the controller keeps after it, MiB", 0, vec![kept], Aim::None));
    Ok(lines)
}

/// What a controller of the network records, whose hosts have sockets in this folder and have reported all their ports; and the last reports.
pub(super) fn record(settings: Run, folder: &Path) -> Result<(Recorded, BTreeMap<String, Report>)> {
    let (_, step) = World::new(&Network::nvp_eval(settings.divisor), settings);
    let mut objects = Vec::new();
    for line in step.documents.lines() {
        let mut object: Json = serde_json::from_str(line)?;
        if object["kind"] == "transport_node" {
            for field in ["ovsdb", "openflow"] {
                let id = object["id"].as_str().unwrap_or_default();
                object[field] = json!(format!("unix:{}/{id}.{field}", folder.display()));
            }
        }
        objects.push(object);
    }
    let mut recorded = Recorded::new()?;
    recorded.apply(objects)?;
    let reports = reports(&step)?;
    for (host, report) in &reports {
        recorded.report(host, report)?;
    }
    Ok((recorded, reports))
}

/// What the switch of each host has reported.
fn reports(step: &Step) -> Result<BTreeMap<String, Report>> {
    let mut reports: BTreeMap<String, Report> = BTreeMap::new();
    for (row, number) in step.insert.get("vif").into_iter().flatten().zip(0..) {
        let [Value::String(host), Value::String(port), Value::Int(ofport), ..] = &row[..] else { continue };
        let report = reports.entry(host.to_string()).or_default();
        let interface = InterfaceId(number);
        report.tunnels.insert(TUNNEL.to_owned(), 1);
        report.interfaces.insert((port.to_string(), interface));
        let vif = Vif { ofport: u16::try_from(*ofport)?, mac: String::new(), interface };
        report.vifs.insert(port.to_string(), vif);
    }
    Ok(reports)
}
