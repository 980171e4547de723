//! A program that is edited: each check costs only as much as the change.
//!
//! ```
//! use nlog::Workspace;
//!
//! let mut workspace = Workspace::from_texts([
//!     ("tables.nlog", "input table a(x: int); output table b(x: int);"),
//!     ("rules.nlog", "b(x) :- a(x);"),
//! ]);
//! assert!(workspace.compilation().program.is_some());
//! workspace.set_text("rules.nlog", "b(y) :- a(x);")?;
//! let mistake = &workspace.compilation().diagnostics[0];
//! assert_eq!(mistake.to_string(), "rules.nlog:1:3: error[unbound-variable]: variable `y` is not bound");
//! workspace.set_text("rules.nlog", "b(x) :- a(x);")?;
//! assert!(workspace.compilation().program.is_some());
//! # Ok::<(), nlog::LoadError>(())
//! ```
//!
//! An edit only parses its own file again. Rules with unchanged text and unchanged meaning of their names are not
//! checked again; checks of the whole program (cycles, unused tables) are. The result is the same as that of
//! [`compile`](crate::compile) for the same texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::{Compilation, Memo, compile_with};
use crate::source::{Library, LoadError, Loaded, Loader, SourceFile, Sources};

/// The files of a program and their compilation.
pub struct Workspace {
    /// The paths given when the workspace was opened; empty if all files are in memory.
    paths: Vec<PathBuf>,
    loaded: Loaded,
    /// An editor's texts of files on the disk, by canonical path.
    edited: HashMap<PathBuf, String>,
    memo: Memo,
    compilation: Option<Arc<Compilation>>,
}

impl Workspace {
    /// Reads the files that [`Sources::load`] reads.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, LoadError> {
        Workspace::open_with(paths, &[])
    }

    /// The same, with libraries that the paths and imports can name. Their files cannot be edited.
    pub fn open_with<P: AsRef<Path>>(paths: &[P], libraries: &[Library]) -> Result<Self, LoadError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let loaded = Loader::new(libraries).load(&paths)?;
        Ok(Workspace::new(paths, loaded))
    }

    /// Texts in memory, by name, as for [`Sources::from_texts`].
    pub fn from_texts<N: AsRef<str>, T: Into<String>>(texts: impl IntoIterator<Item = (N, T)>) -> Self {
        let sources = Sources::from_texts(texts);
        Workspace::new(Vec::new(), Loaded { sources, numbers: HashMap::new() })
    }

    fn new(paths: Vec<PathBuf>, loaded: Loaded) -> Self {
        let (edited, memo) = (HashMap::new(), Memo::default());
        Workspace { paths, loaded, edited, memo, compilation: None }
    }

    /// The files as they are now.
    pub fn sources(&self) -> &Sources {
        &self.loaded.sources
    }

    /// The compilation of the current files.
    pub fn compilation(&mut self) -> Arc<Compilation> {
        if let Some(compilation) = &self.compilation {
            return Arc::clone(compilation);
        }
        let compilation = Arc::new(compile_with(&self.loaded.sources, Some(&mut self.memo), None));
        self.compilation = Some(Arc::clone(&compilation));
        compilation
    }

    /// The number of rules that the last compilation did not have to check.
    pub fn reused_rules(&self) -> usize {
        self.memo.reused()
    }

    /// Sets the text of a file, regardless of the disk, until [`Workspace::discard`]. Returns whether the file
    /// belongs to the program; in a program in memory, it always does afterwards.
    ///
    /// # Errors
    /// A newly imported file cannot be read. The program then stays as it was.
    pub fn set_text(&mut self, file: impl AsRef<Path>, text: impl Into<String>) -> Result<bool, LoadError> {
        let (file, text) = (file.as_ref(), text.into());
        if self.paths.is_empty() {
            self.set_text_in_memory(file, text);
            return Ok(true);
        }
        let Ok(path) = file.canonicalize() else { return Ok(false) };
        let Some(&number) = self.loaded.numbers.get(&path) else { return Ok(false) };
        let old = self.loaded.sources.file(number);
        let new = SourceFile::new(number, &old.name, text.clone().into_bytes());
        let same_imports = old.imported().eq(new.imported()) && old.given_objects().eq(new.given_objects());
        let before = self.edited.insert(path.clone(), text);
        if same_imports {
            self.loaded.sources.replace(new);
            self.compilation = None;
            return Ok(true);
        }
        let loaded = self.load_again();
        if loaded.is_err() {
            match before {
                Some(text) => self.edited.insert(path, text),
                None => self.edited.remove(&path),
            };
        }
        loaded.map(|_| true)
    }

    fn set_text_in_memory(&mut self, file: &Path, text: String) {
        let sources = &mut self.loaded.sources;
        sources.set(&file.to_string_lossy(), text);
        sources.follow_imports();
        self.compilation = None;
    }

    /// Discards the text from [`Workspace::set_text`], and reads the file from the disk. Returns whether anything
    /// changed.
    ///
    /// # Errors
    /// As [`Workspace::reload`].
    pub fn discard(&mut self, file: impl AsRef<Path>) -> Result<bool, LoadError> {
        match file.as_ref().canonicalize() {
            Ok(path) if self.edited.remove(&path).is_some() => self.reload(),
            _ => Ok(false),
        }
    }

    /// Reads all changes from the disk, including new and removed files. Returns whether anything changed.
    ///
    /// # Errors
    /// As [`Sources::load`]. The program then stays as it was.
    pub fn reload(&mut self) -> Result<bool, LoadError> {
        if self.paths.is_empty() { Ok(false) } else { self.load_again() }
    }

    fn load_again(&mut self) -> Result<bool, LoadError> {
        let loaded = Loader::again(&self.loaded, &self.edited).load(&self.paths)?;
        let changed = !loaded.sources.is_same(&self.loaded.sources);
        self.loaded = loaded;
        if changed {
            self.compilation = None;
        }
        Ok(changed)
    }
}
