//! Diagnostics for scripts.

use serde::Serialize;

use super::Diagnostic;

/// The members of a line, in their order.
#[derive(Serialize)]
struct Members<'a> {
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    help: &'a str,
}

/// The diagnostic as a line of `weft check --json`, without the line break.
pub fn to_json(diagnostic: &Diagnostic) -> String {
    let members = Members {
        severity: diagnostic.severity.name(),
        code: diagnostic.code.name(),
        message: &diagnostic.message,
        file: &diagnostic.file,
        line: diagnostic.line,
        column: diagnostic.column,
        end_line: diagnostic.end_line,
        end_column: diagnostic.end_column,
        help: &diagnostic.help,
    };
    // Text and numbers always have a JSON form.
    serde_json::to_string(&members).unwrap_or_default()
}
