//! Tests.

use super::super::{Parsed, Parser};
use super::call;
use crate::syntax::SyntaxKind as K;

/// `test "name" { steps }`
pub(super) fn test(p: &mut Parser<'_>) -> Parsed {
    let help =
        "for example: test \"what is shown\" { given { vif(\"p1\", \"hv1\"); } expect located(\"p1\", ..); }";
    if p.current() == K::PrefixedString {
        return p.unexpected_here("a test", "write a space between `test` and the name of the test");
    }
    p.bump_as(K::TestKw);
    p.expect(K::String, "the name of the test in double quotes", help)?;
    p.expect(K::LBrace, "`{` and the steps of the test", help)?;
    block(p, "a step of the test or `}`", "the steps are given {…}, change {…} and expect …;", step)
}

/// Any number of `element`s, up to and including the closing brace.
pub(super) fn block(
    p: &mut Parser<'_>,
    wanted: &str,
    help: &str,
    element: impl Fn(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    loop {
        match p.current() {
            K::RBrace => {
                p.bump();
                return Ok(());
            }
            K::Ident => element(p)?,
            K::Semicolon => return p.unexpected(wanted, "remove the `;`: a `}` needs none"),
            kind if kind.starts_declaration() => {
                return p.unexpected(
                    wanted,
                    "write declarations outside tests: is a `}` missing before this one?",
                );
            }
            _ => return p.unexpected(wanted, help),
        }
    }
}

/// One step.
fn step(p: &mut Parser<'_>) -> Parsed {
    match p.word(0) {
        Some("given") => p.node(K::Given, |p| {
            p.bump_as(K::GivenKw);
            given(p)
        }),
        Some("change") => p.node(K::Change, |p| {
            p.bump_as(K::ChangeKw);
            changes(p)
        }),
        Some("expect") => p.node(K::Expect, |p| {
            p.bump_as(K::ExpectKw);
            expectation(p)
        }),
        _ if p.contextual_declaration().is_some() => p.unexpected(
            "a step of the test or `}`",
            "write declarations outside tests: is a `}` missing before this one?",
        ),
        _ => p.unexpected(
            "`given`, `change`, `expect` or `}`",
            "write rows inside a step: given { row; }, change { insert row; delete row; }, expect row;",
        ),
    }
}

/// What is given: rows, or the objects of a file.
fn given(p: &mut Parser<'_>) -> Parsed {
    if p.word(0) != Some("objects") {
        return rows(p);
    }
    let help = "for example: given objects \"three-tier.yaml\";";
    p.bump_as(K::ObjectsKw);
    p.expect(K::String, "the path of a file of objects in double quotes", help)?;
    p.expect(K::Semicolon, "`;`", help)
}

/// The expectation after `expect`. Before `(`, the contextual words are names of tables.
fn expectation(p: &mut Parser<'_>) -> Parsed {
    if matches!(p.current(), K::NotKw | K::Bang) {
        return p.unexpected_here("a row", "write `expect no row(…);`");
    }
    match (p.word(0), p.kind(1)) {
        (_, K::LParen) => row_and_semicolon(p),
        (Some("no"), _) => {
            p.bump_as(K::NoKw);
            row_and_semicolon(p)
        }
        (Some("exactly"), _) => {
            p.bump_as(K::ExactlyKw);
            rows(p)
        }
        (Some("delta"), _) => {
            p.bump_as(K::DeltaKw);
            changes(p)
        }
        (Some("error"), _) => {
            let help = "for example: expect error \"key-conflict\";";
            p.bump_as(K::ErrorKw);
            p.expect(K::String, "the error code in double quotes", help)?;
            p.expect(K::Semicolon, "`;`", help)
        }
        _ => row_and_semicolon(p),
    }
}

/// `{ row; … }`
fn rows(p: &mut Parser<'_>) -> Parsed {
    let help = "write rows in braces, each followed by `;`: { vif(\"p1\", \"hv1\"); }";
    p.expect(K::LBrace, "`{` and rows", help)?;
    block(p, "a row or `}`", help, |p| {
        if matches!((p.word(0), p.kind(1)), (Some("insert" | "delete"), K::Ident)) {
            return p.unexpected_here(
                "a row",
                "`insert` and `delete` are only valid in `change {…}` and `expect delta {…}`",
            );
        }
        p.node(K::Row, row_and_semicolon)
    })
}

/// `{ insert row; delete row; }`
fn changes(p: &mut Parser<'_>) -> Parsed {
    let help = "write `insert` or `delete` before each row: { insert vif(\"p1\", \"hv2\"); delete vif(\"p1\", \"hv1\"); }";
    p.expect(K::LBrace, "`{` and changes", help)?;
    block(p, "`insert`, `delete` or `}`", help, |p| {
        p.node(K::Row, |p| {
            match (p.word(0), p.kind(1)) {
                (Some("insert"), next) if next != K::LParen => p.bump_as(K::InsertKw),
                (Some("delete"), next) if next != K::LParen => p.bump_as(K::DeleteKw),
                _ if p.contextual_declaration().is_none() => {
                    return p.unexpected_here("`insert`, `delete` or `}`", help);
                }
                _ => {}
            }
            row_and_semicolon(p)
        })
    })
}

/// `row;`
fn row_and_semicolon(p: &mut Parser<'_>) -> Parsed {
    if p.contextual_declaration().is_some() {
        return p.unexpected(
            "a row or `}`",
            "write declarations outside tests: is a `}` missing before this one?",
        );
    }
    if let (Some(word @ ("given" | "change" | "expect")), K::LBrace | K::Ident) = (p.word(0), p.kind(1)) {
        let help = format!("`{word}` starts a new step: is a `}}` missing before it?");
        return p.unexpected_here("a row or `}`", &help);
    }
    call(p, "a row", "write a row as: vif(\"p1\", \"hv1\");")?;
    if p.current() == K::ColonMinus {
        return p.unexpected_here("`;`", "write rules outside tests: is a `}` missing before this one?");
    }
    p.expect(K::Semicolon, "`;`", "every row ends with `;`")
}
