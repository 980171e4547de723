//! What joining the atoms of a rule in some order is thought to cost.
//!
//! The estimates are those of System R (Selinger and others, SIGMOD 1979): values are spread evenly, columns do not
//! depend on each other, and of two keys that are joined the one with fewer values has all of them in the other. What
//! is declared to be a key finds one row at most.
//!
//! The number of bindings of a set of atoms is the least that any order of joining them gives, so that it does not
//! depend on the order.

use nlog::program::{Expr, VariableId};
use nlog_data::function::Multiplicity;

use crate::analysis::{EQUAL, equations, variables_of};
use crate::body::{Body, What};
use crate::draft::Aim;
use crate::estimate::{Estimate, Estimates};
use crate::plan::{Operand, Selection};

/// A set of variables or items, by their numbers in a [`Model`]. Those beyond the 128th are in no set: estimates are
/// coarser for rules of that many, plans as right as ever.
pub(crate) type Mask = u128;

/// What finding the rows of a binding's key costs, in rows touched.
pub(crate) const LOOKUP: f64 = 1.0;

/// What a function with many results is thought to give.
const GENERATED: f64 = 4.0;

/// How many rows of a table of which nothing has been counted a product is thought to find at least.
pub(crate) const UNKNOWN: f64 = 32.0;

/// The part of bindings for which an order between two values holds.
const ORDERED: f64 = 1.0 / 3.0;

/// The part of bindings for which any other condition holds.
const HOLDS: f64 = 0.5;

/// The part of bindings for which an expression fails.
const FAILS: f64 = 0.001;

/// A body with figures.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) atoms: Vec<AtomModel>,
    items: Vec<ItemModel>,
    /// By variable, how many values it is thought to have at most.
    values: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct AtomModel {
    /// How many rows fit the atom by itself.
    pub(crate) selected: f64,
    variables: Mask,
    columns: Vec<ColumnModel>,
    /// The variables by which one row at most is found.
    key: Option<Mask>,
    /// Whether its rows have been counted.
    pub(crate) counted: bool,
}

/// A column in which a variable stands.
#[derive(Debug)]
struct ColumnModel {
    column: usize,
    variable: usize,
    /// How many values it has.
    distinct: f64,
}

#[derive(Debug)]
struct ItemModel {
    uses: Mask,
    binds: Mask,
    /// Bindings after it for each before it.
    share: f64,
    /// Variables whose value it gives, each with those that it takes for that.
    gives: Vec<(usize, Mask)>,
}

/// Bindings of some of the atoms.
#[derive(Debug, Clone)]
pub(crate) struct Bindings {
    /// How many there are.
    pub(crate) count: f64,
    bound: Mask,
    applied: Mask,
    /// By variable, how many values it has among them at most.
    values: Vec<f64>,
}

/// What joining one more atom gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Rows for each binding, before items are applied to them.
    pub(crate) fan_out: f64,
    /// The columns by which they are found, as a set; those beyond the 64th are in none.
    pub(crate) by: u64,
    /// Whether nothing of the atom was known.
    pub(crate) is_product: bool,
    /// Whether the atom's rows have been counted.
    pub(crate) counted: bool,
    /// The equations that gave values of those.
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
                    key: atom.key.as_ref().map(|key| mask(&mut key.iter().copied())),
                    counted: estimate.counted,
                }
            })
            .collect();
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
            let binds = mask(&mut item.binds().into_iter());
            ItemModel { uses: mask(&mut item.uses.iter().copied()), binds, share, gives }
        });
        let items = items.collect();
        Model { atoms, items, values }
    }

    /// Bindings before any atom.
    pub(crate) fn once(&self) -> Bindings {
        let values = vec![f64::INFINITY; self.values.len()];
        let mut bindings = Bindings { count: 1.0, bound: 0, applied: 0, values };
        self.apply(&mut bindings);
        bindings
    }

    /// How many rows of the atom are found for each binding, and the bindings that they become.
    pub(crate) fn join(&self, bindings: &Bindings, atom: usize) -> (Bindings, Found) {
        let found = self.find(bindings, atom);
        let mut joined = bindings.clone();
        joined.applied |= found.used;
        joined.bound |= self.atoms[atom].variables;
        joined.count *= found.fan_out;
        for ColumnModel { variable, distinct, .. } in &self.atoms[atom].columns {
            joined.values[*variable] = joined.values[*variable].min(*distinct);
        }
        self.apply(&mut joined);
        (joined, found)
    }

    /// What the atom gives for a binding.
    fn find(&self, bindings: &Bindings, atom: usize) -> Found {
        let AtomModel { selected, columns, key, counted, .. } = &self.atoms[atom];
        let mut used = 0;
        let (mut by, mut bound): (u64, Mask) = (0, 0);
        let (mut here, mut there) = (1.0, 1.0);
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
            here *= values.min(bindings.count.max(1.0));
            there *= *distinct;
        }
        if is_product || columns.is_empty() {
            let is_one = *key == Some(0);
            let fan_out = if is_one { selected.min(1.0) } else { *selected };
            return Found { fan_out, by, is_product: is_product && !is_one, counted: *counted, used };
        }
        let fan_out = selected / here.min(bindings.count).max(there.min(*selected)).max(1.0);
        let is_lookup = key.is_some_and(|key| key & !bound == 0);
        let fan_out = match (is_lookup, counted) {
            (false, _) => fan_out,
            (true, true) => fan_out.min(1.0),
            // Keys are mostly there for others to refer to; what else has to fit, may not.
            (true, false) => {
                let fits = |column: &ColumnModel| {
                    let of_variable = bit(Some(column.variable)).unwrap_or(0);
                    let is_more = of_variable & bound != 0 && key.is_some_and(|key| key & of_variable == 0);
                    if is_more { 1.0 / column.distinct } else { 1.0 }
                };
                selected.min(1.0) * columns.iter().map(fits).product::<f64>()
            }
        };
        Found { fan_out, by, is_product: false, counted: *counted, used }
    }

    /// An item that gives the variable's value, and how many values that are.
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
                }
            }
            if bindings.applied == before {
                return;
            }
        }
    }

    /// How many different values of these variables there are among so many bindings.
    pub(crate) fn different(&self, body: &Body, variables: &[VariableId], count: f64) -> f64 {
        let numbers = numbers(body);
        let values = variables.iter().map(|variable| {
            let values = numbers.get(variable).map_or(f64::INFINITY, |variable| self.values[*variable]);
            values.min(count).max(1.0)
        });
        values.product::<f64>().min(count)
    }
}

/// How many rows fit by themselves.
fn selected(estimate: &Estimate, select: &[Selection]) -> f64 {
    let share = |selection: &Selection| match selection.equals {
        Operand::Constant(_) => 1.0 / estimate.distinct[selection.column],
        Operand::Column(other) => 1.0 / estimate.distinct[selection.column].max(estimate.distinct[other]),
    };
    estimate.rows * select.iter().map(share).product::<f64>()
}

/// The part of bindings for which a condition holds, by how many values variables have.
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

/// The variables, numbered, those that stand in several places first.
fn numbers(body: &Body) -> std::collections::BTreeMap<VariableId, usize> {
    let mut places: std::collections::BTreeMap<VariableId, usize> = std::collections::BTreeMap::new();
    let in_atoms = body.atoms.iter().flat_map(|atom| atom.variables.iter().copied());
    let in_items = body.items.iter().flat_map(|item| item.uses.iter().copied().chain(item.binds()));
    for variable in in_atoms.chain(in_items) {
        *places.entry(variable).or_default() += 1;
    }
    let mut variables: Vec<(VariableId, usize)> = places.into_iter().collect();
    variables.sort_by_key(|(variable, places)| (std::cmp::Reverse((*places).min(2)), *variable));
    variables.into_iter().enumerate().map(|(number, (variable, _))| (variable, number)).collect()
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
