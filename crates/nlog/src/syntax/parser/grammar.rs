//! The grammar. Each function parses what its comment shows; expressions return the height of what they built.

use super::{Parsed, Parser};
use crate::syntax::SyntaxKind as K;

/// `item*`
pub(super) fn file(p: &mut Parser<'_>) {
    while p.current() != K::Eof {
        match p.current() {
            K::InputKw | K::OutputKw | K::TableKw => p.item(K::Table, table),
            K::ImportKw => p.item(K::Import, import),
            K::ConstKw => p.item(K::Const, constant),
            _ => p.item(K::Rule, rule),
        }
    }
}

/// `import "path";`
fn import(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    p.expect(K::String, "a path in double quotes", "for example: import \"physical/common.nlog\";")?;
    p.semicolon("`;`")
}

/// `const NAME = value;` or `const NAME: type = value;`
fn constant(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: const L2 = 20;";
    p.bump();
    name(p, "the constant's name", help)?;
    if p.eat(K::Colon) {
        type_of_column(p)?;
    }
    p.expect(K::Eq, "`=`", help)?;
    expression(p)?;
    p.semicolon("`;`")
}

/// `input table name(column: type, …) key(column, …);`
fn table(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: input table log_port(lport: string, ldp: string) key(lport);";
    if !p.eat(K::InputKw) {
        p.eat(K::OutputKw);
    }
    p.expect(K::TableKw, "`table`", help)?;
    name(p, "the table's name", help)?;
    p.node(K::Columns, |p| {
        p.expect(K::LParen, "`(` and the table's columns", help)?;
        list(p, K::RParen, "a column (`name: type`)", |p| {
            p.node(K::Column, |p| {
                name(p, "a column's name", help)?;
                p.expect(K::Colon, "`:` and the column's type", help)?;
                type_of_column(p)
            })
        })
    })?;
    if p.current() == K::KeyKw {
        p.node(K::Key, |p| {
            p.bump();
            p.expect(K::LParen, "`(` and the key's columns", "for example: key(lport)")?;
            if p.current() == K::RParen {
                return p.unexpected("a column of the table", "a key names at least one column");
            }
            list(p, K::RParen, "a column of the table", |p| {
                name(p, "a column of the table", "for example: key(lport)")
            })
        })?;
        return p.semicolon("`;`");
    }
    p.semicolon("`key(…)` or `;`")
}

/// `int` or `set<string>`
fn type_of_column(p: &mut Parser<'_>) -> Parsed {
    p.node(K::Type, |p| {
        name(p, "a type", "types are bool, int, string, mac, ip, net, match, actions, set<…> and list<…>")?;
        if p.eat(K::Lt) {
            p.nested(type_of_column)?;
            p.expect(K::Gt, "`>`", "a set or list has one type in angle brackets: set<string>")?;
        }
        Ok(())
    })
}

/// `head :- item, …;` or `head;`
fn rule(p: &mut Parser<'_>) -> Parsed {
    let help = "a rule looks like this: head(x) :- first(x, y), second(y);";
    if matches!(p.current(), K::NotKw | K::Bang) {
        p.node(K::Negation, |p| {
            p.bump();
            call(p, help)
        })?;
    } else {
        call(p, help)?;
    }
    if p.eat(K::ColonMinus) {
        p.node(K::Body, |p| {
            loop {
                body_item(p)?;
                if !p.eat(K::Comma) || p.current() == K::Semicolon {
                    return Ok(());
                }
            }
        })?;
        return p.semicolon("`,` or `;`");
    }
    p.semicolon("`:-` or `;`")
}

/// `name(arguments)` where nothing else may stand.
fn call(p: &mut Parser<'_>, help: &str) -> Parsed {
    if p.current() == K::Semicolon {
        return p.unexpected("a declaration or a rule", "remove the `;`: nothing stands before it");
    }
    if p.current() != K::Ident {
        return p.unexpected("a declaration or a rule", help);
    }
    p.node(K::Call, |p| {
        p.bump();
        if p.current() != K::LParen {
            return p.unexpected("`(`", help);
        }
        arguments(p).map(drop)
    })
}

/// An atom, a condition, or `name = value`.
fn body_item(p: &mut Parser<'_>) -> Parsed {
    let checkpoint = p.checkpoint();
    if matches!(p.current(), K::Semicolon | K::Eof) {
        return p.unexpected(
            "an atom or a condition",
            "a body has at least one item; a rule without a body has no `:-`",
        );
    }
    expression(p)?;
    if p.current() == K::Eq {
        p.start_at(checkpoint, K::Binding);
        p.bump();
        expression(p)?;
        p.finish();
    }
    Ok(())
}

fn name(p: &mut Parser<'_>, wanted: &str, help: &str) -> Parsed {
    if p.current().is_keyword() {
        let help = "reserved words cannot be names; choose another";
        return if p.at_evident_start() {
            p.unexpected(wanted, help)
        } else {
            p.unexpected_here(wanted, help)
        };
    }
    p.expect(K::Ident, wanted, help)
}

/// `element, …` up to and with the closing bracket; a comma may follow the last element.
fn list(
    p: &mut Parser<'_>,
    close: K,
    element_name: &str,
    mut element: impl FnMut(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    let bracket = match close {
        K::RParen => "`)`",
        K::RBracket => "`]`",
        _ => "`}`",
    };
    loop {
        if p.eat(close) {
            return Ok(());
        }
        if matches!(p.current(), K::Semicolon | K::Eof) {
            return p.unexpected(&format!("{element_name} or {bracket}"), "close the bracket");
        }
        element(p)?;
        if !p.eat(K::Comma) {
            return p.expect(close, &format!("`,` or {bracket}"), "elements of a list are separated by `,`");
        }
    }
}

/// `(value, name: value, ..)`
fn arguments(p: &mut Parser<'_>) -> Parsed<usize> {
    p.node(K::Arguments, |p| {
        p.bump();
        let mut height = 0;
        list(p, K::RParen, "a value", |p| {
            if p.eat(K::DotDot) {
                p.eat(K::Comma);
                return match p.current() {
                    K::RParen => Ok(()),
                    _ => p.unexpected("`)`", "`..` stands last: it skips all columns that are not named"),
                };
            }
            p.node(K::Argument, |p| {
                if p.current() == K::Ident && p.kind(1) == K::Colon {
                    p.bump();
                    p.bump();
                }
                height = height.max(expression(p)?);
                Ok(())
            })
        })?;
        Ok(height + 1)
    })
}

/// How tightly a binary operator binds, and how many tokens it is. Loosest first: comparisons, `++`, `|`, `^`, `&`,
/// shifts, sums, products.
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
fn expression(p: &mut Parser<'_>) -> Parsed<usize> {
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

/// A value without binary operators around it.
fn operand(p: &mut Parser<'_>) -> Parsed<usize> {
    match p.current() {
        K::Number | K::String | K::PrefixedString | K::TrueKw | K::FalseKw => token_node(p, K::Literal),
        K::Underscore => token_node(p, K::Wildcard),
        K::Ident if p.kind(1) == K::LParen => p.node(K::Call, |p| {
            p.bump();
            arguments(p)
        }),
        K::Ident => token_node(p, K::Name),
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
            "a value is a literal, a variable, a function of values, or these joined by operators",
        ),
    }
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
    p.node(kind, |p| {
        p.bump();
        let mut height = 0;
        list(p, close, "a value", |p| {
            height = height.max(expression(p)?);
            Ok(())
        })?;
        Ok(height + 1)
    })
}

/// `if condition then value else value`
fn conditional(p: &mut Parser<'_>) -> Parsed<usize> {
    let help = "a conditional has both branches: if a == b then 1 else 2";
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
