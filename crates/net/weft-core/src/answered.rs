//! Requests that took effect and whose clients gave them a key, so that a repeated request gets the first one's answer.
//!
//! A client that lost its connection does not know whether its request took effect, and asks again with the same key. Requests that
//! changed nothing are not kept: they can be repeated as they are. The journal has the keys, so a restart forgets none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use objects::{ObjectKey, Outcome};
use serde::{Deserialize, Serialize};

use crate::times::{rfc3339, time_of};

/// How long a request is kept.
const KEPT: Duration = Duration::from_hours(1);
/// The most requests that are kept, and the most outcomes of objects: of all of them, and of one. What is beyond takes memory that nobody
/// asks for.
const REQUESTS_MAX: usize = 10_000;
const OUTCOMES_MAX: usize = 200_000;
const OUTCOMES_OF_ONE: usize = 10_000;

/// The key of a request, which its client chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestKey {
    /// The key.
    pub text: String,
    /// The checksum of the request, which tells another request with the same key.
    pub checksum: u32,
}

/// A request that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Its transaction.
    pub txn: u64,
    /// What became of the objects that it changed. None if there were too many to keep.
    pub outcomes: Option<Arc<[(ObjectKey, Outcome)]>>,
}

/// A request that took effect, as a [`Base`](crate::record::Base) has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnsweredRequest {
    key: RequestKey,
    txn: u64,
    /// The time of acceptance: RFC 3339, UTC.
    at: String,
    /// What became of its objects: kind, id and outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcomes: Option<Vec<(String, String, Outcome)>>,
}

/// The requests of the last hour.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    by_key: BTreeMap<String, Kept>,
    /// The keys by transaction.
    order: BTreeMap<u64, String>,
    outcomes: usize,
}

#[derive(Debug)]
struct Kept {
    checksum: u32,
    at: SystemTime,
    request: Repeated,
}

impl Kept {
    fn count(&self) -> usize {
        self.request.outcomes.as_ref().map_or(0, |outcomes| outcomes.len())
    }
}

impl Answered {
    /// The request that had this key; an error with its transaction if it was another request.
    pub(crate) fn find(&self, key: &RequestKey, now: SystemTime) -> Option<Result<Repeated, u64>> {
        let kept = self.by_key.get(&key.text).filter(|kept| is_kept(kept.at, now))?;
        let is_same = kept.checksum == key.checksum;
        Some(if is_same { Ok(kept.request.clone()) } else { Err(kept.request.txn) })
    }

    /// Keeps a request that takes effect now.
    pub(crate) fn add(
        &mut self,
        RequestKey { text, checksum }: RequestKey,
        txn: u64,
        at: SystemTime,
        outcomes: Vec<(ObjectKey, Outcome)>,
    ) {
        let outcomes = (outcomes.len() <= OUTCOMES_OF_ONE).then(|| outcomes.into());
        self.keep(text, Kept { checksum, at, request: Repeated { txn, outcomes } });
    }

    fn keep(&mut self, key: String, kept: Kept) {
        self.remove(&key);
        let at = kept.at;
        self.outcomes += kept.count();
        self.order.insert(kept.request.txn, key.clone());
        self.by_key.insert(key, kept);
        self.forget_old(at);
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<AnsweredRequest> {
        let kept = self.order.values().filter_map(|key| self.by_key.get_key_value(key));
        let request = |(key, Kept { checksum, at, request }): (&String, &Kept)| {
            let outcome =
                |(key, outcome): &(ObjectKey, Outcome)| (key.kind.to_string(), key.id.to_string(), *outcome);
            AnsweredRequest {
                key: RequestKey { text: key.clone(), checksum: *checksum },
                txn: request.txn,
                at: rfc3339(*at),
                outcomes: request.outcomes.as_ref().map(|outcomes| outcomes.iter().map(outcome).collect()),
            }
        };
        kept.map(request).collect()
    }

    /// Those that [`all`](Answered::all) returned.
    ///
    /// # Errors
    /// A time is none.
    pub(crate) fn restored(requests: &[AnsweredRequest]) -> Result<Self, String> {
        let mut answered = Answered::default();
        for AnsweredRequest { key, txn, at, outcomes } in requests {
            let at = time_of(at)?;
            let outcome = |(kind, id, outcome): &(String, String, Outcome)| {
                (ObjectKey::new(kind.as_str(), id.as_str()), *outcome)
            };
            let outcomes = outcomes.as_ref().map(|outcomes| outcomes.iter().map(outcome).collect());
            let kept = Kept { checksum: key.checksum, at, request: Repeated { txn: *txn, outcomes } };
            answered.keep(key.text.clone(), kept);
        }
        Ok(answered)
    }

    /// Forgets a request, because it is undone.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(kept) = self.by_key.remove(key) {
            self.outcomes -= kept.count();
            self.order.remove(&kept.request.txn);
        }
    }

    /// Forgets the oldest requests: those of more than an hour ago, and those beyond the bounds.
    pub(crate) fn forget_old(&mut self, now: SystemTime) {
        while let Some((_, key)) = self.order.first_key_value() {
            let is_old = self.by_key.get(key).is_none_or(|kept| !is_kept(kept.at, now));
            if !is_old && self.by_key.len() <= REQUESTS_MAX && self.outcomes <= OUTCOMES_MAX {
                return;
            }
            let key = key.clone();
            self.remove(&key);
        }
    }
}

/// Whether a request of this time is kept. One of the future is, since the clock was set back.
fn is_kept(at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age| age <= KEPT) || at > now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, checksum: u32) -> RequestKey {
        RequestKey { text: text.to_owned(), checksum }
    }

    #[test]
    fn a_request_is_kept_for_an_hour_and_in_bounded_number() {
        let mut answered = Answered::default();
        let begin = SystemTime::UNIX_EPOCH + Duration::from_hours(1000);
        let outcomes = vec![(ObjectKey::new("switch", "a"), Outcome::Created)];
        answered.add(key("a", 1), 7, begin, outcomes.clone());
        let found = answered.find(&key("a", 1), begin + KEPT).unwrap().unwrap();
        assert_eq!((found.txn, found.outcomes.as_deref()), (7, Some(&outcomes[..])));
        assert_eq!(answered.find(&key("a", 2), begin), Some(Err(7)));
        assert_eq!(answered.find(&key("b", 1), begin), None);
        assert_eq!(answered.find(&key("a", 1), begin + KEPT + Duration::from_secs(1)), None);
        for number in 0..REQUESTS_MAX as u64 {
            answered.add(key(&format!("k{number}"), 1), 8 + number, begin, outcomes.clone());
        }
        assert_eq!((answered.by_key.len(), answered.outcomes), (REQUESTS_MAX, REQUESTS_MAX));
        assert!(
            answered.find(&key("a", 1), begin).is_none() && answered.find(&key("k0", 1), begin).is_some()
        );
        // Others are gone an hour later.
        answered.add(
            key("z", 1),
            1_000_000,
            begin + 2 * KEPT,
            vec![outcomes[0].clone(); OUTCOMES_OF_ONE + 1],
        );
        assert_eq!((answered.by_key.len(), answered.order.len(), answered.outcomes), (1, 1, 0));
        assert_eq!(answered.find(&key("z", 1), begin + 2 * KEPT).unwrap().unwrap().outcomes, None);
        let restored = Answered::restored(&answered.all()).unwrap();
        assert_eq!(
            restored.find(&key("z", 1), begin + 2 * KEPT),
            answered.find(&key("z", 1), begin + 2 * KEPT)
        );
        answered.remove("z");
        assert!(answered.by_key.is_empty() && answered.order.is_empty());
    }
}
