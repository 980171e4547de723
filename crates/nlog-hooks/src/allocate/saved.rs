//! The numbers as JSON, and their reconstruction from the rows of the target.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use nlog_data::json::{from_json, to_json};
use nlog_data::quotation::quote_row;
use nlog_data::{Row, Table, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Allocate, Numbers, Pool, numbered};
use crate::memory::{cells, row};

/// The memory of the hook. With a scope, its value precedes the number in `released` and `next`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// The owners with their numbers, in the order of the owners.
    given: Vec<Vec<Json>>,
    /// The numbers that were released, those of a scope in the order of their release.
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
            let entry = |number: u64| scope.iter().map(to_json).chain([Json::from(number)]).collect();
            released.extend(pool.released.iter().map(|number| entry(*number)));
            next.push(entry(pool.never_given));
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
            if !(self.first..=self.last.saturating_add(1)).contains(&never_given) {
                return Err(self.outside(never_given.saturating_sub(1)));
            }
            numbers.pools.insert(scope, Pool { never_given, released: [].into() });
        }
        let mut seen = HashSet::new();
        let mut claim = |scope: &Option<Value>, number: u64, pools: &Numbers| {
            let end = pools.pools.get(scope).map_or(self.first, |pool| pool.never_given);
            if !(self.first..end).contains(&number) {
                return Err(self.outside(number));
            }
            let unique = seen.insert((scope.clone(), number));
            if unique { Ok(()) } else { Err(format!("number {number} is there twice")) }
        };
        for given in &given {
            let mut owner = row(given, &target.columns)?;
            let number = owner.pop().and_then(|number| as_number(&number)).ok_or("a number is negative")?;
            claim(&self.scope_of(&owner), number, &numbers)?;
            if numbers.given.contains_key(&owner) {
                return Err(format!("{} has two numbers", quote_row(&owner)));
            }
            numbers.given.insert(owner, number);
        }
        for entry in &released {
            let (scope, number) = self.entry(entry, target)?;
            claim(&scope, number, &numbers)?;
            numbers.pools.entry(scope).and_modify(|pool| pool.released.push_back(number));
        }
        let all: u64 = numbers.pools.values().map(|pool| pool.never_given - self.first).sum();
        if all != seen.len() as u64 {
            return Err("a number is neither given nor released".to_owned());
        }
        Ok(numbers)
    }

    /// Reads an entry of `released` or `next`.
    fn entry(&self, entry: &[Json], target: &Table) -> Result<(Option<Value>, u64), String> {
        let ty = self.scope.and_then(|column| target.columns.get(column)).map(|column| &column.ty);
        let (scope, number) = match (ty, entry) {
            (None, [number]) => (None, number),
            (Some(ty), [scope, number]) => {
                (Some(from_json(scope, ty).map_err(|why| why.to_string())?), number)
            }
            (None, _) => return Err("a number has a scope, but the hook has none".to_owned()),
            (Some(_), _) => return Err("a number has no scope, but the hook has one".to_owned()),
        };
        let number = number.as_u64().ok_or_else(|| format!("{number} is no number of the hook"))?;
        Ok((scope, number))
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
        self.pool(&owner).released.push_back(number);
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
            (pool.never_given..number).rev().for_each(|passed| pool.released.push_front(passed));
            pool.never_given = number + 1;
        } else {
            let at = pool.released.iter().position(|released| *released == number);
            let at = at.ok_or_else(|| format!("{name} gets number {number}, which is in use"))?;
            pool.released.remove(at);
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
