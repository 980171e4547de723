//! A history in the model alone, to see what a generator makes of ACLs.

use std::time::Duration;

use network_spec::{Judged, Model, World};

use crate::generate::{History, Place, Step};
use crate::oracle;
use crate::world::{Change, NumberedWorld};

/// How many frames ACLs treated in some way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that some port of the network got.
    pub out: u64,
    /// Frames that ACLs dropped at some port.
    pub dropped: u64,
    /// Frames that began a connection.
    pub begun: u64,
    /// Replies of connections, which passed.
    pub replies: u64,
    /// Replies of connections that an edit has forbidden.
    pub cut: u64,
    /// Errors about connections, which passed.
    pub errors: u64,
    /// Errors about nothing that was known.
    pub strays: u64,
    /// Fragments that waited for others.
    pub waiting: u64,
    /// Changes of ACLs, groups, labels and defaults.
    pub edits: u64,
}

impl std::ops::AddAssign for Filtered {
    fn add_assign(&mut self, other: Filtered) {
        self.sent += other.sent;
        self.out += other.out;
        self.dropped += other.dropped;
        self.begun += other.begun;
        self.replies += other.replies;
        self.cut += other.cut;
        self.errors += other.errors;
        self.strays += other.strays;
        self.waiting += other.waiting;
        self.edits += other.edits;
    }
}

impl Filtered {
    /// What ACLs have done with the last frame of a model.
    pub fn of(model: &Model) -> Filtered {
        let Judged { dropped, begun, replies, cut, errors, strays, waiting, .. } = model.judged();
        let [dropped, begun, replies, cut, errors, strays, waiting] =
            [dropped, begun, replies, cut, errors, strays, waiting].map(|times| u64::from(times > 0));
        Filtered { sent: 1, out: 0, dropped, begun, replies, cut, errors, strays, waiting, edits: 0 }
    }
}

/// Runs a history in the model, which takes the first of several possibilities.
pub fn rehearse(history: &History) -> Filtered {
    let (mut world, mut model, mut count) =
        (NumberedWorld::new(history.scattered), Model::default(), Filtered::default());
    for step in &history.steps {
        match step {
            Step::Change(changes) | Step::OneByOne { changes, .. } => {
                let made = changes.iter().filter(|change| world.apply(change) && is_edit(change)).count();
                count.edits += made as u64;
                let now = oracle::world(&world);
                model.apply(|world| world.clone_from(&now));
            }
            Step::Wait(seconds) => model.advance(Duration::from_secs(*seconds)),
            Step::Send(place, bytes) if exists(&world, place) => {
                let out = model.inject(&oracle::tap(place), bytes);
                count += Filtered { out: u64::from(!out.is_empty()), ..Filtered::of(&model) };
            }
            Step::Send(..) | Step::SendGiven(_) | Step::Forge(..) => {}
        }
    }
    count
}

fn exists(world: &World, place: &Place) -> bool {
    match place {
        Place::Vnic(host, port) => world.vnics.contains_key(&(host.clone(), port.clone())),
        Place::Tap(_) => true,
    }
}

/// Whether a change is one of ACLs or of what they refer to.
fn is_edit(change: &Change) -> bool {
    matches!(
        change,
        Change::Acl(..)
            | Change::NoAcl(_)
            | Change::AddressGroup(..)
            | Change::NoAddressGroup(_)
            | Change::PortGroup(..)
            | Change::NoPortGroup(_)
            | Change::AclDefault(..)
            | Change::Label(..)
    )
}
