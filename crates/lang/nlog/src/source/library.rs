//! Folders of files that a program carries with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::normal;

/// A folder of files in memory. Paths name it as if it were in the working folder: `NAME` is the folder and
/// `NAME/a/b.nlog` a file in it, in imports as well. A folder of this name on the disk is `./NAME`. A copy shares the files.
#[derive(Clone)]
pub struct Library {
    name: Arc<str>,
    /// By path, which begins with the name.
    files: Arc<BTreeMap<PathBuf, String>>,
}

impl Library {
    /// A library of these texts, by path in it.
    pub fn new<P: AsRef<Path>, T: Into<String>>(
        name: &str,
        texts: impl IntoIterator<Item = (P, T)>,
    ) -> Library {
        let path = |path: P| normal(&Path::new(name).join(path));
        let files = texts.into_iter().map(|(own, text)| (path(own), text.into())).collect();
        Library { name: name.into(), files: Arc::new(files) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the path names the library or something in it, rather than something on the disk.
    pub fn owns(&self, path: &Path) -> bool {
        path.starts_with(&*self.name)
    }

    /// The text of a file.
    pub(super) fn text(&self, file: &Path) -> Option<&str> {
        self.files.get(file).map(String::as_str)
    }

    /// The file with this path, or the files in the folder with this path, in the order of their names.
    pub(super) fn files_at(&self, path: &Path) -> Vec<&Path> {
        let path = normal(path);
        self.files.keys().map(PathBuf::as_path).filter(|file| file.starts_with(&path)).collect()
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} files)", self.name, self.files.len())
    }
}
