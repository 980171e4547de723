//! `weft check`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use nlog::diagnostic::{Severity, to_json};

use crate::exit::{Failure, say};
use crate::program::{load, show};

/// Arguments of `weft check`.
#[derive(Args)]
#[command(
    after_help = "The exit status is 0 if there is no error (there may be warnings), 1 if there is one."
)]
pub(crate) struct Check {
    /// `.nlog` files, or folders of them; together they are one program
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// One JSON object a line on standard output, for each diagnostic
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let sources = load(&self.programs)?;
        let diagnostics = nlog::compile(&sources).diagnostics;
        if self.json {
            let mut out = std::io::stdout().lock();
            for diagnostic in &diagnostics {
                writeln!(out, "{}", to_json(diagnostic)).map_err(Failure::output)?;
            }
        } else {
            show(&diagnostics, &sources);
        }
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
        let warnings = diagnostics.len() - errors;
        if errors + warnings > 0 && !self.json {
            say(format_args!("{}, {}", counted(errors, "error"), counted(warnings, "warning")));
        }
        if errors > 0 { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
