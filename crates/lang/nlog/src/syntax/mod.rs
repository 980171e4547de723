//! Source text to syntax: a lossless tree for tools that keep layout, and plain structures for the checker.
//!
//! In reading order: [`kind`] (the tokens and nodes), `lexer`, `parser` (text to [`Parse`]), [`tree`] (the tree's
//! types), [`ast`] (what the checker reads), `lower` (tree to [`ast`]).

pub mod ast;
pub mod kind;
mod lexer;
mod lower;
mod parser;
pub mod tree;

pub use kind::SyntaxKind;
pub(crate) use lower::is_mask;
pub use lower::lower;
pub use parser::{MAX_NESTING, Parse, SyntaxError, parse};
pub use tree::{NlogLanguage, SyntaxNode, SyntaxToken};
