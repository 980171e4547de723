//! What the datapath does to a packet in one pass besides sending it: it tracks connections, and looks tracked copies up
//! again.
//!
//! The switch translates a whole pass before the datapath does any of it. So a pass that stops at a limit tracks nothing,
//! and a flow never sees the state that an earlier action of its own pass has set: only the copy does that continues in the table
//! of `ct`.

use openflow_rs::action::{Ct, CtZone};
use openflow_rs::{Action, Field};

use super::{Emitted, Flow, Run, prerequisite};
use crate::conntrack::{How, Mark, Tracker};
use crate::key::{LATER_FRAGMENT, Tracked};
use crate::limits;
use crate::rewrite::Frame;
use crate::trace::{Recorder, What};
use crate::{Bridge, FlowKey};

/// The passes of a packet after its first one that the datapath allows (`MAX_RECIRC_DEPTH` of `dpif-netdev.c`).
const MAX_PASSES: u32 = 6;

/// A step of the datapath.
pub(super) enum Step {
    Track(Box<Track>),
    /// Forgets what it knows of the packet.
    Clear,
    /// A copy begins: what it learns of the packet is forgotten by [`Step::Restore`].
    Save,
    Restore,
}

/// Tracks the packet, and continues with a copy.
pub(super) struct Track {
    how: How,
    table: Option<u8>,
    frame: Frame,
    key: FlowKey,
    stack: Vec<(u128, usize)>,
}

impl Run<'_> {
    pub(super) fn note_step(&mut self, step: Step) {
        if !self.other_length && !self.metered_out {
            self.pending.push((self.emitted.len(), step));
        }
    }

    /// Notes that the datapath tracks the packet. The rest of the list goes on with an untracked packet.
    pub(super) fn track(&mut self, ct: &Ct) -> Flow {
        self.action_bytes += limits::rewrite(self.frame.key(), &self.key) + limits::TRACK;
        self.frame.commit(&self.key);
        let (mut mark_mask, mut label_mask) = (0, 0);
        for action in &ct.actions.0 {
            let (Action::SetField(_) | Action::MoveBits(_)) = action else { continue };
            for (field, mask) in self.touched(action) {
                match field {
                    Field::CtMark => mark_mask |= mask,
                    Field::CtLabel => label_mask |= mask,
                    _ => {}
                }
            }
            self.action(action);
        }
        let zone = match ct.zone {
            CtZone::Number(zone) => zone,
            CtZone::Field(field) => self.read(field) as u16,
        };
        let (mark, label) = ((self.key.ct.mark, mark_mask as u32), (self.key.ct.label, label_mask));
        let how = How { zone, commit: ct.commit, force: ct.force, mark, label };
        self.recorder.note(|| match ct.table {
            Some(table) => format!("zone {zone}; a tracked copy goes on in table {table}, below"),
            None => format!("zone {zone}"),
        });
        let (frame, key, stack) = (self.frame.clone(), self.key.clone(), self.stack.clone());
        self.note_step(Step::Track(Box::new(Track { how, table: ct.table, frame, key, stack })));
        self.untrack();
        Flow::Continue
    }

    /// The bits of fields that an action reads or writes, if the packet has the fields. The switch writes back to the
    /// connection what it has read too.
    fn touched(&self, action: &Action) -> Vec<(Field, u128)> {
        match action {
            Action::SetField(set) => vec![(set.field(), set.mask())],
            Action::MoveBits(moved) => {
                let ends = [moved.source(), moved.destination()];
                let has = ends.iter().all(|end| self.key.meets(prerequisite(end.field())));
                ends.iter().filter(|_| has).map(|end| (end.field(), end.mask())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn untrack(&mut self) {
        self.key.ct = Tracked::default();
        self.is_tracked = false;
    }

    /// Only what is tracked in the translation is cleared in the datapath.
    pub(super) fn clear_tracking(&mut self) {
        if self.is_tracked {
            self.untrack();
            self.note_step(Step::Clear);
        }
    }

    /// Looks the packet up in a table, and then does what the datapath does.
    pub(super) fn pass(&mut self, table: u8, mark: Mark, passes: u32) {
        let in_port = self.key.in_port;
        self.carry_out_entry(table, in_port, 0);
        if self.stopped.is_some() {
            self.emitted.clear();
            self.pending.clear();
        }
        if self.pending.is_empty() {
            return;
        }
        let mut unsent = std::mem::take(&mut self.emitted).into_iter();
        let (mut sent, mut done) = (Vec::new(), 0);
        let (mut mark, mut saved) = (mark, Vec::new());
        for (before, step) in std::mem::take(&mut self.pending) {
            sent.extend(unsent.by_ref().take(before - done));
            done = before;
            match step {
                Step::Clear => mark = Mark::default(),
                Step::Save => saved.push(mark.clone()),
                Step::Restore => mark = saved.pop().unwrap_or_default(),
                Step::Track(track) => sent.extend(self.carry_out_track(*track, &mut mark, passes)),
            }
        }
        sent.extend(unsent);
        self.emitted = sent;
    }

    /// Tracks the packet. Returns what a copy that goes on in a table sends.
    fn carry_out_track(&mut self, track: Track, mark: &mut Mark, passes: u32) -> Vec<Emitted> {
        let Track { how, table, frame, key, stack } = track;
        let frame = frame.read_again(self.bridge.vlan_limit);
        let (before, now) = (&self.bridge.connections, self.bridge.now());
        Tracker { before, changes: &mut self.effects.connections, now }.track(&frame, mark, how);
        let Some(table) = table else { return Vec::new() };
        self.recorder.begin(|| {
            let state = mark.seen.state_text();
            What::Note(format!("tracked in zone {}: {state}, ct_mark={:#x}", how.zone, mark.seen.mark))
        });
        let sent = if passes < MAX_PASSES {
            let FlowKey { registers, metadata, in_port, pkt_mark, tunnel, .. } = key;
            let mut ct = mark.seen.clone();
            if frame.key().nw_frag & LATER_FRAGMENT != 0 {
                (ct.tp_src, ct.tp_dst) = (0, 0);
            }
            let key = FlowKey { registers, metadata, in_port, pkt_mark, tunnel, ct, ..frame.key().clone() };
            self.go_on(table, frame, key, stack, mark.clone(), passes + 1)
        } else {
            self.recorder.problem(|| format!("dropped: it was tracked {MAX_PASSES} times before"));
            Vec::new()
        };
        self.recorder.end();
        sent
    }

    /// Looks a tracked copy up in a table. It meets the flows that the packet has taught so far.
    fn go_on(
        &mut self,
        table: u8,
        frame: Frame,
        key: FlowKey,
        stack: Vec<(u128, usize)>,
        mark: Mark,
        passes: u32,
    ) -> Vec<Emitted> {
        let taught: Bridge;
        let bridge = if self.effects.learned.is_empty() {
            self.bridge
        } else {
            let mut copy = self.bridge.clone();
            copy.teach(self.effects.learned.clone());
            taught = copy;
            &taught
        };
        let recorder = std::mem::replace(&mut self.recorder, Recorder::new(false));
        let effects = std::mem::take(&mut self.effects);
        let mut copy = Run { stack, is_tracked: true, effects, recorder, ..Run::of(bridge, frame, key) };
        copy.pass(table, mark, passes);
        let Run { emitted, effects, recorder, stopped, cut, .. } = copy;
        (self.effects, self.recorder) = (effects, recorder);
        self.stopped = self.stopped.or(stopped);
        self.cut |= cut;
        emitted
    }
}
