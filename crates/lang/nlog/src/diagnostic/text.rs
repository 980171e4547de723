//! Diagnostics for people: the message, and the lines concerned with marks below.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::{Diagnostic, Severity};
use crate::source::Sources;
use crate::syntax::ast::Span;

/// Whether to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With the escape sequences of terminals.
    Colour,
}

/// A window longer than this is shown in parts.
const WINDOW_BYTES: usize = 4096;

/// The diagnostic with its source lines; ends with a line break.
pub fn to_text(diagnostic: &Diagnostic, sources: &Sources, style: Style) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&*diagnostic.message).id(diagnostic.code.name());
    let mut group = Group::with_title(title);
    for window in windows(diagnostic, sources) {
        let file = sources.file(window.file);
        if window.lines.len() > WINDOW_BYTES {
            // The line is too long to show; its place must suffice.
            let (line, column) = file.position(window.marks[0].0.start);
            let origin = Origin::path(&*file.name).line(line as usize).char_column(column as usize);
            group = group.element(origin);
            continue;
        }
        let (line, _) = file.position(window.lines.start as u32);
        let text = &file.text[window.lines.clone()];
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let skipped = window.lines.len() - text.len();
        let annotations = window.marks.iter().map(|(span, label, kind)| -> Annotation<'_> {
            let place = |at: u32| (at as usize).saturating_sub(window.lines.start + skipped).min(text.len());
            kind.span(place(span.start)..place(span.end)).label(*label)
        });
        let snippet =
            Snippet::source(text).path(&*file.name).line_start(line as usize).annotations(annotations);
        group = group.element(snippet);
    }
    if !diagnostic.help.is_empty() {
        group = group.element(Level::HELP.message(&*diagnostic.help));
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colour => Renderer::styled(),
    };
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// Lines of one file with the marks in them.
struct Window<'a> {
    file: u32,
    lines: Range<usize>,
    marks: Vec<(Span, Option<&'a str>, AnnotationKind)>,
}

/// The lines of the mistake and of its labels. Lines close to each other share a window; the mistake's
/// window comes first.
fn windows<'a>(diagnostic: &'a Diagnostic, sources: &Sources) -> Vec<Window<'a>> {
    let primary = (diagnostic.span, None, AnnotationKind::Primary);
    let labels = diagnostic.labels.iter();
    let context = labels.map(|label| (label.span, Some(label.message.as_str()), AnnotationKind::Context));
    let mut windows: Vec<Window<'a>> = Vec::new();
    for mark in std::iter::once(primary).chain(context) {
        let span = mark.0;
        let lines = sources.file(span.file).lines_around(span);
        let near = windows.iter_mut().find(|window| {
            let start = window.lines.start.min(lines.start);
            let end = window.lines.end.max(lines.end);
            window.file == span.file && end - start <= WINDOW_BYTES
        });
        match near {
            Some(window) => {
                window.lines = window.lines.start.min(lines.start)..window.lines.end.max(lines.end);
                window.marks.push(mark);
            }
            None => windows.push(Window { file: span.file, lines, marks: vec![mark] }),
        }
    }
    windows
}
