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
use crate::symbol::{Symbol, Symbols};
use nlog_plan::query::RelationId;
use serde::{Deserialize, Serialize};

/// The packet of one worker to another in a round.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Packet {
    /// Relations that have changed at the sender.
    changed: Vec<usize>,
    blocks: Vec<Block>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Block {
    /// Bindings that continue at a probe.
    Bindings { at: PipelineAt, probe: usize, parcel: Parcel },
    /// The results of a rule's pipelines.
    Ends { rule: usize, rows: Delta },
    /// Rows for an index.
    Index { index: usize, rows: Delta },
}

impl Packet {
    /// Replaces every symbol in the packet.
    pub(crate) fn translate(&mut self, each: &mut dyn FnMut(&mut Symbol)) {
        for block in &mut self.blocks {
            match block {
                Block::Bindings { parcel, .. } => parcel.symbols_mut().for_each(&mut *each),
                Block::Ends { rows, .. } | Block::Index { rows, .. } => {
                    rows.symbols_mut(0).for_each(&mut *each);
                }
            }
        }
    }
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

impl State {
    /// Processes the agenda together with the other workers, which all do the same.
    pub(crate) fn propagate_in_rounds(&mut self, carrier: &mut dyn Carrier) -> Result<Option<Refusal>, Lost> {
        let mut refusal = None;
        while let Some((level, _)) = self.agenda.relations.first().copied() {
            let mut derivations = Vec::new();
            while let Some((_, relation)) =
                self.agenda.relations.first().copied().filter(|(l, _)| *l == level)
            {
                self.agenda.relations.pop_first();
                self.reached.push(relation);
                derivations.push(self.begin(relation));
            }
            self.move_bindings(&mut derivations, carrier)?;
            self.move_ends(&mut derivations, carrier)?;
            for mut derivation in derivations {
                if let Err(error) = self.settle_own(&mut derivation) {
                    refusal.get_or_insert(error);
                }
            }
            if let Err(error) = self.move_to_indexes(level, carrier)? {
                refusal.get_or_insert(error);
            }
        }
        Ok(refusal)
    }

    fn packets(&self) -> Vec<Packet> {
        (0..self.placement.peers).map(|_| Packet::default()).collect()
    }

    /// Exchanges bindings until none can be in transit.
    fn move_bindings(
        &mut self,
        derivations: &mut [Derivation],
        carrier: &mut dyn Carrier,
    ) -> Result<(), Lost> {
        let pending: Vec<PipelineAt> =
            derivations.iter().flat_map(|derivation| derivation.pending.iter().copied()).collect();
        let rounds = pending.iter().map(|at| self.pipeline(*at).sends()).max().unwrap_or(0);
        for _ in 0..rounds {
            let mut out = self.packets();
            for at in &pending {
                for (peer, packet) in out.iter_mut().enumerate() {
                    for (probe, parcel) in self.pipeline(*at).parcels_for(peer) {
                        packet.blocks.push(Block::Bindings { at: *at, probe, parcel });
                    }
                }
            }
            for block in carrier.exchange(out)?.into_iter().flat_map(|packet| packet.blocks) {
                if let Block::Bindings { at, probe, parcel } = block {
                    self.receive(derivations, at, probe, &parcel);
                }
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, at: PipelineAt) -> &mut super::pipeline::Pipeline {
        &mut self.rules[at.rule].parts[at.part].pipelines[at.pipeline]
    }

    fn receive(&mut self, derivations: &mut [Derivation], at: PipelineAt, probe: usize, parcel: &Parcel) {
        let head = self.rules[at.rule].head.0 as usize;
        let Some(derivation) = derivations.iter_mut().find(|derivation| derivation.relation == head) else {
            return;
        };
        let Some((_, own)) = derivation.rules.iter_mut().find(|(rule, _)| *rule == at.rule) else { return };
        let mut failures = Vec::new();
        let mut context = Context {
            symbols: &self.symbols,
            indexes: &self.indexes,
            out: own,
            failures: &mut failures,
            too_many: &mut derivation.too_many,
            me: self.placement.me,
            peers: self.placement.peers,
        };
        let rule = &mut self.rules[at.rule];
        self.touched += rule.parts[at.part].pipelines[at.pipeline].receive(probe, parcel, &mut context);
        self.errors.add(rule.id, failures);
    }

    /// Moves the results of pipelines to the workers of the head's rows.
    fn move_ends(&mut self, derivations: &mut [Derivation], carrier: &mut dyn Carrier) -> Result<(), Lost> {
        let mut sent = Vec::new();
        for at in
            derivations.iter().flat_map(|derivation| derivation.pending.iter().copied()).collect::<Vec<_>>()
        {
            if let Move::Send(columns) = self.pipeline(at).end_move() {
                sent.push((at.rule, columns.clone()));
            }
        }
        sent.dedup_by_key(|(rule, _)| *rule);
        if sent.is_empty() {
            return Ok(());
        }
        let mut out = self.packets();
        for (rule, own) in derivations.iter_mut().flat_map(|derivation| &mut derivation.rules) {
            if let Some((_, columns)) = sent.iter().find(|(of, _)| of == rule) {
                for (peer, rows) in split(own, columns, &self.placement, &self.symbols) {
                    out[peer].blocks.push(Block::Ends { rule: *rule, rows });
                }
            }
        }
        for block in carrier.exchange(out)?.into_iter().flat_map(|packet| packet.blocks) {
            if let Block::Ends { rule, mut rows } = block {
                let mut all = derivations.iter_mut().flat_map(|derivation| &mut derivation.rules);
                if let Some((_, own)) = all.find(|(of, _)| *of == rule) {
                    own.append(&mut rows);
                }
            }
        }
        Ok(())
    }

    fn settle_own(&mut self, derivation: &mut Derivation) -> Result<(), Refusal> {
        let derived = self.finish(derivation)?;
        if derived.is_empty() { Ok(()) } else { self.settle_rows(derivation.relation, derived) }
    }

    /// Moves rows to the workers of their indexes, announces the changed relations, and schedules dependent
    /// pipelines.
    fn move_to_indexes(
        &mut self,
        level: u32,
        carrier: &mut dyn Carrier,
    ) -> Result<Result<(), Refusal>, Lost> {
        let changed: Vec<usize> = (self.reached.iter().copied())
            .filter(|at| self.plan.relations[*at].level == level && !self.relations[*at].delta.is_empty())
            .collect();
        let mut out = self.packets();
        let mut received: Vec<(usize, Delta)> = Vec::new();
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
                received.push((index, rows));
            }
        }
        for packet in &mut out {
            packet.changed.clone_from(&changed);
        }
        let mut agreed: BTreeSet<usize> = changed.iter().copied().collect();
        for packet in carrier.exchange(out)? {
            agreed.extend(packet.changed);
            for block in packet.blocks {
                if let Block::Index { index, rows } = block {
                    received.push((index, rows));
                }
            }
        }
        let result = self.stage_received(&changed, &received);
        for relation in agreed {
            for at in 0..self.uses[relation].len() {
                self.schedule(self.uses[relation][at]);
            }
        }
        Ok(result)
    }

    fn stage_received(&mut self, changed: &[usize], received: &[(usize, Delta)]) -> Result<(), Refusal> {
        let symbols = std::sync::Arc::clone(&self.symbols);
        for relation in changed {
            for index in &self.indexed[*relation] {
                if self.placement.at_home[*index] {
                    let staged = self.indexes[*index].stage(&self.relations[*relation].delta, &symbols);
                    staged.map_err(|_| Refusal::TooMany(RelationId(*relation as u32)))?;
                }
            }
            if cfg!(debug_assertions) {
                self.check_set(*relation);
            }
        }
        for (index, rows) in received {
            let relation = self.indexes[*index].relation;
            self.indexes[*index].stage(rows, &symbols).map_err(|_| Refusal::TooMany(relation))?;
            self.reached.push(relation.0 as usize);
        }
        Ok(())
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
