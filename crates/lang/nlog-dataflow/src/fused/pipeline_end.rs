//! The end of a pipeline: converts bindings to rows of the head, tuples of groups, or failures.
//!
//! A binding that fails is reported with its least failure. A binding for which an expression has no value is dropped.

use nlog_plan::Scalar;
use nlog_plan::query::End;

use super::delta::Diff;
use super::flow::{Context, Slots};
use crate::expression::{Binding, Expression};
use crate::symbol::{NO_FAILURE, NONE, Symbol, Symbols, is_failure};

/// The conversion of bindings at the end of a pipeline.
pub(crate) enum PipelineEnd {
    /// The result consists of these slots.
    Slots(Vec<usize>),
    Row(Vec<Expression>),
    Group {
        group: Vec<Expression>,
        tuple: Vec<usize>,
        check: Vec<Expression>,
    },
    Failure,
}

impl PipelineEnd {
    pub(crate) fn new(end: &End, symbols: &Symbols) -> Self {
        let expressions = |scalars: &[Scalar]| {
            scalars.iter().map(|scalar| Expression::new(scalar, symbols)).collect::<Vec<_>>()
        };
        match end {
            End::Row(columns) => {
                let slot = |column: &Scalar| if let Scalar::Slot(slot) = column { Some(*slot) } else { None };
                match columns.iter().map(slot).collect() {
                    Some(slots) => PipelineEnd::Slots(slots),
                    None => PipelineEnd::Row(expressions(columns)),
                }
            }
            End::Group { group, tuple, check } => PipelineEnd::Group {
                group: expressions(group),
                tuple: tuple.clone(),
                check: expressions(check),
            },
            End::Failure => PipelineEnd::Failure,
        }
    }

    /// Converts a binding that needs no evaluation and cannot fail. Returns whether that was possible.
    #[inline]
    pub(crate) fn take_slots(&self, binding: &impl Slots, diff: Diff, context: &mut Context<'_>) -> bool {
        let PipelineEnd::Slots(slots) = self else { return false };
        context.out.push_words(slots.iter().map(|slot| binding.slot(*slot)), diff);
        true
    }

    /// Converts a binding, and returns its least failure, or [`NO_FAILURE`].
    #[inline]
    pub(crate) fn take(
        &mut self,
        binding: &Binding,
        diff: Diff,
        may_fail: bool,
        context: &mut Context<'_>,
    ) -> Symbol {
        let symbols = context.symbols;
        let mut failure = if may_fail { binding.least_failure(symbols) } else { NO_FAILURE };
        let mut evaluate = |expressions: &mut Vec<Expression>, out: &mut Vec<Symbol>| {
            for expression in expressions {
                let word = expression.evaluate(&binding.slots, symbols);
                if word == NONE {
                    return false;
                }
                if is_failure(word) {
                    failure = symbols.least_failure(failure, word);
                }
                out.push(word);
            }
            true
        };
        let begun = context.out.begin();
        let has_values = match self {
            PipelineEnd::Slots(slots) => {
                context.out.words_mut().extend(slots.iter().map(|slot| binding.slots[*slot]));
                true
            }
            PipelineEnd::Row(columns) => evaluate(columns, context.out.words_mut()),
            PipelineEnd::Group { group, tuple, check } => {
                let mut checked = Vec::new();
                let has_values = evaluate(group, context.out.words_mut()) && evaluate(check, &mut checked);
                context.out.words_mut().extend(tuple.iter().map(|slot| binding.slots[*slot]));
                has_values
            }
            PipelineEnd::Failure => true,
        };
        let is_row = has_values && failure == NO_FAILURE && !matches!(self, PipelineEnd::Failure);
        context.out.end(begun, is_row.then_some(diff));
        if has_values { failure } else { NO_FAILURE }
    }

    pub(crate) fn expressions_mut(&mut self, each: &mut impl FnMut(&mut Expression)) {
        match self {
            PipelineEnd::Row(columns) => columns.iter_mut().for_each(each),
            PipelineEnd::Group { group, check, .. } => group.iter_mut().chain(check).for_each(each),
            PipelineEnd::Slots(_) | PipelineEnd::Failure => {}
        }
    }

    pub(crate) fn constants(&self, each: &mut impl FnMut(Symbol)) {
        match self {
            PipelineEnd::Row(columns) => columns.iter().for_each(|column| column.constants(each)),
            PipelineEnd::Group { group, check, .. } => {
                group.iter().chain(check).for_each(|column| column.constants(each));
            }
            PipelineEnd::Slots(_) | PipelineEnd::Failure => {}
        }
    }
}
