//! Shares of tenants in the engine's time: the changes of one tenant take turns among themselves, so its storm of requests stays before the
//! engine's queue, in which the changes of others are next. Its traces do likewise before the places where packets are traced.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// The changes of one tenant that are in the engine's queue at a time. Several, so that one write to the disk has more than one of them.
const AT_ONCE: usize = 4;
/// The changes of one tenant, or its traces, that are there or wait for their turn.
const WAITING_MAX: usize = 256;
/// The traces of one tenant that wait for a place or have one at a time. Few are made at a time for all.
const TRACES_AT_ONCE: usize = 1;
/// The number of tenants from which on those without a request are forgotten.
const KNOWN_MAX: usize = 1000;

/// The shares of all tenants in one kind of work.
#[derive(Debug)]
pub(crate) struct Shares {
    of_tenants: Mutex<HashMap<String, Share>>,
    /// What takes turns, and how many of a tenant have their turn at a time.
    what: &'static str,
    at_once: usize,
    /// What a tenant with too many of it can do.
    remedy: &'static str,
}

/// The share of one tenant.
#[derive(Debug, Clone)]
struct Share {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    /// When its requests so far would have been made at the rate of its quota, if it has one.
    paid_until: Option<Instant>,
}

/// A request of a tenant has its turn, as long as this lives.
#[derive(Debug)]
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Share {
    fn new(at_once: usize) -> Share {
        Share {
            places: Arc::new(Semaphore::new(WAITING_MAX)),
            turns: Arc::new(Semaphore::new(at_once)),
            paid_until: None,
        }
    }

    /// Whether it says no more than a new one.
    fn is_idle(&self, now: Instant) -> bool {
        self.places.available_permits() == WAITING_MAX && self.paid_until.is_none_or(|until| until <= now)
    }
}

impl Shares {
    /// Those in the engine's queue.
    pub(crate) fn of_changes() -> Self {
        let remedy = "repeat this one later, or put many objects into one change";
        Shares { of_tenants: Mutex::default(), what: "changes", at_once: AT_ONCE, remedy }
    }

    /// Those in the places where packets are traced.
    pub(crate) fn of_traces() -> Self {
        let remedy = "repeat this one later";
        Shares { of_tenants: Mutex::default(), what: "traces", at_once: TRACES_AT_ONCE, remedy }
    }

    /// Waits for the turn of a request of this tenant. Requests have their turns in the order in which they came.
    ///
    /// # Errors
    /// Too many of the tenant wait already.
    pub(crate) async fn turn(&self, tenant: &str) -> Result<Turn, Status> {
        let Share { places, turns, .. } = self.with(tenant, |share| share.clone());
        let too_many = || {
            let Shares { what, remedy, .. } = self;
            Status::resource_exhausted(format!(
                "{WAITING_MAX} {what} of tenant {tenant} wait already; {remedy}"
            ))
        };
        let place = places.try_acquire_owned().map_err(|_| too_many())?;
        let turn = turns.acquire_owned().await;
        let turn = turn.map_err(|_| Status::internal("the turns of a tenant are closed"))?;
        Ok(Turn { _turn: turn, _place: place })
    }

    /// Counts a change of a tenant that may make `most` a second, and as many at once after a second without any (RFC 2697 calls it a
    /// bucket of tokens).
    ///
    /// # Errors
    /// It has made that many.
    pub(crate) fn count(&self, tenant: &str, most: u32, now: Instant) -> Result<(), Status> {
        const SECOND: Duration = Duration::from_secs(1);
        let too_fast = || {
            Status::resource_exhausted(format!(
                "tenant {tenant} may make {most} changes a second (`changes` of its quota); repeat this one later, or put many objects into one change"
            ))
        };
        let each = SECOND.checked_div(most).ok_or_else(too_fast)?;
        self.with(tenant, |share| {
            let paid_until = share.paid_until.map_or(now, |until| until.max(now)) + each;
            if paid_until > now + SECOND.max(each) {
                return Err(too_fast());
            }
            share.paid_until = Some(paid_until);
            Ok(())
        })
    }

    /// Does something with the share of a tenant.
    fn with<T>(&self, tenant: &str, does: impl FnOnce(&mut Share) -> T) -> T {
        let mut shares = self.of_tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= KNOWN_MAX && !shares.contains_key(tenant) {
            let now = Instant::now();
            shares.retain(|_, share| !share.is_idle(now));
        }
        does(shares.entry(tenant.to_owned()).or_insert_with(|| Share::new(self.at_once)))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tonic::Code;

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Turn, Status>> + 'a>>;

    /// A change that asks for its turn.
    fn ask<'a>(shares: &'a Shares, tenant: &'a str) -> Waiting<'a> {
        Box::pin(shares.turn(tenant))
    }

    /// The turn, if it has come.
    fn now(waiting: &mut Waiting<'_>) -> Option<Result<Turn, Status>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_tenant_waits_for_itself_and_for_nobody_else() {
        let shares = Shares::of_changes();
        let mut turns: Vec<Turn> =
            (0..AT_ONCE).map(|_| now(&mut ask(&shares, "acme")).unwrap().unwrap()).collect();
        let mut next = ask(&shares, "acme");
        assert!(now(&mut next).is_none());
        assert!(now(&mut ask(&shares, "umbra")).unwrap().is_ok());
        turns.pop();
        assert!(now(&mut next).unwrap().is_ok());
    }

    #[test]
    fn a_tenant_has_one_trace_at_a_time() {
        let shares = Shares::of_traces();
        let turn = now(&mut ask(&shares, "acme")).unwrap().unwrap();
        let mut next = ask(&shares, "acme");
        assert!(now(&mut next).is_none());
        assert!(now(&mut ask(&shares, "umbra")).unwrap().is_ok());
        drop(turn);
        assert!(now(&mut next).unwrap().is_ok());
    }

    #[test]
    fn beyond_the_bound_a_tenant_is_told_to_come_later() {
        let shares = Shares::of_changes();
        let mut waiting: Vec<Waiting<'_>> = (0..WAITING_MAX).map(|_| ask(&shares, "acme")).collect();
        let turns: Vec<_> = waiting.iter_mut().map(now).collect();
        assert_eq!(turns.iter().flatten().count(), AT_ONCE);
        let refused = now(&mut ask(&shares, "acme")).unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().starts_with("256 changes of tenant acme wait already"), "{refused}");
        assert!(now(&mut ask(&shares, "umbra")).unwrap().is_ok());
        drop((turns, waiting));
        assert!(now(&mut ask(&shares, "acme")).unwrap().is_ok());
    }

    #[test]
    fn a_tenant_makes_as_many_changes_a_second_as_it_may() {
        let (shares, start) = (Shares::of_changes(), Instant::now());
        let counts = |tenant, most, at| {
            let at = start + Duration::from_millis(at);
            (0..20).filter(|_| shares.count(tenant, most, at).is_ok()).count()
        };
        assert_eq!(counts("acme", 10, 0), 10);
        assert_eq!(counts("umbra", 3, 0), 3);
        assert_eq!([counts("acme", 10, 99), counts("acme", 10, 100), counts("acme", 10, 450)], [0, 1, 3]);
        assert_eq!(counts("acme", 10, 60_000), 10);
        // One in a second, and none at all.
        assert_eq!([counts("slow", 1, 0), counts("slow", 1, 999), counts("slow", 1, 1000)], [1, 0, 1]);
        assert_eq!(counts("closed", 0, 60_000), 0);
        let refused = shares.count("acme", 10, start + Duration::from_mins(1)).unwrap_err();
        assert!(refused.message().starts_with("tenant acme may make 10 changes a second"), "{refused}");
    }

    #[test]
    fn tenants_without_a_change_are_forgotten() {
        let shares = Shares::of_changes();
        let kept = now(&mut ask(&shares, "kept")).unwrap().unwrap();
        for number in 0..KNOWN_MAX {
            now(&mut ask(&shares, &number.to_string())).unwrap().unwrap();
        }
        let known = shares.of_tenants.lock().unwrap();
        assert!(known.contains_key("kept") && known.len() <= 2, "{}", known.len());
        drop((known, kept));
    }
}
