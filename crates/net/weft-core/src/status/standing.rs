//! Whether objects are up: an object with a place is, once its host has confirmed it there, and an object that such objects are of adds them up.
//!
//! Rules say where an object is by a column `node` in a table of state, and why it is nowhere by a column `unattached` or `waits_for`. The
//! rest is what the fleet knows of the host. An object with a place is a *member* of its host and of each object that it must refer to:
//! a port is one of its switch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::{Row, Value};
use objects::{Object, ObjectKey};

use crate::fleet::SwitchStatus;
use crate::record::to_the_second;
use crate::rules::Rules;

/// The most members that an object names which are not up.
const NAMED: usize = 3;

/// Whether an object with a place is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// The host that it is on.
    pub(super) node: Option<Arc<str>>,
    /// The transaction that put it there, of this start of the controller; 0 for an earlier one.
    pub(super) since: u64,
    /// Why it is not up; nothing if it is.
    pub(super) why: Arc<[String]>,
    /// Whether it waits for the host to confirm the transaction.
    waits: bool,
}

impl Standing {
    pub(super) fn is_up(&self) -> bool {
        self.why.is_empty()
    }

    /// That of an object with these rows in the tables of state, if its kind has places. `before` is what it was; `txn` is the last
    /// transaction.
    pub(super) fn of<'a>(
        object: &Object,
        rows: &[(usize, Row)],
        rules: &Rules,
        before: Option<&Standing>,
        txn: u64,
        switch: impl FnOnce(&str) -> Option<&'a SwitchStatus>,
    ) -> Option<Standing> {
        if !rules.has_place(object.kind().name()) {
            return None;
        }
        let text = |column: fn(&crate::rules::StateTable) -> Option<usize>| {
            let found = rows.iter().filter_map(move |(at, row)| row.get(column(&rules.states[*at])?));
            found.filter_map(|value| match value {
                Value::String(text) => Some(text.clone()),
                _ => None,
            })
        };
        let Some(node) = text(|state| state.place).next() else {
            let mut why: Vec<String> = text(|state| state.waits).map(|text| text.to_string()).collect();
            if why.is_empty() {
                why.push("no host has it".to_owned());
            }
            return Some(Standing { node: None, since: 0, why: why.into(), waits: false });
        };
        let stays = before.filter(|before| before.node.as_ref() == Some(&node));
        let since = stays.map_or(txn, |before| before.since);
        let (why, waits) = why_not(&node, since, switch(&node));
        Some(Standing { node: Some(node), since, why: why.into_iter().collect(), waits })
    }
}

/// Why an object is not up that a transaction has put on a host, and whether a confirmation changes that.
fn why_not(node: &str, since: u64, switch: Option<&SwitchStatus>) -> (Option<String>, bool) {
    match switch {
        None => (Some(format!("{node} has no switch that is managed")), false),
        Some(SwitchStatus { connected: false, not_connected_since, .. }) => {
            let since = not_connected_since.map(|since| format!(" since {}", to_the_second(since)));
            (Some(format!("{node} is not connected{}", since.unwrap_or_default())), false)
        }
        Some(SwitchStatus { reconciled: false, .. }) => {
            (Some(format!("{node} has connected and is not in sync yet")), false)
        }
        Some(SwitchStatus { unconfirmed_from: Some(first), .. }) if *first <= since => {
            (Some(format!("{node} has not confirmed transaction {since} yet")), true)
        }
        Some(_) => (None, false),
    }
}

/// What a host is for the objects on it, besides what it has confirmed.
fn liveness(switch: Option<&SwitchStatus>) -> Option<(bool, bool, Option<SystemTime>)> {
    switch.map(|switch| (switch.connected, switch.reconciled, switch.not_connected_since))
}

/// The objects that an object with a place is a member of: its host, and what it must refer to.
pub(super) fn owners(object: &Object, standing: Option<&Standing>, rules: &Rules) -> Vec<ObjectKey> {
    let Some(standing) = standing else { return Vec::new() };
    let host = standing.node.as_ref().zip(rules.host_kind());
    let mut owners: Vec<ObjectKey> =
        host.map(|(node, kind)| ObjectKey::new(kind, node.clone())).into_iter().collect();
    for (field, value) in object.kind().declared().fields.iter().zip(object.row().iter().skip(1)) {
        if let (None, Some([kind]), Value::String(id)) = (&field.default, field.ty.kinds(), value) {
            owners.push(ObjectKey::new(kind.as_str(), id.clone()));
        }
    }
    owners
}

/// The members of an object, for those who look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) all: usize,
    pub(super) up: usize,
    /// The first of those that are not up.
    pub(super) not_up: Vec<ObjectKey>,
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

impl TallyChange {
    pub(super) fn leaves(&mut self, member: ObjectKey, was_up: bool) {
        self.gone.insert(member, was_up);
    }

    pub(super) fn comes(&mut self, member: ObjectKey, is_up: bool) {
        self.new.insert(member, is_up);
    }
}

impl Tally {
    /// The members after a change. Does not look at all of them.
    pub(super) fn members(&self, change: Option<&TallyChange>) -> Members {
        let nothing = TallyChange::default();
        let change = change.unwrap_or(&nothing);
        let all = (self.all + change.new.len()).saturating_sub(change.gone.len());
        let count = |of: &BTreeMap<ObjectKey, bool>| of.values().filter(|up| !**up).count();
        let down = (self.down.len() + count(&change.new)).saturating_sub(count(&change.gone));
        let stay = self.down.iter().filter(|key| !change.gone.contains_key(*key)).take(NAMED);
        let come = change.new.iter().filter(|(_, up)| !**up).map(|(key, _)| key);
        let mut not_up: Vec<ObjectKey> = stay.chain(come).cloned().collect();
        not_up.sort_unstable();
        not_up.truncate(NAMED);
        Members { all, up: all.saturating_sub(down), not_up }
    }

    /// Applies a change. Whether members are left.
    pub(super) fn apply(&mut self, change: TallyChange) -> bool {
        self.all = self.members(Some(&change)).all;
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
            if standing.waits {
                take(&mut self.waiting, node, |waiting| {
                    take(waiting, &standing.since, |keys| {
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
            *newest = standing.since.max(*newest);
            if standing.waits {
                let waiting = self.waiting.entry(node.clone()).or_default();
                waiting.entry(standing.since).or_default().insert(key.clone());
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
