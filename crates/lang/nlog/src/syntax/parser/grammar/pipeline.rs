//! What a program calls the parts of the pipeline: fields of packets, stages, priorities, and numbers that it reserves.

use super::super::{Parsed, Parser};
use super::expression::{bit_range, expression};
use super::name;
use crate::syntax::SyntaxKind as K;

/// `field name = register;` or `field name = register[first..last];`
pub(super) fn field(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: field outport = reg1; field own_answer = reg2[5];";
    p.bump_as(K::FieldKw);
    name(p, "the field's name", help)?;
    p.expect(K::Eq, "`=` and a field of Open vSwitch", help)?;
    let kind = if p.kind(1) == K::LBracket { K::Bits } else { K::Name };
    p.node(kind, |p| {
        name(p, "a field of Open vSwitch", help)?;
        if kind == K::Bits { bit_range(p) } else { Ok(()) }
    })?;
    p.semicolon("`;`")
}

/// `stage NAME = number;`
pub(super) fn stage(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: stage PORT_SECURITY = 4;";
    p.bump_as(K::StageKw);
    name(p, "the stage's name", help)?;
    p.expect(K::Eq, "`=` and the number of the OpenFlow table", help)?;
    expression(p)?;
    p.semicolon("`;`")
}

/// `priority NAME of STAGE = number;` or `priority NAME of STAGE = least..greatest;`
pub(super) fn priority(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: priority DOUBLE_TAGGED of PORT_SECURITY = 200;";
    p.bump_as(K::PriorityKw);
    name(p, "the priority's name", help)?;
    if p.word(0) != Some("of") {
        return p.unexpected("`of` and a stage", help);
    }
    p.bump_as(K::OfKw);
    name(p, "a stage", help)?;
    p.expect(K::Eq, "`=` and the priority", help)?;
    bounds(p)
}

/// `reserve NAME of TYPE = number;` or `reserve NAME of TYPE = least..greatest;`
pub(super) fn reserve(p: &mut Parser<'_>) -> Parsed {
    let help = "for example: reserve FLOOD_METERS of meter = 1..1000;";
    p.bump_as(K::ReserveKw);
    name(p, "the name of the numbers", help)?;
    if p.word(0) != Some("of") {
        return p.unexpected("`of` and a type", help);
    }
    p.bump_as(K::OfKw);
    name(p, "a type", help)?;
    p.expect(K::Eq, "`=` and the numbers", help)?;
    bounds(p)
}

/// `number;` or `least..greatest;`
fn bounds(p: &mut Parser<'_>) -> Parsed {
    expression(p)?;
    if p.eat(K::DotDot) {
        expression(p)?;
        return p.semicolon("`;`");
    }
    p.semicolon("`..` or `;`")
}
