//! What a publication changes, computed beside the status that readers have: they wait only while the results are exchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use objects::{Object, ObjectKey};

use super::history::Version;
use super::seen::{Seen, SeenStatus, Stray, shared};
use super::standing::{self, Around, Change, Members, Standing, Tally, TallyChange, Txns};
use super::{Parts, Unpublished, own, switch};
use crate::core::{ChangedStates, Core, ObjectStatus, Problem, ProblemChanges};
use crate::fleet::{Fleet, SwitchStatus};
use crate::rules::Rules;

/// What each thing that changes is afterwards.
pub(super) struct Draft {
    /// The first revision and the kinds, for a controller that starts.
    begins: Option<(u64, Vec<Arc<str>>)>,
    last_txn: u64,
    now: SystemTime,
    own: Option<Arc<Problem>>,
    switches: Vec<(String, Option<Arc<SwitchStatus>>)>,
    strays: BTreeMap<ObjectKey, BTreeSet<Stray>>,
    problems: Vec<ProblemChanges>,
    objects: Vec<(ObjectKey, Option<Arc<Seen>>)>,
    tallies: Tallies,
    /// The changes of what applies to objects: those that hosts have yet to confirm, and those that are settled.
    changes: BTreeMap<ObjectKey, Option<Change>>,
}

/// Objects that change; `None` is one that goes.
type Changed = BTreeMap<ObjectKey, Option<Arc<Seen>>>;
/// How the members of objects change.
type Tallies = BTreeMap<ObjectKey, TallyChange>;

/// The most waves of objects that change because others do. There are five if no package declares needs in a circle: ports, switches, ports of
/// routers, routers, tenants.
const WAVES_MAX: usize = 16;

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
        let last = core.last_txn();
        let mut view = View {
            parts,
            core,
            // A controller that starts has no transaction yet.
            txns: Txns { first: if begins.is_some() { last } else { last.min(parts.last_txn + 1) }, last },
            switches: switches.iter().map(|(node, status)| (node.as_str(), status.as_deref())).collect(),
            strays: changed_strays(parts, &switches),
            problems: changed_problems(parts, &problems),
            changes: BTreeMap::new(),
        };
        let mut touched: BTreeSet<ObjectKey> = objects.into_iter().collect();
        let mut concerned = if begins.is_some() { BTreeMap::new() } else { view.concerned(&touched) };
        touched.extend(owners(states, core.rules()));
        touched.extend(view.strays.keys().chain(view.problems.keys()).chain(concerned.keys()).cloned());
        touched.extend(view.moved());
        touched.extend(view.transferred(&touched));
        view.changes = view.open_changes(&touched, &mut concerned);
        let (objects, tallies) = view.waves(touched);
        let (strays, changes, objects) = (view.strays, view.changes, objects.into_iter().collect());
        let kinds = || core.objects().kinds().iter().map(|kind| kind.shared_name().clone()).collect();
        let begins = begins.map(|revision| (revision, kinds()));
        Draft {
            begins,
            last_txn: core.last_txn(),
            now: fleet.wall(),
            own: own(fleet),
            switches,
            strays,
            problems,
            objects,
            tallies,
            changes,
        }
    }

    /// The kinds of the objects that differ. Where a controller starts, or goes on with other rules, all kinds do, those of before too.
    pub(super) fn kinds(&self, parts: &Parts) -> BTreeSet<Arc<str>> {
        match &self.begins {
            None => self.objects.iter().map(|(key, _)| key.kind.clone()).collect(),
            Some((_, kinds)) => {
                let before = parts.history.kinds().map(|(kind, _)| kind);
                kinds.iter().chain(before).cloned().collect()
            }
        }
    }

    /// Makes it what readers see. Returns what the history drops for it.
    pub(super) fn take_effect(self, parts: &mut Parts) -> Vec<Arc<Version>> {
        let Draft { begins, last_txn, now, own, switches, strays, problems, objects, tallies, changes } =
            self;
        if begins.is_some() {
            *parts = Parts { since: std::mem::take(&mut parts.since), ..Parts::default() };
        }
        parts.last_txn = last_txn;
        let own_before = std::mem::replace(&mut parts.own, own);
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
        for changes in &problems {
            parts.problems.change(changes);
        }
        if begins.is_some() {
            parts.since.begin(parts.own.iter().chain(parts.problems.iter()), now);
        } else {
            for changes in &problems {
                parts.since.change(&changes.gone, &changes.new, now);
            }
            if own_before != parts.own {
                parts.since.change(&own_before, &parts.own, now);
            }
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
        for (key, change) in changes {
            match change {
                Some(change) => drop(parts.changes.insert(key, change)),
                None => drop(parts.changes.remove(&key)),
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
    /// The transactions since the last publication.
    txns: Txns,
    /// The switches that may have another status.
    switches: BTreeMap<&'a str, Option<&'a SwitchStatus>>,
    /// The strays of the objects whose strays change.
    strays: BTreeMap<ObjectKey, BTreeSet<Stray>>,
    /// Likewise.
    problems: BTreeMap<ObjectKey, BTreeSet<Arc<Problem>>>,
    /// As the draft has them.
    changes: BTreeMap<ObjectKey, Option<Change>>,
}

impl View<'_> {
    /// What an object is from now on, if that differs from what readers see.
    fn change(&self, key: ObjectKey, tallies: &Tallies) -> Option<(ObjectKey, Option<Arc<Seen>>)> {
        let before = self.parts.history.get(&key.kind, &key.id);
        let Some(object) = self.core.objects().get(&key) else { return before.map(|_| (key, None)) };
        let mut after = self.seen(&key, object, before.map(|before| &before.status), tallies);
        after.status.members = self.members(&key, tallies.get(&key), before);
        let is_same = before.is_some_and(|before| before.is(&after));
        (!is_same).then(|| (key, Some(Arc::new(after))))
    }

    fn seen(
        &self,
        key: &ObjectKey,
        object: &Arc<Object>,
        before: Option<&SeenStatus>,
        tallies: &Tallies,
    ) -> Seen {
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
        let change = self.changes.get(key).map_or_else(|| self.parts.changes.get(key), Option::as_ref);
        let around = Around {
            rules,
            txns: self.txns,
            change,
            switch: &|node| self.switch(node),
            has_member_up: &|key| self.up(key, tallies) > 0,
        };
        let was = before.and_then(|before| before.standing.as_ref());
        let standing = Standing::of(object, &rows, was, &around);
        // Equal reasons are kept once.
        let same = was.filter(|same| Some(*same) == standing.as_ref());
        let standing = same.cloned().or(standing);
        Seen::new(
            object.clone(),
            SeenStatus {
                rows,
                problems,
                strays,
                standing,
                members: None,
                tenant: self.core.tenant_of(object),
            },
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

    /// The objects that go to another tenant with these, to which they refer.
    fn transferred(&self, touched: &BTreeSet<ObjectKey>) -> BTreeSet<ObjectKey> {
        let (objects, relations) = (self.core.objects(), &self.core.rules().relations);
        let goes = |key: &ObjectKey| {
            let before = self.parts.history.get(&key.kind, &key.id);
            let after = objects.get(key);
            before
                .zip(after)
                .is_some_and(|(before, after)| before.status.tenant != self.core.tenant_of(after))
        };
        let mut transferred = BTreeSet::new();
        let mut left: Vec<ObjectKey> = touched.iter().filter(|key| goes(key)).cloned().collect();
        while let Some(key) = left.pop() {
            let members =
                objects.referrers(&key).filter(|member| relations.belongs_by_reference(&member.kind));
            for member in members.filter(goes) {
                if transferred.insert(member.clone()) {
                    left.push(member);
                }
            }
        }
        transferred
    }

    /// The objects to which a change of these objects applies, each with that change.
    fn concerned(&self, touched: &BTreeSet<ObjectKey>) -> BTreeMap<ObjectKey, Change> {
        let (objects, rules) = (self.core.objects(), self.core.rules());
        let of = |key: &ObjectKey| {
            let before = self.parts.history.get(&key.kind, &key.id).map(|seen| &**seen.object());
            let after = objects.get(key).map(|object| &**object);
            let concerned = rules.relations.concerned(before, after, objects, rules);
            let change = Change { by: self.txns, of: key.clone() };
            concerned.into_iter().map(move |key| (key, change.clone()))
        };
        touched.iter().flat_map(of).collect()
    }

    /// The changes of what applies to objects, new ones and those that some of these objects wait for, as they are from now on.
    fn open_changes(
        &self,
        touched: &BTreeSet<ObjectKey>,
        new: &mut BTreeMap<ObjectKey, Change>,
    ) -> BTreeMap<ObjectKey, Option<Change>> {
        let rules = self.core.rules();
        let change = |key: &ObjectKey| {
            let change = new.remove(key).or_else(|| self.parts.changes.get(key).cloned())?;
            let host = standing::host_of(&rows_of(self.core.object_status(), key, rules), rules);
            let switch = host.and_then(|host| self.switch(&host));
            Some((
                key.clone(),
                Some(change).filter(|change| switch.is_some_and(|switch| change.is_open(switch))),
            ))
        };
        touched.iter().filter_map(change).collect()
    }

    /// What these objects are from now on, and those that depend on them, as far as it differs; and how their members change.
    fn waves(&self, touched: BTreeSet<ObjectKey>) -> (Changed, Tallies) {
        let (mut objects, mut tallies, mut wave) = (Changed::new(), Tallies::new(), touched);
        for _ in 0..WAVES_MAX {
            for key in &wave {
                // One that an earlier wave changed may be again as it was.
                objects.remove(key);
                objects.extend(self.change(key.clone(), &tallies));
            }
            wave = self.tally(&wave, &objects, &mut tallies);
            if wave.is_empty() {
                break;
            }
        }
        (objects, tallies)
    }

    /// Adds up how members change with the objects of a wave. Returns the objects that depend on that.
    fn tally(
        &self,
        wave: &BTreeSet<ObjectKey>,
        objects: &Changed,
        tallies: &mut Tallies,
    ) -> BTreeSet<ObjectKey> {
        let rules = self.core.rules();
        let membership = |seen: &Arc<Seen>| {
            let owners = standing::owners(seen.object(), seen.status.standing.as_ref(), rules);
            (standing::is_up(seen), owners)
        };
        let mut concerned = BTreeSet::new();
        for key in wave {
            let before = self.parts.history.get(&key.kind, &key.id);
            let after = objects.get(key).map_or(before, Option::as_ref);
            let (before, after) = (before.map(membership), after.map(membership));
            let (was_up, left) = before.clone().unwrap_or_default();
            let is_counted = |owner| tallies.get(owner).is_some_and(|tally: &TallyChange| tally.is_of(key));
            if before == after && !left.iter().any(is_counted) {
                continue;
            }
            let (is_up, entered) = after.unwrap_or_default();
            for owner in &left {
                tallies.entry(owner.clone()).or_default().leaves(key.clone(), was_up);
            }
            for owner in &entered {
                tallies.entry(owner.clone()).or_default().comes(key.clone(), is_up);
            }
            concerned.extend(left.into_iter().chain(entered));
        }
        let needy = concerned.iter().flat_map(|owner| self.needy(owner, tallies)).collect::<Vec<_>>();
        concerned.extend(needy);
        concerned
    }

    /// The objects that need an object, if it has a member that is up and had none, or has none any more.
    fn needy(&self, key: &ObjectKey, tallies: &Tallies) -> Vec<ObjectKey> {
        if (self.up(key, &Tallies::new()) > 0) == (self.up(key, tallies) > 0) {
            return Vec::new();
        }
        let (objects, relations) = (self.core.objects(), &self.core.rules().relations);
        let needs = |other: &ObjectKey| {
            let other = objects.get(other).filter(|_| relations.has_needs(&other.kind));
            other.is_some_and(|other| relations.needs(other).contains(key))
        };
        objects.referrers(key).filter(needs).collect()
    }

    /// The number of members of an object that are up, after these changes.
    fn up(&self, key: &ObjectKey, tallies: &Tallies) -> usize {
        let nothing = Tally::default();
        let (_, up) = self.parts.tallies.get(key).unwrap_or(&nothing).counts(tallies.get(key));
        up
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
