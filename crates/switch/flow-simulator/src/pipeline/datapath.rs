//! What the datapath does to a packet in one pass besides sending it: it tracks connections, and looks tracked copies up
//! again.
//!
//! The switch translates a whole pass before the datapath does any of it. So a pass that stops at a limit tracks nothing,
//! and a flow never sees the state that an earlier action of its own pass has set: only the copy does that continues in the table
//! of `ct`.

use std::collections::VecDeque;

use openflow_rs::action::{Ct, CtZone};
use openflow_rs::{Action, Field};

use super::{Emitted, Run, prerequisite};
use crate::conntrack::fragments::{self, Piece};
use crate::conntrack::{How, Mark, Mishap, Sighting, Tracker, Translation, sighting};
use crate::extract::VlanLimit;
use crate::key::{LATER_FRAGMENT, Tracked};
use crate::limits;
use crate::rewrite::Frame;
use crate::trace::{ABORTS, Recorder, What};
use crate::{Bridge, FlowKey};

/// The passes of a packet after its first one that the datapath allows (`MAX_RECIRC_DEPTH` of `dpif-netdev.c`).
const MAX_PASSES: u32 = 6;

/// A step of the datapath.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Track(Box<Track>),
    /// Forgets what it knows of the packet.
    Clear,
    /// Writes addresses or ports: the next `ct` looks for the connection again.
    Readdress,
    /// A copy begins: what it learns of the packet is forgotten by [`Step::Restore`].
    Save,
    Restore,
}

/// Tracks the packet, and continues with a copy.
#[derive(Clone, Debug)]
pub(super) struct Track {
    how: How,
    table: Option<u8>,
    /// The packet, as a switch reads it that gets it now. An earlier `ct` may translate it before.
    frame: Frame,
    key: FlowKey,
    stack: Vec<(u128, usize)>,
}

/// What is left to do of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// Each after this many packets of the pass were sent.
    steps: VecDeque<(usize, Step)>,
    unsent: VecDeque<Emitted>,
    /// The number of packets sent.
    done: usize,
    mark: Mark,
    /// The packet, if `nat` has translated it. Then it differs from the frames here, which the switch expected when it
    /// translated the pass; what the pass writes comes on top.
    translated: Option<Frame>,
    saved: Vec<(Mark, Option<Frame>)>,
    passes: u32,
}

impl Rest {
    /// Sends packets until so many are sent in all.
    fn send_until(&mut self, count: usize) -> Vec<Emitted> {
        let mut sent: Vec<Emitted> = self.unsent.drain(..count - self.done).collect();
        self.done = count;
        if let Some(frame) = &mut self.translated {
            for one in &mut sent {
                one.write_over(frame);
            }
        }
        sent
    }

    /// Brings the packet to be tracked up to what `nat` has made of it.
    fn arrive(&mut self, track: &mut Track, limit: VlanLimit) {
        if let Some(frame) = &mut self.translated {
            frame.commit(&track.key);
            track.frame = frame.clone().read_again(limit);
        }
    }

    /// Goes on with what `nat` has made of the packet.
    fn go_on_with(&mut self, track: &mut Track, translated: Frame, limit: VlanLimit) {
        track.frame = translated.clone().read_again(limit);
        self.translated = Some(translated.with_key(track.key.clone()));
    }

    /// Leaves what is left of the clone, if the packet is one, and returns what follows it.
    fn split_at_end_of_clone(&mut self) -> Option<Rest> {
        let mut depth = 0_usize;
        let end = self.steps.iter().position(|(_, step)| {
            let ends = depth == 0 && matches!(step, Step::Restore);
            match step {
                Step::Save => depth += 1,
                Step::Restore => depth = depth.saturating_sub(1),
                _ => {}
            }
            ends
        })?;
        let steps = self.steps.split_off(end + 1);
        let (done, _) = self.steps.pop_back()?;
        let unsent = self.unsent.split_off(done - self.done);
        let (mark, translated) = self.saved.pop().unwrap_or_default();
        let saved = std::mem::take(&mut self.saved);
        Some(Rest { steps, unsent, done, mark, translated, saved, passes: self.passes })
    }

    /// The fragment that waits.
    fn waiting(&self) -> Option<&Frame> {
        match self.steps.front() {
            Some((_, Step::Track(track))) => Some(&track.frame),
            _ => None,
        }
    }
}

impl Emitted {
    /// Writes its fields over a packet that `nat` has translated: this is what leaves.
    fn write_over(&mut self, frame: &mut Frame) {
        frame.commit(&self.key);
        self.bytes = frame.bytes().to_vec();
        let read = frame.clone().read_again(VlanLimit::new(0));
        let FlowKey { nw_src, nw_dst, ipv6_src, ipv6_dst, tp_src, tp_dst, .. } = *read.key();
        self.key = FlowKey { nw_src, nw_dst, ipv6_src, ipv6_dst, tp_src, tp_dst, ..self.key.clone() };
    }
}

impl Run<'_> {
    pub(super) fn note_step(&mut self, step: Step) {
        if !self.other_length && !self.metered_out {
            self.pending.push((self.emitted.len(), step));
        }
    }

    /// Writes the fields to the packet.
    pub(super) fn commit(&mut self) {
        let (old, new) = (self.frame.key(), &self.key);
        self.action_bytes += limits::rewrite(old, new);
        let may_be_known = self.goes_on || !self.pending.is_empty();
        if may_be_known && addresses(old) != addresses(new) {
            self.note_step(Step::Readdress);
        }
        self.frame.commit(&self.key);
    }

    /// Notes that the datapath tracks the packet. The rest of the list goes on with an untracked packet.
    pub(super) fn track(&mut self, ct: &Ct) {
        self.commit();
        let nat = ct.actions.0.iter().find_map(|action| match action {
            Action::Nat(nat) => Some(*nat),
            _ => None,
        });
        self.action_bytes += limits::TRACK + nat.map_or(0, limits::nat);
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
        let how = How { zone, commit: ct.commit, force: ct.force, mark, label, nat };
        self.recorder.note(|| match ct.table {
            Some(table) => format!("zone {zone}; a tracked copy goes on in table {table}, below"),
            None => format!("zone {zone}"),
        });
        let frame = self.frame.clone().read_again(self.bridge.vlan_limit);
        let (key, stack) = (self.key.clone(), self.stack.clone());
        self.note_step(Step::Track(Box::new(Track { how, table: ct.table, frame, key, stack })));
        self.untrack();
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
        self.end_pass(mark, passes);
    }

    /// Does what the datapath does after the switch has translated a pass.
    pub(super) fn end_pass(&mut self, mark: Mark, passes: u32) {
        if self.stopped.is_some() {
            self.emitted.clear();
            self.handed.clear();
            self.pending.clear();
        }
        if self.pending.is_empty() {
            return;
        }
        let unsent = std::mem::take(&mut self.emitted).into();
        let steps = std::mem::take(&mut self.pending).into();
        self.emitted =
            self.carry_on(Rest { steps, unsent, done: 0, mark, translated: None, saved: Vec::new(), passes });
    }

    /// Does what is left of a pass. Returns what it sends.
    fn carry_on(&mut self, mut rest: Rest) -> Vec<Emitted> {
        let mut sent = Vec::new();
        while let Some((before, step)) = rest.steps.pop_front() {
            sent.extend(rest.send_until(before));
            match step {
                Step::Clear => rest.mark = Mark::default(),
                Step::Readdress => rest.mark.forget_connection(),
                Step::Save => rest.saved.push((rest.mark.clone(), rest.translated.clone())),
                Step::Restore => (rest.mark, rest.translated) = rest.saved.pop().unwrap_or_default(),
                Step::Track(mut track) => {
                    rest.arrive(&mut track, self.bridge.vlan_limit);
                    if let Some((packet, piece)) = fragments::piece(&track.frame, track.how.zone)
                        && !self.held(packet).iter().any(|(other, _)| other.overlaps(piece))
                    {
                        let after = rest.split_at_end_of_clone();
                        sent.extend(self.collect(packet, piece, *track, rest));
                        let Some(after) = after else { return sent };
                        rest = after;
                        continue;
                    }
                    let sighting = sighting(&track.frame, track.how.zone);
                    let translation = self.look_for(sighting, &mut rest.mark, track.how);
                    if let Some(translation) = translation {
                        let frame = track.frame.clone().translated(translation);
                        rest.go_on_with(&mut track, frame, self.bridge.vlan_limit);
                    }
                    sent.extend(self.continue_copy(*track, &rest.mark, rest.passes));
                }
            }
        }
        let count = rest.done + rest.unsent.len();
        sent.extend(rest.send_until(count));
        sent
    }

    /// Tracks a packet. Returns how to translate it.
    fn look_for(&mut self, sighting: Option<Sighting<'_>>, mark: &mut Mark, how: How) -> Option<Translation> {
        let (before, now) = (&self.bridge.connections, self.bridge.now());
        let changes = &mut self.effects.connections;
        let mut tracker = Tracker { before, changes, now, mishap: None };
        let translation = tracker.track(sighting, mark, how);
        match tracker.mishap {
            Some(Mishap::Aborts) => self.recorder.problem(|| ABORTS.to_owned()),
            Some(Mishap::Exhausted(nat)) => self.recorder.note(|| {
                let nat = Action::from(nat);
                format!("not translated: other connections have all addresses and ports of {nat}")
            }),
            None => {}
        }
        if let Some(translation) = translation {
            let before = sighting.map(|sighting| sighting.to_string()).unwrap_or_default();
            self.recorder.note(|| format!("translated: {before} is now {translation}"));
        }
        translation
    }

    /// The fragments of a packet that are held.
    fn held(&self, packet: fragments::Packet) -> &[(Piece, Rest)] {
        let held = self.effects.held.get(&packet).or_else(|| self.bridge.held.get(&packet));
        held.map_or(&[], Vec::as_slice)
    }

    /// Holds a fragment; with the last one, all of its packet go on. Returns what they send.
    fn collect(
        &mut self,
        packet: fragments::Packet,
        piece: Piece,
        track: Track,
        mut rest: Rest,
    ) -> Vec<Emitted> {
        let how = track.how;
        rest.steps.push_front((rest.done, Step::Track(Box::new(track))));
        let mut all = self.held(packet).to_vec();
        all.push((piece, rest));
        all.sort_by_key(|(piece, _)| piece.start());
        if !fragments::are_all(all.iter().map(|(piece, _)| *piece)) {
            self.recorder.begin(|| What::Note("held until all fragments of the packet are there".to_owned()));
            self.recorder.end();
            self.effects.held.insert(packet, all);
            return Vec::new();
        }
        self.effects.held.insert(packet, Vec::new());
        let mut frames: Vec<Frame> = all.iter().filter_map(|(_, rest)| rest.waiting()).cloned().collect();
        let bytes: Vec<u8> = frames.iter().flat_map(fragments::carried).copied().collect();
        let sighting = frames.first().and_then(|first| fragments::whole(first, how.zone, &bytes));
        let mut mark = all.first().map(|(_, rest)| rest.mark.clone()).unwrap_or_default();
        mark.forget_connection();
        let translation = self.look_for(sighting, &mut mark, how);
        mark.forget_connection();
        if let Some(translation) = translation {
            Frame::translate_fragments(&mut frames, translation);
        }
        let mut sent = Vec::new();
        for ((_, mut rest), frame) in all.into_iter().zip(frames) {
            rest.mark = mark.clone();
            if let Some((_, Step::Track(mut track))) = rest.steps.pop_front() {
                if translation.is_some() {
                    rest.go_on_with(&mut track, frame, self.bridge.vlan_limit);
                }
                sent.extend(self.continue_copy(*track, &rest.mark, rest.passes));
            }
            sent.extend(self.carry_on(rest));
        }
        sent
    }

    /// Sends a copy of a tracked packet on, if it goes on. Returns what the copy sends.
    fn continue_copy(&mut self, track: Track, mark: &Mark, passes: u32) -> Vec<Emitted> {
        let Track { how, table, frame, key, stack } = track;
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
        let mut copy =
            Run { stack, is_tracked: true, goes_on: true, effects, recorder, ..Run::of(bridge, frame, key) };
        copy.pass(table, mark, passes);
        let Run { emitted, handed, effects, recorder, stopped, cut, .. } = copy;
        (self.effects, self.recorder) = (effects, recorder);
        self.handed.extend(handed);
        self.stopped = self.stopped.or(stopped);
        self.cut |= cut;
        emitted
    }
}

/// What names a packet's connection.
fn addresses(key: &FlowKey) -> (u32, u32, u128, u128, u16, u16) {
    (key.nw_src, key.nw_dst, key.ipv6_src, key.ipv6_dst, key.tp_src, key.tp_dst)
}
