//! Diagnostics: mistakes in a program, their places and their remedies.
//!
//! In reading order: [`code`](Code) (the codes), this file (diagnostics and how the checker collects them), `text`
//! and `json` (output formats), `page` (the documentation page of a code).

mod code;
mod json;
mod page;
mod text;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use code::Code;
pub use json::to_json;
pub use page::page;
pub use text::{Style, to_text};

use nlog_data::quotation::grouped;

use crate::limits::{MAX_LABELS, MAX_MESSAGE};
use crate::source::Sources;
use crate::syntax::ast::Span;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The program is rejected.
    Error,
    /// The program is valid, but probably not as intended.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A mistake in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The kind of mistake.
    pub code: Code,
    /// The message, with the names involved.
    pub message: String,
    /// The file as the user named it.
    pub file: Arc<str>,
    /// The line of the first character. Lines and columns count from 1, columns in Unicode scalar values.
    pub line: u32,
    /// The column of the first character.
    pub column: u32,
    /// The line of the last character.
    pub end_line: u32,
    /// The column after the last character; equal to `column` where something is missing.
    pub end_column: u32,
    /// Related places.
    pub labels: Vec<Label>,
    /// The remedy.
    pub help: String,
    /// The place in bytes.
    pub span: Span,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, code, message, file, line, column, .. } = self;
        write!(f, "{file}:{line}:{column}: {}[{}]: {message}", severity.name(), code.name())
    }
}

/// A related place that explains a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The explanation of the place.
    pub message: String,
    /// The place.
    pub span: Span,
}

/// A mistake as the checker reports it.
pub(crate) struct Report {
    code: Code,
    span: Span,
    message: String,
    help: String,
    labels: Vec<Label>,
    /// Whether a comment allows it.
    allowed: bool,
}

impl Report {
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (shortened(message.into()), shortened(help.into()));
        Report { code, span, message, help, labels: Vec::new(), allowed: false }
    }

    pub(crate) fn severity(&self) -> Severity {
        self.code.severity()
    }

    pub(crate) fn label(mut self, span: Span, message: impl Into<String>) -> Self {
        if self.labels.len() < MAX_LABELS {
            self.labels.push(Label { message: shortened(message.into()), span });
        }
        self
    }
}

/// A message as it is, or its beginning if a program makes it too long to be read.
fn shortened(message: String) -> String {
    if message.len() <= MAX_MESSAGE {
        return message;
    }
    let start = &message[..message.floor_char_boundary(MAX_MESSAGE)];
    format!("{start}… ({} bytes)", grouped(message.len()))
}

/// Collects the mistakes of a program.
#[derive(Default)]
pub(crate) struct Reports {
    all: Vec<Report>,
    /// For each unknown name its report.
    unknown: HashMap<(Code, String), usize>,
    /// The number of searches for a similar name.
    suggestions: usize,
}

impl Reports {
    pub(crate) fn push(&mut self, report: Report) {
        self.all.push(report);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether to search for one more suggestion. The search is slow, and after a hundred unknown names the cause is
    /// a different one.
    pub(crate) fn may_suggest(&mut self) -> bool {
        const MOST: usize = 100;
        self.suggestions += 1;
        self.suggestions <= MOST
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.all.iter().any(|report| report.code.severity() == Severity::Error)
    }

    /// Reports an unknown name; later occurrences of the name become labels of the first.
    pub(crate) fn push_unknown(&mut self, name: &str, report: Report) {
        const MOST_LABELS: usize = 5;
        let key = (report.code, name.to_owned());
        if let Some(&first) = self.unknown.get(&key) {
            let labels = &mut self.all[first].labels;
            if labels.len() < MOST_LABELS {
                labels.push(Label { message: "and here".to_owned(), span: report.span });
            }
            return;
        }
        self.unknown.insert(key, self.all.len());
        self.all.push(report);
    }

    /// The places of all warnings with a code, in ascending order.
    pub(crate) fn places(&self, code: Code) -> Vec<(Span, usize)> {
        let reports = self.all.iter().enumerate().filter(|(_, report)| report.code == code);
        let mut places: Vec<(Span, usize)> = reports.map(|(index, report)| (report.span, index)).collect();
        places.sort_unstable();
        places
    }

    /// Suppresses a warning; `index` is from [`Reports::places`].
    pub(crate) fn allow(&mut self, index: usize) {
        self.all[index].allowed = true;
    }

    /// Whether the name is reported as unknown.
    pub(crate) fn is_unknown(&self, code: Code, name: &str) -> bool {
        self.unknown.contains_key(&(code, name.to_owned()))
    }

    /// Returns the diagnostics in order of file, line and column. Warnings of a library's files are left out: who uses a
    /// part of it leaves tables unused, and cannot mend its files.
    pub(crate) fn finish(self, sources: &Sources) -> Vec<Diagnostic> {
        let mut diagnostics: Vec<Diagnostic> = self
            .all
            .into_iter()
            .filter(|report| !report.allowed)
            .filter(|Report { code, span, .. }| {
                code.severity() == Severity::Error || !sources.is_of_library(sources.file(span.file))
            })
            .map(|Report { code, span, message, help, labels, .. }| {
                let file = sources.file(span.file);
                let (line, column) = file.position(span.start);
                let (end_line, end_column) = file.position(span.end);
                let severity = code.severity();
                let file = file.name.clone();
                Diagnostic {
                    severity,
                    code,
                    message,
                    file,
                    line,
                    column,
                    end_line,
                    end_column,
                    labels,
                    help,
                    span,
                }
            })
            .collect();
        diagnostics.sort_by(|a, b| {
            let key =
                |d: &Diagnostic| (d.file.clone(), d.line, d.column, d.end_line, d.end_column, d.code.name());
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        diagnostics
    }
}
