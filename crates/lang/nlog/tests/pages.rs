//! The pages about codes: each exists, and its programs show what it describes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use nlog::diagnostic::{Code, page};
use nlog::{Compilation, Severity, Sources, compile};

/// A block of nlog in a page: the name of its file, and its text.
struct Block {
    file: String,
    text: String,
}

/// The blocks that begin with ```` ```nlog ````, which a file's name may follow.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```nlog") else { continue };
        let file = match info.trim() {
            "" => "program.nlog",
            name => name,
        };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block { file: file.to_owned(), text: text.join("\n") + "\n" });
    }
    blocks
}

fn compiled(block: &Block) -> Compilation {
    compile(&Sources::from_texts([(block.file.as_str(), block.text.as_str())]))
}

fn said(compilation: &Compilation) -> Vec<String> {
    compilation.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn every_code_has_a_page_that_shows_it_and_how_to_mend_it() {
    let mut wrong = Vec::new();
    for &code in Code::ALL {
        let name = code.name();
        let Some(page) = page(code) else {
            wrong.push(format!("{name} has no page"));
            continue;
        };
        if page.lines().next() != Some(&format!("# {name}")) {
            wrong.push(format!("{name}: its page's title is another"));
        }
        let blocks = blocks(page);
        if blocks.len() < 2 {
            wrong.push(format!("{name}: its page shows no program, or does not mend it"));
            continue;
        }
        let shown = compiled(&blocks[0]);
        let codes: Vec<Code> = shown.diagnostics.iter().map(|found| found.code).collect();
        if codes != [code] {
            wrong.push(format!("{name}: its first program shows {:?}", said(&shown)));
        }
        if shown.program.is_none() != (code.severity() == Severity::Error) {
            wrong.push(format!("{name}: is there a program?"));
        }
        let mended = compiled(blocks.last().unwrap());
        if !mended.diagnostics.is_empty() {
            wrong.push(format!("{name}: mended, its program still shows {:?}", said(&mended)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_page_tells_errors_from_warnings() {
    for &code in Code::ALL {
        let Some(page) = page(code) else { continue };
        let first = page.lines().nth(2).unwrap();
        let word = if code.severity() == Severity::Error { "Error. " } else { "Warning. " };
        assert!(first.starts_with(word), "{}: {first}", code.name());
    }
}

#[test]
fn every_page_is_that_of_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/errors");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let known = name == "README" || Code::ALL.iter().any(|code| code.name() == name);
        assert!(known, "{} is the page of no code", path.display());
    }
}
