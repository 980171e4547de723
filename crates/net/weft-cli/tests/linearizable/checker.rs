//! Whether a history of concurrent operations could have happened one after another.
//!
//! The search is Wing and Gong's (1993): an operation may come next if no other one that is still to come had returned before it was
//! invoked. Lowe's memo (2017) makes it end soon: a set of operations with the state that they led to is looked at once, in whatever
//! order they came. Two things more keep the search small: ranks, which a model can give to operations that only fit in one order, and that an operation
//! with an unknown outcome is left out only when its time is up.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What operations on an object do, one at a time.
pub(crate) trait Model {
    /// The state of the object.
    type State: Clone + Debug + Eq + Hash;
    /// A request with the outcome that its client saw.
    type Operation: Clone + Debug;

    /// The state before all operations.
    fn begin() -> Self::State;

    /// The states to which the operation can lead from this one: none if its outcome is impossible here, several if its outcome leaves that open.
    fn after(state: &Self::State, operation: &Self::Operation) -> Vec<Self::State>;

    /// Whether it is unknown that it had an effect: it may be left out.
    fn is_unsure(operation: &Self::Operation) -> bool;

    /// A number, if `after` allows it only in its place among others with numbers: none of a smaller number follows.
    fn rank(operation: &Self::Operation) -> Option<u64>;

    /// Whether its outcome is known to have changed nothing.
    fn is_without_effect(operation: &Self::Operation) -> bool;
}

/// An operation with the time between which and which it took effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed<O> {
    pub(crate) invoked: u64,
    /// `None` if it may take effect at any later time, or never.
    pub(crate) returned: Option<u64>,
    pub(crate) operation: O,
}

/// The most steps of a search. A history that needs more has too many operations whose outcome is unknown.
const STEPS_MAX: usize = 2_000_000;

/// How far the best order of operations came.
#[derive(Debug)]
pub(crate) struct Stuck<S> {
    /// For each operation of the history, whether it is in the order.
    pub(crate) done: Vec<bool>,
    pub(crate) state: S,
}

/// A set of operations in some order, and what they led to.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node<S> {
    done: Vec<u64>,
    state: S,
}

impl<S: Clone> Node<S> {
    fn has(&self, number: usize) -> bool {
        self.done[number / 64] >> (number % 64) & 1 == 1
    }

    fn with(&self, number: usize, state: S) -> Self {
        let mut done = self.done.clone();
        done[number / 64] |= 1 << (number % 64);
        Node { done, state }
    }

    fn count(&self) -> u32 {
        self.done.iter().map(|word| word.count_ones()).sum()
    }
}

/// Fails if no order of the operations explains their outcomes.
pub(crate) fn check<M: Model>(history: &[Timed<M::Operation>]) -> Result<(), Stuck<M::State>> {
    let mut by_invocation: Vec<usize> = (0..history.len()).collect();
    by_invocation.sort_by_key(|&number| history[number].invoked);
    let mut best = Node { done: vec![0; history.len().div_ceil(64)], state: M::begin() };
    let mut seen = HashSet::from([best.clone()]);
    let mut open = vec![best.clone()];
    while let Some(node) = open.pop() {
        let (next, first_to_return) = candidates::<M>(history, &by_invocation, |number| node.has(number));
        let Some(first_to_return) = first_to_return else { return Ok(()) };
        if node.count() > best.count() {
            best = node.clone();
        }
        // The last one that is pushed is looked at first.
        for number in next.into_iter().rev() {
            let Timed { operation, .. } = &history[number];
            let is_left_out = number == first_to_return && M::is_unsure(operation);
            let left_out = is_left_out.then(|| node.state.clone());
            for state in left_out.into_iter().chain(M::after(&node.state, operation)) {
                let following = node.with(number, state);
                if seen.insert(following.clone()) {
                    open.push(following);
                }
            }
        }
        assert!(seen.len() < STEPS_MAX, "the history of {} operations has too many orders", history.len());
    }
    let done = (0..history.len()).map(|number| best.has(number)).collect();
    Err(Stuck { done, state: best.state })
}

/// The operations that can come next, those that returned first at the beginning, and the one that is the first of all to return, if any did.
fn candidates<M: Model>(
    history: &[Timed<M::Operation>],
    by_invocation: &[usize],
    is_done: impl Fn(usize) -> bool,
) -> (Vec<usize>, Option<usize>) {
    let (mut first_to_return, mut first_return, mut least_rank) = (None, u64::MAX, u64::MAX);
    let mut found = Vec::new();
    for &number in by_invocation.iter().filter(|&&number| !is_done(number)) {
        let Timed { invoked, returned, operation } = &history[number];
        if *invoked <= first_return {
            found.push(number);
        }
        if let Some(returned) = *returned {
            least_rank = least_rank.min(M::rank(operation).unwrap_or(u64::MAX));
            if returned < first_return {
                (first_to_return, first_return) = (Some(number), returned);
            }
        }
    }
    found.retain(|&number| M::rank(&history[number].operation).is_none_or(|rank| rank <= least_rank));
    found.sort_by_key(|&number| history[number].returned.unwrap_or(u64::MAX));
    (found, first_to_return)
}

/// A small part of a history that no order explains, from one that none explains either.
///
/// What had not been invoked when an impossible outcome came cannot explain it, and an operation without effect can be left out of
/// every order: without them, a history that could have happened still could.
pub(crate) fn shrink<M: Model>(mut history: Vec<Timed<M::Operation>>) -> Vec<Timed<M::Operation>> {
    let until = |end: u64| -> Vec<Timed<M::Operation>> {
        let begun = history.iter().filter(|timed| timed.invoked <= end).cloned();
        let returned = |timed: &Timed<M::Operation>| timed.returned.filter(|&at| at <= end);
        // What was still open then may have taken effect.
        let kept = begun.filter(|timed| returned(timed).is_some() || !M::is_without_effect(&timed.operation));
        kept.map(|timed| Timed { returned: returned(&timed), ..timed }).collect()
    };
    let mut ends: Vec<u64> = history.iter().filter_map(|timed| timed.returned).collect();
    ends.sort_unstable();
    if let Some(&end) = ends.iter().find(|&&end| check::<M>(&until(end)).is_err()) {
        history = until(end);
    }
    for number in (0..history.len()).rev() {
        if M::is_without_effect(&history[number].operation) {
            let mut less = history.clone();
            less.remove(number);
            if check::<M>(&less).is_err() {
                history = less;
            }
        }
    }
    history
}

#[cfg(test)]
mod tests {
    use test_random::Random;

    use super::*;

    /// A number that is read and written, and perhaps written by those who got no answer.
    struct Register;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Operation {
        Read(u64),
        Write(u64),
        /// Its client does not know whether it took effect.
        MayWrite(u64),
    }
    use Operation::{MayWrite, Read, Write};

    impl Model for Register {
        type State = u64;
        type Operation = Operation;

        fn begin() -> u64 {
            0
        }

        fn after(&state: &u64, operation: &Operation) -> Vec<u64> {
            match *operation {
                Read(read) => Vec::from_iter((read == state).then_some(state)),
                Write(written) => vec![written],
                MayWrite(written) => vec![written],
            }
        }

        fn is_unsure(operation: &Operation) -> bool {
            matches!(operation, MayWrite(_))
        }

        fn rank(_: &Operation) -> Option<u64> {
            None
        }

        fn is_without_effect(operation: &Operation) -> bool {
            matches!(operation, Read(_))
        }
    }

    fn history(of: &[(u64, u64, Operation)]) -> Vec<Timed<Operation>> {
        let returned = |at| (at > 0).then_some(at);
        of.iter()
            .map(|&(invoked, at, operation)| Timed { invoked, returned: returned(at), operation })
            .collect()
    }

    #[track_caller]
    fn assert_is(possible: bool, of: &[(u64, u64, Operation)]) {
        assert_eq!(check::<Register>(&history(of)).is_ok(), possible, "{of:?}");
    }

    #[test]
    fn what_follows_sees_what_was_before_and_what_overlaps_may() {
        assert_is(true, &[]);
        assert_is(true, &[(1, 2, Write(1)), (3, 4, Read(1))]);
        assert_is(false, &[(1, 2, Write(1)), (3, 4, Read(0))]);
        assert_is(true, &[(1, 5, Write(1)), (2, 3, Read(0)), (4, 6, Read(1))]);
        assert_is(true, &[(1, 5, Write(1)), (2, 3, Read(1)), (4, 6, Read(1))]);
        // Once somebody has seen it, it is there.
        assert_is(false, &[(1, 6, Write(1)), (2, 3, Read(1)), (4, 5, Read(0))]);
        assert_is(false, &[(1, 2, Write(1)), (3, 4, Write(2)), (5, 6, Read(1))]);
    }

    #[test]
    fn what_nobody_answered_takes_effect_once_at_any_later_time_or_never() {
        for seen in [0, 1] {
            assert_is(true, &[(1, 0, Write(1)), (2, 3, Read(seen))]);
            assert_is(true, &[(1, 2, MayWrite(1)), (3, 4, Read(seen))]);
        }
        assert_is(true, &[(1, 0, Write(1)), (2, 3, Read(0)), (4, 5, Write(2)), (6, 7, Read(1))]);
        // With a time by which it is decided, it does not come later.
        assert_is(false, &[(1, 3, MayWrite(1)), (4, 5, Write(2)), (6, 7, Read(1))]);
        // Nor twice.
        assert_is(false, &[(1, 0, Write(1)), (2, 3, Read(1)), (4, 5, Write(2)), (6, 7, Read(1))]);
    }

    #[test]
    fn a_violation_is_shrunk_to_what_shows_it() {
        let noise = (0..50).flat_map(|turn| {
            [(4 * turn + 1, 4 * turn + 2, Write(turn)), (4 * turn + 3, 4 * turn + 4, Read(turn))]
        });
        let wrong = [(301, 302, Write(77)), (303, 304, Read(77)), (305, 306, Read(8)), (307, 308, Read(5))];
        let all = history(&noise.chain(wrong).collect::<Vec<_>>());
        let shrunk = shrink::<Register>(all);
        let reads: Vec<_> =
            shrunk.iter().map(|timed| timed.operation).filter(Register::is_without_effect).collect();
        assert_eq!(reads, [Read(8)], "{shrunk:?}");
        assert!(check::<Register>(&shrunk).is_err());
    }

    /// Tries every order of every set of operations that has all that returned.
    fn is_possible(history: &[Timed<Operation>], done: &mut Vec<usize>, state: u64) -> bool {
        let rest: Vec<usize> = (0..history.len()).filter(|number| !done.contains(number)).collect();
        if rest.iter().all(|&number| history[number].returned.is_none()) {
            return true;
        }
        for &number in &rest {
            let invoked = history[number].invoked;
            let is_first = rest.iter().all(|&other| history[other].returned.is_none_or(|at| at > invoked));
            let operation = &history[number].operation;
            let left_out = Register::is_unsure(operation).then_some(state);
            for state in left_out.into_iter().chain(Register::after(&state, operation)) {
                done.push(number);
                let is_found = is_first && is_possible(history, done, state);
                done.pop();
                if is_found {
                    return true;
                }
            }
        }
        false
    }

    #[test]
    fn the_search_finds_an_order_exactly_if_there_is_one() {
        let mut random = Random::new(1);
        let mut found = [0, 0];
        for _ in 0..20_000 {
            let mut times: Vec<u64> = (1..=12).collect();
            random.shuffle(&mut times);
            let history: Vec<_> = times
                .chunks(2)
                .take(2 + random.below(5) as usize)
                .map(|pair| {
                    let value = random.below(3);
                    let operation = *random.pick(&[Read(value), Read(value), Write(value), MayWrite(value)]);
                    let is_open = operation == Write(value) && random.chance(30);
                    let returned = (!is_open).then_some(pair[0].max(pair[1]));
                    Timed { invoked: pair[0].min(pair[1]), returned, operation }
                })
                .collect();
            let is_possible = is_possible(&history, &mut Vec::new(), Register::begin());
            found[usize::from(is_possible)] += 1;
            assert_eq!(check::<Register>(&history).is_ok(), is_possible, "{history:?}");
            if !is_possible {
                assert!(check::<Register>(&shrink::<Register>(history.clone())).is_err(), "{history:?}");
            }
        }
        assert!(found.iter().all(|&count| count > 2000), "{found:?}");
    }
}
