//! Runs a transaction on several workers: each worker runs the same rules on its part of the rows, and the workers
//! exchange rows in rounds.
//!
//! In a round, every worker sends one packet to every other worker. The number of rounds follows from the plan and
//! from state that all workers share, never from the rows of one worker; otherwise a worker could wait for a packet
//! that is never sent. Each level has one round for each send on the longest pipeline, one round for head rows if
//! they may belong to another worker, and one round that moves rows to indexes and announces the changed relations. A level
//! with hooks has two more: worker 0 gets the changes of their sources, and sends the changes of the tables that they fill.

use std::collections::{BTreeMap, BTreeSet};

use super::delta::Delta;
use super::engine::{Derivation, Pass, State};
use super::errors::{Errors, Refusal};
use super::flow::{Context, Parcel};
use super::hooks::Filling;
use super::placement::{Move, Place, Placement, owner};
use super::rule::PipelineAt;
use super::trace::View;
use super::workers::{Message, Port};
use crate::carrier::Lost;
use crate::symbol::{Symbol, Symbols};
use nlog_data::Stage;
use nlog_plan::query::RelationId;
use serde::{Deserialize, Serialize};

/// The packet of one worker to another in a round.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Packet {
    /// Relations that have changed at the sender.
    changed: Vec<usize>,
    /// Indexes of which the sender has the first rows.
    filled: Vec<usize>,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Block {
    /// Bindings that continue at a probe.
    Bindings { at: PipelineAt, probe: usize, parcel: Parcel },
    /// The results of a rule's pipelines.
    Ends { rule: usize, rows: Delta },
    /// Rows for an index.
    Index { index: usize, rows: Delta },
    /// For worker 0: the sender's changes of the source of a hook, and the errors that it has met so far.
    Source { hook: usize, rows: Delta, errors: Errors },
    /// From worker 0: the changes of the table that a hook fills.
    Filled { relation: RelationId, rows: Delta },
}

impl Packet {
    /// Replaces every symbol in the packet.
    pub(crate) fn translate(&mut self, each: &mut dyn FnMut(&mut Symbol)) {
        for block in &mut self.blocks {
            match block {
                Block::Bindings { parcel, .. } => parcel.symbols_mut().for_each(&mut *each),
                Block::Ends { rows, .. } | Block::Index { rows, .. } | Block::Filled { rows, .. } => {
                    rows.symbols_mut(0).for_each(&mut *each);
                }
                Block::Source { rows, errors, .. } => {
                    rows.symbols_mut(0).for_each(&mut *each);
                    errors.translate(each);
                }
            }
        }
    }
}

/// Sends a packet to each other worker, and waits for one from each. The packets of a worker to itself are empty.
async fn exchange(port: &Port, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
    let me = port.me();
    for (to, packet) in out.into_iter().enumerate().filter(|(to, _)| *to != me) {
        port.send(to, Message::Packet(packet))?;
    }
    let mut arrived = Vec::with_capacity(port.peers());
    for from in 0..port.peers() {
        arrived.push(if from == me {
            Packet::default()
        } else if let Message::Packet(packet) = port.receive(from).await? {
            packet
        } else {
            return Err(Lost);
        });
    }
    Ok(arrived)
}

/// The course of a transaction at one worker.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    level: u32,
    /// The relations of the level.
    derivations: Vec<Derivation>,
    awaited: Awaited,
    purpose: Purpose,
}

/// The purpose of the rounds.
#[derive(Debug, Clone, Copy, Default)]
enum Purpose {
    #[default]
    Transaction,
    /// To derive relations again, and count the rows of one of them if it is named.
    Again(Option<RelationId>),
}

/// The contents of the packets that a worker waits for.
#[derive(Debug, Default)]
enum Awaited {
    /// No packets: the next level begins.
    #[default]
    Nothing,
    /// Bindings, and this many rounds of bindings after them.
    Bindings(usize),
    /// The results of pipelines.
    Ends,
    /// At worker 0, the changes of the sources of these hooks.
    Sources(Vec<usize>),
    /// The changes of the tables that hooks fill; worker 0 has them already.
    Filled(Vec<(RelationId, Delta)>),
    /// Rows for indexes, besides these of this worker.
    Indexes { changed: Vec<usize>, received: Vec<(usize, Delta)> },
}

impl Rounds {
    /// A course that derives relations again ([`Again`](super::recount::Again)).
    pub(crate) fn again(counted: Option<RelationId>) -> Self {
        Rounds { purpose: Purpose::Again(counted), ..Rounds::default() }
    }

    /// Runs all rounds. Worker 0 has the hooks.
    pub(crate) async fn run(
        mut self,
        state: &mut State,
        port: &Port,
        mut filling: Option<Filling<'_>>,
    ) -> Result<(), Lost> {
        let mut arrived = Vec::new();
        while let Some(out) = self.advance(state, arrived, filling.as_mut()) {
            arrived = exchange(port, out).await?;
        }
        Ok(())
    }

    /// Continues with the packets of a round, one from each worker, or none at first. Returns the packets of the next
    /// round, one for each worker, or `None` if the transaction has no further rounds.
    fn advance(
        &mut self,
        state: &mut State,
        arrived: Vec<Packet>,
        filling: Option<&mut Filling<'_>>,
    ) -> Option<Vec<Packet>> {
        match std::mem::take(&mut self.awaited) {
            Awaited::Nothing => {}
            Awaited::Bindings(rounds) => {
                state.receive_bindings(&mut self.derivations, arrived);
                return self.bindings(state, rounds);
            }
            Awaited::Ends => {
                receive_ends(&mut self.derivations, arrived);
                return self.settle(state);
            }
            Awaited::Sources(hooks) => {
                let (out, filled) = state.send_filled(&hooks, arrived, filling);
                self.awaited = Awaited::Filled(filled);
                return Some(out);
            }
            Awaited::Filled(own) => state.receive_filled(own, arrived),
            Awaited::Indexes { changed, received } => {
                if let Err(refusal) = state.receive_at_indexes(&changed, received, arrived) {
                    state.errors.note(&refusal);
                }
            }
        }
        self.begin_level(state)
    }

    fn begin_level(&mut self, state: &mut State) -> Option<Vec<Packet>> {
        loop {
            let hooks = state.hooks_of_level();
            if !hooks.is_empty() {
                let out = state.send_sources(&hooks);
                self.awaited = Awaited::Sources(hooks);
                return Some(out);
            }
            (self.level, self.derivations) = state.begin_level()?;
            match (state.rounds_of_bindings(&self.derivations), self.purpose) {
                (None, Purpose::Transaction) => {}
                // Rows that are derived again come from groups too.
                (rounds, _) => return self.bindings(state, rounds.unwrap_or(0)),
            }
        }
    }

    /// The next round, if bindings may move in this many more rounds.
    fn bindings(&mut self, state: &mut State, rounds: usize) -> Option<Vec<Packet>> {
        if rounds > 0 {
            self.awaited = Awaited::Bindings(rounds - 1);
            return Some(state.send_bindings(&self.derivations));
        }
        if let Some(out) = state.send_ends(&mut self.derivations) {
            self.awaited = Awaited::Ends;
            return Some(out);
        }
        self.settle(state)
    }

    /// Turns the results of the level into sets, and sends their changes to indexes. What is derived again changes no index.
    fn settle(&mut self, state: &mut State) -> Option<Vec<Packet>> {
        for mut derivation in std::mem::take(&mut self.derivations) {
            let settled = match self.purpose {
                Purpose::Transaction => state.settle_own(&mut derivation),
                Purpose::Again(counted) => state.settle_again(&mut derivation, counted),
            };
            if let Err(refusal) = settled {
                state.errors.note(&refusal);
            }
        }
        if let Purpose::Again(_) = self.purpose {
            return self.begin_level(state);
        }
        let (out, changed, received) = state.send_to_indexes(self.level);
        self.awaited = Awaited::Indexes { changed, received };
        Some(out)
    }
}

/// The indexes that have ever had a row at any worker: before a transaction, and in it.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    before: Vec<bool>,
    after: Vec<bool>,
}

impl Filled {
    pub(crate) fn none(indexes: usize) -> Self {
        Filled { before: vec![false; indexes], after: vec![false; indexes] }
    }

    /// Whether an index may have rows.
    pub(crate) fn is_filled(&self, index: usize, view: View) -> bool {
        match view {
            View::Before => self.before[index],
            View::After => self.after[index],
        }
    }

    fn add(&mut self, indexes: &[usize]) {
        for index in indexes {
            self.after[*index] = true;
        }
    }

    /// Ends a transaction.
    pub(crate) fn end(&mut self) {
        self.before.clone_from(&self.after);
    }
}

impl State {
    /// Begins a transaction: takes changes of inputs, which are the same at all workers.
    pub(crate) fn begin_rounds(&mut self, pass: &Pass) -> Rounds {
        self.begin_pass(pass);
        for (id, delta) in &pass.changes {
            self.change_everywhere(*id, delta);
        }
        Rounds::default()
    }

    /// Takes changes of an input, which all workers take.
    fn change_everywhere(&mut self, id: RelationId, delta: &Delta) {
        let first = self.first_rows(id.0 as usize, delta);
        self.filled.add(&first);
        if let Err(refusal) = self.change(id, delta.clone()) {
            self.errors.note(&refusal);
        }
    }

    /// Takes the hooks of the least level off the agenda. They come before the relations that rules derive.
    fn hooks_of_level(&mut self) -> Vec<usize> {
        let Some((level, _)) = self.agenda.relations.first().copied() else { return Vec::new() };
        let of_level = self.agenda.relations.range((level, 0)..=(level, usize::MAX));
        let filled: Vec<(u32, usize)> =
            of_level.copied().filter(|(_, at)| self.filled_by[*at].is_some()).collect();
        let mut hooks = Vec::new();
        for (level, at) in filled {
            self.agenda.relations.remove(&(level, at));
            self.reached.push(at);
            hooks.extend(self.filled_by[at]);
        }
        hooks
    }

    /// Sends this worker's changes of the sources of hooks to worker 0.
    fn send_sources(&mut self, hooks: &[usize]) -> Vec<Packet> {
        let mut out = self.packets();
        for hook in hooks {
            let from = RelationId(self.plan.program.hooks[*hook].from.0);
            // Worker 0 has all changes of inputs.
            if self.placement.me > 0 && self.is_derived(from) {
                let rows = self.relations[from.0 as usize].delta.clone();
                out[0].blocks.push(Block::Source { hook: *hook, rows, errors: self.errors.clone() });
            }
        }
        out
    }

    /// At worker 0: lets hooks follow the changes of their sources at all workers, and sends what they answer.
    fn send_filled(
        &mut self,
        hooks: &[usize],
        arrived: Vec<Packet>,
        mut filling: Option<&mut Filling<'_>>,
    ) -> (Vec<Packet>, Vec<(RelationId, Delta)>) {
        let (mut out, mut filled) = (self.packets(), Vec::new());
        let mut sources: BTreeMap<usize, (Vec<Delta>, Errors)> = BTreeMap::new();
        for block in arrived.into_iter().flat_map(|packet| packet.blocks) {
            if let Block::Source { hook, rows, errors } = block {
                let (all, of_all) = sources.entry(hook).or_default();
                all.push(rows);
                of_all.append(errors);
            }
        }
        for hook in hooks {
            let wiring = &self.plan.program.hooks[*hook];
            let (from, to) = (wiring.from.0 as usize, RelationId(wiring.to.0));
            if let Some(filling) = &mut filling {
                let (others, mut errors) = sources.remove(hook).unwrap_or_default();
                errors.append(self.errors.clone());
                let mut source = self.relations[from].delta.clone();
                for mut rows in others {
                    source.append(&mut rows);
                }
                if self.stopped().is_ok() && !self.precedes(*hook, &errors) {
                    self.enter(Stage::Number);
                    let changed = filling.fill(*hook, &source);
                    self.enter(Stage::Derive);
                    match changed {
                        Ok(changed) => filled.push((to, changed)),
                        Err(error) => {
                            self.errors.hooks.insert(*hook, error);
                        }
                    }
                }
            }
            self.release_one(from);
        }
        for (relation, rows) in &filled {
            for packet in out.iter_mut().skip(1) {
                packet.blocks.push(Block::Filled { relation: *relation, rows: rows.clone() });
            }
        }
        (out, filled)
    }

    /// Takes the changes of tables that hooks fill.
    fn receive_filled(&mut self, own: Vec<(RelationId, Delta)>, arrived: Vec<Packet>) {
        let arrived = arrived.into_iter().flat_map(|packet| packet.blocks).filter_map(|block| match block {
            Block::Filled { relation, rows } => Some((relation, rows)),
            _ => None,
        });
        for (relation, rows) in own.into_iter().chain(arrived) {
            self.change_everywhere(relation, &rows);
        }
    }

    /// Runs the pipelines of the least level on the agenda; `None` if the agenda is empty.
    fn begin_level(&mut self) -> Option<(u32, Vec<Derivation>)> {
        let (level, _) = self.agenda.relations.first().copied()?;
        let mut derivations = Vec::new();
        while let Some((_, relation)) = self.agenda.relations.first().copied().filter(|(l, _)| *l == level) {
            self.agenda.relations.pop_first();
            self.reached.push(relation);
            let mut derivation = self.begin(relation);
            // All workers agree on those that may find something at some worker.
            derivation.pending.retain(|at| self.pipeline(*at).may_find(&self.filled));
            derivations.push(derivation);
        }
        Some((level, derivations))
    }

    fn packets(&self) -> Vec<Packet> {
        (0..self.placement.peers).map(|_| Packet::default()).collect()
    }

    /// The number of rounds after which no binding is in transit. `None` if no worker derives anything.
    fn rounds_of_bindings(&self, derivations: &[Derivation]) -> Option<usize> {
        pending(derivations).into_iter().map(|at| self.pipeline(at).sends()).max()
    }

    fn send_bindings(&mut self, derivations: &[Derivation]) -> Vec<Packet> {
        let mut out = self.packets();
        for at in pending(derivations) {
            for (peer, packet) in out.iter_mut().enumerate() {
                let pipeline = &mut self.rules[at.rule].parts[at.part].pipelines[at.pipeline];
                for (probe, parcel) in pipeline.parcels_for(peer) {
                    packet.blocks.push(Block::Bindings { at, probe, parcel });
                }
            }
        }
        out
    }

    fn receive_bindings(&mut self, derivations: &mut [Derivation], arrived: Vec<Packet>) {
        for block in arrived.into_iter().flat_map(|packet| packet.blocks) {
            if let Block::Bindings { at, probe, parcel } = block {
                self.receive(derivations, at, probe, &parcel);
            }
        }
    }

    fn pipeline(&self, at: PipelineAt) -> &super::pipeline::Pipeline {
        &self.rules[at.rule].parts[at.part].pipelines[at.pipeline]
    }

    fn receive(&mut self, derivations: &mut [Derivation], at: PipelineAt, probe: usize, parcel: &Parcel) {
        let head = self.rules[at.rule].head.0 as usize;
        let Some(derivation) = derivations.iter_mut().find(|derivation| derivation.relation == head) else {
            return;
        };
        let Some((_, own)) = derivation.rules.iter_mut().find(|(rule, _)| *rule == at.rule) else { return };
        if self.running.as_ref().is_some_and(|running| running.is_stopped()) {
            return;
        }
        let mut failures = Vec::new();
        let mut context = Context {
            symbols: &self.symbols,
            indexes: &self.indexes,
            out: own,
            failures: &mut failures,
            too_many: &mut derivation.too_many,
            me: self.placement.me,
            peers: self.placement.peers,
            rule: self.rules[at.rule].id,
            running: self.running.as_deref(),
        };
        let rule = &mut self.rules[at.rule];
        self.touched += rule.parts[at.part].pipelines[at.pipeline].receive(probe, parcel, &mut context);
        self.errors.add(rule.id, failures);
    }

    /// Takes the results of pipelines that belong to other workers. `None` if no pipeline can have such results.
    fn send_ends(&mut self, derivations: &mut [Derivation]) -> Option<Vec<Packet>> {
        let mut sent = Vec::new();
        for at in pending(derivations) {
            if let Move::Send(columns) = self.pipeline(at).end_move() {
                sent.push((at.rule, columns.clone()));
            }
        }
        sent.dedup_by_key(|(rule, _)| *rule);
        if sent.is_empty() {
            return None;
        }
        let mut out = self.packets();
        for (rule, own) in derivations.iter_mut().flat_map(|derivation| &mut derivation.rules) {
            if let Some((_, columns)) = sent.iter().find(|(of, _)| of == rule) {
                for (peer, rows) in split(own, columns, &self.placement, &self.symbols) {
                    out[peer].blocks.push(Block::Ends { rule: *rule, rows });
                }
            }
        }
        Some(out)
    }

    fn settle_own(&mut self, derivation: &mut Derivation) -> Result<(), Refusal> {
        // Rows of other workers may be missing.
        self.stopped()?;
        let derived = self.finish(derivation)?;
        if derived.is_empty() { Ok(()) } else { self.settle_rows(derivation.relation, derived) }
    }

    /// Takes the rows for indexes of other workers, and announces the changed relations. Returns the packets, the
    /// relations of the level that changed here, and the rows for the indexes of this worker.
    fn send_to_indexes(&mut self, level: u32) -> (Vec<Packet>, Vec<usize>, Vec<(usize, Delta)>) {
        let changed: Vec<usize> = (self.reached.iter().copied())
            .filter(|at| self.plan.relations[*at].level == level && !self.relations[*at].delta.is_empty())
            // All workers have these changes already.
            .filter(|at| self.filled_by[*at].is_none())
            .collect();
        let mut out = self.packets();
        let mut own: Vec<(usize, Delta)> = Vec::new();
        for relation in &changed {
            for index in
                self.indexed[*relation].iter().copied().filter(|index| !self.placement.at_home[*index])
            {
                let mut rows = self.relations[*relation].delta.clone();
                let Place::At(parts) = &self.placement.indexes[index] else { continue };
                let columns: Vec<usize> =
                    parts.iter().map(|part| self.plan.indexes[index].key[*part]).collect();
                for (peer, rows) in split(&mut rows, &columns, &self.placement, &self.symbols) {
                    out[peer].blocks.push(Block::Index { index, rows });
                }
                own.push((index, rows));
            }
        }
        let first = changed.iter().flat_map(|at| self.first_rows(*at, &self.relations[*at].delta));
        let filled: Vec<usize> = first.collect();
        self.filled.add(&filled);
        for packet in &mut out {
            packet.changed.clone_from(&changed);
            packet.filled.clone_from(&filled);
        }
        (out, changed, own)
    }

    /// Stages the rows of all workers in the indexes of this one, and schedules the pipelines that begin with relations
    /// that have changed anywhere.
    fn receive_at_indexes(
        &mut self,
        changed: &[usize],
        mut received: Vec<(usize, Delta)>,
        arrived: Vec<Packet>,
    ) -> Result<(), Refusal> {
        let mut agreed: BTreeSet<usize> = changed.iter().copied().collect();
        for packet in arrived {
            self.filled.add(&packet.filled);
            agreed.extend(packet.changed);
            for block in packet.blocks {
                if let Block::Index { index, rows } = block {
                    received.push((index, rows));
                }
            }
        }
        let result = self.stage_received(changed, &received);
        for relation in agreed {
            for at in 0..self.uses[relation].len() {
                self.schedule(self.uses[relation][at]);
            }
            self.schedule_hooks_of(relation);
        }
        result
    }

    /// The indexes of a relation that had no rows at any worker so far as known, and get some of these.
    fn first_rows(&self, relation: usize, rows: &Delta) -> Vec<usize> {
        let indexes = self.indexed[relation].iter().copied();
        let empty = indexes.filter(|index| !self.filled.is_filled(*index, View::After));
        empty.filter(|index| rows.rows().any(|(row, _)| self.indexes[*index].fit.fits(row))).collect()
    }

    fn stage_received(&mut self, changed: &[usize], received: &[(usize, Delta)]) -> Result<(), Refusal> {
        for relation in changed {
            for index in &self.indexed[*relation] {
                if self.placement.at_home[*index] {
                    let staged = self.indexes[*index].stage(&self.relations[*relation].delta);
                    staged.map_err(|_| Refusal::TooMany(RelationId(*relation as u32)))?;
                }
            }
            if cfg!(debug_assertions) {
                self.check_set(*relation);
            }
        }
        for (index, rows) in received {
            let relation = self.indexes[*index].relation;
            self.indexes[*index].stage(rows).map_err(|_| Refusal::TooMany(relation))?;
            self.reached.push(relation.0 as usize);
        }
        Ok(())
    }
}

/// The pipelines of a level.
fn pending(derivations: &[Derivation]) -> Vec<PipelineAt> {
    derivations.iter().flat_map(|derivation| derivation.pending.iter().copied()).collect()
}

/// Adds the results that other workers have for this one.
fn receive_ends(derivations: &mut [Derivation], arrived: Vec<Packet>) {
    for block in arrived.into_iter().flat_map(|packet| packet.blocks) {
        if let Block::Ends { rule, mut rows } = block {
            let mut all = derivations.iter_mut().flat_map(|derivation| &mut derivation.rules);
            if let Some((_, own)) = all.find(|(of, _)| *of == rule) {
                own.append(&mut rows);
            }
        }
    }
}

/// Removes the rows that belong to other workers and returns them by worker.
fn split(
    rows: &mut Delta,
    columns: &[usize],
    placement: &Placement,
    symbols: &Symbols,
) -> Vec<(usize, Delta)> {
    let (me, peers) = (placement.me, placement.peers);
    let mut parts: Vec<Delta> = (0..peers).map(|_| Delta::new(rows.width())).collect();
    for (row, diff) in rows.rows() {
        parts[owner(columns.iter().map(|column| row[*column]), peers, symbols)].push(row, diff);
    }
    *rows = std::mem::take(&mut parts[me]);
    parts.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()).collect()
}
