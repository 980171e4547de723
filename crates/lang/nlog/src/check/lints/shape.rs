//! Matches that differ for all values of their variables: different fields, bits or constants.

use super::bindings::joined;
use super::injective::{Demand, Injective, of_value};
use crate::program::{BodyItem, Expr, Rule};

/// The facts known about a match.
#[derive(Debug, Default)]
pub(super) struct MatchShape {
    demands: Vec<Demand>,
    /// Whether it may demand more.
    open: bool,
}

impl MatchShape {
    /// The shape of an expression of a rule.
    pub(super) fn of(expr: &Expr, rule: &Rule, injective: &mut Injective) -> Self {
        let mut shape = MatchShape::default();
        let mut parts = Vec::new();
        joined(expr, &mut parts);
        while let Some(part) = parts.pop() {
            match part {
                Expr::Variable(variable) => {
                    let definition = rule.body.iter().find_map(|item| match item {
                        BodyItem::Let { variable: defined, expr } if defined == variable => Some(expr),
                        _ => None,
                    });
                    match definition {
                        Some(expr) => joined(expr, &mut parts),
                        None => shape.open = true,
                    }
                }
                Expr::Constant(value) => match of_value(value) {
                    Some(demands) => shape.add(&demands),
                    None => shape.open = true,
                },
                Expr::Call { function, .. } => {
                    let found = injective.of_match(function);
                    shape.open |= found.open;
                    shape.add(&found.demands);
                }
                Expr::If { .. } => shape.open = true,
            }
        }
        shape
    }

    fn add(&mut self, demands: &[Demand]) {
        for demand in demands {
            match self.demands.iter_mut().find(|own| own.field == demand.field) {
                Some(own) => {
                    own.mask |= demand.mask;
                    own.value |= demand.value & demand.known & !own.known;
                    own.known |= demand.known;
                }
                None => self.demands.push(*demand),
            }
        }
    }

    /// Whether the two differ for all values of the variables.
    pub(super) fn differs(&self, other: &MatchShape) -> bool {
        self.lacks(other) || other.lacks(self) || self.contradicts(other)
    }

    /// Whether the other demands bits that this one does not.
    fn lacks(&self, other: &MatchShape) -> bool {
        let missing = |demand: &Demand| {
            let own = self.demands.iter().find(|own| own.field == demand.field);
            demand.mask & !own.map_or(0, |own| own.mask) != 0
        };
        !self.open && other.demands.iter().any(missing)
    }

    fn contradicts(&self, other: &MatchShape) -> bool {
        self.demands.iter().any(|a| {
            let b = other.demands.iter().find(|b| b.field == a.field);
            b.is_some_and(|b| (a.value ^ b.value) & a.known & b.known != 0)
        })
    }
}
