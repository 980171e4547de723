//! The files of a program: found, read and parsed.
//!
//! This is the crate's only I/O.

mod document;
mod library;
mod loader;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nlog_data::encoding::other_than_utf8;

use crate::limits::MAX_FILE;
use crate::program::Place;
use crate::syntax::ast::{self, Span};
use crate::syntax::{SyntaxError, lower, parse};
pub(crate) use document::Document;
use document::Documents;
pub use document::is_document;
pub use library::Library;
pub(crate) use loader::{Loaded, Loader};
pub use loader::{files_of, is_nlog, is_test_file};

/// The reason why a program could not be read. Mistakes *in* a program are diagnostics instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A given file or folder cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// An imported file exists but cannot be read.
    #[error("{place}: cannot read the imported file {}: {error}", path.display())]
    Import {
        /// The import.
        place: Place,
        /// The path that it names.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A given folder contains no program.
    #[error("{}: this folder and its subfolders contain no *.nlog file", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A library has no such file.
    #[error("{library} has no file or folder {shown}; write ./{shown} for one on the disk", shown = path.display())]
    NotInLibrary {
        /// The path.
        path: PathBuf,
        /// The name of the library.
        library: String,
    },
}

/// The files of a program. A copy shares them.
#[derive(Debug, Default, Clone)]
pub struct Sources {
    files: Vec<Arc<SourceFile>>,
    /// For each file and each of its imports, the imported file, if it exists.
    imports: Vec<Vec<Option<u32>>>,
    /// For each file, the files of objects that its tests give.
    documents: Vec<Documents>,
    /// The files of objects in memory, by path.
    texts: BTreeMap<PathBuf, Arc<Document>>,
    /// The libraries that paths and imports can name.
    libraries: Vec<Library>,
}

/// A file of a program.
#[derive(Debug)]
pub struct SourceFile {
    /// The name, as the user gave it.
    pub name: Arc<str>,
    /// Its text; invalid UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// Its AST.
    pub(crate) ast: ast::File,
    pub(crate) errors: Vec<SyntaxError>,
    lines: LineIndex,
    number: u32,
}

/// The text of a file, and the fault that makes it none. Invalid UTF-8 is replaced by U+FFFD; there is no text of what is
/// in another encoding or too long.
fn decode(bytes: Vec<u8>) -> (String, Option<SyntaxError>) {
    let fault = |message: String, help: &str| SyntaxError { range: 0..0, message, help: help.into() };
    if bytes.len() > MAX_FILE {
        let message = format!("the file is larger than {} MiB", MAX_FILE >> 20);
        return (String::new(), Some(fault(message, "split it into several files in one folder")));
    }
    if let Some(encoding) = other_than_utf8(&bytes) {
        let message = format!("the file is encoded in {encoding}, not in UTF-8");
        return (String::new(), Some(fault(message, "save the file with UTF-8 encoding")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message =
                format!("the file is not valid UTF-8: unexpected byte {:#04x}", error.as_bytes()[at]);
            let fault = SyntaxError {
                range: at..at + '\u{fffd}'.len_utf8(),
                ..fault(message, "save the file with UTF-8 encoding")
            };
            (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(fault))
        }
    }
}

impl SourceFile {
    pub(crate) fn new(number: u32, name: &str, bytes: Vec<u8>) -> Self {
        let (text, fault) = decode(bytes);
        let parsed = parse(&text);
        let ast = lower(&parsed.root(), number);
        // The other mistakes may have the same cause.
        let errors = fault.map_or(parsed.errors, |fault| vec![fault]);
        let lines = LineIndex::new(&text);
        SourceFile { name: name.into(), text, ast, errors, lines, number }
    }

    /// The imported paths, as written.
    pub(crate) fn imported(&self) -> impl Iterator<Item = &str> {
        self.ast.imports.iter().map(|import| &*import.path)
    }

    /// Line and column of a byte, both from 1, the column in Unicode scalar values. A byte order mark has no width.
    pub fn position(&self, offset: u32) -> (u32, u32) {
        self.lines.position(&self.text, offset as usize)
    }

    /// The bytes of the lines that the span touches, without the last line break (LF or CR LF).
    pub(crate) fn lines_around(&self, span: Span) -> Range<usize> {
        let lines = self.lines.around(self.text.len(), span.start..span.end);
        let carriage_return = self.text.as_bytes()[lines.clone()].ends_with(b"\r");
        lines.start..lines.end - usize::from(carriage_return)
    }
}

impl Sources {
    /// Reads the given files, the files of the given folders (`*.nlog` but not `*.test.nlog`, at any depth), and all
    /// their imports. Each file is read once, even if it is reached under several names.
    pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Sources, LoadError> {
        Sources::load_with(paths, &[])
    }

    /// The same, with libraries that the paths and imports can name.
    pub fn load_with<P: AsRef<Path>>(paths: &[P], libraries: &[Library]) -> Result<Sources, LoadError> {
        Loader::new(libraries).load(paths).map(|loaded| loaded.sources)
    }

    /// Sources in memory, by name. Imports refer to other sources, relative to the importing one. Texts with names of
    /// [documents](is_document) are files of objects, for tests.
    pub fn from_texts<N: AsRef<str>, T: Into<String>>(texts: impl IntoIterator<Item = (N, T)>) -> Sources {
        Sources::default().with_texts(texts)
    }

    /// The same, whose imports can name libraries. The files of these that are needed must be among the texts.
    pub fn from_texts_with<N: AsRef<str>, T: Into<String>>(
        texts: impl IntoIterator<Item = (N, T)>,
        libraries: &[Library],
    ) -> Sources {
        Sources { libraries: libraries.to_vec(), ..Sources::default() }.with_texts(texts)
    }

    /// Other sources in memory, whose imports can name the same libraries. Their files must be among the texts.
    #[must_use]
    pub fn with_texts<N: AsRef<str>, T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = (N, T)>,
    ) -> Sources {
        let mut sources = Sources { libraries: self.libraries.clone(), ..Sources::default() };
        for (name, text) in texts {
            sources.set(name.as_ref(), text.into());
        }
        sources.follow_imports();
        sources
    }

    /// Sets a text in memory, of a new file or of one that is there by this name.
    pub(crate) fn set(&mut self, name: &str, text: String) {
        let bytes = text.into_bytes();
        if is_document(Path::new(name)) {
            let document = Document::new(&normal(Path::new(name)), Ok(bytes));
            self.texts.insert(normal(Path::new(name)), document.into());
            return;
        }
        let known = self.files.iter().position(|known| *known.name == *name);
        let file = SourceFile::new(known.unwrap_or(self.files.len()) as u32, name, bytes);
        match known {
            Some(_) => self.replace(file),
            None => self.add(file),
        }
    }

    /// Finds what files import, and the objects that their tests give, among the others by name.
    pub(crate) fn follow_imports(&mut self) {
        let mut numbers = BTreeMap::new();
        for (file, number) in self.files.iter().zip(0..) {
            numbers.entry((normal(Path::new(&*file.name)), self.is_of_library(file))).or_insert(number);
        }
        let document = |path: &Path| {
            let path = normal(path);
            let missing = || Document::new(&path, Err(io::ErrorKind::NotFound.into())).into();
            self.texts.get(&path).cloned().unwrap_or_else(missing)
        };
        let found = self.imports.iter_mut().zip(&mut self.documents);
        for (file, (imports, documents)) in self.files.iter().zip(found) {
            let name = Path::new(&*file.name);
            let folder = name.parent().unwrap_or(Path::new(""));
            let number = |import: &str| {
                let (path, in_library) = target(&self.libraries, name, import);
                numbers.get(&(normal(&path), in_library)).copied()
            };
            *imports = file.imported().map(number).collect();
            *documents = file.documents(folder, document);
        }
    }

    /// The file of this number.
    ///
    /// # Panics
    /// If the number belongs to other sources.
    pub fn file(&self, number: u32) -> &SourceFile {
        &self.files[number as usize]
    }

    /// The files, in the order in which they were found.
    pub fn files(&self) -> &[Arc<SourceFile>] {
        &self.files
    }

    /// Whether the file belongs to a library.
    pub fn is_of_library(&self, file: &SourceFile) -> bool {
        library_of(&self.libraries, Path::new(&*file.name)).is_some()
    }

    /// The name of the library that an import of a file on the disk names.
    pub(crate) fn library_of_import(&self, file: &SourceFile, import: &str) -> Option<&str> {
        let library = library_of(&self.libraries, Path::new(import))?;
        (!self.is_of_library(file)).then_some(library.name())
    }

    /// For each import of the file with this number, the imported file, if it exists.
    pub(crate) fn imports(&self, number: usize) -> &[Option<u32>] {
        &self.imports[number]
    }

    /// The imported files that do not exist.
    pub fn missing_imports(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().zip(&self.imports).flat_map(|(file, found)| {
            let imports = file.ast.imports.iter().zip(found).filter(|(_, found)| found.is_none());
            let path = |import: &str| target(&self.libraries, Path::new(&*file.name), import).0;
            imports.map(|(import, _)| path(&import.path)).map(|path| normal(&path)).collect::<Vec<_>>()
        })
    }

    pub(crate) fn place(&self, span: Span) -> Place {
        let file = self.file(span.file);
        let (line, column) = file.position(span.start);
        Place { file: file.name.clone(), line, column }
    }

    /// The order of declarations: of two that cannot both stand, that of a library is the first, since the other one can be
    /// mended.
    pub(crate) fn precedence(&self, span: Span) -> (bool, Place) {
        (!self.is_of_library(self.file(span.file)), self.place(span))
    }

    pub(crate) fn text(&self, span: Span) -> &str {
        &self.file(span.file).text[span.start as usize..span.end as usize]
    }

    /// Whether these are the very same files.
    pub(crate) fn is_same(&self, other: &Sources) -> bool {
        let mut pairs = self.files.iter().zip(&other.files);
        self.imports == other.imports
            && self.documents == other.documents
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Adds a file, whose number is the next one.
    pub(crate) fn add(&mut self, file: impl Into<Arc<SourceFile>>) {
        self.files.push(file.into());
        self.imports.push(Vec::new());
        self.documents.push(Documents::new());
    }

    /// Replaces the file that has the same number.
    pub(crate) fn replace(&mut self, file: SourceFile) {
        let number = file.number as usize;
        self.files[number] = Arc::new(file);
    }
}

/// The library that a path names.
fn library_of<'l>(libraries: &'l [Library], path: &Path) -> Option<&'l Library> {
    libraries.iter().find(|library| library.owns(path))
}

/// The path that an import names, and whether it is in a library. Files of a library import from it alone.
fn target(libraries: &[Library], importer: &Path, import: &str) -> (PathBuf, bool) {
    let folder = importer.parent().unwrap_or(Path::new(""));
    if library_of(libraries, importer).is_some() {
        return (folder.join(import), true);
    }
    match library_of(libraries, Path::new(import)) {
        Some(_) => (PathBuf::from(import), true),
        None => (folder.join(import), false),
    }
}

/// The path without `.` and, where a folder precedes it, `..`; for displayed names and for texts in memory.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Finds lines and columns without reading the text from its start.
#[derive(Debug)]
struct LineIndex {
    /// The first byte of each line.
    starts: Vec<u32>,
    /// The number of characters before each [`LineIndex::STEP`]th byte.
    characters: Vec<u32>,
}

impl LineIndex {
    const STEP: usize = 4096;

    fn new(text: &str) -> Self {
        let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() as u32 } else { 0 };
        let breaks = text.bytes().zip(1..).filter(|&(byte, _)| byte == b'\n').map(|(_, next)| next);
        let starts = std::iter::once(mark).chain(breaks).collect();
        let mut count = 0;
        let mut characters = vec![0];
        for chunk in text.as_bytes().chunks(Self::STEP) {
            count += count_characters(chunk);
            characters.push(count);
        }
        LineIndex { starts, characters }
    }

    /// The byte range of the lines that contain these bytes, without the last line feed.
    fn around(&self, length: usize, bytes: Range<u32>) -> Range<usize> {
        let line_of = |at: u32| self.starts.partition_point(|&start| start <= at);
        let start = match line_of(bytes.start) {
            // A byte order mark belongs to the first line.
            0 | 1 => 0,
            line => self.starts[line - 1] as usize,
        };
        let end = self.starts.get(line_of(bytes.end).max(1)).map_or(length, |&next| next as usize - 1);
        start..end
    }

    fn position(&self, text: &str, offset: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|&start| start as usize <= offset).max(1);
        let start = self.starts[line - 1] as usize;
        let end = offset.max(start);
        let before = |at: usize| {
            let step = at / Self::STEP;
            self.characters[step] + count_characters(&text.as_bytes()[step * Self::STEP..at])
        };
        let within = if end - start < Self::STEP {
            count_characters(&text.as_bytes()[start..end])
        } else {
            before(end) - before(start)
        };
        (line as u32, within + 1)
    }
}

/// The number of characters that start in these bytes of UTF-8.
fn count_characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let file = SourceFile::new(0, "a", "\u{feff}é#x\r\n§b\n".as_bytes().to_vec());
        assert_eq!(file.position(0), (1, 1));
        assert_eq!(file.position(3), (1, 1));
        assert_eq!(file.position(5), (1, 2));
        assert_eq!(file.position(11), (2, 2));
        assert_eq!(file.position(13), (3, 1));
    }

    #[test]
    fn long_lines_count_as_short_ones() {
        let text = "é".repeat(10_000);
        let file = SourceFile::new(0, "a", format!("x\n{text}").into_bytes());
        for at in [0, 1, 2047, 2048, 2049, 5000, 9999, 10_000] {
            assert_eq!(file.position(2 + 2 * at), (2, at + 1));
        }
    }

    #[test]
    fn lines_around_a_span_end_before_the_last_line_break() {
        let text = "\u{feff}ab\r\n\nc\nlast";
        let file = SourceFile::new(0, "a", text.as_bytes().to_vec());
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let from = text.as_bytes()[..start].iter().rposition(|&byte| byte == b'\n');
                let to = text.as_bytes()[end..].iter().position(|&byte| byte == b'\n');
                let from = from.map_or(0, |at| at + 1);
                let to = to.map_or(text.len(), |at| end + at);
                let to = if text.as_bytes()[from..to].ends_with(b"\r") { to - 1 } else { to };
                let span = Span { file: 0, start: start as u32, end: end as u32 };
                assert_eq!(file.lines_around(span), from..to, "{start}..{end}");
            }
        }
    }

    #[test]
    fn names_lose_detours() {
        assert_eq!(normal(Path::new("a/./b/../c.nlog")), Path::new("a/c.nlog"));
        assert_eq!(normal(Path::new("../../c.nlog")), Path::new("../../c.nlog"));
    }
}
