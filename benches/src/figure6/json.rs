//! Figure 6 from JSON to JSON: the `weft` binary compared with a handwritten program.
//!
//! Both read the same file of one transaction and write the same rows to a file; the time is that of the whole process.
//! Weft runs `weft eval` with the rules as text. The handwritten program uses serde with structs that borrow their
//! strings, the dataflow of [`handwritten`](super::handwritten), and `write!` for unordered text. Rows are read back and
//! counted outside the measured time.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nlog_data::{Delta, TableDelta, json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::handwritten::{Dataflow, Names, Texts};
use super::weft::{Tables, Text};
use super::workload::{Change, Network};
use crate::measure;
use crate::report::{Aim, Line};

/// Who evaluates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// `weft eval`.
    Weft,
    /// The program written by hand.
    Hand,
}

/// The measurements of one run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the start of the process to its end, in seconds.
    pub(crate) wall_s: f64,
    /// Its peak memory, in mebibytes.
    pub(crate) peak_mib: f64,
    /// What it wrote.
    pub(crate) output: Sum,
}

/// The number of rows, and a checksum that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    rows: u64,
    checksum: u64,
}

impl Sum {
    /// Adds a row, given as compact JSON.
    pub(crate) fn add(&mut self, table: &str, row: &str) {
        // FNV-1a.
        let hash = table.bytes().chain(row.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(hash);
    }
}

/// Writes the rules and the transaction into a folder.
pub(crate) fn write(divisor: usize, folder: &Path) -> Result<()> {
    let program = Text::Verbatim.program()?;
    let tables = Tables::new(&program.schema, Text::Verbatim)?;
    let rows = tables.rows(&Network::nvp_eval(divisor).rows()).into_iter();
    // A delta's line is a transaction's line.
    let tables =
        rows.map(|(table, insert)| (table, TableDelta { insert, ..TableDelta::default() })).collect();
    let mut line = Vec::new();
    json::write_delta_line(&mut line, 1, &Delta { tables }, &program.schema);
    std::fs::write(folder.join("transaction.jsonl"), line)?;
    std::fs::write(folder.join("figure6.nlog"), include_str!("../../../examples/figure6.nlog"))?;
    Ok(())
}

/// Makes a run in a separate process, whose only child is the measured one.
pub(crate) fn run(side: Side, folder: &Path) -> Result<Figures> {
    let (input, output) = (folder.join("transaction.jsonl"), folder.join("deltas.jsonl"));
    let start = Instant::now();
    let mut command = match side {
        Side::Weft => {
            let mut weft = Command::new(measure::weft()?);
            weft.arg("eval").arg(folder.join("figure6.nlog")).arg("-i").arg(&input);
            weft
        }
        Side::Hand => {
            let mut hand = Command::new(std::env::current_exe().context("cannot find this program's file")?);
            hand.arg("figure6-json-by-hand").arg(&input);
            hand
        }
    };
    let file = std::fs::File::create(&output)?;
    let status = command.stdout(file).stderr(Stdio::inherit()).status()?;
    let wall_s = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{side:?} failed ({status})");
    let peak_mib = measure::peak_of_children_mib()?;
    Ok(Figures { wall_s, peak_mib, output: read_back(&std::fs::read(&output)?)? })
}

/// The rows that a delta's line inserts.
fn read_back(line: &[u8]) -> Result<Sum> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        insert: BTreeMap<&'a str, Vec<&'a RawValue>>,
    }
    let line: Line = serde_json::from_slice(line).context("the output is no line of a delta")?;
    let mut sum = Sum::default();
    for (table, rows) in &line.insert {
        for row in rows {
            sum.add(table, row.get());
        }
    }
    Ok(sum)
}

/// The input's only line.
#[derive(Deserialize)]
struct Transaction<'a> {
    #[serde(borrow)]
    insert: Texts<&'a str>,
}

/// The program that an engineer would write for Figure 6 alone.
pub(crate) fn by_hand(input: &Path) -> Result<()> {
    let text = std::fs::read_to_string(input)?;
    let mut names = Names::default();
    let rows = {
        let transaction: Transaction = serde_json::from_str(&text)?;
        names.rows(&transaction.insert)?
    };
    drop(text);
    let (flows, tunnels) = timely::execute_directly(move |worker| {
        Dataflow::new(worker).commit(worker, &Change { insert: rows, ..Change::default() })
    });
    let mut out = BufWriter::new(std::io::stdout().lock());
    write!(out, "{{\"txn\":1,\"insert\":{{\"ovs_flow\":[")?;
    for (at, ((host, stage, port), _, _)) in flows.iter().enumerate() {
        let (comma, host) = (if at > 0 { "," } else { "" }, names.name(*host));
        let zero = if *stage > 0 { "0x" } else { "" };
        write!(out, "{comma}[\"{host}\",\"reg1={zero}{stage:x}\",\"output:{port}\"]")?;
    }
    write!(out, "],\"ovsdb_tunnel\":[")?;
    for (at, ((host, encap, ip), _, _)) in tunnels.iter().enumerate() {
        let (comma, host, encap) = (if at > 0 { "," } else { "" }, names.name(*host), names.name(*encap));
        write!(out, "{comma}[\"{host}\",\"{encap}\",\"{}\"]", std::net::Ipv4Addr::from(*ip))?;
    }
    writeln!(out, "]}},\"delete\":{{}}}}")?;
    out.flush()?;
    Ok(())
}

/// Many runs of both.
pub(crate) fn lines(runs: usize, divisor: usize) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the transaction")?;
    write(divisor, folder.path())?;
    let path = folder.path().to_string_lossy();
    let child = |side| measure::child::<Figures>(&["figure6-json-run", side, &path]);
    let agree = |ours: &Figures, baseline: &Figures| super::agree(&ours.output, &baseline.output);
    let pairs = measure::in_turns(runs, || child("weft"), || child("hand"), agree)?;
    let line = |what: &str, digits, aim, of: fn(&Figures) -> f64| {
        let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
        Line::compared(what, digits, column(&pairs.0), column(&pairs.1), aim)
    };
    Ok(vec![
        line("Figure 6 through weft eval, JSON to JSON, s", 2, Aim::AtMost(1.0), |run| run.wall_s),
        line("… peak memory, MiB", 0, Aim::AtMost(305.0), |run| run.peak_mib),
    ])
}

/// What the reference evaluator writes.
#[cfg(test)]
pub(crate) fn expected(divisor: usize) -> Result<Sum> {
    use nlog_data::{Evaluator as _, Tables as Observed};
    let program = Text::Verbatim.program()?;
    let schema = program.schema.clone();
    let insert = Tables::new(&schema, Text::Verbatim)?.rows(&Network::nvp_eval(divisor).rows());
    let transaction = nlog_data::Transaction { insert, ..nlog_data::Transaction::default() };
    let delta = nlog_reference::Reference::new(program, Observed::Outputs).commit(&transaction)?.delta;
    let mut line = Vec::new();
    json::write_delta_line(&mut line, 1, &delta, &schema);
    read_back(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_input_say_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        write(100, folder.path()).expect("it is written");
        let text = std::fs::read_to_string(folder.path().join("transaction.jsonl")).expect("it is there");
        let read: Transaction = serde_json::from_str(&text).expect("it is read");
        let rows = Names::default().rows(&read.insert).expect("numbers fit");
        let network = Network::nvp_eval(100);
        assert_eq!((rows.port.len(), rows.tunnel_port.len()), (network.ports(), network.tunnels().len()));
    }

    #[test]
    fn the_checksum_does_not_depend_on_order() {
        let sum = |line: &str| read_back(line.as_bytes()).expect("a delta's line");
        let one = sum(r#"{"txn":1,"insert":{"a":[["x",1],["y",2]]},"delete":{}}"#);
        assert_eq!(one, sum(r#"{"txn":1,"insert":{"a":[["y",2],["x",1]]},"delete":{}}"#));
        assert_ne!(one, sum(r#"{"txn":1,"insert":{"a":[["y",1],["x",2]]},"delete":{}}"#));
        assert_eq!(one.rows, 2);
    }
}
