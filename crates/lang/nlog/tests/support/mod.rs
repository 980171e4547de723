//! Programs that the tests of syntax and layout share.

#![allow(dead_code)] // No test uses all of it.

use nlog::syntax::{SyntaxKind, parse};

/// Valid programs without the keywords that were added later.
pub(crate) const CLASSIC: [&str; 3] = [
    include_str!("../../../../../examples/figure6.nlog"),
    include_str!("../diagnostics/valid-everything/main.nlog"),
    include_str!("../diagnostics/valid-everything/tables.nlog"),
];

/// Syntactically valid: everything that is not in [`CLASSIC`].
pub(crate) const EVERYTHING_NEW: &str = include_str!("everything.nlog");

/// The significant tokens of a text.
pub(crate) fn tokens(text: &str) -> Vec<(SyntaxKind, String)> {
    all_tokens(text).into_iter().filter(|(kind, _)| !kind.is_trivia()).collect()
}

/// The tokens of a text.
pub(crate) fn all_tokens(text: &str) -> Vec<(SyntaxKind, String)> {
    let tokens = parse(text).root().descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    tokens.map(|token| (token.kind(), token.text().to_owned())).collect()
}
