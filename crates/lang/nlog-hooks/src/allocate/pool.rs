//! The numbers of a pool that have no owner, in the order in which they are given.

use std::collections::VecDeque;

/// The numbers without owners: first those that were never given, then the others, those that were released the longest ago first.
///
/// The order of release is exact for the latest numbers alone. The numbers before them are in a few sets, one for each span of time, and a set is a
/// few ranges: most numbers that were given in some time are released sooner or later. So a pool that has given millions of numbers takes
/// little memory, and a number that was just released still waits behind all that were released long ago.
#[derive(Debug)]
pub(super) struct Pool {
    /// The least number that was never given; after the last one, none is left.
    pub(super) never_given: u64,
    /// The numbers that were released before the latest, in sets that are not empty. The oldest set is the first.
    pub(super) older: VecDeque<Ranges>,
    /// The numbers that were released last, in the order of their release.
    pub(super) latest: VecDeque<u64>,
}

/// The most sets of older numbers. With more, two neighbours become one, those that have the fewest numbers.
const SETS_MAX: usize = 8;

/// What a release made of the latest numbers, to undo it.
#[derive(Debug)]
pub(super) struct Aged {
    /// The numbers that became a set, in their order.
    half: Vec<u64>,
    /// The sets that became one, and the place of the first.
    joined: Option<(usize, Ranges, Ranges)>,
}

/// Where a number came from, so that it can go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// It was never given before.
    Fresh,
    /// It was in the oldest set, perhaps as the last one there.
    Older { was_last: bool },
    /// It was the first of the latest.
    Latest,
}

impl Pool {
    pub(super) fn new(first: u64) -> Self {
        Pool { never_given: first, older: VecDeque::new(), latest: VecDeque::new() }
    }

    /// The next number, up to `last`.
    pub(super) fn give(&mut self, last: u64) -> Option<(u64, From)> {
        if self.never_given <= last {
            let number = self.never_given;
            self.never_given += 1;
            return Some((number, From::Fresh));
        }
        let Some(oldest) = self.older.front_mut() else {
            return self.latest.pop_front().map(|number| (number, From::Latest));
        };
        let number = oldest.pop_first()?;
        let was_last = oldest.is_empty();
        if was_last {
            self.older.pop_front();
        }
        Some((number, From::Older { was_last }))
    }

    /// Undoes the last [`Pool::give`].
    pub(super) fn take_back(&mut self, number: u64, from: From) {
        match from {
            From::Fresh => self.never_given = number,
            From::Latest => self.latest.push_front(number),
            From::Older { was_last } => {
                if was_last {
                    self.older.push_front(Ranges::default());
                }
                if let Some(oldest) = self.older.front_mut() {
                    oldest.push_first(number);
                }
            }
        }
    }

    /// Takes a number that its owner had. Twice as many of the latest as `exact` are too many: the older half becomes a set.
    pub(super) fn release(&mut self, number: u64, exact: usize) -> Option<Aged> {
        self.latest.push_back(number);
        if self.latest.len() < exact.saturating_mul(2) {
            return None;
        }
        let half: Vec<u64> = self.latest.drain(..exact).collect();
        self.older.push_back(half.iter().copied().collect());
        Some(Aged { half, joined: self.join_sets() })
    }

    /// Joins two sets if there are too many.
    fn join_sets(&mut self) -> Option<(usize, Ranges, Ranges)> {
        if self.older.len() <= SETS_MAX {
            return None;
        }
        let counts: Vec<u64> = self.older.iter().map(Ranges::count).collect();
        let at = (1..counts.len()).min_by_key(|at| counts[at - 1] + counts[*at])? - 1;
        let second = self.older.remove(at + 1)?;
        let joined = self.older[at].joined(&second);
        let first = std::mem::replace(&mut self.older[at], joined);
        Some((at, first, second))
    }

    /// Undoes the last [`Pool::release`], which returned this.
    pub(super) fn unrelease(&mut self, aged: Option<Aged>) {
        if let Some(Aged { half, joined }) = aged {
            if let Some((at, first, second)) = joined {
                self.older[at] = first;
                self.older.insert(at + 1, second);
            }
            self.older.pop_back();
            half.into_iter().rev().for_each(|number| self.latest.push_front(number));
        }
        self.latest.pop_back();
    }

    /// Removes this number, wherever it waits. Returns false if it does not.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        if let Some(at) = self.older.iter_mut().position(|set| set.remove(number)) {
            if self.older[at].is_empty() {
                self.older.remove(at);
            }
            return true;
        }
        let at = self.latest.iter().position(|latest| *latest == number);
        at.is_some_and(|at| self.latest.remove(at).is_some())
    }

    /// Passes over the numbers below this one that were never given: they count as released before all others.
    pub(super) fn pass_over(&mut self, number: u64) {
        if self.never_given < number {
            self.older.push_front(Ranges([(self.never_given, number - 1)].into()));
        }
        self.never_given = number;
    }
}

/// A set of numbers: first and last number of each range, ascending, no two of them adjacent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(pub(super) VecDeque<(u64, u64)>);

impl Ranges {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The union with another set that has none of these numbers.
    fn joined(&self, other: &Ranges) -> Ranges {
        let mut all: Vec<(u64, u64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        all.into_iter().collect()
    }

    fn pop_first(&mut self) -> Option<u64> {
        let (first, last) = self.0.front_mut()?;
        let number = *first;
        if number == *last {
            self.0.pop_front();
        } else {
            *first += 1;
        }
        Some(number)
    }

    /// Adds a number below all others.
    fn push_first(&mut self, number: u64) {
        match self.0.front_mut() {
            Some((first, _)) if *first == number + 1 => *first = number,
            _ => self.0.push_front((number, number)),
        }
    }

    fn remove(&mut self, number: u64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < number);
        let Some(&(first, last)) = self.0.get(at).filter(|(first, _)| *first <= number) else { return false };
        self.0.remove(at);
        if number < last {
            self.0.insert(at, (number + 1, last));
        }
        if first < number {
            self.0.insert(at, (first, number - 1));
        }
        true
    }
}

/// The set of these ranges, which are ascending and have no number in common.
impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(all: I) -> Self {
        let mut ranges: VecDeque<(u64, u64)> = VecDeque::new();
        for (first, last) in all {
            match ranges.back_mut() {
                Some((_, before)) if *before + 1 == first => *before = last,
                _ => ranges.push_back((first, last)),
            }
        }
        ranges.shrink_to_fit();
        Ranges(ranges)
    }
}

/// The set of these numbers, each of which comes once.
impl FromIterator<u64> for Ranges {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| (number, number)).collect()
    }
}
