//! The join order of a rule's atoms.
//!
//! For each starting atom, dynamic programming over sets of atoms finds the cheapest left-deep plan, as in Selinger
//! and others (SIGMOD 1979), but downwards from the full set. The remaining cost of a set does not depend on the
//! starting atom, so one table serves all of them.
//!
//! An order that costs little more is preferred if it probes only indexes that the rule's other pipelines need
//! anyway.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::body::Body;
use crate::cost::INDEXED;
use crate::draft::Aim;
use crate::estimate::Estimates;
use crate::model::{Bindings, Found, LOOKUP, Model, UNKNOWN};

/// The maximum number of atoms for which all orders are compared. With more atoms, the next atom is always the one
/// that finds the fewest rows.
pub(crate) const EXHAUSTIVE: usize = 12;

/// The maximum number of atoms for which orders that save indexes are searched.
const SPARING: usize = 9;

/// The maximum cost of an order that saves indexes, relative to the cheapest order.
pub(crate) const HARDLY_DEARER: f64 = 1.5;

/// The factor by which the cost of a product is raised. If the estimate is wrong, a product is far worse than a
/// lookup.
const PRODUCT: f64 = 2.0;

/// Costs whose relative difference is less than this count as equal.
const EQUAL: f64 = 1e-9;

/// The estimated cost of each order of a body's atoms.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) model: Model,
    atoms: usize,
    /// For each atom, the first atom with the same rows; they can share indexes.
    alike: Vec<usize>,
    /// The sets, by set of atoms; empty if there are too many atoms.
    sets: Vec<Set>,
}

/// A set of atoms.
#[derive(Debug, Clone)]
struct Set {
    /// The number of its bindings.
    count: f64,
    /// For each atom outside the set, the result of joining it.
    ways: Vec<Way>,
}

/// The step from a set of atoms to one more atom.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    fan_out: f64,
    cost: f64,
    /// The columns of the key.
    by: u64,
}

/// The cheapest continuation from a set of atoms to all atoms.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    /// The minimum cost.
    cost: f64,
    /// The atom to join next, and the second choice with its cost.
    next: usize,
    second: Option<(usize, f64)>,
}

/// An index: the first atom with the same rows, and the key columns.
type Known = BTreeSet<(usize, u64)>;

/// An order and its estimated cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) atoms: Vec<usize>,
    /// The number of rows at its start.
    pub(crate) rows: f64,
    /// The estimated results, by probe.
    pub(crate) expected: Vec<Expected>,
    /// The rows touched if it starts with all rows of its first atom.
    pub(crate) cost: f64,
    /// The number of bindings at the end.
    pub(crate) count: f64,
    /// The alternative second atom, and the cost with it.
    pub(crate) second: Option<(usize, f64)>,
}

/// The estimated result of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Expected {
    /// Rows for each binding.
    pub(crate) fan_out: f64,
    /// The bindings after the probe for each row at the start.
    pub(crate) bindings: f64,
}

impl Search {
    pub(crate) fn new(body: &Body, aim: Aim, estimates: Estimates<'_>) -> Self {
        let model = Model::new(body, aim, estimates);
        let atoms = body.atoms.len();
        let is_alike = |at: usize, other: usize| {
            let (one, other) = (&body.atoms[at], &body.atoms[other]);
            one.relation == other.relation && one.select == other.select
        };
        let alike = (0..atoms).map(|at| (0..at).find(|other| is_alike(at, *other)).unwrap_or(at));
        let mut search = Search { model, atoms, alike: alike.collect(), sets: Vec::new() };
        if atoms <= EXHAUSTIVE {
            search.count();
        }
        search
    }

    /// Computes the bindings of each set, and the rows that each further atom finds for them.
    fn count(&mut self) {
        let mut all: Vec<Option<Bindings>> = vec![None; 1 << self.atoms];
        all[0] = Some(self.model.once());
        for set in 0..all.len() {
            // Subsets have smaller numbers, so all ways to this set have been visited.
            let Some(bindings) = all[set].take() else { continue };
            let mut ways = vec![Way::default(); self.atoms];
            for atom in (0..self.atoms).filter(|atom| set & (1 << atom) == 0) {
                let (joined, found) = self.model.join(&bindings, atom);
                ways[atom] = Way::new(&bindings, &found, set == 0);
                let with = &mut all[set | 1 << atom];
                if with.as_ref().is_none_or(|known| joined.count < known.count) {
                    *with = Some(joined);
                }
            }
            self.sets.push(Set { count: bindings.count, ways });
        }
    }

    /// The cheapest continuation from each set to all atoms. If `known` is given, indexes outside it add to the cost.
    fn compare(&self, known: Option<&Known>) -> Vec<Rest> {
        let full = self.sets.len() - 1;
        let mut rests = vec![Rest::default(); self.sets.len()];
        for set in (0..full).rev() {
            let mut rest: Option<Rest> = None;
            for atom in (0..self.atoms).filter(|atom| set & (1 << atom) == 0) {
                let way = &self.sets[set].ways[atom];
                let index = match known {
                    Some(known) if set != 0 && !known.contains(&(self.alike[atom], way.by)) => {
                        INDEXED * self.model.atoms[atom].selected
                    }
                    _ => 0.0,
                };
                let cost = way.cost + index + rests[set | 1 << atom].cost;
                rest = Some(match rest {
                    None => Rest { cost, next: atom, second: None },
                    Some(best) if compare(cost, best.cost) == Ordering::Less => {
                        Rest { cost, next: atom, second: Some((best.next, best.cost)) }
                    }
                    Some(best) if best.second.is_none_or(|(_, second)| cost < second) => {
                        Rest { second: Some((atom, cost)), ..best }
                    }
                    Some(best) => best,
                });
            }
            rests[set] = rest.unwrap_or_default();
        }
        rests
    }

    /// The number of bindings of all atoms.
    pub(crate) fn bindings(&self) -> f64 {
        match (self.sets.last(), self.atoms) {
            (Some(all), _) => all.count,
            (None, 0) => self.model.once().count,
            (None, _) => self.greedy(0).count,
        }
    }

    /// An order for each starting atom; none if there are no atoms.
    pub(crate) fn all(&self) -> Vec<Order> {
        if self.sets.is_empty() {
            return (0..self.atoms).map(|start| self.greedy(start)).collect();
        }
        let rests = self.compare(None);
        let free: Vec<Order> = (0..self.atoms).map(|start| self.follow(&rests, start)).collect();
        if self.atoms <= SPARING { self.spare(free) } else { free }
    }

    /// Orders that probe as few indexes as possible, among those that cost little more than these.
    fn spare(&self, mut orders: Vec<Order>) -> Vec<Order> {
        let mut known = Known::new();
        let mut left: Vec<usize> = (0..self.atoms).collect();
        while !left.is_empty() {
            let rests = self.compare(Some(&known));
            let cost = |start: usize| self.sets[0].ways[start].cost + rests[1 << start].cost;
            let next = (0..left.len()).min_by(|a, b| compare(cost(left[*a]), cost(left[*b])));
            let start = left.remove(next.unwrap_or_default());
            let sparing = self.follow(&rests, start);
            if sparing.cost <= orders[start].cost * HARDLY_DEARER {
                orders[start] = Order { second: orders[start].second, ..sparing };
            }
            let mut set = 1 << start;
            for atom in &orders[start].atoms[1..] {
                known.insert((self.alike[*atom], self.sets[set].ways[*atom].by));
                set |= 1 << atom;
            }
        }
        orders
    }

    fn follow(&self, rests: &[Rest], start: usize) -> Order {
        let mut atoms = vec![start];
        let mut set = 1 << start;
        while set + 1 < self.sets.len() {
            let next = rests[set].next;
            atoms.push(next);
            set |= 1 << next;
        }
        let begin = self.sets[0].ways[start].cost;
        let second = rests[1 << start].second.map(|(atom, rest)| (atom, begin + rest));
        Order { second, ..self.along(&atoms) }
    }

    /// The order that joins these atoms in this sequence, with its cost.
    pub(crate) fn along(&self, atoms: &[usize]) -> Order {
        let atoms = atoms.to_vec();
        let Some((first, rest)) = atoms.split_first() else {
            let count = self.model.once().count;
            return Order { atoms, rows: 1.0, expected: Vec::new(), cost: 1.0, count, second: None };
        };
        let rows = self.model.atoms[*first].selected;
        let mut expected = Vec::with_capacity(rest.len());
        let (mut cost, mut set) = (rows, 1_usize.checked_shl(*first as u32).unwrap_or(0));
        let mut bindings = self.model.join(&self.model.once(), *first).0;
        for atom in rest {
            let (joined, found) = self.model.join(&bindings, *atom);
            let (count, way) = match self.sets.get(set) {
                Some(known) => (known.count, known.ways[*atom]),
                None => (bindings.count, Way::new(&bindings, &found, false)),
            };
            cost += way.cost;
            let bindings_then = count * way.fan_out / rows.max(f64::MIN_POSITIVE);
            expected.push(Expected { fan_out: way.fan_out, bindings: bindings_then });
            set |= 1_usize.checked_shl(*atom as u32).unwrap_or(0);
            bindings = joined;
        }
        let count = self.sets.get(set).map_or(bindings.count, |known| known.count);
        Order { atoms, rows, expected, cost, count, second: None }
    }

    /// An order in which the next atom is always the connected one that finds the fewest rows.
    fn greedy(&self, start: usize) -> Order {
        let mut bindings = self.model.join(&self.model.once(), start).0;
        let mut left: Vec<usize> = (0..self.atoms).filter(|atom| *atom != start).collect();
        let mut atoms = vec![start];
        while !left.is_empty() {
            let ways = left.iter().map(|atom| self.model.find(&bindings, *atom));
            let best = ways.enumerate().min_by(|(_, a), (_, b)| {
                a.is_product.cmp(&b.is_product).then(a.fan_out.total_cmp(&b.fan_out))
            });
            let Some((at, _)) = best else { break };
            let atom = left.remove(at);
            bindings = self.model.join(&bindings, atom).0;
            atoms.push(atom);
        }
        self.along(&atoms)
    }
}

impl Way {
    fn new(bindings: &Bindings, found: &Found, is_first: bool) -> Self {
        let Found { fan_out, by, is_product, counted, .. } = *found;
        let cost = match (is_first, is_product) {
            (true, _) => fan_out,
            (false, false) => LOOKUP + fan_out,
            (false, true) => LOOKUP + PRODUCT * fan_out.max(if counted { 1.0 } else { UNKNOWN }),
        };
        Way { fan_out, by, cost: bindings.count * cost }
    }
}

/// The cheapest of several orders; among equals, the first.
pub(crate) fn cheapest(orders: &[Order]) -> usize {
    let orders = orders.iter().enumerate();
    orders.min_by(|(_, a), (_, b)| compare(a.cost, b.cost)).map_or(0, |(at, _)| at)
}

/// Compares two costs; differences within rounding count as equal.
fn compare(a: f64, b: f64) -> Ordering {
    if (a - b).abs() <= EQUAL * a.abs().max(b.abs()) { Ordering::Equal } else { a.total_cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;

    /// All permutations of this many atoms.
    fn permutations(of: usize) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..of {
            let longer = all.iter().flat_map(|order| {
                let next = (0..of).filter(|at| !order.contains(at));
                next.map(|at| order.iter().copied().chain([at]).collect())
            });
            all = longer.collect();
        }
        all
    }

    /// Rules with keys, constants, equations and conditions, under all kinds of estimates.
    const RULES: [&str; 4] = [
        "r(a, f) :- t(a, b), t(b, c), u(c, d), k(d, e), k(e, f);",
        "r(a, a) :- t(a, b), u(a, c), k(a, d), b != c, c < d, t(d, 7);",
        "r(a, d) :- t(a, b), u(c, d), b == c ^ 1, k(d, x), t(x, y), y == 3;",
        "r(a, b) :- t(a, _), u(b, _), k(a, c), k(b, c), t(c, c);",
    ];

    #[test]
    fn no_order_is_thought_to_be_cheaper_than_the_one_chosen() {
        let tables = "input table t(x: int, y: int); input table u(x: int, y: int);
            input table k(x: int, y: int) key(x); output table r(x: int, y: int);";
        for (rule, seed) in RULES.iter().flat_map(|rule| (0..20_u64).map(move |seed| (rule, seed))) {
            let sources = nlog::Sources::from_texts([("p.nlog", format!("{tables}{rule}"))]);
            let program = nlog::compile(&sources).program.expect("it compiles");
            let body = Body::new(&program.rules[0], &program.schema);
            let number = |at: u64| 10_f64.powi(((seed * 7 + at * 5) % 11) as i32 / 2);
            let estimates: Vec<Estimate> = (0..program.schema.len() as u64)
                .map(|table| {
                    let distinct = vec![number(table + 9), number(table + 17)];
                    Estimate::even(number(table), distinct, seed % 2 == 0)
                })
                .map(Estimate::bounded)
                .collect();
            let search = Search::new(&body, Aim::Main, Estimates::new(&estimates));
            let free = search.compare(None);
            for order in permutations(body.atoms.len()) {
                let chosen = search.follow(&free, order[0]);
                let cost = search.along(&order).cost;
                assert!(
                    compare(chosen.cost, cost) != Ordering::Greater,
                    "{rule} {seed}: {:?} for {}, but {order:?} for {cost}",
                    chosen.atoms,
                    chosen.cost
                );
            }
            for (order, start) in search.all().iter().zip(0..) {
                assert!(order.cost <= search.follow(&free, start).cost * HARDLY_DEARER * (1.0 + EQUAL));
            }
        }
    }
}
