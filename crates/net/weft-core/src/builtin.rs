//! The built-in rules: those of the folder `rules/`, which the program carries with it.
//!
//! In the paths of a program, `builtin` stands for all of them. A package imports the files whose names it uses:
//! `import "builtin/interface/objects.nlog";`.

use std::path::Path;
use std::slice;
use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use nlog::source::{Library, is_nlog, is_test_file};
use nlog::{LoadError, Sources, Workspace};

use crate::record::RulesText;

/// The name of the built-in rules among the paths of a program.
pub const NAME: &str = "builtin";

static FOLDER: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../../rules");

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let mut texts = Vec::new();
    let mut folders = vec![&FOLDER];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        let files = folder.files().filter(|file| is_nlog(file.path()) && !is_test_file(file.path()));
        texts.extend(files.map(|file| (file.path(), String::from_utf8_lossy(file.contents()))));
    }
    Library::new(NAME, texts)
});

/// Whether a path of a program names the built-in rules, or some of them, rather than something on the disk.
pub fn owns(path: &Path) -> bool {
    LIBRARY.owns(path)
}

/// Reads the files of a program, as [`Sources::load`] does.
///
/// # Errors
/// As [`Sources::load`].
pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Sources, LoadError> {
    Sources::load_with(paths, slice::from_ref(&*LIBRARY))
}

/// A program in memory, as a record has it: with all its files, those of the built-in rules too.
pub fn of_text(rules: &RulesText) -> Sources {
    let files = rules.files.iter().map(|(name, text)| (&**name, text.as_str()));
    Sources::from_texts_with(files, slice::from_ref(&*LIBRARY))
}

/// Opens a program to be edited, as [`Workspace::open`] does.
///
/// # Errors
/// As [`Sources::load`].
pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Workspace, LoadError> {
    Workspace::open_with(paths, slice::from_ref(&*LIBRARY))
}
