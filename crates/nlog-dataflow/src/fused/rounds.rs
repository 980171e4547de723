//! Runs a transaction on several workers: each worker runs the same rules on its part of the rows, and the workers
//! exchange rows in rounds.
//!
//! In a round, every worker sends one packet to every other worker. The number of rounds follows from the plan and
//! from state that all workers share, never from the rows of one worker; otherwise a worker could wait for a packet
//! that is never sent. Each level has one round for each send on the longest pipeline, one round for head rows if
//! they may belong to another worker, and one round that moves rows to indexes and announces the changed relations.

use std::collections::BTreeSet;

use super::delta::Delta;
use super::engine::{Derivation, State};
use super::errors::Refusal;
use super::pipeline::{Context, Parcel};
use super::placement::{Move, Place, Placement, owner};
use super::rule::PipelineAt;
use super::trace::View;
use crate::symbol::Symbols;
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
}

/// Another worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// Exchanges packets between all workers.
pub(crate) trait Carrier {
    /// Sends a packet to each worker, in order, and waits for one from each. The packets of a worker to itself are
    /// empty.
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost>;
}

/// The course of a transaction at one worker. The caller exchanges packets between two calls of [`Rounds::advance`],
/// by a [`Carrier`] that waits for them or as messages of a dataflow.
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
    /// Rows for indexes, besides these of this worker.
    Indexes { changed: Vec<usize>, received: Vec<(usize, Delta)> },
}

impl Rounds {
    /// A course that derives relations again ([`Again`](super::again::Again)).
    pub(crate) fn again(counted: Option<RelationId>) -> Self {
        Rounds { purpose: Purpose::Again(counted), ..Rounds::default() }
    }

    /// Runs all rounds, with a carrier that waits for packets.
    pub(crate) fn run(mut self, state: &mut State, carrier: &mut dyn Carrier) -> Result<(), Lost> {
        let mut arrived = Vec::new();
        while let Some(out) = self.advance(state, arrived) {
            arrived = carrier.exchange(out)?;
        }
        Ok(())
    }

    /// Continues with the packets of a round, one from each worker, or none at first. Returns the packets of the next
    /// round, one for each worker, or `None` if the transaction has no further rounds.
    pub(crate) fn advance(&mut self, state: &mut State, arrived: Vec<Packet>) -> Option<Vec<Packet>> {
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
    pub(crate) fn begin_rounds(&mut self, changes: &[(RelationId, Delta)], facts: bool) -> Rounds {
        if facts {
            self.state_facts();
        }
        for (id, delta) in changes {
            let first = self.first_rows(id.0 as usize, delta);
            self.filled.add(&first);
            if let Err(refusal) = self.change(*id, delta.clone()) {
                self.errors.note(&refusal);
            }
        }
        Rounds::default()
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
