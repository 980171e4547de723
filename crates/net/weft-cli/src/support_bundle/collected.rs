//! The parts of a bundle: what there is of each, and the page that says so.

use std::fmt::Write as _;

use nlog_data::quotation::{grouped, shown_lines};

use crate::exit::say;

/// A part of a bundle.
pub(super) struct Part {
    /// Its file.
    pub(super) name: String,
    /// What it is.
    about: &'static str,
    pub(super) finding: Finding,
}

/// What there is of a part.
pub(super) enum Finding {
    /// The contents of its file.
    Here(Vec<u8>),
    /// It is left out on purpose, for this reason.
    LeftOut(String),
    /// It should be here, but the controller has not given it, for this reason.
    Missing(String),
}

impl Finding {
    /// Text that was found, or why it was not.
    pub(super) fn of<T>(found: &Result<T, String>, text: impl FnOnce(&T) -> String) -> Finding {
        match found {
            Ok(found) => Finding::Here(text(found).into_bytes()),
            Err(why) => Finding::Missing(why.clone()),
        }
    }
}

/// The parts so far.
pub(super) struct Collected {
    parts: Vec<Part>,
    /// Whether names and addresses are replaced.
    anonymise: bool,
}

/// How to begin.
const FIRST: &str = "\
Begin with status.json (is each switch connected and synced?) and problems.json. Then replay the snapshot: it has all objects, reports
and rules, so that flows, traces and explanations are computed of it as of the controller itself:

    weft snapshot show snapshot.weft
    weft replay snapshot.weft --host NODE
    weft trace builtin -i snapshot.weft PORT --to PORT
    weft eval builtin -i snapshot.weft --tables problem

The page \"Support bundles\" of the documentation says more.
";

/// What the reader of an anonymised bundle has to know.
const ANONYMISED: &str = "\
Names and addresses are replaced, by the same ones in all files. Texts in which they could not be found for sure are left out. The text of
rules that are not built in is in snapshot.weft as it was written.
";

impl Collected {
    /// Nothing yet.
    pub(super) fn new(anonymise: bool) -> Self {
        Collected { parts: Vec::new(), anonymise }
    }

    /// Adds a part, and says so.
    pub(super) fn add(&mut self, name: impl Into<String>, about: &'static str, finding: Finding) {
        let name = name.into();
        match &finding {
            Finding::Here(bytes) => say(format_args!("{name}: {} bytes", grouped(bytes.len()))),
            Finding::LeftOut(why) => say(format_args!("{name}: left out: {why}")),
            Finding::Missing(why) => say(format_args!("warning: {name} is missing: {why}")),
        }
        self.parts.push(Part { name, about, finding });
    }

    /// The names of the parts that are missing.
    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        let is_missing = |part: &&Part| matches!(part.finding, Finding::Missing(_));
        self.parts.iter().filter(is_missing).map(|part| part.name.as_str())
    }

    /// The files: names and contents.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts.iter().filter_map(|part| match &part.finding {
            Finding::Here(bytes) => Some((part.name.as_str(), bytes.as_slice())),
            _ => None,
        })
    }

    /// What each file is, and what is not there.
    pub(super) fn readme(&self) -> String {
        let mut text =
            format!("A support bundle of Weft, written by weft {}.\n\n", env!("CARGO_PKG_VERSION"));
        if self.anonymise {
            let _ = writeln!(text, "{ANONYMISED}");
        } else {
            text += "It has no keys and no tokens, but the names and addresses of the network.\n\n";
        }
        let _ = writeln!(text, "{FIRST}\nFiles:\n");
        for Part { name, about, finding } in &self.parts {
            let _ = match finding {
                Finding::Here(_) => writeln!(text, "{name}: {about}"),
                Finding::LeftOut(why) => writeln!(text, "{name}: LEFT OUT: {why} ({about})"),
                // The reason may have names in it.
                Finding::Missing(_) if self.anonymise => {
                    writeln!(
                        text,
                        "{name}: MISSING: the command that wrote this bundle has reported why ({about})"
                    )
                }
                Finding::Missing(why) => writeln!(text, "{name}: MISSING: {why} ({about})"),
            };
        }
        shown_lines(&text).into_owned()
    }
}
