//! Values.

use openflow_rs::literal::ActionInfo;

use super::{Found, Lowering, child, token, tokens};
use crate::syntax::ast::{Argument, Call, Expr, ExprKind, MatchTerm};
use crate::syntax::{SyntaxKind as K, SyntaxNode, SyntaxToken};

/// Whether the node is a value with its mask: a division outside brackets that is the value of a match's field or
/// an argument of an action.
pub(crate) fn is_mask(node: &SyntaxNode) -> bool {
    let divides =
        |node: &SyntaxNode| node.kind() == K::Binary && tokens(node).any(|token| token.kind() == K::Slash);
    divides(node)
        && node.parent().is_some_and(|parent| match parent.kind() {
            K::MatchTerm => true,
            K::Argument => parent.ancestors().nth(2).is_some_and(|call| is_action(&call)),
            _ => false,
        })
}

/// Whether the call is an action, not a function.
fn is_action(call: &SyntaxNode) -> bool {
    let Some(parent) = call.parent() else { return false };
    match parent.kind() {
        K::Actions => true,
        K::Argument => parent.ancestors().nth(2).is_some_and(|outer| {
            let name = token(&outer, K::Ident);
            name.is_some_and(|name| ActionInfo::nests(name.text())) && is_action(&outer)
        }),
        _ => false,
    }
}

impl Lowering {
    pub(super) fn call(&mut self, node: &SyntaxNode) -> Found<Call> {
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

    fn match_term(&mut self, node: &SyntaxNode) -> Found<MatchTerm> {
        let bits = child(node, K::BitRange).and_then(|bits| self.bit_range(&bits));
        let value = node.children().find(|child| child.kind() != K::BitRange);
        let value = match value {
            Some(value) => Some(self.expr(&value)?),
            None => None,
        };
        Some(MatchTerm { name: self.name(node)?, bits, value, span: self.span(node) })
    }

    /// The first and last bit; `None` after a report.
    pub(super) fn bit_range(&mut self, node: &SyntaxNode) -> Option<(u16, u16)> {
        let mut bits = Vec::new();
        for token in tokens(node).filter(|token| token.kind() == K::Number) {
            let bit = number(token.text(), false).ok().and_then(|bit| u16::try_from(bit).ok());
            if bit.is_none() {
                let message = format!("`{}` is not a bit number", token.text());
                let help = "bits are numbered from 0, the least significant bit: reg0[0..15]".to_owned();
                self.out.errors.push((self.span_of(&token), message, help));
            }
            bits.push(bit);
        }
        let first = bits.first().copied()??;
        let last = bits.last().copied()??;
        if first > last {
            let message = format!("the last bit, {last}, comes before the first, {first}");
            let help = format!("write the lower one first: [{last}..{first}]");
            self.out.errors.push((self.span(node), message, help));
            return None;
        }
        Some((first, last))
    }

    pub(super) fn expr(&mut self, node: &SyntaxNode) -> Found<Expr> {
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
            K::Binary if is_mask(node) => {
                let value = self.expr(&operands.next()?)?;
                ExprKind::Masked(Box::new(value), Box::new(self.expr(&operands.next()?)?))
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
            K::Record => {
                let fields = operands.filter(|field| field.kind() == K::RecordField);
                let fields =
                    fields.map(|field| Some((self.name(&field)?, self.expr(&field.first_child()?)?)));
                let fields = fields.collect::<Found<_>>()?;
                ExprKind::Record(self.name(node)?, fields)
            }
            K::Field => ExprKind::Field(Box::new(self.expr(&operands.next()?)?), self.name(node)?),
            K::Match => ExprKind::Match(operands.map(|term| self.match_term(&term)).collect::<Found<_>>()?),
            K::Actions => ExprKind::Actions(operands.map(|action| self.expr(&action)).collect::<Found<_>>()?),
            K::Bits => match self.bit_range(&operands.next()?) {
                Some((first, last)) => ExprKind::Bits(self.name(node)?, first, last),
                None => ExprKind::Malformed,
            },
            _ => return None,
        };
        Some(Expr { kind, span })
    }

    pub(super) fn literal(&mut self, token: &SyntaxToken, negative: bool) -> ExprKind {
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
    pub(super) fn unquoted(&mut self, token: &SyntaxToken) -> Option<String> {
        let start = token.text().find('"').map_or(0, |at| at + 1);
        let inside = token.text()[start..].strip_suffix('"').unwrap_or_default();
        let text = nlog_data::literal::unescape(inside).map_err(|error| {
            let mut span = self.span_of(token);
            span.start += (start + error.at) as u32;
            span.end = span.start + 1;
            let message = "unknown escape sequence".to_owned();
            let help = "the escape sequences are \\\" \\\\ \\n \\r \\t and \\u{1f}".to_owned();
            self.out.errors.push((span, message, help));
        });
        text.ok()
    }
}

/// Reads a decimal or hexadecimal number, or returns the mistake in it.
fn number(text: &str, negative: bool) -> Result<i64, (String, &'static str)> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        let message = format!("`{text}` is not a number");
        return Err((message, "write numbers in decimal (26) or hexadecimal (0x1a)"));
    }
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| {
        let message = format!("`{sign}{text}` does not fit in an int");
        (message, "an int ranges from -9223372036854775808 to 9223372036854775807")
    })
}
