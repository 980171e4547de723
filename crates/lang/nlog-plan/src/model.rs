//! The estimated cost of joining the atoms of a rule in some order.
//!
//! The number of rows that a value of a variable finds follows from the [distributions](crate::spread) of the variable's
//! columns, if samples show them. Columns that are joined together count as one column if there are joint statistics.
//! Otherwise the estimates are those of System R (Selinger and others, SIGMOD 1979): values are uniformly distributed,
//! columns are independent, and if two columns are joined, all values of the one with fewer values occur in the other. A
//! declared key finds at most one row.
//!
//! The number of bindings of a set of atoms is the minimum over all join orders, so it does not depend on the order.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nlog::program::{Expr, VariableId};
use nlog_data::function::Multiplicity;

use crate::analysis::{EQUAL, equations, variables_of};
use crate::body::{Body, What};
use crate::common_variables::{CommonVariables, common_variables};
use crate::draft::Aim;
use crate::estimate::{Estimate, Estimates};
use crate::plan::{Operand, Selection};
use crate::spread::Spread;
use crate::statistics::sampled_hash;

/// A set of variables or items, by their numbers in a [`Model`]. Numbers beyond 128 belong to no set, so estimates
/// for such large rules are coarser, but plans remain correct.
pub(crate) type Mask = u128;

/// The cost of looking up a binding's key, in rows touched.
pub(crate) const LOOKUP: f64 = 1.0;

/// The assumed number of results of a multi-valued function.
const GENERATED: f64 = 4.0;

/// The assumed minimum number of rows that a product finds in a table without statistics.
pub(crate) const UNKNOWN: f64 = 32.0;

/// The assumed fraction of bindings for which an order between two values holds.
const ORDERED: f64 = 1.0 / 3.0;

/// The assumed fraction of bindings for which any other condition holds.
const HOLDS: f64 = 0.5;

/// The assumed fraction of bindings for which an expression fails.
const FAILS: f64 = 0.001;

/// A body with its estimates.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) atoms: Vec<AtomModel>,
    items: Vec<ItemModel>,
    /// The estimated maximum number of values, by variable.
    values: Vec<f64>,
    /// Facts about columns that atoms have in common, those with the most variables first.
    common: Vec<Common>,
    /// The spread of common values after joining a set of atoms, by entry of `common` and set.
    joined: RefCell<HashMap<(usize, u64), Arc<Spread>>>,
}

/// A variable that occurs in several atoms, or several such variables treated as one.
#[derive(Debug)]
struct Common {
    variables: Mask,
    members: Vec<Member>,
}

/// An atom that contains the common variables.
#[derive(Debug)]
struct Member {
    atom: usize,
    /// The number of values, or of combinations of values.
    distinct: f64,
    spread: Option<Arc<Spread>>,
}

#[derive(Debug)]
pub(crate) struct AtomModel {
    /// The number of rows that satisfy the atom's own conditions.
    pub(crate) selected: f64,
    variables: Mask,
    columns: Vec<ColumnModel>,
    /// The sets of variables that determine at most one row.
    keys: Vec<Mask>,
    /// Whether its rows have been counted.
    pub(crate) counted: bool,
}

/// A column that contains a variable.
#[derive(Debug)]
struct ColumnModel {
    column: usize,
    variable: usize,
    /// The number of its values.
    distinct: f64,
}

#[derive(Debug)]
struct ItemModel {
    uses: Mask,
    binds: Mask,
    /// The number of bindings after the item for each binding before it.
    share: f64,
    /// The variables whose value it can compute, each with the variables that this needs.
    gives: Vec<(usize, Mask)>,
    /// The variable that it binds to one value for each combination of its inputs.
    computes: Option<usize>,
}

/// Bindings of some of the atoms.
#[derive(Debug, Clone)]
pub(crate) struct Bindings {
    /// The number of bindings.
    pub(crate) count: f64,
    /// The atoms, as a set. Atoms beyond the 64th belong to no set.
    atoms: u64,
    bound: Mask,
    applied: Mask,
    /// The maximum number of its values among the bindings, by variable.
    values: Vec<f64>,
}

/// The result of joining one more atom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Rows for each binding, before items are applied to them.
    pub(crate) fan_out: f64,
    /// The key columns, as a set. Columns beyond the 64th belong to no set.
    pub(crate) by: u64,
    /// Whether no column of the atom was bound.
    pub(crate) is_product: bool,
    /// Whether the atom's rows have been counted.
    pub(crate) counted: bool,
    /// The equations that provided values of the key.
    used: Mask,
}

impl Model {
    pub(crate) fn new(body: &Body, aim: Aim, estimates: Estimates<'_>) -> Self {
        let numbers = numbers(body);
        let mask = |variables: &mut dyn Iterator<Item = VariableId>| -> Mask {
            variables
                .filter_map(|variable| bit(numbers.get(&variable).copied()))
                .fold(0, |all, one| all | one)
        };
        let mut values = vec![f64::INFINITY; numbers.len()];
        let atoms: Vec<AtomModel> = (body.atoms.iter())
            .map(|atom| {
                let estimate = estimates.of(atom.relation);
                let selected = selected(estimate, &atom.select);
                let columns = atom.columns.iter().filter_map(|(column, variable)| {
                    let distinct = estimate.distinct[*column].min(selected.max(1.0));
                    Some(ColumnModel { column: *column, variable: *numbers.get(variable)?, distinct })
                });
                let columns: Vec<ColumnModel> = columns.collect();
                for ColumnModel { variable, distinct, .. } in &columns {
                    values[*variable] = values[*variable].min(*distinct);
                }
                AtomModel {
                    selected,
                    variables: mask(&mut atom.variables.iter().copied()),
                    columns,
                    keys: atom.keys.iter().map(|key| mask(&mut key.iter().copied())).collect(),
                    counted: estimate.counted,
                }
            })
            .collect();
        computed(body, &numbers, &mut values);
        let items = body.items.iter().enumerate().map(|(at, item)| {
            let known = |variable: &VariableId| {
                numbers.get(variable).map_or(f64::INFINITY, |variable| values[*variable])
            };
            let mut gives = Vec::new();
            if let (What::Filter(expr), true) = (&item.what, !item.may_fail || aim == Aim::Main) {
                for (variable, other) in equations(expr) {
                    let used = variables_of(other);
                    if let Some(variable) = numbers.get(&variable)
                        && !used.is_empty()
                        && used.is_disjoint(&body.failing)
                    {
                        gives.push((*variable, mask(&mut used.into_iter())));
                    }
                }
            }
            let share = match &item.what {
                _ if aim == Aim::Failure(at) => FAILS,
                What::Let { .. } => 1.0,
                What::Generate { function, .. } if function.multiplicity != Multiplicity::Many => 1.0,
                What::Generate { .. } => GENERATED,
                What::Filter(expr) => share_that_holds(expr, &known),
            };
            let computes = match &item.what {
                What::Let { variable, .. } => numbers.get(variable).copied(),
                _ => None,
            };
            let binds = mask(&mut item.binds().into_iter());
            ItemModel { uses: mask(&mut item.uses.iter().copied()), binds, share, gives, computes }
        });
        let items = items.collect();
        let common = common(body, estimates, &atoms, &mask);
        Model { atoms, items, values, common, joined: RefCell::default() }
    }

    /// The single binding before any atom.
    pub(crate) fn once(&self) -> Bindings {
        let values = vec![f64::INFINITY; self.values.len()];
        let mut bindings = Bindings { count: 1.0, atoms: 0, bound: 0, applied: 0, values };
        self.apply(&mut bindings);
        bindings
    }

    /// The rows of the atom found for each binding, and the resulting bindings.
    pub(crate) fn join(&self, bindings: &Bindings, atom: usize) -> (Bindings, Found) {
        let found = self.find(bindings, atom);
        let mut joined = bindings.clone();
        joined.applied |= found.used;
        joined.atoms |= one(atom);
        joined.bound |= self.atoms[atom].variables;
        joined.count *= found.fan_out;
        for ColumnModel { variable, distinct, .. } in &self.atoms[atom].columns {
            joined.values[*variable] = joined.values[*variable].min(*distinct);
        }
        self.apply(&mut joined);
        (joined, found)
    }

    /// The rows of the atom found for a binding.
    pub(crate) fn find(&self, bindings: &Bindings, atom: usize) -> Found {
        let AtomModel { selected, columns, keys, counted, .. } = &self.atoms[atom];
        let mut used = 0;
        let (mut by, mut bound): (u64, Mask) = (0, 0);
        let (mut here, mut there) = (1.0, 1.0);
        let known = self.known(bindings, atom);
        let mut is_product = !columns.is_empty();
        for ColumnModel { column, variable, distinct } in columns {
            let of_variable = bit(Some(*variable)).unwrap_or(0);
            let values = if bindings.bound & of_variable != 0 {
                bindings.values[*variable]
            } else if let Some((item, values)) = self.equation(bindings, *variable) {
                used |= 1 << item;
                values
            } else {
                continue;
            };
            bound |= of_variable;
            by |= 1_u64.checked_shl(*column as u32).unwrap_or(0);
            is_product = false;
            let values = values.min(bindings.count.max(1.0));
            if known.variables & of_variable == 0 {
                here *= values;
                there *= *distinct;
            }
        }
        if is_product || columns.is_empty() {
            let is_one = keys.contains(&0);
            let fan_out = if is_one { selected.min(1.0) } else { *selected };
            return Found { fan_out, by, is_product: is_product && !is_one, counted: *counted, used };
        }
        let fan_out = selected * known.share / here.min(bindings.count).max(there.min(*selected)).max(1.0);
        let looked_up = keys.iter().find(|key| *key & !bound == 0);
        let fan_out = match (looked_up, counted) {
            (None, _) => fan_out,
            (Some(_), true) => fan_out.min(1.0),
            // References to keys usually resolve; other conditions may not hold.
            (Some(key), false) => {
                let fits = |column: &ColumnModel| {
                    let of_variable = bit(Some(column.variable)).unwrap_or(0);
                    let is_more = of_variable & bound != 0 && key & of_variable == 0;
                    if is_more { 1.0 / column.distinct } else { 1.0 }
                };
                selected.min(1.0) * columns.iter().map(fits).product::<f64>()
            }
        };
        Found { fan_out, by, is_product: false, counted: *counted, used }
    }

    /// Facts about the variables that the atom and the bindings have in common.
    fn known(&self, bindings: &Bindings, atom: usize) -> Known {
        let mut known = Known { share: 1.0, variables: 0 };
        for (at, Common { variables, members }) in self.common.iter().enumerate() {
            let is_bound = variables & !bindings.bound == 0 && variables & known.variables == 0;
            let own = members.iter().find(|member| member.atom == atom);
            let (Some(own), true) = (own, is_bound) else { continue };
            let mut others =
                members.iter().filter(|member| bindings.atoms & one(member.atom) != 0).peekable();
            if others.peek().is_none() {
                continue;
            }
            let with_spread = members.iter().filter(|member| member.spread.is_some());
            let with_spread = with_spread.fold(0, |all, member| all | one(member.atom)) & bindings.atoms;
            known.share *= if own.spread.is_some() && with_spread != 0 {
                let before = self.share(at, with_spread);
                (self.share(at, with_spread | one(atom)) / before).min(1.0)
            } else if variables.count_ones() > 1 {
                let here = others.map(|member| member.distinct).fold(bindings.count.max(1.0), f64::min);
                1.0 / here.max(own.distinct.min(self.atoms[atom].selected)).max(1.0)
            } else {
                continue;
            };
            known.variables |= variables;
        }
        known
    }

    /// The fraction of all combinations of rows of these atoms that agree on the common variables.
    fn share(&self, common: usize, atoms: u64) -> f64 {
        let rows = |member: &Member| member.spread.as_ref().map_or(1.0, |spread| spread.rows);
        let members = self.common[common].members.iter().filter(|member| atoms & one(member.atom) != 0);
        let all: f64 = members.map(rows).product();
        // Values that do not occur now may occur later.
        self.spread(common, atoms).map_or(1.0, |spread| spread.rows.max(0.5) / all)
    }

    /// The distribution of the common values over the rows of the join of the atoms.
    fn spread(&self, common: usize, atoms: u64) -> Option<Arc<Spread>> {
        if let Some(known) = self.joined.borrow().get(&(common, atoms)) {
            return Some(Arc::clone(known));
        }
        let members = &self.common[common].members;
        let member = members.iter().rfind(|member| atoms & one(member.atom) != 0)?;
        let spread = member.spread.as_ref()?;
        let spread = match self.spread(common, atoms & !one(member.atom)) {
            Some(before) => Arc::new(before.join(spread)),
            None => Arc::clone(spread),
        };
        self.joined.borrow_mut().insert((common, atoms), Arc::clone(&spread));
        Some(spread)
    }

    /// An item that computes the variable's value, and the number of values.
    fn equation(&self, bindings: &Bindings, variable: usize) -> Option<(usize, f64)> {
        let items = self.items.iter().enumerate().take(Mask::BITS as usize);
        let mut unused = items.filter(|(at, _)| bindings.applied & (1 << at) == 0);
        unused.find_map(|(at, item)| {
            let mut gives = item.gives.iter();
            let (_, from) = gives.find(|(given, from)| *given == variable && from & !bindings.bound == 0)?;
            let of_one = |variable: usize| bindings.values[variable].max(1.0);
            let values: f64 = ones(*from).map(of_one).product();
            Some((at, values.min(bindings.count.max(1.0))))
        })
    }

    /// Applies the items whose variables are bound.
    fn apply(&self, bindings: &mut Bindings) {
        loop {
            let before = bindings.applied;
            for (at, item) in self.items.iter().enumerate().take(Mask::BITS as usize) {
                if bindings.applied & (1 << at) == 0 && item.uses & !bindings.bound == 0 {
                    bindings.applied |= 1 << at;
                    bindings.bound |= item.binds;
                    bindings.count *= item.share;
                    if let Some(variable) = item.computes {
                        let of = ones(item.uses).map(|used| bindings.values[used].max(1.0));
                        bindings.values[variable] = of.product();
                    }
                }
            }
            if bindings.applied == before {
                return;
            }
        }
    }

    /// The distribution of a variable's values over all bindings, if it is known.
    pub(crate) fn spread_of(&self, body: &Body, variable: VariableId) -> Option<Arc<Spread>> {
        let of_variable = bit(numbers(body).get(&variable).copied())?;
        let common = self.common.iter().position(|common| common.variables == of_variable)?;
        let members = self.common[common].members.iter();
        self.spread(common, members.fold(0, |all, member| all | one(member.atom)))
    }

    /// The number of distinct combinations of these variables among this many bindings.
    pub(crate) fn different(&self, body: &Body, variables: &[VariableId], count: f64) -> f64 {
        let numbers = numbers(body);
        let values = variables.iter().map(|variable| {
            let values = numbers.get(variable).map_or(f64::INFINITY, |variable| self.values[*variable]);
            values.min(count).max(1.0)
        });
        values.product::<f64>().min(count)
    }
}

/// Facts about the variables that an atom and bindings have in common.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The fraction of the atom's rows that a binding finds by them.
    share: f64,
    /// The variables.
    variables: Mask,
}

/// Limits the values of computed variables: one for each combination of the inputs, or a single one for a constant.
fn computed(body: &Body, numbers: &BTreeMap<VariableId, usize>, values: &mut [f64]) {
    // Each item uses only variables bound before it.
    for item in &body.items {
        if let What::Let { variable, .. } = &item.what
            && let Some(variable) = numbers.get(variable)
        {
            let of =
                item.uses.iter().map(|used| numbers.get(used).map_or(f64::INFINITY, |used| values[*used]));
            values[*variable] = of.map(|values| values.max(1.0)).product();
        }
    }
}

/// Facts about columns that atoms have in common.
fn common(
    body: &Body,
    estimates: Estimates<'_>,
    atoms: &[AtomModel],
    mask: &dyn Fn(&mut dyn Iterator<Item = VariableId>) -> Mask,
) -> Vec<Common> {
    let mut all: Vec<Common> = common_variables(body)
        .into_iter()
        .map(|common_variables| Common {
            variables: mask(&mut common_variables.variables.iter().copied()),
            members: members(body, estimates, atoms, &common_variables),
        })
        .collect();
    // Combinations with the most variables first: they are more informative than single variables.
    all.sort_by_key(|common| (std::cmp::Reverse(common.variables.count_ones()), common.variables));
    let mut single: BTreeMap<VariableId, Vec<Member>> = BTreeMap::new();
    for (at, atom) in body.atoms.iter().enumerate() {
        let estimate = estimates.of(atom.relation);
        for (column, variable) in &atom.columns {
            if let Some(spread) = &estimate.spreads[*column] {
                let spread = Some(Arc::clone(spread));
                let member = Member { atom: at, distinct: estimate.distinct[*column], spread };
                single.entry(*variable).or_default().push(member);
            }
        }
    }
    let single = single.into_iter();
    all.extend(
        single.map(|(variable, members)| Common { variables: mask(&mut [variable].into_iter()), members }),
    );
    all.retain(|common| common.variables != 0);
    all
}

/// The atoms for which the number of combinations of several variables is known.
fn members(
    body: &Body,
    estimates: Estimates<'_>,
    atoms: &[AtomModel],
    common: &CommonVariables,
) -> Vec<Member> {
    let is_key = |atom: usize| {
        body.atoms[atom].keys.iter().any(|key| !key.is_empty() && key.is_subset(&common.variables))
    };
    let distinct = |atom: usize, columns: &[usize]| {
        let estimate = estimates.of(body.atoms[atom].relation);
        let is_same = |other: &[usize]| {
            other.len() == columns.len() && other.iter().all(|column| columns.contains(column))
        };
        let counted = estimate.joint.iter().find(|joint| is_same(&joint.columns));
        let counted = counted.map(|joint| joint.distinct);
        counted.or_else(|| (is_key(atom) && estimate.counted).then_some(atoms[atom].selected))
    };
    let keyed =
        common.members.iter().find(|(atom, columns)| is_key(*atom) && distinct(*atom, columns).is_some());
    let member = |(atom, columns): &(usize, Vec<usize>)| {
        let estimate = estimates.of(body.atoms[*atom].relation);
        let distinct = distinct(*atom, columns).or_else(|| {
            let keyed = keyed.filter(|_| estimate.counted)?;
            Some(referring(estimate, columns, estimates.of(body.atoms[keyed.0].relation), &keyed.1))
        })?;
        let exact = estimate.joint.iter().find(|joint| joint.columns == *columns);
        Some(Member { atom: *atom, distinct, spread: exact.and_then(|joint| joint.spread.clone()) })
    };
    common.members.iter().filter_map(member).collect()
}

/// The number of combinations of values in columns that refer to a key. References to keys usually resolve. So if
/// each column by itself has a matching row, all of them together are assumed to have one.
fn referring(estimate: &Estimate, columns: &[usize], keyed: &Estimate, key: &[usize]) -> f64 {
    let values = columns.iter().map(|column| estimate.distinct[*column]);
    let known = key.iter().map(|column| keyed.distinct[*column]);
    let fit: f64 = values.clone().zip(known).map(|(values, known)| (known / values).min(1.0)).product();
    values.product::<f64>().min(estimate.rows).min(keyed.rows / fit)
}

/// The number of rows that satisfy the conditions.
fn selected(estimate: &Estimate, select: &[Selection]) -> f64 {
    let share = |selection: &Selection| match &selection.equals {
        Operand::Constant(value) => match &estimate.spreads[selection.column] {
            // A value that does not occur now may occur later.
            Some(spread) => (spread.rows_with(sampled_hash(value)).max(0.5) / spread.rows).min(1.0),
            None => 1.0 / estimate.distinct[selection.column],
        },
        Operand::Column(other) => 1.0 / estimate.distinct[selection.column].max(estimate.distinct[*other]),
    };
    estimate.rows * select.iter().map(share).product::<f64>()
}

/// The fraction of bindings that satisfy a condition, given the numbers of values of variables.
fn share_that_holds(expr: &Expr, values: &dyn Fn(&VariableId) -> f64) -> f64 {
    let Expr::Call { function, arguments } = expr else { return HOLDS };
    let of_all = arguments.iter().flat_map(variables_of).map(|variable| values(&variable));
    let of_all = of_all.filter(|values| values.is_finite()).fold(2.0, f64::max);
    match (function.name.as_ref(), arguments.as_slice()) {
        (EQUAL, _) => 1.0 / of_all,
        ("!=" | "not_equal", _) => 1.0 - 1.0 / of_all,
        ("<" | "<=" | ">" | ">=", _) => ORDERED,
        _ => HOLDS,
    }
}

/// Numbers the variables. Variables that occur several times come first.
fn numbers(body: &Body) -> BTreeMap<VariableId, usize> {
    let mut places: BTreeMap<VariableId, usize> = BTreeMap::new();
    let in_atoms = body.atoms.iter().flat_map(|atom| atom.variables.iter().copied());
    let in_items = body.items.iter().flat_map(|item| item.uses.iter().copied().chain(item.binds()));
    for variable in in_atoms.chain(in_items) {
        *places.entry(variable).or_default() += 1;
    }
    let mut variables: Vec<(VariableId, usize)> = places.into_iter().collect();
    variables.sort_by_key(|(variable, places)| (std::cmp::Reverse((*places).min(2)), *variable));
    variables.into_iter().enumerate().map(|(number, (variable, _))| (variable, number)).collect()
}

/// The set of one atom, if there is room for it.
fn one(atom: usize) -> u64 {
    1_u64.checked_shl(atom as u32).unwrap_or(0)
}

/// The set of one number, if there is room for it.
fn bit(number: Option<usize>) -> Option<Mask> {
    number.and_then(|number| 1_u128.checked_shl(number as u32))
}

/// The numbers in a set.
fn ones(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(next)
    })
}
