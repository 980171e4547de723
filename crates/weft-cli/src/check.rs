//! `weft check`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use nlog::diagnostic::{Code, Diagnostic, Severity, page, to_json};

use crate::exit::{Failure, say};
use crate::program::{load, show};

/// Arguments of `weft check`.
#[derive(Args)]
#[command(
    after_help = "The exit status is 0 if there is no error (there may be warnings), 1 if there is one. A comment \
                  `# weft: allow(CODE): reason` before a declaration allows its warnings."
)]
pub(crate) struct Check {
    /// `.nlog` files, or folders of them; together they are one program
    #[arg(required_unless_present = "explain", value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// One JSON object a line on standard output, for each diagnostic
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if there is a warning
    #[arg(long)]
    deny_warnings: bool,
    /// Tell what a code means, with an example; without a code, list all of them
    #[arg(
        long,
        value_name = "CODE",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["programs", "deny_warnings"]
    )]
    explain: Option<String>,
}

impl Check {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.explain.as_deref() {
            None => self.check(),
            Some("") => list(self.json),
            Some(name) => explain(name, self.json),
        }
    }

    fn check(self) -> Result<(), Failure> {
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
        if !self.json {
            sum_up(&diagnostics, errors, warnings);
        }
        let denied = self.deny_warnings && warnings > 0;
        if errors > 0 || denied { Err(Failure::Reported) } else { Ok(()) }
    }
}

/// How much was found, and where to read about it.
fn sum_up(diagnostics: &[Diagnostic], errors: usize, warnings: usize) {
    let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
    codes.sort_unstable();
    codes.dedup();
    match codes.as_slice() {
        [] => return,
        [code] => say(format_args!("for more: weft check --explain {code}")),
        _ => say("for more about a code in brackets: weft check --explain CODE"),
    }
    say(format_args!("{}, {}", counted(errors, "error"), counted(warnings, "warning")));
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// All codes with their meanings.
fn list(json: bool) -> Result<(), Failure> {
    let mut codes = Code::ALL.to_vec();
    codes.sort_by_key(|code| code.name());
    let width = codes.iter().map(|code| code.name().len()).max().unwrap_or_default();
    let mut out = std::io::stdout().lock();
    for code in codes {
        let (name, severity, meaning) = (code.name(), code.severity().name(), code.meaning());
        if json {
            let line = serde_json::json!({"code": name, "severity": severity, "meaning": meaning});
            writeln!(out, "{line}").map_err(Failure::output)?;
        } else {
            writeln!(out, "{name:width$}  {severity:7}  {meaning}").map_err(Failure::output)?;
        }
    }
    Ok(())
}

/// The page of one code.
fn explain(name: &str, json: bool) -> Result<(), Failure> {
    // As diagnostics show it: `warning[unused-table]`.
    let name = name.split_once('[').map_or(name, |(_, code)| code.trim_end_matches(']'));
    let Some(code) = Code::by_name(name) else {
        let near = match Code::nearest(name) {
            Some(near) => format!("did you mean `{}`?", near.name()),
            None => "`weft check --explain` lists all of them".to_owned(),
        };
        return Err(Failure::Usage(format!("`{name}` is no code: {near}")));
    };
    let page = page(code).unwrap_or_else(|| code.meaning());
    let mut out = std::io::stdout().lock();
    let written = if json {
        let line = serde_json::json!({
            "code": code.name(), "severity": code.severity().name(), "meaning": code.meaning(), "page": page,
        });
        writeln!(out, "{line}")
    } else {
        writeln!(out, "{}", page.trim_end())
    };
    written.map_err(Failure::output)
}
