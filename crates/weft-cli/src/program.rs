//! Reading programs for the commands that take one.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use nlog::diagnostic::{Diagnostic, Severity, Style, to_text};
use nlog::source::{LoadError, Sources};
use nlog::{Compilation, Program};

use crate::exit::{Failure, say};

/// Reads the files of a program.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Sources, Failure> {
    Sources::load(paths).map_err(load_failure)
}

/// Why a program could not be read, as a failure of the command.
pub(crate) fn load_failure(error: LoadError) -> Failure {
    match error {
        LoadError::Empty { .. } => Failure::Rejected(error.to_string()),
        LoadError::Io { .. } | LoadError::Import { .. } => Failure::Outside(error.to_string()),
    }
}

/// Reads and compiles a program that is to be run. Its errors go to standard error; warnings are for `weft check`.
pub(crate) fn compile(paths: &[PathBuf]) -> Result<Arc<Program>, Failure> {
    let sources = load(paths)?;
    let Compilation { program, diagnostics } = nlog::compile(&sources);
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    show(errors, &sources);
    program.ok_or(Failure::Reported)
}

/// Shows diagnostics to people.
pub(crate) fn show<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>, sources: &Sources) {
    let style = if std::io::stderr().is_terminal() { Style::Colour } else { Style::Plain };
    for diagnostic in diagnostics {
        say(to_text(diagnostic, sources, style));
    }
}
