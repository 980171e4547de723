//! `weft plan`: how rules are evaluated, and why so.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use nlog_data::Schema;
use nlog_plan::query::Plan;
use nlog_plan::{Pinned, Settings, Statistics};

use crate::eval::Begin;
use crate::exit::{Failure, say};
use crate::program::{chosen_tables, compile};

/// What `--help` ends with.
const READING: &str = "\
Each rule has a way from each of its atoms, for when rows of that atom change: which atoms are looked up then, one after
the other, by which index, and how many bindings there are for each row at the beginning. `all rows this way` marks what
is cheapest for all rows together. `a > b` looks up `b` of the rule of `a`, in place of an index of `a`. The how-to
`Read a plan, and keep one` goes through an example.";

/// Arguments of `weft plan`.
#[derive(Args)]
#[command(after_help = READING)]
pub(crate) struct PlanCommand {
    /// `.nlog` files, or folders of them; together they are one program
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Take figures of tables from this: what `weft eval --save-state` wrote, or a JSON file
    #[arg(long, value_name = "STATE")]
    stats: Option<PathBuf>,
    /// The tables that are wanted: `all`, or names with commas between (default: output tables)
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    tables: Vec<String>,
    /// Only rules of this table, or whose text contains this
    #[arg(long, value_name = "TEXT")]
    rule: Option<String>,
    /// Say why each order was chosen, and what the second best would cost
    #[arg(long)]
    explain: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Write the orders that were chosen to a file, to be chosen again with `--plan`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Choose the orders in this file, which `--save` wrote, for the rules that it names
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

impl PlanCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let wanted = chosen_tables(&self.tables, &program.schema)?;
        let settings = Settings {
            statistics: self
                .stats
                .as_deref()
                .map(|file| read_statistics(file, &program.schema))
                .transpose()?,
            pinned: self.plan.as_deref().map(read_pinned).transpose()?,
            ..Settings::default()
        };
        let plan = Plan::new(program, &wanted, &settings);
        for warning in &plan.warnings {
            say(format_args!("warning: {warning}"));
        }
        if let Some(file) = &self.save {
            write_pinned(file, &plan.pinned())?;
        }
        let mut described = plan.describe();
        if let Some(text) = &self.rule {
            described.retain(text);
            if described.rules.is_empty() {
                return Err(Failure::Rejected(format!(
                    "--rule: no rule that is evaluated is of a table `{text}` or has that in its text"
                )));
            }
        }
        let mut out = std::io::stdout().lock();
        let written = if self.json {
            serde_json::to_writer(&mut out, &described).map_err(Into::into).and_then(|()| writeln!(out))
        } else if self.explain {
            write!(out, "{}", described.explained())
        } else {
            write!(out, "{described}")
        };
        written.map_err(Failure::output)
    }
}

/// Reads figures of tables: JSON, or a state.
fn read_statistics(file: &Path, schema: &Schema) -> Result<Statistics, Failure> {
    let mut first = [0];
    let opened = File::open(file).and_then(|mut opened| opened.read_exact(&mut first));
    opened.map_err(|error| Failure::outside(file.display(), error))?;
    if first == *b"{" {
        return read(
            file,
            "statistics, such as {\"tables\": {\"vif\": {\"rows\": 1000, \"distinct\": [1000, 20]}}}",
        );
    }
    Ok(Begin::read(file, schema)?.statistics)
}

/// Reads a pinned plan.
pub(crate) fn read_pinned(file: &Path) -> Result<Pinned, Failure> {
    read(file, "a plan that `weft plan --save` wrote")
}

fn read<T: serde::de::DeserializeOwned>(file: &Path, what: &str) -> Result<T, Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::outside(file.display(), error))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::Rejected(format!(
            "{}:{}:{}: this is not {what}: {error}",
            file.display(),
            error.line(),
            error.column()
        ))
    })
}

fn write_pinned(file: &Path, pinned: &Pinned) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(pinned).map_err(|error| Failure::outside(file.display(), error))?;
    fs::write(file, text + "\n").map_err(|error| Failure::outside(file.display(), error))
}
