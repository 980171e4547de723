//! Loads a saved state, compared with the same rows as JSON, both to columns in memory.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nlog_data::{ColumnTransaction, Columns, json, state};
use serde::{Deserialize, Serialize};

use super::json as figure6_json;
use super::weft::{Tables, Text};
use super::workload::{Change, Network};
use crate::measure;
use crate::report::{Aim, Line};

/// The measurements of one run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The file to columns, in milliseconds.
    state_ms: f64,
    /// The JSON to columns, in milliseconds.
    json_ms: f64,
    state_mib: f64,
    json_mib: f64,
}

/// Writes both forms into a folder.
fn write(divisor: usize, folder: &Path) -> Result<()> {
    figure6_json::write(divisor, folder)?;
    let program = Text::Verbatim.program()?;
    let tables = Tables::new(&program.schema, Text::Verbatim)?;
    let rows = tables.columns(Change { insert: Network::nvp_eval(divisor).rows(), ..Change::default() })?;
    let mut writer = state::Writer::new(Vec::new(), &program.schema)?;
    for (table, rows) in rows.insert {
        writer.table(table, &rows.into_ascending())?;
    }
    std::fs::write(folder.join("state"), writer.finish(&std::collections::BTreeMap::new())?)?;
    Ok(())
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(folder: &Path) -> Result<Figures> {
    let schema = Text::Verbatim.program()?.schema.clone();
    let start = Instant::now();
    let bytes = std::fs::read(folder.join("state"))?;
    let read = state::read(&bytes, &schema)?;
    let state_ms = start.elapsed().as_secs_f64() * 1e3;
    let state_mib = bytes.len() as f64 / f64::from(1 << 20);
    let start = Instant::now();
    let bytes = std::fs::read(folder.join("transaction.jsonl"))?;
    let line = bytes.split(|byte| *byte == b'\n').next().context("there is no line")?;
    let parsed = json::parse_line_columns(line, 1, &schema)?.transaction;
    let json_ms = start.elapsed().as_secs_f64() * 1e3;
    let json_mib = bytes.len() as f64 / f64::from(1 << 20);
    let ascending = |columns: Columns| columns.into_ascending();
    let insert = parsed.insert.into_iter().map(|(table, columns)| (table, ascending(columns))).collect();
    let saved = ColumnTransaction { insert: read.tables, ..ColumnTransaction::default() };
    ensure!(
        saved == ColumnTransaction { insert, ..ColumnTransaction::default() },
        "the two are not the same"
    );
    Ok(Figures { state_ms, json_ms, state_mib, json_mib })
}

/// Many runs.
pub(crate) fn lines(runs: usize, divisor: usize) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the state")?;
    write(divisor, folder.path())?;
    let path = folder.path().to_string_lossy();
    let mut figures: Vec<Figures> = Vec::new();
    for _ in 0..=runs {
        figures.push(measure::child(&["figure6-saved-run", &path])?);
    }
    figures.remove(0);
    let column = |of: fn(&Figures) -> f64| figures.iter().map(of).collect::<Vec<_>>();
    Ok(vec![
        Line::compared(
            "inputs of Figure 6 from a saved state to columns in memory, ms (compared with JSON)",
            1,
            column(|run| run.state_ms),
            column(|run| run.json_ms),
            Aim::Ratio(0.2),
        ),
        Line::compared(
            "… the file, MiB",
            1,
            column(|run| run.state_mib),
            column(|run| run.json_mib),
            Aim::None,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        write(100, folder.path()).expect("it is written");
        run(folder.path()).expect("they are the same");
    }
}
