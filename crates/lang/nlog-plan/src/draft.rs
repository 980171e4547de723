//! One pipeline over variables: its operations in order. `lower` replaces variables by slots.

use nlog::program::{Expr, VariableId};

use crate::analysis::{equations, may_be_none, may_fail, variables_of};
use crate::body::{Body, What};
use crate::dependency::Variables;

/// The purpose of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Finds all bindings, except those for which the equation behind a probe's key fails.
    Main,
    /// Finds the bindings for which the item of this number fails.
    Failure(usize),
}

/// A pipeline over variables.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The atoms in join order; the pipeline starts with the first one.
    pub(crate) order: Vec<usize>,
    pub(crate) ops: Vec<Op>,
}

/// An operation on each binding.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// An item of the body.
    Item(usize),
    /// Computes the value of a variable of the next atom from the equation with this item number.
    Key { item: usize, variable: VariableId, expr: Expr },
    /// Finds the rows of an atom that agree on these columns.
    Probe { atom: usize, key: Vec<(usize, VariableId)> },
    /// Evaluates an expression of the head that can fail or have no value, in a pipeline that does not build the
    /// head.
    Head(Expr),
}

/// A binding's variables, and the items that have been applied to it.
#[derive(Debug, Clone)]
pub(crate) struct State<'a> {
    body: &'a Body,
    aim: Aim,
    pub(crate) bound: Variables,
    applied: Vec<bool>,
}

/// A column of an atom by which its rows are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPart<'a> {
    pub(crate) column: usize,
    pub(crate) variable: VariableId,
    /// The item and the expression that compute the value, if the variable is not bound.
    pub(crate) equation: Option<(usize, &'a Expr)>,
}

impl<'a> State<'a> {
    /// The state before any operation.
    pub(crate) fn new(body: &'a Body, aim: Aim) -> Self {
        State { body, aim, bound: Variables::new(), applied: vec![false; body.items.len()] }
    }

    /// The key of an atom: the variables by which its rows are found, each with the equation that computes its value
    /// if it is not bound.
    pub(crate) fn key(&self, atom: usize) -> Vec<KeyPart<'a>> {
        let columns = &self.body.atoms[atom].columns;
        let part = |(column, variable): &(usize, VariableId)| {
            let (column, variable) = (*column, *variable);
            let equation = if self.bound.contains(&variable) { None } else { Some(self.equation(variable)?) };
            Some(KeyPart { column, variable, equation })
        };
        columns.iter().filter_map(part).collect()
    }

    /// An equation that computes the variable's value.
    fn equation(&self, wanted: VariableId) -> Option<(usize, &'a Expr)> {
        let body = self.body;
        body.items.iter().enumerate().find_map(|(at, item)| {
            let What::Filter(expr) = &item.what else { return None };
            if self.applied[at] || (item.may_fail && self.aim != Aim::Main) {
                return None;
            }
            equations(expr).into_iter().find_map(|(variable, other)| {
                let used = variables_of(other);
                let fits = variable == wanted
                    && !used.is_empty()
                    && used.is_subset(&self.bound)
                    && used.is_disjoint(&body.failing);
                fits.then_some((at, other))
            })
        })
    }

    /// Joins an atom, then applies the items whose variables are bound.
    pub(crate) fn join(&mut self, atom: usize, ops: &mut Vec<Op>) {
        let parts = self.key(atom);
        for part in &parts {
            if let Some((item, expr)) = part.equation {
                self.applied[item] = true;
                ops.push(Op::Key { item, variable: part.variable, expr: expr.clone() });
            }
        }
        let key = parts.into_iter().map(|part| (part.column, part.variable)).collect();
        ops.push(Op::Probe { atom, key });
        self.bind(atom, ops);
    }

    /// Binds the variables of an atom, then applies the items whose variables are bound.
    pub(crate) fn bind(&mut self, atom: usize, ops: &mut Vec<Op>) {
        self.bound.extend(self.body.atoms[atom].variables.iter().copied());
        self.apply(ops);
    }

    /// Applies every item whose variables are bound.
    pub(crate) fn apply(&mut self, ops: &mut Vec<Op>) {
        let items = &self.body.items;
        while let Some(at) =
            (0..items.len()).find(|&at| !self.applied[at] && items[at].uses.is_subset(&self.bound))
        {
            self.applied[at] = true;
            self.bound.extend(items[at].binds());
            ops.push(Op::Item(at));
        }
    }
}

impl Draft {
    /// Drafts a pipeline that joins the atoms in this order; the order is empty for a fact.
    pub(crate) fn new(body: &Body, aim: Aim, order: &[usize]) -> Self {
        let mut state = State::new(body, aim);
        let mut ops = Vec::new();
        match order.split_first() {
            None => state.apply(&mut ops),
            Some((first, rest)) => {
                state.bind(*first, &mut ops);
                for atom in rest {
                    state.join(*atom, &mut ops);
                }
            }
        }
        if aim != Aim::Main {
            let heads = body.head_expressions().filter(|expr| may_fail(expr) || may_be_none(expr));
            ops.extend(heads.cloned().map(Op::Head));
        }
        let mut draft = Draft { order: order.to_vec(), ops };
        draft.drop_what_nobody_reads(body, aim);
        draft
    }

    /// The items that can fail and serve as keys here, so that this pipeline does not see their failures.
    pub(crate) fn unseen<'a>(&'a self, body: &'a Body) -> impl Iterator<Item = usize> + 'a {
        self.ops.iter().filter_map(|op| match op {
            Op::Key { item, .. } if body.items[*item].may_fail => Some(*item),
            _ => None,
        })
    }

    /// For each operation, the variables needed after it. The last entry has the variables needed at the start.
    pub(crate) fn live(&self, body: &Body, aim: Aim) -> Vec<Variables> {
        let mut live = if aim == Aim::Main { body.head.clone() } else { Variables::new() };
        let mut all = Vec::with_capacity(self.ops.len() + 1);
        for op in self.ops.iter().rev() {
            all.push(live.clone());
            op.before(body, &mut live);
        }
        all.reverse();
        all.push(live);
        all
    }

    /// Drops values that are never read, if computing them has no other effect.
    fn drop_what_nobody_reads(&mut self, body: &Body, aim: Aim) {
        let mut live = if aim == Aim::Main { body.head.clone() } else { Variables::new() };
        let mut kept = Vec::with_capacity(self.ops.len());
        for op in self.ops.drain(..).rev() {
            let is_read = match &op {
                Op::Item(at) if body.items[*at].is_harmless() => {
                    body.items[*at].binds().iter().any(|bound| live.contains(bound))
                }
                _ => true,
            };
            if is_read {
                op.before(body, &mut live);
                kept.push(op);
            }
        }
        kept.reverse();
        self.ops = kept;
    }
}

impl Op {
    /// Turns the variables needed after the operation into those needed before it.
    fn before(&self, body: &Body, live: &mut Variables) {
        match self {
            Op::Item(at) => {
                for bound in body.items[*at].binds() {
                    live.remove(&bound);
                }
                live.extend(body.items[*at].uses.iter().copied());
            }
            Op::Key { variable, expr, .. } => {
                live.remove(variable);
                live.extend(variables_of(expr));
            }
            Op::Probe { atom, key } => {
                for variable in &body.atoms[*atom].variables {
                    live.remove(variable);
                }
                live.extend(key.iter().map(|(_, variable)| *variable));
            }
            Op::Head(expr) => live.extend(variables_of(expr)),
        }
    }
}
