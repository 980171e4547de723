//! Overload resolution: selects the function that a call means among those with the same name.

use std::sync::Arc;

use nlog_data::Type;
use nlog_data::function::{Function, Shape};

use super::messages::signatures;
use super::resolve::{Node, NodeKind, Resolver};
use super::types::{Mismatch, TypeVar, Types};
use crate::diagnostic::Code;
use crate::syntax::ast::{Ident, Span};

/// A function that may be meant, and the number of terms that are its arguments; the others are results.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) function: Arc<Function>,
    pub(super) arguments: usize,
}

impl Candidate {
    /// The functions that can be an atom with this many terms: arguments and results, or only arguments if the
    /// function is a predicate.
    pub(super) fn of_atom(functions: &[Arc<Function>], terms: usize) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for function in functions {
            if let Some(arguments) = terms.checked_sub(function.results.len())
                && takes(function, arguments)
            {
                candidates.push(Candidate { function: function.clone(), arguments });
            }
            if is_predicate(function) && takes(function, terms) {
                candidates.push(Candidate { function: function.clone(), arguments: terms });
            }
        }
        candidates
    }

    /// The functions that return one value for this many arguments.
    pub(super) fn of_expression(functions: &[Arc<Function>], arguments: usize) -> Vec<Candidate> {
        let fitting =
            functions.iter().filter(|function| function.results.len() == 1 && takes(function, arguments));
        fitting.map(|function| Candidate { function: function.clone(), arguments }).collect()
    }

    /// The type of each term in a call.
    fn types(&self, terms: usize, origin: Span, types: &mut Types) -> Vec<TypeVar> {
        let mut any = Vec::new();
        let mut all = Vec::with_capacity(terms);
        let parameters = &self.function.parameters;
        for index in 0..self.arguments {
            match (parameters.get(index), parameters.last()) {
                (Some(parameter), _) => all.push(types.of_shape(&parameter.shape, &mut any, origin)),
                // The repeated last parameter has a separate type each time.
                (None, Some(last)) => all.push(types.of_shape(&last.shape, &mut Vec::new(), origin)),
                (None, None) => {}
            }
        }
        for result in self.function.results.iter().take(terms - self.arguments) {
            all.push(types.of_shape(&result.shape, &mut any, origin));
        }
        all
    }

    fn unify(&self, terms: &[TypeVar], origin: Span, types: &mut Types) -> Result<(), Mismatch> {
        let wanted = self.types(terms.len(), origin, types);
        terms.iter().zip(wanted).try_for_each(|(&term, wanted)| types.unify(term, wanted))
    }
}

/// Whether a function returns a truth value, and so can be an atom without its result.
pub(super) fn is_predicate(function: &Function) -> bool {
    matches!(function.results.as_slice(), [only] if only.shape == Shape::Is(Type::Bool))
}

fn takes(function: &Function, arguments: usize) -> bool {
    let count = function.parameters.len();
    arguments == count || (function.variadic && arguments > count)
}

/// A place where a function is called.
#[derive(Debug)]
pub(super) struct Site {
    name: Ident,
    span: Span,
    /// The candidates that are not ruled out yet.
    candidates: Vec<Candidate>,
    pub(super) terms: Vec<TypeVar>,
    term_spans: Vec<Span>,
    /// The selected candidate; stays empty after a report.
    pub(super) chosen: Option<Candidate>,
}

impl Resolver<'_, '_> {
    /// Records a call. If only one function can be meant, its types count at once.
    pub(super) fn site(
        &mut self,
        name: &Ident,
        candidates: Vec<Candidate>,
        terms: Vec<TypeVar>,
        term_spans: Vec<Span>,
        span: Span,
    ) -> usize {
        let number = self.sites.len();
        self.sites.push(Site { name: name.clone(), span, candidates, terms, term_spans, chosen: None });
        if self.sites[number].candidates.len() == 1 {
            self.choose(number);
        }
        number
    }

    /// Resolves all open calls, as far as the known types allow.
    pub(super) fn settle_calls(&mut self) {
        let mut open: Vec<usize> = (0..self.sites.len()).filter(|&site| self.is_open(site)).collect();
        loop {
            let count = open.len();
            let read = self.settle_fields();
            // Forwards and backwards, because chains of calls run in either direction.
            for _ in 0..2 {
                open.reverse();
                for &site in &open {
                    self.narrow(site);
                }
                open.retain(|&site| self.is_open(site));
            }
            let chosen = self.settle_choices();
            let idle = open.len() == count && !read && !chosen && !self.settle_fields();
            if idle && !self.default_literals(&open) {
                break;
            }
        }
        self.ambiguous = open;
        self.check_options();
        self.note();
    }

    /// Reports calls that would create an option of an option.
    fn check_options(&mut self) {
        for number in 0..self.sites.len() {
            let site = &self.sites[number];
            let nested = site.terms.iter().find(|&&term| self.types.is_nested_option(term));
            let Some(&nested) = nested.filter(|_| site.chosen.is_some()) else { continue };
            let (name, span, ty) = (site.name.name.clone(), site.span, self.types.show(nested));
            let message = format!("`{name}` would give a nested optional of {ty}, which is not a type");
            let help = "remove `some` from a value that is already optional, or unwrap it with `value(…)`";
            self.report(Code::TypeMismatch, span, message, help);
            self.types.forgive(nested);
        }
    }

    /// Reports the ambiguous calls, after the mistakes that may be the cause.
    pub(super) fn report_ambiguous(&mut self) {
        // A call is often ambiguous because of a field whose type is unknown.
        self.report_open_fields();
        for site in std::mem::take(&mut self.ambiguous) {
            self.report_ambiguous_call(site);
        }
    }

    fn is_open(&self, site: usize) -> bool {
        self.sites[site].chosen.is_none() && !self.sites[site].candidates.is_empty()
    }

    /// Rules out the candidates that do not fit the known types, and selects the last one left.
    fn narrow(&mut self, number: usize) {
        let site = &self.sites[number];
        let (terms, span) = (site.terms.clone(), site.span);
        let fits =
            |candidate: &Candidate, types: &mut Types| types.would(|t| candidate.unify(&terms, span, t));
        let left: Vec<Candidate> =
            site.candidates.iter().filter(|candidate| fits(candidate, &mut self.types)).cloned().collect();
        if left.is_empty() {
            self.none_fits(number);
            self.sites[number].candidates.clear();
            return;
        }
        let one = left.len() == 1;
        self.sites[number].candidates = left;
        if one {
            self.choose(number);
        }
    }

    /// Selects the only candidate, and reports the terms that do not fit it.
    fn choose(&mut self, number: usize) {
        let site = &mut self.sites[number];
        let Some(candidate) = site.candidates.pop() else { return };
        site.chosen = Some(candidate.clone());
        let (terms, spans, name) = (site.terms.clone(), site.term_spans.clone(), site.name.clone());
        let wanted = candidate.types(terms.len(), site.span, &mut self.types);
        for (index, ((ty, span), wanted)) in terms.into_iter().zip(spans).zip(wanted).enumerate() {
            if self.types.unify(ty, wanted).is_ok() {
                continue;
            }
            let (found, wanted_name) = (self.types.show(ty), self.types.show(wanted));
            let text = self.quote(span);
            let message = if index < candidate.arguments {
                let parameters = &candidate.function.parameters;
                let parameter = parameters.get(index).or(parameters.last());
                let parameter = parameter.map_or("", |parameter| &*parameter.name);
                let operator = !name.name.starts_with(|c: char| c.is_ascii_alphabetic());
                let name = &name.name;
                if operator {
                    format!("{text} has type {found}, but `{name}` expects {wanted_name} here")
                } else {
                    format!(
                        "{text} has type {found}, but parameter `{parameter}` of `{name}` has type \
                        {wanted_name}"
                    )
                }
            } else {
                format!("{text} has type {found}, but `{}` returns {wanted_name}", name.name)
            };
            // In a comparison, the origin of the other side explains more than the operator.
            let because = self.types.origin(wanted).filter(|origin| *origin != self.sites[number].span);
            let because = because.or_else(|| self.declared_parameter(&name, index));
            let node = self.node_at(ty, span);
            self.mismatch(&node, message, &found, &wanted_name, because.or(Some(name.span)));
        }
    }

    /// The place where the program declares the type of a function's parameter or of its result.
    fn declared_parameter(&self, name: &Ident, index: usize) -> Option<Span> {
        let declaration = self.scope.declarations.own_functions.get(&name.name)?.declaration;
        let parameters = declaration.parameters.as_ref()?;
        Some(parameters.get(index).map(|(_, ty)| ty).or(declaration.result.as_ref())?.span)
    }

    /// The value at this place, as far as a report needs it.
    pub(super) fn node_at(&self, ty: TypeVar, span: Span) -> Node {
        let variable = self.by_name.get(self.scope.sources.text(span)).copied();
        Node { kind: variable.map_or(NodeKind::Faulty, NodeKind::Variable), ty, span }
    }

    fn none_fits(&mut self, number: usize) {
        let site = &self.sites[number];
        let (name, span) = (site.name.clone(), site.span);
        let functions = self.scope.declarations.functions(&name.name);
        // If an atom is a condition, all its terms are arguments.
        let meant = Candidate::of_atom(functions, site.terms.len());
        let arguments = meant.iter().map(|candidate| candidate.arguments).min();
        let arguments = arguments.unwrap_or(site.terms.len() - 1);
        let known: Vec<String> =
            site.terms.iter().take(arguments).map(|&term| self.types.show(term)).collect();
        let result = site.terms.get(arguments).copied();
        let message = format!("no overload of `{}` takes {}", name.name, known.join(" and "));
        let message = match result.filter(|&result| !self.types.is_free(result)) {
            Some(result) => format!("{message} and returns {}", self.types.show(result)),
            None => message,
        };
        self.report(
            Code::TypeMismatch,
            span,
            message,
            signatures(self.scope.declarations.functions(&name.name)),
        );
        if let Some(result) = result {
            self.types.forgive(result);
        }
    }

    /// Treats string literals in open calls as strings, where possible. Returns whether there was one.
    fn default_literals(&mut self, open: &[usize]) -> bool {
        let mut changed = false;
        for &number in open {
            let site = &self.sites[number];
            let terms = site.terms.clone();
            let span = site.span;
            for term in terms {
                let string = self.types.known(&Type::String, span);
                let text = self.types.is_text(term);
                if text && self.types.unify(term, string).is_ok() {
                    changed = true;
                }
            }
        }
        changed
    }

    fn report_ambiguous_call(&mut self, number: usize) {
        let site = &self.sites[number];
        let (name, span) = (site.name.clone(), site.span);
        let mistaken = site.terms.iter().any(|&term| self.types.is_anything(term));
        if self.failed || self.excused || mistaken {
            self.failed = true;
            return;
        }
        let message = format!("ambiguous call of `{}`", name.name);
        let help = format!("use its arguments where their types are known: {}", {
            signatures(self.scope.declarations.functions(&name.name))
        });
        self.report(Code::AmbiguousType, span, message, help);
    }
}
