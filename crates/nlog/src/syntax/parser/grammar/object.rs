//! Kinds of objects.

use super::super::{Parsed, Parser};
use super::expression::expression;
use super::test::block;
use super::{list, name, type_name};
use crate::limits::MAX_ELEMENTS;
use crate::syntax::SyntaxKind as K;

/// `object name { fields }`
pub(super) fn object(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: object router { tenant: opt<string>; unique(tenant); }";
    p.bump_as(K::ObjectKw);
    name(p, "the name of a kind of object", help)?;
    p.expect(K::LBrace, "`{` and the fields of the object", help)?;
    block(
        p,
        "a field or `}`",
        "the fields are NAME: TYPE; after them, unique(…); and id_space NAME;",
        element,
    )
}

/// A field, or a property of the kind.
fn element(p: &mut Parser<'_>) -> Parsed {
    match (p.word(0), p.kind(1)) {
        (Some("unique"), K::LParen) => p.node(K::Unique, unique),
        (Some("id_space"), K::Ident) => p.node(K::IdSpace, |p| {
            p.bump_as(K::IdSpaceKw);
            p.bump();
            p.expect(K::Semicolon, "`;`", "for example: id_space port;")
        }),
        _ => p.documented(K::ObjectField, field),
    }
}

/// `name: type was name, … = value;`
fn field(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: encaps: list<encap> = [\"geneve\"];";
    name(p, "a field's name", help)?;
    p.expect(K::Colon, "`:` and the field's type", help)?;
    type_name(p)?;
    if p.word(0) == Some("was") {
        p.node(K::Was, |p| {
            let help = "name the field's former names: roles: list<role> was role;";
            p.bump_as(K::WasKw);
            name(p, "a former name of the field", help)?;
            while p.eat(K::Comma) {
                name(p, "a former name of the field", help)?;
            }
            Ok(())
        })?;
    }
    if p.eat(K::Eq) {
        expression(p)?;
    }
    p.expect(K::Semicolon, "`was`, `=` or `;`", "every field ends with `;`")
}

/// `unique(path, …);`
fn unique(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: unique(switch, addresses.mac);";
    p.bump_as(K::UniqueKw);
    p.bump();
    if p.current() == K::RParen {
        return p.unexpected("a field", "name what no two objects can share: unique(switch, addresses.mac)");
    }
    list(p, K::RParen, "a field", MAX_ELEMENTS, |p| {
        p.node(K::Path, |p| {
            name(p, "a field", help)?;
            while p.eat(K::Dot) {
                name(p, "a field", help)?;
            }
            Ok(())
        })
    })?;
    p.expect(K::Semicolon, "`;`", help)
}
