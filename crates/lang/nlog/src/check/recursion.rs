//! Recursion: tables that depend on themselves, files that import themselves.

use std::collections::BTreeMap;

use nlog_data::Role;

use super::cycles::{Tangle, tangles};
use super::declarations::{Declarations, quoted};
use crate::diagnostic::{Code, Report, Reports};
use crate::source::Sources;
use crate::syntax::ast::Span;

/// A dependency: a rule for one table, or the hook of an input table, reads another table, at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dependency {
    pub(super) head: usize,
    pub(super) reads: usize,
    /// The atom, or the hook's source.
    pub(super) atom: Span,
}

/// Reports every cycle of tables. `dependencies` are in order of files and places.
pub(super) fn recursion(
    declarations: &Declarations<'_>,
    dependencies: &[Dependency],
    sources: &Sources,
    reports: &mut Reports,
) {
    let mut places: BTreeMap<(usize, usize), Span> = BTreeMap::new();
    for dependency in dependencies {
        places.entry((dependency.head, dependency.reads)).or_insert(dependency.atom);
    }
    let mut edges = vec![Vec::new(); declarations.tables.len()];
    for &(head, reads) in places.keys() {
        edges[head].push(reads);
    }
    for Tangle { cycle, others } in tangles(&edges) {
        let name = |table: usize| declarations.tables[table].name.name.as_str();
        let steps: Vec<(usize, usize, Span)> = cycle
            .iter()
            .zip(cycle.iter().cycle().skip(1))
            .filter_map(|(&head, &reads)| Some((head, reads, *places.get(&(head, reads))?)))
            .collect();
        let Some(&(_, _, first)) = steps.first() else { continue };
        // No rule fills an input table.
        let is_hook = |head: usize| declarations.tables[head].role == Role::Input;
        let told: Vec<String> = steps
            .iter()
            .map(|&(head, reads, atom)| {
                let reader = if is_hook(head) { "hook" } else { "rule" };
                let place = sources.place(atom);
                format!("the {reader} for `{}` at {place} reads `{}`", name(head), name(reads))
            })
            .collect();
        let subject = match cycle.as_slice() {
            [one] => format!("table `{}` depends on itself", name(*one)),
            several => {
                let tables: Vec<&str> =
                    several.iter().chain(&several[..1]).map(|&table| name(table)).collect();
                format!("tables depend on themselves: {}", tables.join(" → "))
            }
        };
        let mut message = format!("{subject}; {}", told.join(", "));
        if !others.is_empty() {
            message += &format!("; {} too", quoted(others.iter().map(|&table| name(table))));
        }
        let help = if steps.iter().any(|&(head, ..)| is_hook(head)) {
            "what a hook reads must not depend on what it fills, since this might never end: remove one of \
            these atoms, or let the hook read another table"
        } else {
            "nlog has no recursion: remove one of these atoms, or compute the table outside the \
            program and feed it back through an input table"
        };
        let mut report = Report::new(Code::Recursion, first, message, help);
        for &(head, reads, atom) in &steps[1..] {
            report = report.label(atom, format!("`{}` reads `{}`", name(head), name(reads)));
        }
        reports.push(report);
    }
}

/// Reports every circle of files.
pub(super) fn imports(sources: &Sources, order: &[usize], reports: &mut Reports) {
    // In name order, so that the result does not depend on the order of files.
    let mut rank = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &file)| rank[file] = at);
    let mut edges = vec![Vec::new(); order.len()];
    let mut places: BTreeMap<(usize, usize), Span> = BTreeMap::new();
    for (from, file) in sources.files().iter().enumerate() {
        for (import, to) in file.ast.imports.iter().zip(sources.imports(from)) {
            let Some(to) = to else { continue };
            let edge = (rank[from], rank[*to as usize]);
            places.entry(edge).or_insert(import.span);
        }
    }
    for &(from, to) in places.keys() {
        edges[from].push(to);
    }
    for Tangle { cycle, .. } in tangles(&edges) {
        let name = |at: usize| &*sources.files()[order[at]].name;
        let files: Vec<&str> = cycle.iter().chain(&cycle[..1]).map(|&at| name(at)).collect();
        let steps = cycle.iter().zip(cycle.iter().cycle().skip(1));
        let spans: Vec<Span> = steps.filter_map(|(&from, &to)| places.get(&(from, to)).copied()).collect();
        let Some(&first) = spans.first() else { continue };
        let message = match cycle.as_slice() {
            [_] => "the file imports itself".to_owned(),
            _ => format!("files import each other: {}", files.join(" → ")),
        };
        let help =
            "remove one of these imports; move what both files need into a third file that both import";
        let mut report = Report::new(Code::ImportCycle, first, message, help);
        for &span in &spans[1..] {
            report = report.label(span, "imported here");
        }
        reports.push(report);
    }
}
