//! Tokens without white space, and the comments between them.

use std::ops::Range;

use crate::syntax::{SyntaxKind as K, SyntaxNode, is_mask};

/// A comment.
#[derive(Debug)]
pub(super) struct Comment<'text> {
    pub(super) text: &'text str,
    /// Whether it is on a separate line, not after a token.
    pub(super) own_line: bool,
    /// Whether a blank line precedes it.
    pub(super) blank_before: bool,
}

/// A token that is no trivia.
#[derive(Debug)]
struct Token<'text> {
    text: &'text str,
    kind: K,
    /// The node that it is in.
    parent: K,
    /// Its start in the text.
    start: u32,
    /// Whether it is a `/` between a simple value and its simple mask.
    tight: bool,
    /// Whether a space precedes it on a line.
    spaced: bool,
    /// The comments before it.
    comments: Vec<Comment<'text>>,
    /// Whether a blank line precedes it, after the comments.
    blank_before: bool,
    /// The width of this and all earlier tokens on one line.
    columns: usize,
    /// The number of comments before it and all earlier tokens.
    comments_before: usize,
}

/// The tokens of a file, without commas before closing brackets and at the ends of bodies.
#[derive(Debug)]
pub(super) struct Tokens<'text> {
    tokens: Vec<Token<'text>>,
    /// The comments after the last token.
    pub(super) last_comments: Vec<Comment<'text>>,
}

impl<'text> Tokens<'text> {
    /// Takes the tree of a text.
    pub(super) fn new(text: &'text str, root: &SyntaxNode) -> Self {
        let mut tokens = Tokens { tokens: Vec::new(), last_comments: Vec::new() };
        tokens.collect(text, root);
        tokens.drop_trailing_commas();
        tokens.move_comments();
        tokens.bind_documentation();
        tokens.measure();
        tokens
    }

    /// Takes all tokens, each with the comments before it.
    fn collect(&mut self, text: &'text str, root: &SyntaxNode) {
        let mut comments = Vec::new();
        // Line breaks since the last token or comment; the start of the file is one.
        let mut breaks = 1;
        let mut next = root.first_token();
        while let Some(token) = next {
            next = token.next_token();
            let start = u32::from(token.text_range().start());
            let own = &text[start as usize..u32::from(token.text_range().end()) as usize];
            match token.kind() {
                K::Whitespace => breaks += token.text().matches('\n').count(),
                K::Comment | K::DocComment => {
                    let first = self.tokens.is_empty() && comments.is_empty();
                    let (own_line, blank_before) = (breaks > 0, breaks > 1 && !first);
                    comments.push(Comment { text: own.trim_end(), own_line, blank_before });
                    breaks = 0;
                }
                kind => {
                    let blank_before = breaks > 1 && !(self.tokens.is_empty() && comments.is_empty());
                    let parent = token.parent();
                    self.tokens.push(Token {
                        text: own,
                        kind,
                        parent: parent.as_ref().map_or(K::Root, SyntaxNode::kind),
                        start,
                        tight: kind == K::Slash && parent.is_some_and(|node| is_tight_mask(&node)),
                        spaced: false,
                        comments: std::mem::take(&mut comments),
                        blank_before,
                        columns: 0,
                        comments_before: 0,
                    });
                    breaks = 0;
                }
            }
        }
        // A comment that follows another one is on a separate line.
        self.last_comments = comments;
    }

    /// Commas before closing brackets are layout.
    fn drop_trailing_commas(&mut self) {
        let old = std::mem::take(&mut self.tokens);
        let mut comma: Option<Token> = None;
        for mut token in old {
            if let Some(mut comma) = comma.take() {
                if matches!(token.kind, K::RParen | K::RBracket | K::RBrace | K::Semicolon) {
                    token.comments = joined(comma.comments, token.comments);
                } else {
                    comma.blank_before = false;
                    self.tokens.push(comma);
                }
            }
            if token.kind == K::Comma {
                comma = Some(token);
            } else {
                self.tokens.push(token);
            }
        }
    }

    /// Moves comments past the punctuation that stays on the line before them, and before operators, which start lines.
    fn move_comments(&mut self) {
        for at in 0..self.tokens.len() {
            let is_operator = at > 0 && self.is_operator(at - 1);
            if is_operator && !self.tokens[at].comments.is_empty() {
                let moved = std::mem::take(&mut self.tokens[at].comments);
                let shift = at > 1 && self.is_second_of_shift(at - 1);
                let operator = if shift { at - 2 } else { at - 1 };
                let before = std::mem::take(&mut self.tokens[operator].comments);
                self.tokens[operator].comments = joined(before, moved);
            }
        }
        for at in 0..self.tokens.len() {
            let Token { kind, comments, .. } = &self.tokens[at];
            let is_end_of_line = matches!(comments.as_slice(), [Comment { own_line: false, .. }]);
            let next_has_one = self.comments_before(at + 1).first().is_some_and(|comment| !comment.own_line);
            let moves = match kind {
                K::Comma => !comments.is_empty(),
                K::Semicolon | K::ColonMinus => is_end_of_line && !next_has_one,
                K::LBrace => is_end_of_line && !next_has_one && is_block(self.parent(at)),
                _ => false,
            };
            if moves {
                let moved = std::mem::take(&mut self.tokens[at].comments);
                let after = match self.tokens.get_mut(at + 1) {
                    Some(next) => &mut next.comments,
                    None => &mut self.last_comments,
                };
                *after = joined(moved, std::mem::take(after));
            }
        }
    }

    /// Removes blank lines between documentation and its declaration, unless that would change the meaning of a
    /// comment.
    fn bind_documentation(&mut self) {
        for token in &mut self.tokens {
            let Some(doc) = token.comments.iter().position(|comment| is_doc(comment.text)) else { continue };
            if token.comments.iter().any(|comment| comment.text.contains("weft:")) {
                continue;
            }
            for comment in &mut token.comments[doc + 1..] {
                comment.blank_before = false;
            }
            token.blank_before = false;
        }
    }

    /// Finds spaces and widths.
    fn measure(&mut self) {
        let (mut columns, mut comments) = (0, 0);
        for at in 0..self.tokens.len() {
            let spaced = at > 0 && self.is_spaced(at);
            comments += self.tokens[at].comments.len();
            let token = &mut self.tokens[at];
            columns += usize::from(spaced) + token.text.chars().count();
            (token.spaced, token.columns, token.comments_before) = (spaced, columns, comments);
        }
    }

    /// Whether a space separates this token from the previous one on a line.
    fn is_spaced(&self, at: usize) -> bool {
        let (before, kind) = (self.tokens[at - 1].kind, self.tokens[at].kind);
        let (outer, parent) = (self.parent(at - 1), self.parent(at));
        let closed_before = match kind {
            K::Comma | K::Semicolon | K::RParen | K::RBracket | K::Dot | K::Colon => true,
            K::LParen => {
                matches!(
                    parent,
                    K::Arguments | K::Columns | K::Parameters | K::Key | K::Hook | K::Unique | K::Reads
                ) && self.kind(at.saturating_sub(1)) != K::AsKw
            }
            K::LBracket => matches!(parent, K::Actions | K::BitRange),
            K::LBrace => matches!(parent, K::Record | K::Match),
            K::RBrace => !is_block(parent) || before == K::LBrace,
            K::DotDot => {
                matches!(parent, K::BitRange | K::Range | K::PriorityDeclaration | K::ReserveDeclaration)
            }
            K::Lt => parent == K::Type,
            K::Gt => parent == K::Type || self.is_second_of_shift(at),
            K::Slash => self.tokens[at].tight,
            _ => false,
        };
        let closed_after = match before {
            K::LParen | K::LBracket | K::Dot => true,
            K::LBrace => !is_block(outer),
            K::Minus => outer == K::Negative,
            K::Bang => outer == K::Negation,
            K::DotDot => {
                matches!(outer, K::BitRange | K::Range | K::PriorityDeclaration | K::ReserveDeclaration)
            }
            K::Lt => outer == K::Type,
            K::Slash => self.tokens[at - 1].tight,
            _ => false,
        };
        !closed_before && !closed_after
    }

    /// Whether the token is the second half of `>>`.
    fn is_second_of_shift(&self, at: usize) -> bool {
        [at - 1, at].iter().all(|&at| self.tokens[at].kind == K::Gt && self.tokens[at].parent == K::Binary)
    }

    fn is_operator(&self, at: usize) -> bool {
        self.parent(at) == K::Binary
    }

    fn parent(&self, at: usize) -> K {
        self.tokens[at].parent
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn text(&self, at: usize) -> &'text str {
        self.tokens[at].text
    }

    pub(super) fn kind(&self, at: usize) -> K {
        self.tokens[at].kind
    }

    pub(super) fn spaced(&self, at: usize) -> bool {
        self.tokens[at].spaced
    }

    pub(super) fn blank_before(&self, at: usize) -> bool {
        self.tokens[at].blank_before
    }

    /// The comments between the previous token and this one; after the last token, those at the end.
    pub(super) fn comments_before(&self, at: usize) -> &[Comment<'text>] {
        self.tokens.get(at).map_or(&self.last_comments, |token| &token.comments)
    }

    /// The width of the tokens on one line.
    pub(super) fn width(&self, range: &Range<usize>) -> usize {
        match range.end.checked_sub(1) {
            Some(last) if last >= range.start => {
                let first = &self.tokens[range.start];
                self.tokens[last].columns - first.columns + first.text.chars().count()
            }
            _ => 0,
        }
    }

    /// Whether there is a comment between two of the tokens.
    pub(super) fn has_comments(&self, range: &Range<usize>) -> bool {
        range.end > range.start + 1
            && self.tokens[range.end - 1].comments_before > self.tokens[range.start].comments_before
    }

    /// The tokens of a node.
    pub(super) fn range(&self, node: &SyntaxNode) -> Range<usize> {
        let range = node.text_range();
        let at = |offset: u32| self.tokens.partition_point(|token| token.start < offset);
        at(range.start().into())..at(range.end().into())
    }
}

/// Joins two runs of comments: only the first of all can be at the end of a line.
fn joined<'text>(mut first: Vec<Comment<'text>>, second: Vec<Comment<'text>>) -> Vec<Comment<'text>> {
    let alone = first.is_empty();
    first.extend(
        second.into_iter().map(|comment| Comment { own_line: comment.own_line || !alone, ..comment }),
    );
    first
}

/// Whether the node is a value and its mask, neither of which has an operator.
fn is_tight_mask(node: &SyntaxNode) -> bool {
    is_mask(node) && node.children().all(|side| side.kind() != K::Binary)
}

fn is_doc(comment: &str) -> bool {
    comment.starts_with("##") && !comment.starts_with("###")
}

/// Whether the braces of such a node contain steps or rows.
fn is_block(kind: K) -> bool {
    matches!(kind, K::Test | K::Object | K::Given | K::Change | K::Expect)
}
