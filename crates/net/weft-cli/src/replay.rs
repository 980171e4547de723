//! `weft replay`: what a controller has recorded, computed again without any switch.

mod bisect;
mod flows;
#[cfg(feature = "lab")]
mod lab;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use nlog::Program;
use nlog_data::json::ContentsWriter;
use nlog_data::{ColumnTransaction, Columns, Evaluator, Row, TableId, Tables, Transaction};
use nlog_dataflow::{Dataflow, Options};
use weft_core::rules::Rules;

use crate::eval::{Run, Running};
use crate::exit::Failure;
use crate::program::chosen_tables;
use crate::recorded::{Head, Moment, Recorded};

/// The end of `--help`.
const EXAMPLE: &str = r#"Examples:
  weft replay net.weft                              all output rows at the end
  weft replay STATE --at 2026-11-20T09:00:00Z --host hv1   the flows of a host at that time
  weft replay STATE --from 1000 --at 1010           the changes of ten transactions
  weft replay net.weft --rules builtin my-rules     what other rules would have made of it
  weft replay STATE --bisect 'acl(id: "a1", ..)'    the transaction that made a row (dis)appear
  weft replay STATE --bisect 'packet web-1 --to db-1 --tcp 5432'   … that a packet arrives or not
  weft replay net.weft --lab --hosts hv1,hv7        these hosts with real Open vSwitch (as root)

RECORDED is a snapshot (`weft snapshot take`), a journal, or the state folder of a controller. The
rules are those that ran then; for a journal without them, the built-in ones. `weft explain`,
`why-not` and `trace` take the same files: `weft trace builtin -i net.weft web-1`."#;

/// Arguments of `weft replay`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Replay {
    /// A snapshot, a journal or a state folder
    #[arg(value_name = "RECORDED")]
    recorded: PathBuf,
    /// After this transaction, or at this time (UTC) [default: the end]
    #[arg(long, value_name = "TXN|TIME")]
    at: Option<Moment>,
    /// Print what changed after this moment, a line for each transaction
    #[arg(long, value_name = "TXN|TIME", conflicts_with_all = ["host", "rules", "bisect"])]
    from: Option<Moment>,
    /// Print the flows that a transport node should have, as `ovs-ofctl` does
    #[arg(long, value_name = "HOST", conflicts_with_all = ["bisect", "tables"])]
    host: Option<String>,
    /// Print what differs with these rules; `builtin` is the built-in ones
    #[arg(long, value_name = "RULES", num_args(1..), conflicts_with = "bisect")]
    rules: Vec<PathBuf>,
    /// Find the transaction that changed a row, or whether a packet arrives
    #[arg(long, value_name = "ATOM|PACKET", conflicts_with = "tables")]
    bisect: Option<String>,
    /// Tables to show: `all`, or names with commas [default: output tables]
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    tables: Vec<String>,
    /// Build the hosts of --hosts with real Open vSwitch, in a `weft lab`
    #[cfg(feature = "lab")]
    #[arg(long, requires = "hosts", conflicts_with_all = ["from", "host", "rules", "bisect", "tables"])]
    lab: bool,
    /// The hosts to build, with commas
    #[cfg(feature = "lab")]
    #[arg(long, requires = "lab", value_delimiter = ',', value_name = "HOSTS")]
    hosts: Vec<String>,
    /// Number of worker threads; it does not change the result
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
}

impl Replay {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let recorded = Recorded::open(&self.recorded, self.at)?;
        let at = recorded.last_until(self.at)?;
        #[cfg(feature = "lab")]
        if self.lab {
            return lab::run(&recorded, &self.hosts, &at, usize::from(self.workers));
        }
        if let Some(from) = self.from {
            let recorded = Recorded::open(&self.recorded, Some(from))?;
            return self.changes(recorded, from, &at);
        }
        if let Some(words) = self.bisect.as_deref().and_then(|asked| asked.strip_prefix("packet ")) {
            return verdict::run(recorded, words, &at);
        }
        if let Some(atom) = &self.bisect {
            return bisect::run(recorded, atom, &at, usize::from(self.workers));
        }
        if let Some(host) = &self.host {
            return flows::run(&recorded, host, &at, &self.rules, usize::from(self.workers));
        }
        if self.rules.is_empty() {
            return self.contents(&recorded, &at);
        }
        self.difference(&recorded, &at)
    }

    /// Prints the rows of tables.
    fn contents(&self, recorded: &Recorded, at: &Head) -> Result<(), Failure> {
        let rules = recorded.rules(at)?;
        let tables = chosen_tables(&self.tables, &rules.program().schema)?;
        let program = &Arc::new(rules.program().only(tables.clone()));
        let mut engine = engine_at(recorded, (&rules, program), &tables, at.txn, usize::from(self.workers))?;
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let mut writer = ContentsWriter::new(&mut out);
        for &table in &tables {
            let rows = rows_of(&mut engine, table)?;
            writer.table(&program.schema.table(table).name, &rows).map_err(Failure::output)?;
        }
        writer.finish().map_err(Failure::output)?;
        out.flush().map_err(Failure::output)
    }

    /// Prints a line for each transaction after a moment: of a file, and of those that follow it in its folder.
    fn changes(&self, mut recorded: Recorded, from: Moment, at: &Head) -> Result<(), Failure> {
        let from = recorded.last_until(Some(from))?;
        recorded.check_other_rules(&from, at)?;
        let rules = recorded.rules(&from)?;
        let tables = chosen_tables(&self.tables, &rules.program().schema)?;
        let program = Arc::new(rules.program().only(tables.clone()));
        let engine = engine_at(&recorded, (&rules, &program), &tables, from.txn, usize::from(self.workers))?;
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let mut run = Run::of_journal(recorded.file(), program, from.txn, at.txn);
        let mut running = Running::Fixed(Box::new(engine));
        loop {
            run.journal(recorded.file(), &mut running, Some(&mut out), &mut |_, _| {})?;
            if run.progress.last_number >= at.txn {
                break;
            }
            let Some(later) = recorded.later()? else { break };
            // Its first record stands for those that have run.
            let begin = Head { txn: run.progress.last_number, ..from.clone() };
            later.check_other_rules(&begin, at)?;
            recorded = later;
        }
        out.flush().map_err(Failure::output)?;
        run.finish()
    }

    /// Prints what other rules would make of the same inputs, as a delta.
    fn difference(&self, recorded: &Recorded, at: &Head) -> Result<(), Failure> {
        let before = recorded.rules(at)?;
        let after = Rules::load(&self.rules).map_err(|error| Failure::Rejected(error.to_string()))?;
        let workers = usize::from(self.workers);
        // A table that only one of both has is empty in the other.
        let chosen = |rules: &Rules| -> Result<BTreeSet<TableId>, Failure> {
            let known: Vec<String> = self
                .tables
                .iter()
                .filter(|name| *name == "all" || rules.program().schema.find(name).is_some())
                .cloned()
                .collect();
            if known.is_empty() && !self.tables.is_empty() {
                Ok(BTreeSet::new())
            } else {
                chosen_tables(&known, &rules.program().schema)
            }
        };
        let (tables, others) = (chosen(&before)?, chosen(&after)?);
        if tables.is_empty() && others.is_empty() {
            chosen_tables(&self.tables, &after.program().schema)?;
        }
        let mut rows = Vec::new();
        for (rules, tables) in [(&before, tables), (&after, others)] {
            let program = rules.program();
            let mut engine = engine_at(recorded, (rules, program), &tables, at.txn, workers)?;
            let mut by_name = BTreeMap::new();
            for table in tables {
                let name = program.schema.table(table).name.clone();
                by_name.insert(
                    name,
                    rows_of(&mut engine, table)?.to_rows().into_iter().collect::<BTreeSet<Row>>(),
                );
            }
            rows.push(by_name);
        }
        let [before_rows, after_rows] = &rows[..] else { return Ok(()) };
        print_difference(before_rows, after_rows, at.txn)
    }
}

type RowsByName = BTreeMap<String, BTreeSet<Row>>;

/// Prints the rows that only one side has, as the line of a transaction.
fn print_difference(before: &RowsByName, after: &RowsByName, txn: u64) -> Result<(), Failure> {
    let only = |these: &RowsByName, those: &RowsByName| -> serde_json::Map<String, serde_json::Value> {
        let none = BTreeSet::new();
        let tables = these.iter().filter_map(|(table, rows)| {
            let rows: Vec<_> = rows
                .difference(those.get(table).unwrap_or(&none))
                .map(|row| serde_json::json!(row))
                .collect();
            (!rows.is_empty()).then(|| (table.clone(), rows.into()))
        });
        tables.collect()
    };
    let line = serde_json::json!({"txn": txn, "insert": only(after, before), "delete": only(before, after)});
    writeln!(io::stdout().lock(), "{line}").map_err(Failure::output)
}

fn rows_of(engine: &mut dyn Evaluator, table: TableId) -> Result<Columns, Failure> {
    engine.contents_columns(table).map_err(|error| Failure::Outside(error.to_string()))
}

/// An engine of rules, or of a program with the same input tables, with the state after a transaction.
fn engine_at(
    recorded: &Recorded,
    (rules, program): (&Rules, &Arc<Program>),
    tables: &BTreeSet<TableId>,
    txn: u64,
    workers: usize,
) -> Result<Dataflow, Failure> {
    let options = Options { workers, observe: Tables::These(tables.clone()), ..Options::default() };
    let engine = Dataflow::new(Arc::clone(program), options);
    let mut engine = engine.map_err(|error| Failure::Outside(error.to_string()))?;
    load(recorded, (rules, program), txn, &mut engine)?;
    Ok(engine)
}

/// Loads an engine, which has run nothing yet, with the state after a transaction. Records have rows as the rules of their time declared
/// them; these are made of the objects and the reports, as these rules declare them.
fn load(
    recorded: &Recorded,
    (rules, program): (&Rules, &Arc<Program>),
    txn: u64,
    engine: &mut dyn Evaluator,
) -> Result<(), Failure> {
    let refused = |error: &dyn Display| Failure::Rejected(format!("the rules refuse the state: {error}"));
    let inputs = recorded.history(txn, rules)?.inputs(rules);
    let (rows, memories) = inputs.map_err(|error| recorded.rejected(error))?;
    engine.restore(&memories).map_err(|error| refused(&error))?;
    let insert = rows.insert.into_iter();
    let insert = insert.filter_map(|(table, rows)| Some((program.schema.find(&table)?, rows))).collect();
    let rows = Transaction { insert, ..Transaction::default() };
    let columns = ColumnTransaction::from_rows(&rows).map_err(|error| Failure::Outside(error.to_string()))?;
    drop(rows);
    engine.commit_columns(&columns).map(|_| ()).map_err(|error| refused(&error))
}
