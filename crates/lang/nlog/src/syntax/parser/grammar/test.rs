//! Tests.

use super::super::{Parsed, Parser};
use super::{call, expression};
use crate::limits::MAX_ELEMENTS;
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

/// What is given: rows, the objects of a file, or the host of a port.
fn given(p: &mut Parser<'_>) -> Parsed {
    match p.word(0) {
        Some("objects") => {
            let help = "for example: given objects \"three-tier.yaml\";";
            p.bump_as(K::ObjectsKw);
            p.expect(K::String, "the path of a file of objects in double quotes", help)?;
            p.expect(K::Semicolon, "`;`", help)
        }
        Some("port") => {
            let help = "for example: given port \"web-1\" on \"hv1\";";
            p.bump_as(K::PortKw);
            p.expect(K::String, "the id of a port in double quotes", help)?;
            word(p, "on", K::OnKw, "`on` and a host", help)?;
            p.expect(K::String, "the id of a host in double quotes", help)?;
            p.expect(K::Semicolon, "`;`", help)
        }
        _ => rows(p),
    }
}

/// A contextual word that must be here.
fn word(p: &mut Parser<'_>, text: &str, kind: K, wanted: &str, help: &str) -> Parsed {
    if p.word(0) != Some(text) {
        return p.unexpected(wanted, help);
    }
    p.bump_as(kind);
    Ok(())
}

/// `packet from "port" match{…} at "port", …;` or `packet from "port" match{…} nowhere;`
fn packet(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: expect packet from \"p1\" match{eth_dst: \"02:00:00:00:00:02\"} at \"p2\";";
    p.bump_as(K::PacketKw);
    word(p, "from", K::FromKw, "`from` and the sending port", help)?;
    p.expect(K::String, "the id of the sending port in double quotes", help)?;
    if matches!((p.word(0), p.kind(1)), (Some("at"), K::String) | (Some("nowhere"), K::Semicolon)) {
        return p.unexpected_here("a match with the fields of the packet", help);
    }
    expression(p)?;
    if p.word(0) == Some("nowhere") {
        p.bump_as(K::NowhereKw);
        return p.expect(K::Semicolon, "`;`", "for example: expect packet from \"p1\" match{…} nowhere;");
    }
    word(p, "at", K::AtKw, "`at` and the receiving ports, or `nowhere`", help)?;
    for number in 1.. {
        if number > MAX_ELEMENTS {
            return p.too_many(MAX_ELEMENTS);
        }
        p.expect(K::String, "the id of a receiving port in double quotes", help)?;
        if !p.eat(K::Comma) || p.current() == K::Semicolon {
            break;
        }
    }
    p.expect(K::Semicolon, "`,` or `;`", help)
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
        (Some("packet"), _) => packet(p),
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
