//! Line breaks in declarations, rules and tests.

use std::ops::Range;

use super::expression::STEP;
use super::printer::{Blanks, Printer};
use crate::syntax::{SyntaxKind as K, SyntaxNode};

impl Printer<'_> {
    /// All declarations.
    pub(super) fn file(&mut self, root: &SyntaxNode) {
        for item in root.children() {
            self.indent = 0;
            self.line(0, Blanks::Keep);
            self.item(&item);
        }
    }

    fn item(&mut self, item: &SyntaxNode) {
        let range = self.tokens.range(item);
        self.indent = STEP;
        match item.kind() {
            K::Test => self.test(item),
            K::Object => self.object(item),
            // A rule with several items has a line for each.
            K::Rule if !has_one_item(item) => self.rule(item),
            _ if self.fits(&range, 0) => self.tokens_until(range.end),
            K::Rule => self.rule(item),
            K::Table => self.table(item),
            K::TypeDeclaration
            | K::Function
            | K::Const
            | K::StageDeclaration
            | K::PriorityDeclaration
            | K::ReserveDeclaration => {
                self.definition(item);
            }
            _ => self.tokens_until(range.end),
        }
        // Only a semicolon is left.
        self.indent = 0;
        self.tokens_until(range.end);
    }

    /// `type … = …`, `function …(…) -> … = …`, `const … = …`, `stage … = …`, `priority … of … = …..…`,
    /// `reserve … of … = …..…`
    fn definition(&mut self, item: &SyntaxNode) {
        for part in item.children() {
            self.tokens_until(self.tokens.range(&part).start.min(self.value_of(&part)));
            match part.kind() {
                K::Type | K::Range => self.flat(&part),
                K::Parameters => {
                    let range = self.tokens.range(&part);
                    // ` -> type =` stays on the same line.
                    let after = item.children().find(|child| child.kind() == K::Type);
                    let after = after.map_or(0, |ty| self.tokens.width(&self.tokens.range(&ty)) + 6);
                    if self.fits(&range, after) {
                        self.tokens_until(range.end);
                    } else {
                        self.lines(&part, true);
                    }
                }
                K::EnumType | K::RecordType => {
                    if self.fits(&self.tokens.range(&part), 1) {
                        self.flat(&part);
                    } else {
                        self.lines(&part, true);
                    }
                }
                K::Where => self.condition(&part),
                // `;` or `..` follows.
                _ => self.value(&part, STEP, 2),
            }
        }
    }

    /// `where condition else "text"`, on a line of its own.
    fn condition(&mut self, part: &SyntaxNode) {
        let range = self.tokens.range(part);
        self.line(STEP, Blanks::Drop);
        // `where`
        self.tokens_until(range.start + 1);
        if let Some(holds) = part.children().next() {
            let after = range.end - self.tokens.range(&holds).end;
            self.expression(&holds, 2 * STEP, after);
        }
        self.tokens_until(range.end);
    }

    /// The number of a definition's part.
    fn value_of(&self, part: &SyntaxNode) -> usize {
        self.tokens.range(part).start
    }

    /// `input table name(columns) key(names) unique(names) from hook(table)`, `counter table name(columns) key(names) reads counter(names) as (counts) else "text"`
    fn table(&mut self, item: &SyntaxNode) {
        let find = |kind| item.children().find(|child: &SyntaxNode| child.kind() == kind);
        let Some(columns) = find(K::Columns) else { return };
        let is_part = |kind| matches!(kind, K::Key | K::Unique | K::Hook | K::Reads | K::Otherwise);
        let parts: Vec<SyntaxNode> = item.children().filter(|child| is_part(child.kind())).collect();
        let range = self.tokens.range(&columns);
        self.tokens_until(range.start);
        let whole = self.fits(&range, usize::from(parts.is_empty()));
        if whole {
            self.tokens_until(range.end);
        } else {
            self.lines(&columns, true);
        }
        for part in parts {
            let range = self.tokens.range(&part);
            if whole || !self.fits(&range, 1) {
                self.line(STEP, Blanks::Drop);
            }
            // `key`, `unique`, `from hook`, `reads counter(names) as`
            let counts = part.children().next().filter(|_| part.kind() == K::Reads);
            let bracket = match part.kind() {
                K::Hook => range.start + 2,
                K::Reads => counts.map_or(range.end, |count| self.tokens.range(&count).start - 1),
                K::Otherwise => range.end,
                _ => range.start + 1,
            };
            self.tokens_until(bracket);
            if bracket == range.end {
                continue;
            }
            if self.fits(&(bracket..range.end), 1) {
                self.tokens_until(range.end);
            } else {
                self.names(&part, range.end);
            }
        }
    }

    /// `(name, setting: value, …)` of a key, of what is unique or of a hook that fits on no line, or has comments.
    fn names(&mut self, part: &SyntaxNode, end: usize) {
        let (outer, indent) = (self.line_indent(), self.line_indent() + STEP);
        self.indent = indent;
        self.token();
        let mut begins = true;
        while self.at() + 1 < end {
            let comma = self.tokens.kind(self.at()) == K::Comma;
            if begins && !comma {
                self.line(indent, Blanks::Drop);
            }
            match part.children().find(|setting| self.tokens.range(setting).start == self.at()) {
                Some(setting) => self.labelled(&setting, indent, 1),
                None => self.token(),
            }
            begins = comma;
        }
        self.comma();
        self.closing_line(indent, outer, Blanks::Drop);
    }

    /// `head :- item, …`
    fn rule(&mut self, rule: &SyntaxNode) {
        let body = rule.children().find(|child| child.kind() == K::Body);
        let head = rule.children().find(|child| matches!(child.kind(), K::Call | K::Negation));
        let Some(head) = head else { return };
        let (indent, after) = if body.is_some() { (2 * STEP, 3) } else { (STEP, 1) };
        self.indent = indent;
        // `default`
        self.tokens_until(self.tokens.range(&head).start);
        let call = head.children().find(|child| child.kind() == K::Call).unwrap_or(head);
        self.tokens_until(self.tokens.range(&call).start);
        self.call(&call, indent, after);
        let Some(body) = body else { return };
        let items = self.tokens.range(&body);
        self.tokens_until(items.start);
        let mut blanks = Blanks::Within;
        for item in body.children() {
            self.separator();
            self.line(STEP, blanks);
            blanks = Blanks::Keep;
            self.indent = 2 * STEP;
            self.body_item(&item);
        }
        self.end_of_body();
    }

    /// Comments before a rule's semicolon are indented like its items.
    fn end_of_body(&mut self) {
        if self.tokens.comments_before(self.at()).iter().any(|comment| comment.own_line) {
            self.closing_line(STEP, 0, Blanks::BeforeComments);
        }
    }

    fn body_item(&mut self, item: &SyntaxNode) {
        if item.kind() != K::Binding {
            return self.expression(item, 2 * STEP, 1);
        }
        let mut sides = item.children();
        let (Some(left), Some(right)) = (sides.next(), sides.next()) else { return };
        self.expression(&left, 2 * STEP, 2);
        self.token();
        self.value(&right, 2 * STEP, 1);
    }

    /// `test "name" { steps }`
    fn test(&mut self, test: &SyntaxNode) {
        let range = self.tokens.range(test);
        self.indent = STEP;
        // `test "name" {`
        self.tokens_until(range.start + 3);
        let mut blanks = Blanks::Within;
        for step in test.children() {
            self.line(STEP, blanks);
            blanks = Blanks::Keep;
            self.step(&step);
        }
        self.end_of_block(0, blanks);
    }

    /// `object name { fields }`
    fn object(&mut self, object: &SyntaxNode) {
        let range = self.tokens.range(object);
        // `object name {`
        self.tokens_until(range.start + 3);
        let mut blanks = Blanks::Within;
        for element in object.children() {
            self.line(STEP, blanks);
            self.indent = 2 * STEP;
            blanks = Blanks::Keep;
            let range = self.tokens.range(&element);
            if !self.fits(&range, 0) {
                match element.kind() {
                    K::ObjectField => self.field(&element),
                    K::Unique => {
                        self.tokens_until(range.start + 1);
                        // Only the semicolon follows.
                        self.names(&element, range.end - 1);
                    }
                    _ => {}
                }
            }
            self.tokens_until(range.end);
        }
        self.indent = STEP;
        self.end_of_block(0, blanks);
    }

    /// `name: type was name = value;` that does not fit on a line.
    fn field(&mut self, field: &SyntaxNode) {
        let find = |kind| field.children().find(|part: &SyntaxNode| part.kind() == kind);
        if let Some(was) = find(K::Was) {
            let range = self.tokens.range(&was);
            self.tokens_until(range.start);
            // ` =` or `;` follows.
            if !self.fits(&range, 2) {
                self.line(2 * STEP, Blanks::Drop);
            }
            self.former_names(&range);
        }
        let value = field.children().find(|part| !matches!(part.kind(), K::Type | K::Was));
        if let Some(value) = value {
            self.tokens_until(self.value_of(&value));
            self.value(&value, 2 * STEP, 1);
        }
    }

    /// `was name, …`: as many names on a line as fit.
    fn former_names(&mut self, range: &Range<usize>) {
        self.token();
        self.indent = 3 * STEP;
        while self.at() < range.end {
            // The name, and the comma, ` =` or `;` after it.
            if !self.fits(&(self.at()..self.at() + 1), 2) {
                self.line(3 * STEP, Blanks::Drop);
            }
            self.token();
            if self.at() < range.end {
                self.token();
            }
        }
        self.indent = 2 * STEP;
    }

    /// `given { rows }`, `expect row;`
    fn step(&mut self, step: &SyntaxNode) {
        let range = self.tokens.range(step);
        self.indent = 2 * STEP;
        let rows: Vec<SyntaxNode> = step.children().filter(|child| child.kind() == K::Row).collect();
        if rows.len() < 2 && self.fits(&range, 0) {
            return self.tokens_until(range.end);
        }
        let open = self.tokens.kind(range.end - 1) == K::RBrace;
        if !open {
            let sends = (range.start..range.end).any(|at| self.tokens.kind(at) == K::PacketKw);
            return if sends { self.packet(step) } else { self.row(step, STEP) };
        }
        while self.tokens.kind(self.at()) != K::LBrace {
            self.token();
        }
        self.token();
        let mut blanks = Blanks::Within;
        for row in rows {
            self.line(2 * STEP, blanks);
            blanks = Blanks::Keep;
            self.indent = 3 * STEP;
            self.row(&row, 2 * STEP);
        }
        self.end_of_block(STEP, blanks);
    }

    /// `expect packet from "port" match{…} at "port", …;` that does not fit on a line: a line each for the port, the match
    /// and the receivers.
    fn packet(&mut self, step: &SyntaxNode) {
        let range = self.tokens.range(step);
        let Some(fields) = step.children().next() else { return self.tokens_until(range.end) };
        self.tokens_until(self.tokens.range(&fields).start);
        self.line(2 * STEP, Blanks::Drop);
        self.expression(&fields, 3 * STEP, 0);
        self.line(2 * STEP, Blanks::Drop);
        self.indent = 3 * STEP;
        // `at` or `nowhere`
        self.token();
        while self.at() < range.end {
            // A port, and the comma or semicolon after it.
            if self.tokens.kind(self.at()) == K::String && !self.fits(&(self.at()..self.at() + 1), 1) {
                self.line(3 * STEP, Blanks::Drop);
            }
            self.token();
        }
    }

    /// `row;`, with words before it.
    fn row(&mut self, row: &SyntaxNode, indent: usize) {
        let end = self.tokens.range(row).end;
        if let Some(call) = row.children().find(|child| child.kind() == K::Call) {
            self.tokens_until(self.tokens.range(&call).start);
            self.call(&call, indent + STEP, 1);
        }
        self.tokens_until(end);
    }

    /// Writes the brace that closes steps or rows; `blanks` is the setting for a further element.
    fn end_of_block(&mut self, indent: usize, blanks: Blanks) {
        let comments = self.tokens.comments_before(self.at());
        if blanks == Blanks::Within && comments.is_empty() {
            return self.token();
        }
        let blanks = if blanks == Blanks::Keep { Blanks::BeforeComments } else { blanks };
        self.closing_line(indent + STEP, indent, blanks);
    }
}

fn has_one_item(rule: &SyntaxNode) -> bool {
    let body = rule.children().find(|child| child.kind() == K::Body);
    body.is_none_or(|body| body.children().count() == 1)
}
