//! The executable steps of a pipeline between two probes.

use std::sync::Arc;

use nlog_data::function::Results;
use nlog_data::{Function, Value};
use nlog_plan::Scalar;
use nlog_plan::query::Step;

use crate::expression::{Binding, Expression, evaluate_all};
use crate::symbol::{FALSE, NONE, Symbol, Symbols, TRUE, is_failure};

/// A step other than a probe.
#[derive(Debug)]
enum Action {
    Let(Expression),
    Key(Expression),
    Filter(Expression),
    Must(Expression),
    Failed(Expression),
    Generate { function: Arc<Function>, arguments: Vec<Expression>, wanted: Vec<bool> },
}

/// Two slots that must be equal, or must differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) one: usize,
    pub(crate) other: usize,
    pub(crate) equal: bool,
}

/// Steps that run in order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    actions: Vec<Action>,
}

impl Steps {
    /// The steps before the first probe.
    pub(crate) fn before_probe(steps: &[Step], symbols: &Symbols) -> Self {
        let expression = |scalar: &Scalar| Expression::new(scalar, symbols);
        let action = |step: &Step| {
            Some(match step {
                Step::Let { scalar, .. } => Action::Let(expression(scalar)),
                Step::Key { scalar, .. } => Action::Key(expression(scalar)),
                Step::Filter(scalar) => Action::Filter(expression(scalar)),
                Step::Must(scalar) => Action::Must(expression(scalar)),
                Step::Failed(scalar) => Action::Failed(expression(scalar)),
                Step::Generate { function, arguments, wanted, .. } => Action::Generate {
                    function: function.clone(),
                    arguments: arguments.iter().map(expression).collect(),
                    wanted: wanted.clone(),
                },
                Step::Probe(_) => return None,
            })
        };
        Steps { actions: steps.iter().map_while(action).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The comparisons of slots, if there are no other steps.
    pub(crate) fn comparisons(&self) -> Option<Vec<Comparison>> {
        let comparison = |action: &Action| match action {
            Action::Filter(Expression::Compare(sides, equal)) => match **sides {
                [Expression::Slot(one), Expression::Slot(other)] => {
                    Some(Comparison { one, other, equal: *equal })
                }
                _ => None,
            },
            _ => None,
        };
        self.actions.iter().map(comparison).collect()
    }

    /// Calls `done` for each resulting binding.
    #[inline]
    pub(crate) fn run(
        &mut self,
        binding: &mut Binding,
        symbols: &Symbols,
        done: &mut impl FnMut(&mut Binding),
    ) {
        run(&mut self.actions, binding, symbols, done);
    }

    /// Clears the caches of expressions.
    pub(crate) fn forget(&mut self) {
        for action in &mut self.actions {
            match action {
                Action::Let(one)
                | Action::Key(one)
                | Action::Filter(one)
                | Action::Must(one)
                | Action::Failed(one) => one.forget(),
                Action::Generate { arguments, .. } => arguments.iter_mut().for_each(Expression::forget),
            }
        }
    }

    /// Visits every constant in the expressions.
    pub(crate) fn constants(&self, each: &mut impl FnMut(Symbol)) {
        for action in &self.actions {
            match action {
                Action::Let(one)
                | Action::Key(one)
                | Action::Filter(one)
                | Action::Must(one)
                | Action::Failed(one) => one.constants(each),
                Action::Generate { arguments, .. } => {
                    for argument in arguments {
                        argument.constants(each);
                    }
                }
            }
        }
    }
}

fn run(
    actions: &mut [Action],
    binding: &mut Binding,
    symbols: &Symbols,
    done: &mut impl FnMut(&mut Binding),
) {
    for at in 0..actions.len() {
        let (now, later) = actions[at..].split_at_mut(1);
        match &mut now[0] {
            Action::Let(expression) => match expression.evaluate(&binding.slots, symbols) {
                NONE => return,
                value => binding.slots.push(value),
            },
            Action::Key(expression) => match expression.evaluate(&binding.slots, symbols) {
                undetermined if is_failure(undetermined) => return,
                value => binding.slots.push(value),
            },
            Action::Filter(expression) => match expression.evaluate(&binding.slots, symbols) {
                TRUE => {}
                FALSE | NONE => return,
                failure => binding.failure = symbols.least_failure(binding.failure, failure),
            },
            Action::Must(expression) => {
                if expression.evaluate(&binding.slots, symbols) != TRUE {
                    return;
                }
            }
            Action::Failed(expression) => match expression.evaluate(&binding.slots, symbols) {
                failure if is_failure(failure) && failure != NONE => {
                    binding.failure = symbols.least_failure(binding.failure, failure);
                }
                _ => return,
            },
            Action::Generate { function, arguments, wanted } => {
                generate(function, arguments, wanted, binding, symbols, &mut |binding| {
                    run(later, binding, symbols, done);
                });
                return;
            }
        }
    }
    done(binding);
}

/// Calls `next` with the results of a function in their slots, once for each tuple.
fn generate(
    function: &Function,
    arguments: &mut [Expression],
    wanted: &[bool],
    binding: &mut Binding,
    symbols: &Symbols,
    next: &mut dyn FnMut(&mut Binding),
) {
    let (slots, failure) = (binding.slots.len(), binding.failure);
    let mut words = Vec::with_capacity(arguments.len());
    let failed = match evaluate_all(arguments, &binding.slots, symbols, &mut words) {
        Err(NONE) => return,
        Err(undetermined) => undetermined,
        Ok(()) => {
            let values: Vec<Value> = words.iter().map(|word| symbols.value(*word)).collect();
            let tuples = match (function.evaluate)(&values) {
                Ok(Results::None) => return,
                Ok(Results::One(value)) => Ok(vec![vec![value]]),
                Ok(Results::Many(tuples)) => Ok(tuples),
                Err(failure) => Err(symbols.fail(failure)),
            };
            match tuples {
                Err(failed) => failed,
                Ok(mut tuples) => {
                    if !wanted.iter().all(|wanted| *wanted) {
                        // Results that differ only in columns that nothing reads count as one.
                        for tuple in &mut tuples {
                            for (value, _) in tuple.iter_mut().zip(wanted).filter(|(_, wanted)| !**wanted) {
                                *value = Value::Bool(false);
                            }
                        }
                        tuples.sort_unstable();
                        tuples.dedup();
                    }
                    for tuple in tuples {
                        let kept = tuple.iter().zip(wanted).filter(|(_, wanted)| **wanted);
                        binding.slots.extend(kept.map(|(value, _)| symbols.intern(value)));
                        next(binding);
                        binding.slots.truncate(slots);
                        binding.failure = failure;
                    }
                    return;
                }
            }
        }
    };
    binding.failure = symbols.least_failure(binding.failure, failed);
    binding.slots.extend(wanted.iter().filter(|wanted| **wanted).map(|_| failed));
    next(binding);
    binding.slots.truncate(slots);
    binding.failure = failure;
}
