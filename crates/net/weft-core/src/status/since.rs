//! Since when there are problems.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::core::Problem;

/// A problem that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ongoing {
    /// The problem.
    pub problem: Arc<Problem>,
    /// The time at which it appeared, or the controller started.
    pub since: SystemTime,
}

/// The times at which problems appeared. One whose text changes is still the same, so they are kept by object and code.
#[derive(Debug, Default)]
pub(super) struct Since(BTreeMap<Name, SystemTime>);

/// The kind and the id of an object, and the code of a problem.
type Name = [String; 3];

impl Since {
    /// These problems may have come or gone.
    pub(super) fn change<'a>(
        &mut self,
        touched: impl IntoIterator<Item = &'a Arc<Problem>>,
        is_there: impl Fn(&Problem) -> bool,
        now: SystemTime,
    ) {
        for problem in touched {
            if is_there(problem) {
                self.0.entry(name(problem)).or_insert(now);
            } else {
                self.0.remove(&name(problem));
            }
        }
    }

    /// There are these problems and no others.
    pub(super) fn begin<'a>(&mut self, all: impl IntoIterator<Item = &'a Arc<Problem>>, now: SystemTime) {
        let before = std::mem::take(&mut self.0);
        let since = |name: Name| {
            let since = before.get(&name).copied().unwrap_or(now);
            (name, since)
        };
        self.0 = all.into_iter().map(|problem| since(name(problem))).collect();
    }

    /// A problem that there is, with its time.
    pub(super) fn of(&self, problem: &Arc<Problem>) -> Ongoing {
        let since = self.0.get(&name(problem)).copied().unwrap_or(SystemTime::UNIX_EPOCH);
        Ongoing { problem: problem.clone(), since }
    }
}

fn name(problem: &Problem) -> Name {
    let Problem { kind, id, code, text: _ } = problem;
    [kind, id, code].map(Clone::clone)
}
