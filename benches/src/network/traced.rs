//! `weft trace` in `nvp-eval` with routers and ACLs, on a saved state and on a running controller: packets between two switches of
//! one router. The controller has no switches: it drives hosts that it cannot reach.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use controller::pb;
use nlog_data::Value;
use ovs_driver::{InterfaceId, Report, Vif};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

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

/// Traces a packet in a child of this process, which ends after it.
pub(crate) fn run(state: &Path, packet: usize) -> Result<Figures> {
    let packet = PACKETS.get(packet).context("there is no such packet")?;
    let start = Instant::now();
    let mut trace = Command::new(measure::weft()?);
    trace.args(["trace", "builtin", "--json", "--state"]).arg(state).args(packet.arguments());
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

/// Traces and explanations that a running controller is asked for, of each kind.
const QUESTIONS: usize = 20;

/// The figures of a controller with this network.
pub(crate) fn lines_of_running(settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the controller")?;
    write_journal(settings, folder.path())?;
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

/// Writes the journal of the network, whose hosts have reported all their ports.
fn write_journal(settings: Run, folder: &Path) -> Result<()> {
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
    for (host, report) in reports(&step)? {
        recorded.report(&host, &report)?;
    }
    recorded.write(folder)
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
