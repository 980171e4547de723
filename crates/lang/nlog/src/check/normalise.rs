//! The normal form of a body: its items in an order in which their inputs are bound.
//!
//! Atoms of tables come first; they bind every variable among their terms. The other items (`v = e`, functions) bind
//! the variables that are still free, each as soon as its inputs are bound. If several could come next, the least by
//! kind and hash of tokens does, so that the result does not depend on the order of the body. An item whose
//! variables are already bound is a comparison.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nlog_data::function::{Function, Multiplicity};
use nlog_data::{TableId, Type, function};

use super::constant_folding::Hoist;
use super::head::HeadTerm as HeadIr;
use super::resolve::{Item, ItemIr, Node, NodeKind, Resolver, Term as TermIr};
use super::types::TypeVar;
use crate::diagnostic::Code;
use crate::program::{BodyItem, Expr, HeadTerm, Term, Variable, VariableId};
use crate::syntax::ast::Span;

/// The parts of a rule that the normal form has.
pub(super) struct Normal {
    pub(super) terms: Vec<HeadTerm>,
    pub(super) variables: Vec<Variable>,
    pub(super) body: Vec<BodyItem>,
    /// For each item of the body, the place of its source item.
    pub(super) spans: Vec<Span>,
}

/// An item that can be placed once its inputs are bound. In the order of kinds, cheap items that bind nothing come
/// first.
#[derive(Debug)]
enum Step {
    /// A condition.
    Filter(Expr),
    /// `variable = expression`
    Let(VariableId, Expr),
    /// A function with any number of results, and the use of each result column.
    Generate(Arc<Function>, Vec<Expr>, Vec<Outcome>),
}

impl Step {
    fn rank(&self) -> u8 {
        match self {
            Step::Filter(_) => 0,
            Step::Let(_, Expr::Constant(_)) => 1,
            Step::Let(..) => 2,
            Step::Generate(..) => 3,
        }
    }
}

/// The use of a result.
#[derive(Debug, Clone)]
enum Outcome {
    Ignored(Type),
    Variable(VariableId),
    Equals(Expr, Type),
}

struct Pending {
    step: Step,
    inputs: BTreeSet<VariableId>,
    fingerprint: u64,
    span: Span,
}

/// The normal form under construction.
struct Builder {
    variables: Vec<Variable>,
    /// The number of each of the rule's variables.
    numbers: Vec<VariableId>,
    pending: Vec<Pending>,
    /// The fingerprint of the current item.
    fingerprint: u64,
    /// The place of the current item.
    span: Span,
    /// The place of each atom.
    atoms: Vec<Span>,
    may_hoist: bool,
}

impl Hoist for Builder {
    fn hoist(&mut self, ty: Type, function: &Arc<Function>, arguments: Vec<Expr>) -> Option<VariableId> {
        if !self.may_hoist {
            return None;
        }
        let variable = self.fresh(&function.name, ty);
        self.push(Step::Generate(function.clone(), arguments, vec![Outcome::Variable(variable)]));
        Some(variable)
    }

    fn variable(&self, index: usize) -> VariableId {
        self.numbers[index]
    }
}

impl Builder {
    fn fresh(&mut self, name: &str, ty: Type) -> VariableId {
        let id = VariableId(self.variables.len() as u32);
        // No name of the source contains a dot.
        self.variables.push(Variable { name: format!("{name}.{}", id.0), ty });
        id
    }

    fn push(&mut self, step: Step) {
        let mut inputs = BTreeSet::new();
        match &step {
            Step::Filter(expr) | Step::Let(_, expr) => expr.variables(&mut inputs),
            Step::Generate(_, arguments, results) => {
                for argument in arguments {
                    argument.variables(&mut inputs);
                }
                for result in results {
                    if let Outcome::Equals(expr, _) = result {
                        expr.variables(&mut inputs);
                    }
                }
            }
        }
        self.pending.push(Pending { step, inputs, fingerprint: self.fingerprint, span: self.span });
    }
}

impl Resolver<'_, '_> {
    /// The normal form of a rule, or `None` after a report.
    pub(super) fn normalise(&mut self, items: &[Item], head: &[HeadIr], is_fact: bool) -> Option<Normal> {
        self.check_bound(items, is_fact);
        self.report_ambiguous();
        if self.failed {
            // Other mistakes in literals and constants are still reported.
            let mut builder = self.builder(false);
            self.lower_rule(items, head, &mut builder);
            return None;
        }
        let mut builder = self.builder(true);
        let (atoms, terms) = self.lower_rule(items, head, &mut builder)?;
        if self.failed {
            return None;
        }
        order(builder, atoms, terms)
    }

    fn builder(&mut self, complain: bool) -> Builder {
        let mut builder = Builder {
            variables: Vec::new(),
            numbers: Vec::new(),
            pending: Vec::new(),
            fingerprint: 0,
            span: Span { file: 0, start: 0, end: 0 },
            atoms: Vec::new(),
            may_hoist: true,
        };
        for index in 0..self.variables.len() {
            let variable = &self.variables[index];
            if variable.count == 1 && variable.in_atom {
                // It constrains nothing and becomes `_`; its number is never used.
                builder.numbers.push(VariableId(u32::MAX));
                continue;
            }
            let (name, first) = (variable.name.clone(), variable.first);
            let ty = self.types.resolved(variable.ty);
            if ty.is_none() && complain {
                self.unknown_type(first);
            }
            builder.numbers.push(VariableId(builder.variables.len() as u32));
            builder.variables.push(Variable { name, ty: ty.unwrap_or(Type::Bool) });
        }
        builder
    }

    fn lower_rule(
        &mut self,
        items: &[Item],
        head: &[HeadIr],
        builder: &mut Builder,
    ) -> Option<(Vec<BodyItem>, Vec<HeadTerm>)> {
        let mut atoms = Vec::new();
        for item in items {
            builder.fingerprint = item.fingerprint;
            builder.span = item.span;
            // The mistake is reported; the other items may have mistakes too.
            let _ = self.lower_item(item, builder, &mut atoms);
        }
        builder.fingerprint = 0;
        let mut terms = Vec::with_capacity(head.len());
        for term in head {
            if let HeadIr::Value(node) = term {
                builder.span = node.span;
            }
            terms.push(match term {
                HeadIr::Value(node) => self.lower(node, builder).map(HeadTerm::Value),
                HeadIr::Aggregate(aggregate, nodes) => {
                    builder.may_hoist = false;
                    let arguments = self.lower_all(nodes, builder);
                    builder.may_hoist = true;
                    arguments.map(|arguments| HeadTerm::Aggregate { aggregate: *aggregate, arguments })
                }
            });
        }
        Some((atoms, terms.into_iter().collect::<Option<_>>()?))
    }

    fn lower_item(&mut self, item: &Item, builder: &mut Builder, atoms: &mut Vec<BodyItem>) -> Option<()> {
        match &item.kind {
            ItemIr::Table(table, terms) => {
                let terms: Vec<Option<Term>> =
                    terms.iter().map(|term| self.lower_term(term, builder)).collect();
                let terms = terms.into_iter().collect::<Option<_>>()?;
                let place = self.scope.sources.place(item.span);
                builder.atoms.push(item.span);
                atoms.push(BodyItem::Atom { table: TableId(*table as u32), terms, place });
            }
            ItemIr::Condition(node) => {
                let condition = self.lower(node, builder)?;
                builder.push(Step::Filter(condition));
            }
            ItemIr::Binding(variable, node) => {
                let variable = builder.numbers[*variable];
                let step = match self.several(node) {
                    Some((function, arguments)) => {
                        let arguments = self.lower_all(arguments, builder)?;
                        Step::Generate(function, arguments, vec![Outcome::Variable(variable)])
                    }
                    None => Step::Let(variable, self.lower(node, builder)?),
                };
                builder.push(step);
            }
            ItemIr::Function(site, terms) => {
                let Some(candidate) = self.sites[*site].chosen.clone() else {
                    self.failed = true;
                    return None;
                };
                let (arguments, results) = terms.split_at(candidate.arguments);
                let result_types = self.sites[*site].terms[candidate.arguments..].to_vec();
                let arguments: Vec<Option<Expr>> =
                    arguments.iter().map(|term| self.lower_argument(term, item, builder)).collect();
                let results: Vec<Option<Outcome>> = results
                    .iter()
                    .zip(result_types)
                    .map(|(term, ty)| self.lower_result(term, ty, item, builder))
                    .collect();
                let arguments: Vec<Expr> = arguments.into_iter().collect::<Option<_>>()?;
                let results: Vec<Outcome> = results.into_iter().collect::<Option<_>>()?;
                self.function_step(candidate.function, arguments, results, item, builder)?;
            }
        }
        Some(())
    }

    /// The function and its arguments, if the node is a call with any number of results.
    fn several<'n>(&self, node: &'n Node) -> Option<(Arc<Function>, &'n [Node])> {
        let NodeKind::Call(site, arguments) = &node.kind else { return None };
        let function = self.sites[*site].chosen.clone()?.function;
        (function.multiplicity == Multiplicity::Many).then_some((function, arguments))
    }

    fn lower_term(&mut self, term: &TermIr, builder: &mut Builder) -> Option<Term> {
        match term {
            TermIr::Any => Some(Term::Any),
            TermIr::Variable(index, _) if self.variables[*index].count == 1 => Some(Term::Any),
            TermIr::Variable(index, _) => Some(Term::Variable(builder.numbers[*index])),
            TermIr::Node(node) => match self.lower(node, builder)? {
                Expr::Constant(value) => Some(Term::Constant(value)),
                expr => {
                    let Some(ty) = self.types.resolved(node.ty) else {
                        self.unknown_type(node.span);
                        return None;
                    };
                    let variable = builder.fresh("term", ty);
                    let condition = equals(Expr::Variable(variable), expr)?;
                    builder.push(Step::Filter(condition));
                    Some(Term::Variable(variable))
                }
            },
        }
    }

    fn lower_argument(&mut self, term: &TermIr, item: &Item, builder: &mut Builder) -> Option<Expr> {
        match term {
            TermIr::Any => {
                let message = "`_` is not allowed as a function argument";
                let help = "write a value, or a variable that the body binds";
                self.report(Code::UnboundVariable, item.span, message, help);
                None
            }
            TermIr::Variable(index, _) => Some(Expr::Variable(builder.numbers[*index])),
            TermIr::Node(node) => self.lower(node, builder),
        }
    }

    fn lower_result(
        &mut self,
        term: &TermIr,
        ty: TypeVar,
        item: &Item,
        builder: &mut Builder,
    ) -> Option<Outcome> {
        if let TermIr::Variable(index, _) = term {
            return Some(Outcome::Variable(builder.numbers[*index]));
        }
        let Some(ty) = self.types.resolved(ty) else {
            self.unknown_type(item.span);
            return None;
        };
        Some(match term {
            TermIr::Node(node) => Outcome::Equals(self.lower(node, builder)?, ty),
            _ => Outcome::Ignored(ty),
        })
    }

    /// A function with at most one result is an expression; others generate.
    fn function_step(
        &mut self,
        function: Arc<Function>,
        arguments: Vec<Expr>,
        results: Vec<Outcome>,
        item: &Item,
        builder: &mut Builder,
    ) -> Option<()> {
        let single = function.results.len() == 1 && function.multiplicity != Multiplicity::Many;
        if !single {
            builder.push(Step::Generate(function, arguments, results));
            return Some(());
        }
        let value = self.apply(&function, arguments, item.span)?;
        let step = match results.into_iter().next() {
            // A predicate without its result.
            None => Step::Filter(value),
            Some(Outcome::Variable(variable)) => Step::Let(variable, value),
            Some(Outcome::Equals(expr, _)) => Step::Filter(equals(value, expr)?),
            // Whether it has a value still matters.
            Some(Outcome::Ignored(ty)) => Step::Let(builder.fresh(&function.name, ty), value),
        };
        builder.push(step);
        Some(())
    }
}

/// Sorts the items other than atoms so that the inputs of each are bound before it.
///
/// `None` if there is no such order, which [`Resolver::check_bound`] rules out.
fn order(mut builder: Builder, atoms: Vec<BodyItem>, terms: Vec<HeadTerm>) -> Option<Normal> {
    let mut body = atoms;
    let mut bound: BTreeSet<VariableId> = BTreeSet::new();
    for atom in &body {
        let BodyItem::Atom { terms, .. } = atom else { continue };
        bound.extend(terms.iter().filter_map(|term| match term {
            Term::Variable(variable) => Some(*variable),
            _ => None,
        }));
    }
    let pending = std::mem::take(&mut builder.pending);
    let mut spans = std::mem::take(&mut builder.atoms);
    let origins: Vec<Span> = pending.iter().map(|pending| pending.span).collect();
    let ranks: Vec<(u8, u64)> =
        pending.iter().map(|pending| (pending.step.rank(), pending.fingerprint)).collect();
    let mut missing = Vec::with_capacity(pending.len());
    let mut waiting: HashMap<VariableId, Vec<usize>> = HashMap::new();
    let mut ready = BTreeSet::new();
    for (index, pending) in pending.iter().enumerate() {
        let open = pending.inputs.difference(&bound);
        let count = open.map(|&variable| waiting.entry(variable).or_default().push(index)).count();
        missing.push(count);
        if count == 0 {
            ready.insert((ranks[index], index));
        }
    }
    let mut steps: Vec<Option<Step>> = pending.into_iter().map(|pending| Some(pending.step)).collect();
    while let Some((_, index)) = ready.pop_first() {
        let Some(step) = steps[index].take() else { continue };
        let mut new = Vec::new();
        place(step, &bound, &mut new, &mut builder, &mut body)?;
        spans.resize(body.len(), origins[index]);
        for variable in new {
            bound.insert(variable);
            for waiter in waiting.remove(&variable).unwrap_or_default() {
                missing[waiter] -= 1;
                if missing[waiter] == 0 {
                    ready.insert((ranks[waiter], waiter));
                }
            }
        }
    }
    let complete = steps.iter().all(Option::is_none);
    complete.then_some(Normal { terms, variables: builder.variables, body, spans })
}

/// Turns a step into items of the body. It binds the variables that are still free, and adds them to `new`.
fn place(
    step: Step,
    bound: &BTreeSet<VariableId>,
    new: &mut Vec<VariableId>,
    builder: &mut Builder,
    body: &mut Vec<BodyItem>,
) -> Option<()> {
    match step {
        Step::Filter(condition) => body.push(BodyItem::Filter(condition)),
        Step::Let(variable, expr) if bound.contains(&variable) => {
            body.push(BodyItem::Filter(equals(Expr::Variable(variable), expr)?));
        }
        Step::Let(variable, expr) => {
            new.push(variable);
            body.push(BodyItem::Let { variable, expr });
        }
        Step::Generate(function, arguments, outcomes) => {
            let (mut results, mut filters) = (Vec::new(), Vec::new());
            for outcome in outcomes {
                let (expr, ty) = match outcome {
                    Outcome::Ignored(_) => {
                        results.push(None);
                        continue;
                    }
                    Outcome::Variable(variable) if !bound.contains(&variable) && !new.contains(&variable) => {
                        results.push(Some(variable));
                        new.push(variable);
                        continue;
                    }
                    Outcome::Variable(variable) => {
                        let ty = builder.variables[variable.0 as usize].ty.clone();
                        (Expr::Variable(variable), ty)
                    }
                    Outcome::Equals(expr, ty) => (expr, ty),
                };
                let fresh = builder.fresh(&function.name, ty);
                results.push(Some(fresh));
                new.push(fresh);
                filters.push(BodyItem::Filter(equals(Expr::Variable(fresh), expr)?));
            }
            body.push(BodyItem::Generate { function, arguments, results });
            body.append(&mut filters);
        }
    }
    Some(())
}

fn equals(left: Expr, right: Expr) -> Option<Expr> {
    let function = function::lookup("==").first()?.clone();
    Some(Expr::Call { function, arguments: vec![left, right] })
}
