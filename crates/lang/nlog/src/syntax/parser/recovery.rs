//! Error recovery: where parsing continues after a mistake.

use super::{Parsed, Parser};
use crate::syntax::SyntaxKind;

impl Parser<'_> {
    /// Skips the rest of a declaration with a mistake.
    pub(super) fn skip_declaration(&mut self, kind: SyntaxKind) {
        // After `input` or `output` alone, the `table` belongs to this declaration; after `default` too, if it is on
        // the same line.
        let own_line = self.token(0).is_some_and(|token| self.indent(token).is_none());
        let own_table = self.at == self.item_start + 1
            && (kind == SyntaxKind::Table || kind == SyntaxKind::Rule && own_line);
        while self.current() != SyntaxKind::Eof {
            let own = own_table && self.current() == SyntaxKind::TableKw;
            if !own && self.at_evident_start() {
                break;
            }
            if self.eat(SyntaxKind::Semicolon) {
                while self.token(0).is_some_and(|token| self.indent(token).is_none())
                    && self.eat(SyntaxKind::Semicolon)
                {}
                if !self.goes_on_after_semicolon() {
                    break;
                }
            }
            self.bump();
        }
    }

    /// Skips the rest of a test or an object with a mistake: up to its closing brace, or to the evident start of a new
    /// declaration.
    pub(super) fn skip_block(&mut self) {
        let taken = self.item_start..self.at;
        let kinds = self.significant[taken].iter().map(|&at| self.tokens[at as usize].kind);
        let mut depth = kinds.fold(0, |depth: usize, kind| match kind {
            SyntaxKind::LBrace => depth + 1,
            SyntaxKind::RBrace => depth.saturating_sub(1),
            _ => depth,
        });
        let outside = depth == 0;
        if self.misses_open_brace(depth) {
            depth += 1;
        }
        let within = self.steps_are_deeper();
        while self.current() != SyntaxKind::Eof {
            if self.at_evident_start() || (within && self.at_outer_line()) {
                return;
            }
            match self.current() {
                SyntaxKind::LBrace => depth += 1,
                SyntaxKind::RBrace if depth > 1 => depth -= 1,
                SyntaxKind::RBrace => {
                    self.bump();
                    // `object name = record {…};`
                    if outside && self.current() == SyntaxKind::Semicolon {
                        self.bump();
                    }
                    return;
                }
                SyntaxKind::Semicolon if depth == 0 => return self.bump(),
                _ => {}
            }
            self.bump();
        }
    }

    /// Whether the mistake is a missing opening brace, so that an unmatched closing brace follows.
    fn misses_open_brace(&self, depth: usize) -> bool {
        if self.current() == SyntaxKind::LBrace {
            return false;
        }
        if depth == 0 {
            let field = self.word(0).is_some() && self.kind(1) == SyntaxKind::Colon;
            return field || matches!(self.word(0), Some("given" | "change" | "expect"));
        }
        let before = self.at.checked_sub(1).map(|before| self.tokens[self.significant[before] as usize].kind);
        let step = matches!(
            before,
            Some(SyntaxKind::GivenKw | SyntaxKind::ChangeKw | SyntaxKind::ExactlyKw | SyntaxKind::DeltaKw)
        );
        // On the same line, a row may be meant as a list of one row.
        step && self.token(0).is_some_and(|token| self.indent(token).is_some())
    }

    /// Whether the first step of the current test is indented more than the test, if it starts a line.
    fn steps_are_deeper(&self) -> bool {
        // `test "name" {`
        let head = self.significant[self.item_start..].iter().take(4).map(|&at| self.tokens[at as usize]);
        let mut inside = head.skip_while(|token| token.kind != SyntaxKind::LBrace).skip(1);
        let first = inside.next().and_then(|token| self.indent(token));
        first.is_some_and(|indent| indent > self.item_indent)
    }

    /// Whether a line starts here with `name(`, indented no deeper than the current test.
    fn at_outer_line(&self) -> bool {
        self.current() == SyntaxKind::Ident
            && self.kind(1) == SyntaxKind::LParen
            && self.at > self.item_start
            && self.starts_line()
    }

    /// Whether the next token starts a line, indented no deeper than the current declaration.
    fn starts_line(&self) -> bool {
        self.token(0).and_then(|token| self.indent(token)).is_some_and(|indent| indent <= self.item_indent)
    }

    /// Whether the last semicolon was written in place of a comma (`t(x: int; y: int)`): the following text starts no
    /// declaration, and is on the same line, or indented deeper than the declaration, or closes a bracket.
    fn goes_on_after_semicolon(&self) -> bool {
        let Some(token) = self.token(0) else { return false };
        let starts = self.at_reserved_start()
            || matches!(token.kind, SyntaxKind::NotKw | SyntaxKind::Bang)
            || (token.kind == SyntaxKind::Ident && self.kind(1) == SyntaxKind::LParen)
            || self.contextual_declaration().is_some();
        let closes = matches!(token.kind, SyntaxKind::RParen | SyntaxKind::RBracket | SyntaxKind::RBrace);
        !starts && (closes || self.indent(token).is_none_or(|indent| indent > self.item_indent))
    }

    /// Takes the semicolon that ends a declaration. If only the semicolon is missing, reports that and keeps the
    /// declaration.
    pub(super) fn semicolon(&mut self, wanted: &str) -> Parsed {
        if self.eat(SyntaxKind::Semicolon) {
            return Ok(());
        }
        let help = "every declaration and rule ends with `;`";
        if self.at_evident_start() {
            let _reported: Parsed = self.unexpected(wanted, help);
            return Ok(());
        }
        self.unexpected(wanted, help)
    }

    /// The kind of declaration that starts here with a word that is a name elsewhere.
    pub(super) fn contextual_declaration(&self) -> Option<SyntaxKind> {
        let (word, next) = (self.word(0)?, self.kind(1));
        match (word, next) {
            ("type", SyntaxKind::Ident | SyntaxKind::Eq) => Some(SyntaxKind::TypeDeclaration),
            ("type", next) if next.is_keyword() && self.kind(2) == SyntaxKind::Eq => {
                Some(SyntaxKind::TypeDeclaration)
            }
            ("function", SyntaxKind::Ident) => Some(SyntaxKind::Function),
            (
                "test",
                SyntaxKind::String | SyntaxKind::OpenString | SyntaxKind::LBrace | SyntaxKind::Ident,
            ) => Some(SyntaxKind::Test),
            ("forbid" | "state" | "listing" | "counter", SyntaxKind::TableKw) => Some(SyntaxKind::Table),
            ("object", SyntaxKind::Ident) => Some(SyntaxKind::Object),
            ("field", SyntaxKind::Ident | SyntaxKind::Eq) => Some(SyntaxKind::FieldDeclaration),
            ("stage", SyntaxKind::Ident | SyntaxKind::Eq) => Some(SyntaxKind::StageDeclaration),
            ("priority", SyntaxKind::Ident | SyntaxKind::Eq) => Some(SyntaxKind::PriorityDeclaration),
            ("reserve", SyntaxKind::Ident | SyntaxKind::Eq) => Some(SyntaxKind::ReserveDeclaration),
            ("default", SyntaxKind::Ident | SyntaxKind::NotKw | SyntaxKind::Bang) => Some(SyntaxKind::Rule),
            _ => None,
        }
    }

    /// The kind of declaration with braces that starts here with a mistake before its brace.
    pub(super) fn spoilt_block(&self) -> Option<SyntaxKind> {
        let braced = |from| (from..=4).any(|ahead| self.kind(ahead) == SyntaxKind::LBrace);
        match self.word(0)? {
            _ if self.kind(1) == SyntaxKind::LParen => None,
            "test" if braced(2) => Some(SyntaxKind::Test),
            "object" if braced(1) => Some(SyntaxKind::Object),
            _ => None,
        }
    }

    /// Whether a declaration may start here with a reserved word. In actions, reserved words can be names
    /// (`output(port)`, `table: 5`).
    fn at_reserved_start(&self) -> bool {
        let named = matches!(
            (self.current(), self.kind(1)),
            (SyntaxKind::OutputKw, SyntaxKind::LParen) | (_, SyntaxKind::Colon)
        );
        self.current().starts_declaration() && !named
    }

    /// Whether a new declaration evidently starts here: at a reserved word that starts its line or continues like a
    /// declaration, or at a name that starts its line, is indented no deeper than this declaration, and continues no
    /// list or expression.
    pub(super) fn at_evident_start(&self) -> bool {
        let Some(token) = self.token(0) else { return false };
        if token.kind.starts_declaration() {
            let next = self.kind(1);
            // A reserved word used as a name (`t(output: int)`) starts nothing.
            let goes_on = matches!(
                (token.kind, next),
                (SyntaxKind::InputKw | SyntaxKind::OutputKw, SyntaxKind::TableKw)
                    | (SyntaxKind::TableKw | SyntaxKind::ConstKw, SyntaxKind::Ident)
                    | (SyntaxKind::ImportKw, SyntaxKind::String)
            );
            return goes_on || (self.at_reserved_start() && self.starts_line());
        }
        if token.kind != SyntaxKind::Ident {
            return false;
        }
        let goes_on = match (self.contextual_declaration(), self.kind(2)) {
            // It does not end with a semicolon, so none can be missing.
            (Some(SyntaxKind::Test | SyntaxKind::Object), SyntaxKind::LBrace) => return true,
            // `table` is reserved, so nothing else can be meant.
            (Some(SyntaxKind::Table), _) => return true,
            (
                Some(
                    SyntaxKind::TypeDeclaration | SyntaxKind::FieldDeclaration | SyntaxKind::StageDeclaration,
                ),
                next,
            ) => next == SyntaxKind::Eq,
            (Some(SyntaxKind::PriorityDeclaration | SyntaxKind::ReserveDeclaration), next) => {
                next == SyntaxKind::Ident
            }
            (Some(SyntaxKind::Function | SyntaxKind::Rule), next) => next == SyntaxKind::LParen,
            _ => false,
        };
        if !self.starts_line() {
            return false;
        }
        goes_on || (self.kind(1) == SyntaxKind::LParen && self.after_an_end())
    }

    /// Whether `unique(column, …)` of a table follows. At the start of a line, `unique(x) :- …` is a rule after a missing
    /// semicolon.
    pub(super) fn at_unique_columns(&self) -> bool {
        if self.word(0) != Some("unique") || !self.at_evident_start() {
            return self.word(0) == Some("unique");
        }
        let names = (2..).take_while(|at| matches!(self.kind(*at), SyntaxKind::Ident | SyntaxKind::Comma));
        let end = 2 + names.count();
        end > 2 && self.kind(end) == SyntaxKind::RParen && self.kind(end + 1) != SyntaxKind::ColonMinus
    }

    /// Whether the last token can end a declaration, apart from its semicolon.
    fn after_an_end(&self) -> bool {
        let Some(&before) = self.at.checked_sub(1).and_then(|before| self.significant.get(before)) else {
            return false;
        };
        matches!(
            self.tokens[before as usize].kind,
            SyntaxKind::RParen
                | SyntaxKind::RBracket
                | SyntaxKind::RBrace
                | SyntaxKind::Gt
                | SyntaxKind::Ident
                | SyntaxKind::Number
                | SyntaxKind::String
                | SyntaxKind::PrefixedString
                | SyntaxKind::OpenString
                | SyntaxKind::TrueKw
                | SyntaxKind::FalseKw
                | SyntaxKind::Dot
        )
    }
}
