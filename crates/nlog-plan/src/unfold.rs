//! Pipelines that go through a derived table's rule in place of an index of its rows.
//!
//! A table whose one rule gives each row once is, before a transaction and after it, just what the rule's atoms come to
//! then. So a pipeline that would look up rows of the table can look up rows of those atoms. Where every pipeline that
//! would probe an index can do so for hardly more work the index goes: it would be as large as the table.

use std::collections::{BTreeMap, BTreeSet};

use nlog::Program;
use nlog_data::RuleId;

use crate::body::Body;
use crate::draft::{Aim, Draft, Op};
use crate::estimate::Estimates;
use crate::inline::{MOST_ATOMS, inline};
use crate::order::{Order, Search, cheapest};
use crate::pinned::PinnedOrders;
use crate::query::RelationId;

/// How many times dearer a pipeline may become at most.
const HARDLY_MORE: f64 = 2.0;

/// A body in its plan: a rule's, or that of a stage by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Rule(RuleId),
    Stage(usize),
}

/// A body with the orders that were asked for.
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
    /// The atom that it stands for.
    pub(crate) atom: usize,
    /// How many atoms the rule has.
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

/// By body and the atom that they begin with.
pub(crate) type AllUnfolded = BTreeMap<(Place, usize), Unfolded>;

/// An index as an order needs it: whose rows, which of them, by which columns.
type Wanted = (RelationId, String, Vec<usize>);

/// A pipeline that probes an index.
struct Use<'a> {
    place: Place,
    body: &'a Body,
    start: usize,
    atom: usize,
    cost: f64,
}

/// Finds what can go through rules.
pub(crate) struct Unfolding<'a> {
    pub(crate) program: &'a Program,
    pub(crate) estimates: Estimates<'a>,
    /// By table the body of its one rule, if that gives each row once and cannot fail.
    pub(crate) rules: BTreeMap<RelationId, &'a Body>,
    /// What atoms are called in pinned plans.
    pub(crate) labels: &'a dyn Fn(Place, &Body) -> Vec<String>,
}

impl<'a> Unfolding<'a> {
    /// Every pipeline that goes through a rule. `readers` are all bodies.
    pub(crate) fn all(&self, readers: &[Reader<'a>]) -> AllUnfolded {
        let mut uses: BTreeMap<Wanted, Option<Vec<Use<'a>>>> = BTreeMap::new();
        let mut known: BTreeMap<Place, BTreeSet<Wanted>> = BTreeMap::new();
        for reader in readers {
            let body = reader.body;
            if body.atoms.iter().any(|atom| self.rules.contains_key(&atom.relation)) {
                known.insert(reader.place, self.note(reader, &mut uses));
            }
        }
        let mut all = AllUnfolded::new();
        for reader in readers {
            for (start, names) in reader.pinned.iter().flat_map(|pinned| &pinned.through) {
                all.extend(
                    self.pinned(reader, *start, names).map(|unfolded| ((reader.place, *start), unfolded)),
                );
            }
        }
        for (index, uses) in &uses {
            let Some(uses) = uses else { continue };
            if let Some(unfolded) = self.of_index(index, uses, &known) {
                all.extend(unfolded);
            }
        }
        all
    }

    /// Notes the indexes of tables with such rules that a body's pipelines probe; `None` where one has to stay. Gives
    /// all that they probe.
    fn note(
        &self,
        reader: &Reader<'a>,
        uses: &mut BTreeMap<Wanted, Option<Vec<Use<'a>>>>,
    ) -> BTreeSet<Wanted> {
        let body = reader.body;
        let search = Search::new(body, Aim::Main, self.estimates);
        let pinned = reader.pinned.map(|pinned| &pinned.body).filter(|pinned| pinned.fit(body.atoms.len()));
        let orders = match pinned {
            Some(pinned) => pinned.atoms.iter().map(|order| search.along(order)).collect(),
            None => search.all(),
        };
        let whole = pinned.map_or_else(|| cheapest(&orders), |pinned| pinned.whole);
        let mut known = BTreeSet::new();
        for (start, order) in orders.iter().enumerate() {
            let draft = Draft::new(body, Aim::Main, &order.atoms);
            // Pipelines for failures would need the index all the same.
            let mut stays = start == whole || draft.unseen(body).next().is_some();
            stays |= reader.pinned.is_some();
            let probes = wanted(body, &draft);
            let mut of_rules = probes.iter().filter(|(_, index)| self.rules.contains_key(&index.0));
            stays |= of_rules.clone().count() > 1;
            for (atom, index) in of_rules.by_ref() {
                let entry = uses.entry(index.clone()).or_insert_with(|| Some(Vec::new()));
                match entry {
                    Some(_) if stays => *entry = None,
                    Some(uses) => {
                        uses.push(Use { place: reader.place, body, start, atom: *atom, cost: order.cost });
                    }
                    None => {}
                }
            }
            known.extend(probes.into_iter().map(|(_, index)| index));
        }
        known
    }

    /// The pipelines that would probe an index, gone through the rule, if that is worth it.
    fn of_index(
        &self,
        index: &Wanted,
        uses: &[Use<'a>],
        known: &BTreeMap<Place, BTreeSet<Wanted>>,
    ) -> Option<AllUnfolded> {
        let rule = self.rules[&index.0];
        let mut more: BTreeMap<Wanted, f64> = BTreeMap::new();
        let mut all = AllUnfolded::new();
        let of_rule = Search::new(rule, Aim::Main, self.estimates).all();
        let of_rule: BTreeSet<Wanted> = of_rule
            .iter()
            .flat_map(|order| wanted(rule, &Draft::new(rule, Aim::Main, &order.atoms)))
            .map(|(_, index)| index)
            .collect();
        for Use { place, body, start, atom, cost } in uses {
            let unfolded = inline(body, *atom, rule, self.program)?;
            if unfolded.atoms.len() > MOST_ATOMS {
                return None;
            }
            let atoms = rule.atoms.len();
            let search = Search::new(&unfolded, Aim::Main, self.estimates);
            let order = search.all().swap_remove(begin(*start, *atom, atoms));
            if order.cost > cost * HARDLY_MORE {
                return None;
            }
            let draft = Draft::new(&unfolded, Aim::Main, &order.atoms);
            if draft.unseen(&unfolded).next().is_some() {
                return None;
            }
            for (at, index) in wanted(&unfolded, &draft) {
                if !of_rule.contains(&index) && !known[place].contains(&index) {
                    more.insert(index, search.model.atoms[at].selected);
                }
            }
            all.insert((*place, *start), Unfolded { body: unfolded, order, atom: *atom, atoms });
        }
        let rows = self.estimates.of(index.0).rows;
        (more.into_values().sum::<f64>() < rows).then_some(all)
    }

    /// What was chosen before for a body's pipeline.
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

/// The place of an atom once so many stand in the place of another one.
fn begin(start: usize, atom: usize, atoms: usize) -> usize {
    if start < atom { start } else { start + atoms - 1 }
}

/// The atoms that a draft probes, and by which index.
fn wanted(body: &Body, draft: &Draft) -> Vec<(usize, Wanted)> {
    let probe = |op: &Op| {
        let Op::Probe { atom, key } = op else { return None };
        let of = &body.atoms[*atom];
        let columns = key.iter().map(|(column, _)| *column).collect();
        Some((*atom, (of.relation, format!("{:?}", of.select), columns)))
    };
    draft.ops.iter().filter_map(probe).collect()
}
