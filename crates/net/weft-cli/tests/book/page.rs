//! Reads the blocks of a Markdown page.

use std::path::{Path, PathBuf};

/// A page of the book.
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) name: String,
    /// Its path on the machine.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// A fenced block, or something that looks like code and is not fenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fenced {
    /// The line of the opening fence, from 1.
    pub(crate) line: usize,
    /// The text after the opening fence.
    pub(crate) info: String,
    /// The lines between the fences.
    pub(crate) lines: Vec<String>,
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(root: &Path, path: &Path) -> Page {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        Page { name, path: path.to_owned(), text: std::fs::read_to_string(path).unwrap() }
    }

    /// Whether a block runs commands on Open vSwitch.
    pub(crate) fn needs_ovs(&self) -> bool {
        let blocks = self.blocks().unwrap_or_default();
        blocks.iter().any(|block| block.info.split_whitespace().any(|word| word == "ovs"))
    }

    /// The blocks in order. Unfenced text that a reader would take for code is an error with its line.
    pub(crate) fn blocks(&self) -> Result<Vec<Fenced>, (usize, &'static str)> {
        let mut blocks: Vec<Fenced> = Vec::new();
        let mut open: Option<Fenced> = None;
        let mut blank = true;
        for (line, text) in (1..).zip(self.text.lines()) {
            if let Some(block) = &mut open {
                if text == "```" {
                    blocks.extend(open.take());
                } else {
                    block.lines.push(text.to_owned());
                }
            } else if let Some(info) = text.strip_prefix("```") {
                open = Some(Fenced { line, info: info.trim().to_owned(), lines: Vec::new() });
            } else if text.trim_start().starts_with("```") || text.starts_with("~~~") {
                return Err((
                    line,
                    "fences stand at the start of their line, and are of three grave accents",
                ));
            } else if blank && text.starts_with("    ") {
                return Err((line, "an indented block: fence it, so that it is proved"));
            }
            blank = text.is_empty();
        }
        match open {
            Some(block) => Err((block.line, "the block has no end")),
            None => Ok(blocks),
        }
    }
}

#[test]
fn blocks_are_found_with_their_lines() {
    let page = |text: &str| Page { name: String::new(), path: PathBuf::new(), text: text.to_owned() };
    let found = page("a\n```nlog file=a.nlog\nb\n\n    c\n```\n\n- d\n").blocks().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].line, found[0].info.as_str()), (2, "nlog file=a.nlog"));
    assert_eq!(found[0].lines, ["b", "", "    c"]);
    assert_eq!(page("a\n\n    b\n").blocks().unwrap_err().0, 3);
    assert_eq!(page("a\n```\nb\n").blocks().unwrap_err().0, 2);
    assert_eq!(page("- a\n  ```\n").blocks().unwrap_err().0, 2);
}
