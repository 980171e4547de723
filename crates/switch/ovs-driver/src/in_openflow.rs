//! The kinds of things that OpenFlow gives a switch: flows, groups and meters. No I/O here.
//!
//! A kind is a file that implements [`InOpenFlow`], and a line in the list below. From the list follow what is read, the changes of a
//! batch, and their messages in an order that a switch accepts. They are not the kinds of the rules: groups consist of buckets, and
//! owners of zones are noted in flows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use bytes::BytesMut;
use openflow_rs::Body;
use switch_model::{Changes, Desired, Flow};

use crate::ledger::{self, Change};
use crate::wire::{self, BadDesc, TooLong, kind};

/// The things of a kind.
pub(crate) type Things<K> = BTreeMap<<K as InOpenFlow>::Key, <K as InOpenFlow>::Value>;

/// A change of a thing.
pub(crate) type ChangeOf<K> = Change<<K as InOpenFlow>::Key, <K as InOpenFlow>::Value>;

/// A kind of thing that OpenFlow gives a switch.
pub(crate) trait InOpenFlow: Debug + Sized {
    /// What identifies a thing on a switch.
    type Key: Debug + Ord + Clone;
    /// A thing as a switch describes it.
    type Value: Debug + Eq + Clone;
    /// What is kept of the desired state besides the things.
    type Source: Debug + Default;
    /// What a message does. A batch may have hundreds of thousands.
    type Act: Debug + Clone + Copy + PartialEq + Eq;

    /// What the messages outside of the bundle are called.
    const ALONE: &'static str;
    /// The dump that describes all things.
    const DUMP: Dump;
    /// Whether a switch without such things refuses to describe them.
    const IS_OPTIONAL: bool = false;
    /// Whether the switch reports what others do to them, and says what they were when they are gone.
    const IS_REPORTED: bool = false;
    /// Whether a change takes several messages, so that it may be partly in force.
    const IS_STEPWISE: bool = false;
    /// Whether flows use them: a switch refuses a flow without what it uses, and deletes it with that.
    const IS_USED: bool = false;
    /// Errors that a switch reports, also about what uses these things, only if it has others than it should.
    const CONTRADICTIONS: &'static [&'static str] = &[];

    /// All desired things.
    fn set<'d>(source: &mut Self::Source, desired: &'d Desired) -> Cow<'d, Things<Self>>;

    /// Passes each thing that the changes of a transaction touch to `push`, with its value afterwards.
    fn push(source: &mut Self::Source, changes: &Changes, push: impl FnMut(Self::Key, Option<Self::Value>));

    /// How much of a switch's memory and the driver's they take, in things of the size of a flow.
    fn weight(_: &Self::Source, desired: &Things<Self>) -> usize {
        desired.len()
    }

    /// Whether a flow uses a thing that satisfies `which`.
    fn is_used(_: &Flow, _which: impl Fn(&Self::Key) -> bool) -> bool {
        false
    }

    /// Why no switch takes a change, though its messages may fit.
    fn fault(_: &ChangeOf<Self>) -> Option<String> {
        None
    }

    /// Whether a switch says this about a change of theirs because it has no such things, whatever it should have.
    fn is_incapable(_reason: &str) -> bool {
        false
    }

    /// What is to be done for a change of a batch at this time.
    fn acts(batch: &Batch, change: &ChangeOf<Self>, when: When) -> impl Iterator<Item = Self::Act>;

    /// Appends a message.
    fn put(out: &mut BytesMut, xid: u32, change: &ChangeOf<Self>, act: Self::Act) -> Result<(), TooLong>;

    /// The request for all things.
    fn request() -> Body;

    /// Reads one part of the reply, header included, and passes each thing to `take`. Returns whether more parts follow; `None` if the
    /// message replies to another request.
    fn read(message: &[u8], take: impl FnMut(Self::Key, Self::Value)) -> Result<Option<bool>, BadDesc>;

    /// Writes a thing on one line, or with `None` its deletion.
    fn show(f: &mut fmt::Formatter<'_>, key: &Self::Key, value: Option<&Self::Value>) -> fmt::Result;
}

/// When a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the bundle, which may use what it makes.
    Before,
    /// In the bundle.
    Early,
    /// In the bundle, after all that are early.
    Late,
    /// After the bundle, which may end the use of what it removes.
    After,
    /// Once packets follow the bundle, to undo what they did until then.
    Followed,
    /// After that, to note that it is done.
    Final,
}

/// What is read in one dump, and how much of it at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dump {
    /// The request, for errors.
    pub(crate) request: &'static str,
    /// What is described.
    pub(crate) what: &'static str,
    pub(crate) max: usize,
}

/// The list of kinds, in the order of their changes in a batch. Passes it to a macro.
macro_rules! kinds_in_openflow {
    ($macro:ident) => {
        $macro! {
            groups: Groups;
            flows: Flows;
            meters: Meters;
        }
    };
}
pub(crate) use kinds_in_openflow;

/// Derives everything from the list of kinds.
macro_rules! kinds {
    ($($field:ident: $kind:ident;)*) => {
        $(pub(crate) mod $field;)*

        $(pub(crate) use $field::$kind;)*

        /// The changes sent in one batch. Their places count through the kinds.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Batch {
            $(pub(crate) $field: ledger::Changes<<$kind as InOpenFlow>::Key, <$kind as InOpenFlow>::Value>,)*
            /// Whether the switch was read just before and had flows, of which nobody knows whose connections they tracked.
            pub(crate) had_flows: bool,
        }

        /// One change of a batch.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Place<'a> {
            $($kind(&'a ChangeOf<$kind>),)*
        }

        /// What a message does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Act {
            $($kind(<$kind as InOpenFlow>::Act),)*
        }

        /// The things of a switch, as read from it.
        #[derive(Debug, Default)]
        pub(crate) struct Contents {
            $(pub(crate) $field: Things<$kind>,)*
        }

        impl Batch {
            pub(crate) fn len(&self) -> usize {
                0 $(+ self.$field.len())*
            }

            /// The change at a place.
            pub(crate) fn at(&self, mut place: usize) -> Option<Place<'_>> {
                $(match self.$field.get(place) {
                    Some(change) => return Some(Place::$kind(change)),
                    None => place -= self.$field.len(),
                })*
                let _ = place;
                None
            }

            /// Appends the message of a step.
            pub(crate) fn put(&self, out: &mut BytesMut, xid: u32, step: Step) -> Result<(), TooLong> {
                match (self.at(step.place), step.act) {
                    $((Some(Place::$kind(change)), Act::$kind(act)) => $kind::put(out, xid, change, act),)*
                    _ => Ok(()),
                }
            }

            /// Passes the messages of each kind at this time to `take`, except those of some changes, with what they are called.
            fn each(
                &self,
                when: When,
                without: &dyn Fn(usize) -> bool,
                mut take: impl FnMut(&'static str, &mut dyn Iterator<Item = Step>),
            ) {
                let mut first = 0;
                $(
                    let left = (first..).zip(self.$field.iter()).filter(|(place, _)| !without(*place));
                    let mut steps = left.flat_map(|(place, change)| {
                        let acts = $kind::acts(self, change, when);
                        acts.map(move |act| Step { place, act: Act::$kind(act) })
                    });
                    take($kind::ALONE, &mut steps);
                    first += self.$field.len();
                )*
                let _ = first;
            }
        }

        impl Place<'_> {
            /// The last transaction that made the change.
            pub(crate) fn txn(self) -> Option<u64> {
                match self {
                    $(Place::$kind(change) => change.txn,)*
                }
            }

            /// Whether the change may be partly in force.
            pub(crate) fn is_stepwise(self) -> bool {
                match self {
                    $(Place::$kind(_) => $kind::IS_STEPWISE,)*
                }
            }

            /// Why no switch takes the change.
            pub(crate) fn fault(self) -> Option<String> {
                match self {
                    $(Place::$kind(change) => $kind::fault(change),)*
                }
            }

            /// Whether a switch gives this reason only if it has others than it should.
            pub(crate) fn is_contradiction(self, reason: &str) -> bool {
                let is_incapable = match self {
                    $(Place::$kind(_) => $kind::is_incapable(reason),)*
                };
                !is_incapable && ($($kind::CONTRADICTIONS.contains(&reason))||*)
            }
        }

        impl fmt::Display for Place<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Place::$kind(change) => $kind::show(f, &change.key, change.value.as_ref()),)*
                }
            }
        }
    };
}

kinds_in_openflow!(kinds);

/// One message for the change at a place of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) place: usize,
    pub(crate) act: Act,
}

impl Batch {
    /// The messages that a bundle takes, except those of some changes.
    pub(crate) fn bundled(&self, without: &dyn Fn(usize) -> bool) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.len());
        for when in [When::Early, When::Late] {
            self.each(when, without, |_, more| steps.extend(more));
        }
        steps
    }

    /// The messages that go once packets follow the bundle, and those that go last, except those of some changes.
    pub(crate) fn settling(&self, without: &dyn Fn(usize) -> bool) -> [Vec<Step>; 2] {
        [When::Followed, When::Final].map(|when| {
            let mut steps = Vec::new();
            self.each(when, without, |_, more| steps.extend(more));
            steps
        })
    }

    /// The messages that go before the bundle or after it, with what they are called, in order: what flows use comes before flows.
    pub(crate) fn alone(&self, when: When) -> impl Iterator<Item = (&'static str, Vec<Step>)> + use<> {
        let mut each = Vec::new();
        self.each(when, &|_| false, |what, steps| each.push((what, steps.collect::<Vec<_>>())));
        each.into_iter().rev().filter(|(_, steps)| !steps.is_empty())
    }

    /// Appends the message of a step inside a bundle.
    pub(crate) fn put_bundled(
        &self,
        out: &mut BytesMut,
        bundle_id: u32,
        xid: u32,
        step: Step,
    ) -> Result<(), TooLong> {
        // Both messages have the same id, as the specification requires.
        wire::put_message(out, kind::BUNDLE_ADD, xid, |out| {
            out.extend_from_slice(&bundle_id.to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&wire::bundle::FLAGS.to_be_bytes());
            self.put(out, xid, step)
        })
    }

    /// The messages of the whole batch, each with the place of its change.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<(usize, Vec<u8>)> {
        let alone = |when| self.alone(when).flat_map(|(_, steps)| steps);
        let steps = alone(When::Before).chain(self.bundled(&|_| false)).chain(alone(When::After));
        let message = |step: Step| {
            let mut bytes = BytesMut::new();
            self.put(&mut bytes, 1, step).expect("short");
            (step.place, bytes.to_vec())
        };
        steps.map(message).collect()
    }
}
