//! What a responder has answered, and what it has not.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};

use packet_answers::{Answered, Silence};

use crate::answering::NoAnswer;

/// Counts since the process began. Anybody may read them meanwhile.
#[derive(Debug, Default)]
pub struct Counts {
    answered: [AtomicU64; Answered::ALL.len()],
    silent: [AtomicU64; Silence::ALL.len()],
    others: [AtomicU64; OTHERS.len()],
    refused: AtomicU64,
}

/// The names of causes that are not those of a packet.
const OTHERS: [&str; 2] = ["unreadable_flow", "switch_is_slow"];

impl Counts {
    /// An answer was sent.
    pub(crate) fn answered(&self, kind: Answered) {
        add(&self.answered, Answered::ALL.iter().position(|other| *other == kind));
    }

    /// A packet got no answer.
    pub(crate) fn silent(&self, why: &NoAnswer) {
        let other = match why {
            NoAnswer::Silence(silence) => {
                return add(&self.silent, Silence::ALL.iter().position(|other| other == silence));
            }
            NoAnswer::Instruction(_) => 0,
            NoAnswer::Slow => 1,
        };
        add(&self.others, Some(other));
    }

    /// The switch refused an answer.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// All counts with their names: answers by kind, and then causes of silence.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let answered = Answered::ALL.iter().map(|kind| kind.name()).zip(&self.answered);
        let silent = Silence::ALL.iter().map(|silence| silence.name()).zip(&self.silent);
        let others = OTHERS.into_iter().zip(&self.others);
        let refused = std::iter::once(("refused_by_switch", &self.refused));
        let all = answered.chain(silent).chain(others).chain(refused);
        all.map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    /// One of the counts.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.all().find(|(other, _)| *other == name).map(|(_, count)| count)
    }
}

fn add(counts: &[AtomicU64], at: Option<usize>) {
    if let Some(count) = at.and_then(|at| counts.get(at)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Display for Counts {
    /// All counts that are not 0: `time_exceeded 3, limited 1`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (name, count) in self.all().filter(|(_, count)| *count > 0) {
            write!(f, "{between}{name} {count}")?;
            between = ", ";
        }
        if between.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use packet_answers::Reason;

    use super::*;

    #[test]
    fn each_count_has_a_name_of_its_own() {
        let counts = Counts::default();
        assert_eq!(counts.to_string(), "nothing");
        counts.answered(Answered::Error(Reason::TooBig));
        counts.silent(&NoAnswer::Silence(Silence::Limited));
        counts.silent(&NoAnswer::Silence(Silence::Limited));
        counts.silent(&NoAnswer::Slow);
        assert_eq!(counts.to_string(), "too_big 1, limited 2, switch_is_slow 1");
        assert_eq!((counts.get("limited"), counts.get("none")), (Some(2), None));
        let names: std::collections::BTreeSet<&str> = counts.all().map(|(name, _)| name).collect();
        assert_eq!(names.len(), counts.all().count());
    }
}
