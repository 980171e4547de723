//! The pages of `docs/errors`, one for each code, as part of the program.

use include_dir::{Dir, include_dir};

use super::Code;

static PAGES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../docs/errors");

/// The page of a code, in Markdown: what it means, the smallest program that shows it, why it is refused or warned of,
/// and the program mended. Every code has one, which a test makes sure of.
pub fn page(code: Code) -> Option<&'static str> {
    PAGES.get_file(format!("{}.md", code.name()))?.contents_utf8()
}
