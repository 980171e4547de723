//! The status of objects, computed by the rules: rows of the tables of state, and problems.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use nlog_data::json::to_json;
use nlog_data::{Committed, Row, TableId, Value};
use objects::ObjectKey;
use serde_json::{Map, Value as Json};

use crate::rules::{Rules, StateTable};

/// The current status of objects.
#[derive(Debug, Default)]
pub(crate) struct ObjectStatus {
    /// The rows of each table of state, by the id of the object.
    states: BTreeMap<TableId, BTreeMap<Arc<str>, Row>>,
    problems: Problems,
}

/// Problems, ordered by kind and id.
#[derive(Debug, Default)]
pub(crate) struct Problems(BTreeSet<Arc<Problem>>);

/// The rows of tables of state that a transaction changes: the table, and the id of the object.
pub(crate) type ChangedStates = Vec<(TableId, Arc<str>)>;

/// A request of an object that the network currently cannot fulfil.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The object's kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The kind of problem, for scripts; empty if the rules do not say.
    pub code: String,
    /// The problem and its cause.
    pub text: String,
}

/// Problems that appear or disappear with a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemChanges {
    /// New problems.
    pub new: Vec<Arc<Problem>>,
    /// Resolved problems.
    pub gone: Vec<Arc<Problem>>,
}

impl ObjectStatus {
    /// Goes on with other rules that declare the same tables of state.
    pub(crate) fn go_on(&mut self, before: &Rules, after: &Rules) {
        let mut states = std::mem::take(&mut self.states);
        let tables = before.states.iter().zip(&after.states);
        self.states =
            tables.filter_map(|(before, after)| Some((after.table, states.remove(&before.table)?))).collect();
    }

    /// Applies the changes of the tables of state and of `problem`.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) -> (ProblemChanges, ChangedStates) {
        let mut states = ChangedStates::new();
        let delta = |table| committed.delta.tables.get(&table);
        for state in &rules.states {
            let Some(delta) = delta(state.table) else { continue };
            let rows = self.states.entry(state.table).or_default();
            let id = |row: &Row| match row.get(state.key) {
                Some(Value::String(id)) => Some(id.clone()),
                _ => None,
            };
            states
                .extend(delta.delete.iter().chain(&delta.insert).filter_map(id).map(|id| (state.table, id)));
            for id in delta.delete.iter().filter_map(id) {
                rows.remove(&id);
            }
            rows.extend(delta.insert.iter().filter_map(|row| Some((id(row)?, row.clone()))));
        }
        let mut changes = ProblemChanges::default();
        if let Some(delta) = rules.problems.and_then(delta) {
            changes.gone = delta.delete.iter().filter_map(problem).collect();
            changes.new = delta.insert.iter().filter_map(problem).collect();
            changes.gone.sort_unstable();
            changes.new.sort_unstable();
            self.problems.change(&changes);
        }
        (changes, states)
    }

    /// The rows of an object in the tables of state, each with the place of its table among [`Rules::states`].
    pub(crate) fn rows_of<'a>(
        &'a self,
        kind: &str,
        id: &str,
        rules: &Rules,
    ) -> impl Iterator<Item = (usize, &'a Row)> {
        let of_kind = move |state: &StateTable| state.kinds.iter().any(|own| own == kind);
        let tables = rules.states.iter().enumerate().filter(move |(_, state)| of_kind(state));
        tables.filter_map(|(at, state)| Some((at, self.states.get(&state.table)?.get(id)?)))
    }

    /// The state of an object: the columns of its rows in the tables of state, by name.
    pub(crate) fn state_of(&self, kind: &str, id: &str, rules: &Rules) -> Map<String, Json> {
        let columns = columns_of(rules, self.rows_of(kind, id, rules));
        columns.map(|(name, value)| (name.to_owned(), to_json(value))).collect()
    }

    /// The object without an interface whose id is nearest to this one.
    pub(crate) fn nearest_unattached(&self, id: &str, rules: &Rules) -> Option<ObjectKey> {
        /// Of so many objects, all are compared. More would take the engine's time.
        const FEW: usize = 256;
        /// Of more, so many before and after the id, in order.
        const BESIDE: usize = 16;
        rules.states.iter().filter(|state| state.unattached.is_some()).find_map(|state| {
            let rows = self.states.get(&state.table)?;
            let near = if rows.len() <= FEW {
                openflow_rs::nearest(id, rows.keys().map(|id| &**id))
            } else {
                let before = rows.range::<str, _>((Bound::Unbounded, Bound::Excluded(id))).rev().take(BESIDE);
                let after = rows.range::<str, _>((Bound::Excluded(id), Bound::Unbounded)).take(BESIDE);
                openflow_rs::nearest(id, before.chain(after).map(|(id, _)| &**id))
            };
            Some(ObjectKey::new(state.kinds.first()?.as_str(), near?))
        })
    }

    /// All problems, ordered by kind and id.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.problems.iter()
    }
}

impl Problems {
    /// Problems come and go.
    pub(crate) fn change(&mut self, changes: &ProblemChanges) {
        for problem in &changes.gone {
            self.0.remove(problem);
        }
        self.0.extend(changes.new.iter().cloned());
    }

    /// The problems of one object. Reads no others.
    pub(crate) fn of(&self, kind: &str, id: &str) -> impl Iterator<Item = &Arc<Problem>> {
        let (code, text) = (String::new(), String::new());
        let first = Problem { kind: kind.to_owned(), id: id.to_owned(), code, text };
        let (kind, id) = (first.kind.clone(), first.id.clone());
        let problems = self.0.range::<Problem, _>(&first..).inspect(|_| work::count());
        problems.take_while(move |problem| problem.kind == kind && problem.id == id)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.0.iter()
    }
}

/// The columns of rows of tables of state, by name, without the ids of the objects.
pub(crate) fn columns_of<'a>(
    rules: &'a Rules,
    rows: impl Iterator<Item = (usize, &'a Row)>,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    rows.flat_map(|(at, row)| {
        let state = &rules.states[at];
        let columns = state.columns.iter().zip(row).enumerate().filter(|(at, _)| *at != state.key);
        columns.map(|(_, (name, value))| (name.as_str(), value))
    })
}

/// Counts the problems that tests see read.
mod work {
    #[cfg(test)]
    thread_local! {
        pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    pub(super) fn count() {
        #[cfg(test)]
        LOOKED_AT.with(|count| count.set(count.get() + 1));
    }
}

fn problem(row: &Row) -> Option<Arc<Problem>> {
    let [Value::String(kind), Value::String(id), Value::String(code), Value::String(text)] = row.as_slice()
    else {
        return None;
    };
    let [kind, id, code, text] = [kind, id, code, text].map(ToString::to_string);
    Some(Arc::new(Problem { kind, id, code, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_problems_of_the_object_are_looked_at() {
        let mut problems = Problems::default();
        let problem = |kind: &str, id: &str, text: &str| {
            let [kind, id, code, text] = [kind, id, "", text].map(ToOwned::to_owned);
            Arc::new(Problem { kind, id, code, text })
        };
        for number in 0..10_000 {
            problems.0.insert(problem("switch", &format!("s{number:05}"), "is odd"));
        }
        problems.0.extend([problem("switch", "s05000", "a"), problem("switch_b", "s05000", "b")]);
        let texts = |kind, id| problems.of(kind, id).map(|problem| &*problem.text).collect::<Vec<_>>();
        assert_eq!(texts("switch", "s05000"), ["a", "is odd"]);
        assert_eq!(texts("switch_b", "s05000"), ["b"]);
        assert_eq!(texts("switch", "s0"), [] as [&str; 0]);
        let looked_at = work::LOOKED_AT.with(std::cell::Cell::get);
        assert!(looked_at <= 6, "{looked_at} problems");
    }
}
