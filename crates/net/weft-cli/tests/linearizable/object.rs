//! An object of the API as a model: two fields, and the revision by which conditional writes know it.

use std::fmt::{self, Display, Formatter};

use super::checker::Model;

/// The two fields.
pub(crate) type Fields = [u64; 2];

/// A request for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Get,
    /// Replaces both fields, or creates the object.
    Put(Fields, Condition),
    /// Sets one field.
    Patch(usize, u64, Condition),
    Delete(Condition),
}

impl Request {
    /// Takes the condition away, unless it asks for a new object.
    pub(crate) fn forget_revision(&mut self) {
        if let Request::Put(_, condition) | Request::Patch(_, _, condition) | Request::Delete(condition) =
            self
        {
            *condition = condition.filter(|&revision| revision == 0);
        }
    }
}

/// The revision on which a write depends, if it does. 0 asks for a new object.
pub(crate) type Condition = Option<u64>;

/// What the client knows of the outcome. Numbers are those of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Found(Fields, u64),
    Created(u64),
    Updated(u64),
    Deleted(u64),
    Unchanged,
    /// The condition does not hold.
    Stale,
    Missing,
    /// No answer came.
    Unknown,
}

/// A request with its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) request: Request,
    pub(crate) outcome: Outcome,
    /// How often it was sent with its key; 0 without a key.
    pub(crate) sent: usize,
    /// How often of these the client hung up. The controller may have gone on with it.
    pub(crate) hung_up: usize,
}

/// The transaction that changed the object last, or deleted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Revision {
    Known(u64),
    /// Some later one than this: nobody has been told yet.
    After(u64),
}

impl Revision {
    /// A transaction that is surely not later.
    fn at_least(self) -> u64 {
        match self {
            Revision::Known(at) | Revision::After(at) => at,
        }
    }

    /// Whether it can be this one.
    fn can_be(self, revision: u64) -> bool {
        match self {
            Revision::Known(known) => known == revision,
            Revision::After(earlier) => revision > earlier,
        }
    }
}

/// An object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    fields: Option<Fields>,
    revision: Revision,
}

/// What a write would do to an object.
enum Effect {
    Missing,
    Stale,
    Unchanged,
    Becomes(Option<Fields>),
}

impl Object {
    /// What a write can do, each with the object before it: whether the condition holds may tell the revision.
    fn effects(self, request: Request) -> Vec<(Object, Effect)> {
        let (Request::Put(_, condition) | Request::Patch(_, _, condition) | Request::Delete(condition)) =
            request
        else {
            return Vec::new();
        };
        let needs_object = !matches!(request, Request::Put(..));
        if needs_object && self.fields.is_none() {
            return vec![(self, Effect::Missing)];
        }
        let effect = |before: Object| (before, before.effect(request));
        match (condition, self.fields) {
            (None, _) | (Some(0), None) => vec![effect(self)],
            (Some(_), None) | (Some(0), Some(_)) => vec![(self, Effect::Stale)],
            (Some(wanted), Some(_)) => {
                let known = Object { revision: Revision::Known(wanted), ..self };
                let holds = self.revision.can_be(wanted).then(|| effect(known));
                let may_differ = self.revision != Revision::Known(wanted);
                holds.into_iter().chain(may_differ.then_some((self, Effect::Stale))).collect()
            }
        }
    }

    /// What a write does whose condition holds.
    fn effect(self, request: Request) -> Effect {
        let after = match request {
            Request::Put(fields, _) => Some(fields),
            Request::Patch(field, value, _) => self.fields.map(|mut fields| {
                fields[field] = value;
                fields
            }),
            Request::Delete(_) | Request::Get => None,
        };
        if after == self.fields { Effect::Unchanged } else { Effect::Becomes(after) }
    }

    /// Whether a client that was told of this outcome can have been told of this effect.
    fn told(self, effect: &Effect, outcome: Outcome) -> Option<Object> {
        let changed = |fields: &Option<Fields>, at: u64| {
            let object = Object { fields: *fields, revision: Revision::Known(at) };
            (at > self.revision.at_least()).then_some(object)
        };
        match (effect, outcome) {
            (Effect::Missing, Outcome::Missing)
            | (Effect::Stale, Outcome::Stale)
            | (Effect::Unchanged, Outcome::Unchanged) => Some(self),
            (Effect::Becomes(after @ Some(_)), Outcome::Created(at)) if self.fields.is_none() => {
                changed(after, at)
            }
            (Effect::Becomes(after @ Some(_)), Outcome::Updated(at)) if self.fields.is_some() => {
                changed(after, at)
            }
            (Effect::Becomes(after @ None), Outcome::Deleted(at)) => changed(after, at),
            (Effect::Becomes(fields), Outcome::Unknown) => {
                Some(Object { fields: *fields, revision: Revision::After(self.revision.at_least()) })
            }
            _ => None,
        }
    }
}

impl Model for Object {
    type State = Object;
    type Operation = Operation;

    fn begin() -> Object {
        Object { fields: None, revision: Revision::After(0) }
    }

    fn after(&object: &Object, operation: &Operation) -> Vec<Object> {
        if operation.request == Request::Get {
            let found = match operation.outcome {
                Outcome::Found(fields, revision) => (object.fields == Some(fields)
                    && object.revision.can_be(revision))
                .then_some(Object { revision: Revision::Known(revision), ..object }),
                Outcome::Missing => object.fields.is_none().then_some(object),
                _ => None,
            };
            return found.into_iter().collect();
        }
        let effects = object.effects(operation.request);
        effects.iter().filter_map(|(before, effect)| before.told(effect, operation.outcome)).collect()
    }

    fn is_unsure(operation: &Operation) -> bool {
        operation.outcome == Outcome::Unknown
    }

    /// Revisions only grow, and who reads one comes after who made it.
    fn rank(operation: &Operation) -> Option<u64> {
        match operation.outcome {
            Outcome::Created(at) | Outcome::Updated(at) | Outcome::Deleted(at) => Some(2 * at),
            Outcome::Found(_, revision) => Some(2 * revision + 1),
            Outcome::Unchanged | Outcome::Stale | Outcome::Missing | Outcome::Unknown => None,
        }
    }

    fn is_without_effect(operation: &Operation) -> bool {
        use Outcome::{Found, Missing, Stale, Unchanged};
        matches!(operation.outcome, Found(..) | Missing | Stale | Unchanged)
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Operation { client, request, outcome, sent, hung_up } = self;
        write!(f, "client {client}: {request:?} -> {outcome:?}")?;
        match sent {
            0 => Ok(()),
            1 => write!(f, ", with a key"),
            _ => write!(f, ", sent {sent} times with its key, left {hung_up} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_random::Random;

    use super::super::checker::{Timed, check};
    use super::*;

    /// Whether this can happen, one after the other.
    fn is_possible(operations: &[(Request, Outcome)]) -> bool {
        let timed = operations.iter().zip(1..).map(|(&(request, outcome), number)| {
            let operation = Operation { client: 0, request, outcome, sent: 0, hung_up: 0 };
            Timed { invoked: 2 * number, returned: Some(2 * number + 1), operation }
        });
        check::<Object>(&timed.collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn conditions_are_of_the_last_change() {
        use Outcome::{Created, Deleted, Found, Missing, Stale, Unchanged, Updated};
        use Request::{Delete, Get, Patch, Put};
        let create = (Put([1, 1], Some(0)), Created(3));
        assert!(is_possible(&[create, (Patch(0, 2, Some(3)), Updated(5)), (Get, Found([2, 1], 5))]));
        assert!(is_possible(&[create, (Put([1, 1], None), Unchanged), (Put([1, 1], Some(0)), Stale)]));
        assert!(is_possible(&[
            create,
            (Delete(Some(3)), Deleted(4)),
            (Delete(None), Missing),
            (Put([1, 1], Some(3)), Stale)
        ]));
        for wrong in [
            (Patch(0, 2, Some(2)), Updated(5)),
            (Patch(0, 2, Some(3)), Stale),
            (Patch(0, 2, None), Updated(2)),
            (Patch(0, 2, None), Created(5)),
            (Patch(0, 1, None), Updated(5)),
            (Patch(0, 2, None), Unchanged),
            (Put([1, 2], Some(0)), Updated(5)),
            (Delete(None), Missing),
            (Get, Missing),
            (Get, Found([1, 1], 4)),
            (Get, Found([1, 2], 3)),
        ] {
            assert!(!is_possible(&[create, wrong]), "{wrong:?}");
        }
    }

    #[test]
    fn a_write_without_answer_has_a_revision_that_is_learned_later() {
        use Outcome::{Created, Found, Stale, Unknown, Updated};
        use Request::{Get, Patch, Put};
        let (create, lost) = ((Put([1, 1], None), Created(3)), (Patch(1, 2, None), Unknown));
        assert!(is_possible(&[create, lost, (Get, Found([1, 1], 3)), (Put([5, 5], Some(3)), Updated(4))]));
        assert!(is_possible(&[create, lost, (Patch(0, 9, Some(7)), Updated(8)), (Get, Found([9, 2], 8))]));
        assert!(is_possible(&[create, lost, (Patch(0, 9, Some(7)), Stale), (Get, Found([1, 2], 6))]));
        assert!(!is_possible(&[create, lost, (Get, Found([1, 2], 3))]));
        assert!(!is_possible(&[create, lost, (Patch(0, 9, Some(7)), Updated(8)), (Get, Found([9, 1], 8))]));
        assert!(!is_possible(&[create, lost, (Patch(0, 9, Some(3)), Updated(8)), (Get, Found([9, 2], 8))]));
    }

    /// The model without ranks.
    struct Unranked;

    impl Model for Unranked {
        type State = Object;
        type Operation = Operation;

        fn begin() -> Object {
            Object::begin()
        }

        fn after(object: &Object, operation: &Operation) -> Vec<Object> {
            Object::after(object, operation)
        }

        fn is_unsure(operation: &Operation) -> bool {
            Object::is_unsure(operation)
        }

        fn rank(_: &Operation) -> Option<u64> {
            None
        }

        fn is_without_effect(operation: &Operation) -> bool {
            Object::is_without_effect(operation)
        }
    }

    /// Some clients of an object that one after the other do random things, and answers of which one may be wrong.
    fn random_history(random: &mut Random) -> Vec<Timed<Operation>> {
        let (mut object, mut history) =
            (Object { revision: Revision::Known(0), ..Object::begin() }, Vec::new());
        for turn in 1..=3 + random.below(7) {
            let condition = random.chance(40).then(|| random.below(turn));
            let request = match random.below(4) {
                0 => Request::Get,
                1 => Request::Put([random.below(2), random.below(2)], condition),
                2 => {
                    Request::Patch(random.below(2) as usize, random.below(2), condition.filter(|&at| at > 0))
                }
                _ => Request::Delete(condition.filter(|&at| at > 0)),
            };
            let found = object.fields.map(|fields| Outcome::Found(fields, object.revision.at_least()));
            let mut outcomes =
                vec![found.unwrap_or(Outcome::Missing), Outcome::Missing, Outcome::Stale, Outcome::Unchanged];
            outcomes.extend([Outcome::Created(turn), Outcome::Updated(turn), Outcome::Deleted(turn)]);
            let operation = |outcome| Operation { client: 0, request, outcome, sent: 0, hung_up: 0 };
            let true_one = outcomes
                .iter()
                .find_map(|&outcome| Some((outcome, *Object::after(&object, &operation(outcome)).first()?)));
            let (outcome, after) = true_one.expect("something happens");
            object = after;
            let outcome = match random.below(20) {
                0 => *random.pick(&outcomes),
                1..4 if request != Request::Get => Outcome::Unknown,
                _ => outcome,
            };
            let (invoked, returned) =
                (20 * turn - random.below(30).min(20 * turn), 20 * turn + 1 + random.below(30));
            let returned = (outcome != Outcome::Unknown || random.chance(50)).then_some(returned);
            history.push(Timed { invoked, returned, operation: operation(outcome) });
        }
        history
    }

    #[test]
    fn ranks_only_make_the_search_shorter() {
        let (mut random, mut found) = (Random::new(1), [0, 0]);
        for _ in 0..5000 {
            let history = random_history(&mut random);
            let is_possible = check::<Unranked>(&history).is_ok();
            found[usize::from(is_possible)] += 1;
            assert_eq!(check::<Object>(&history).is_ok(), is_possible, "{history:#?}");
        }
        assert!(found.iter().all(|&count| count > 500), "{found:?}");
    }
}
