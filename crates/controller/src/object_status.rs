//! The status of objects, computed by the rules: the MTU of each logical switch, and problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Committed, Row, Value};

use crate::rules::Rules;

/// The current status of objects.
#[derive(Debug, Default)]
pub(crate) struct ObjectStatus {
    /// By logical switch.
    mtus: BTreeMap<String, i64>,
    problems: BTreeSet<Arc<Problem>>,
}

/// A request of an object that the network currently cannot fulfil.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The object's kind.
    pub kind: String,
    /// Its id.
    pub id: String,
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
    /// Applies the changes of `switch_mtu` and `problem`.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) -> ProblemChanges {
        let delta = |table| committed.delta.tables.get(&table);
        if let Some(delta) = rules.mtus.and_then(delta) {
            for (switch, _) in delta.delete.iter().filter_map(mtu) {
                self.mtus.remove(&switch);
            }
            self.mtus.extend(delta.insert.iter().filter_map(mtu));
        }
        let mut changes = ProblemChanges::default();
        if let Some(delta) = rules.problems.and_then(delta) {
            changes.gone = delta.delete.iter().filter_map(problem).collect();
            changes.new = delta.insert.iter().filter_map(problem).collect();
            for problem in &changes.gone {
                self.problems.remove(problem);
            }
            self.problems.extend(changes.new.iter().cloned());
        }
        changes
    }

    /// The MTU of a logical switch, if the rules compute one.
    pub(crate) fn mtu(&self, switch: &str) -> Option<i64> {
        self.mtus.get(switch).copied()
    }

    /// The problems of one object. Reads no others.
    pub(crate) fn problems_of(&self, kind: &str, id: &str) -> impl Iterator<Item = &Problem> {
        let first = Problem { kind: kind.to_owned(), id: id.to_owned(), text: String::new() };
        let (kind, id) = (first.kind.clone(), first.id.clone());
        let problems = self.problems.range::<Problem, _>(&first..).inspect(|_| work::count());
        let problems = problems.map(|problem| &**problem);
        problems.take_while(move |problem| problem.kind == kind && problem.id == id)
    }

    /// All problems, ordered by kind and id.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.problems.iter()
    }
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

fn mtu(row: &Row) -> Option<(String, i64)> {
    match row.as_slice() {
        [Value::String(switch), Value::Int(mtu)] => Some((switch.to_string(), *mtu)),
        _ => None,
    }
}

fn problem(row: &Row) -> Option<Arc<Problem>> {
    let [Value::String(kind), Value::String(id), Value::String(text)] = row.as_slice() else { return None };
    let [kind, id, text] = [kind, id, text].map(ToString::to_string);
    Some(Arc::new(Problem { kind, id, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_problems_of_the_object_are_looked_at() {
        let mut status = ObjectStatus::default();
        let problem = |kind: &str, id: &str, text: &str| {
            let [kind, id, text] = [kind, id, text].map(ToOwned::to_owned);
            Arc::new(Problem { kind, id, text })
        };
        for number in 0..10_000 {
            status.problems.insert(problem("switch", &format!("s{number:05}"), "is odd"));
        }
        status.problems.extend([problem("switch", "s05000", "a"), problem("switch_port", "s05000", "b")]);
        let texts = |kind, id| status.problems_of(kind, id).map(|problem| &*problem.text).collect::<Vec<_>>();
        assert_eq!(texts("switch", "s05000"), ["a", "is odd"]);
        assert_eq!(texts("switch_port", "s05000"), ["b"]);
        assert_eq!(texts("switch", "s0"), [] as [&str; 0]);
        let looked_at = work::LOOKED_AT.with(std::cell::Cell::get);
        assert!(looked_at <= 6, "{looked_at} problems");
    }
}
