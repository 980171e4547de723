//! `weft trace` on a saved state of `nvp-eval` with routers and ACLs: packets between two switches of one router.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::world::World;
use super::{Run, line};
use crate::figure6::workload::Network;
use crate::measure;
use crate::report::{Aim, Line};

/// A packet, and the words of its verdict.
struct Packet {
    name: &'static str,
    payload: [&'static str; 2],
    verdict: &'static str,
}

/// The first ports of the first two switches. The ACLs of the second one let nothing but its web server be reached.
const ENDS: [&str; 3] = ["vif-0", "--to", "vif-2"];
const PACKETS: [Packet; 2] = [
    Packet { name: "delivered", payload: ["--tcp", "443"], verdict: "delivered" },
    Packet { name: "dropped", payload: ["--udp", "9"], verdict: "dropped" },
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
    trace.args(["trace", "builtin", "--json", "--state"]).arg(state).args(ENDS).args(packet.payload);
    let output = trace.stderr(Stdio::inherit()).output()?;
    let time_s = start.elapsed().as_secs_f64();
    let told: Json = serde_json::from_slice(&output.stdout).context("the trace is no JSON")?;
    let verdict = told["verdict"].as_str().unwrap_or_default();
    ensure!(verdict.contains(packet.verdict), "the packet is not {}: {told}", packet.verdict);
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
        let what = format!("weft trace from a saved state, {}, s", packet.name);
        lines.push(line(&all, &what, 2, Aim::AtMost(5.0), |run| run.time_s));
        lines.push(line(&all, "… peak memory, MiB", 0, Aim::None, |run| run.peak_mib));
    }
    Ok(lines)
}
