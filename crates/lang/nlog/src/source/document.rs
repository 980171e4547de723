//! The files of objects that tests give.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::loader::{is_no_file, read, regular_file};
use super::{SourceFile, Sources, decode, normal};
use crate::syntax::ast::TestStepKind;

/// A file of objects, whose text this crate does not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// Its path after the folder of the test file.
    pub(crate) name: Arc<str>,
    /// Its text, or the end of a sentence about the file: why there is none.
    pub(crate) text: Result<Arc<str>, String>,
}

/// The files of objects of one file's tests, by path as written.
pub(super) type Documents = BTreeMap<String, Arc<Document>>;

impl Document {
    pub(super) fn new(name: &Path, bytes: io::Result<Vec<u8>>) -> Document {
        let text = match bytes.map(decode) {
            _ if !is_document(name) => Err("is neither YAML nor JSON, by its name".to_owned()),
            Ok((text, None)) => Ok(text.into()),
            Ok((_, Some(fault))) => Err(format!("cannot be read: {}", fault.message)),
            Err(error) if is_no_file(error.kind()) => Err("does not exist".to_owned()),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        Document { name: name.to_string_lossy().into(), text }
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Document {
        Document::new(&normal(path), regular_file(path).and_then(read))
    }
}

impl SourceFile {
    /// The paths of the files of objects that its tests give, as written.
    pub(crate) fn given_objects(&self) -> impl Iterator<Item = &str> {
        let steps = self.ast.tests.iter().flat_map(|test| &test.steps);
        steps.filter_map(|step| match &step.kind {
            TestStepKind::Objects(path) => Some(&*path.name),
            _ => None,
        })
    }

    /// The files of objects that its tests give, with `read` for the contents of a path. `folder` is that of the file.
    pub(super) fn documents(&self, folder: &Path, read: impl Fn(&Path) -> Arc<Document>) -> Documents {
        self.given_objects().map(|path| (path.to_owned(), read(&folder.join(path)))).collect()
    }
}

impl Sources {
    /// The file of objects with this path, as a test in the file with this number writes it.
    pub(crate) fn document(&self, file: u32, path: &str) -> Option<&Document> {
        self.documents.get(file as usize)?.get(path).map(|document| &**document)
    }

    /// The paths of the files of objects that tests give, whether they exist or not.
    pub fn objects_files(&self) -> impl Iterator<Item = PathBuf> {
        self.documents.iter().flat_map(BTreeMap::values).map(|document| PathBuf::from(&*document.name))
    }
}

/// Whether the name is that of a file of objects: YAML or JSON.
pub fn is_document(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let known = |extension: &str| {
        ["yaml", "yml", "json", "jsonl"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    };
    extension.is_some_and(known)
}
