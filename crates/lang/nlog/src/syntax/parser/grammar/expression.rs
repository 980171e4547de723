//! Values. Each function returns the height of what it built.

use super::super::{Parsed, Parser};
use super::{list, name};
use crate::limits::MAX_ELEMENTS;
use crate::syntax::SyntaxKind as K;

/// `(value, name: value, ..)`
pub(super) fn arguments(p: &mut Parser<'_>) -> Parsed<usize> {
    p.node(K::Arguments, |p| {
        p.bump();
        let mut height = 0;
        list(p, K::RParen, "a value", MAX_ELEMENTS, |p| {
            if p.eat(K::DotDot) {
                p.eat(K::Comma);
                return match p.current() {
                    K::RParen => Ok(()),
                    _ => p.unexpected("`)`", "write `..` last: it skips all remaining columns"),
                };
            }
            p.node(K::Argument, |p| {
                let names = p.current() == K::Ident || (p.in_actions && p.current().is_keyword());
                if names && p.kind(1) == K::Colon {
                    p.bump_as(K::Ident);
                    p.bump();
                }
                height = height.max(expression(p)?);
                Ok(())
            })
        })?;
        Ok(height + 1)
    })
}

/// The precedence of a binary operator, and its number of tokens. In order of increasing precedence: comparisons,
/// `++`, `|`, `^`, `&`, shifts, sums, products.
fn operator(p: &Parser<'_>) -> Option<(u8, usize)> {
    Some(match p.current() {
        K::Gt if p.at_joined(K::Gt, K::Gt) => (6, 2),
        K::EqEq | K::NotEq | K::Lt | K::LtEq | K::Gt | K::GtEq => (COMPARISON, 1),
        K::PlusPlus => (2, 1),
        K::Pipe => (3, 1),
        K::Caret => (4, 1),
        K::Amp => (5, 1),
        K::Shl => (6, 1),
        K::Plus | K::Minus => (7, 1),
        K::Star | K::Slash | K::Percent => (8, 1),
        _ => return None,
    })
}

const COMPARISON: u8 = 1;

/// A value. Returns its height.
pub(super) fn expression(p: &mut Parser<'_>) -> Parsed<usize> {
    p.nested(|p| binary(p, COMPARISON))
}

/// Operands joined by operators that bind at least as tightly as `least`.
fn binary(p: &mut Parser<'_>, least: u8) -> Parsed<usize> {
    let checkpoint = p.checkpoint();
    let mut height = operand(p)?;
    while let Some((binds, tokens)) = operator(p)
        && binds >= least
    {
        p.start_at(checkpoint, K::Binary);
        for _ in 0..tokens {
            p.bump();
        }
        let right = binary(p, binds + 1)?;
        p.finish();
        height = height.max(right) + 1;
        p.check_height(height)?;
        if binds == COMPARISON && operator(p).is_some_and(|(binds, _)| binds == COMPARISON) {
            return p
                .unexpected("`,` between two comparisons", "write `a < b, b < c` instead of `a < b < c`");
        }
    }
    Ok(height)
}

/// A value without binary operators around it: `value`, `value.field.field`
pub(super) fn operand(p: &mut Parser<'_>) -> Parsed<usize> {
    let checkpoint = p.checkpoint();
    let mut height = primary(p)?;
    // A full stop at the end of a sentence is followed by white space.
    while p.current() == K::Dot && p.is_joined(1) && (p.kind(1) == K::Ident || p.kind(1).is_keyword()) {
        p.start_at(checkpoint, K::Field);
        p.bump();
        name(p, "a field's name", "read a record field as `value.field`")?;
        p.finish();
        height += 1;
        p.check_height(height)?;
    }
    Ok(height)
}

/// A value without a following operator or field name.
fn primary(p: &mut Parser<'_>) -> Parsed<usize> {
    match p.current() {
        K::Number | K::String | K::PrefixedString | K::TrueKw | K::FalseKw => token_node(p, K::Literal),
        K::Underscore => token_node(p, K::Wildcard),
        K::OutputKw if p.in_actions && p.kind(1) == K::LParen => call(p),
        K::Ident => match (p.next_text(), p.kind(1)) {
            (_, K::LParen) => call(p),
            ("match", K::LBrace) => match_literal(p),
            ("actions", K::LBrace) => {
                p.bump();
                p.unexpected(
                    "`[`",
                    "write actions in brackets, match fields in braces: actions[output(port)]",
                )
            }
            (_, K::LBrace) => record(p),
            ("match", K::LBracket) => {
                p.bump();
                p.unexpected("`{`", "write match fields in braces, actions in brackets: match{in_port: port}")
            }
            ("actions", K::LBracket) => actions_literal(p),
            (_, K::LBracket) => p.node(K::Bits, |p| {
                p.bump();
                bit_range(p)?;
                Ok(1)
            }),
            _ => token_node(p, K::Name),
        },
        K::Minus => prefix(p, K::Negative),
        K::NotKw | K::Bang => prefix(p, K::Negation),
        K::LParen => p.node(K::Paren, |p| {
            p.bump();
            let height = expression(p)?;
            p.expect(K::RParen, "`)`", "close the bracket")?;
            Ok(height + 1)
        }),
        K::LBracket => sequence(p, K::List, K::RBracket),
        K::LBrace => sequence(p, K::Set, K::RBrace),
        K::IfKw => conditional(p),
        _ => p.unexpected(
            "a value",
            "a value is a literal, a variable, a function call, or an expression of these with operators",
        ),
    }
}

/// `name(arguments)`
fn call(p: &mut Parser<'_>) -> Parsed<usize> {
    p.node(K::Call, |p| {
        p.bump_as(K::Ident);
        arguments(p)
    })
}

/// `name{field: value, …}`
fn record(p: &mut Parser<'_>) -> Parsed<usize> {
    let help = "name the fields of a record: endpoint{host: h, ip: i}";
    p.node(K::Record, |p| {
        p.bump();
        p.bump();
        let mut height = 0;
        list(p, K::RBrace, "a field (`name: value`)", MAX_ELEMENTS, |p| {
            p.node(K::RecordField, |p| {
                name(p, "a field's name", help)?;
                p.expect(K::Colon, "`:` and the value of the field", help)?;
                height = height.max(expression(p)?);
                Ok(())
            })
        })?;
        Ok(height + 1)
    })
}

/// `match{field: value, keyword, …}`
fn match_literal(p: &mut Parser<'_>) -> Parsed<usize> {
    let help = "for example: match{tcp, ip_dst: net\"10.0.0.0/8\", reg0[0..15]: zone, reg2: 0x10/0x10}";
    p.node(K::Match, |p| {
        p.bump_as(K::MatchKw);
        p.bump();
        let mut height = 0;
        list(p, K::RBrace, "a field (`name: value`)", MAX_ELEMENTS, |p| {
            p.node(K::MatchTerm, |p| {
                name(p, "a field's name", help)?;
                if p.current() == K::LBracket {
                    bit_range(p)?;
                    if p.current() != K::Colon {
                        return p.unexpected("`:` and the value of these bits", help);
                    }
                }
                if matches!(p.current(), K::Eq | K::EqEq) {
                    return p.unexpected("`:` and the value of the field", help);
                }
                if p.eat(K::Colon) {
                    height = height.max(expression(p)?);
                }
                Ok(())
            })
        })?;
        Ok(height + 1)
    })
}

/// `actions[action, action(parameters), …]`
fn actions_literal(p: &mut Parser<'_>) -> Parsed<usize> {
    let outer = std::mem::replace(&mut p.in_actions, true);
    let height = p.node(K::Actions, |p| {
        p.bump_as(K::ActionsKw);
        elements(p, K::RBracket, "an action", MAX_ELEMENTS)
    });
    p.in_actions = outer;
    height
}

/// `[0..15]` or `[0]`
pub(super) fn bit_range(p: &mut Parser<'_>) -> Parsed {
    let help = "for bits of an OpenFlow field: reg0[0..15], reg0[7]; for an element of a list: element_at(list, rank)";
    p.node(K::BitRange, |p| {
        p.bump();
        p.expect(K::Number, "a bit's number", help)?;
        if p.eat(K::DotDot) {
            p.expect(K::Number, "the number of the last bit", help)?;
        }
        p.expect(K::RBracket, "`]`", help)
    })
}

fn token_node(p: &mut Parser<'_>, kind: K) -> Parsed<usize> {
    p.node(kind, |p| {
        p.bump();
        Ok(1)
    })
}

/// `-value`, `not value`, `!value`
fn prefix(p: &mut Parser<'_>, kind: K) -> Parsed<usize> {
    p.nested(|p| {
        p.node(kind, |p| {
            p.bump();
            Ok(operand(p)? + 1)
        })
    })
}

/// `[value, …]` or `{value, …}`
fn sequence(p: &mut Parser<'_>, kind: K, close: K) -> Parsed<usize> {
    p.node(kind, |p| elements(p, close, "a value", usize::MAX))
}

/// From an opening bracket to the closing one.
fn elements(p: &mut Parser<'_>, close: K, element_name: &str, most: usize) -> Parsed<usize> {
    p.bump();
    let mut height = 0;
    list(p, close, element_name, most, |p| {
        height = height.max(expression(p)?);
        Ok(())
    })?;
    Ok(height + 1)
}

/// `if condition then value else value`
fn conditional(p: &mut Parser<'_>) -> Parsed<usize> {
    let help = "a conditional needs both branches: if a == b then 1 else 2";
    p.node(K::If, |p| {
        p.bump();
        let condition = expression(p)?;
        p.expect(K::ThenKw, "`then`", help)?;
        let then = expression(p)?;
        p.expect(K::ElseKw, "`else`", help)?;
        let otherwise = expression(p)?;
        Ok(condition.max(then).max(otherwise) + 1)
    })
}
