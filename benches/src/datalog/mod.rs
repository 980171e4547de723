//! Figure 6 in other engines.
//!
//! `dbsp` is incremental, as Weft is: a circuit written by hand loads the same rows and runs the same transactions ([`dbsp`]).
//! The others are Datalogs that support no incremental changes, so only their load is compared, cold: the same rules, in the
//! order in which the paper has them, and the same rows.
//!
//! - `ascent` compiles rules into Rust: it reads no text at run time and plans nothing. It is compared with Weft from
//!   numbers in memory to numbers in memory. Compiling and planning are not timed on either side.
//! - `gringo`, the grounder of the Potassco collection, evaluates the same rules as text; `souffle` interprets them.
//!   Whole processes from files to files are compared with `weft eval`. Each reads facts in its own format: gringo as
//!   terms, Soufflé as tab-separated columns, Weft as JSON. Weft makes real matches and actions and writes rows in
//!   order. An engine that is not installed is skipped, with a note.

#[cfg(feature = "datalog")]
pub(crate) mod compiled;
mod dbsp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::figure6;
use crate::figure6::json::{self, Figures, Sum};
use crate::figure6::workload::{Network, Rows};
use crate::measure;
use crate::report::{Aim, Line};

/// Evaluators that read rules as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Other {
    /// gringo.
    Gringo,
    /// Soufflé's interpreter.
    Souffle,
}

impl Other {
    fn name(self) -> &'static str {
        match self {
            Other::Gringo => "gringo",
            Other::Souffle => "souffle",
        }
    }

    /// Its version, if it is installed.
    fn version(self) -> Option<String> {
        let output = Command::new(self.name()).arg("--version").stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
        text.split_whitespace().find(number).map(str::to_owned)
    }

    /// Writes rules and facts as it reads them.
    fn write(self, rows: &Rows, folder: &Path) -> Result<()> {
        match self {
            Other::Gringo => {
                let mut text = include_str!("figure6.lp").to_owned();
                for (name, rows) in facts(rows, "p", "s", "h", "\"") {
                    for row in rows {
                        let _ = writeln!(text, "{name}({}).", row.join(","));
                    }
                }
                std::fs::write(folder.join("figure6.lp"), text)?;
            }
            Other::Souffle => {
                std::fs::write(folder.join("figure6.dl"), include_str!("figure6.dl"))?;
                for (name, rows) in facts(rows, "p", "s", "h", "") {
                    let rows: Vec<String> = rows.iter().map(|row| row.join("\t")).collect();
                    std::fs::write(folder.join(format!("{name}.facts")), rows.join("\n") + "\n")?;
                }
            }
        }
        Ok(())
    }

    fn command(self, folder: &Path) -> Command {
        let mut command = Command::new(self.name());
        match self {
            Other::Gringo => command.arg("--text").arg(folder.join("figure6.lp")),
            Other::Souffle => {
                command.arg("-F").arg(folder).arg("-D").arg(folder).arg("-w").arg(folder.join("figure6.dl"))
            }
        };
        command
    }

    /// Its output as a delta.
    fn output(self, folder: &Path) -> Result<Sum> {
        let mut sum = Sum::default();
        let mut flow = |host: &str, stage: &str, port: &str| -> Result<()> {
            let stage: u32 = stage.parse().context("no stage")?;
            let zero = if stage > 0 { "0x" } else { "" };
            sum.add("ovs_flow", &format!("[\"{host}\",\"reg1={zero}{stage:x}\",\"output:{port}\"]"));
            Ok(())
        };
        let mut tunnels = Vec::new();
        match self {
            Other::Gringo => {
                let text = std::fs::read_to_string(folder.join("output"))?;
                for line in text.lines() {
                    let fields: Vec<&str> = line.split(['(', ')', ',', '.']).collect();
                    match fields[..] {
                        // ovs_flow(h1,reg1(26),output(3)).
                        ["ovs_flow", host, "reg1", stage, "", "output", port, ..] => flow(host, stage, port)?,
                        ["ovsdb_tunnel", host, encap, a, b, c, d, ..] => {
                            let ip = [a, b, c, d].join(".");
                            tunnels.push(format!("[\"{host}\",\"{encap}\",{ip}]"));
                        }
                        _ => {}
                    }
                }
            }
            Other::Souffle => {
                for line in std::fs::read_to_string(folder.join("ovs_flow.csv"))?.lines() {
                    let fields: Vec<&str> = line.split('\t').collect();
                    let [host, stage, port] = fields[..] else { continue };
                    flow(host, stage, port)?;
                }
                for line in std::fs::read_to_string(folder.join("ovsdb_tunnel.csv"))?.lines() {
                    tunnels.push(format!("[\"{}\"]", line.replace('\t', "\",\"")));
                }
            }
        }
        for row in &tunnels {
            sum.add("ovsdb_tunnel", row);
        }
        Ok(sum)
    }
}

/// Rows of the inputs as text, by table; text is put between `quotes` if it does not begin with a small letter.
fn facts(
    rows: &Rows,
    port: &str,
    switch: &str,
    host: &str,
    quotes: &str,
) -> BTreeMap<&'static str, Vec<Vec<String>>> {
    let named = |prefix: &str, number: u32| format!("{prefix}{number}");
    let ip = |host: u32| format!("{quotes}{}{quotes}", crate::figure6::address(host));
    let pairs = |rows: &[[u32; 2]], left: &str, right: &dyn Fn(u32) -> String| {
        rows.iter().map(|[of, at]| vec![named(left, *of), right(*at)]).collect::<Vec<_>>()
    };
    let tunnels = rows.tunnel_port.iter().map(|[from, _, to, number]| {
        vec![named(host, *from), "geneve".to_owned(), ip(*to), number.to_string()]
    });
    BTreeMap::from([
        ("log_port", pairs(&rows.port, port, &|at| named(switch, at))),
        ("log_port_presence", pairs(&rows.presence, port, &|at| named(host, at))),
        ("log_datapath_encap", pairs(&rows.encap, switch, &|_| "geneve".to_owned())),
        ("hypervisor_locator", pairs(&rows.locator, host, &ip)),
        ("lport_stage_id", pairs(&rows.stage, port, &|at| at.to_string())),
        ("ovsdb_tport", tunnels.collect()),
    ])
}

/// Makes a run in a separate process, whose only child is the measured one.
pub(crate) fn run(other: Other, folder: &Path) -> Result<Figures> {
    let file = std::fs::File::create(folder.join("output"))?;
    let start = Instant::now();
    let status = other.command(folder).stdout(file).stderr(Stdio::inherit()).status()?;
    let wall_s = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{} failed ({status})", other.name());
    let peak_mib = measure::peak_of_children_mib()?;
    Ok(Figures { wall_s, peak_mib, output: other.output(folder)? })
}

/// All that are there.
pub(crate) fn lines(runs: usize, run: figure6::Run) -> Result<Vec<Line>> {
    let divisor = run.divisor;
    let mut lines = Vec::new();
    match dbsp::build() {
        Ok(program) => lines.extend(dbsp::lines(runs, run, &program)?),
        Err(why) => eprintln!("dbsp: not built: {why:#}"),
    }
    #[cfg(feature = "datalog")]
    lines.extend(compiled::lines(runs, divisor)?);
    let folder = tempfile::tempdir().context("cannot make a folder for facts")?;
    json::write(divisor, folder.path())?;
    let rows = Network::nvp_eval(divisor).rows();
    let path = folder.path().to_string_lossy();
    for other in [Other::Gringo, Other::Souffle] {
        let Some(version) = other.version() else {
            eprintln!("{} is not installed and left out", other.name());
            continue;
        };
        other.write(&rows, folder.path())?;
        let agree = |ours: &Figures, theirs: &Figures| {
            ensure!(ours.output == theirs.output, "they disagree: {:?}, {:?}", ours.output, theirs.output);
            Ok(())
        };
        let pairs = measure::in_turns(
            runs,
            || measure::child::<Figures>(&["figure6-json-run", "weft", &path]),
            || measure::child::<Figures>(&["datalog-run", other.name(), &path]),
            agree,
        )?;
        let line = |what: String, digits, aim, of: fn(&Figures) -> f64| {
            let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
            Line::compared(what, digits, column(&pairs.0), column(&pairs.1), aim)
        };
        let name = format!("Figure 6 from file to file, beside {} {version}", other.name());
        lines.push(line(format!("{name}, s"), 2, Aim::Ratio(0.6), |run| run.wall_s));
        lines.push(line("… peak memory, MiB".into(), 0, Aim::Ratio(1.0), |run| run.peak_mib));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_there_derive_what_the_reference_derives() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows = Network::nvp_eval(100).rows();
        let expected = json::expected(100).expect("the reference runs");
        for other in [Other::Gringo, Other::Souffle] {
            if other.version().is_none() {
                eprintln!("{} is not installed: not tested", other.name());
                continue;
            }
            other.write(&rows, folder.path()).expect("it is written");
            assert_eq!(run(other, folder.path()).expect("it runs").output, expected, "{other:?}");
        }
    }
}
