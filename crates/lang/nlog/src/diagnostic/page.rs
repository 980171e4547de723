//! The pages of `docs/errors`, one for each code, as part of the program.

use include_dir::{Dir, include_dir};

use super::Code;

static PAGES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../docs/errors");

/// The page of a code, in Markdown: its meaning, a small program that shows it, the reason for the diagnostic, and
/// the corrected program. Every code has a page.
pub fn page(code: Code) -> Option<&'static str> {
    PAGES.get_file(format!("{}.md", code.name()))?.contents_utf8()
}
