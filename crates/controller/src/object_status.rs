//! The status of objects, computed by the rules: the MTU of each logical switch, and problems.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{Committed, Row, Value};

use crate::rules::Rules;

/// The current status of objects.
#[derive(Debug, Default)]
pub(crate) struct ObjectStatus {
    /// By logical switch.
    mtus: BTreeMap<String, i64>,
    problems: BTreeSet<Problem>,
}

/// Something that an object asks and that the network currently cannot do.
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
    pub new: Vec<Problem>,
    /// Resolved problems.
    pub gone: Vec<Problem>,
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

    /// All problems, ordered by kind and id.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }
}

fn mtu(row: &Row) -> Option<(String, i64)> {
    match row.as_slice() {
        [Value::String(switch), Value::Int(mtu)] => Some((switch.to_string(), *mtu)),
        _ => None,
    }
}

fn problem(row: &Row) -> Option<Problem> {
    let [Value::String(kind), Value::String(id), Value::String(text)] = row.as_slice() else { return None };
    let [kind, id, text] = [kind, id, text].map(ToString::to_string);
    Some(Problem { kind, id, text })
}
