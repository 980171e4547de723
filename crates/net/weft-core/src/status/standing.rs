//! Whether objects are up: an object with a place is, once its host has confirmed it there and what has changed since of what applies to it;
//! an object that needs others is, while members of those are; and an object that such objects are of adds them up.
//!
//! Rules say where an object is by a column `node` in a table of state, and why it is nowhere by a column `unattached` or `waits_for`. The
//! rest is what the fleet knows of the host. Facts say what [applies](Relations::concerned) to objects with places, and what
//! objects [need](Relations::needs). An object with a standing is a *member* of its host and of each object that it must refer
//! to: a port is one of its switch. Any object is a member of its tenant.
//!
//! [`Relations::concerned`]: crate::rules::Relations::concerned

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::{Row, Value};
use objects::{Object, ObjectKey};

use super::seen::Seen;
use crate::fleet::SwitchStatus;
use crate::rules::{Rules, StateTable};
use crate::times::to_the_second;

/// The most members that an object names which are not up.
const NAMED: usize = 3;

/// The field by which objects say whose they are, and the kind that stands for such an owner, declared or not.
pub(super) const TENANT: &str = "tenant";

/// Whether an object with a place, or with needs, is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// The host that it is on.
    pub(super) node: Option<Arc<str>>,
    /// What put it there, in this start of the controller.
    since: Txns,
    /// Why it is not up; nothing if it is.
    pub(super) why: Arc<[String]>,
    /// The transaction that it waits for the host to confirm.
    waits_for: Option<u64>,
}

/// The transactions of one publication. One of them made the change; which one is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Txns {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A change of what applies to an object that its host may not have confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) by: Txns,
    /// What has changed, such as an ACL.
    pub(super) of: ObjectKey,
}

/// What the standing of an object depends on, besides itself.
pub(super) struct Around<'a> {
    pub(super) rules: &'a Rules,
    /// What is published with it.
    pub(super) txns: Txns,
    pub(super) change: Option<&'a Change>,
    /// The status of a switch.
    pub(super) switch: &'a dyn Fn(&str) -> Option<&'a SwitchStatus>,
    /// Whether a member of an object is up.
    pub(super) has_member_up: &'a dyn Fn(&ObjectKey) -> bool,
}

impl Txns {
    /// The first of them of which a switch has refused a part.
    fn refused_by(self, switch: &SwitchStatus) -> Option<u64> {
        switch.refused_txns.range(self.first..=self.last).next().copied()
    }

    fn are_unconfirmed_by(self, switch: &SwitchStatus) -> bool {
        switch.unconfirmed_from.is_some_and(|first| first <= self.last)
    }
}

impl Change {
    /// Whether a host has yet to confirm it, or has refused a part of it.
    pub(super) fn is_open(&self, switch: &SwitchStatus) -> bool {
        self.by.are_unconfirmed_by(switch) || self.by.refused_by(switch).is_some()
    }
}

impl Standing {
    pub(super) fn is_up(&self) -> bool {
        self.why.is_empty()
    }

    /// That of an object with these rows in the tables of state, if its kind has places or needs. `before` is what it was.
    pub(super) fn of(
        object: &Object,
        rows: &[(usize, Row)],
        before: Option<&Standing>,
        around: &Around,
    ) -> Option<Standing> {
        let (kind, rules) = (object.kind().name(), around.rules);
        let nowhere = |why: Vec<String>| Standing {
            node: None,
            since: Txns::default(),
            why: why.into(),
            waits_for: None,
        };
        let reasons = || texts(rows, rules, |state| state.waits).map(ToString::to_string).collect::<Vec<_>>();
        if !rules.has_place(kind) {
            let lacks =
                |key: &ObjectKey| (!(around.has_member_up)(key)).then(|| format!("no member of {key} is up"));
            let why = || match reasons() {
                none if none.is_empty() => rules.relations.needs(object).iter().filter_map(lacks).collect(),
                reasons => reasons,
            };
            return rules.relations.has_needs(kind).then(|| nowhere(why()));
        }
        let Some(node) = host_of(rows, rules) else {
            let mut why = reasons();
            if why.is_empty() {
                why.push("no host has it".to_owned());
            }
            return Some(nowhere(why));
        };
        let stays = before.filter(|before| before.node.as_ref() == Some(&node));
        let since = stays.map_or(around.txns, |before| before.since);
        let switch = (around.switch)(&node);
        let why = why_not(&node, switch, since, "").or_else(|| {
            let Change { by, of } = around.change?;
            why_not(&node, switch, *by, &format!(", which changes {of}"))
        });
        let (why, waits_for) = why.map_or((None, None), |(why, waits_for)| (Some(why), waits_for));
        Some(Standing { node: Some(node), since, why: why.into_iter().collect(), waits_for })
    }
}

/// The texts of an object in a column of the tables of state.
fn texts<'a>(
    rows: &'a [(usize, Row)],
    rules: &'a Rules,
    column: fn(&StateTable) -> Option<usize>,
) -> impl Iterator<Item = &'a Arc<str>> {
    let found = rows.iter().filter_map(move |(at, row)| row.get(column(&rules.states[*at])?));
    found.filter_map(|value| match value {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// The host that an object with these rows in the tables of state is on.
pub(super) fn host_of(rows: &[(usize, Row)], rules: &Rules) -> Option<Arc<str>> {
    texts(rows, rules, |state| state.place).next().cloned()
}

/// Why transactions are not in force on a host for an object, and the one whose confirmation changes that. `what` says what they do.
fn why_not(
    node: &str,
    switch: Option<&SwitchStatus>,
    txns: Txns,
    what: &str,
) -> Option<(String, Option<u64>)> {
    let Some(switch) = switch else { return Some((format!("{node} has no switch that is managed"), None)) };
    if !switch.connected {
        let since = switch.not_connected_since.map(|since| format!(" since {}", to_the_second(since)));
        return Some((format!("{node} is not connected{}", since.unwrap_or_default()), None));
    }
    if !switch.reconciled {
        return Some((format!("{node} has connected and is not in sync yet"), None));
    }
    if let Some(txn) = txns.refused_by(switch) {
        return Some((format!("{node} has refused a part of transaction {txn}{what}"), None));
    }
    let Txns { last: txn, .. } = txns;
    let unconfirmed = || (format!("{node} has not confirmed transaction {txn} yet{what}"), Some(txn));
    txns.are_unconfirmed_by(switch).then(unconfirmed)
}

/// What a host is for the objects on it, besides what it has confirmed.
fn liveness(switch: Option<&SwitchStatus>) -> Option<(bool, bool, Option<SystemTime>, &BTreeSet<u64>)> {
    switch.map(|switch| {
        (switch.connected, switch.reconciled, switch.not_connected_since, &*switch.refused_txns)
    })
}

/// The objects that an object is a member of: its host, what it must refer to, unless it needs that, and its tenant.
pub(super) fn owners(object: &Object, standing: Option<&Standing>, rules: &Rules) -> Vec<ObjectKey> {
    let mut owners = Vec::new();
    if let Some(standing) = standing {
        let host = standing.node.as_ref().zip(rules.host_kind());
        owners.extend(host.map(|(node, kind)| ObjectKey::new(kind, node.clone())));
        for (field, value) in object.kind().declared().fields.iter().zip(object.values()) {
            if let (None, Some([kind]), Value::String(id)) = (&field.default, field.ty.kinds(), value) {
                owners.push(ObjectKey::new(kind.as_str(), id.clone()));
            }
        }
        // Otherwise, either would be up because the other is.
        let needs = rules.relations.needs(object);
        owners.retain(|owner| !needs.contains(owner));
    }
    if let Some(Value::String(tenant)) = object.value(TENANT) {
        let tenant = ObjectKey::new(TENANT, tenant.clone());
        if !owners.contains(&tenant) {
            owners.push(tenant);
        }
    }
    owners
}

/// Whether an object counts as up where it is a member. One without a standing and without members lacks nothing.
pub(super) fn is_up(seen: &Seen) -> bool {
    seen.status.is_up().unwrap_or(true)
}

/// The members of an object, for those who look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Their number.
    pub all: usize,
    /// The number of those that are up.
    pub up: usize,
    /// The first few of those that are not up.
    pub not_up: Vec<ObjectKey>,
}

/// The members of an object.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: usize,
    down: BTreeSet<ObjectKey>,
}

/// How the members of an object change.
#[derive(Debug, Default)]
pub(super) struct TallyChange {
    /// Those that leave or change: whether they were up.
    gone: BTreeMap<ObjectKey, bool>,
    /// Those that come or have changed.
    new: BTreeMap<ObjectKey, bool>,
}

impl Members {
    /// Whether all are up.
    pub fn are_up(&self) -> bool {
        self.up == self.all
    }
}

impl TallyChange {
    /// Whether it says something of this member.
    pub(super) fn is_of(&self, member: &ObjectKey) -> bool {
        self.gone.contains_key(member) || self.new.contains_key(member)
    }

    pub(super) fn leaves(&mut self, member: ObjectKey, was_up: bool) {
        self.gone.insert(member, was_up);
    }

    pub(super) fn comes(&mut self, member: ObjectKey, is_up: bool) {
        self.new.insert(member, is_up);
    }
}

impl Tally {
    /// The number of members, and of those that are up, after a change. Does not look at all of them.
    pub(super) fn counts(&self, change: Option<&TallyChange>) -> (usize, usize) {
        let nothing = TallyChange::default();
        let change = change.unwrap_or(&nothing);
        let all = (self.all + change.new.len()).saturating_sub(change.gone.len());
        let count = |of: &BTreeMap<ObjectKey, bool>| of.values().filter(|up| !**up).count();
        let down = (self.down.len() + count(&change.new)).saturating_sub(count(&change.gone));
        (all, all.saturating_sub(down))
    }

    /// The members after a change. Does not look at all of them.
    pub(super) fn members(&self, change: Option<&TallyChange>) -> Members {
        let (all, up) = self.counts(change);
        let nothing = TallyChange::default();
        let change = change.unwrap_or(&nothing);
        let stay = self.down.iter().filter(|key| !change.gone.contains_key(*key)).take(NAMED);
        let come = change.new.iter().filter(|(_, up)| !**up).map(|(key, _)| key);
        let mut not_up: Vec<ObjectKey> = stay.chain(come).cloned().collect();
        not_up.sort_unstable();
        not_up.truncate(NAMED);
        Members { all, up, not_up }
    }

    /// Applies a change. Whether members are left.
    pub(super) fn apply(&mut self, change: TallyChange) -> bool {
        (self.all, _) = self.counts(Some(&change));
        for key in change.gone.keys() {
            self.down.remove(key);
        }
        self.down.extend(change.new.into_iter().filter(|(_, up)| !up).map(|(key, _)| key));
        self.all > 0
    }
}

/// The objects with a place by their hosts, to find those whose host changes.
#[derive(Debug, Default)]
pub(super) struct Places {
    on: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    /// The last transaction that put an object on the host.
    newest: BTreeMap<Arc<str>, u64>,
    /// Those that wait for a confirmation, by transaction.
    waiting: BTreeMap<Arc<str>, BTreeMap<u64, BTreeSet<ObjectKey>>>,
}

impl Places {
    /// An object is elsewhere, or waits no more.
    pub(super) fn change(&mut self, key: &ObjectKey, before: Option<&Standing>, after: Option<&Standing>) {
        if let Some((node, standing)) = before.and_then(|before| Some((before.node.as_ref()?, before))) {
            take(&mut self.on, node, |keys| {
                keys.remove(key);
                keys.is_empty()
            });
            if !self.on.contains_key(node) {
                self.newest.remove(node);
            }
            if let Some(txn) = standing.waits_for {
                take(&mut self.waiting, node, |waiting| {
                    take(waiting, &txn, |keys| {
                        keys.remove(key);
                        keys.is_empty()
                    });
                    waiting.is_empty()
                });
            }
        }
        if let Some((node, standing)) = after.and_then(|after| Some((after.node.as_ref()?, after))) {
            self.on.entry(node.clone()).or_default().insert(key.clone());
            let newest = self.newest.entry(node.clone()).or_default();
            *newest = standing.since.last.max(*newest);
            if let Some(txn) = standing.waits_for {
                let waiting = self.waiting.entry(node.clone()).or_default();
                waiting.entry(txn).or_default().insert(key.clone());
            }
        }
    }

    /// The objects that may be up or not for another reason when a host changes.
    pub(super) fn touched<'a>(
        &'a self,
        node: &str,
        before: Option<&SwitchStatus>,
        after: Option<&SwitchStatus>,
    ) -> Box<dyn Iterator<Item = &'a ObjectKey> + 'a> {
        let unconfirmed = |status: Option<&SwitchStatus>| status.and_then(|status| status.unconfirmed_from);
        let end = unconfirmed(after).unwrap_or(u64::MAX);
        // A transaction counts as unconfirmed again if its host forgets it.
        let is_older = self.newest.get(node).is_some_and(|newest| end <= *newest);
        let forgets = is_older && unconfirmed(before).is_none_or(|first| first > end);
        if forgets || liveness(before) != liveness(after) {
            return Box::new(self.on.get(node).into_iter().flatten());
        }
        let waiting = self.waiting.get(node).into_iter();
        Box::new(waiting.flat_map(move |waiting| waiting.range(..end)).flat_map(|(_, keys)| keys))
    }
}

/// Changes an entry, and removes it if it is empty then.
fn take<K: Ord, V>(from: &mut BTreeMap<K, V>, key: &K, is_emptied: impl FnOnce(&mut V) -> bool) {
    if from.get_mut(key).is_some_and(is_emptied) {
        from.remove(key);
    }
}
