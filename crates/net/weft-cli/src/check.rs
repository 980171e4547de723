//! `weft check`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use nlog::diagnostic::{Code, Diagnostic, Severity, page, to_json};

use crate::exit::{Failure, say};
use crate::program::{load, show};

/// Arguments of `weft check`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft check rules                        all .nlog files of a folder\n  \
        weft check builtin quarantine           a package, with the built-in rules\n  \
        weft check --explain type-mismatch      what an error means, with an example\n\n\
        The exit status is 1 if there are errors. Warnings do not count without --deny-warnings. To suppress\n\
        a warning, write `# weft: allow(CODE): reason` before the declaration.")]
pub(crate) struct Check {
    /// `.nlog` files or folders, as one program; `builtin` is the built-in rules
    #[arg(required_unless_present = "explain", value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Print each error and warning as one line of JSON on standard output
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if there are warnings
    #[arg(long)]
    deny_warnings: bool,
    /// Explain an error or warning, with an example; without CODE, list all codes
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

/// Prints the number of errors and warnings, and where to read about them.
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

/// Prints all codes with their meanings.
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

/// Prints the page of one code.
fn explain(name: &str, json: bool) -> Result<(), Failure> {
    // As diagnostics show it: `warning[unused-table]`.
    let name = name.split_once('[').map_or(name, |(_, code)| code.trim_end_matches(']'));
    let Some(code) = Code::by_name(name) else {
        let near = match Code::nearest(name) {
            Some(near) => format!("did you mean `{}`?", near.name()),
            None => "run `weft check --explain` to list all codes".to_owned(),
        };
        return Err(Failure::Usage(format!("unknown code `{name}`: {near}")));
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
