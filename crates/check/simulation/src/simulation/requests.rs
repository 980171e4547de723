//! The requests of users, and the objects that follow from the answers: a request has taken effect as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use objects::{Batch, Cancel, Deletion, ObjectKey, ObjectStore};
use serde_json::json;
use weft_core::answered::RequestKey;
use weft_core::core::Refusal;
use weft_core::machine::{Applied, Change, Event, Request, RequestId};
use weft_core::peer::Origin;
use weft_core::record::Record;
use weft_core::rules::Rules;
use weft_core::terms::Terms;

use super::named;
use crate::network::Objects;

/// The users' side of all requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The objects that there are, by all answers so far.
    known: Objects,
    /// The requests that have no answer, in the order in which they were sent.
    open: BTreeMap<u64, Asked>,
    /// The last one that has an answer.
    done: Option<(Asked, Option<u64>)>,
    last: u64,
}

/// One request.
#[derive(Debug, Clone)]
struct Asked {
    what: Wanted,
    key: RequestKey,
    /// If it repeats one that has taken effect: its transaction.
    repeats: Option<u64>,
}

#[derive(Debug, Clone)]
enum Wanted {
    /// These objects and no others.
    All(Objects),
    /// These objects besides those that there are.
    Put(Objects),
    /// None of these.
    Delete(Vec<ObjectKey>),
    /// Something that is refused.
    Wrong,
}

impl Wanted {
    fn apply(&self, objects: &mut Objects) {
        match self {
            Wanted::All(all) => objects.clone_from(all),
            Wanted::Put(put) => objects.extend(put.clone()),
            Wanted::Delete(keys) => objects.retain(|key, _| !keys.contains(key)),
            Wanted::Wrong => {}
        }
    }
}

impl Requests {
    /// The number of requests so far.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The objects that there are, by all answers so far.
    pub(crate) fn known(&self) -> &Objects {
        &self.known
    }

    /// The requests that lead to these objects: one with all of them, or one with new and changed objects and one that deletes the rest. Empty if
    /// no controller listens.
    pub(crate) fn towards(
        &mut self,
        wanted: &Objects,
        is_whole: bool,
        rules: &Rules,
        listens: bool,
    ) -> Vec<Event> {
        if !listens || *wanted == self.known {
            return Vec::new();
        }
        if is_whole {
            return vec![self.ask(Wanted::All(wanted.clone()), rules, Cancel::default())];
        }
        let put: Objects =
            wanted.iter().filter(|(key, object)| self.known.get(*key) != Some(*object)).map(owned).collect();
        let gone: Vec<ObjectKey> =
            self.known.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        let mut events = Vec::new();
        if !put.is_empty() {
            events.push(self.ask(Wanted::Put(put), rules, Cancel::default()));
        }
        if !gone.is_empty() {
            events.push(self.ask(Wanted::Delete(gone), rules, Cancel::default()));
        }
        events
    }

    /// Many requests at once that together lead to these objects, as far as each may come before the others.
    pub(crate) fn one_by_one(&mut self, wanted: &Objects, rules: &Rules) -> Vec<Event> {
        let put: Vec<Objects> = wanted
            .iter()
            .filter(|(key, object)| self.known.get(*key) != Some(*object))
            .map(|object| Objects::from([owned(object)]))
            .collect();
        put.into_iter().map(|put| self.ask(Wanted::Put(put), rules, Cancel::default())).collect()
    }

    /// A request of a client that is gone before it is computed.
    pub(crate) fn vanishing(&mut self, wanted: &Objects, rules: &Rules) -> Event {
        let cancel = Cancel::default();
        cancel.cancel();
        self.ask(Wanted::All(wanted.clone()), rules, cancel)
    }

    /// The last answered request once more, with the same key.
    pub(crate) fn again(&mut self, rules: &Rules) -> Option<Event> {
        let (asked, txn) = self.done.clone()?;
        self.last += 1;
        let event = event(self.last, &asked, rules, Cancel::default());
        self.open.insert(self.last, Asked { repeats: txn, ..asked });
        Some(event)
    }

    /// The clock on the wall has jumped, so requests that were answered may be too old to be remembered.
    pub(crate) fn forget_the_last(&mut self) {
        self.done = None;
    }

    /// A request that has to be refused.
    pub(crate) fn wrong(&mut self, rules: &Rules) -> Event {
        self.ask(Wanted::Wrong, rules, Cancel::default())
    }

    fn ask(&mut self, what: Wanted, rules: &Rules, gone: Cancel) -> Event {
        self.last += 1;
        let key = RequestKey { text: format!("request-{}", self.last), checksum: self.last as u32 };
        let asked = Asked { what, key, repeats: None };
        let event = event(self.last, &asked, rules, gone);
        self.open.insert(self.last, asked);
        event
    }

    /// A request has this answer. Returns what to note.
    ///
    /// # Errors
    /// The objects that there are do not fit the answer.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        result: &Result<Applied, Refusal>,
        store: &ObjectStore,
    ) -> Result<String, String> {
        let asked = self.open.remove(&id.0).ok_or("a request has two answers")?;
        let applied = match result {
            Err(refusal) => return Ok(format!("request {} is refused: {refusal}", id.0)),
            Ok(applied) => applied,
        };
        if matches!(asked.what, Wanted::Wrong) {
            return Err(format!("request {} is wrong, and accepted", id.0));
        }
        match (&applied.repeated, asked.repeats) {
            (Some(_), None) => return Err(format!("request {} is new, and taken for a repeated one", id.0)),
            (Some(repeated), Some(txn)) if repeated.txn != txn => {
                return Err(format!("request {} repeats transaction {txn}, not {}", id.0, repeated.txn));
            }
            (None, Some(txn)) => {
                return Err(format!("request {} repeats transaction {txn}, and is done again", id.0));
            }
            (Some(_), Some(_)) => {}
            (None, None) => asked.what.apply(&mut self.known),
        }
        if self.open.is_empty() {
            same(&self.known, store).map_err(|why| format!("after request {}, {why}", id.0))?;
        }
        let line = format!("request {} is transaction {:?}", id.0, applied.txn);
        self.done = Some((asked, applied.txn));
        Ok(line)
    }

    /// The controller has started with these objects, from a journal with these records. Every answered request has taken effect; one without
    /// an answer has if its key is in the journal.
    ///
    /// # Errors
    /// The objects are others.
    pub(crate) fn after_start(&mut self, store: &ObjectStore, records: &[Record]) -> Result<(), String> {
        let keys = records.iter().filter_map(|record| record.key.as_ref());
        let written: BTreeSet<&str> = keys.map(|key| &*key.text).collect();
        for asked in std::mem::take(&mut self.open).into_values() {
            if asked.repeats.is_none() && written.contains(&*asked.key.text) {
                asked.what.apply(&mut self.known);
            }
        }
        same(&self.known, store).map_err(|why| format!("after a start, {why}"))
    }
}

fn owned((key, object): (&ObjectKey, &serde_json::Value)) -> (ObjectKey, serde_json::Value) {
    (key.clone(), object.clone())
}

/// Compares objects.
pub(crate) fn same(known: &Objects, store: &ObjectStore) -> Result<(), String> {
    if let Some(key) = known.keys().find(|key| store.get(key).is_none()) {
        return Err(format!("{} is missing", named(key)));
    }
    for (key, object) in store.iter() {
        let Some(known) = known.get(&key) else { return Err(format!("{} is there", named(&key))) };
        let object: serde_json::Value =
            serde_json::from_str(&object.to_json()).map_err(|error| error.to_string())?;
        if object != *known {
            return Err(format!("{} is {object}, not {known}", named(&key)));
        }
    }
    Ok(())
}

fn event(id: u64, asked: &Asked, rules: &Rules, gone: Cancel) -> Event {
    let batch = |objects: &mut dyn Iterator<Item = String>| {
        let mut batch = Batch::new(rules.kinds(), Cancel::default());
        for object in objects {
            batch.add_json("user", &object);
        }
        Box::new(batch)
    };
    let change = match &asked.what {
        Wanted::All(objects) => {
            let mut batch = batch(&mut objects.values().map(ToString::to_string));
            batch.prune = true;
            Change::Apply(batch)
        }
        Wanted::Put(objects) => Change::Apply(batch(&mut objects.values().map(ToString::to_string))),
        Wanted::Delete(keys) => Change::Delete(keys.iter().cloned().map(Deletion::from).collect()),
        Wanted::Wrong => {
            let object = json!({"kind": "switch_port", "id": "nowhere", "switch": "that does not exist"});
            Change::Apply(batch(&mut [object.to_string()].into_iter()))
        }
    };
    let by = Origin { by: "user".to_owned(), key: Some(asked.key.clone()), ..Origin::default() };
    // Only durations are made of it.
    let accepted: Instant = tokio::time::Instant::now().into_std();
    Event::Request(Request { id: RequestId(id), change, terms: Terms::default(), by, accepted, gone })
}
