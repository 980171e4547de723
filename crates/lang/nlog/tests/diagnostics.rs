//! Golden files: beside each program of `tests/diagnostics`, its diagnostics. A folder there is a program of several
//! files. `UPDATE_EXPECT=1` writes the present diagnostics; review the difference like code.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nlog::diagnostic::{Code, Style, to_json, to_text};
use nlog::{Severity, Sources, compile};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

/// The programs: a name, and the texts by name.
fn programs() -> BTreeMap<String, Vec<(String, String)>> {
    let mut programs = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let mut files: Vec<PathBuf> =
                fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()).collect();
            files.sort();
            programs.insert(name, files.iter().map(|file| text_of(file)).collect());
        } else if path.extension().is_some_and(|extension| extension == "nlog") {
            programs.insert(name, vec![text_of(&path)]);
        }
    }
    programs
}

fn text_of(path: &Path) -> (String, String) {
    (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
}

#[test]
fn what_is_said_is_what_was_reviewed() {
    for (name, texts) in programs() {
        let sources = Sources::from_texts(texts);
        let compilation = compile(&sources);
        let mut said = String::new();
        for diagnostic in &compilation.diagnostics {
            said += &to_text(diagnostic, &sources, Style::Plain);
            said.push('\n');
        }
        expect_test::expect_file![folder().join(format!("{name}.txt"))].assert_eq(&said);
    }
}

/// A folder or file is named after the one code that it shows, at least twice; `ten-mistakes`, `valid-*` and
/// `mixed-*` are the exceptions.
#[test]
fn every_code_is_shown_alone_and_more_than_once() {
    let programs = programs();
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let Some(texts) = programs.get(code.name()) else {
            wrong.push(format!("no program shows {}", code.name()));
            continue;
        };
        let compilation = compile(&Sources::from_texts(texts.clone()));
        let codes: Vec<&str> =
            compilation.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
        if codes.iter().any(|other| *other != code.name()) {
            wrong.push(format!("{} shows {codes:?}", code.name()));
        }
        if codes.len() < 2 {
            wrong.push(format!("{} is shown once", code.name()));
        }
        if compilation.program.is_none() != (code.severity() == Severity::Error) {
            wrong.push(format!("{}: is there a program?", code.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mistake_comes_with_a_remedy() {
    for (name, texts) in programs() {
        for diagnostic in compile(&Sources::from_texts(texts)).diagnostics {
            assert!(!diagnostic.help.is_empty(), "{name}: {diagnostic}");
            let place = (diagnostic.line, diagnostic.column);
            assert!(place <= (diagnostic.end_line, diagnostic.end_column), "{name}: {diagnostic}");
        }
    }
}

/// A file with ten different mistakes yields ten diagnostics, none a consequence of another.
#[test]
fn ten_mistakes_are_ten_diagnostics() {
    let texts = programs().remove("ten-mistakes").unwrap();
    let compilation = compile(&Sources::from_texts(texts));
    let mut codes: Vec<&str> =
        compilation.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), 10, "{codes:?}");
}

#[test]
fn valid_programs_pass_in_silence() {
    for (name, texts) in programs() {
        if name.starts_with("valid") {
            let compilation = compile(&Sources::from_texts(texts));
            assert!(compilation.program.is_some(), "{name}");
            assert!(compilation.diagnostics.is_empty(), "{name}: {:?}", compilation.diagnostics);
        }
    }
}

#[test]
fn json_has_the_members_of_the_contract_in_their_order() {
    let sources = Sources::from_texts([("é.nlog", "input table a(x: int);\noutput table \"é\"\n")]);
    let lines: Vec<String> = compile(&sources).diagnostics.iter().map(to_json).collect();
    assert_eq!(
        lines,
        [
            r#"{"severity":"warning","code":"unused-table","message":"no rule reads the input table `a`","file":"é.nlog","line":1,"column":13,"end_line":1,"end_column":14,"help":"remove it, or use it in a rule"}"#,
            r#"{"severity":"error","code":"syntax","message":"expected the table's name, found `\"é\"`","file":"é.nlog","line":2,"column":14,"end_line":2,"end_column":17,"help":"for example: input table log_port(lport: string, ldp: string) key(lport);"}"#,
        ]
    );
}
