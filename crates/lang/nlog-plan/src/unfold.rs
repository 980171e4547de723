//! Pipelines that go through a derived table's rule instead of an index of its rows.
//!
//! If a table has a single rule that derives each row once, its rows are the join of the rule's atoms, both before
//! and after a transaction. A pipeline can then probe those atoms instead of the table. If every pipeline that would
//! probe an index of the table can do so for little more work, the index is dropped. This saves as much memory as the
//! table takes.

use std::collections::{BTreeMap, BTreeSet};

use nlog::Program;
use nlog_data::RuleId;

use crate::body::Body;
use crate::cost::INDEXED;
use crate::draft::{Aim, Draft, Op};
use crate::estimate::Estimates;
use crate::inline::{MOST_ATOMS, inline};
use crate::order::{HARDLY_DEARER, Order, Search, cheapest};
use crate::pinned::PinnedOrders;
use crate::query::RelationId;

/// The minimum number of rows for which avoiding an index is worthwhile.
const WORTH: f64 = 10_000.0;

/// The maximum factor by which a pipeline's cost may grow.
const HARDLY_MORE: f64 = 2.0;

/// The owner of a body in the plan: a rule, or one of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Rule(RuleId),
    Stage(usize),
}

/// A body with its pinned orders, if any.
pub(crate) struct Reader<'a> {
    pub(crate) place: Place,
    pub(crate) body: &'a Body,
    pub(crate) pinned: Option<&'a PinnedOrders>,
}

/// A pipeline of a body that goes through a table's rule.
#[derive(Debug, Clone)]
pub(crate) struct Unfolded {
    /// The body with the rule in place of the atom.
    pub(crate) body: Body,
    pub(crate) order: Order,
    /// The replaced atom.
    pub(crate) atom: usize,
    /// The number of atoms of the rule.
    pub(crate) atoms: usize,
}

impl Unfolded {
    /// The atom of the reader for an atom of the unfolded body.
    pub(crate) fn original(&self, atom: usize) -> usize {
        if atom < self.atom {
            atom
        } else if atom < self.atom + self.atoms {
            self.atom
        } else {
            atom + 1 - self.atoms
        }
    }
}

/// The chosen alternatives.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// Pipelines that go through rules, by body and starting atom.
    pub(crate) ways: BTreeMap<(Place, usize), Unfolded>,
    /// The pipeline for computing all rows, for bodies where it is not the cheapest one.
    pub(crate) full: BTreeMap<Place, usize>,
}

/// An index that an order needs: its relation, the selection of rows, and the key columns.
type Wanted = (RelationId, String, Vec<usize>);

/// A pipeline that probes an index of a table with such a rule.
struct Use {
    place: Place,
    start: usize,
    index: Wanted,
    /// The alternative that goes through the rule, if there is one.
    way: Option<Unfolded>,
}

/// Searches for pipelines that can go through rules.
pub(crate) struct Unfolding<'a> {
    pub(crate) program: &'a Program,
    pub(crate) estimates: Estimates<'a>,
    /// By table, the body of its only rule, if that rule derives each row once and cannot fail.
    pub(crate) rules: BTreeMap<RelationId, &'a Body>,
    /// The names of atoms in pinned plans.
    pub(crate) labels: &'a dyn Fn(Place, &Body) -> Vec<String>,
}

impl<'a> Unfolding<'a> {
    /// Chooses the pipelines that go through rules. `readers` are all bodies of the plan.
    pub(crate) fn choose(&self, readers: &[Reader<'a>]) -> Chosen {
        let mut chosen = Chosen::default();
        let mut known: BTreeSet<Wanted> = BTreeSet::new();
        let mut uses: BTreeMap<Wanted, Vec<Use>> = BTreeMap::new();
        let mut stay: BTreeSet<Wanted> = BTreeSet::new();
        for reader in readers {
            if !reader.body.atoms.iter().any(|atom| self.rules.contains_key(&atom.relation)) {
                continue;
            }
            for (start, names) in reader.pinned.iter().flat_map(|pinned| &pinned.through) {
                let way = self.pinned(reader, *start, names);
                chosen.ways.extend(way.map(|way| ((reader.place, *start), way)));
            }
            let orders = self.orders(reader);
            let of_reader = self.uses(reader, &orders, &mut known);
            let full = match reader.pinned {
                Some(pinned) => pinned.body.full,
                None => self.full(&orders, &of_reader),
            };
            if reader.pinned.is_none() && full != cheapest(&orders) {
                chosen.full.insert(reader.place, full);
            }
            for of_index in of_reader {
                if of_index.start == full || of_index.way.is_none() {
                    stay.insert(of_index.index.clone());
                }
                uses.entry(of_index.index.clone()).or_default().push(of_index);
            }
        }
        for (index, uses) in uses {
            if !stay.contains(&index) && self.is_worth(&index, &uses, &known) {
                let ways = uses.into_iter().filter_map(|of| Some(((of.place, of.start), of.way?)));
                chosen.ways.extend(ways);
            }
        }
        chosen
    }

    fn orders(&self, reader: &Reader<'a>) -> Vec<Order> {
        let search = Search::new(reader.body, Aim::Main, self.estimates);
        let atoms = reader.body.atoms.len();
        match reader.pinned.map(|pinned| &pinned.body).filter(|pinned| pinned.fit(atoms)) {
            Some(pinned) => pinned.atoms.iter().map(|order| search.along(order)).collect(),
            None => search.all(),
        }
    }

    /// The indexes that a body's pipelines probe on tables with such rules, with the alternatives. Records all probed
    /// indexes in `known`.
    fn uses(&self, reader: &Reader<'a>, orders: &[Order], known: &mut BTreeSet<Wanted>) -> Vec<Use> {
        let body = reader.body;
        let mut uses = Vec::new();
        for (start, order) in orders.iter().enumerate() {
            let draft = Draft::new(body, Aim::Main, &order.atoms);
            let probes = wanted(body, &draft);
            known.extend(probes.iter().map(|(_, index)| index.clone()));
            let of_rules = probes.iter().filter(|(_, index)| self.rules.contains_key(&index.0));
            let of_rules: Vec<&(usize, Wanted)> = of_rules.collect();
            // Pipelines for failures would still need the index.
            let can = of_rules.len() == 1 && reader.pinned.is_none() && draft.unseen(body).next().is_none();
            for (atom, index) in of_rules {
                let way = || self.way(body, start, *atom, order.cost);
                let way = (can && self.estimates.of(index.0).rows >= WORTH).then(way).flatten();
                uses.push(Use { place: reader.place, start, index: index.clone(), way });
            }
        }
        uses
    }

    /// A pipeline through the rule of one of its atoms, if it costs little more than this.
    fn way(&self, body: &Body, start: usize, atom: usize, cost: f64) -> Option<Unfolded> {
        let rule = self.rules[&body.atoms[atom].relation];
        let unfolded = inline(body, atom, rule, self.program)?;
        if unfolded.atoms.len() > MOST_ATOMS {
            return None;
        }
        let atoms = rule.atoms.len();
        let search = Search::new(&unfolded, Aim::Main, self.estimates);
        let order = search.all().swap_remove(begin(start, atom, atoms));
        let fits = order.cost <= cost * HARDLY_MORE
            && Draft::new(&unfolded, Aim::Main, &order.atoms).unseen(&unfolded).next().is_none();
        fits.then_some(Unfolded { body: unfolded, order, atom, atoms })
    }

    /// The pipeline for computing all rows. It runs on all rows of tables, and the indexes that it probes must exist.
    /// So among the pipelines that cost little more than the cheapest, this is the one with the fewest rows in
    /// indexes.
    fn full(&self, orders: &[Order], uses: &[Use]) -> usize {
        let first = cheapest(orders);
        let cost = |full: usize| {
            let stay = uses.iter().filter(|of| of.start == full || of.way.is_none());
            let stay: BTreeSet<&Wanted> = stay.map(|of| &of.index).collect();
            let rows: f64 = stay.iter().map(|index| self.estimates.of(index.0).rows).sum();
            orders[full].cost + INDEXED * rows
        };
        let others = (0..orders.len()).filter(|at| orders[*at].cost <= orders[first].cost * HARDLY_DEARER);
        // Among equals, the cheapest one.
        std::iter::once(first).chain(others).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(first)
    }

    /// Whether the indexes probed instead have fewer rows in total.
    fn is_worth(&self, index: &Wanted, uses: &[Use], known: &BTreeSet<Wanted>) -> bool {
        let rule = self.rules[&index.0];
        let orders = Search::new(rule, Aim::Main, self.estimates).all();
        let drafts = orders.iter().map(|order| Draft::new(rule, Aim::Main, &order.atoms));
        let of_rule: BTreeSet<Wanted> =
            drafts.flat_map(|draft| wanted(rule, &draft)).map(|(_, index)| index).collect();
        let ways = uses.iter().filter_map(|of| of.way.as_ref());
        let more: BTreeSet<Wanted> = ways
            .flat_map(|way| wanted(&way.body, &Draft::new(&way.body, Aim::Main, &way.order.atoms)))
            .map(|(_, index)| index)
            .filter(|index| !of_rule.contains(index) && !known.contains(index))
            .collect();
        let rows: f64 = more.iter().map(|index| self.estimates.of(index.0).rows).sum();
        rows < self.estimates.of(index.0).rows
    }

    /// The pinned choice for a body's pipeline.
    fn pinned(&self, reader: &Reader<'a>, start: usize, names: &[String]) -> Option<Unfolded> {
        let body = reader.body;
        (0..body.atoms.len()).filter(|atom| *atom != start).find_map(|atom| {
            let rule = self.rules.get(&body.atoms[atom].relation)?;
            let unfolded = inline(body, atom, rule, self.program)?;
            let labels = (self.labels)(reader.place, &unfolded);
            let number = |name: &String| labels.iter().position(|label| label == name);
            let order = names.iter().map(number).collect::<Option<Vec<usize>>>()?;
            let all: BTreeSet<usize> = order.iter().copied().collect();
            let atoms = rule.atoms.len();
            let fits = order.first() == Some(&begin(start, atom, atoms))
                && order.len() == labels.len()
                && all.len() == labels.len()
                && Draft::new(&unfolded, Aim::Main, &order).unseen(&unfolded).next().is_none();
            let order = Search::new(&unfolded, Aim::Main, self.estimates).along(&order);
            fits.then_some(Unfolded { body: unfolded, order, atom, atoms })
        })
    }
}

/// The new index of an atom after this many atoms have replaced another one.
fn begin(start: usize, atom: usize, atoms: usize) -> usize {
    if start < atom { start } else { start + atoms - 1 }
}

/// The atoms that a draft probes, with the indexes.
fn wanted(body: &Body, draft: &Draft) -> Vec<(usize, Wanted)> {
    let probe = |op: &Op| {
        let Op::Probe { atom, key } = op else { return None };
        let of = &body.atoms[*atom];
        let columns = key.iter().map(|(column, _)| *column).collect();
        Some((*atom, (of.relation, format!("{:?}", of.select), columns)))
    };
    draft.ops.iter().filter_map(probe).collect()
}
