//! What a publication changes, computed beside the status that readers have: they wait only while the results are exchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use objects::{Object, ObjectKey};

use super::history::Version;
use super::seen::{Seen, SeenStatus, Stray, shared};
use super::standing::{self, Members, Standing, Tally, TallyChange};
use super::{Parts, Unpublished, own, switch};
use crate::core::{ChangedStates, Core, ObjectStatus, Problem, ProblemChanges};
use crate::fleet::{Fleet, SwitchStatus};
use crate::rules::Rules;

/// What each thing that changes is afterwards.
pub(super) struct Draft {
    /// The first revision and the kinds, for a controller that starts.
    begins: Option<(u64, Vec<Arc<str>>)>,
    last_txn: u64,
    own: Option<Arc<Problem>>,
    switches: Vec<(String, Option<Arc<SwitchStatus>>)>,
    strays: BTreeMap<ObjectKey, BTreeSet<Stray>>,
    problems: Vec<ProblemChanges>,
    objects: Vec<(ObjectKey, Option<Arc<Seen>>)>,
    tallies: BTreeMap<ObjectKey, TallyChange>,
}

impl Draft {
    /// The publication of what has changed. A controller that starts publishes all there is, whatever was there.
    pub(super) fn of(parts: &Parts, unpublished: Unpublished, core: &Core, fleet: &Fleet) -> Draft {
        let Unpublished { begins, nodes, problems, objects, states } = unpublished;
        let nothing = Parts::default();
        let parts = if begins.is_some() { &nothing } else { parts };
        let status = |node: String| {
            let status = switch(core, fleet, &node).map(Arc::new);
            (node, status)
        };
        let switches: Vec<_> = nodes.into_iter().map(status).collect();
        let view = View {
            parts,
            core,
            switches: switches.iter().map(|(node, status)| (node.as_str(), status.as_deref())).collect(),
            strays: changed_strays(parts, &switches),
            problems: changed_problems(parts, &problems),
        };
        let mut touched: BTreeSet<ObjectKey> = objects.into_iter().collect();
        touched.extend(owners(states, core.rules()));
        touched.extend(view.strays.keys().chain(view.problems.keys()).cloned());
        touched.extend(view.moved());
        let unchanged = BTreeMap::new();
        let changes = touched.into_iter().filter_map(|key| view.change(key, &unchanged));
        let mut objects: BTreeMap<ObjectKey, Option<Arc<Seen>>> = changes.collect();
        let tallies = view.tallies(&objects);
        // The objects whose members change are known once these are.
        objects.extend(tallies.keys().filter_map(|key| view.change(key.clone(), &tallies)));
        let (strays, objects) = (view.strays, objects.into_iter().collect());
        let kinds = || core.objects().kinds().iter().map(|kind| kind.shared_name().clone()).collect();
        let begins = begins.map(|revision| (revision, kinds()));
        Draft {
            begins,
            last_txn: core.last_txn(),
            own: own(fleet),
            switches,
            strays,
            problems,
            objects,
            tallies,
        }
    }

    /// Makes it what readers see. Returns what the history drops for it.
    pub(super) fn take_effect(self, parts: &mut Parts) -> Vec<Arc<Version>> {
        let Draft { begins, last_txn, own, switches, strays, problems, objects, tallies } = self;
        if begins.is_some() {
            *parts = Parts::default();
        }
        (parts.last_txn, parts.own) = (last_txn, own);
        for (node, status) in switches {
            match status {
                Some(status) => drop(parts.switches.insert(node, status)),
                None => drop(parts.switches.remove(&node)),
            }
        }
        for (key, strays) in strays {
            if strays.is_empty() {
                parts.strays.remove(&key);
            } else {
                parts.strays.insert(key, strays);
            }
        }
        for changes in problems {
            parts.problems.change(&changes);
        }
        for (key, after) in &objects {
            let before = parts.history.get(&key.kind, &key.id);
            let standing = |seen: &Arc<Seen>| seen.status.standing.clone();
            parts.places.change(
                key,
                before.and_then(standing).as_ref(),
                after.as_ref().and_then(standing).as_ref(),
            );
        }
        for (key, change) in tallies {
            let tally = parts.tallies.entry(key.clone()).or_default();
            if !tally.apply(change) {
                parts.tallies.remove(&key);
            }
        }
        match begins {
            Some((revision, kinds)) => {
                parts.history.begin(kinds.into_iter(), revision);
                parts.history.fill(objects.into_iter().filter_map(|(key, seen)| Some((key, seen?))));
                Vec::new()
            }
            None => parts.history.change(objects),
        }
    }
}

/// What readers see, and what is about to change.
struct View<'a> {
    parts: &'a Parts,
    core: &'a Core,
    /// The switches that may have another status.
    switches: BTreeMap<&'a str, Option<&'a SwitchStatus>>,
    /// The strays of the objects whose strays change.
    strays: BTreeMap<ObjectKey, BTreeSet<Stray>>,
    /// Likewise.
    problems: BTreeMap<ObjectKey, BTreeSet<Arc<Problem>>>,
}

impl View<'_> {
    /// What an object is from now on, if that differs from what readers see.
    fn change(
        &self,
        key: ObjectKey,
        tallies: &BTreeMap<ObjectKey, TallyChange>,
    ) -> Option<(ObjectKey, Option<Arc<Seen>>)> {
        let before = self.parts.history.get(&key.kind, &key.id);
        let Some(object) = self.core.objects().get(&key) else { return before.map(|_| (key, None)) };
        let mut after = self.seen(&key, object, before.map(|before| &before.status));
        after.status.members = self.members(&key, tallies.get(&key), before);
        let is_same = before.is_some_and(|before| before.is(&after));
        (!is_same).then(|| (key, Some(Arc::new(after))))
    }

    fn seen(&self, key: &ObjectKey, object: &Arc<Object>, before: Option<&SeenStatus>) -> Seen {
        let rules = self.core.rules();
        let rows = rows_of(self.core.object_status(), key, rules);
        let is_unattached = rows.iter().any(|(table, _)| rules.states[*table].unattached.is_some());
        let strays = self.strays.get(key).or_else(|| self.parts.strays.get(key)).filter(|_| is_unattached);
        let strays =
            shared(strays.into_iter().flatten().cloned().collect(), before.map(|before| &before.strays));
        let rows = shared(rows, before.map(|before| &before.rows));
        let problems = match (self.problems.get(key), before) {
            (Some(problems), _) => {
                shared(problems.iter().cloned().collect(), before.map(|before| &before.problems))
            }
            (None, Some(before)) => before.problems.clone(),
            (None, None) => shared(self.parts.problems.of(&key.kind, &key.id).cloned().collect(), None),
        };
        let standing = Standing::of(
            object,
            &rows,
            rules,
            before.and_then(|before| before.standing.as_ref()),
            self.core.last_txn(),
            |node| self.switch(node),
        );
        // Equal reasons are kept once.
        let same = before
            .and_then(|before| before.standing.as_ref())
            .filter(|same| Some(*same) == standing.as_ref());
        let standing = same.cloned().or(standing);
        Seen::new(
            object.clone(),
            SeenStatus { rows, problems, strays, standing, members: None },
            rules.clone(),
        )
    }

    /// The status of a switch from now on.
    fn switch(&self, node: &str) -> Option<&SwitchStatus> {
        let known = || self.parts.switches.get(node).map(|status| &**status);
        self.switches.get(node).copied().unwrap_or_else(known)
    }

    /// The objects whose hosts have changed.
    fn moved(&self) -> Vec<ObjectKey> {
        let places = &self.parts.places;
        let touched = self.switches.iter().flat_map(|(node, after)| {
            let before = self.parts.switches.get(*node).map(|status| &**status);
            places.touched(node, before, *after)
        });
        touched.cloned().collect()
    }

    /// How the members of objects change with these objects.
    fn tallies(&self, objects: &BTreeMap<ObjectKey, Option<Arc<Seen>>>) -> BTreeMap<ObjectKey, TallyChange> {
        let rules = self.core.rules();
        let membership = |seen: &Arc<Seen>| {
            let standing = seen.status.standing.as_ref();
            (standing.is_some_and(Standing::is_up), standing::owners(seen.object(), standing, rules))
        };
        let mut tallies: BTreeMap<ObjectKey, TallyChange> = BTreeMap::new();
        for (key, after) in objects {
            let before = self.parts.history.get(&key.kind, &key.id).map(membership);
            let after = after.as_ref().map(membership);
            if before == after {
                continue;
            }
            let (was_up, left) = before.unwrap_or_default();
            for owner in left {
                tallies.entry(owner).or_default().leaves(key.clone(), was_up);
            }
            let (is_up, entered) = after.unwrap_or_default();
            for owner in entered {
                tallies.entry(owner).or_default().comes(key.clone(), is_up);
            }
        }
        tallies
    }

    /// The members of an object after a change of them.
    fn members(
        &self,
        key: &ObjectKey,
        change: Option<&TallyChange>,
        before: Option<&Arc<Seen>>,
    ) -> Option<Arc<Members>> {
        if change.is_none()
            && let Some(before) = before
        {
            return before.status.members.clone();
        }
        let nothing = Tally::default();
        let members = self.parts.tallies.get(key).unwrap_or(&nothing).members(change);
        (members.all > 0).then(|| Arc::new(members))
    }
}

/// The rows of an object in the tables of state, as [`Seen`] has them.
pub(super) fn rows_of(status: &ObjectStatus, key: &ObjectKey, rules: &Rules) -> Vec<(usize, nlog_data::Row)> {
    status.rows_of(&key.kind, &key.id, rules).map(|(table, row)| (table, row.clone())).collect()
}

/// The objects whose rows these are: one for each kind that the table of state is about.
fn owners(states: ChangedStates, rules: &Rules) -> impl Iterator<Item = ObjectKey> {
    let kinds: BTreeMap<_, Vec<Arc<str>>> = rules
        .states
        .iter()
        .map(|state| (state.table, state.kinds.iter().map(|kind| kind.as_str().into()).collect()))
        .collect();
    states.into_iter().flat_map(move |(table, id)| {
        let kinds = kinds.get(&table).cloned().unwrap_or_default();
        kinds.into_iter().map(move |kind| ObjectKey { kind, id: id.clone() })
    })
}

/// The strays of the objects that some switch's strays are meant for, or were.
fn changed_strays(
    parts: &Parts,
    switches: &[(String, Option<Arc<SwitchStatus>>)],
) -> BTreeMap<ObjectKey, BTreeSet<Stray>> {
    let mut changed: BTreeMap<ObjectKey, BTreeSet<Stray>> = BTreeMap::new();
    for (node, status) in switches {
        let before = parts.switches.get(node).map_or(&[][..], |status| &status.strays.first);
        let after = status.as_ref().map_or(&[][..], |status| &status.strays.first);
        if before == after {
            continue;
        }
        let pairs = [(before, false), (after, true)];
        let pairs =
            pairs.into_iter().flat_map(|(strays, is_new)| strays.iter().map(move |pair| (pair, is_new)));
        for ((id, near), is_new) in pairs {
            let Some(near) = near else { continue };
            let strays = || parts.strays.get(near).cloned().unwrap_or_default();
            let strays = changed.entry(near.clone()).or_insert_with(strays);
            let stray = (node.clone(), id.clone());
            if is_new {
                strays.insert(stray);
            } else {
                strays.remove(&stray);
            }
        }
    }
    changed
}

/// The problems of the objects that get or lose some.
fn changed_problems(
    parts: &Parts,
    problems: &[ProblemChanges],
) -> BTreeMap<ObjectKey, BTreeSet<Arc<Problem>>> {
    let mut changed: BTreeMap<ObjectKey, BTreeSet<Arc<Problem>>> = BTreeMap::new();
    let mut of = |problem: &Arc<Problem>, is_new: bool| {
        let Problem { kind, id, .. } = &**problem;
        let known = || parts.problems.of(kind, id).cloned().collect();
        let key = ObjectKey::new(kind.as_str(), id.as_str());
        let problems: &mut BTreeSet<_> = changed.entry(key).or_insert_with(known);
        if is_new {
            problems.insert(problem.clone());
        } else {
            problems.remove(problem);
        }
    };
    for changes in problems {
        changes.gone.iter().for_each(|problem| of(problem, false));
        changes.new.iter().for_each(|problem| of(problem, true));
    }
    changed
}
