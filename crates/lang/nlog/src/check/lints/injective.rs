//! Injective functions: equal results imply equal arguments.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use nlog_data::function::{self, Function, Results, Shape};
use nlog_data::{Type, Value};
use openflow_rs::{Field, MacAddr};

/// Facts about functions, determined once for each.
#[derive(Default)]
pub(super) struct Injective {
    matches: HashMap<usize, MatchFunction>,
}

/// The demands of a function's matches, whatever its arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct MatchFunction {
    /// For each argument, whether the match determines it.
    shown: Vec<bool>,
    /// The bits that are demanded of each field.
    pub(super) demands: Vec<Demand>,
    /// Whether it may demand more.
    pub(super) open: bool,
}

/// Bits of a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) field: Field,
    /// The bits demanded.
    pub(super) mask: u128,
    /// The bits among them whose value is known.
    pub(super) known: u128,
    /// The value of those bits.
    pub(super) value: u128,
}

impl Injective {
    /// The arguments that are equal if the results and the arguments marked in `same` are equal.
    pub(super) fn arguments(&mut self, function: &Arc<Function>, same: &[bool]) -> Vec<bool> {
        let count = same.len();
        let all_but_one = same.iter().filter(|same| !**same).count() == 1;
        match (&*function.name, count) {
            ("[]" | "some", _) => vec![true; count],
            // Concatenations with one equal side; numbers.
            ("++" | "+" | "-" | "^", 2) => vec![all_but_one; 2],
            ("to_string", 1) => vec![true],
            _ => self.arguments_within(function, count),
        }
    }

    /// The arguments that are equal if two matches are equal and each is the function's result joined with others.
    pub(super) fn arguments_within(&mut self, function: &Arc<Function>, count: usize) -> Vec<bool> {
        let mut shown = self.of_match(function).shown.clone();
        shown.resize(count, false);
        shown
    }

    /// The demands of the function's matches; none are known if its result is not a match.
    pub(super) fn of_match(&mut self, function: &Arc<Function>) -> &MatchFunction {
        let key = Arc::as_ptr(function) as usize;
        self.matches.entry(key).or_insert_with(|| {
            let is_match =
                matches!(function.results.as_slice(), [one] if one.shape == Shape::Is(Type::Match));
            // A function of the program can behave differently for each value, so nothing is certain about it.
            let literal = function.name.starts_with("match{");
            let built_in =
                literal || function::lookup(&function.name).iter().any(|own| Arc::ptr_eq(own, function));
            let unknown = MatchFunction { open: true, ..MatchFunction::default() };
            if is_match && built_in && function.name != "&" {
                probe(function).unwrap_or(unknown)
            } else {
                unknown
            }
        })
    }
}

/// Probes the function with values that have one bit set. A match maps the bits of a value to bits of fields, so
/// this shows the place of each.
fn probe(function: &Function) -> Option<MatchFunction> {
    let zero: Vec<Value> = function
        .parameters
        .iter()
        .map(|parameter| samples(&parameter.shape))
        .map(|mut samples| samples.swap_remove(0)[0].clone())
        .collect();
    let base = demands(function, &zero)?;
    let mut found = MatchFunction { shown: Vec::new(), demands: base.clone(), open: false };
    for (index, parameter) in function.parameters.iter().enumerate() {
        let mut shown = true;
        let families = samples(&parameter.shape);
        if families[0].len() < 2 {
            // Values that this does not understand.
            found.open = true;
            found.shown.push(false);
            continue;
        }
        for family in families {
            let mut seen: Vec<Vec<Demand>> = Vec::new();
            for value in family {
                let mut arguments = zero.clone();
                arguments[index] = value;
                let Some(demands) = demands(function, &arguments) else { continue };
                shown &= seen.iter().all(|other| !same_values(other, &demands));
                shown &= seen.first().is_none_or(|other| same_bits(other, &demands));
                merge(&mut found, &demands);
                seen.push(demands);
            }
            shown &= seen.len() != 1;
        }
        found.shown.push(shown);
    }
    Some(found)
}

/// Zero and each single bit; for addresses, of both families. A shape without such values yields a list of one.
fn samples(shape: &Shape) -> Vec<Vec<Value>> {
    match shape {
        Shape::Is(Type::Int) => {
            vec![std::iter::once(0).chain((0..63).map(|bit| 1_i64 << bit)).map(Value::Int).collect()]
        }
        Shape::Is(Type::Mac) => {
            let bits = std::iter::once(0).chain((0..48).map(|bit| 1_u64 << bit));
            let mac = |bits: u64| {
                let [_, _, bytes @ ..] = bits.to_be_bytes();
                Value::Mac(MacAddr(bytes))
            };
            vec![bits.map(mac).collect()]
        }
        Shape::Is(Type::Ip) => {
            let four = std::iter::once(0).chain((0..32).map(|bit| 1_u32 << bit));
            let six = std::iter::once(0).chain((0..128).map(|bit| 1_u128 << bit));
            vec![
                four.map(|bits| Value::Ip(IpAddr::V4(Ipv4Addr::from(bits)))).collect(),
                six.map(|bits| Value::Ip(IpAddr::V6(Ipv6Addr::from(bits)))).collect(),
            ]
        }
        _ => vec![vec![Value::None]],
    }
}

fn demands(function: &Function, arguments: &[Value]) -> Option<Vec<Demand>> {
    match (function.evaluate)(arguments) {
        Ok(Results::One(value)) => of_value(&value),
        _ => None,
    }
}

/// The demands of a constant match.
pub(super) fn of_value(value: &Value) -> Option<Vec<Demand>> {
    let Value::Match(value) = value else { return None };
    let value = value.get();
    Some(
        value
            .iter()
            .map(|demand| Demand {
                field: demand.field,
                mask: demand.mask,
                known: demand.mask,
                value: demand.value,
            })
            .collect(),
    )
}

fn same_bits(a: &[Demand], b: &[Demand]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.field == b.field && a.mask == b.mask)
}

fn same_values(a: &[Demand], b: &[Demand]) -> bool {
    same_bits(a, b) && a.iter().zip(b).all(|(a, b)| a.value == b.value)
}

/// Keeps what `other` demands as well.
fn merge(found: &mut MatchFunction, other: &[Demand]) {
    found.open |= !same_bits(&found.demands, other);
    found.demands.retain_mut(|demand| {
        let Some(other) = other.iter().find(|other| other.field == demand.field) else { return false };
        demand.mask &= other.mask;
        demand.known &= demand.mask & !(demand.value ^ other.value);
        demand.value &= demand.known;
        demand.mask != 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> Vec<bool> {
        let function = &function::lookup(name)[0];
        Injective::default().arguments_within(function, function.parameters.len())
    }

    #[test]
    fn a_match_shows_what_it_demands_exactly() {
        assert_eq!(shown("match_in_port"), [true]);
        assert_eq!(shown("match_eth_dst"), [true]);
        assert_eq!(shown("flow_expr_match_reg1"), [true]);
        assert_eq!(shown("match_reg0_masked"), [false, false]);
        assert_eq!(shown("hash"), [false]);
    }

    #[test]
    fn what_a_match_demands_besides_its_argument_is_known() {
        let mut injective = Injective::default();
        let function = &function::lookup("match_tcp_dst")[0];
        let found = injective.of_match(function);
        assert!(!found.open);
        let known = |field: Field| {
            let demand = found.demands.iter().find(|demand| demand.field == field)?;
            Some((demand.value, demand.known == demand.mask))
        };
        assert_eq!(known(Field::EthType), Some((0x800, true)));
        assert_eq!(known(Field::IpProto), Some((6, true)));
        assert_eq!(known(Field::TcpDst), Some((0, false)));
    }
}
