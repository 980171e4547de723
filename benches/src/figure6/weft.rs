//! Figure 6 in Weft's engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use hashbrown::HashMap;
use nlog_data::{ColumnTransaction, Columns, Evaluator as _, Row, Schema, TableId, Transaction, Value};

use super::handwritten::{address, after_letter};
use super::workload::{Change, Network, Rows};
use super::{Figures, Outcome, Run, drive};
use crate::engine;
use crate::inside::ByWords;
use crate::measure::Clock;

/// Which form of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// `examples/figure6.nlog`: the paper's rules word for word.
    Verbatim,
    /// The same on numbers.
    Ids,
}

impl Text {
    pub(super) fn program(self) -> Result<Arc<nlog::Program>> {
        let text = match self {
            Text::Verbatim => include_str!("../../../examples/figure6.nlog"),
            Text::Ids => include_str!("ids.nlog"),
        };
        engine::compile("figure6.nlog", text)
    }
}

/// Numbers by columns in, rows of the engine's words out; a word is a number with one bit more.
pub(super) fn ids(network: &Network, run: Run) -> Result<Figures> {
    words(network, run, Text::Ids, ByWords::outside)
}

/// Columns in memory to the engine's words.
pub(super) fn by_words(network: &Network, run: Run) -> Result<Figures> {
    words(network, run, Text::Verbatim, ByWords::outside)
}

/// The same by an operator of a timely dataflow.
pub(super) fn inside(network: &Network, run: Run) -> Result<Figures> {
    words(network, run, Text::Verbatim, ByWords::inside)
}

/// Starts an engine with this many workers.
type Start = fn(Arc<nlog::Program>, usize) -> Result<ByWords>;

fn words(network: &Network, run: Run, text: Text, start: Start) -> Result<Figures> {
    let program = text.program()?;
    let tables = Tables::new(&program.schema, text)?;
    let mut engine = start(program, run.workers)?;
    drive(network, run.steps, |change| {
        let transaction = Arc::new(tables.columns(change)?);
        let clock = Clock::start();
        let changed = engine.commit(&transaction)?;
        let mut outcome = Outcome::after(&clock);
        changed.each(|words| {
            for table in words.tables() {
                for (row, came) in table.rows() {
                    let row = row.iter().map(|word| number(&words.value(*word)));
                    let row = row.collect::<Result<Vec<u32>>>()?;
                    tables.report(&mut outcome, table.table, row.into_iter(), came);
                }
            }
            Ok(())
        })?;
        drop(changed);
        outcome.rest(|| engine.idle())?;
        Ok(outcome)
    })
}

/// Columns in memory to columns in memory.
pub(super) fn by_columns(network: &Network, run: Run) -> Result<Figures> {
    let program = Text::Verbatim.program()?;
    let tables = Tables::new(&program.schema, Text::Verbatim)?;
    let mut engine = engine::start(program, run.workers)?;
    drive(network, run.steps, |change| {
        let transaction = tables.columns(change)?;
        let clock = Clock::start();
        let committed = engine.commit_columns(&transaction)?;
        let mut outcome = Outcome::after(&clock);
        for (table, delta) in &committed.delta.tables {
            for (columns, came) in [(&delta.insert, true), (&delta.delete, false)] {
                let numbers = columns.dictionaries().iter().map(|values| values.iter().map(number).collect());
                let numbers = numbers.collect::<Result<Vec<Vec<u32>>>>()?;
                for row in columns.iter() {
                    let row = row.iter().zip(&numbers).map(|(cell, numbers)| numbers[*cell as usize]);
                    tables.report(&mut outcome, *table, row, came);
                }
            }
        }
        outcome.rest(|| Ok(engine.idle()?))?;
        Ok(outcome)
    })
}

/// Rows in memory to rows in memory.
pub(super) fn by_rows(network: &Network, run: Run) -> Result<Figures> {
    let program = Text::Verbatim.program()?;
    let mut engine = engine::start(Arc::clone(&program), run.workers)?;
    let tables = Tables::new(&program.schema, Text::Verbatim)?;
    drive(network, run.steps, |change| {
        let transaction =
            Transaction { insert: tables.rows(&change.insert), delete: tables.rows(&change.delete) };
        drop(change);
        let clock = Clock::start();
        let committed = engine.commit(&transaction)?;
        let mut outcome = Outcome::after(&clock);
        for (table, delta) in &committed.delta.tables {
            for (rows, came) in [(&delta.insert, true), (&delta.delete, false)] {
                for row in rows {
                    let row = row.iter().map(number).collect::<Result<Vec<u32>>>()?;
                    tables.report(&mut outcome, *table, row.into_iter(), came);
                }
            }
        }
        outcome.rest(|| Ok(engine.idle()?))?;
        Ok(outcome)
    })
}

/// The conversion of a number to a column's value.
type Make = fn(u32) -> Value;

/// The tables of Figure 6 and the values of their columns.
pub(super) struct Tables {
    port: (TableId, [Make; 2]),
    encap: (TableId, [Make; 2]),
    presence: (TableId, [Make; 2]),
    locator: (TableId, [Make; 2]),
    stage: (TableId, [Make; 2]),
    tunnel_port: (TableId, [Make; 4]),
    flow: TableId,
    tunnel: TableId,
}

impl Tables {
    pub(super) fn new(schema: &Schema, text: Text) -> Result<Self> {
        let find =
            |name: &str| schema.find(name).with_context(|| format!("figure6.nlog declares no table {name}"));
        let int: Make = |number| Value::Int(i64::from(number));
        let [port, switch, host, encap, ip] = match text {
            Text::Ids => [int; 5],
            Text::Verbatim => [
                |number| Value::String(format!("p{number}").into()),
                |number| Value::String(format!("s{number}").into()),
                |number| Value::String(format!("h{number}").into()),
                |_| Value::String("geneve".into()),
                |number| Value::Ip(address(number).into()),
            ],
        };
        Ok(Tables {
            port: (find("log_port")?, [port, switch]),
            encap: (find("log_datapath_encap")?, [switch, encap]),
            presence: (find("log_port_presence")?, [port, host]),
            locator: (find("hypervisor_locator")?, [host, ip]),
            stage: (find("lport_stage_id")?, [port, int]),
            tunnel_port: (find("ovsdb_tport")?, [host, encap, ip, int]),
            flow: find("ovs_flow")?,
            tunnel: find("ovsdb_tunnel")?,
        })
    }

    /// A transaction by columns; each value once in its column's dictionary.
    pub(super) fn columns(&self, change: Change) -> Result<ColumnTransaction> {
        let side = |rows: &Rows| -> Result<BTreeMap<TableId, Columns>> {
            let tables = [
                (self.port.0, columns(&rows.port, &self.port.1)?),
                (self.encap.0, columns(&rows.encap, &self.encap.1)?),
                (self.presence.0, columns(&rows.presence, &self.presence.1)?),
                (self.locator.0, columns(&rows.locator, &self.locator.1)?),
                (self.stage.0, columns(&rows.stage, &self.stage.1)?),
                (self.tunnel_port.0, columns(&rows.tunnel_port, &self.tunnel_port.1)?),
            ];
            Ok(tables.into_iter().filter(|(_, columns)| !columns.is_empty()).collect())
        };
        Ok(ColumnTransaction { insert: side(&change.insert)?, delete: side(&change.delete)? })
    }

    /// Rows by table, with a separate value in each cell.
    pub(super) fn rows(&self, rows: &Rows) -> BTreeMap<TableId, Vec<Row>> {
        let tables = [
            (self.port.0, values(&rows.port, &self.port.1)),
            (self.encap.0, values(&rows.encap, &self.encap.1)),
            (self.presence.0, values(&rows.presence, &self.presence.1)),
            (self.locator.0, values(&rows.locator, &self.locator.1)),
            (self.stage.0, values(&rows.stage, &self.stage.1)),
            (self.tunnel_port.0, values(&rows.tunnel_port, &self.tunnel_port.1)),
        ];
        tables.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
    }

    fn report(&self, outcome: &mut Outcome, table: TableId, row: impl Iterator<Item = u32>, came: bool) {
        let mut row = row.fuse();
        let [first, second, third] = std::array::from_fn(|_| row.next().unwrap_or(u32::MAX));
        if table == self.flow {
            outcome.flow(first, second, third, came);
        } else if table == self.tunnel {
            outcome.tunnel(first, third, came);
        }
    }
}

fn columns<const WIDTH: usize>(rows: &[[u32; WIDTH]], make: &[Make; WIDTH]) -> Result<Columns> {
    let mut dictionaries = vec![Vec::new(); WIDTH];
    let mut places: [HashMap<u32, u32>; WIDTH] = std::array::from_fn(|_| HashMap::new());
    let mut cells = Vec::with_capacity(rows.len() * WIDTH);
    for row in rows {
        for (column, number) in row.iter().enumerate() {
            let dictionary = &mut dictionaries[column];
            cells.push(*places[column].entry(*number).or_insert_with(|| {
                dictionary.push(make[column](*number));
                dictionary.len() as u32 - 1
            }));
        }
    }
    Ok(Columns::from_parts(dictionaries, cells, rows.len())?)
}

fn values<const WIDTH: usize>(rows: &[[u32; WIDTH]], make: &[Make; WIDTH]) -> Vec<Row> {
    rows.iter().map(|row| row.iter().zip(make).map(|(number, make)| make(*number)).collect()).collect()
}

/// The number that a value was made from.
fn number(value: &Value) -> Result<u32> {
    let parsed = match value {
        Value::Int(number) => u32::try_from(*number).ok(),
        Value::String(text) if &**text == "geneve" => Some(0),
        Value::String(text) => Some(after_letter(text)?),
        Value::Ip(std::net::IpAddr::V4(ip)) => u32::from(*ip).checked_sub(address(0).into()),
        Value::Match(text) => match text.text().strip_prefix("reg1=") {
            Some("0") => Some(0),
            Some(text) => text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok()),
            None => None,
        },
        Value::Actions(text) => text.text().strip_prefix("output:").and_then(|port| port.parse().ok()),
        _ => bail!("Figure 6 has no such value: {value:?}"),
    };
    parsed.ok_or_else(|| anyhow!("Figure 6 has no such value: {value:?}"))
}
