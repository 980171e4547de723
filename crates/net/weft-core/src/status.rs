//! The status of the controller and its switches, and the objects with their states, which readers get without waiting for the
//! engine thread, however long its current transaction takes.
//!
//! In reading order: [`Published`] and its update; [`Seen`], an object with its state; `history` (pages and changes that fit together) with
//! `reading` (how readers get them); `draft` (what an update changes) with `standing` (whether objects are up) and `since` (the times of problems).

mod draft;
mod history;
mod reading;
mod seen;
mod since;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use objects::ObjectKey;

use self::draft::Draft;
use self::history::History;
use self::seen::Stray;
use self::since::Since;
use self::standing::{Around, Change, Places, Standing, Tally, Txns};
use crate::core::{ChangedStates, Core, Problem, ProblemChanges, Strays};
use crate::fleet::{Fleet, SwitchStatus};
use crate::levels::CutOff;
use crate::object_status::Problems;

pub use self::history::{Cursor, Following, RevisionError, Version};
pub use self::reading::{LIMIT_MAX, Page};
pub use self::seen::Seen;
pub use self::since::Ongoing;
pub use self::standing::Members;

/// The most objects in one answer, so that a long list does not delay other requests.
pub const PAGE: usize = 1000;

/// The controller and its switches after the last transaction that took effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The last transaction; 0 if there is none.
    pub last_txn: u64,
    /// The number of objects of each kind.
    pub objects: BTreeMap<Arc<str>, usize>,
    /// The switches, in order of names.
    pub switches: Vec<Arc<SwitchStatus>>,
    /// Requests of objects that the network currently cannot fulfil, and what is wrong with the controller itself.
    pub problems: Vec<Ongoing>,
}

/// The status as the engine thread last published it. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct Published(Arc<RwLock<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    last_txn: u64,
    /// The objects with their states and problems.
    history: History,
    /// The problems of all objects, also of those that are not there.
    problems: Problems,
    switches: BTreeMap<String, Arc<SwitchStatus>>,
    /// The hosts of objects.
    places: Places,
    /// The members of objects that have some.
    tallies: BTreeMap<ObjectKey, Tally>,
    /// The changes of what applies to objects that their hosts have not confirmed.
    changes: BTreeMap<ObjectKey, Change>,
    /// The interfaces of these switches that no object has, by the object that may be meant.
    strays: BTreeMap<ObjectKey, BTreeSet<Stray>>,
    /// What is wrong with the controller itself.
    own: Option<Arc<Problem>>,
    /// The times of all problems.
    since: Since,
}

/// The differences between [`Published`] and the present status.
#[derive(Debug, Default)]
pub(crate) struct Unpublished {
    /// The first revision, for a controller that starts.
    begins: Option<u64>,
    /// The transport nodes whose switches may have another status.
    pub(crate) nodes: BTreeSet<String>,
    /// In the order in which they arose.
    pub(crate) problems: Vec<ProblemChanges>,
    /// The objects that may differ.
    pub(crate) objects: Vec<ObjectKey>,
    /// The rows of tables of state that may differ.
    pub(crate) states: ChangedStates,
}

impl Published {
    /// The status. If nodes are given, with their switches only and without problems.
    pub fn read(&self, nodes: &BTreeSet<String>) -> Status {
        let parts = self.parts();
        let (switches, problems) = if nodes.is_empty() {
            let problems = parts.own.iter().chain(parts.problems.iter());
            let problems = problems.map(|problem| parts.since.of(problem)).collect();
            (parts.switches.values().cloned().collect(), problems)
        } else {
            (nodes.iter().filter_map(|node| parts.switches.get(node)).cloned().collect(), Vec::new())
        };
        let objects = parts.history.kinds().map(|(kind, objects)| (kind.clone(), objects.len())).collect();
        Status { last_txn: parts.last_txn, objects, switches, problems }
    }

    /// An object with its state, and the newest revision.
    pub fn object(&self, kind: &str, id: &str) -> Option<(Arc<Seen>, u64)> {
        let parts = self.parts();
        parts.history.get(kind, id).map(|seen| (seen.clone(), parts.history.newest()))
    }

    /// The tenants that objects name, each with its members: the objects whose `tenant` it is. Of one tenant, or of all in order of names.
    pub fn tenants(&self, of: Option<&str>) -> Vec<(Arc<str>, Members)> {
        let parts = self.parts();
        let first = ObjectKey::new(standing::TENANT, of.unwrap_or_default());
        let tallies = parts.tallies.range(&first..).take_while(|(key, _)| *key.kind == *standing::TENANT);
        let tallies = tallies.take_while(|(key, _)| of.is_none_or(|of| *key.id == *of));
        tallies.map(|(key, tally)| (key.id.clone(), tally.members(None))).collect()
    }

    fn parts(&self) -> RwLockReadGuard<'_, Parts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these are the objects and the states of the core, to check them in debug builds.
    pub(crate) fn has_objects_of(&self, core: &Core) -> bool {
        let parts = self.parts();
        let mut members: BTreeMap<ObjectKey, (usize, usize)> = BTreeMap::new();
        for seen in parts.history.kinds().flat_map(|(_, objects)| objects.values()) {
            for owner in standing::owners(seen.object(), seen.status.standing.as_ref(), core.rules()) {
                let (all, up) = members.entry(owner).or_default();
                (*all, *up) = (*all + 1, *up + usize::from(standing::is_up(seen)));
            }
        }
        let tallied = parts.tallies.iter().map(|(owner, tally)| (owner, tally.counts(None)));
        let are_tallied = tallied.eq(members.iter().map(|(owner, counts)| (owner, *counts)));
        let stands = |seen: &Arc<Seen>, rows: &[(usize, nlog_data::Row)]| {
            let (key, known) = (seen.object().key(), seen.status.standing.as_ref());
            let around = Around {
                rules: core.rules(),
                txns: Txns::default(),
                change: parts.changes.get(&key),
                switch: &|node| parts.switches.get(node).map(|status| &**status),
                has_member_up: &|key| members.get(key).is_some_and(|(_, up)| *up > 0),
            };
            let now = Standing::of(seen.object(), rows, known, &around);
            let count = seen.status.members.as_ref().map(|members| (members.all, members.up));
            now.as_ref() == known && count == members.get(&key).copied()
        };
        let is_present = |seen: &Arc<Seen>| {
            let key = seen.object().key();
            let rows = draft::rows_of(core.object_status(), &key, core.rules());
            let is_unattached = rows.iter().any(|(at, _)| core.rules().states[*at].unattached.is_some());
            let strays = parts.strays.get(&key).filter(|_| is_unattached);
            core.objects().get(&key).is_some_and(|present| Arc::ptr_eq(present, seen.object()))
                && *seen.status.rows == *rows
                && seen.status.tenant == core.tenant_of(seen.object())
                && stands(seen, &rows)
                && parts.problems.of(&key.kind, &key.id).eq(seen.problems())
                && strays.into_iter().flatten().eq(&*seen.status.strays)
        };
        let published = || parts.history.kinds().flat_map(|(_, objects)| objects.values());
        are_tallied && published().count() == core.objects().len() && published().all(is_present)
    }

    /// Publishes what has changed. Takes time in proportion to that. Only the engine thread does this, so nothing else is published between
    /// its reading and its writing. Returns the kinds of objects that differ.
    pub(crate) fn update(
        &self,
        unpublished: &mut Unpublished,
        core: &Core,
        fleet: &Fleet,
    ) -> BTreeSet<Arc<str>> {
        let (draft, kinds) = {
            let parts = self.parts();
            let draft = Draft::of(&parts, std::mem::take(unpublished), core, fleet);
            let kinds = draft.kinds(&parts);
            (draft, kinds)
        };
        let dropped = draft.take_effect(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
        // No reader waits while memory is freed.
        drop(dropped);
        kinds
    }
}

impl Unpublished {
    /// All there is, for a controller that starts at this time.
    pub(crate) fn all(core: &Core, fleet: &Fleet, start: SystemTime) -> Self {
        let new = core.problems().chain(fleet.underlay_problems()).cloned().collect();
        let nodes = fleet.nodes().map(ToOwned::to_owned).collect();
        Unpublished {
            begins: Some(history::first_revision(start)),
            nodes,
            problems: vec![ProblemChanges { new, gone: Vec::new() }],
            objects: core.objects().iter().map(|(key, _)| key).collect(),
            // Those of all objects come with them.
            states: ChangedStates::new(),
        }
    }
}

/// The status without what is as old as the last news of a host, since objects that come and go do not change it, and without the times of
/// problems.
pub(crate) fn without_the_past(mut status: Status) -> Status {
    for switch in &mut status.switches {
        Arc::make_mut(switch).strays = Strays::default();
    }
    for problem in &mut status.problems {
        problem.since = SystemTime::UNIX_EPOCH;
    }
    status
}

/// The status computed from nothing, to check the published one in debug builds.
pub(crate) fn computed(core: &Core, fleet: &Fleet) -> Status {
    let all: BTreeSet<_> = core.problems().chain(fleet.underlay_problems()).cloned().collect();
    Status {
        last_txn: core.last_txn(),
        objects: counts(core),
        switches: fleet.nodes().filter_map(|node| switch(core, fleet, node)).map(Arc::new).collect(),
        problems: own(fleet).into_iter().chain(all).map(|problem| Since::default().of(&problem)).collect(),
    }
}

/// What is wrong with the controller itself.
fn own(fleet: &Fleet) -> Option<Arc<Problem>> {
    let problem = |cut_off: CutOff| Problem {
        kind: "controller".to_owned(),
        id: "connections".to_owned(),
        code: "cut-off".to_owned(),
        text: cut_off.to_string(),
    };
    fleet.cut_off().map(problem).map(Arc::new)
}

fn switch(core: &Core, fleet: &Fleet, node: &str) -> Option<SwitchStatus> {
    let status = fleet.status(node, core.desired_counts(node), core.vif_count(node))?;
    Some(SwitchStatus { strays: core.strays(node), ..status })
}

fn counts(core: &Core) -> BTreeMap<Arc<str>, usize> {
    let kinds = core.objects().kinds().iter();
    kinds.map(|kind| (kind.shared_name().clone(), core.objects().count(kind.name()))).collect()
}
