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

/// The times at which problems appeared.
#[derive(Debug, Default)]
pub(super) struct Since(BTreeMap<Arc<Problem>, SystemTime>);

impl Since {
    /// Problems go, and others come. One that follows another of the same object and code is the same problem with another text.
    pub(super) fn change<'gone, 'new>(
        &mut self,
        gone: impl IntoIterator<Item = &'gone Arc<Problem>>,
        new: impl IntoIterator<Item = &'new Arc<Problem>>,
        now: SystemTime,
    ) {
        let mut before: BTreeMap<[&str; 3], SystemTime> = BTreeMap::new();
        for problem in gone {
            if let Some(since) = self.0.remove(problem) {
                let earliest = before.entry(name(problem)).or_insert(since);
                *earliest = since.min(*earliest);
            }
        }
        for problem in new {
            let since = before.get(&name(problem)).copied().unwrap_or(now);
            self.0.entry(problem.clone()).or_insert(since);
        }
    }

    /// There are these problems and no others.
    pub(super) fn begin<'a>(&mut self, all: impl IntoIterator<Item = &'a Arc<Problem>>, now: SystemTime) {
        let before: Vec<Arc<Problem>> = self.0.keys().cloned().collect();
        self.change(&before, all, now);
    }

    /// A problem that there is, with its time.
    pub(super) fn of(&self, problem: &Arc<Problem>) -> Ongoing {
        let since = self.0.get(problem).copied().unwrap_or(SystemTime::UNIX_EPOCH);
        Ongoing { problem: problem.clone(), since }
    }
}

/// The kind and the id of an object, and the code of a problem.
fn name(problem: &Problem) -> [&str; 3] {
    let Problem { kind, id, code, text: _ } = problem;
    [kind, id, code]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn problem(id: &str, code: &str, text: &str) -> Arc<Problem> {
        let [kind, id, code, text] = ["port", id, code, text].map(ToOwned::to_owned);
        Arc::new(Problem { kind, id, code, text })
    }

    #[test]
    fn a_problem_keeps_its_time_with_another_text_and_with_other_rules() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut since = Since::default();
        let [one, other] = ["one", "other"].map(|text| problem("p", "odd", text));
        let seconds = |since: &Since, problem: &Arc<Problem>| {
            since.of(problem).since.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
        };
        since.change([], [&one], at(5));
        since.change([&one], [&other], at(6));
        assert_eq!(seconds(&since, &other), 5);
        // A second one of the same code is new.
        since.change([], [&one], at(7));
        assert_eq!([seconds(&since, &one), seconds(&since, &other)], [7, 5]);
        let (stays, new) = (problem("p", "odd", "third"), problem("q", "odd", "one"));
        since.begin([&stays, &new], at(8));
        assert_eq!([seconds(&since, &stays), seconds(&since, &new)], [5, 8]);
        assert_eq!(since.0.len(), 2);
    }
}
