//! In which order the atoms of a rule are joined, and what that is thought to cost.

use crate::body::Body;
use crate::draft::{Aim, State};
use crate::estimate::Estimate;
use crate::lower::Expected;

/// Chooses orders for the atoms of a body.
pub(crate) struct Search<'a> {
    pub(crate) body: &'a Body,
    pub(crate) aim: Aim,
    /// By relation.
    pub(crate) estimates: &'a [Estimate],
}

/// An order, and what it is thought to cost.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) atoms: Vec<usize>,
    pub(crate) expected: Expected,
    /// How many rows and bindings are touched if it begins with all rows.
    pub(crate) cost: f64,
    /// How many bindings there are in the end.
    pub(crate) bindings: f64,
}

impl Search<'_> {
    /// An order that begins with this atom: next is always what finds the fewest rows.
    pub(crate) fn from(&self, start: usize) -> Order {
        let mut state = State::new(self.body, self.aim);
        let mut ops = Vec::new();
        state.bind(start, &mut ops);
        let mut left: Vec<usize> = (0..self.body.atoms.len()).filter(|atom| *atom != start).collect();
        let rows = self.estimate(start).selected(&self.body.atoms[start]);
        let mut order =
            Order { atoms: vec![start], expected: Expected::default(), cost: rows, bindings: rows };
        let mut each = 1.0;
        while !left.is_empty() {
            let next = (0..left.len()).min_by(|a, b| {
                let score = |at: usize| {
                    let atom = left[at];
                    let key: Vec<_> = state.key(atom);
                    let is_product = key.is_empty() && !self.body.atoms[atom].columns.is_empty();
                    (is_product, self.fan_out(&state, atom))
                };
                let ((a_product, a_rows), (b_product, b_rows)) = (score(*a), score(*b));
                a_product.cmp(&b_product).then(a_rows.total_cmp(&b_rows)).then(left[*a].cmp(&left[*b]))
            });
            let atom = left.remove(next.unwrap_or_default());
            let fan_out = self.fan_out(&state, atom);
            each *= fan_out;
            order.cost += rows * each;
            order.expected.bindings.push(each);
            order.expected.fan_out.push(fan_out);
            order.atoms.push(atom);
            state.join(atom, &mut ops);
        }
        order.bindings = rows * each;
        order
    }

    fn fan_out(&self, state: &State<'_>, atom: usize) -> f64 {
        let mut bound = state.bound.clone();
        bound.extend(state.key(atom).into_iter().map(|part| part.variable));
        self.estimate(atom).fan_out(&self.body.atoms[atom], &bound)
    }

    fn estimate(&self, atom: usize) -> &Estimate {
        &self.estimates[self.body.atoms[atom].relation.0 as usize]
    }
}
