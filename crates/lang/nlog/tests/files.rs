//! Files, folders, imports, and bytes that are not text.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use nlog::diagnostic::{Style, to_text};
use nlog::{LoadError, Sources, compile};

fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn codes(sources: &Sources) -> Vec<String> {
    compile(sources)
        .diagnostics
        .iter()
        .map(|d| format!("{}:{}:{} {}", d.file, d.line, d.column, d.code.name()))
        .collect()
}

#[test]
fn a_folder_is_a_program_of_all_its_files() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "b.nlog", "out(x) :- a(x);");
    write(root.path(), "deep/er/a.nlog", "input table a(x: int);");
    write(root.path(), "deep/c.nlog", "import \"../b.nlog\"; output table out(x: int);");
    write(root.path(), "notes.txt", "no rules");
    write(root.path(), ".hidden.nlog", "no rules");
    let sources = Sources::load(&[root.path()]).unwrap();
    let program = compile(&sources).program.unwrap();
    assert_eq!((program.rules.len(), program.schema.len()), (1, 2));
    let names: Vec<_> = sources
        .files()
        .iter()
        .map(|file| Path::new(&*file.name).strip_prefix(root.path()).unwrap())
        .collect();
    assert_eq!(names, ["b.nlog", "deep/c.nlog", "deep/er/a.nlog"].map(Path::new));
}

#[test]
fn imports_are_read_once_by_whatever_name() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "main.nlog",
        "import \"lib/x.nlog\"; import \"./lib/../lib/x.nlog\"; import \"lib/y.nlog\";",
    );
    write(root.path(), "lib/x.nlog", "import \"../common.nlog\"; out(x) :- a(x);");
    write(root.path(), "lib/y.nlog", "import \"../common.nlog\";");
    write(root.path(), "common.nlog", "input table a(x: int); output table out(x: int);");
    std::os::unix::fs::symlink(root.path().join("main.nlog"), root.path().join("same.nlog")).unwrap();
    let main = root.path().join("main.nlog");
    let sources = Sources::load(&[main, root.path().join("same.nlog")]).unwrap();
    assert_eq!(sources.files().len(), 4);
    assert_eq!(codes(&sources), Vec::<String>::new());
    assert!(sources.files()[3].name.ends_with("/common.nlog"), "{}", sources.files()[3].name);
    assert!(!sources.files()[3].name.contains(".."));
}

#[test]
fn what_cannot_be_read_is_no_diagnostic() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing.nlog");
    assert!(
        matches!(Sources::load(std::slice::from_ref(&missing)), Err(LoadError::Io { path, .. }) if path == missing)
    );
    assert!(matches!(Sources::load(&[root.path()]), Err(LoadError::Empty { .. })));
    write(root.path(), "main.nlog", "\nimport \"loop.nlog\";");
    std::os::unix::fs::symlink("loop.nlog", root.path().join("loop.nlog")).unwrap();
    let error = Sources::load(&[root.path().join("main.nlog")]).unwrap_err();
    assert!(
        matches!(&error, LoadError::Import { place, .. } if (place.line, place.column) == (2, 8)),
        "{error}"
    );
}

#[test]
fn an_import_of_nothing_has_its_place() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "main.nlog", "\n  import \"gone.nlog\";");
    let sources = Sources::load(&[root.path().join("main.nlog")]).unwrap();
    let name = root.path().join("main.nlog").display().to_string();
    assert_eq!(codes(&sources), [format!("{name}:2:10 missing-import")]);
}

#[test]
fn an_import_that_can_be_no_file_is_a_mistake_of_the_program() {
    let root = tempfile::tempdir().unwrap();
    let long = "x".repeat(5000);
    for path in ["", ".", "b.nlog/c.nlog", "nul\\u{0}.nlog", long.as_str()] {
        write(root.path(), "a.nlog", format!("import \"{path}\";\n"));
        write(root.path(), "b.nlog", "");
        let sources = Sources::load(&[root.path()]).unwrap();
        let name = root.path().join("a.nlog").display().to_string();
        assert_eq!(codes(&sources), [format!("{name}:1:8 missing-import")], "{path:?}");
    }
}

#[test]
fn a_file_that_is_no_text_says_where() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "a.nlog",
        b"input table a(x: int);\n# \xc3\xa9 \xff \xfe\noutput table bad\xff(x: int);\nout(",
    );
    write(root.path(), "b.nlog", "output table out(x: int); out(x) :- a(x), b(x);");
    let sources = Sources::load(&[root.path().join("a.nlog"), root.path().join("b.nlog")]).unwrap();
    let a = root.path().join("a.nlog").display().to_string();
    let b = root.path().join("b.nlog").display().to_string();
    assert_eq!(codes(&sources), [format!("{a}:2:5 syntax"), format!("{b}:1:43 unknown-table")]);
}

#[test]
fn text_in_another_encoding_is_named() {
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "marked.nlog", utf16("\u{feff}input table a(x: int);"));
    write(root.path(), "plain.nlog", utf16("input table a(x: int);"));
    for name in ["marked.nlog", "plain.nlog"] {
        let sources = Sources::load(&[root.path().join(name)]).unwrap();
        let mistakes = compile(&sources).diagnostics;
        assert_eq!(mistakes.len(), 1);
        let message = "the file is encoded in UTF-16 (little-endian), not in UTF-8";
        assert_eq!((mistakes[0].message.as_str(), mistakes[0].line, mistakes[0].column), (message, 1, 1));
    }
}

#[test]
fn a_program_consists_of_regular_files() {
    let root = tempfile::tempdir().unwrap();
    let pipe = root.path().join("pipe.nlog");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opening the pipe would wait for its writer.
    for import in ["pipe.nlog", "/dev/zero"] {
        write(root.path(), "main.nlog", format!("\nimport {import:?};"));
        let error = Sources::load(&[root.path().join("main.nlog")]).unwrap_err();
        assert!(matches!(&error, LoadError::Import { place, .. } if (place.line, place.column) == (2, 8)));
        assert!(error.to_string().ends_with("a program consists of regular files"), "{error}");
    }
    let error = Sources::load(&[root.path()]).unwrap_err();
    assert!(matches!(&error, LoadError::Io { path, .. } if *path == pipe), "{error}");
}

#[test]
fn a_file_without_end_is_refused() {
    let sources = Sources::load(&["/dev/zero"]).unwrap();
    let mistakes = compile(&sources).diagnostics;
    assert_eq!(mistakes.len(), 1);
    assert_eq!(mistakes[0].to_string(), "/dev/zero:1:1: error[syntax]: the file is larger than 64 MiB");
}

#[test]
fn line_ends_and_marks_of_other_systems_do_not_count() {
    let text =
        "\u{feff}input table a(x: int);\r\noutput table out(x: int);\r\nout(x) :- a(x), b(\"é\", x);\r\n";
    let sources = Sources::from_texts([("a", text)]);
    assert_eq!(codes(&sources), ["a:3:17 unknown-table"]);
    let shown = to_text(&compile(&sources).diagnostics[0], &sources, Style::Plain);
    assert!(!shown.contains(['\r', '\u{feff}']) && shown.contains("b(\"é\", x);\n"), "{shown}");
    let bad = Sources::from_texts([("a", "\u{feff}é")]);
    assert_eq!(codes(&bad), ["a:1:1 syntax"]);
}

#[test]
fn documentation_belongs_to_the_declaration_that_follows() {
    let text = "## One.\n##\n##   Two.\r\n# not this\ntable a(x: int); ## Three.\ntable b(x: int);\n### no\ntable c(x: int);";
    let text = format!("{text} output table o(x: int); o(x) :- a(x), b(x), c(x);");
    let program = compile(&Sources::from_texts([("a", text)])).program.unwrap();
    let docs: Vec<&str> = program.schema.iter().map(|(_, table)| table.doc.as_str()).collect();
    assert_eq!(docs, ["One.\n\n  Two.", "Three.", "", ""]);
}

/// The rules of the controller and the examples have no errors, and no warnings except those that they allow.
#[test]
fn our_own_rules_have_no_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut programs = vec![root.join("rules")];
    let examples = fs::read_dir(root.join("examples")).unwrap().map(|entry| entry.unwrap().path());
    programs.extend(examples.filter(|path| path.extension().is_some_and(|extension| extension == "nlog")));
    assert!(programs.len() > 1);
    for program in programs {
        let found = compile(&Sources::load(&[&program]).unwrap()).diagnostics;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn files_of_objects_are_read_beside_the_test_that_gives_them() {
    let root = tempfile::tempdir().unwrap();
    let test = |given: &str| {
        format!("import \"../s.nlog\"; test \"t\" {{ given objects \"{given}\"; expect no s(..); }}")
    };
    write(root.path(), "s.nlog", "object s { x: int = 1; } output table t(id: string); t(id) :- s(id, _);");
    write(root.path(), "in/a.test.nlog", test("../net.yaml"));
    write(root.path(), "net.yaml", "kind: s");
    write(root.path(), "folder.yaml/x", "");
    write(root.path(), "latin.yaml", b"kind: \xff");
    let path = root.path().join("in/a.test.nlog");
    let sources = Sources::load(std::slice::from_ref(&path)).unwrap();
    let program = compile(&sources).program.unwrap();
    let nlog::program::TestStepKind::Objects(file) = &program.tests[0].steps[0].kind else {
        panic!("{program:?}")
    };
    assert_eq!(*file.text, *"kind: s");
    assert_eq!(Path::new(&*file.name), root.path().join("net.yaml"));
    assert_eq!(sources.objects_files().collect::<Vec<_>>(), [root.path().join("net.yaml")]);

    for (given, why) in [
        ("net.yaml", "does not exist"),
        ("../folder.yaml", "does not exist"),
        ("../s.nlog", "is neither YAML nor JSON, by its name"),
        ("", "is neither YAML nor JSON, by its name"),
        ("../latin.yaml", "cannot be read: the file is not valid UTF-8: unexpected byte 0xff"),
    ] {
        write(root.path(), "in/a.test.nlog", test(given));
        let sources = Sources::load(std::slice::from_ref(&path)).unwrap();
        let mistakes = compile(&sources).diagnostics;
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert_eq!(mistakes[0].message, format!("the file of objects {given:?} {why}"));
        assert_eq!((mistakes[0].code.name(), mistakes[0].line, mistakes[0].column), ("objects-file", 1, 46));
    }
}
