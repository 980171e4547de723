//! What rules say to people: the largest packets of each switch, and what cannot be done as things are.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{Committed, Row, Value};

use crate::rules::Rules;

/// What rules say to people now.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// By logical switch.
    mtus: BTreeMap<String, i64>,
    problems: BTreeSet<Problem>,
}

/// Something that an object asks and that cannot be done as things are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The object's kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// What cannot be done, and why.
    pub text: String,
}

/// Problems that come and go with a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemChanges {
    /// That were not there before.
    pub new: Vec<Problem>,
    /// That are there no more.
    pub gone: Vec<Problem>,
}

impl Notices {
    /// Takes in the changes of `switch_mtu` and `problem`.
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

    /// How large IP packets may be that all ports of a logical switch exchange, if the rules say it.
    pub(crate) fn mtu(&self, switch: &str) -> Option<i64> {
        self.mtus.get(switch).copied()
    }

    /// All problems, in order of kind and id.
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
