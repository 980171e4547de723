//! The numbers of keys, and how many keys of a scope have each.

use hashbrown::HashMap;
use nlog_data::function::hash_values;
use nlog_data::{Row, Value};

use crate::bounds::{Bounds, numbered};

/// A number for some keys.
#[derive(Debug)]
pub(super) struct Numbers {
    scope: Option<usize>,
    given: HashMap<Row, i64>,
    /// By scope; without a scope, there is one.
    users: HashMap<Option<Value>, HashMap<i64, usize>>,
}

impl Numbers {
    pub(super) fn new(scope: Option<usize>) -> Self {
        Numbers { scope, given: HashMap::new(), users: HashMap::new() }
    }

    /// No numbers, in the same scopes.
    pub(super) fn none(&self) -> Self {
        Numbers::new(self.scope)
    }

    pub(super) fn of(&self, key: &Row) -> Option<i64> {
        self.given.get(key).copied()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Row> {
        self.given.keys()
    }

    /// The rows of the target, ascending.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.given.iter().map(|(key, number)| numbered(key, *number)).collect();
        rows.sort_unstable();
        rows
    }

    /// Whether the key has a number that no other key has.
    pub(super) fn is_of_one(&self, key: &Row) -> bool {
        self.of(key).is_some_and(|number| self.users_of(key, number) == 1)
    }

    pub(super) fn set(&mut self, key: &Row, number: Option<i64>) {
        let scope = self.scope_of(key);
        if let Some(former) = self.given.remove(key)
            && let Some(users) = self.users.get_mut(&scope)
        {
            match users.get_mut(&former) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(users.remove(&former)),
            }
            if users.is_empty() {
                self.users.remove(&scope);
            }
        }
        if let Some(number) = number {
            *self.users.entry(scope).or_default().entry(number).or_default() += 1;
            self.given.insert(key.clone(), number);
        }
    }

    /// A number between the bounds that no key of the scope has, and how many were looked at.
    pub(super) fn free(&self, key: &Row, bounds: Bounds) -> (Option<i64>, u64) {
        let used = self.users.get(&self.scope_of(key)).map_or(0, HashMap::len);
        // Of more numbers than are in use, one is free.
        let many = bounds.size().min(used as u128 + 1) as u64;
        let first = u128::from(hash_values(key).unsigned_abs()) % bounds.size();
        for looked in 0..many {
            let number = bounds.at((first + u128::from(looked)) % bounds.size());
            if self.users_of(key, number) == 0 {
                return (Some(number), looked + 1);
            }
        }
        (None, many)
    }

    fn users_of(&self, key: &Row, number: i64) -> usize {
        self.users.get(&self.scope_of(key)).and_then(|users| users.get(&number)).copied().unwrap_or_default()
    }

    fn scope_of(&self, key: &Row) -> Option<Value> {
        self.scope.and_then(|column| key.get(column)).cloned()
    }
}
