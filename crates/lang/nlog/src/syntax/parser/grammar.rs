//! The grammar. Each function parses the production in its comment.

mod expression;
mod object;
mod pipeline;
mod test;

use super::{Parsed, Parser};
use crate::limits::{MAX_ELEMENTS, MAX_UNIQUES};
use crate::syntax::SyntaxKind as K;
use expression::{arguments, expression, operand};

/// `item*`
pub(super) fn file(p: &mut Parser<'_>) {
    while p.current() != K::Eof {
        match p.current() {
            K::InputKw | K::OutputKw | K::TableKw => p.item(K::Table, table),
            K::ImportKw => p.item(K::Import, import),
            K::ConstKw => p.item(K::Const, constant),
            K::PrefixedString if p.next_text().starts_with("test\"") => p.item(K::Test, test::test),
            _ => match p.contextual_declaration() {
                Some(K::TypeDeclaration) => p.item(K::TypeDeclaration, type_declaration),
                Some(K::Function) => p.item(K::Function, function),
                Some(K::Test) => p.item(K::Test, test::test),
                Some(K::Table) => p.item(K::Table, table),
                Some(K::Object) => p.item(K::Object, object::object),
                Some(K::FieldDeclaration) => p.item(K::FieldDeclaration, pipeline::field),
                Some(K::StageDeclaration) => p.item(K::StageDeclaration, pipeline::stage),
                Some(K::PriorityDeclaration) => p.item(K::PriorityDeclaration, pipeline::priority),
                Some(K::ReserveDeclaration) => p.item(K::ReserveDeclaration, pipeline::reserve),
                Some(_) => p.item(K::Rule, default_rule),
                None => match p.spoilt_block() {
                    Some(K::Object) => p.item(K::Object, object::object),
                    Some(_) => p.item(K::Test, test::test),
                    None => p.item(K::Rule, rule),
                },
            },
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
        type_name(p)?;
    }
    p.expect(K::Eq, "`=`", help)?;
    expression(p)?;
    p.semicolon("`;`")
}

/// `type NAME = enum {…};`, `type NAME = record {…};` or `type NAME = other …;`
fn type_declaration(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: type encap = enum {geneve, vxlan};";
    p.bump_as(K::TypeKw);
    name(p, "the type's name", help)?;
    p.expect(K::Eq, "`=`", help)?;
    match (p.word(0), p.kind(1)) {
        (Some("enum"), K::LBrace) => p.node(K::EnumType, enumeration)?,
        (Some("record"), K::LBrace) => p.node(K::RecordType, record)?,
        (Some("enum" | "record"), next) if next != K::Semicolon => {
            p.bump();
            return p.unexpected(
                "`{`",
                "write members and fields in braces: enum {geneve, vxlan}, record {host: string, ip: ip}",
            );
        }
        _ => {
            type_name(p)?;
            return constraint(p);
        }
    }
    p.semicolon("`;`")
}

/// `least..greatest` and any number of `where condition else "text"`, up to and including the semicolon.
fn constraint(p: &mut Parser<'_>) -> Parsed {
    let is_where = |p: &Parser<'_>| p.word(0) == Some("where") && p.kind(1) != K::DotDot;
    let begins_bound = matches!(p.current(), K::Number | K::Minus | K::Ident | K::LParen);
    let range = begins_bound && !is_where(p) && !p.at_evident_start();
    if range {
        let help = "for example: type vlan = int 1..4094;";
        p.node(K::Range, |p| {
            bound(p)?;
            p.expect(K::DotDot, "`..` and the greatest value", help)?;
            bound(p)
        })?;
    }
    let mut conditions = false;
    while is_where(p) {
        conditions = true;
        p.node(K::Where, |p| {
            p.bump_as(K::WhereKw);
            expression(p)?;
            if p.eat(K::ElseKw) {
                let help = "for example: type even = int where value % 2 == 0 else \"must be even\";";
                p.expect(K::String, "a text in double quotes", help)?;
            }
            Ok(())
        })?;
    }
    p.semicolon(if range || conditions { "`where` or `;`" } else { "`;`" })
}

/// A number, a constant, or an expression in brackets.
fn bound(p: &mut Parser<'_>) -> Parsed {
    let token = |p: &mut Parser<'_>| {
        p.bump();
        Ok(())
    };
    match (p.current(), p.kind(1)) {
        (K::Number, _) => p.node(K::Literal, token),
        (K::Ident, _) => p.node(K::Name, token),
        (K::LParen, _) | (K::Minus, K::Number) => operand(p).map(drop),
        _ => p.unexpected("a bound of the range", "write a number, a constant, or an expression in brackets"),
    }
}

/// `enum {member, "other member"}`
fn enumeration(p: &mut Parser<'_>) -> Parsed {
    p.bump_as(K::EnumKw);
    p.bump();
    if p.current() == K::RBrace {
        return p.unexpected("a member", "an enumeration needs at least one member: enum {geneve, vxlan}");
    }
    list(p, K::RBrace, "a member", MAX_ELEMENTS, |p| {
        if p.current().is_keyword() && !p.at_evident_start() {
            let help = format!("write it in double quotes: \"{}\"", p.next_text());
            return p.unexpected_here("a member", &help);
        }
        if !matches!(p.current(), K::Ident | K::String) {
            return p
                .unexpected("a member", "a member is a name, or a string if its text is not a valid name");
        }
        p.node(K::Member, |p| {
            p.bump();
            Ok(())
        })
    })
}

/// `record {name: type, …}`
fn record(p: &mut Parser<'_>) -> Parsed {
    p.bump_as(K::RecordKw);
    p.bump();
    if p.current() == K::RBrace {
        return p.unexpected("a field", "a record needs at least one field: record {host: string}");
    }
    columns(p, K::RBrace, "field", "for example: type endpoint = record {host: string, ip: ip};")
}

/// `function name(parameter: type, …) -> type = value;`
fn function(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: function next_hop(dp: int, port: int) -> int = dp * 256 + port;";
    p.bump_as(K::FunctionKw);
    name(p, "the function's name", help)?;
    p.node(K::Parameters, |p| {
        p.expect(K::LParen, "`(` and the parameters of the function", help)?;
        columns(p, K::RParen, "parameter", help)
    })?;
    p.expect(K::Arrow, "`->` and the result type of the function", help)?;
    type_name(p)?;
    p.expect(K::Eq, "`=` and the body of the function", help)?;
    expression(p)?;
    p.semicolon("`;`")
}

/// `input table name(column: type, …) key(column, …) unique(column, …) from hook(table, …);`, with `input`, `output`, `forbid`, `state`, `listing`,
/// `counter` or none of them before `table`.
fn table(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: input table log_port(lport: string, ldp: string) key(lport);";
    match p.word(0) {
        Some("forbid") => p.bump_as(K::ForbidKw),
        Some("state") => p.bump_as(K::StateKw),
        Some("listing") => p.bump_as(K::ListingKw),
        Some("counter") => p.bump_as(K::CounterKw),
        _ => {
            if !p.eat(K::InputKw) {
                p.eat(K::OutputKw);
            }
        }
    }
    p.expect(K::TableKw, "`table`", help)?;
    name(p, "the table's name", help)?;
    p.node(K::Columns, |p| {
        p.expect(K::LParen, "`(` and the columns of the table", help)?;
        columns(p, K::RParen, "column", help)
    })?;
    let keyed = keys(p)?;
    // As the head of a rule, it follows a missing semicolon.
    if p.word(0) == Some("from") && !p.at_evident_start() {
        p.node(K::Hook, hook)?;
        if p.current() == K::KeyKw && !keyed {
            return p.unexpected_here("`;`", "write the key before `from`");
        }
        if p.at_unique_columns() {
            return p.unexpected_here("`;`", "write `unique(…)` before `from`");
        }
        return p.semicolon("`;`");
    }
    let reads = p.word(0) == Some("reads") && !p.at_evident_start();
    if reads {
        p.node(K::Reads, reading)?;
    }
    let otherwise = p.current() == K::ElseKw;
    if otherwise {
        p.node(K::Otherwise, |p| {
            p.bump();
            let help = "for example: else \"the router has no routes\"";
            p.expect(K::String, "a text in double quotes", help)
        })?;
    }
    p.semicolon(if keyed || reads || otherwise { "`;`" } else { "`key(…)` or `;`" })
}

/// `key(column, …) unique(column, …)`: whether one of them is there.
fn keys(p: &mut Parser<'_>) -> Parsed<bool> {
    let column = "a column of the table";
    let keyed = p.current() == K::KeyKw;
    if keyed {
        p.node(K::Key, |p| {
            p.bump();
            p.expect(K::LParen, "`(` and the columns of the key", "for example: key(lport)")?;
            if p.current() == K::RParen {
                return p.unexpected(column, "a key needs at least one column");
            }
            list(p, K::RParen, column, MAX_ELEMENTS, |p| name(p, column, "for example: key(lport)"))
        })?;
    }
    let mut uniques = 0;
    while p.at_unique_columns() {
        uniques += 1;
        if uniques > MAX_UNIQUES {
            let help = format!("a table has at most {MAX_UNIQUES} `unique(…)`");
            return p.unexpected_here("`;`", &help);
        }
        p.node(K::Unique, |p| {
            let help = "name the columns that no two rows share: unique(host, tunnel_port)";
            p.bump_as(K::UniqueKw);
            p.expect(K::LParen, "`(` and columns of the table", help)?;
            if p.current() == K::RParen {
                return p.unexpected(column, help);
            }
            list(p, K::RParen, column, MAX_ELEMENTS, |p| name(p, column, help))
        })?;
    }
    if uniques > 0 && p.current() == K::KeyKw && !keyed {
        return p.unexpected_here("`;`", "write the key before `unique`");
    }
    Ok(keyed || uniques > 0)
}

/// `reads meter(host, meter) on table as (name: counted of column, …)`
fn reading(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: reads meter(host, meter) as (frames: packets, dropped: dropped)";
    p.bump_as(K::ReadsKw);
    name(p, "the thing that counts (`meter`, `flow` or `learned`)", help)?;
    p.expect(K::LParen, "`(` and the columns that name it", help)?;
    list(p, K::RParen, "a column of the table", MAX_ELEMENTS, |p| name(p, "a column of the table", help))?;
    if p.word(0) == Some("on") {
        p.bump_as(K::OnKw);
        name(p, "the table of the hosts to ask", help)?;
    }
    if p.word(0) != Some("as") {
        return p.unexpected("`as` and the names of the counts", help);
    }
    p.bump_as(K::AsKw);
    p.expect(K::LParen, "`(` and the names of the counts", help)?;
    list(p, K::RParen, "a count (`name: packets`)", MAX_ELEMENTS, |p| {
        p.node(K::Count, |p| {
            name(p, "the name of a count", help)?;
            p.expect(K::Colon, "`:` and the count", help)?;
            name(p, "a count (`packets`, `bytes`, `dropped`, `entries` or `eth_dst`)", help)?;
            if p.word(0) == Some("of") {
                p.bump_as(K::OfKw);
                name(p, "the column with the greatest value of the count", help)?;
            }
            Ok(())
        })
    })
}

/// `from hook(table, setting: value, …)`
fn hook(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: from hysteresis(up, rise: 1000, fall: 500)";
    p.bump_as(K::FromKw);
    name(p, "the name of a hook", help)?;
    p.expect(K::LParen, "`(` and the table that the hook reads", help)?;
    name(p, "the table that the hook reads", help)?;
    if !p.eat(K::Comma) {
        return p.expect(K::RParen, "`,` or `)`", help);
    }
    list(p, K::RParen, "a setting (`name: value`)", MAX_ELEMENTS, |p| {
        p.node(K::Setting, |p| {
            name(p, "a setting's name", help)?;
            p.expect(K::Colon, "`:` and the setting's value", help)?;
            expression(p).map(drop)
        })
    })
}

/// `name: type, …` up to and including the closing bracket. `what` names the elements in messages.
fn columns(p: &mut Parser<'_>, close: K, what: &str, help: &str) -> Parsed {
    list(p, close, &format!("a {what} (`name: type`)"), MAX_ELEMENTS, |p| {
        p.node(K::Column, |p| {
            name(p, &format!("a {what}'s name"), help)?;
            p.expect(K::Colon, &format!("`:` and the {what}'s type"), help)?;
            type_name(p)
        })
    })
}

/// `int`, `set<string>` or `ref switch | router`
fn type_name(p: &mut Parser<'_>) -> Parsed {
    p.node(K::Type, |p| {
        // `ref where …` and `ref was name` continue after a type of this name.
        let named = |next| next == "where" || next == "was" && p.word(2).is_some();
        if p.word(0) == Some("ref") && p.word(1).is_some_and(|next| !named(next)) {
            p.bump_as(K::RefKw);
            p.bump();
            for number in 2.. {
                if !p.eat(K::Pipe) {
                    break;
                }
                if number > MAX_ELEMENTS {
                    return p.too_many(MAX_ELEMENTS);
                }
                name(p, "a kind of object", "for example: ref switch | router")?;
            }
            return Ok(());
        }
        let container = p.word(0);
        name(
            p,
            "a type",
            "the types are bool, int, string, mac, ip, net, interface_address, match, actions, \
            packet_filter, set<…>, list<…>, opt<…>, map<…>, choice<…>, ref KIND and declared types",
        )?;
        if p.eat(K::Lt) {
            p.nested(type_name)?;
            let help = match container {
                _ if p.current() == K::GtEq => "write a space between `>` and `=`",
                Some("choice") => "name a record of alternatives: type target = record {ip: opt<ip>, name: opt<string>}; choice<target>",
                Some("map") => "name a record of a key and a value: type pair = record {network: string, bridge: string}; map<pair>",
                _ => "write the element type of a set or list in angle brackets: set<string>",
            };
            p.expect(K::Gt, "`>`", help)?;
        }
        Ok(())
    })
}

/// `default` and a rule.
fn default_rule(p: &mut Parser<'_>) -> Parsed {
    p.bump_as(K::DefaultKw);
    rule(p)
}

/// `head :- item, …;` or `head;`
fn rule(p: &mut Parser<'_>) -> Parsed {
    let help = "write a rule as: head(x) :- first(x, y), second(y);";
    if p.word(0) == Some("default") && p.kind(1) == K::TableKw {
        p.bump();
        let help = "write `default` before a rule, as in default head(key, 0) :- body(key); declare its \
        table separately";
        return p.unexpected_here("a rule's head", help);
    }
    if matches!(p.current(), K::NotKw | K::Bang) {
        p.node(K::Negation, |p| {
            p.bump();
            call(p, "a declaration or a rule", help)
        })?;
    } else {
        call(p, "a declaration or a rule", help)?;
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

/// `name(arguments)`; `wanted` names the expected item in messages.
fn call(p: &mut Parser<'_>, wanted: &str, help: &str) -> Parsed {
    if p.current() == K::Semicolon && !p.in_item() {
        return p.unexpected(wanted, "remove this `;`: there is no declaration or rule before it");
    }
    if p.current() != K::Ident {
        return p.unexpected(wanted, help);
    }
    if let (Some(word @ ("enum" | "record")), K::Ident) = (p.word(0), p.kind(1)) {
        return p.unexpected_here(wanted, &format!("declare a type as: type name = {word} {{…}};"));
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
            "a body needs at least one item; write a rule without a body without `:-`",
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
        let help = "a reserved word cannot be a name; choose another name";
        return if p.at_evident_start() {
            p.unexpected(wanted, help)
        } else {
            p.unexpected_here(wanted, help)
        };
    }
    p.expect(K::Ident, wanted, help)
}

/// `element, …` up to and including the closing bracket, at most so many; a comma may follow the last element.
fn list(
    p: &mut Parser<'_>,
    close: K,
    element_name: &str,
    most: usize,
    mut element: impl FnMut(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    let bracket = match close {
        K::RParen => "`)`",
        K::RBracket => "`]`",
        _ => "`}`",
    };
    for number in 1.. {
        if p.eat(close) {
            return Ok(());
        }
        if matches!(p.current(), K::Semicolon | K::Eof) {
            return p.unexpected(&format!("{element_name} or {bracket}"), "close the bracket");
        }
        if number > most {
            return p.too_many(most);
        }
        element(p)?;
        if !p.eat(K::Comma) {
            return p.expect(close, &format!("`,` or {bracket}"), "separate the elements of a list with `,`");
        }
    }
    Ok(())
}
