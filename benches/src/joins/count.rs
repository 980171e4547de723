//! The number of bindings of each set of a rule's atoms.

use std::collections::HashMap;

use super::generate::Atom;

/// A limit: a set of atoms with more bindings counts as having this many. Orders through such a set are not good.
const MOST: usize = 500_000;

/// The number of bindings by set of atoms, a bit for each.
pub(super) struct Sizes {
    atoms: usize,
    sizes: Vec<f64>,
}

/// Bindings of some variables.
struct Bindings {
    variables: Vec<usize>,
    rows: Vec<Vec<u32>>,
}

impl Sizes {
    /// Joins every set of the atoms.
    pub(super) fn new(atoms: &[Atom]) -> Sizes {
        let mut found: HashMap<usize, Bindings> = HashMap::new();
        let mut sizes = vec![1.0_f64; 1 << atoms.len()];
        for set in 1..1_usize << atoms.len() {
            let parts = components(set, atoms);
            if parts.len() > 1 {
                sizes[set] = parts.iter().map(|part| sizes[*part]).product();
                continue;
            }
            // The cheapest way to compute it: from the smallest set that lacks one atom.
            let less = (0..atoms.len()).filter(|at| set & (1 << at) != 0).map(|at| (at, set & !(1 << at)));
            let less = less.filter(|(_, less)| *less == 0 || found.contains_key(less));
            let way = less.min_by(|(_, a), (_, b)| sizes[*a].total_cmp(&sizes[*b]));
            let one = Bindings { variables: Vec::new(), rows: vec![Vec::new()] };
            let joined = way.and_then(|(at, less)| join(found.get(&less).unwrap_or(&one), &atoms[at]));
            sizes[set] = joined.as_ref().map_or(MOST as f64, |joined| joined.rows.len() as f64);
            if let Some(joined) = joined {
                found.insert(set, joined);
            }
        }
        Sizes { atoms: atoms.len(), sizes }
    }

    /// The bindings of this set.
    pub(super) fn of(&self, set: u32) -> f64 {
        self.sizes[set as usize]
    }

    /// Rows touched when atoms are joined in this order.
    pub(super) fn cost(&self, order: &[usize]) -> f64 {
        let mut set = 0;
        let add = |at: &usize| {
            set |= 1 << at;
            self.sizes[set]
        };
        order.iter().map(add).sum()
    }

    /// The least rows touched by any order.
    pub(super) fn best(&self) -> f64 {
        self.extreme(f64::min)
    }

    /// An order that touches most rows.
    pub(super) fn worst_order(&self) -> Vec<usize> {
        let worst: Vec<f64> = self.from(f64::max).into_iter().map(|cost| -cost).collect();
        self.follow(&worst, None)
    }

    /// An order that touches the fewest rows, among those that start with this atom if one is given.
    pub(super) fn best_order(&self, first: Option<usize>) -> Vec<usize> {
        self.follow(&self.from(f64::min), first)
    }

    /// Goes from set to set, always to the one with the least cost.
    fn follow(&self, costs: &[f64], first: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = first.into_iter().collect();
        let mut set = first.map_or(0, |first| 1 << first);
        while order.len() < self.atoms {
            let next = (0..self.atoms).filter(|at| set & (1 << at) == 0);
            let next = next.min_by(|a, b| costs[set | 1 << a].total_cmp(&costs[set | 1 << b]));
            let Some(next) = next else { break };
            order.push(next);
            set |= 1 << next;
        }
        order
    }

    fn extreme(&self, choose: fn(f64, f64) -> f64) -> f64 {
        self.from(choose)[0] - self.sizes[0]
    }

    /// The cost from each set on: its bindings and those of all later sets, where `choose` selects the continuation.
    /// Every order is a path from the empty set to the full one.
    fn from(&self, choose: fn(f64, f64) -> f64) -> Vec<f64> {
        let mut costs = self.sizes.clone();
        for set in (0..costs.len() - 1).rev() {
            let next = (0..self.atoms).filter(|at| set & (1 << at) == 0).map(|at| costs[set | 1 << at]);
            costs[set] += next.reduce(choose).unwrap_or(0.0);
        }
        costs
    }
}

/// The parts of a set that share no variable.
fn components(set: usize, atoms: &[Atom]) -> Vec<usize> {
    let mut left = set;
    let mut parts = Vec::new();
    while left != 0 {
        let mut part = left & left.wrapping_neg();
        loop {
            let connected =
                (0..atoms.len()).filter(|at| left & (1 << at) != 0 && part & (1 << at) == 0).find(|at| {
                    let of_part = (0..atoms.len()).filter(|other| part & (1 << other) != 0);
                    of_part.into_iter().any(|other| {
                        atoms[other].variables.iter().any(|variable| atoms[*at].variables.contains(variable))
                    })
                });
            match connected {
                Some(at) => part |= 1 << at,
                None => break,
            }
        }
        parts.push(part);
        left &= !part;
    }
    parts
}

fn join(bindings: &Bindings, atom: &Atom) -> Option<Bindings> {
    let places: Vec<Option<usize>> = atom
        .variables
        .iter()
        .map(|variable| bindings.variables.iter().position(|bound| bound == variable))
        .collect();
    let mut index: HashMap<Vec<u32>, Vec<&Vec<u32>>> = HashMap::new();
    for row in &atom.rows {
        let key = places.iter().zip(row).filter(|(place, _)| place.is_some()).map(|(_, value)| *value);
        index.entry(key.collect()).or_default().push(row);
    }
    let mut variables = bindings.variables.clone();
    variables
        .extend(atom.variables.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(v, _)| *v));
    let mut rows = Vec::new();
    for binding in &bindings.rows {
        let key: Vec<u32> = places.iter().flatten().map(|place| binding[*place]).collect();
        for found in index.get(&key).into_iter().flatten() {
            let mut row = binding.clone();
            row.extend(
                places.iter().zip(*found).filter(|(place, _)| place.is_none()).map(|(_, value)| *value),
            );
            rows.push(row);
            if rows.len() > MOST {
                return None;
            }
        }
    }
    Some(Bindings { variables, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atom(variables: [usize; 2], rows: &[[u32; 2]]) -> Atom {
        let rows = rows.iter().map(|row| row.to_vec()).collect();
        Atom { table: format!("t{}", variables[0]), variables: variables.to_vec(), rows }
    }

    #[test]
    fn sets_are_counted_and_orders_weighed() {
        // a(x, y), b(y, z), c(z, w): 2 rows, 3, 1.
        let atoms = [
            atom([0, 1], &[[1, 1], [2, 1]]),
            atom([1, 2], &[[1, 1], [1, 2], [2, 2]]),
            atom([2, 3], &[[2, 5]]),
        ];
        let sizes = Sizes::new(&atoms);
        let all: Vec<u64> = (1..8).map(|set| sizes.of(set) as u64).collect();
        assert_eq!(all, [2, 3, 4, 1, 2, 2, 2]);
        let costs = [sizes.cost(&[0, 1, 2]), sizes.cost(&[2, 1, 0]), sizes.best()];
        assert_eq!(costs.map(|cost| cost as u64), [8, 5, 5]);
        assert_eq!(sizes.cost(&sizes.worst_order()) as u64, 9);
        // Two orders are as good.
        assert_eq!(sizes.cost(&sizes.best_order(None)) as u64, 5);
        assert_eq!(sizes.best_order(Some(0)), [0, 2, 1]);
    }
}
