//! The formatter: the canonical layout of a program.
//!
//! [`format`] parses a text and prints its tree: the formatter chooses line breaks and spaces and keeps tokens and
//! comments. The result has the same meaning, and formatting it again changes nothing.
//!
//! ```
//! let text = "out(x):-a( x,y ) , # why\n  b(y)\n;";
//! let laid_out = nlog::format(text).unwrap();
//! assert_eq!(laid_out, "out(x) :-\n    a(x, y), # why\n    b(y);\n");
//! ```
//!
//! # The layout
//! - Lines have at most 120 columns where possible, and are indented by four spaces per level.
//! - A rule with one item in its body is on one line if it fits. Otherwise `:-` ends the head's line, and each item
//!   has a separate line. A head that does not fit continues with an indent of eight columns.
//! - Lists of arguments are filled: an argument that does not fit begins a line. Lists of columns, fields, members
//!   and actions that do not fit, or hold a comment, have a line for each element, with a comma after the last.
//! - A chain of operators that does not fit has a line for each operand, the operator at its start.
//! - Up to one blank line is kept between declarations, items of a body, and steps and rows of tests; none after
//!   `##`.
//! - A comment stays at the end of its line, or on a line of its own. It moves only past a `,`, `;`, `:-` or `{` that
//!   follows it, and before an operator that precedes it.
//!
//! In reading order: `format/token.rs` (tokens and comments, and the width of any range of them), `format/printer.rs`
//! (writes tokens and comments to lines), `format/declaration.rs`, `format/expression.rs` (where lines break).

mod declaration;
mod expression;
mod printer;
mod token;

use crate::syntax::{SyntaxError, parse};
use printer::Printer;
use token::Tokens;

/// The maximum length of lines, in Unicode scalar values.
pub const WIDTH: usize = 120;

/// Formats a text, in time proportional to its length. The text must be shorter than 4 GiB.
///
/// # Errors
/// The syntax errors, in the order of the text.
pub fn format(text: &str) -> Result<String, Vec<SyntaxError>> {
    let parsed = parse(text);
    if !parsed.errors.is_empty() {
        return Err(parsed.errors);
    }
    let root = parsed.root();
    let tokens = Tokens::new(text, &root);
    let mut printer = Printer::new(&tokens, text.len());
    printer.file(&root);
    Ok(printer.finish())
}
