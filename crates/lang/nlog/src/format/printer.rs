//! Writes tokens and comments to lines.

use super::WIDTH;
use super::token::{Comment, Tokens};
use crate::syntax::SyntaxNode;

/// The author's blank lines that are kept before a token and its comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blanks {
    /// No blank lines.
    Drop,
    /// All.
    Keep,
    /// Blank lines between comments, and between them and the token.
    Within,
    /// Blank lines before comments.
    BeforeComments,
}

pub(super) struct Printer<'tokens> {
    pub(super) tokens: &'tokens Tokens<'tokens>,
    out: String,
    /// The number of columns written on the line.
    column: usize,
    /// The indent of the line.
    line_indent: usize,
    /// The indent of the next line, if the next token starts one.
    pending: Option<usize>,
    blanks: Blanks,
    /// A comment for the end of the line.
    comment: Option<&'tokens Comment<'tokens>>,
    /// The indent of a line that exists only because of a comment.
    pub(super) indent: usize,
    /// The next token.
    at: usize,
}

impl<'tokens> Printer<'tokens> {
    pub(super) fn new(tokens: &'tokens Tokens<'tokens>, length: usize) -> Self {
        Printer {
            tokens,
            out: String::with_capacity(length + length / 8),
            column: 0,
            line_indent: 0,
            pending: None,
            blanks: Blanks::Drop,
            comment: None,
            indent: 0,
            at: 0,
        }
    }

    /// Writes the comments at the end and returns the text.
    pub(super) fn finish(mut self) -> String {
        debug_assert_eq!(self.at, self.tokens.len());
        self.line(0, Blanks::Keep);
        let comments = &self.tokens.last_comments;
        self.own_comments(comments);
        self.end_line();
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out
    }

    /// Starts a new line with the next token.
    pub(super) fn line(&mut self, indent: usize, blanks: Blanks) {
        self.pending = Some(indent);
        self.blanks = blanks;
    }

    /// The number of the next token.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The indent of the line that the next token is on.
    pub(super) fn line_indent(&self) -> usize {
        self.next_line().unwrap_or(self.line_indent)
    }

    /// The indent of the next token if it starts a line.
    fn next_line(&self) -> Option<usize> {
        let own = self.tokens.comments_before(self.at).iter().any(|comment| comment.own_line);
        match self.pending {
            Some(indent) => Some(indent),
            None if own || self.comment.is_some() => Some(self.indent),
            None => None,
        }
    }

    /// Whether the tokens of the range, the next ones, fit on the line, and `after` columns after them.
    pub(super) fn fits(&self, range: &std::ops::Range<usize>, after: usize) -> bool {
        debug_assert_eq!(range.start, self.at);
        let column = self.next_line().unwrap_or_else(|| self.column + usize::from(self.spaced()));
        !self.tokens.has_comments(range) && column + self.tokens.width(range) + after <= WIDTH
    }

    fn spaced(&self) -> bool {
        self.at < self.tokens.len() && self.tokens.spaced(self.at)
    }

    /// Writes the next token, after its comments.
    pub(super) fn token(&mut self) {
        let tokens = self.tokens;
        let at = self.at;
        self.own_comments(tokens.comments_before(at));
        if self.pending.is_none() && self.comment.is_some() {
            self.pending = Some(self.indent);
        }
        match self.pending {
            Some(indent) => {
                let after_comments = !tokens.comments_before(at).is_empty();
                let blank = match self.blanks {
                    Blanks::Keep => true,
                    Blanks::Within => after_comments,
                    Blanks::Drop | Blanks::BeforeComments => false,
                };
                self.start_line(indent, blank && tokens.blank_before(at));
            }
            None if self.spaced() => self.write(" "),
            None => {}
        }
        self.pending = None;
        self.blanks = Blanks::Drop;
        self.write(tokens.text(at));
        self.at += 1;
        self.comment = tokens.comments_before(self.at).first().filter(|comment| !comment.own_line);
    }

    /// Writes the next token, a closing bracket, on a separate line, after its comments with an indent of `inner`
    /// columns.
    pub(super) fn closing_line(&mut self, inner: usize, outer: usize, blanks: Blanks) {
        let tokens = self.tokens;
        let comments = tokens.comments_before(self.at);
        self.line(inner, blanks);
        self.own_comments(comments);
        self.line(outer, Blanks::Drop);
        let at = self.at;
        self.start_line(outer, false);
        self.pending = None;
        self.write(tokens.text(at));
        self.at += 1;
        self.comment = tokens.comments_before(self.at).first().filter(|comment| !comment.own_line);
    }

    /// Writes tokens up to that number on the line.
    pub(super) fn tokens_until(&mut self, end: usize) {
        while self.at < end {
            self.token();
        }
    }

    /// Writes all tokens of a node on the line.
    pub(super) fn flat(&mut self, node: &SyntaxNode) {
        self.tokens_until(self.tokens.range(node).end);
    }

    /// Writes a comma that is not among the tokens.
    pub(super) fn comma(&mut self) {
        self.write(",");
    }

    /// Writes comments on separate lines.
    fn own_comments(&mut self, comments: &[Comment<'_>]) {
        let mut first = true;
        for comment in comments.iter().filter(|comment| comment.own_line) {
            let indent = self.pending.unwrap_or(self.indent);
            let blank = match self.blanks {
                Blanks::Keep | Blanks::BeforeComments => true,
                Blanks::Within => !first,
                Blanks::Drop => false,
            };
            self.start_line(indent, blank && comment.blank_before);
            self.write(comment.text);
            self.pending = Some(indent);
            first = false;
        }
    }

    fn start_line(&mut self, indent: usize, blank: bool) {
        self.end_line();
        if !self.out.is_empty() {
            self.out.push('\n');
            if blank {
                self.out.push('\n');
            }
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
        self.line_indent = indent;
    }

    fn end_line(&mut self) {
        if let Some(comment) = self.comment.take() {
            self.out.push(' ');
            self.out.push_str(comment.text);
        }
    }

    fn write(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }
}
