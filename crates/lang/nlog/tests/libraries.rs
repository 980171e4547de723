//! Folders of files in memory, which paths and imports name beside those on the disk.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nlog::diagnostic::{Style, to_text};
use nlog::source::Library;
use nlog::{Compilation, LoadError, Sources, Workspace, compile};

const TABLES: &str = "## Read by main alone.\ninput table a(x: int);\ntable idle(x: int);\n";
const MAIN: &str = "import \"../lib/tables.nlog\";\noutput table out(x: int);\nout(x) :- a(x);\n";

/// Two files, and one of tests, which no program has.
fn library() -> [Library; 1] {
    let test = "import \"main.nlog\"; syntax error";
    [Library::new(
        "std",
        [("lib/tables.nlog", TABLES), ("main/main.nlog", MAIN), ("main/main.test.nlog", test)],
    )]
}

/// A package beside the library, as the path of its folder.
fn package(root: &Path, text: &str) -> PathBuf {
    let folder = root.join("package");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("own.nlog"), text).unwrap();
    folder
}

fn load<P: AsRef<Path>>(paths: &[P]) -> Sources {
    Sources::load_with(paths, &library()).unwrap()
}

fn names(sources: &Sources) -> BTreeSet<&str> {
    sources.files().iter().map(|file| &*file.name).collect()
}

fn told(compilation: &Compilation) -> Vec<String> {
    compilation.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn a_program_is_a_library_and_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = package(root.path(), "out(x + 1) :- a(x);");
    let sources = load(&[Path::new("std/"), &folder]);
    let compilation = compile(&sources);
    assert_eq!(told(&compilation), Vec::<String>::new());
    let program = compilation.program.unwrap();
    let files: BTreeSet<&str> = program.rules.iter().map(|rule| &*rule.place.file).collect();
    assert_eq!(files, [folder.join("own.nlog").to_str().unwrap(), "std/main/main.nlog"].into());
    // In the other order, the result is the same but for the order of the files.
    assert_eq!(names(&load(&[&folder, Path::new("std")])), names(&sources));
}

#[test]
fn an_import_of_a_library_takes_what_it_needs() {
    let root = tempfile::tempdir().unwrap();
    let text = "import \"std/lib/tables.nlog\";\noutput table own(x: int);\nown(x) :- a(x);\n";
    let folder = package(root.path(), text);
    let sources = load(&[&folder]);
    assert_eq!(names(&sources), [folder.join("own.nlog").to_str().unwrap(), "std/lib/tables.nlog"].into());
    // `idle` is unused in this program, which is no fault of the package.
    let compilation = compile(&sources);
    assert_eq!(told(&compilation), Vec::<String>::new());
    assert!(compilation.program.is_some());
    assert_eq!(names(&load(&["std/lib"])), ["std/lib/tables.nlog"].into());
    assert_eq!(names(&load(&["std/main/main.nlog"])), ["std/lib/tables.nlog", "std/main/main.nlog"].into());
}

#[test]
fn what_a_library_lacks_is_told() {
    let error = Sources::load_with(&["std/none"], &library()).unwrap_err();
    assert!(matches!(error, LoadError::NotInLibrary { .. }));
    assert_eq!(error.to_string(), "std has no file or folder std/none; write ./std/none for one on the disk");

    let root = tempfile::tempdir().unwrap();
    let folder = package(root.path(), "import \"std/none.nlog\";\n");
    let sources = load(&[&folder]);
    let found = compile(&sources).diagnostics;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code.name(), "missing-import");
    assert_eq!(found[0].help, "this path names a file of std; ./std/none.nlog is one beside this file");
    // Without the library, the same path is that of a file.
    let found = compile(&Sources::load(&[&folder]).unwrap()).diagnostics;
    assert_eq!(found[0].help, "an import path is relative to the importing file");
}

#[test]
fn a_folder_of_the_same_name_is_another() {
    let root = tempfile::tempdir().unwrap();
    let folder = package(root.path(), "import \"./std/own.nlog\";\nimport \"std/lib/tables.nlog\";\n");
    fs::create_dir(folder.join("std")).unwrap();
    fs::write(folder.join("std/own.nlog"), "output table own(x: int);\nown(x) :- a(x);\n").unwrap();
    let sources = load(&[folder.join("own.nlog")]);
    let own = [folder.join("own.nlog"), folder.join("std/own.nlog")];
    let own = own.iter().map(|path| path.to_str().unwrap());
    assert_eq!(names(&sources), own.chain(["std/lib/tables.nlog"]).collect());
    assert_eq!(told(&compile(&sources)), Vec::<String>::new());
}

/// The library cannot be mended, so the fault is the package's, whatever the names of the files.
#[test]
fn a_name_that_the_library_has_is_reported_in_the_package() {
    let root = tempfile::tempdir().unwrap();
    let folder = package(root.path(), "input table a(x: int);\n");
    assert!(folder.to_str().unwrap() < "std", "a name that sorts before that of the library");
    let sources = load(&[Path::new("std"), &folder]);
    let found = compile(&sources).diagnostics;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(*found[0].file, *folder.join("own.nlog").to_str().unwrap());
    assert_eq!(found[0].message, "table `a` is already declared at std/lib/tables.nlog:2:13");
    assert!(to_text(&found[0], &sources, Style::Plain).contains("::: std/lib/tables.nlog:2:13"));
}

#[test]
fn a_workspace_reads_the_disk_again_and_keeps_the_library() {
    let root = tempfile::tempdir().unwrap();
    let folder = package(root.path(), "out(x + 1) :- a(x);");
    let mut workspace = Workspace::open_with(&[Path::new("std"), &folder], &library()).unwrap();
    assert_eq!(workspace.compilation().program.as_ref().unwrap().rules.len(), 2);
    assert!(!workspace.reload().unwrap(), "nothing changed");
    package(root.path(), "out(x + 1) :- a(x);\nout(x + 2) :- a(x);");
    assert!(workspace.reload().unwrap());
    assert_eq!(workspace.compilation().program.as_ref().unwrap().rules.len(), 3);
    assert_eq!(workspace.reused_rules(), 2);
    assert!(!workspace.set_text("std/main/main.nlog", "").unwrap(), "it cannot be edited");
}

#[test]
fn other_texts_of_a_program_import_from_its_libraries() {
    let root = tempfile::tempdir().unwrap();
    let text = "import \"std/lib/tables.nlog\";\noutput table own(x: int);\nown(x) :- a(x);\n";
    let sources = load(&[package(root.path(), text)]);
    let texts =
        sources.files().iter().map(|file| (file.name.to_string(), file.text.replace("own(x)", "own(1)")));
    let compilation = compile(&sources.with_texts(texts.collect::<Vec<_>>()));
    let found: Vec<&str> = compilation.diagnostics.iter().map(|found| found.code.name()).collect();
    assert_eq!(found, ["unused-variable"]);
}
