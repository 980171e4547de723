//! Comments that suppress warnings: `# weft: allow(code): reason`.

use std::collections::HashMap;

use super::suggest;
use crate::diagnostic::{Code, Report, Reports, Severity};
use crate::syntax::ast::{self, Span};

/// Suppresses the warnings that the files allow, and reports allowances without effect.
///
/// In a program with errors not all lints have run, so whether an allowance has an effect is unknown.
pub(super) fn apply(files: &[&ast::File], reports: &mut Reports) {
    let complete = !reports.has_errors();
    let mut useless = Vec::new();
    let mut places: HashMap<Code, Vec<(Span, usize)>> = HashMap::new();
    for allowance in files.iter().flat_map(|file| &file.allowances) {
        for name in &allowance.codes {
            let code = Code::ALL.iter().find(|code| code.name() == name.name).copied();
            match code {
                // This allowance would have to allow itself.
                Some(Code::UselessAllow) => {
                    useless.push(not_allowed(name, "is a warning that cannot be allowed"));
                }
                Some(code) if code.severity() == Severity::Error => {
                    useless.push(not_allowed(name, "is an error; only warnings can be allowed"));
                }
                Some(code) => {
                    let places = places.entry(code).or_insert_with(|| reports.places(code));
                    let (first, end) = within(places, allowance.scope);
                    for &(_, index) in &places[first..end] {
                        reports.allow(index);
                    }
                    if first == end && complete {
                        useless.push(allows_nothing(name));
                    }
                }
                None => useless.push(unknown(name)),
            }
        }
    }
    for report in useless {
        reports.push(report);
    }
}

/// The range of the places, which are ascending, that start within the scope.
fn within(places: &[(Span, usize)], scope: Span) -> (usize, usize) {
    let first = places.partition_point(|(span, _)| (span.file, span.start) < (scope.file, scope.start));
    let end = places.partition_point(|(span, _)| (span.file, span.start) < (scope.file, scope.end));
    (first, end.max(first))
}

fn not_allowed(name: &ast::Ident, why: &str) -> Report {
    let message = format!("`{}` {why}", name.name);
    let help = "remove it from the comment, and fix the reported problem";
    Report::new(Code::UselessAllow, name.span, message, help)
}

fn allows_nothing(name: &ast::Ident) -> Report {
    let message = format!("no `{}` warning is reported here", name.name);
    let help = "remove it; a comment directly before a declaration applies to that declaration, a comment \
    at the top of a file followed by an empty line applies to the file";
    Report::new(Code::UselessAllow, name.span, message, help)
}

fn unknown(name: &ast::Ident) -> Report {
    let warnings = Code::ALL.iter().filter(|code| code.severity() == Severity::Warning);
    let names: Vec<&str> = warnings.map(|code| code.name()).filter(|name| *name != "useless-allow").collect();
    let help = match suggest::nearest(&name.name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write # weft: allow(code): reason; the codes are {}", names.join(", ")),
    };
    Report::new(Code::UselessAllow, name.span, format!("`{}` is not a warning code", name.name), help)
}
