//! An atom given separately from a program, as for `weft explain`.

use super::{Compilation, compile};
use crate::program::{Pattern, TestStepKind};
use crate::source::{SourceFile, Sources};

/// The name of the text that [`compile_with_atom`] reads, in diagnostics.
pub const ATOM: &str = "ATOM";

/// Checks the sources together with a row as it may follow `expect` in a test: `location("p1", _)`.
///
/// Mistakes in the row are reported in a file with the name [`ATOM`]. The result has a pattern if it has a
/// program and the text is a single row.
pub fn compile_with_atom(sources: &Sources, atom: &str) -> (Sources, Compilation, Option<Pattern>) {
    let mut sources = sources.clone();
    let number = sources.files().len() as u32;
    // The row has a separate line, so that columns are those of the text.
    let text = format!("test \"\" {{ expect\n{};\n}}", atom.trim().trim_end_matches(';'));
    sources.add(SourceFile::new(number, ATOM, text.into_bytes()));
    let compilation = compile(&sources);
    let tests = compilation.program.iter().flat_map(|program| &program.tests);
    let mut steps = tests.filter(|test| *test.place.file == *ATOM).flat_map(|test| &test.steps);
    let pattern = match (steps.next().map(|step| &step.kind), steps.next()) {
        (Some(TestStepKind::Holds(pattern)), None) => Some(pattern.clone()),
        _ => None,
    };
    (sources, compilation, pattern)
}
