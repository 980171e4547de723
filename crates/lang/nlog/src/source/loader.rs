//! Finds and reads the files of a program.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Document, Library, LoadError, SourceFile, Sources, library_of, normal, target};
use crate::limits::MAX_FILE;

/// Finds and reads the files of a program.
#[derive(Default)]
pub(crate) struct Loader<'e> {
    sources: Sources,
    /// The numbers of files, by canonical path.
    numbers: HashMap<PathBuf, u32>,
    /// Files by every path that led to one: resolving a path takes system calls.
    reached: HashMap<PathBuf, u32>,
    /// The path of each file, to resolve its imports. That of a file of a library is its name.
    paths: Vec<PathBuf>,
    /// Files that were read before, by canonical path; they are parsed again only if they changed.
    earlier: HashMap<&'e Path, &'e Arc<SourceFile>>,
    /// Texts that replace the contents on disk, by canonical path.
    edited: Option<&'e HashMap<PathBuf, String>>,
}

/// The result of loading.
pub(crate) struct Loaded {
    pub(crate) sources: Sources,
    /// The number of each file, by its canonical path.
    pub(crate) numbers: HashMap<PathBuf, u32>,
}

impl<'e> Loader<'e> {
    /// A loader of files on the disk and in these libraries.
    pub(crate) fn new(libraries: &[Library]) -> Self {
        let sources = Sources { libraries: libraries.to_vec(), ..Sources::default() };
        Loader { sources, ..Loader::default() }
    }

    /// A loader that reuses unchanged files of an earlier load.
    pub(crate) fn again(earlier: &'e Loaded, edited: &'e HashMap<PathBuf, String>) -> Self {
        let files = earlier.numbers.iter();
        let files = files.map(|(path, number)| (path.as_path(), &earlier.sources.files[*number as usize]));
        let earlier_files = files.collect();
        Loader { earlier: earlier_files, edited: Some(edited), ..Loader::new(&earlier.sources.libraries) }
    }

    /// See [`Sources::load`].
    pub(crate) fn load<P: AsRef<Path>>(mut self, paths: &[P]) -> Result<Loaded, LoadError> {
        for path in paths {
            let path = path.as_ref();
            if let Some(library) = library_of(&self.sources.libraries, path).cloned() {
                self.of_library(&library, path)?;
                continue;
            }
            let metadata = fs::metadata(path).map_err(|error| io_error(path, error))?;
            if metadata.is_dir() {
                let mut files = files_of(path)?;
                files.retain(|file| !is_test_file(file));
                if files.is_empty() {
                    return Err(LoadError::Empty { path: path.to_owned() });
                }
                for file in files {
                    self.file(&file, &file, regular_file).map_err(|error| io_error(&file, error))?;
                }
            } else {
                // A pipe is welcome here: `weft check <(generate)`.
                self.file(path, path, any_file).map_err(|error| io_error(path, error))?;
            }
        }
        self.follow_imports()?;
        Ok(Loaded { sources: self.sources, numbers: self.numbers })
    }

    /// Adds the files of a library that the path names.
    fn of_library(&mut self, library: &Library, path: &Path) -> Result<(), LoadError> {
        let files = library.files_at(path);
        if files.is_empty() {
            let library = library.name().to_owned();
            return Err(LoadError::NotInLibrary { path: path.to_owned(), library });
        }
        for file in files.into_iter().filter(|file| !is_test_file(file)) {
            self.library_file(file);
        }
        Ok(())
    }

    /// Adds a file of a library, unless it is there already; none if no library has it.
    fn library_file(&mut self, path: &Path) -> Option<u32> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        let library = library_of(&self.sources.libraries, path)?.clone();
        let bytes = library.text(path)?.as_bytes().to_vec();
        Some(self.add(path.to_owned(), path, &path.to_string_lossy(), bytes))
    }

    /// Reads a file on the disk, unless it was read already.
    fn file(&mut self, path: &Path, name: &Path, open: fn(&Path) -> io::Result<fs::File>) -> io::Result<u32> {
        if let Some(&number) = self.reached.get(path) {
            return Ok(number);
        }
        let canonical = path.canonicalize()?;
        if let Some(&number) = self.numbers.get(&canonical) {
            self.reached.insert(path.to_owned(), number);
            return Ok(number);
        }
        let edited = self.edited.and_then(|edited| edited.get(&canonical));
        let bytes = if let Some(text) = edited { text.clone().into_bytes() } else { read(open(path)?)? };
        let number = self.add(canonical, path, &name.to_string_lossy(), bytes);
        self.reached.insert(path.to_owned(), number);
        Ok(number)
    }

    /// Adds a file that is not there yet. `identity` is its canonical path, or its name in a library.
    fn add(&mut self, identity: PathBuf, path: &Path, name: &str, bytes: Vec<u8>) -> u32 {
        let number = self.sources.files.len() as u32;
        let same = |file: &&&Arc<SourceFile>| {
            file.number == number && *file.name == *name && file.text.as_bytes() == bytes
        };
        match self.earlier.get(identity.as_path()).filter(same) {
            Some(file) => self.sources.add(Arc::clone(file)),
            None => self.sources.add(SourceFile::new(number, name, bytes)),
        }
        self.numbers.insert(identity, number);
        self.paths.push(path.to_owned());
        number
    }

    /// The file that an import names, if it exists.
    fn imported(&mut self, importer: u32, index: usize) -> Result<Option<u32>, LoadError> {
        let import = &self.sources.file(importer).ast.imports[index];
        let libraries = &self.sources.libraries;
        let (path, in_library) = target(libraries, &self.paths[importer as usize], &import.path);
        let (mut name, span) = (normal(&path), import.span);
        if in_library {
            return Ok(self.library_file(&name));
        }
        if library_of(libraries, &name).is_some() {
            // Names tell files on the disk from those of libraries.
            name = Path::new(".").join(name);
        }
        match self.file(&path, &name, regular_file) {
            Ok(number) => Ok(Some(number)),
            Err(error) if is_no_file(error.kind()) => Ok(None),
            Err(error) => Err(LoadError::Import { place: self.sources.place(span), path, error }),
        }
    }

    fn follow_imports(&mut self) -> Result<(), LoadError> {
        let mut queue: VecDeque<u32> = (0..self.sources.files.len() as u32).collect();
        while let Some(importer) = queue.pop_front() {
            for index in 0..self.sources.file(importer).ast.imports.len() {
                let before = self.sources.files.len();
                let found = self.imported(importer, index)?;
                self.sources.imports[importer as usize].push(found);
                queue.extend(before as u32..self.sources.files.len() as u32);
            }
            let folder = self.paths[importer as usize].parent().unwrap_or(Path::new("")).to_owned();
            let read = |path: &Path| Document::read(path).into();
            self.sources.documents[importer as usize] =
                self.sources.files[importer as usize].documents(&folder, read);
        }
        Ok(())
    }
}

/// The contents of a file.
pub(super) fn read(file: fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more shows that the file is too long.
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn any_file(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path)
}

/// Opens a file that a program names. Opening a pipe would wait for its writer, and a device may have no end.
pub(super) fn regular_file(path: &Path) -> io::Result<fs::File> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        return fs::File::open(path);
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Err(io::Error::other("it is a pipe, a socket or a device; a program consists of regular files"))
}

/// The `.nlog` files of a folder and its subfolders, including test files, sorted by name. Hidden files are excluded;
/// a folder reached through several links is visited once.
///
/// # Errors
/// [`LoadError::Io`] with what cannot be read.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let mut found = Vec::new();
    walk(folder, &mut HashSet::new(), &mut found)?;
    Ok(found)
}

fn walk(folder: &Path, seen: &mut HashSet<PathBuf>, found: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let canonical = folder.canonicalize().map_err(|error| io_error(folder, error))?;
    if !seen.insert(canonical) {
        return Ok(());
    }
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| io_error(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        let metadata = fs::metadata(&path).map_err(|error| io_error(&path, error))?;
        if metadata.is_dir() {
            walk(&path, seen, found)?;
        } else if is_nlog(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether the name is that of an nlog file.
pub fn is_nlog(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "nlog")
}

/// Whether the file is a test file: `NAME.test.nlog`. A folder program excludes test files.
pub fn is_test_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".test.nlog"))
}

/// Whether an error means that a path of the program is not a file; other errors concern the system.
pub(super) fn is_no_file(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as K;
    matches!(kind, K::NotFound | K::IsADirectory | K::NotADirectory | K::InvalidInput | K::InvalidFilename)
}

fn io_error(path: &Path, error: io::Error) -> LoadError {
    LoadError::Io { path: path.to_owned(), error }
}
