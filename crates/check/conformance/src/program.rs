//! The rules as a program.

use std::path::Path;
use std::sync::Arc;

use nlog::{Program, Sources};

/// The rules of a folder, without their unit tests.
///
/// # Errors
/// The folder cannot be read, or the program has mistakes; the error is their text.
pub fn load(folder: &Path) -> Result<Arc<Program>, String> {
    let sources = Sources::load(&[folder]).map_err(|error| error.to_string())?;
    let compilation = nlog::compile(&sources);
    let mistakes: Vec<String> = compilation.diagnostics.iter().map(ToString::to_string).collect();
    compilation.program.ok_or_else(|| mistakes.join("\n"))
}

/// The rules of this repository, or those of the folder that `WEFT_RULES` names.
///
/// # Panics
/// They cannot be read, or have mistakes.
pub fn rules() -> Arc<Program> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let folder = std::env::var_os("WEFT_RULES").map_or(own, Into::into);
    load(&folder).unwrap_or_else(|mistakes| panic!("{}: {mistakes}", folder.display()))
}
