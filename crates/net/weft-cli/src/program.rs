//! Reads programs for the commands that take one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nlog::diagnostic::{Diagnostic, Severity, Style, to_text};
use nlog::index::Index;
use nlog::source::{LoadError, Sources};
use nlog::{Compilation, Program};
use nlog_data::quotation::grouped;
use nlog_data::{Schema, TableId, Tables};
use weft_core::builtin;

use crate::exit::{Failure, say, say_painted};

/// The maximum number of tables in a message.
const SHOWN_TABLES: usize = 20;

/// The most diagnostics shown to people. `weft check --json` prints all of them.
const SHOWN_DIAGNOSTICS: usize = 1000;

/// Reads the files of a program. `builtin` among the paths is the built-in rules.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Sources, Failure> {
    builtin::load(paths).map_err(load_failure)
}

/// Reads a whole file. Opening a pipe would wait for its writer, and a device may never end.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file. Reading anything else might not end.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is a pipe, a socket or a device, not a regular file"));
    }
    File::open(path)
}

/// Converts a load error to a failure of the command.
pub(crate) fn load_failure(error: LoadError) -> Failure {
    match error {
        LoadError::Empty { .. } => Failure::Rejected(error.to_string()),
        LoadError::Io { .. } | LoadError::Import { .. } | LoadError::NotInLibrary { .. } => {
            Failure::Outside(error.to_string())
        }
    }
}

/// Reads and compiles a program to run.
pub(crate) fn compile(paths: &[PathBuf]) -> Result<Arc<Program>, Failure> {
    compile_sources(&load(paths)?)
}

/// Compiles a program to run. Its errors go to standard error; warnings are for `weft check`.
pub(crate) fn compile_sources(sources: &Sources) -> Result<Arc<Program>, Failure> {
    compiled(nlog::compile(sources), sources)
}

/// The same, with the places of all names.
pub(crate) fn compile_indexed(sources: &Sources) -> Result<(Arc<Program>, Index), Failure> {
    let (compilation, index) = nlog::compile_indexed(sources);
    Ok((compiled(compilation, sources)?, index))
}

fn compiled(
    Compilation { program, diagnostics }: Compilation,
    sources: &Sources,
) -> Result<Arc<Program>, Failure> {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    show(errors, sources);
    program.ok_or(Failure::Reported)
}

/// The tables that `--tables` names; the output tables if it names none.
pub(crate) fn chosen_tables(names: &[String], schema: &Schema) -> Result<BTreeSet<TableId>, Failure> {
    let of = |tables: Tables| {
        let chosen = schema.iter().filter(|(id, _)| tables.include(schema, *id));
        chosen.map(|(id, _)| id).collect()
    };
    if names.is_empty() {
        return Ok(of(Tables::Outputs));
    }
    let all: BTreeSet<TableId> = of(Tables::All);
    if names.iter().any(|name| name == "all") {
        return Ok(all);
    }
    let find = |name: &String| {
        let unknown = || {
            let known: Vec<&str> =
                all.iter().take(SHOWN_TABLES).map(|id| schema.table(*id).name.as_str()).collect();
            let more = if all.len() > SHOWN_TABLES { ", …" } else { "" };
            let known = known.join(", ");
            Failure::Usage(format!("--tables: the program has no table `{name}`; it has {known}{more}"))
        };
        schema.find(name).ok_or_else(unknown)
    };
    names.iter().map(find).collect()
}

/// Refuses a program with hooks where they are not supported.
pub(crate) fn refuse_hooks(program: &Program, by: &str) -> Result<(), Failure> {
    let Some(wiring) = program.hooks.first() else { return Ok(()) };
    let (hook, table) = (wiring.hook.name(), &program.schema.table(wiring.to).name);
    Err(Failure::Usage(format!(
        "{by} does not support hook {hook} yet, which fills table {table} ({}): run the program with `weft eval`",
        wiring.place
    )))
}

/// Shows the first diagnostics to people, and the number of further ones.
pub(crate) fn show<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>, sources: &Sources) {
    let style = if io::stderr().is_terminal() { Style::Colour } else { Style::Plain };
    let mut diagnostics = diagnostics.into_iter();
    for diagnostic in diagnostics.by_ref().take(SHOWN_DIAGNOSTICS) {
        say_painted(to_text(diagnostic, sources, style));
    }
    let more = diagnostics.count();
    if more > 0 {
        say(format_args!("{} more errors and warnings are not shown", grouped(more)));
    }
}
