//! The lead of a team: it checks and stores the inputs, begins transactions and decides how they end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nlog_data::{CommitError, Transaction};
use nlog_plan::Settings;
use nlog_plan::query::{Plan, RelationId};

use super::super::Shared;
use super::super::ports::Effects;
use super::{Body, End, LEAD, Message};
use crate::fused::NEW_SYMBOLS;
use crate::fused::delta::Delta;
use crate::fused::engine::State;
use crate::fused::errors::Errors;
use crate::fused::fault::{Fault, inject};
use crate::fused::inputs::{Changes, Inputs};
use crate::fused::output::Output;
use crate::fused::planning::{is_most_of_all, statistics};
use crate::symbol::Marks;

/// Worker 0's part beyond that of a member.
pub(super) struct Lead {
    inputs: Inputs,
    plan: Option<Arc<Plan>>,
    phase: Phase,
    /// Passes that begin once the one in progress has ended.
    next: VecDeque<Pass>,
    /// Whether the facts have been derived: true once a transaction has been accepted.
    facts: bool,
    /// The number of symbols that the last collection left.
    symbols_left: usize,
    /// Whether symbols may have become unused since the last collection.
    gone: bool,
}

/// A pass of changes through the rules.
enum Pass {
    /// A transaction, whose changes the inputs have.
    Transaction(Changes),
    /// All rows of the inputs, for a new plan.
    Rows(Vec<(RelationId, Delta)>),
}

/// What the lead waits for.
enum Phase {
    Nothing,
    /// For the members that have not run the pass yet, and for their end of it.
    Pass {
        pass: Pass,
        ran: usize,
        errors: Errors,
    },
    /// For the marks of members.
    Marks {
        came: usize,
        marks: Box<Marks>,
    },
}

impl Lead {
    pub(super) fn new(shared: &Shared) -> Self {
        Lead {
            inputs: Inputs::new(Arc::clone(&shared.program.schema)),
            plan: None,
            phase: Phase::Nothing,
            next: VecDeque::new(),
            facts: false,
            symbols_left: 0,
            gone: false,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Nothing)
    }

    /// Checks a transaction and begins it.
    pub(super) fn begin(
        &mut self,
        shared: &Shared,
        peers: usize,
        transaction: &Transaction,
        effects: &mut Effects,
    ) {
        let built = shared.built.load(Ordering::Acquire);
        if built != peers {
            *effects = Effects::engine_failed(format!(
                "{built} of {peers} workers have built the operator; build it once in every worker, and run all \
                workers in one process"
            ));
            return;
        }
        let before = self.inputs.total();
        let changes = match self.inputs.apply(transaction, &shared.symbols) {
            Ok(changes) => changes,
            Err(error) => {
                self.gone = true;
                effects.refused = Some(CommitError::Refused(error));
                return;
            }
        };
        if changes.tables.is_empty() && self.facts {
            return;
        }
        self.gone |= changes.tables.values().any(Delta::has_gone);
        let inserted = transaction.insert.values().map(Vec::len).sum();
        let planning = &shared.planning;
        let chooses = planning.statistics.is_none() && planning.pinned.is_none();
        if chooses && inserted >= shared.plan_anew_from && is_most_of_all(inserted, before) {
            let figures = statistics(&shared.program, &self.inputs, &shared.symbols);
            let settings = Settings { statistics: Some(figures.into()), ..planning.clone() };
            let is_new = self.plan_by(&settings, shared, peers, effects);
            if is_new && self.facts {
                self.inputs.undo(&changes);
                self.next.push_back(Pass::Rows(self.rows(shared)));
                self.inputs.redo(&changes);
            }
        } else if self.plan.is_none() {
            self.plan_by(planning, shared, peers, effects);
        }
        self.next.push_back(Pass::Transaction(changes));
        self.go_on(peers, effects);
    }

    /// Plans the program and gives the members the plan. Returns whether it runs otherwise than the one before.
    fn plan_by(&mut self, settings: &Settings, shared: &Shared, peers: usize, effects: &mut Effects) -> bool {
        let plan = Arc::new(Plan::new(Arc::clone(&shared.program), &shared.observed(), settings));
        if self.plan.as_ref().is_some_and(|present| plan.is_run_like(present)) {
            return false;
        }
        self.plan = Some(Arc::clone(&plan));
        tell(peers, &Body::Plan(plan), effects);
        true
    }

    /// The rows of all input tables that rules read.
    fn rows(&self, shared: &Shared) -> Vec<(RelationId, Delta)> {
        let ids = shared.program.schema.iter().map(|(id, _)| id);
        let filled = ids.filter(|id| self.is_needed(id.0 as usize) && self.inputs.len(*id) > 0);
        filled.map(|id| (RelationId(id.0), self.inputs.rows(id))).collect()
    }

    fn is_needed(&self, relation: usize) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.relations[relation].needed)
    }

    /// Begins the next pass, if there is one.
    fn go_on(&mut self, peers: usize, effects: &mut Effects) {
        let Some(pass) = self.next.pop_front() else {
            self.phase = Phase::Nothing;
            return;
        };
        let (changes, facts) = match &pass {
            Pass::Rows(rows) => (rows.clone(), true),
            Pass::Transaction(changes) => {
                let needed = changes.tables.iter().filter(|(table, _)| self.is_needed(table.0 as usize));
                let needed = needed.map(|(table, delta)| (RelationId(table.0), delta.clone())).collect();
                (needed, !self.facts)
            }
        };
        tell(peers, &Body::Run(Arc::new(changes), facts), effects);
        self.phase = Phase::Pass { pass, ran: 0, errors: Errors::default() };
    }

    /// Takes the errors of a member. Decides how the pass ends once all have come.
    pub(super) fn has_run(&mut self, of_member: Errors, state: &State, peers: usize, effects: &mut Effects) {
        let Phase::Pass { pass, ran, errors } = &mut self.phase else { return };
        errors.append(of_member);
        *ran += 1;
        if *ran < peers {
            return;
        }
        let refusal = errors.refusal(&state.plan, &state.symbols);
        let end = End { accepted: refusal.is_none(), reported: matches!(pass, Pass::Transaction(_)) };
        if let (Some(refusal), true) = (refusal, end.reported) {
            effects.refused = Some(refusal.into_error(&state.plan));
        }
        tell(peers, &Body::End(end), effects);
    }

    /// Ends the pass here, like all members.
    pub(super) fn ended(&mut self, end: End, shared: &Shared, peers: usize, effects: &mut Effects) {
        let Phase::Pass { pass, .. } = std::mem::replace(&mut self.phase, Phase::Nothing) else { return };
        match pass {
            Pass::Transaction(changes) if end.accepted => {
                self.facts = true;
                self.report(changes, shared, effects);
            }
            Pass::Transaction(changes) => {
                self.inputs.undo(&changes);
                self.gone = true;
            }
            Pass::Rows(_) => {}
        }
        if self.next.is_empty() && self.is_time_to_collect(shared) {
            self.phase = Phase::Marks { came: 0, marks: Box::default() };
            tell(peers, &Body::Mark, effects);
        } else {
            self.go_on(peers, effects);
        }
    }

    /// Reports the changes of input tables that are observed.
    fn report(&self, changes: Changes, shared: &Shared, effects: &mut Effects) {
        inject(Fault::Output);
        let Some(plan) = &self.plan else { return };
        for (table, delta) in changes.tables {
            if plan.relations[table.0 as usize].wanted {
                let rows = Output::of_input(table, delta).into_rows(&shared.symbols, false);
                effects.rows.extend(rows.map(|rows| (table, rows)));
            }
        }
    }

    /// Whether the symbols have doubled since the last collection, and some may be unused.
    fn is_time_to_collect(&mut self, shared: &Shared) -> bool {
        let symbols = shared.symbols.len();
        if symbols < self.symbols_left + self.symbols_left.max(NEW_SYMBOLS) {
            return false;
        }
        let due = std::mem::take(&mut self.gone);
        if !due {
            self.symbols_left = symbols;
        }
        due
    }

    /// Takes the marks of a member. Drops the symbols that nobody has marked once all have come.
    pub(super) fn marked(&mut self, of_member: &Marks, shared: &Shared, peers: usize) {
        let Phase::Marks { came, marks } = &mut self.phase else { return };
        marks.append(of_member);
        *came += 1;
        if *came < peers {
            return;
        }
        self.inputs.symbols(&mut |symbol| marks.symbol(symbol));
        shared.symbols.sweep(marks);
        inject(Fault::Symbols);
        self.symbols_left = shared.symbols.len();
        self.phase = Phase::Nothing;
    }
}

/// Sends a message to all members, the lead among them.
fn tell(peers: usize, body: &Body, effects: &mut Effects) {
    let messages = (0..peers).map(|to| Message { to, from: LEAD, body: body.clone() });
    effects.messages.extend(messages);
}
