//! The warnings that comments allow: `# weft: allow(unused-table): filled for the dashboards`.

use crate::syntax::ast::{Allowance, Ident, Span};
use crate::syntax::{SyntaxKind as K, SyntaxNode, SyntaxToken};

/// The allowances of a file. Its position decides the scope:
///
/// - at the top of the file, in comments that a blank line follows: the file;
/// - on separate lines right before a declaration: that declaration;
/// - on the first line of a declaration: that declaration;
/// - on another line within a declaration: that line, or the next one with a token if the comment is alone on its
///   line;
/// - elsewhere: itself, which is nothing.
pub(super) fn allowances(root: &SyntaxNode, file: u32) -> Vec<Allowance> {
    let mut found = comments(root, file);
    if found.is_empty() {
        return Vec::new();
    }
    let text = root.text().to_string();
    let items = root.children().map(|item| significant_range(&item)).collect();
    let mut places = Places { text: &text, items, line: (0, 0) };
    found.reverse();
    found
        .into_iter()
        .map(|comment| {
            let (start, end) = places.scope(&comment);
            Allowance { codes: comment.codes, scope: Span { file, start: start as u32, end: end as u32 } }
        })
        .collect()
}

/// A comment that allows something.
struct Comment {
    codes: Vec<Ident>,
    start: usize,
    end: usize,
    /// The position of the next significant token.
    next: Option<usize>,
    /// Whether there is a blank line before it.
    blank_line: bool,
}

/// The comments of a file, last first, so that each knows what follows it.
fn comments(root: &SyntaxNode, file: u32) -> Vec<Comment> {
    let mut found = Vec::new();
    let (mut next, mut blank_line) = (None, false);
    let mut token = root.last_token();
    while let Some(at) = token {
        let (start, end) = (at.text_range().start().into(), at.text_range().end().into());
        match at.kind() {
            // A comment ends before its line break.
            K::Whitespace => blank_line |= at.text().matches('\n').count() > 1,
            K::Comment => {
                if let Some(codes) = codes(&at, file) {
                    found.push(Comment { codes, start, end, next, blank_line });
                }
            }
            K::DocComment => {}
            _ => (next, blank_line) = (Some(start), false),
        }
        token = at.prev_token();
    }
    found
}

/// The codes that a comment allows; `None` if it is not an allowance. Malformed text counts as an unknown code.
fn codes(comment: &SyntaxToken, file: u32) -> Option<Vec<Ident>> {
    let text = comment.text();
    let after = text.strip_prefix('#')?.trim_start().strip_prefix("weft:")?.trim_start();
    let list = after.strip_prefix("allow")?;
    let base = usize::from(comment.text_range().start());
    let ident = |part: &str| {
        let trimmed = part.trim();
        let start = base + (trimmed.as_ptr() as usize - text.as_ptr() as usize);
        let span = Span { file, start: start as u32, end: (start + trimmed.len()) as u32 };
        Ident { name: trimmed.to_owned(), span }
    };
    let inside = list.trim_start().strip_prefix('(').and_then(|inside| inside.split_once(')'));
    let codes: Vec<Ident> = match inside {
        Some((inside, _)) => inside.split(',').filter(|code| !code.trim().is_empty()).map(ident).collect(),
        None => Vec::new(),
    };
    Some(if codes.is_empty() { vec![ident(after)] } else { codes })
}

/// The range from a declaration's first token that is not a comment to its end.
fn significant_range(item: &SyntaxNode) -> (usize, usize) {
    let mut tokens = item.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    let first = tokens.find(|token| !token.kind().is_trivia());
    let range = item.text_range();
    let start = first.map_or(range.start(), |token| token.text_range().start());
    (start.into(), range.end().into())
}

struct Places<'text> {
    text: &'text str,
    /// The declarations, in order.
    items: Vec<(usize, usize)>,
    /// The result of the last search for the rest of a line within a declaration; many comments may precede it.
    line: (usize, usize),
}

impl Places<'_> {
    /// The scope of an allowance, in bytes.
    fn scope(&mut self, comment: &Comment) -> (usize, usize) {
        let &Comment { start, end, .. } = comment;
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let own_line = self.text[line..start].trim_start_matches('\u{feff}').trim().is_empty();
        if !own_line {
            // Declarations that start on this line; the last one may continue after the comment.
            let first = self.items.partition_point(|&(item_start, _)| item_start < line);
            let after = self.items.partition_point(|&(item_start, _)| item_start < start);
            return if first < after {
                (self.items[first].0, self.items[after - 1].1)
            } else {
                (line, start)
            };
        }
        // The first declaration that ends after the comment.
        let next = self.items.partition_point(|&(_, item_end)| item_end <= start);
        match self.items.get(next) {
            Some(&(item_start, item_end)) if item_start < start => match comment.next {
                Some(at) => {
                    if self.line.0 != at {
                        let length = self.text[at..item_end].find('\n');
                        self.line = (at, length.map_or(item_end, |length| at + length));
                    }
                    self.line
                }
                None => (start, end),
            },
            Some(&item) if !comment.blank_line => item,
            _ if next == 0 => (0, self.text.len()),
            _ => (start, end),
        }
    }
}
