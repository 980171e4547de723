//! In which order the atoms of a rule are joined.
//!
//! For each atom to begin with, the cheapest order of the others one by one (a left-deep plan) is found by dynamic
//! programming over sets of atoms, as Selinger and others do (SIGMOD 1979), here from the whole set down: what is left
//! to pay from a set on does not depend on where it began, so one table serves all beginnings.

use crate::body::Body;
use crate::draft::Aim;
use crate::estimate::Estimate;
use crate::model::{Bindings, LOOKUP, Model};

/// The most atoms for which all orders are compared; beyond, each next one is what finds the fewest rows.
const EXHAUSTIVE: usize = 12;

/// How many times dearer a product has to be thought than it seems: an estimate that is wrong makes it far worse than
/// a lookup.
const PRODUCT: f64 = 2.0;

/// Costs that differ by less than this part count as equal.
const EQUAL: f64 = 1e-9;

/// What each order of a body's atoms is thought to cost.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) model: Model,
    atoms: usize,
    /// By set of atoms; empty if there are too many atoms.
    sets: Vec<Set>,
}

/// A set of atoms.
#[derive(Debug, Clone)]
struct Set {
    /// How many bindings it has.
    count: f64,
    /// By atom that is not in it, how many rows are found for each binding, and what that costs.
    found: Vec<(f64, f64)>,
    /// What joining all other atoms costs at least.
    rest: f64,
    /// The atom to join next, and the second choice with its cost.
    next: usize,
    second: Option<(usize, f64)>,
}

/// An order, and what it is thought to cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) atoms: Vec<usize>,
    /// After each probe how many rows it finds for a binding, and how many bindings there are then for each row that
    /// the order begins with.
    pub(crate) expected: Vec<Expected>,
    /// How many rows are touched if it begins with all rows of its first atom.
    pub(crate) cost: f64,
    /// How many bindings there are in the end.
    pub(crate) count: f64,
    /// The atom that could come second instead, and what that would cost.
    pub(crate) second: Option<(usize, f64)>,
}

/// What a probe is thought to find.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Expected {
    pub(crate) fan_out: f64,
    pub(crate) bindings: f64,
}

impl Search {
    pub(crate) fn new(body: &Body, aim: Aim, estimates: &[Estimate]) -> Self {
        let model = Model::new(body, aim, estimates);
        let atoms = body.atoms.len();
        let mut search = Search { model, atoms, sets: Vec::new() };
        if atoms <= EXHAUSTIVE {
            search.count();
            search.compare();
        }
        search
    }

    /// The bindings of each set, and what each further atom finds for them.
    fn count(&mut self) {
        let mut all: Vec<Option<Bindings>> = vec![None; 1 << self.atoms];
        all[0] = Some(self.model.once());
        for set in 0..all.len() {
            // Smaller sets have smaller numbers, so all ways to come here have been gone.
            let Some(bindings) = all[set].take() else { continue };
            let mut found = vec![(0.0, 0.0); self.atoms];
            for atom in (0..self.atoms).filter(|atom| set & (1 << atom) == 0) {
                let (joined, step) = self.model.join(&bindings, atom);
                let touched = if set != 0 && step.is_product { PRODUCT } else { 1.0 } * step.fan_out;
                let lookup = if set == 0 { 0.0 } else { LOOKUP };
                found[atom] = (step.fan_out, bindings.count * (lookup + touched));
                let with = &mut all[set | 1 << atom];
                if with.as_ref().is_none_or(|known| joined.count < known.count) {
                    *with = Some(joined);
                }
            }
            let count = bindings.count;
            self.sets.push(Set { count, found, rest: 0.0, next: 0, second: None });
        }
    }

    /// From each set the cheapest way to all atoms.
    fn compare(&mut self) {
        let full = self.sets.len() - 1;
        for set in (0..full).rev() {
            let mut ways: Vec<(usize, f64)> = (0..self.atoms)
                .filter(|atom| set & (1 << atom) == 0)
                .map(|atom| (atom, self.sets[set].found[atom].1 + self.sets[set | 1 << atom].rest))
                .collect();
            // A stable sort: of equals the first in the body.
            ways.sort_by(
                |(_, a), (_, b)| if is_equal(*a, *b) { std::cmp::Ordering::Equal } else { a.total_cmp(b) },
            );
            let set = &mut self.sets[set];
            (set.next, set.rest) = ways[0];
            set.second = ways.get(1).copied();
        }
    }

    /// The cheapest order that begins with this atom.
    pub(crate) fn from(&self, start: usize) -> Order {
        if self.sets.is_empty() {
            return self.greedy(start);
        }
        let mut atoms = vec![start];
        let mut set = 1 << start;
        while set + 1 < self.sets.len() {
            let next = self.sets[set].next;
            atoms.push(next);
            set |= 1 << next;
        }
        let second = self.sets[1 << start].second;
        let begin = self.sets[0].found[start].1;
        let order = self.along(&atoms);
        Order { second: second.map(|(atom, rest)| (atom, begin + rest)), ..order }
    }

    /// This order.
    pub(crate) fn along(&self, atoms: &[usize]) -> Order {
        let Some((first, rest)) = atoms.split_first() else {
            let count = self.model.once().count;
            return Order { atoms: Vec::new(), expected: Vec::new(), cost: 1.0, count, second: None };
        };
        let rows = self.model.atoms[*first].selected;
        let mut order =
            Order { atoms: atoms.to_vec(), expected: Vec::new(), cost: rows, count: rows, second: None };
        if self.sets.is_empty() {
            let mut bindings = self.model.join(&self.model.once(), *first).0;
            for atom in rest {
                let (joined, found) = self.model.join(&bindings, *atom);
                order.add(rows, bindings.count, found.fan_out, found.is_product);
                bindings = joined;
            }
            order.count = bindings.count;
            return order;
        }
        let mut set = 1 << first;
        for atom in rest {
            let Set { count, found, .. } = &self.sets[set];
            let (fan_out, cost) = found[*atom];
            order.cost += cost;
            order
                .expected
                .push(Expected { fan_out, bindings: count * fan_out / rows.max(f64::MIN_POSITIVE) });
            set |= 1 << atom;
        }
        order.count = self.sets[set].count;
        order
    }

    /// Next is always what connects and finds the fewest rows.
    fn greedy(&self, start: usize) -> Order {
        let mut bindings = self.model.join(&self.model.once(), start).0;
        let mut left: Vec<usize> = (0..self.atoms).filter(|atom| *atom != start).collect();
        let mut atoms = vec![start];
        while !left.is_empty() {
            let ways = left.iter().map(|atom| self.model.join(&bindings, *atom));
            let best = ways.enumerate().min_by(|(_, (_, a)), (_, (_, b))| {
                a.is_product.cmp(&b.is_product).then(a.fan_out.total_cmp(&b.fan_out))
            });
            let Some((at, (joined, _))) = best else { break };
            atoms.push(left.remove(at));
            bindings = joined;
        }
        self.along(&atoms)
    }

    /// The cheapest order for each atom to begin with; none if there are no atoms.
    pub(crate) fn all(&self) -> Vec<Order> {
        (0..self.atoms).map(|start| self.from(start)).collect()
    }
}

impl Order {
    fn add(&mut self, rows: f64, count: f64, fan_out: f64, is_product: bool) {
        let touched = if is_product { PRODUCT } else { 1.0 } * fan_out;
        self.cost += count * (LOOKUP + touched);
        self.expected.push(Expected { fan_out, bindings: count * fan_out / rows.max(f64::MIN_POSITIVE) });
    }
}

/// The cheapest of several orders.
pub(crate) fn cheapest(orders: &[Order]) -> usize {
    let mut best = 0;
    for (at, order) in orders.iter().enumerate() {
        if order.cost < orders[best].cost && !is_equal(order.cost, orders[best].cost) {
            best = at;
        }
    }
    best
}

fn is_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= EQUAL * a.abs().max(b.abs())
}
