//! What the match of a missing row says of the variables of a rule's head: `match{datapath: label} & match` has the label in
//! one field, and the rest in the others.
//!
//! A rule that puts a match together would otherwise be searched without its key: any label, and any other match. What is
//! found here only guides the search: the head is computed again at its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nlog::program::{Expr, VariableId};
use nlog_data::function::Shape;
use nlog_data::{Function, Packed, Type, Value};
use openflow_rs::{MacAddr, Match};

use crate::expression::{Outcome, Values, evaluate};

/// Binds variables of the expression that follow from its value, if that is a match.
pub(super) fn bind(expr: &Expr, wanted: &Value, given: &mut Values) {
    let Value::Match(wanted) = wanted else { return };
    let wanted = wanted.get();
    let mut parts = Vec::new();
    conjuncts(expr, &mut parts);
    // What other parts than these leave over is that of the one open match.
    let mut left = wanted.clone();
    let mut open = Vec::new();
    for part in parts {
        match part {
            Expr::Variable(variable) if given[variable.0 as usize].is_none() => open.push(*variable),
            part => {
                if let Expr::Call { function, arguments } = part {
                    bind_arguments(function, arguments, &wanted, given);
                }
                let Outcome::Value(Value::Match(known)) = evaluate(part, given, &mut Vec::new()) else {
                    return;
                };
                left = without(&left, &known.get());
            }
        }
    }
    if let [variable] = open[..] {
        given[variable.0 as usize] = Some(Value::Match(Packed::new(&left)));
    }
}

/// The matches of which a match is the conjunction.
fn conjuncts<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::Call { function, arguments } if function.name == "&" => {
            for argument in arguments {
                conjuncts(argument, parts);
            }
        }
        part => parts.push(part),
    }
}

/// A match without what another one asks for.
fn without(whole: &Match, part: &Match) -> Match {
    let rest = whole.iter().filter(|demand| part.get(demand.field) != Some((demand.value, demand.mask)));
    let with = |rest: Match, one: openflow_rs::Demand| rest.with_masked(one.field, one.value, one.mask);
    rest.into_iter().try_fold(Match::any(), with).unwrap_or_else(|_| whole.clone())
}

/// Binds the open arguments of a function whose result is part of a match.
fn bind_arguments(function: &Function, arguments: &[Expr], wanted: &Match, given: &mut Values) {
    let mut open: Vec<(usize, VariableId)> = Vec::new();
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        match argument {
            Expr::Variable(variable) if given[variable.0 as usize].is_none() => {
                if open.iter().any(|(_, other)| other == variable) {
                    return;
                }
                open.push((at, *variable));
                values.push(None);
            }
            known => match evaluate(known, given, &mut Vec::new()) {
                Outcome::Value(value) => values.push(Some(value)),
                _ => return,
            },
        }
    }
    let found: Option<Vec<Value>> =
        open.iter().map(|(at, _)| argument_in(function, &values, *at, wanted)).collect();
    let Some(found) = found else { return };
    for ((at, _), value) in open.iter().zip(&found) {
        values[*at] = Some(value.clone());
    }
    let is_part = result(function, &values)
        .is_some_and(|part| part.iter().all(|one| part_of(wanted, one.field, one.value, one.mask)));
    if is_part {
        for ((_, variable), value) in open.into_iter().zip(found) {
            given[variable.0 as usize] = Some(value);
        }
    }
}

fn part_of(whole: &Match, field: openflow_rs::Field, value: u128, mask: u128) -> bool {
    whole.get(field).is_some_and(|(own, of)| of & mask == mask && own & mask == value)
}

/// The value of an argument: the bits of the field that change with it, in the match that is wanted.
fn argument_in(function: &Function, values: &[Option<Value>], at: usize, wanted: &Match) -> Option<Value> {
    let Shape::Is(ty) = &function.parameters.get(at)?.shape else { return None };
    samples(ty).into_iter().find_map(|(zero, one)| {
        let with = |sample: &Value| {
            let mut values: Vec<Option<Value>> = values.to_vec();
            values[at] = Some(sample.clone());
            for (value, parameter) in values.iter_mut().zip(&function.parameters) {
                if let (None, Shape::Is(ty)) = (&value, &parameter.shape) {
                    *value = samples(ty).into_iter().next().map(|(zero, _)| zero);
                }
            }
            result(function, &values)
        };
        let (zero, other) = (with(&zero)?, with(&one)?);
        let changes = |demand: &openflow_rs::Demand| {
            zero.get(demand.field).is_some_and(|(value, mask)| mask == demand.mask && value != demand.value)
        };
        let demand = other.iter().find(changes)?;
        let (from, _) = zero.get(demand.field)?;
        let (value, mask) = wanted.get(demand.field)?;
        let bits = (value & demand.mask & mask) >> (demand.value ^ from).trailing_zeros();
        of_bits(&one, bits)
    })
}

fn result(function: &Function, values: &[Option<Value>]) -> Option<Match> {
    let arguments =
        values.iter().map(|value| value.clone().map(Expr::Constant)).collect::<Option<Vec<_>>>()?;
    let nothing = Values::new();
    match crate::expression::call(function, &arguments, &nothing, &mut Vec::new()) {
        Outcome::Value(rows) => match rows.first()?.first()? {
            Value::Match(found) => Some(found.get()),
            _ => None,
        },
        _ => None,
    }
}

/// Pairs of values that differ in the last bit.
fn samples(ty: &Type) -> Vec<(Value, Value)> {
    match ty.base() {
        Type::Int => vec![(Value::Int(0), Value::Int(1))],
        Type::Mac => vec![(Value::Mac(MacAddr([0; 6])), Value::Mac(MacAddr([0, 0, 0, 0, 0, 1])))],
        Type::Ip => {
            let v4 = |bits| Value::Ip(IpAddr::V4(Ipv4Addr::from_bits(bits)));
            let v6 = |bits| Value::Ip(IpAddr::V6(Ipv6Addr::from_bits(bits)));
            vec![(v4(0), v4(1)), (v6(0), v6(1))]
        }
        _ => Vec::new(),
    }
}

/// A value like another one, with these bits.
fn of_bits(like: &Value, bits: u128) -> Option<Value> {
    Some(match like {
        Value::Int(_) => Value::Int(i64::try_from(bits).ok()?),
        Value::Mac(_) => {
            let [.., a, b, c, d, e, f] = bits.to_be_bytes();
            Value::Mac(MacAddr([a, b, c, d, e, f]))
        }
        Value::Ip(IpAddr::V4(_)) => Value::Ip(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).ok()?))),
        Value::Ip(IpAddr::V6(_)) => Value::Ip(IpAddr::V6(Ipv6Addr::from_bits(bits))),
        _ => return None,
    })
}
