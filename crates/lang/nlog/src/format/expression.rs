//! Line breaks in values.

use super::printer::{Blanks, Printer};
use crate::syntax::{SyntaxKind as K, SyntaxNode};

/// The additional indent of a continuation, in columns.
pub(super) const STEP: usize = 4;

impl Printer<'_> {
    /// Writes a value. Its lines after the first are indented by `indent`; `after` columns must fit
    /// after it.
    pub(super) fn expression(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        let range = self.tokens.range(node);
        if self.fits(&range, after) {
            return self.tokens_until(range.end);
        }
        let outer = std::mem::replace(&mut self.indent, indent);
        match node.kind() {
            K::Binary => self.chain(node, indent, after),
            K::If => self.conditional(node, indent, after),
            K::Call => self.call(node, self.line_indent() + STEP, after),
            K::List | K::Set if node.children().all(|element| is_simple(&element)) => {
                self.filled(node);
            }
            K::List | K::Set | K::Record | K::Match | K::Actions => self.lines(node, false),
            K::Paren | K::Negative | K::Negation | K::Field => self.around(node, after),
            _ => self.tokens_until(range.end),
        }
        self.indent = outer;
    }

    /// Writes the value after `=`: on the same line if it fits or has brackets to break in, otherwise
    /// on a separate line.
    pub(super) fn value(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        let bracketed = matches!(node.kind(), K::Call | K::List | K::Set | K::Record | K::Match | K::Actions);
        if !bracketed && !self.fits(&self.tokens.range(node), after) {
            self.line(indent, Blanks::Drop);
        }
        self.expression(node, indent, after);
    }

    /// `name(arguments)`: as many arguments on a line as fit.
    pub(super) fn call(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        let range = self.tokens.range(node);
        if self.fits(&range, after) {
            return self.tokens_until(range.end);
        }
        let Some(list) = node.children().find(|child| child.kind() == K::Arguments) else {
            return self.tokens_until(range.end);
        };
        let outer = std::mem::replace(&mut self.indent, indent);
        self.tokens_until(self.tokens.range(&list).start + 1);
        let mut broken = false;
        for argument in list.children() {
            let own = self.tokens.range(&argument);
            self.separator();
            // A comma, or the bracket and the tokens after it.
            let last = own.end + 1 >= range.end;
            let behind = if last { 1 + after } else { 1 };
            let fits = self.fits(&own, behind);
            if broken || !fits {
                self.line(indent, Blanks::Drop);
            }
            broken = !self.fits(&own, behind);
            self.labelled(&argument, indent, behind);
        }
        // `..` and the bracket.
        self.separator();
        let end = self.at()..range.end;
        if end.len() > 1 && (broken || !self.fits(&end, after)) {
            self.line(indent, Blanks::Drop);
        }
        self.tokens_until(range.end);
        self.indent = outer;
    }

    /// A comma, if one is next.
    pub(super) fn separator(&mut self) {
        if self.at() < self.tokens.len() && self.tokens.kind(self.at()) == K::Comma {
            self.token();
        }
    }

    /// `name: value` or a value.
    pub(super) fn labelled(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        if !matches!(
            node.kind(),
            K::Argument | K::RecordField | K::MatchTerm | K::Column | K::Member | K::Setting
        ) {
            return self.expression(node, indent, after);
        }
        let range = self.tokens.range(node);
        let value = node.children().find(|child| child.kind() != K::BitRange);
        if self.fits(&range, after) {
            return self.tokens_until(range.end);
        }
        if let Some(value) = value {
            let start = self.tokens.range(&value).start;
            let indent = if start > range.start { indent + STEP } else { indent };
            self.tokens_until(start);
            self.expression(&value, indent, after);
        }
        self.tokens_until(range.end);
    }

    /// `opening element, … closing`: a line for each element.
    pub(super) fn lines(&mut self, node: &SyntaxNode, typed: bool) {
        let range = self.tokens.range(node);
        let (outer, indent) = (self.line_indent(), self.line_indent() + STEP);
        let restored = std::mem::replace(&mut self.indent, indent);
        // A word or name, and the opening bracket.
        self.token();
        while self.at() < range.end && !is_opening(self.tokens.kind(self.at() - 1)) {
            self.token();
        }
        let mut blanks = Blanks::Within;
        for element in node.children() {
            self.separator();
            self.line(indent, blanks);
            blanks = if typed { Blanks::Keep } else { Blanks::Drop };
            self.labelled(&element, indent, 1);
        }
        if blanks != Blanks::Within {
            self.comma();
        }
        self.indent = restored;
        self.closing_line(indent, outer, Blanks::Drop);
    }

    /// `[element, …]` of simple elements: as many on a line as fit.
    fn filled(&mut self, node: &SyntaxNode) {
        let range = self.tokens.range(node);
        let (outer, indent) = (self.line_indent(), self.line_indent() + STEP);
        self.indent = indent;
        self.token();
        self.line(indent, Blanks::Drop);
        for element in node.children() {
            self.separator();
            let own = self.tokens.range(&element);
            if !self.fits(&own, 1) {
                self.line(indent, Blanks::Drop);
            }
            self.tokens_until(own.end);
        }
        if range.len() > 2 {
            self.comma();
        }
        self.closing_line(indent, outer, Blanks::Drop);
    }

    /// Operands of operators that bind alike: a line for each, the operator first.
    fn chain(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        let mut links = vec![node.clone()];
        let binds = strength(node);
        while let Some(left) = links.last().and_then(SyntaxNode::first_child)
            && left.kind() == K::Binary
            && strength(&left) == binds
        {
            links.push(left);
        }
        if let Some(first) = links.last().and_then(SyntaxNode::first_child) {
            self.expression(&first, indent, 0);
        }
        while let Some(link) = links.pop() {
            let Some(right) = link.last_child() else { return };
            self.line(indent, Blanks::Drop);
            self.tokens_until(self.tokens.range(&right).start);
            self.expression(&right, indent + STEP, if links.is_empty() { after } else { 0 });
        }
    }

    /// `if condition then value`, and a line for each `else`.
    fn conditional(&mut self, node: &SyntaxNode, indent: usize, after: usize) {
        let mut parts = node.children();
        let (Some(condition), Some(then), Some(otherwise)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        self.token();
        self.expression(&condition, indent + STEP, 0);
        // ` then`
        let value = self.tokens.range(&then);
        if !self.fits(&(self.at()..value.end), 0) {
            self.line(indent + STEP, Blanks::Drop);
        }
        self.tokens_until(value.start);
        self.expression(&then, indent + 2 * STEP, 0);
        self.line(indent, Blanks::Drop);
        self.tokens_until(self.tokens.range(&otherwise).start);
        let range = self.tokens.range(&otherwise);
        if otherwise.kind() == K::If && !self.fits(&range, after) {
            self.conditional(&otherwise, indent, after);
        } else {
            self.expression(&otherwise, indent + STEP, after);
        }
    }

    /// A value with something before or after it: brackets, a sign, a field's name.
    fn around(&mut self, node: &SyntaxNode, after: usize) {
        let range = self.tokens.range(node);
        if let Some(value) = node.first_child() {
            let inner = self.tokens.range(&value);
            let behind = self.tokens.width(&(inner.end..range.end));
            self.tokens_until(inner.start);
            self.expression(&value, self.line_indent() + STEP, after + behind);
        }
        self.tokens_until(range.end);
    }
}

fn is_opening(kind: K) -> bool {
    matches!(kind, K::LParen | K::LBracket | K::LBrace)
}

/// Whether the element has nowhere to break.
fn is_simple(element: &SyntaxNode) -> bool {
    match element.kind() {
        K::Literal | K::Name | K::Wildcard => true,
        K::Negative => element.first_child().is_some_and(|value| value.kind() == K::Literal),
        _ => false,
    }
}

/// The precedence class of the node's operator; operators of one class form a chain.
fn strength(node: &SyntaxNode) -> u8 {
    let tokens = node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    match tokens.map(|token| token.kind()).find(|kind| !kind.is_trivia()) {
        Some(K::PlusPlus) => 2,
        Some(K::Pipe) => 3,
        Some(K::Caret) => 4,
        Some(K::Amp) => 5,
        Some(K::Shl) => 6,
        Some(K::Plus | K::Minus) => 7,
        Some(K::Star | K::Slash | K::Percent) => 8,
        _ => 1,
    }
}
