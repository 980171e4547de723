//! The parser: tokens to the lossless tree, by recursive descent.
//!
//! A mistake affects only its own declaration: the rest of the declaration becomes a [`SyntaxKind::Error`] node, and
//! parsing continues after its semicolon, or where a new declaration evidently starts. So each declaration has at
//! most one error, and no error is a consequence of another.
//!
//! `parser/grammar.rs` contains the grammar, `parser/recovery.rs` error recovery, and this file the primitives that
//! both use.

mod grammar;
mod recovery;

use std::ops::Range;

use nlog_data::quotation::{cut, grouped};
use rowan::{Checkpoint, GreenNode, GreenNodeBuilder, Language};

use super::lexer::{Token, lex};
use super::{NlogLanguage, SyntaxKind, SyntaxNode};
use crate::limits::MAX_NAME;

/// The maximum nesting of brackets, types and operators. Code that walks a tree may recurse this deep.
pub const MAX_NESTING: usize = 128;

/// A syntax error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// In bytes of the text; empty where something is missing.
    pub range: Range<usize>,
    /// The message.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// A parsed text: a lossless tree of the whole text, valid or not, and the syntax errors.
#[derive(Debug, Clone)]
pub struct Parse {
    green: GreenNode,
    /// The errors, in the order of the text.
    pub errors: Vec<SyntaxError>,
}

impl Parse {
    /// The root of the tree.
    pub fn root(&self) -> SyntaxNode {
        SyntaxNode::new_root(self.green.clone())
    }
}

/// Parses a text of less than 4 GiB. Takes time in proportion to its length.
pub fn parse(text: &str) -> Parse {
    let mut tokens = lex(text);
    // A name that is too long is no name; `misspelt` says why.
    for token in tokens.iter_mut().filter(|token| token.kind == SyntaxKind::Ident) {
        if (token.end - token.start) as usize > MAX_NAME {
            token.kind = SyntaxKind::Unknown;
        }
    }
    let significant = (0..tokens.len() as u32).filter(|&at| !tokens[at as usize].kind.is_trivia()).collect();
    let mut parser = Parser {
        text,
        tokens,
        significant,
        at: 0,
        emitted: 0,
        builder: GreenNodeBuilder::new(),
        open: 0,
        depth: 0,
        item_start: 0,
        item_indent: 0,
        in_actions: false,
        errors: Vec::new(),
    };
    parser.start(SyntaxKind::Root);
    grammar::file(&mut parser);
    parser.emit_until(parser.tokens.len());
    parser.finish();
    Parse { green: parser.builder.finish(), errors: parser.errors }
}

/// The current declaration cannot be parsed further; the error is recorded.
#[derive(Debug)]
struct Abandoned;

type Parsed<T = ()> = Result<T, Abandoned>;

struct Parser<'text> {
    text: &'text str,
    tokens: Vec<Token>,
    /// The significant tokens, as indices of `tokens`.
    significant: Vec<u32>,
    /// The next significant token, as an index of `significant`.
    at: usize,
    /// The number of `tokens` that are in the tree.
    emitted: usize,
    builder: GreenNodeBuilder<'static>,
    /// The number of open nodes.
    open: usize,
    /// The number of open nested constructs.
    depth: usize,
    /// The start of the current declaration, as an index of `significant`.
    item_start: usize,
    /// The indent of the current declaration, in bytes.
    item_indent: usize,
    /// Whether an `actions[…]` is open, in which reserved words name actions and their parameters.
    in_actions: bool,
    errors: Vec<SyntaxError>,
}

impl<'text> Parser<'text> {
    // Looking.

    fn token(&self, ahead: usize) -> Option<Token> {
        self.significant.get(self.at + ahead).map(|&at| self.tokens[at as usize])
    }

    fn kind(&self, ahead: usize) -> SyntaxKind {
        self.token(ahead).map_or(SyntaxKind::Eof, |token| token.kind)
    }

    fn current(&self) -> SyntaxKind {
        self.kind(0)
    }

    /// The text of the token this many tokens ahead, if it is a name, which may be a contextual word.
    fn word(&self, ahead: usize) -> Option<&'text str> {
        self.token(ahead).filter(|token| token.kind == SyntaxKind::Ident).map(|token| self.text_of(token))
    }

    /// Whether the token this many tokens ahead directly follows its predecessor.
    fn is_joined(&self, ahead: usize) -> bool {
        match self.token(ahead) {
            Some(token) if self.at + ahead > 0 => {
                let before = self.significant[self.at + ahead - 1] as usize;
                self.tokens[before].end == token.start
            }
            _ => false,
        }
    }

    /// Whether the next tokens are `first` and `second` with nothing between.
    fn at_joined(&self, first: SyntaxKind, second: SyntaxKind) -> bool {
        self.current() == first && self.kind(1) == second && self.is_joined(1)
    }

    fn text_of(&self, token: Token) -> &'text str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// The text of the next token.
    fn next_text(&self) -> &'text str {
        self.token(0).map_or("", |token| self.text_of(token))
    }

    fn previous_end(&self) -> usize {
        match self.at {
            0 => 0,
            at => self.tokens[self.significant[at - 1] as usize].end as usize,
        }
    }

    /// The indent of the token in bytes, if only white space precedes it on its line.
    fn indent(&self, token: Token) -> Option<usize> {
        let before = &self.text[..token.start as usize];
        let blank = before.len() - before.trim_end_matches([' ', '\t', '\u{feff}']).len();
        let line_start = before.len() - blank;
        (line_start == 0 || before.as_bytes()[line_start - 1] == b'\n').then_some(blank)
    }

    // Building.

    /// Puts tokens into the tree, up to (not including) this number.
    fn emit_until(&mut self, end: usize) {
        while self.emitted < end {
            let token = self.tokens[self.emitted];
            self.builder.token(NlogLanguage::kind_to_raw(token.kind), self.text_of(token));
            self.emitted += 1;
        }
    }

    /// Puts the trivia before the next token into the tree, so that a node started now begins with that token.
    fn emit_trivia(&mut self) {
        if let Some(&next) = self.significant.get(self.at) {
            self.emit_until(next as usize);
        }
    }

    /// The same, but leaves documentation and all after it to the node started now.
    fn emit_trivia_before_docs(&mut self) {
        let end = self.significant.get(self.at).map_or(self.tokens.len(), |&next| next as usize);
        let doc = (self.emitted..end).find(|&at| self.tokens[at].kind == SyntaxKind::DocComment);
        self.emit_until(doc.unwrap_or(end));
    }

    fn start(&mut self, kind: SyntaxKind) {
        self.open += 1;
        self.builder.start_node(NlogLanguage::kind_to_raw(kind));
    }

    fn start_at(&mut self, checkpoint: Checkpoint, kind: SyntaxKind) {
        self.open += 1;
        self.builder.start_node_at(checkpoint, NlogLanguage::kind_to_raw(kind));
    }

    fn finish(&mut self) {
        self.open -= 1;
        self.builder.finish_node();
    }

    fn checkpoint(&mut self) -> Checkpoint {
        self.emit_trivia();
        self.builder.checkpoint()
    }

    /// Makes a node of the kind around the tokens that `parse` takes.
    fn node<T>(&mut self, kind: SyntaxKind, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.emit_trivia();
        self.start(kind);
        let parsed = parse(self)?;
        self.finish();
        Ok(parsed)
    }

    /// The same, with the documentation before the next token.
    fn documented(&mut self, kind: SyntaxKind, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.emit_trivia_before_docs();
        self.start(kind);
        parse(self)?;
        self.finish();
        Ok(())
    }

    /// Takes the next token into the tree.
    fn bump(&mut self) {
        if let Some(&next) = self.significant.get(self.at) {
            self.emit_until(next as usize + 1);
            self.at += 1;
        }
    }

    /// The same, as a token of another kind: a name that is a keyword here, or a keyword that is a name here.
    fn bump_as(&mut self, kind: SyntaxKind) {
        if let Some(&next) = self.significant.get(self.at) {
            self.emit_until(next as usize);
            self.tokens[next as usize].kind = kind;
            self.bump();
        }
    }

    fn eat(&mut self, kind: SyntaxKind) -> bool {
        let found = self.current() == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Takes a token of the kind or gives up; `wanted` and `help` are for the message.
    fn expect(&mut self, kind: SyntaxKind, wanted: &str, help: &str) -> Parsed {
        if self.eat(kind) { Ok(()) } else { self.unexpected(wanted, help) }
    }

    // Failing.

    fn error(&mut self, range: Range<usize>, message: String, help: impl Into<String>) {
        self.errors.push(SyntaxError { range, message, help: help.into() });
    }

    /// Reports the next token where another was expected. Some tokens show the author's intention better than
    /// `help`.
    fn unexpected<T>(&mut self, wanted: &str, help: &str) -> Parsed<T> {
        let Some(token) = self.token(0) else {
            let end = self.previous_end();
            self.error(end..end, format!("expected {wanted}, found the end of the file"), help);
            return Err(Abandoned);
        };
        let (text, range) = (self.text_of(token), token.start as usize..token.end as usize);
        if let Some((range, help)) = self.foreign(text, range.clone()) {
            self.error(range.clone(), format!("`{}` is not an operator", &self.text[range]), help);
            return Err(Abandoned);
        }
        let end = self.previous_end();
        let next_line = self.in_item() && self.text[end..range.start].contains('\n');
        match misspelt(token.kind, text) {
            Some((message, help)) => self.error(range, message, help),
            // A missing token at the end of a line is best shown there.
            None if next_line => {
                self.error(end..end, format!("expected {wanted} after this, found `{}`", cut(text)), help);
            }
            None => {
                self.error(range, format!("expected {wanted}, found {}", describe(token.kind, text)), help);
            }
        }
        Err(Abandoned)
    }

    /// Syntax of another language around the next token: its place, and the equivalent here.
    fn foreign(&self, text: &str, range: Range<usize>) -> Option<(Range<usize>, &'static str)> {
        let joined = |other: &str| self.text[range.end..].starts_with(other);
        let after = |other: &str| self.text[..range.start].ends_with(other);
        let (start, end) = (range.start, range.end);
        Some(match text {
            "and" => (range, "separate the conditions of a body with `,`"),
            "or" => (range, "write one rule per alternative; a table contains the rows of all its rules"),
            "in" => (range, "`contains(set, x)` tests membership, `element(set, x)` yields each element"),
            ":" if joined("=") => {
                (start..end + 1, "write `:-` after the head of a rule, `=` to bind a variable")
            }
            "<" if joined("-") => (start..end + 1, "write `:-` after the head of a rule"),
            ">" if after("<") => (start - 1..end, "write `!=` to compare for inequality"),
            "=" if after("==") => (start - 2..end, "write `==` to compare for equality"),
            _ => return None,
        })
    }

    /// Whether the current declaration already has a token.
    fn in_item(&self) -> bool {
        self.at > self.item_start
    }

    /// Reports the next token itself, even if it is on a separate line.
    fn unexpected_here<T>(&mut self, wanted: &str, help: &str) -> Parsed<T> {
        let Some(token) = self.token(0) else { return self.unexpected(wanted, help) };
        let range = token.start as usize..token.end as usize;
        self.error(
            range,
            format!("expected {wanted}, found {}", describe(token.kind, self.text_of(token))),
            help,
        );
        Err(Abandoned)
    }

    /// Runs `parse` one level deeper, if the nesting limit allows.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.check_height(self.depth + 1)?;
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn check_height(&mut self, height: usize) -> Parsed {
        if height <= MAX_NESTING {
            return Ok(());
        }
        let end = self.previous_end();
        let start = self.token(0).map_or(end, |token| token.start as usize);
        self.error(
            start..start,
            format!("expression is nested more than {MAX_NESTING} levels deep"),
            "bind part of the expression to a variable (`part = …`) and use the variable",
        );
        Err(Abandoned)
    }

    /// Reports that a list has more elements than it can have.
    fn too_many<T>(&mut self, most: usize) -> Parsed<T> {
        let end = self.previous_end();
        let range = self.token(0).map_or(end..end, |token| token.start as usize..token.end as usize);
        self.error(
            range,
            format!("more than {most} elements"),
            format!(
                "a declaration, a call or a literal of a match or actions has at most {most} columns, fields, \
                members, arguments or actions; split it"
            ),
        );
        Err(Abandoned)
    }

    /// Parses one declaration; after a mistake, skips to the start of the next one.
    fn item(&mut self, kind: SyntaxKind, parse: impl FnOnce(&mut Self) -> Parsed) {
        self.emit_trivia_before_docs();
        self.item_indent = self.token(0).and_then(|token| self.indent(token)).unwrap_or(usize::MAX);
        self.item_start = self.at;
        let open = self.open;
        self.start(kind);
        self.depth = 0;
        self.in_actions = false;
        if parse(self).is_err() {
            while self.open > open + 1 {
                self.finish();
            }
            self.emit_trivia();
            self.start(SyntaxKind::Error);
            match kind {
                SyntaxKind::Test | SyntaxKind::Object => self.skip_block(),
                kind => self.skip_declaration(kind),
            }
            self.finish();
        }
        self.finish();
    }
}

/// Whether a name can contain the character.
fn is_of_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// The description of a token in messages.
fn describe(kind: SyntaxKind, text: &str) -> String {
    let text = cut(text);
    if kind.is_keyword() { format!("the reserved word `{text}`") } else { format!("`{text}`") }
}

/// The message and help for a token that shows the author's intention, if it does.
fn misspelt(kind: SyntaxKind, text: &str) -> Option<(String, &'static str)> {
    Some(match kind {
        SyntaxKind::AmpAmp => {
            ("`&&` is not an operator".into(), "separate the conditions of a body with `,`")
        }
        SyntaxKind::PipePipe => (
            "`||` is not an operator".into(),
            "write one rule per alternative; a table contains the rows of all its rules",
        ),
        SyntaxKind::Dot => (
            "`.` may only precede the name of a record field".into(),
            "end declarations and rules with `;`; read a record field as `value.field`",
        ),
        SyntaxKind::OpenString => {
            ("unterminated string".into(), "close it with `\"` on the same line; write a line break as `\\n`")
        }
        SyntaxKind::Unknown if text.starts_with('\'') => {
            ("unexpected character `'`".into(), "write strings in double quotes: \"text\"")
        }
        SyntaxKind::Unknown if text.len() > MAX_NAME && text.chars().all(is_of_name) => {
            (format!("a name of {} bytes is too long", grouped(text.len())), "a name has at most 255 bytes")
        }
        SyntaxKind::Unknown if text.chars().any(char::is_alphabetic) => (
            format!("`{}` is not allowed in a name", cut(text)),
            "names consist of the letters a to z and A to Z, digits and `_`; write other text in strings or \
            comments",
        ),
        SyntaxKind::Unknown => {
            let shown: String = text.chars().take(20).flat_map(char::escape_debug).collect();
            (
                format!("unexpected character `{shown}`"),
                "remove it, or write the text in a string or a comment",
            )
        }
        _ => return None,
    })
}
