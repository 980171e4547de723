//! The terms on which a request takes effect, and what a request is refused for that does more harm than it may mean.

use std::collections::BTreeMap;

use std::sync::Arc;

use objects::Outcome;

use crate::core::{Accepted, Problem, Refusal};
use crate::harm::{Harm, Pruned};

/// The terms of a request. By default it takes effect whatever comes of it, unless objects or rules refuse it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// It is refused if it brings problems.
    pub strict: bool,
    /// It is refused if it is [`Harm`].
    pub careful: bool,
    /// It has no effect, and the answer says what it would have. Such a request is not harmful.
    pub dry_run: bool,
}

impl Terms {
    /// Why a change that objects and rules accept, and that brings these problems, is refused on these terms.
    pub(crate) fn refusal(
        self,
        change: &Accepted,
        problems: &[Arc<Problem>],
        prunes: bool,
    ) -> Option<Refusal> {
        if self.strict && !problems.is_empty() {
            return Some(Refusal::Problems(problems.to_vec()));
        }
        if !self.careful || self.dry_run {
            return None;
        }
        let harm = Harm {
            cut_off: change.cut_off.clone(),
            pruned: prunes.then(|| pruned(change)).filter(Pruned::is_much),
        };
        (harm != Harm::default()).then(|| Refusal::Unconfirmed(Box::new(harm)))
    }
}

/// What a request prunes.
fn pruned(change: &Accepted) -> Pruned {
    let mut by_kind = BTreeMap::new();
    // What a document deletes has its place there.
    let pruned = change.objects.changes.iter().filter(|change| change.place.is_none());
    for pruned in pruned.filter(|pruned| pruned.outcome() == Outcome::Deleted) {
        *by_kind.entry(pruned.key.kind.clone()).or_default() += 1;
    }
    Pruned { by_kind, of: change.objects_before }
}
