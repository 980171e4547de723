//! What the clients know of each object: what was answered, and what may have happened.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Kind and id of an object.
pub type Key = (String, String);

/// What may be true of each object. An object that is not in the book was never asked for.
#[derive(Debug, Clone, Default)]
pub struct Book {
    objects: BTreeMap<Key, Vec<Option<Json>>>,
    /// The last transaction that was answered.
    last_txn: u64,
    answered: u64,
    unanswered: u64,
    refused: u64,
    repeated: u64,
}

/// What the clients asked so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Requests that were answered: they took effect.
    pub answered: u64,
    /// Attempts without an answer.
    pub unanswered: u64,
    /// Requests that the controller refused, because its disk failed.
    pub refused: u64,
    /// Answered requests that were repeated with their key.
    pub repeated: u64,
}

impl Book {
    /// The object is so, or does not exist.
    pub fn is(&mut self, key: Key, value: Option<Json>) {
        self.objects.insert(key, vec![value]);
    }

    /// The object may also be so from now on.
    pub fn may_be(&mut self, key: &Key, value: Option<Json>) {
        let possible = self.objects.entry(key.clone()).or_insert_with(|| vec![None]);
        if !possible.contains(&value) {
            possible.push(value);
        }
    }

    /// What the object is, if that is certain.
    pub fn certain(&self, key: &Key) -> Option<Option<&Json>> {
        match self.objects.get(key).map(Vec::as_slice) {
            None => Some(None),
            Some([one]) => Some(one.as_ref()),
            Some(_) => None,
        }
    }

    /// A request was answered, by this transaction if it changed anything.
    pub fn answer(&mut self, txn: Option<u64>) {
        self.answered += 1;
        self.last_txn = self.last_txn.max(txn.unwrap_or_default());
    }

    /// A request was not answered.
    pub fn no_answer(&mut self) {
        self.unanswered += 1;
    }

    /// A request was refused.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// An answered request was repeated.
    pub fn repeat(&mut self) {
        self.repeated += 1;
    }

    /// The last transaction that was answered.
    pub fn last_txn(&self) -> u64 {
        self.last_txn
    }

    /// What the clients asked so far.
    pub fn requests(&self) -> Requests {
        let Book { answered, unanswered, refused, repeated, .. } = *self;
        Requests { answered, unanswered, refused, repeated }
    }

    /// Compares the objects that there are with the book, and returns what is wrong. What was uncertain is then known.
    pub fn compare(&mut self, mut found: BTreeMap<Key, Json>) -> Vec<String> {
        let mut wrong = Vec::new();
        for ((kind, id), possible) in &mut self.objects {
            let found = found.remove(&(kind.clone(), id.clone()));
            let fits = possible.iter().position(|wanted| match (wanted, &found) {
                (Some(wanted), Some(found)) => has_all_of(found, wanted),
                (None, None) => true,
                _ => false,
            });
            if let Some(at) = fits {
                possible.swap(0, at);
            } else {
                let text = |value: &Option<Json>| value.as_ref().map_or("absent".to_owned(), Json::to_string);
                let possible: Vec<String> = possible.iter().map(text).collect();
                wrong.push(format!(
                    "{kind} {id} is {}, and should be {}",
                    text(&found),
                    possible.join(" or ")
                ));
            }
            possible.truncate(1);
        }
        let strange =
            found.into_iter().map(|((kind, id), _)| format!("{kind} {id} is there, and nobody asked for it"));
        wrong.extend(strange);
        wrong
    }
}

/// Whether an object has all fields of another one: the controller adds those that have their defaults.
fn has_all_of(found: &Json, wanted: &Json) -> bool {
    match (found, wanted) {
        (Json::Object(found), Json::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| has_all_of(found, wanted)))
        }
        (Json::Array(found), Json::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| has_all_of(found, wanted))
        }
        _ => found == wanted,
    }
}
