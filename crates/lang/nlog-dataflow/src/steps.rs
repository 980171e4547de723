//! The executable steps of a pipeline between two probes.

use std::sync::Arc;

use nlog_data::function::{Results, Tuples};
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

    /// Runs two bindings that count with opposite signs, and whose slots differ only in arguments of the function with which
    /// the steps begin. Calls `done` for each resulting binding that is not a result of both, with whether it results
    /// from the first. Returns false if that is not possible, because the function has no tuples for one of the bindings.
    pub(crate) fn run_difference(
        &mut self,
        bindings: [&mut Binding; 2],
        symbols: &Symbols,
        done: &mut impl FnMut(&mut Binding, bool),
    ) -> bool {
        let Some((Action::Generate { function, arguments, wanted }, later)) = self.actions.split_first_mut()
        else {
            return false;
        };
        let [first, second] = &bindings;
        let mut of = |binding: &Binding| tuples(function, arguments, wanted, &binding.slots, symbols);
        let (Ok(of_first), Ok(of_second)) = (of(first), of(second)) else { return false };
        let (mut first, mut second) = (of_first.iter().collect(), of_second.iter().collect());
        remove_common(&mut first, &mut second);
        for ((binding, tuples), is_first) in bindings.into_iter().zip([first, second]).zip([true, false]) {
            let (slots, failure) = (binding.slots.len(), binding.failure);
            for tuple in tuples {
                extend(binding, tuple, wanted, symbols);
                run(later, binding, symbols, &mut |binding| done(binding, is_first));
                binding.slots.truncate(slots);
                binding.failure = failure;
            }
        }
        true
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
    match tuples(function, arguments, wanted, &binding.slots, symbols) {
        Ok(tuples) => {
            for tuple in &tuples {
                extend(binding, tuple, wanted, symbols);
                next(binding);
                binding.slots.truncate(slots);
                binding.failure = failure;
            }
        }
        Err(NONE) => {}
        Err(failed) => {
            binding.failure = symbols.least_failure(binding.failure, failed);
            binding.slots.extend(wanted.iter().filter(|wanted| **wanted).map(|_| failed));
            next(binding);
            binding.slots.truncate(slots);
            binding.failure = failure;
        }
    }
}

/// The tuples of a function's results, or a failure, or [`NONE`]. Values that are not wanted are alike.
fn tuples(
    function: &Function,
    arguments: &mut [Expression],
    wanted: &[bool],
    slots: &[Symbol],
    symbols: &Symbols,
) -> Result<Tuples, Symbol> {
    let mut words = Vec::with_capacity(arguments.len());
    evaluate_all(arguments, slots, symbols, &mut words)?;
    let values: Vec<Value> = words.iter().map(|word| symbols.value(*word)).collect();
    let tuples = match (function.evaluate)(&values) {
        Ok(Results::None) => return Err(NONE),
        Ok(Results::One(value)) => Tuples::new(1, vec![value]),
        Ok(Results::Many(tuples)) => tuples,
        Err(failure) => return Err(symbols.fail(failure)),
    };
    if wanted.iter().all(|wanted| *wanted) {
        return Ok(tuples);
    }
    // Results that differ only in columns that nothing reads count as one.
    let blanked = |tuple: &[Value]| -> Vec<Value> {
        let values = tuple.iter().zip(wanted);
        values.map(|(value, wanted)| if *wanted { value.clone() } else { Value::Bool(false) }).collect()
    };
    let mut distinct: Vec<Vec<Value>> = tuples.iter().map(blanked).collect();
    distinct.sort_unstable();
    distinct.dedup();
    Ok(Tuples::new(wanted.len(), distinct.into_iter().flatten().collect()))
}

/// Adds the wanted values of a tuple to a binding.
fn extend(binding: &mut Binding, tuple: &[Value], wanted: &[bool], symbols: &Symbols) {
    let kept = tuple.iter().zip(wanted).filter(|(_, wanted)| **wanted);
    binding.slots.extend(kept.map(|(value, _)| symbols.intern(value)));
}

/// Removes from both lists what they have in common. The order of the rest means nothing.
fn remove_common<T: Ord>(one: &mut Vec<T>, other: &mut Vec<T>) {
    // Most lists change in a few places, so comparing both ends leaves little to sort.
    let begin = one.iter().zip(&*other).take_while(|(a, b)| a == b).count();
    one.drain(..begin);
    other.drain(..begin);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    one.truncate(one.len() - end);
    other.truncate(other.len() - end);
    if one.is_empty() || other.is_empty() {
        return;
    }
    one.sort_unstable();
    other.sort_unstable();
    let (all, mut others) = (std::mem::take(one), std::mem::take(other).into_iter().peekable());
    for item in all {
        while let Some(less) = others.next_if(|next| *next < item) {
            other.push(less);
        }
        if others.next_if_eq(&item).is_none() {
            one.push(item);
        }
    }
    other.extend(others);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lists_have_in_common_is_removed_as_often_as_both_have_it() {
        let mut random = test_random::Random::new(1);
        for _ in 0..2000 {
            let mut list = || (0..random.below(8)).map(|_| random.below(4)).collect::<Vec<u64>>();
            let (before, after) = (list(), list());
            let (mut gone, mut come) = (before.clone(), after.clone());
            remove_common(&mut gone, &mut come);
            let count = |list: &[u64], item| list.iter().filter(|of| **of == item).count();
            for item in 0..4 {
                let (before, after) = (count(&before, item), count(&after, item));
                let wanted = (before.saturating_sub(after), after.saturating_sub(before));
                assert_eq!((count(&gone, item), count(&come, item)), wanted, "{before:?} {after:?}");
            }
        }
    }
}
