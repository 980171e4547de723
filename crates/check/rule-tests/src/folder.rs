//! A folder of rules and unit tests, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nlog::source::{files_of, is_document, is_test_file};
use nlog::syntax::{SyntaxKind, SyntaxNode, SyntaxToken, parse};

/// All files of a folder of rules, with the files of objects that tests give, and which tests use which files.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// By path in the folder.
    files: BTreeMap<String, String>,
    /// For each file of tests, the files that it imports, directly or not, and the files of objects that these give.
    tests: BTreeMap<String, BTreeSet<String>>,
}

impl Folder {
    /// Reads a folder.
    ///
    /// # Errors
    /// A file or folder cannot be read; the text names it.
    pub fn load(folder: &Path) -> Result<Folder, String> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
            Ok((name, text))
        };
        let files = files_of(folder).map_err(|error| error.to_string())?;
        let mut texts: Vec<(String, String)> =
            files.iter().map(|path| read(path)).collect::<Result<_, String>>()?;
        let named: BTreeSet<String> = texts.iter().flat_map(|(name, text)| uses(name, text)).collect();
        // A missing file is a mistake of the test that names it.
        let documents = named.iter().filter(|name| is_document(Path::new(name)));
        for path in documents.map(|name| folder.join(name)).filter(|path| path.is_file()) {
            texts.push(read(&path)?);
        }
        Ok(Folder::from_texts(texts))
    }

    /// A folder of these texts, by path in the folder.
    pub fn from_texts<N: Into<String>, T: Into<String>>(texts: impl IntoIterator<Item = (N, T)>) -> Folder {
        let files: BTreeMap<String, String> =
            texts.into_iter().map(|(name, text)| (name.into(), text.into())).collect();
        let uses: BTreeMap<&String, Vec<String>> =
            files.iter().map(|(name, text)| (name, uses(name, text))).collect();
        let tests = files.keys().filter(|name| is_test_file(Path::new(name)));
        let tests = tests.map(|name| (name.clone(), reached(name, &uses))).collect();
        Folder { files, tests }
    }

    /// The files of rules, without the files of tests: path and text.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_rules = |name: &String| !self.tests.contains_key(name) && !is_document(Path::new(name));
        let rules = self.files.iter().filter(move |(name, _)| is_rules(name));
        rules.map(|(name, text)| (&**name, &**text))
    }

    /// The text of a file; none if the folder has no such file.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.files.get(file).map(String::as_str)
    }

    /// The files of tests that a file can affect, the file's own tests first, then those beside it: they are the most likely to
    /// notice a change of it.
    pub fn tests_of(&self, file: &str) -> Vec<&str> {
        let affected = self.tests.iter().filter(|(_, uses)| uses.contains(file));
        let mut tests: Vec<&str> = affected.map(|(name, _)| &**name).collect();
        let own = file.strip_suffix(".nlog").map(|stem| format!("{stem}.test.nlog"));
        let beside = Path::new(file).parent();
        tests.sort_by_key(|name| (own.as_deref() != Some(*name), Path::new(name).parent() != beside));
        tests
    }

    /// The files of tests.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.keys().map(String::as_str)
    }

    /// A file of tests and the files that it uses: path and text.
    pub fn program_of<'a>(&'a self, test: &'a str) -> Vec<(&'a str, &'a str)> {
        let used = self.tests.get(test).into_iter().flatten().map(String::as_str);
        let names = std::iter::once(test).chain(used.filter(|used| *used != test));
        names.filter_map(|name| Some((name, self.text(name)?))).collect()
    }
}

/// The files that a file imports or whose objects its tests give, by path in the folder.
fn uses(name: &str, text: &str) -> Vec<String> {
    if is_document(Path::new(name)) {
        return Vec::new();
    }
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let root = parse(text).root();
    let uses =
        root.descendants().filter(|node| matches!(node.kind(), SyntaxKind::Import | SyntaxKind::Given));
    uses.filter_map(|node| path_of(&node)).map(|path| joined(folder, &path)).collect()
}

/// The path of an import or of a file of objects, as written.
fn path_of(node: &SyntaxNode) -> Option<String> {
    let is_string = |token: &SyntaxToken| token.kind() == SyntaxKind::String;
    let string = node.children_with_tokens().find_map(|child| child.into_token().filter(is_string))?;
    Some(string.text().trim_matches('"').to_owned())
}

/// A path relative to a folder, without `.` and, where a folder precedes it, `..`.
fn joined(folder: &Path, path: &str) -> String {
    let mut parts: Vec<&str> = folder.iter().filter_map(|part| part.to_str()).collect();
    for part in path.split('/') {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The files that a file uses, directly or not.
fn reached(name: &String, uses: &BTreeMap<&String, Vec<String>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![name];
    while let Some(name) = next.pop() {
        for used in uses.get(name).into_iter().flatten() {
            if found.insert(used.clone()) {
                next.push(used);
            }
        }
    }
    found
}
