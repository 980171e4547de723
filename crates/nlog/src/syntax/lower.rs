//! The tree to what the checker reads.
//!
//! Declarations with syntax errors keep what can be known of them (a table's name, what is mentioned), so that their
//! errors cause no others.

use nlog_data::Role;

use super::ast::{
    Argument, Call, Constant, Expr, ExprKind, File, Ident, Import, Item, ItemKind, Rule, Span, Table, TypeRef,
};
use super::{SyntaxKind as K, SyntaxNode, SyntaxToken};

/// Reads a file's tree. `file` is its number among the sources.
pub fn lower(root: &SyntaxNode, file: u32) -> File {
    let mut lowering = Lowering { file, out: File::default() };
    for item in root.children() {
        lowering.item(&item);
    }
    lowering.out
}

struct Lowering {
    file: u32,
    out: File,
}

/// The tree is of good form wherever it holds no error node, so a part that is not found means one that is ignored.
type Found<T> = Option<T>;

impl Lowering {
    fn item(&mut self, item: &SyntaxNode) {
        let broken = item.children().any(|child| child.kind() == K::Error);
        if broken {
            let names = item.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
            self.out
                .mentions
                .extend(names.filter(|token| token.kind() == K::Ident).map(|token| token.text().to_owned()));
        }
        match item.kind() {
            K::Import if !broken => {
                if let Some(token) = token(item, K::String) {
                    let span = self.span_of(&token);
                    if let Some(path) = self.unquoted(&token) {
                        self.out.imports.push(Import { path, span });
                    }
                }
            }
            K::Const => {
                let Some(name) = self.name(item) else { return self.nameless(item) };
                let ty = child(item, K::Type).filter(|_| !broken).and_then(|ty| self.type_ref(&ty));
                let value = item.children().filter(|_| !broken).find(|child| is_expression(child.kind()));
                let value = value.and_then(|value| self.expr(&value));
                self.out.constants.push(Constant { name, ty, value });
            }
            K::Table => self.table(item, broken),
            K::Rule if !broken => {
                if let Some(rule) = self.rule(item) {
                    self.out.rules.push(rule);
                }
            }
            K::Rule if !has_head(item) => self.nameless(item),
            _ => {}
        }
    }

    fn table(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let role = if token(item, K::InputKw).is_some() {
            Role::Input
        } else if token(item, K::OutputKw).is_some() {
            Role::Output
        } else {
            Role::Internal
        };
        let columns = child(item, K::Columns).filter(|_| !broken).map(|columns| {
            let columns = columns.children().filter(|node| node.kind() == K::Column);
            columns
                .filter_map(|column| Some((self.name(&column)?, self.type_ref(&child(&column, K::Type)?)?)))
                .collect()
        });
        let key = child(item, K::Key).filter(|_| !broken).map(|key| {
            tokens(&key).filter(|token| token.kind() == K::Ident).map(|token| self.ident(&token)).collect()
        });
        let docs = tokens(item).filter(|token| token.kind() == K::DocComment);
        let lines: Vec<String> = docs
            .map(|token| {
                let line = token.text().trim_start_matches('#');
                line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
            })
            .collect();
        self.out.tables.push(Table { role, name, columns, key, doc: lines.join("\n") });
    }

    fn type_ref(&self, node: &SyntaxNode) -> Found<TypeRef> {
        let name = self.name(node)?;
        let of = child(node, K::Type).and_then(|of| self.type_ref(&of)).map(Box::new);
        Some(TypeRef { name, of, span: self.span(node) })
    }

    fn rule(&mut self, node: &SyntaxNode) -> Found<Rule> {
        let negation = child(node, K::Negation);
        let negated_head =
            negation.as_ref().and_then(SyntaxNode::first_token).map(|token| self.span_of(&token));
        let head_node = child(negation.as_ref().unwrap_or(node), K::Call)?;
        let head = self.call(&head_node)?;
        let body_node = child(node, K::Body);
        let mut body = Vec::new();
        for item in body_node.iter().flat_map(SyntaxNode::children) {
            body.push(self.body_item(&item)?);
        }
        let mut fingerprint = Fingerprint::of(&head_node);
        // Sorted, so that the order of items does not show.
        let mut items: Vec<u64> = body.iter().map(|item: &Item| item.fingerprint).collect();
        items.sort_unstable();
        for item in items {
            fingerprint.add(&item.to_le_bytes());
        }
        let mut span = self.span(node);
        span.start = self.span(negation.as_ref().unwrap_or(&head_node)).start;
        Some(Rule {
            head,
            default: None,
            negated_head,
            is_fact: body_node.is_none(),
            body,
            span,
            fingerprint: fingerprint.finish(),
        })
    }

    fn body_item(&mut self, node: &SyntaxNode) -> Found<Item> {
        let kind = match node.kind() {
            K::Call => ItemKind::Atom(self.call(node)?),
            K::Binding => {
                let mut sides = node.children();
                let (left, right) = (sides.next()?, sides.next()?);
                ItemKind::Binding(self.expr(&left)?, self.expr(&right)?)
            }
            _ => ItemKind::Condition(self.expr(node)?),
        };
        Some(Item { kind, span: self.span(node), fingerprint: Fingerprint::of(node).finish() })
    }

    fn call(&mut self, node: &SyntaxNode) -> Found<Call> {
        let name = self.name(node)?;
        let list = child(node, K::Arguments)?;
        let mut arguments = Vec::new();
        for argument in list.children() {
            let value = self.expr(&argument.first_child()?)?;
            arguments.push(Argument { name: self.name(&argument), value });
        }
        let rest = token(&list, K::DotDot).map(|token| self.span_of(&token));
        Some(Call { name, arguments, rest, span: self.span(node) })
    }

    fn expr(&mut self, node: &SyntaxNode) -> Found<Expr> {
        let span = self.span(node);
        let mut operands = node.children();
        let kind = match node.kind() {
            K::Paren => return Some(Expr { kind: self.expr(&operands.next()?)?.kind, span }),
            K::Name => ExprKind::Name(node.first_token()?.text().to_owned()),
            K::Wildcard => ExprKind::Wildcard,
            K::Literal => self.literal(&node.first_token()?, false),
            K::Call => ExprKind::Call(self.call(node)?),
            K::Negative => {
                let operand = operands.next()?;
                match operand.first_token().filter(|token| token.kind() == K::Number) {
                    Some(number) if operand.kind() == K::Literal => self.literal(&number, true),
                    _ => ExprKind::Negative(Box::new(self.expr(&operand)?)),
                }
            }
            K::Negation => {
                let sign = self.span_of(&node.first_token()?);
                ExprKind::Negation(sign, Box::new(self.expr(&operands.next()?)?))
            }
            K::Binary => {
                let left = self.expr(&operands.next()?)?;
                let right = self.expr(&operands.next()?)?;
                let mut signs = tokens(node).filter(|token| !token.kind().is_trivia());
                let mut operator = self.ident(&signs.next()?);
                if let Some(second) = signs.next() {
                    operator.name.push_str(second.text());
                    operator.span.end = self.span_of(&second).end;
                }
                ExprKind::Binary(operator, Box::new(left), Box::new(right))
            }
            K::If => {
                let mut next = || self.expr(&operands.next()?).map(Box::new);
                ExprKind::If(next()?, next()?, next()?)
            }
            K::List => ExprKind::List(operands.map(|value| self.expr(&value)).collect::<Found<_>>()?),
            K::Set => ExprKind::Set(operands.map(|value| self.expr(&value)).collect::<Found<_>>()?),
            _ => return None,
        };
        Some(Expr { kind, span })
    }

    fn literal(&mut self, token: &SyntaxToken, negative: bool) -> ExprKind {
        match token.kind() {
            K::TrueKw => ExprKind::Bool(true),
            K::FalseKw => ExprKind::Bool(false),
            K::String => self.unquoted(token).map_or(ExprKind::Malformed, ExprKind::String),
            K::PrefixedString => {
                let (prefix, _) = token.text().split_once('"').unwrap_or_default();
                let text = self.unquoted(token);
                text.map_or(ExprKind::Malformed, |text| ExprKind::Prefixed(prefix.to_owned(), text))
            }
            _ => match number(token.text(), negative) {
                Ok(value) => ExprKind::Int(value),
                Err((message, help)) => {
                    self.out.errors.push((self.span_of(token), message, help.to_owned()));
                    ExprKind::Malformed
                }
            },
        }
    }

    /// The text of a string literal between its quotes, escapes resolved; `None` after a report.
    fn unquoted(&mut self, token: &SyntaxToken) -> Option<String> {
        let start = token.text().find('"').map_or(0, |at| at + 1);
        let inside = token.text()[start..].strip_suffix('"').unwrap_or_default();
        let text = nlog_data::literal::unescape(inside).map_err(|error| {
            let mut span = self.span_of(token);
            span.start += (start + error.at) as u32;
            span.end = span.start + 1;
            let message = "this escape stands for no character".to_owned();
            let help = "escapes are \\\" \\\\ \\n \\r \\t and \\u{1f}".to_owned();
            self.out.errors.push((span, message, help));
        });
        text.ok()
    }

    fn name(&self, node: &SyntaxNode) -> Found<Ident> {
        token(node, K::Ident).map(|token| self.ident(&token))
    }

    /// Notes a declaration whose name cannot be read: it is one of the first words, if there are any.
    fn nameless(&mut self, node: &SyntaxNode) {
        let tokens = node.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        let first =
            tokens.take_while(|token| !matches!(token.kind(), K::LParen | K::Eq | K::Colon | K::Semicolon));
        let before = self.out.perhaps.len();
        let names = first.filter(|token| token.kind() == K::Ident).map(|token| token.text().to_owned());
        self.out.perhaps.extend(names);
        self.out.nameless |= self.out.perhaps.len() == before;
    }

    fn ident(&self, token: &SyntaxToken) -> Ident {
        Ident { name: token.text().to_owned(), span: self.span_of(token) }
    }

    fn span(&self, node: &SyntaxNode) -> Span {
        let range = node.text_range();
        Span { file: self.file, start: range.start().into(), end: range.end().into() }
    }

    fn span_of(&self, token: &SyntaxToken) -> Span {
        let range = token.text_range();
        Span { file: self.file, start: range.start().into(), end: range.end().into() }
    }
}

fn child(node: &SyntaxNode, kind: K) -> Found<SyntaxNode> {
    node.children().find(|child| child.kind() == kind)
}

fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token)
}

fn token(node: &SyntaxNode, kind: K) -> Found<SyntaxToken> {
    tokens(node).find(|token| token.kind() == kind)
}

/// Whether a rule with a syntax error is one at all: it starts with a whole head.
fn has_head(rule: &SyntaxNode) -> bool {
    let head = child(rule, K::Call).and_then(|call| child(&call, K::Arguments));
    head.is_some_and(|arguments| token(&arguments, K::RParen).is_some())
}

fn is_expression(kind: K) -> bool {
    !matches!(kind, K::Type | K::Error)
}

/// Reads a decimal or hexadecimal number, or says what is wrong with it.
fn number(text: &str, negative: bool) -> Result<i64, (String, &'static str)> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        let message = format!("`{text}` is no number");
        return Err((message, "numbers are decimal (26) or hexadecimal (0x1a)"));
    }
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| {
        let message = format!("`{sign}{text}` does not fit an int");
        (message, "an int is from -9223372036854775808 to 9223372036854775807")
    })
}

/// FNV-1a over tokens without trivia, with a separator between them, finished by an avalanche so that it can be cut.
/// Commas before a closing bracket are left out: they are layout.
struct Fingerprint(u64);

impl Fingerprint {
    fn of(node: &SyntaxNode) -> Self {
        let mut fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);
        let mut comma = false;
        let all = node.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        for token in all.filter(|token| !token.kind().is_trivia()) {
            let closing = matches!(token.kind(), K::RParen | K::RBracket | K::RBrace);
            if comma && !closing {
                fingerprint.add(b",\0");
            }
            comma = token.kind() == K::Comma;
            if !comma {
                fingerprint.add(token.text().as_bytes());
                fingerprint.add(&[0]);
            }
        }
        fingerprint
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Never zero: zero is the cookie of flows that no rule made.
    fn finish(&self) -> u64 {
        // The 64-bit finaliser of MurmurHash3.
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (hash ^ (hash >> 33)).max(1)
    }
}
