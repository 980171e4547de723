//! The rules with their unit tests, as texts and as folders for `weft test`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use nlog::syntax::{SyntaxKind, parse};
use nlog::{Program, Sources};
use tempfile::TempDir;

use crate::mutants::tokens;

/// All files of a folder of rules.
pub(crate) struct Suite {
    /// By path in the folder.
    pub(crate) files: BTreeMap<String, String>,
    /// For each file of tests what it imports, however many steps away.
    tests: BTreeMap<String, BTreeSet<String>>,
}

impl Suite {
    /// Reads a folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn load(folder: &Path) -> Result<Suite, String> {
        let mut files = BTreeMap::new();
        read(folder, folder, &mut files).map_err(|error| format!("{}: {error}", folder.display()))?;
        let imports: BTreeMap<&String, Vec<String>> =
            files.iter().map(|(name, text)| (name, imports(name, text))).collect();
        let tests = files.keys().filter(|name| is_test(name));
        let tests = tests.map(|name| (name.clone(), reached(name, &imports))).collect();
        Ok(Suite { files, tests })
    }

    /// The files of rules, without those of tests.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&String, &String)> {
        self.files.iter().filter(|(name, _)| !is_test(name))
    }

    /// The program with one file in place of another; none if it has mistakes that a compiler sees.
    pub(crate) fn program(&self, file: &str, text: &str) -> Option<Arc<Program>> {
        let of = |name: &String, own: &String| if name == file { text.to_owned() } else { own.clone() };
        let sources = Sources::from_texts(self.rules().map(|(name, own)| (name.clone(), of(name, own))));
        nlog::compile(&sources).program
    }

    /// The files of tests that a file can make fail.
    fn tests_of(&self, file: &str) -> impl Iterator<Item = &String> {
        let concerned = move |imports: &BTreeSet<String>| imports.contains(file);
        self.tests.iter().filter(move |(_, imports)| concerned(imports)).map(|(name, _)| name)
    }
}

/// A copy of the rules, to be spoilt.
pub(crate) struct Copy<'a> {
    suite: &'a Suite,
    folder: TempDir,
    weft: PathBuf,
}

impl<'a> Copy<'a> {
    /// Writes the rules into a folder of their own.
    ///
    /// # Errors
    /// That fails.
    pub(crate) fn new(suite: &'a Suite, weft: &Path) -> std::io::Result<Copy<'a>> {
        let folder = tempfile::Builder::new().prefix("mutation-").tempdir()?;
        for (name, text) in &suite.files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, text)?;
        }
        Ok(Copy { suite, folder, weft: weft.to_owned() })
    }

    /// Whether all unit tests that a file can concern pass with this in its place.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn passes(&self, file: &str, text: &str) -> std::io::Result<bool> {
        let tests: Vec<&str> = self.suite.tests_of(file).map(String::as_str).collect();
        if tests.is_empty() {
            return Ok(true);
        }
        let place = self.folder.path().join(file);
        fs::write(&place, text)?;
        let passes = self.test(&tests)?;
        fs::write(&place, &self.suite.files[file])?;
        Ok(passes)
    }

    /// Whether all unit tests pass.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn passes_all(&self) -> std::io::Result<bool> {
        self.test(&["."])
    }

    fn test(&self, paths: &[&str]) -> std::io::Result<bool> {
        let mut command = Command::new(&self.weft);
        command.arg("test").args(paths).current_dir(self.folder.path());
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        Ok(status.success())
    }
}

fn is_test(name: &str) -> bool {
    name.ends_with(".test.nlog")
}

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "nlog") {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// What a file imports, by path in the folder.
fn imports(name: &str, text: &str) -> Vec<String> {
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let root = parse(text).root();
    let imports = root.children().filter(|item| item.kind() == SyntaxKind::Import);
    let paths = imports.flat_map(|item| tokens(&item).collect::<Vec<_>>());
    let paths = paths.filter(|token| token.kind() == SyntaxKind::String);
    paths.map(|token| joined(folder, token.text().trim_matches('"'))).collect()
}

/// A path from a folder, without `..`.
fn joined(folder: &Path, path: &str) -> String {
    let mut parts: Vec<&str> = folder.iter().filter_map(|part| part.to_str()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// All that a file imports, at any distance.
fn reached(name: &String, imports: &BTreeMap<&String, Vec<String>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![name];
    while let Some(name) = next.pop() {
        for import in imports.get(name).into_iter().flatten() {
            if found.insert(import.clone()) {
                next.push(import);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_concerned_by_what_they_import_at_any_distance() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        for (name, text) in [
            ("a.nlog", ""),
            ("in/b.nlog", "import \"../a.nlog\";"),
            ("in/b.test.nlog", "import \"b.nlog\";"),
            ("c.test.nlog", ""),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let suite = Suite::load(folder.path()).unwrap();
        assert_eq!(suite.tests_of("a.nlog").collect::<Vec<_>>(), ["in/b.test.nlog"]);
        assert_eq!(suite.rules().map(|(name, _)| name).collect::<Vec<_>>(), ["a.nlog", "in/b.nlog"]);
    }
}
