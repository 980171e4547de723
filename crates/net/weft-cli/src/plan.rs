//! `weft plan`: how rules are evaluated, and why.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use nlog::Program;
use nlog_data::encoding::without_mark;
use nlog_plan::query::Plan;
use nlog_plan::{Pinned, Settings, Statistics};

use crate::eval::Begin;
use crate::exit::{Failure, say};
use crate::program::{chosen_tables, compile, read_file};

/// The end of `--help`.
const READING: &str = "\
A rule has one pipeline for each of its atoms, which runs when rows of that atom change. A pipeline
lists its look-ups in order: the atom, the index, and the estimated number of bindings for each
changed row. `all rows this way` marks the cheapest pipeline for all rows together. `a > b` looks up
`b` in the rule of `a`, instead of using an index of `a`. The how-to `Read a plan, and keep one`
explains an example.";

/// Arguments of `weft plan`.
#[derive(Args)]
#[command(after_help = READING)]
pub(crate) struct PlanCommand {
    /// `.nlog` files or folders, as one program; `builtin` is the built-in rules
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Statistics of tables: a state from `weft eval --save-state`, or JSON
    #[arg(long, value_name = "STATE")]
    stats: Option<PathBuf>,
    /// Tables to show: `all`, or names with commas [default: output tables]
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    tables: Vec<String>,
    /// Show only the rules of table TEXT, or those that contain TEXT
    #[arg(long, value_name = "TEXT")]
    rule: Option<String>,
    /// Show why each join order was chosen: its cost, and that of the second best
    #[arg(long)]
    explain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Save the chosen join orders to FILE, for --plan
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Use the join orders that --save has written to FILE
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

impl PlanCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let mut wanted = chosen_tables(&self.tables, &program.schema)?;
        // What hooks read is computed, wanted or not.
        wanted.extend(program.hooks.iter().map(|wiring| wiring.from));
        let settings = Settings {
            statistics: self.stats.as_deref().map(|file| read_statistics(file, &program)).transpose()?,
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

/// Reads table statistics from JSON or a state.
fn read_statistics(file: &Path, program: &Program) -> Result<Arc<Statistics>, Failure> {
    let bytes = read_file(file).map_err(|error| Failure::outside(file.display(), error))?;
    if without_mark(&bytes).starts_with(b"{") {
        return read(
            file,
            "statistics, such as {\"tables\": {\"vif\": {\"rows\": 1000, \"distinct\": [1000, 20]}}}",
        );
    }
    Ok(Begin::read(file, program)?.statistics)
}

/// Reads a pinned plan.
pub(crate) fn read_pinned(file: &Path) -> Result<Pinned, Failure> {
    read(file, "a plan that `weft plan --save` wrote")
}

fn read<T: serde::de::DeserializeOwned>(file: &Path, what: &str) -> Result<T, Failure> {
    let bytes = read_file(file).map_err(|error| Failure::outside(file.display(), error))?;
    serde_json::from_slice(without_mark(&bytes)).map_err(|error| {
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
