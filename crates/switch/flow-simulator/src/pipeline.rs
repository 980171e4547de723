//! Processes a packet through a bridge's tables, as Open vSwitch's translation does (`ofproto-dpif-xlate.c`).

use openflow_rs::action::{CheckPktLarger, Controller, Learn, MoveBits, Resubmit, SetField};
use openflow_rs::{Action, Actions, Bucket, Field, GroupKind, PortNo, Prerequisite, Subfield};

use crate::choice::Choice;
use crate::conntrack::Mark;
use crate::error::{MAX_DEPTH, MAX_RESUBMITS, MAX_STACK};
use crate::group::in_order;
use crate::key::{ETH_IPV4, ETH_IPV6, FRAGMENT};
use crate::learned::{Effects, Lesson, learned_flow};
use crate::limits;
use crate::port::Port;
use crate::rewrite::Frame;
use crate::trace::{HandedOver, RETURNED, Recorder, Step, What};
use crate::{Bridge, FlowKey, Packet, Stopped};

mod datapath;

pub(crate) use datapath::Rest;
use datapath::Step as DatapathStep;

/// A packet that leaves the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The egress port; [`PortNo::CONTROLLER`] for a packet-in.
    pub port: PortNo,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The fields when it left, including those of its tunnel.
    pub key: FlowKey,
}

/// The result of processing a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The packets that left the bridge, in order.
    pub emitted: Vec<Emitted>,
    /// The fields at the end.
    pub key: FlowKey,
    /// The reason why no packet left, if a limit was reached.
    pub stopped: Option<Stopped>,
    /// Whether copies were dropped because together they exceed 64 KB of datapath actions.
    pub cut: bool,
    /// The packets that the action `controller` handed over, in order, whoever is connected.
    pub handed: Vec<HandedOver>,
    /// The trace, if it was requested.
    pub steps: Vec<Step>,
}

impl Bridge {
    /// Processes a packet from table 0 on, without learning from it.
    pub fn process(&self, packet: &Packet) -> Outcome {
        self.look_at(packet, false).0
    }

    /// Carries out these actions on a packet that a controller sends out; the caller decides whether to keep the learned flows.
    pub(crate) fn send_out(&self, packet: &Packet, actions: &Actions, wanted: bool) -> (Outcome, Effects) {
        let mut run = Run::new(self, packet, wanted);
        run.carry_out(&actions.0);
        run.end_pass(Mark::default(), 0);
        run.finish()
    }

    /// As [`Bridge::process`], with a trace.
    pub fn trace(&self, packet: &Packet) -> Outcome {
        self.look_at(packet, true).0
    }

    /// Processes a packet and learns from it.
    pub fn receive(&mut self, packet: &Packet) -> Outcome {
        let (outcome, effects) = self.look_at(packet, false);
        self.leave_behind(effects);
        outcome
    }

    /// Processes a packet; the caller decides whether to keep the learned flows.
    pub(crate) fn look_at(&self, packet: &Packet, wanted: bool) -> (Outcome, Effects) {
        Run::new(self, packet, wanted).run()
    }
}

/// Whether a list of actions continues.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    /// The rest of this list is skipped; enclosing lists continue.
    Return,
}

struct Run<'a> {
    bridge: &'a Bridge,
    /// The packet's bytes in the datapath.
    frame: Frame,
    /// The fields that flows match and write.
    key: FlowKey,
    /// The table whose entry is executed.
    table: u8,
    depth: u32,
    resubmits: u32,
    /// Bytes of the datapath actions so far ([`limits`]).
    action_bytes: usize,
    /// Values with their sizes in bytes.
    stack: Vec<(u128, usize)>,
    /// An `exit`: every list ends.
    exit: bool,
    stopped: Option<Stopped>,
    cut: bool,
    /// Whether a meter has dropped the packet. The switch translates the rest before it executes anything.
    metered_out: bool,
    /// Whether these actions are for packets of another length. The switch translates them too.
    other_length: bool,
    /// Whether the fields of connection tracking are those of the datapath's packet.
    is_tracked: bool,
    /// Whether the datapath has tracked the packet before this pass.
    goes_on: bool,
    emitted: Vec<Emitted>,
    handed: Vec<HandedOver>,
    /// What the datapath does besides, each after this many packets were sent.
    pending: Vec<(usize, DatapathStep)>,
    effects: Effects,
    recorder: Recorder,
}

impl<'a> Run<'a> {
    fn new(bridge: &'a Bridge, packet: &Packet, wanted: bool) -> Run<'a> {
        let packet = packet.clone().with_vlan_limit(bridge.vlan_limit);
        let key = packet.key().clone();
        Run { recorder: Recorder::new(wanted), ..Run::of(bridge, packet.frame, key) }
    }

    fn of(bridge: &'a Bridge, frame: Frame, key: FlowKey) -> Run<'a> {
        Run {
            bridge,
            is_tracked: key.ct.state != 0,
            goes_on: false,
            key,
            frame,
            table: 0,
            depth: 0,
            resubmits: 0,
            action_bytes: 0,
            stack: Vec::new(),
            exit: false,
            stopped: None,
            cut: false,
            metered_out: false,
            other_length: false,
            emitted: Vec::new(),
            handed: Vec::new(),
            pending: Vec::new(),
            effects: Effects::default(),
            recorder: Recorder::new(false),
        }
    }

    fn run(mut self) -> (Outcome, Effects) {
        self.pass(0, Mark::default(), 0);
        self.finish()
    }

    fn finish(self) -> (Outcome, Effects) {
        let Run { emitted, handed, key, stopped, cut, .. } = self;
        (Outcome { emitted, key, stopped, cut, handed, steps: self.recorder.finish() }, self.effects)
    }

    /// Looks the packet up in a table as if it came from `in_port`, and executes the matching entry.
    fn carry_out_entry(&mut self, table: u8, in_port: u16, deeper: u32) {
        let bridge = self.bridge;
        let own_port = std::mem::replace(&mut self.key.in_port, in_port);
        // Tables see no ports of fragments, not even of the first one, which has them.
        let hidden = self.key.nw_frag & FRAGMENT != 0;
        let ports = (self.key.tp_src, self.key.tp_dst);
        if hidden {
            (self.key.tp_src, self.key.tp_dst) = (0, 0);
        }
        let entry = bridge.find(table, &self.key);
        self.recorder.begin(|| What::Lookup {
            table,
            entry: entry.cloned(),
            key: Box::new(self.key.clone()),
        });
        self.key.in_port = own_port;
        if hidden {
            (self.key.tp_src, self.key.tp_dst) = ports;
        }
        if let Some(entry) = entry {
            if entry.idle_timeout != 0 {
                self.effects.used.push(entry.clone());
            }
            let before = std::mem::replace(&mut self.table, table);
            self.depth += deeper;
            self.carry_out(&entry.actions.0);
            self.depth -= deeper;
            self.table = before;
        }
        self.recorder.end();
    }

    fn carry_out<'b>(&mut self, actions: impl IntoIterator<Item = &'b Action>) {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            if self.exit || self.stopped.is_some() {
                return;
            }
            self.recorder.begin(|| What::Action(action.clone()));
            if let Action::CheckPktLarger(check) = action {
                let rest: Vec<&Action> = actions.collect();
                return self.check_length(*check, &rest);
            }
            let flow = self.action(action);
            self.recorder.end();
            if flow == Flow::Return {
                return;
            }
        }
    }

    fn action(&mut self, action: &Action) -> Flow {
        match action {
            Action::Output(output) => self.output(output.port),
            Action::OutputReg(output) => {
                let port = self.read(output.source());
                match u16::try_from(port) {
                    Ok(port) => self.output(PortNo(port)),
                    Err(_) => self.recorder.problem(|| format!("no port has the number {port}")),
                }
            }
            Action::SetField(set) => self.set_field(*set),
            Action::MoveBits(moved) => self.move_bits(*moved),
            Action::Resubmit(resubmit) => self.resubmit(*resubmit),
            Action::Group(group) => return self.group(group.id),
            Action::DecTtl(_) => return self.dec_ttl(),
            Action::SetTtl(set) => self.set_ttl(set.ttl),
            Action::PushVlan(push) => self.key.push_vlan(push.eth_type),
            Action::PopVlan(_) => self.key.pop_vlan(),
            Action::Ct(ct) => self.track(ct),
            Action::CtClear(_) => self.clear_tracking(),
            Action::Exit(_) => self.exit = true,
            Action::Push(push) => {
                let (value, bits) = (self.read(push.field()), push.field().bits());
                self.stack.push((value, usize::from(bits.div_ceil(8)) + 1));
            }
            Action::Pop(pop) => match self.stack.pop() {
                Some((value, _)) => self.write(pop.field(), value),
                None => self.recorder.problem(|| "the stack is empty".to_owned()),
            },
            Action::CloneActions(clone) => self.clone_actions(&clone.actions),
            Action::WriteMetadata(write) => {
                self.key.metadata = self.key.metadata & !write.mask | write.value & write.mask;
            }
            Action::GotoTable(goto) => self.enter(goto.table, self.key.in_port),
            Action::Learn(learn) => self.learn(learn),
            Action::Meter(meter) => self.meter(meter.id),
            Action::Controller(controller) => self.hand_over(controller),
            Action::Note(_) | Action::SetQueue(_) | Action::PopQueue(_) | Action::Sample(_) => {}
            // `carry_out` has it, since the rest of the list belongs to it.
            Action::CheckPktLarger(_) => {}
            // `Bridge::check` lets none of these in.
            Action::Nat(_)
            | Action::Conjunction(_)
            | Action::WriteActions(_)
            | Action::ClearActions(_)
            | Action::Unknown(_) => self.recorder.problem(|| "not interpreted here".to_owned()),
        }
        Flow::Continue
    }

    /// Compares the packet's length. As the switch translates a packet for all of one kind, it translates the rest of the
    /// list twice, for larger and for other packets, and nothing of either lasts beyond the list: not even the result.
    fn check_length(&mut self, check: CheckPktLarger, rest: &[&Action]) {
        self.commit();
        self.action_bytes += limits::CHECK_LENGTH;
        let length = self.frame.length();
        let larger = length > usize::from(check.limit_bytes());
        let relation = if larger { "larger" } else { "not larger" };
        let value = u8::from(larger);
        self.recorder.note(|| format!("{length} bytes, {relation}: {} is now {value}", check.result()));
        if rest.is_empty() {
            self.recorder
                .problem(|| "nothing comes after it in these actions: the result is lost".to_owned());
        }
        self.recorder.end();
        let (frame, key, stack) = (self.frame.clone(), self.key.clone(), self.stack.clone());
        let (metered_out, other_length, is_tracked) = (self.metered_out, self.other_length, self.is_tracked);
        self.note_step(DatapathStep::Save);
        let mut exit = false;
        for case in [true, false] {
            let taken = case == larger;
            if !taken {
                self.other_length = true;
                self.recorder.hide();
            }
            self.exit = false;
            self.write(check.result(), case.into());
            self.carry_out(rest.iter().copied());
            if !taken {
                self.recorder.show();
                if let Some(stopped) = self.stopped {
                    self.recorder.problem(|| format!("a packet of another length: {stopped}"));
                }
            }
            // An `exit` counts outside if it is for larger packets, whatever the packet's length.
            exit = if case { self.exit } else { exit };
            (self.frame, self.key, self.stack) = (frame.clone(), key.clone(), stack.clone());
            (self.metered_out, self.other_length, self.is_tracked) = (metered_out, other_length, is_tracked);
        }
        self.note_step(DatapathStep::Restore);
        self.exit = exit;
    }

    fn meter(&mut self, id: u32) {
        if self.other_length {
            return;
        }
        let budget = self.bridge.meters.get(&id).and_then(|meter| meter.budget);
        let spent = self.effects.metered.iter().filter(|taken| **taken == (id, true)).count() as u64;
        let passes = budget.is_none_or(|budget| spent < budget);
        self.effects.metered.push((id, passes));
        if !passes {
            self.metered_out = true;
            self.recorder.note(|| "dropped: the meter is exhausted".to_owned());
        }
    }

    fn set_field(&mut self, set: SetField) {
        let needs = prerequisite(set.field());
        if !self.key.meets(needs) {
            return self.recorder.problem(|| format!("the packet has no {}: {needs} is needed", set.field()));
        }
        let old = self.key.get(set.field());
        self.key.set(set.field(), old & !set.mask() | set.value());
    }

    fn move_bits(&mut self, moved: MoveBits) {
        let (source, destination) = (moved.source(), moved.destination());
        for field in [source.field(), destination.field()] {
            let needs = prerequisite(field);
            if !self.key.meets(needs) {
                return self.recorder.problem(|| format!("the packet has no {field}: {needs} is needed"));
            }
        }
        let value = self.read(source);
        self.recorder.note(|| format!("{destination} is now {value:#x}"));
        self.write(destination, value);
    }

    fn read(&self, from: Subfield) -> u128 {
        (self.key.get(from.field()) & from.mask()) >> from.start()
    }

    fn write(&mut self, to: Subfield, value: u128) {
        let old = self.key.get(to.field());
        self.key.set(to.field(), old & !to.mask() | value << to.start() & to.mask());
    }

    fn resubmit(&mut self, resubmit: Resubmit) {
        let in_port = match resubmit.in_port {
            PortNo::IN_PORT => self.key.in_port,
            PortNo(port) => port,
        };
        let table = if resubmit.table == THIS_TABLE { self.table } else { resubmit.table };
        self.enter(table, in_port);
    }

    fn enter(&mut self, table: u8, in_port: u16) {
        if self.within_limits() {
            self.resubmits += 1;
            self.carry_out_entry(table, in_port, u32::from(table <= self.table));
        }
    }

    /// Whether a table or a group may be entered; if not, processing stops without output. The exception is the size
    /// limit: output so far is kept, and the rest is skipped.
    fn within_limits(&mut self) -> bool {
        let stack_bytes = || self.stack.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let stopped = if self.depth >= MAX_DEPTH {
            Stopped::Depth
        } else if self.resubmits >= MAX_RESUBMITS {
            Stopped::Resubmits
        } else if self.action_bytes > limits::MAX_ACTIONS {
            self.exit = true;
            self.cut_short();
            return false;
        } else if stack_bytes() >= MAX_STACK {
            Stopped::Stack
        } else {
            return true;
        };
        self.stopped = Some(stopped);
        self.recorder.problem(|| stopped.to_string());
        false
    }

    /// Every bucket, or the chosen one, gets a copy of the packet; registers that it writes affect neither other buckets
    /// nor later actions.
    fn group(&mut self, id: u32) -> Flow {
        if !self.within_limits() {
            return Flow::Continue;
        }
        let bridge = self.bridge;
        let Some(group) = bridge.group(id) else {
            self.recorder.problem(|| format!("there is no group {id}"));
            return Flow::Return;
        };
        let buckets: Vec<&Bucket> = match (group.kind, &group.selection) {
            (GroupKind::All | GroupKind::Indirect, _) => group.buckets.iter().collect(),
            (GroupKind::Select, Some(selection)) => {
                self.chosen(bridge.choose_by_hash(group, selection, &self.key))
            }
            (GroupKind::Select | GroupKind::FastFailover, _) => self.chosen(bridge.choose_first(group)),
        };
        for bucket in buckets {
            if self.stopped.is_some() {
                break;
            }
            self.recorder.begin(|| What::Bucket(bucket.id));
            let before = (self.key.clone(), self.is_tracked);
            self.depth += 1;
            self.carry_out(in_order(&bucket.actions));
            self.depth -= 1;
            (self.key, self.is_tracked) = before;
            self.exit = false;
            self.recorder.end();
        }
        Flow::Continue
    }

    fn chosen<'b>(&mut self, choice: Choice<'b>) -> Vec<&'b Bucket> {
        match choice.bucket {
            Some(_) => self.recorder.note(|| choice.to_string()),
            None => self.recorder.problem(|| choice.to_string()),
        }
        choice.bucket.into_iter().collect()
    }

    /// Actions after a clone see the original packet, registers and stack; an `exit` in the clone ends everything.
    fn clone_actions(&mut self, actions: &Actions) {
        let (key, stack, is_tracked) = (self.key.clone(), self.stack.clone(), self.is_tracked);
        // Only then the datapath makes a copy.
        let tracks = actions.0.iter().any(|action| matches!(action, Action::Ct(_)));
        if tracks {
            self.commit();
            self.note_step(DatapathStep::Save);
        }
        let frame = tracks.then(|| self.frame.clone());
        self.carry_out(&actions.0);
        if let Some(frame) = frame {
            self.frame = frame;
            self.note_step(DatapathStep::Restore);
        }
        (self.key, self.stack, self.is_tracked) = (key, stack, is_tracked);
    }

    /// The current packet does not match the flow that is learned from it.
    fn learn(&mut self, learn: &Learn) {
        match learned_flow(learn, &self.key) {
            Some(flow) => {
                self.recorder.note(|| format!("learns {flow}"));
                self.effects.learned.push(Lesson { flow, limit: learn.limit });
            }
            None => self.recorder.problem(|| "no flow can match this".to_owned()),
        }
    }

    fn set_ttl(&mut self, ttl: u8) {
        if self.key.meets(Prerequisite::Ip) {
            self.key.nw_ttl = ttl;
        } else {
            self.recorder.problem(|| "the packet has no time to live: it is not IP".to_owned());
        }
    }

    /// If the TTL expires, the rest of this action list is skipped, but enclosing lists continue. The switch offers the
    /// packet, as rewritten so far, to controllers that ask for such ones (`invalid_ttl`); none does by default.
    fn dec_ttl(&mut self) -> Flow {
        if !matches!(self.key.eth_type, ETH_IPV4 | ETH_IPV6) {
            self.recorder.problem(|| "the packet has no time to live: it is not IP".to_owned());
            return Flow::Continue;
        }
        if self.key.nw_ttl > 1 {
            self.key.nw_ttl -= 1;
            return Flow::Continue;
        }
        let ttl = self.key.nw_ttl;
        self.recorder.problem(|| format!("the time to live is {ttl}: the rest of these actions is skipped"));
        self.commit();
        self.action_bytes += limits::OUTPUT;
        Flow::Return
    }

    fn output(&mut self, port: PortNo) {
        match port {
            PortNo::IN_PORT => self.emit(PortNo(self.key.in_port)),
            PortNo::FLOOD | PortNo::ALL => {
                let bridge = self.bridge;
                for port in bridge.ports().filter(|port| port.0 != self.key.in_port).collect::<Vec<_>>() {
                    self.emit(port);
                }
            }
            PortNo::ANY => {}
            PortNo::CONTROLLER => self.send(port),
            PortNo::NORMAL | PortNo::TABLE => {
                self.recorder.problem(|| format!("{port} as a number in a field is not interpreted here"));
            }
            port if port.0 == self.key.in_port => {
                self.recorder.problem(|| RETURNED.to_owned());
            }
            port => self.emit(port),
        }
    }

    fn emit(&mut self, port: PortNo) {
        if !self.bridge.has_port(port) {
            return self.recorder.problem(|| format!("there is no port {port}"));
        }
        self.send(port);
    }

    fn send(&mut self, port: PortNo) {
        self.commit();
        let (first, peer) = match self.bridge.ports.get(&port.0) {
            Some(Port::Tunnel(tunnel)) => (limits::CLONE + limits::push(*tunnel, &self.key), true),
            Some(Port::Patch) => (0, true),
            Some(Port::Plain) | None => (0, false),
        };
        if peer && !self.passes_to_peer(first) {
            return;
        }
        self.action_bytes += first + limits::OUTPUT;
        if self.other_length {
            return;
        }
        if self.metered_out {
            return self.recorder.note(|| format!("not sent by port {port}: a meter dropped the packet"));
        }
        self.recorder.sent(port);
        self.emitted.push(Emitted { port, bytes: self.frame.bytes().to_vec(), key: self.key.clone() });
    }

    /// Nobody is connected, as beside a switch whose responder does not run: the outcome says what would be handed over.
    fn hand_over(&mut self, controller: &Controller) {
        if self.other_length {
            return;
        }
        if self.metered_out {
            return self.recorder.note(|| "not handed over: a meter dropped the packet".to_owned());
        }
        let mut frame = self.frame.clone();
        frame.commit(&self.key);
        let (bytes, key) = (frame.bytes().to_vec(), self.key.clone());
        let handed = HandedOver { controller: controller.clone(), bytes, key };
        self.recorder.begin(|| What::HandedOver(Box::new(handed.clone())));
        self.recorder.end();
        self.handed.push(handed);
    }

    /// Whether another bridge (that of the underlay or a patch port's peer) may be entered with this many more bytes.
    /// If not, only this copy is dropped.
    fn passes_to_peer(&mut self, bytes: usize) -> bool {
        if self.action_bytes + bytes > limits::MAX_ACTIONS {
            self.cut_short();
            return false;
        }
        if self.depth >= MAX_DEPTH || self.resubmits >= MAX_RESUBMITS {
            self.recorder.problem(|| "not sent: no table of the bridge behind can be looked up".to_owned());
            return false;
        }
        self.resubmits += 1;
        true
    }

    fn cut_short(&mut self) {
        self.cut = true;
        self.recorder
            .problem(|| "cut short: the copies come to more than 64 KB of datapath actions".to_owned());
    }
}

/// The table number that stands for the current table.
const THIS_TABLE: u8 = 255;

/// The prerequisite for an action to write or read the field.
fn prerequisite(field: Field) -> Prerequisite {
    field.info().prerequisite
}
