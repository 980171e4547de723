//! Stages: parts of a rule's body whose needed columns do not distinguish all their bindings.
//!
//! In `tunnel(port, source, …) :- log_port(p, ldp), log_port_presence(p, source), log_port(port, ldp), …` the rest of
//! the rule does not depend on the `p` that brought a datapath to a host. Without a stage, each `p` derives all
//! tunnels again, and they have to be counted; with a distinct `stage(ldp, source)`, each is derived once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nlog::program::{Expr, HeadTerm, Term, VariableId};

use crate::body::{Atom, Body, What};
use crate::cost::{Cost, Duplicates, estimate};
use crate::dependency::{Dependency, Variables};
use crate::draft::Aim;
use crate::estimate::Estimates;
use crate::order::Search;
use crate::query::RelationId;

/// The maximum number of atoms of a body that is searched for stages.
const MOST_ATOMS: usize = 9;

/// The most atoms of a body for which stages bound the number of derivations.
const MOST_LIMITED: usize = 40;

/// The most tables whose product of row counts fits into a count of derivations: a table has fewer than 2³¹ rows in
/// any memory, and [`MOST_WAYS`](nlog_data::MOST_WAYS) is 2⁶².
const COUNTABLE: usize = 2;

/// The maximum remaining fraction of the cost at which a stage is worth its memory.
const WORTH: f64 = 0.8;

/// The fraction of rows per binding below which duplicates are worth removing.
const FEW: f64 = 0.5;

/// A part of a body, and the rest of the body in which the part's rows replace it.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    /// The atoms of the part, as indices of the body's atoms.
    pub(crate) atoms: Vec<usize>,
    pub(crate) stage: Body,
    pub(crate) rest: Body,
}

impl Split {
    /// Turns these atoms into a stage, which becomes the relation with this number. `None` if nothing is gained
    /// because all columns that distinguish bindings are needed.
    pub(crate) fn new(body: &Body, atoms: &[usize], stage: RelationId) -> Option<Split> {
        let inside: Variables = atoms.iter().flat_map(|atom| &body.atoms[*atom].variables).copied().collect();
        // Lets stay outside, because their variables would be unnecessary columns.
        let belongs = |item: &crate::body::Item| {
            matches!(item.what, What::Filter(_)) && !item.may_fail && item.uses.is_subset(&inside)
        };
        let (own, others): (Vec<_>, Vec<_>) = body.items.iter().cloned().partition(belongs);
        let left: Vec<usize> = (0..body.atoms.len()).filter(|atom| !atoms.contains(atom)).collect();
        let mut outside = body.head.clone();
        outside.extend(left.iter().flat_map(|atom| &body.atoms[*atom].variables));
        outside.extend(others.iter().flat_map(|item| &item.uses));
        let mut atoms = atoms.to_vec();
        atoms.sort_by_key(|atom| body.atoms[*atom].relation);
        // The columns follow the order of the part's own atoms, so that equal parts of different rules are
        // recognised.
        let mut columns: Vec<VariableId> = Vec::new();
        for (_, variable) in atoms.iter().flat_map(|atom| &body.atoms[*atom].columns) {
            if outside.contains(variable) && !columns.contains(variable) {
                columns.push(*variable);
            }
        }
        let head = columns.iter().map(|variable| HeadTerm::Value(Expr::Variable(*variable))).collect();
        let part = atoms.iter().map(|atom| body.atoms[*atom].clone()).collect();
        let part = Body::of(part, own, head, body.names.clone());
        if part.is_unique() {
            return None;
        }
        let terms: Vec<Term> = columns.iter().map(|variable| Term::Variable(*variable)).collect();
        let mut atom = Atom::new(stage, &terms, []);
        let knowledge = part.knowledge(0..part.atoms.len());
        for variable in &columns {
            let from: Variables = [*variable].into();
            let to: Variables = knowledge.closure(&from).intersection(&atom.variables).copied().collect();
            if to == atom.variables && atom.keys.is_empty() {
                atom.keys.push(from.clone());
                atom.row = Some(from.clone());
            }
            if to.len() > 1 {
                atom.dependencies.push(Dependency { from, to });
            }
        }
        let mut rest = vec![atom];
        rest.extend(left.into_iter().map(|atom| body.atoms[atom].clone()));
        let rest = Body::of(rest, others, body.terms.clone(), body.names.clone());
        Some(Split { atoms, stage: part, rest })
    }

    /// The stage that saves the most, if any saves enough.
    pub(crate) fn best(body: &Body, duplicates: Duplicates, estimates: Estimates<'_>) -> Option<Split> {
        let count = body.atoms.len();
        if !(2..=MOST_ATOMS).contains(&count) || body.knowledge(0..count).is_unique(&body.head) {
            return None;
        }
        let without = Cost::total([&Cost::new(body, duplicates, estimates)]);
        let id = estimates.next();
        let mut best: Option<(f64, Split)> = None;
        for set in 1..(1_usize << count) - 1 {
            let atoms: Vec<usize> = (0..count).filter(|atom| set & (1 << atom) != 0).collect();
            if !is_connected(body, &atoms) {
                continue;
            }
            let Some(split) = Split::new(body, &atoms, id) else { continue };
            if split.stage.terms.is_empty() || !split.spares_duplicates(duplicates, estimates) {
                continue;
            }
            let cost = Cost::total(&split.costs(duplicates, estimates));
            if cost < without * WORTH && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, split));
            }
        }
        best.map(|(_, split)| split)
    }

    /// The cheapest stage that reduces the number of derivations of a row, if that number could be the product of the
    /// row counts of three or more tables.
    pub(crate) fn needed(body: &Body, duplicates: Duplicates, estimates: Estimates<'_>) -> Option<Split> {
        let count = body.atoms.len();
        if !(2..=MOST_LIMITED).contains(&count) {
            return None;
        }
        let cover = body.cover();
        if cover <= COUNTABLE {
            return None;
        }
        let parts: Vec<Vec<usize>> = if count <= MOST_ATOMS {
            let atoms = |set: usize| (0..count).filter(|atom| set & (1 << atom) != 0).collect();
            (1..(1_usize << count) - 1).map(atoms).collect()
        } else {
            let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| vec![one, other]));
            (0..count).map(|atom| vec![atom]).chain(pairs).collect()
        };
        let mut best: Option<(f64, Split)> = None;
        for atoms in parts.iter().filter(|atoms| is_connected(body, atoms)) {
            let Some(split) = Split::new(body, atoms, estimates.next()) else { continue };
            if split.stage.cover() > COUNTABLE || split.rest.cover() >= cover {
                continue;
            }
            let cost = Cost::total(&split.costs(duplicates, estimates));
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, split));
            }
        }
        best.map(|(_, split)| split)
    }

    /// Whether the rows of the head need no counts any more, or counted statistics show that the stage has far fewer
    /// rows than bindings.
    fn spares_duplicates(&self, duplicates: Duplicates, estimates: Estimates<'_>) -> bool {
        if duplicates == Duplicates::Counted && self.rest.is_unique() {
            return true;
        }
        // A guess does not justify the memory of a stage.
        if self.stage.atoms.iter().any(|atom| !estimates.of(atom.relation).counted) {
            return false;
        }
        let search = Search::new(&self.stage, Aim::Main, estimates);
        estimate(&search, &self.stage).rows <= search.bindings() * FEW
    }

    /// The costs of the stage and of the rest. The stage is the next relation after those with estimates.
    pub(crate) fn costs(&self, duplicates: Duplicates, estimates: Estimates<'_>) -> Vec<Cost> {
        let own = estimate(&Search::new(&self.stage, Aim::Main, estimates), &self.stage);
        vec![
            Cost::new(&self.stage, Duplicates::AlwaysCounted, estimates),
            Cost::new(&self.rest, duplicates, Estimates::with(estimates, &own)),
        ]
    }

    /// The names of the stage's columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        let columns = self.stage.head_expressions().map(|expr| match expr {
            Expr::Variable(variable) => self.stage.name(*variable),
            _ => String::new(),
        });
        columns.collect()
    }
}

impl Body {
    /// A text that is equal for bodies that differ only in the names of variables.
    pub(crate) fn identity(&self) -> String {
        let mut numbers: BTreeMap<VariableId, usize> = BTreeMap::new();
        let mut text = String::new();
        for atom in &self.atoms {
            let _ = write!(text, "{:?} {:?}", atom.relation, atom.select);
            for (column, variable) in &atom.columns {
                let next = numbers.len();
                let number = numbers.entry(*variable).or_insert(next);
                let _ = write!(text, " {column}:{number}");
            }
            text.push(';');
        }
        for item in &self.items {
            match &item.what {
                What::Filter(expr) => write_expr(&mut text, expr, &numbers),
                // Stages have no other items.
                other => drop(write!(text, "{other:?}")),
            }
            text.push(';');
        }
        for expr in self.head_expressions() {
            write_expr(&mut text, expr, &numbers);
            text.push(',');
        }
        text
    }
}

fn write_expr(text: &mut String, expr: &Expr, numbers: &BTreeMap<VariableId, usize>) {
    match expr {
        Expr::Variable(variable) => drop(write!(text, "{:?}", numbers.get(variable))),
        Expr::Constant(value) => drop(write!(text, "{value:?}")),
        Expr::Call { function, arguments } => {
            let _ = write!(text, "{function:?}(");
            for argument in arguments {
                write_expr(text, argument, numbers);
                text.push(',');
            }
            text.push(')');
        }
        Expr::If { condition, then, otherwise } => {
            for (word, part) in [("if", condition), ("then", then), ("else", otherwise)] {
                let _ = write!(text, " {word} ");
                write_expr(text, part, numbers);
            }
        }
    }
}

/// Whether the atoms are connected by shared variables, so that the part is not a product.
fn is_connected(body: &Body, atoms: &[usize]) -> bool {
    let Some((first, rest)) = atoms.split_first() else { return false };
    let mut bound = body.atoms[*first].variables.clone();
    let mut left = rest.to_vec();
    while let Some(at) = left.iter().position(|atom| !body.atoms[*atom].variables.is_disjoint(&bound)) {
        bound.extend(body.atoms[left.swap_remove(at)].variables.iter().copied());
    }
    left.is_empty()
}
