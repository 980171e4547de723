//! Kinds of objects.

use super::super::{Parsed, Parser};
use super::expression::expression;
use super::{list, name, type_name};
use crate::limits::MAX_ELEMENTS;
use crate::syntax::SyntaxKind as K;

/// `object name { fields }`
pub(super) fn object(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: object router { tenant: opt<string>; unique(tenant); }";
    p.bump_as(K::ObjectKw);
    name(p, "the name of a kind of object", help)?;
    p.expect(K::LBrace, "`{` and the fields of the object", help)?;
    for number in 1.. {
        if p.eat(K::RBrace) {
            break;
        }
        if number > MAX_ELEMENTS {
            return p.too_many(MAX_ELEMENTS);
        }
        element(p)?;
    }
    Ok(())
}

/// A field, or a property of the kind.
fn element(p: &mut Parser<'_>) -> Parsed {
    let wanted = "a field or `}`";
    let is_field = p.kind(1) == K::Colon;
    if !is_field && (p.current().starts_declaration() || p.contextual_declaration().is_some()) {
        let help = "write declarations outside objects: is a `}` missing before this one?";
        return p.unexpected(wanted, help);
    }
    match p.word(0) {
        Some("unique") if !is_field => p.node(K::Unique, unique),
        Some("id_space") if !is_field => p.node(K::IdSpace, |p| {
            let help = "for example: id_space port;";
            p.bump_as(K::IdSpaceKw);
            name(p, "the name of an id space", help)?;
            p.expect(K::Semicolon, "`;`", help)
        }),
        Some(_) if p.kind(1) == K::LParen => {
            p.unexpected(wanted, "write rules outside objects: is a `}` missing before this one?")
        }
        None if p.current() == K::Semicolon => p.unexpected(wanted, "remove the `;`"),
        None if !is_field || !p.current().is_keyword() => p.unexpected(
            wanted,
            "an object has fields (`mtu: int = 1500;`), `unique(…);` and `id_space NAME;`",
        ),
        _ => p.documented(K::ObjectField, field),
    }
}

/// `name: type was name, … = value;`
fn field(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: encaps: list<encap> = [\"geneve\"];";
    name(p, "a field's name", help)?;
    p.expect(K::Colon, "`:` and the field's type", help)?;
    type_name(p)?;
    let mut wanted = "`was`, `=` or `;`";
    if p.word(0) == Some("was") {
        p.node(K::Was, was)?;
        wanted = "`,`, `=` or `;`";
    }
    if p.eat(K::Eq) {
        expression(p)?;
        wanted = "`;`";
    }
    let help = match p.word(0) {
        Some("was") => "write former names before the default: roles: list<role> was role = [];",
        Some("default") => "write a default after `=`: mtu: int = 1500;",
        _ => "every field ends with `;`",
    };
    p.expect(K::Semicolon, wanted, help)
}

/// `was name, …`
fn was(p: &mut Parser<'_>) -> Parsed {
    let help = "name the field's former names: roles: list<role> was role;";
    p.bump_as(K::WasKw);
    for number in 1.. {
        if number > MAX_ELEMENTS {
            return p.too_many(MAX_ELEMENTS);
        }
        name(p, "a former name of the field", help)?;
        if !p.eat(K::Comma) {
            break;
        }
    }
    Ok(())
}

/// `unique(path, …);`
fn unique(p: &mut Parser<'_>) -> Parsed {
    let help = "name the fields that no two objects can share: unique(switch, addresses.mac);";
    p.bump_as(K::UniqueKw);
    p.expect(K::LParen, "`(`", help)?;
    if p.current() == K::RParen {
        return p.unexpected("a field", help);
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
    p.expect(K::Semicolon, "`;`", "`unique(…)` ends with `;`")
}
