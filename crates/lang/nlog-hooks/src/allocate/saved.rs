//! The numbers as JSON, and their reconstruction from the rows of the target.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use nlog_data::json::{from_json, to_json};
use nlog_data::quotation::quote_row;
use nlog_data::{Row, Table, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::pool::{Pool, Ranges};
use super::{Allocate, Numbers, numbered};
use crate::memory::{cells, row};

/// The memory of the hook. With a scope, its value precedes the number in `released` and `next`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// The owners with their numbers, in the order of the owners.
    given: Vec<Vec<Json>>,
    /// The numbers that were released, those of a scope in the order in which they are given again: numbers, and before them
    /// lists of ranges, each a set of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    released: Vec<Vec<Json>>,
    /// The least number that was never given.
    next: Vec<Vec<Json>>,
}

impl Allocate {
    pub(super) fn save(&self) -> Json {
        let Numbers { given, pools } = &self.numbers;
        let mut rows: Vec<Row> = given.iter().map(|(owner, number)| numbered(owner, *number)).collect();
        rows.sort_unstable();
        let pools: BTreeMap<&Option<Value>, &Pool> = pools.iter().collect();
        let (mut released, mut next) = (Vec::new(), Vec::new());
        for (scope, pool) in pools.into_iter().filter(|(_, pool)| pool.never_given > self.first) {
            let entry = |what: Json| scope.iter().map(to_json).chain([what]).collect();
            let ranges =
                |set: &Ranges| set.0.iter().map(|(first, last)| Json::from([*first, *last])).collect();
            released.extend(pool.older.iter().map(|set| entry(ranges(set))));
            released.extend(pool.latest.iter().map(|number| entry(Json::from(*number))));
            next.push(entry(Json::from(pool.never_given)));
        }
        let given = rows.iter().map(|row| cells(row)).collect();
        serde_json::to_value(Memory { given, released, next })
            .unwrap_or_else(|error| unreachable!("lists of values are JSON: {error}"))
    }

    pub(super) fn load(&self, memory: &Json, target: &Table) -> Result<Numbers, String> {
        let Memory { given, released, next } =
            Memory::deserialize(memory).map_err(|error| error.to_string())?;
        let mut numbers = Numbers::default();
        for entry in &next {
            let (scope, never_given) = self.entry(entry, target)?;
            let never_given = number(never_given)?;
            if !(self.first..=self.last.saturating_add(1)).contains(&never_given) {
                return Err(self.outside(never_given.saturating_sub(1)));
            }
            numbers.pools.insert(scope, Pool { never_given, ..Pool::new(self.first) });
        }
        let mut claims = Claims::default();
        for given in &given {
            let mut owner = row(given, &target.columns)?;
            let number = owner.pop().and_then(|number| as_number(&number)).ok_or("a number is negative")?;
            let scope = self.scope_of(&owner);
            self.known(&numbers, scope.as_ref(), (number, number))?;
            if numbers.given.contains_key(&owner) {
                return Err(format!("{} has two numbers", quote_row(&owner)));
            }
            numbers.given.insert(owner, number);
            claims.add(scope, (number, number));
        }
        for entry in &released {
            let (scope, what) = self.entry(entry, target)?;
            let ranges = ranges(what)?;
            for range in &ranges {
                self.known(&numbers, scope.as_ref(), *range)?;
                claims.add(scope.clone(), *range);
            }
            let Some(pool) = numbers.pools.get_mut(&scope) else { continue };
            if what.is_array() {
                pool.older.push_back(Ranges(ranges.into()));
            } else {
                for (number, _) in ranges {
                    pool.release(number, self.exact);
                }
            }
        }
        claims.check()?;
        let all: u64 = numbers.pools.values().map(|pool| pool.never_given - self.first).sum();
        if all != claims.count() {
            return Err("a number is neither given nor released".to_owned());
        }
        Ok(numbers)
    }

    /// Checks that the numbers of a range have been given once.
    fn known(
        &self,
        numbers: &Numbers,
        scope: Option<&Value>,
        (first, last): (u64, u64),
    ) -> Result<(), String> {
        let end = numbers.pools.get(&scope.cloned()).map_or(self.first, |pool| pool.never_given);
        let is_known = |number: &u64| (self.first..end).contains(number);
        [first, last]
            .iter()
            .find(|number| !is_known(number))
            .map_or(Ok(()), |number| Err(self.outside(*number)))
    }

    /// Reads an entry of `released` or `next`.
    fn entry<'a>(&self, entry: &'a [Json], target: &Table) -> Result<(Option<Value>, &'a Json), String> {
        let ty = self.scope.and_then(|column| target.columns.get(column)).map(|column| &column.ty);
        match (ty, entry) {
            (None, [what]) => Ok((None, what)),
            (Some(ty), [scope, what]) => {
                Ok((Some(from_json(scope, ty).map_err(|why| why.to_string())?), what))
            }
            (None, _) => Err("a number has a scope, but the hook has none".to_owned()),
            (Some(_), _) => Err("a number has no scope, but the hook has one".to_owned()),
        }
    }

    fn outside(&self, number: u64) -> String {
        let Allocate { first, last, .. } = self;
        format!("it has number {number}, and the hook gives those from {first} to {last}")
    }

    /// Follows the release of a number.
    pub(super) fn follow_release(&mut self, row: &Row) -> Result<(), String> {
        let (owner, number) = parts(row)?;
        if self.numbers.given.get(&owner) != Some(&number) {
            return Err(format!("{} loses number {number}, which it does not have", quote_row(&owner)));
        }
        self.numbers.given.remove(&owner);
        let exact = self.exact;
        self.pool(&owner).release(number, exact);
        Ok(())
    }

    /// Follows the gift of a number. Numbers that were passed over count as released before all others.
    pub(super) fn follow_give(&mut self, row: &Row) -> Result<(), String> {
        let (owner, number) = parts(row)?;
        let name = quote_row(&owner);
        if !(self.first..=self.last).contains(&number) {
            return Err(self.outside(number));
        }
        if self.numbers.given.contains_key(&owner) {
            return Err(format!("{name} gets number {number}, but has one"));
        }
        let pool = self.pool(&owner);
        if number >= pool.never_given {
            pool.pass_over(number);
            pool.never_given = number + 1;
        } else if !pool.remove(number) {
            return Err(format!("{name} gets number {number}, which is in use"));
        }
        self.numbers.given.insert(owner, number);
        Ok(())
    }
}

/// The owner and the number of a row of the target.
fn parts(row: &Row) -> Result<(Row, u64), String> {
    let (number, owner) = row.split_last().ok_or("a row has no columns")?;
    let number = as_number(number).ok_or_else(|| format!("{} has no number", quote_row(owner)))?;
    Ok((owner.to_vec(), number))
}

fn as_number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// A number of an entry.
fn number(what: &Json) -> Result<u64, String> {
    what.as_u64().ok_or_else(|| format!("{what} is no number of the hook"))
}

/// The ranges of an entry of `released`: a number, or a list of ranges, ascending.
fn ranges(what: &Json) -> Result<Vec<(u64, u64)>, String> {
    let Some(list) = what.as_array() else { return number(what).map(|number| vec![(number, number)]) };
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(list.len());
    for range in list {
        let ends = range.as_array().map(Vec::as_slice);
        let Some([first, last]) = ends else { return Err(format!("{range} is no range: [FIRST, LAST]")) };
        let (first, last) = (number(first)?, number(last)?);
        let is_next =
            ranges.last().is_none_or(|(_, before)| before.checked_add(1).is_some_and(|end| end < first));
        if last < first || !is_next {
            return Err(format!("the range {range} does not follow the one before it"));
        }
        ranges.push((first, last));
    }
    if ranges.is_empty() { Err("a list of ranges is empty".to_owned()) } else { Ok(ranges) }
}

/// The numbers of a memory, to find those that are there twice.
#[derive(Default)]
struct Claims(HashMap<Option<Value>, Vec<(u64, u64)>>);

impl Claims {
    fn add(&mut self, scope: Option<Value>, range: (u64, u64)) {
        self.0.entry(scope).or_default().push(range);
    }

    fn check(&mut self) -> Result<(), String> {
        for claims in self.0.values_mut() {
            claims.sort_unstable();
            let twice = claims.windows(2).find(|two| two[1].0 <= two[0].1);
            if let Some(two) = twice {
                return Err(format!("number {} is there twice", two[1].0));
            }
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.0.values().flatten().map(|(first, last)| last - first + 1).sum()
    }
}
