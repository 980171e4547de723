//! Runs a transaction on one worker.
//!
//! Relations have levels, and a rule's head has a higher level than the relations that it reads. The engine processes
//! relations level by level, so that each one is complete before a rule reads it. For each relation it runs the pending
//! pipelines of the relation's rules, turns the derived rows into a set, stages the changes in the relation's indexes,
//! and schedules the pipelines that start with these changes. [`State::end`] then publishes or drops everything that
//! was staged.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::{RuleId, Stage, TableId};
use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::bounded::Running;
use super::delta::{Delta, TooMany};
use super::edit::Edit;
use super::errors::{Errors, Refusal};
use super::flow::Context;
use super::groups::Groups;
use super::hooks::Filling;
use super::index::Index;
use super::output::Output;
use super::pipeline::Pipeline;
use super::placement::Placement;
use super::relation::{Attributed, Relation, Unsettled};
use super::rounds::Filled;
use super::rule::{Numbers, PipelineAt, Rule, finish};
use super::trace::View;
use super::workers::{Changed, Load};
use crate::symbol::{Marks, Symbols};

/// Debug builds look changed rows up in indexes only if there are at most this many.
const MOST_CHECKED: usize = 64;

/// The derived rows of a program, and their changes in the running transaction.
pub(crate) struct State {
    pub(crate) plan: Arc<Plan>,
    pub(crate) symbols: Arc<Symbols>,
    pub(crate) placement: Placement,
    pub(crate) relations: Vec<Relation>,
    pub(crate) indexes: Vec<Index>,
    /// The indexes of each relation.
    pub(crate) indexed: Vec<Vec<usize>>,
    pub(crate) rules: Vec<Rule>,
    /// By relation, the pipelines that start with its changes.
    pub(crate) uses: Vec<Vec<PipelineAt>>,
    /// The pipelines that run only once.
    once: Vec<PipelineAt>,
    /// By relation, the hook that fills it.
    pub(crate) filled_by: Vec<Option<usize>>,
    /// By relation, the hooks that read it.
    pub(crate) hooks_of: Vec<Vec<usize>>,
    /// Whether hooks follow the changes of their sources in the running transaction.
    pub(crate) hooks_follow: bool,
    pub(crate) agenda: Agenda,
    pub(crate) numbers: Numbers,
    /// The edit in progress.
    pub(crate) editing: Option<Edit>,
    /// The relations that the running transaction has reached.
    pub(crate) reached: Vec<usize>,
    /// The rules whose groups the running transaction has reached.
    pub(crate) grouped: Vec<usize>,
    /// The relations whose accepted changes are not merged yet.
    unmerged: BTreeSet<usize>,
    /// The rules whose groups are not merged yet.
    unmerged_groups: BTreeSet<usize>,
    pub(crate) errors: Errors,
    /// Debug builds alone: the first relation of the running transaction with a row that is there twice.
    twice: Option<String>,
    /// The work since the plan was made, in rows: changed input rows, rows that pipelines started with, and bindings
    /// that probes found.
    pub(crate) touched: u64,
    /// With several workers, the indexes that have had rows.
    pub(crate) filled: Filled,
    /// Whether another process has many new symbols.
    pub(crate) crowded: bool,
    /// The bound of the running transaction, if it has one.
    pub(crate) running: Option<Arc<Running>>,
}

/// The rows that a relation's rules have derived so far in a transaction.
#[derive(Debug)]
pub(crate) struct Derivation {
    pub(crate) relation: usize,
    pub(crate) pending: Vec<PipelineAt>,
    /// By rule, the results of its pipelines.
    pub(crate) rules: Vec<(usize, Delta)>,
    pub(crate) too_many: bool,
}

/// What a transaction begins with.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Pass {
    /// The changes of inputs.
    pub(crate) changes: Vec<(RelationId, Delta)>,
    /// Whether to derive the facts as well.
    pub(crate) facts: bool,
    /// If hooks follow the changes of their sources, those that work even if their sources do not change.
    pub(crate) hooks: Option<Vec<usize>>,
}

/// The remaining work of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The relations to process, by level.
    pub(crate) relations: BTreeSet<(u32, usize)>,
    /// By relation, the pipelines that derive its rows.
    pending: Vec<Vec<PipelineAt>>,
    /// By relation, the number of pending pipelines, and of hooks, that start with its changes.
    awaited: Vec<usize>,
}

impl State {
    /// An empty state. With `attribute`, each row of a wanted table names the rule that derives it.
    pub(crate) fn new(plan: Arc<Plan>, symbols: Arc<Symbols>, attribute: bool) -> Self {
        let placement = Placement::alone(&plan);
        State::placed(plan, symbols, attribute, placement, true)
    }

    /// One worker's part of an empty state. `may_watch` if it can derive rows again.
    pub(crate) fn placed(
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        attribute: bool,
        placement: Placement,
        may_watch: bool,
    ) -> Self {
        let relations: Vec<Relation> = (0..plan.relations.len() as u32)
            .map(RelationId)
            .map(|id| Relation::new(&plan, id, attribute && is_attributed(&plan, id), may_watch))
            .collect();
        let indexes: Vec<Index> = (plan.indexes.iter())
            .map(|index| Index::new(index, relations[index.relation.0 as usize].columns, &symbols))
            .collect();
        let mut indexed = vec![Vec::new(); relations.len()];
        for (at, index) in indexes.iter().enumerate() {
            indexed[index.relation.0 as usize].push(at);
        }
        let rules: Vec<Rule> =
            (plan.rules.iter()).map(|rule| Rule::new(rule, &placement, &symbols)).collect();
        let (mut filled_by, mut hooks_of) = (vec![None; relations.len()], vec![Vec::new(); relations.len()]);
        for (hook, wiring) in plan.program.hooks.iter().enumerate() {
            filled_by[wiring.to.0 as usize] = Some(hook);
            hooks_of[wiring.from.0 as usize].push(hook);
        }
        let mut state = State {
            indexed,
            filled_by,
            hooks_of,
            hooks_follow: false,
            uses: vec![Vec::new(); relations.len()],
            once: Vec::new(),
            agenda: Agenda {
                pending: vec![Vec::new(); relations.len()],
                awaited: vec![0; relations.len()],
                ..Agenda::default()
            },
            numbers: Numbers::of_program(&plan.program),
            editing: None,
            reached: Vec::new(),
            grouped: Vec::new(),
            unmerged: BTreeSet::new(),
            unmerged_groups: BTreeSet::new(),
            errors: Errors::default(),
            twice: None,
            touched: 0,
            filled: Filled::none(indexes.len()),
            crowded: false,
            running: None,
            plan,
            symbols,
            placement,
            relations,
            indexes,
            rules,
        };
        for rule in 0..state.rules.len() {
            state.connect(rule);
        }
        state
    }

    /// Registers the starts of a rule's pipelines.
    fn connect(&mut self, rule: usize) {
        for (part, joins) in self.rules[rule].parts.iter().enumerate() {
            for (pipeline, running) in joins.pipelines.iter().enumerate() {
                let at = PipelineAt { rule, part, pipeline };
                match running.atom {
                    Some(atom) => self.uses[joins.atoms[atom].0 as usize].push(at),
                    None => self.once.push(at),
                }
            }
        }
    }

    /// Schedules the pipelines that run once.
    pub(crate) fn state_facts(&mut self) {
        for at in self.once.clone() {
            self.schedule(at);
        }
    }

    /// Records a change that no rule derives in this transaction, such as that of an input.
    pub(crate) fn change(&mut self, id: RelationId, delta: Delta) -> Result<(), Refusal> {
        let at = id.0 as usize;
        self.reached.push(at);
        self.relations[at].delta = delta;
        self.spread(at)
    }

    pub(crate) fn schedule(&mut self, at: PipelineAt) {
        if self.editing.as_ref().is_some_and(|edit| edit.fresh.contains(&at.rule)) {
            // An edit runs this rule over all rows, which include the changes.
            return;
        }
        let head = self.rules[at.rule].head.0 as usize;
        if let Some(begins) = self.begins_with(at) {
            self.agenda.awaited[begins] += 1;
        }
        self.agenda.pending[head].push(at);
        self.agenda.relations.insert((self.plan.relations[head].level, head));
    }

    /// Schedules a hook, which works once all changes of its source are known.
    pub(crate) fn schedule_hook(&mut self, hook: usize) {
        let wiring = &self.plan.program.hooks[hook];
        let (from, to) = (wiring.from.0 as usize, wiring.to.0 as usize);
        if self.agenda.relations.insert((self.plan.relations[to].level, to)) {
            self.agenda.awaited[from] += 1;
            self.reached.push(from);
        }
    }

    /// Schedules the hooks that read a relation, if hooks follow.
    pub(crate) fn schedule_hooks_of(&mut self, relation: usize) {
        if self.hooks_follow {
            (0..self.hooks_of[relation].len()).for_each(|at| self.schedule_hook(self.hooks_of[relation][at]));
        }
    }

    /// Runs changes of inputs and stages all derived changes. Returns the changes of relations.
    pub(crate) fn run(&mut self, pass: Pass, mut filling: Option<Filling<'_>>) -> Result<Changed, Refusal> {
        self.begin_pass(&pass);
        for (id, delta) in pass.changes {
            self.change(id, delta)?;
        }
        while let Some((_, relation)) = self.agenda.relations.pop_first() {
            self.reached.push(relation);
            if let Some(hook) = self.filled_by[relation] {
                self.fill(hook, filling.as_mut())?;
                continue;
            }
            let derived = self.derive(relation)?;
            self.settle(relation, derived)?;
        }
        self.refusal()?;
        Ok(self.take_changed())
    }

    /// A stage of the transaction begins.
    pub(crate) fn enter(&self, stage: Stage) {
        if let Some(running) = &self.running {
            running.enter(stage);
        }
    }

    /// Schedules the pass that does not begin with changes.
    pub(crate) fn begin_pass(&mut self, pass: &Pass) {
        if pass.facts {
            self.state_facts();
        }
        self.hooks_follow = pass.hooks.is_some();
        pass.hooks.iter().flatten().for_each(|hook| self.schedule_hook(*hook));
    }

    /// Lets a hook follow the changes of its source, and passes on the changes of the table that it fills.
    pub(crate) fn fill(&mut self, hook: usize, filling: Option<&mut Filling<'_>>) -> Result<(), Refusal> {
        self.stopped()?;
        let wiring = &self.plan.program.hooks[hook];
        let (from, to) = (wiring.from.0 as usize, RelationId(wiring.to.0));
        if let Some(filling) = filling
            && !self.precedes(hook, &self.errors)
        {
            self.enter(Stage::Number);
            let filled = if filling.is_fresh(hook) {
                let inputs = filling.inputs;
                let mut rows =
                    self.rows(RelationId(from as u32), View::After, &|table| inputs.borrow().rows(table))?;
                rows.make_set();
                filling.fill(hook, &rows)
            } else {
                filling.fill(hook, &self.relations[from].delta)
            };
            self.enter(Stage::Derive);
            match filled {
                Ok(changed) => self.change(to, changed)?,
                Err(error) => {
                    self.errors.hooks.insert(hook, error);
                }
            }
        }
        self.release_one(from);
        Ok(())
    }

    /// Whether an error comes before all that a hook could say, since the rows that it depends on have it.
    pub(crate) fn precedes(&self, hook: usize, errors: &Errors) -> bool {
        let mut stages = self.plan.hook_stages.iter();
        let stage = stages.find(|stage| stage.hooks.contains(&hook));
        stage.is_some_and(|stage| errors.concern(&stage.tables, &self.plan, &self.symbols))
    }

    /// Fails if the transaction is stopped at its bound.
    pub(crate) fn stopped(&self) -> Result<(), Refusal> {
        let stopped = self.running.as_ref().and_then(|running| running.stopped());
        stopped.map_or(Ok(()), |stopped| Err(Refusal::Stopped(stopped)))
    }

    /// Fails with the least error of the transaction, if there is one. Of one that is stopped, the others say nothing.
    pub(crate) fn refusal(&self) -> Result<(), Refusal> {
        self.stopped()?;
        self.errors.refusal(&self.plan, &self.symbols).map_or(Ok(()), Err)
    }

    /// Turns derived rows into a set, and notes those that their table forbids.
    pub(crate) fn settle_rows(&mut self, relation: usize, derived: Delta) -> Result<(), Refusal> {
        let (symbols, numbers) = (&self.symbols, &self.numbers);
        let conflicts = &mut self.errors.conflicts;
        let id = RelationId(relation as u32);
        let settled = self.relations[relation].settle(derived, symbols, numbers, conflicts);
        settled.map_err(|unsettled| match unsettled {
            Unsettled::TooMany => Refusal::TooMany(id),
            Unsettled::Uncounted => Refusal::Uncounted(id),
        })?;
        if self.plan.forbids(id) {
            // It is empty before a transaction, so its rows afterwards are those inserted.
            self.errors.forbid(id, &self.relations[relation].delta, &self.symbols);
        }
        Ok(())
    }

    /// Turns derived rows into a set, and passes on its changes.
    fn settle(&mut self, relation: usize, derived: Delta) -> Result<(), Refusal> {
        if derived.is_empty() { Ok(()) } else { self.settle_with(relation, derived, None) }
    }

    /// Like `settle`. Also adds `surplus`, a correction of the counts that readers have seen.
    pub(crate) fn settle_with(
        &mut self,
        relation: usize,
        derived: Delta,
        surplus: Option<Delta>,
    ) -> Result<(), Refusal> {
        let too_many = |TooMany| Refusal::TooMany(RelationId(relation as u32));
        self.settle_rows(relation, derived)?;
        if let Some(mut surplus) = surplus {
            let delta = &mut self.relations[relation].delta;
            delta.append(&mut surplus);
            delta.consolidate().map_err(too_many)?;
        }
        self.spread(relation)
    }

    /// Adds a relation's changes to its indexes and schedules the pipelines that depend on them.
    fn spread(&mut self, relation: usize) -> Result<(), Refusal> {
        let changes = self.relations[relation].delta.len() as u64;
        self.relations[relation].changes += changes;
        let delta = &self.relations[relation].delta;
        if delta.is_empty() {
            return Ok(());
        }
        for index in &self.indexed[relation] {
            let staged = self.indexes[*index].stage(delta);
            staged.map_err(|TooMany| Refusal::TooMany(RelationId(relation as u32)))?;
        }
        // During an edit, changes also retract counts that readers have seen in excess.
        if cfg!(debug_assertions) && self.editing.is_none() {
            self.check_set(relation);
        }
        for at in 0..self.uses[relation].len() {
            self.schedule(self.uses[relation][at]);
        }
        self.schedule_hooks_of(relation);
        Ok(())
    }

    /// Notes if the staged changes of a relation make it contain a row twice. Counts rule that out. For relations without
    /// counts, this checks the plan's claim that no row is derived twice. The claim builds on the keys of tables, which
    /// hold in accepted transactions alone: two rows with one key may derive the same row, and the transaction is refused.
    pub(crate) fn check_set(&mut self, relation: usize) {
        // If no rule reads the rows, only errors met while deriving them matter.
        if self.twice.is_some() || self.uses[relation].is_empty() {
            return;
        }
        let (name, delta) = (&self.plan.relations[relation].name, &self.relations[relation].delta);
        let mut net = delta.clone();
        let is_set = net.consolidate().is_ok()
            && net.len() == delta.len()
            && net.rows().all(|(_, diff)| diff == 1 || diff == -1);
        let mut at_home = self.indexed[relation].iter().filter(|index| self.placement.at_home[**index]);
        if !is_set {
            self.twice = Some(format!("a row of {name} comes or goes twice at once"));
        } else if delta.len() <= MOST_CHECKED && at_home.any(|index| !self.indexes[*index].has_once(delta)) {
            self.twice = Some(format!("a row of {name} is there twice"));
        }
    }

    /// Runs the pending pipelines of a relation's rules and returns the derived changes. Rows of counted relations may
    /// occur several times.
    pub(crate) fn derive(&mut self, relation: usize) -> Result<Delta, Refusal> {
        let mut derivation = self.begin(relation);
        self.stopped()?;
        self.finish(&mut derivation)
    }

    /// Runs the pending pipelines of a relation's rules. [`State::finish`] converts their results.
    pub(crate) fn begin(&mut self, relation: usize) -> Derivation {
        let mut pending = std::mem::take(&mut self.agenda.pending[relation]);
        pending.sort_unstable();
        let mut derivation = Derivation { relation, rules: Vec::new(), too_many: false, pending };
        for of_rule in derivation.pending.chunk_by(|a, b| a.rule == b.rule) {
            let rule = &mut self.rules[of_rule[0].rule];
            if let Some(running) = &self.running {
                running.begin(rule.id);
            }
            let columns = self.relations[relation].columns;
            let mut own = Delta::new(rule.groups.as_ref().map_or(columns, Groups::width));
            let mut failures = Vec::new();
            for at in of_rule {
                let part = &mut rule.parts[at.part];
                let pipeline = &mut part.pipelines[at.pipeline];
                let is_stopped = self.running.as_ref().is_some_and(|running| running.is_stopped());
                if is_stopped || pipeline.is_idle(&self.indexes, &self.filled) {
                    continue;
                }
                let once;
                let rows = if let Some(atom) = pipeline.atom {
                    &self.relations[part.atoms[atom].0 as usize].delta
                } else {
                    once = one_row();
                    &once
                };
                let mut context = Context {
                    symbols: &self.symbols,
                    indexes: &self.indexes,
                    out: &mut own,
                    failures: &mut failures,
                    too_many: &mut derivation.too_many,
                    me: self.placement.me,
                    peers: self.placement.peers,
                    rule: rule.id,
                    running: self.running.as_deref(),
                };
                let of_relation = pipeline.atom.map(|atom| &self.indexed[part.atoms[atom].0 as usize]);
                let of_relation = of_relation.filter(|_| self.placement.peers == 1).into_iter().flatten();
                let mut indexes = of_relation.map(|index| &self.indexes[*index]);
                self.touched += match indexes.find(|index| pipeline.reads_keys(index, rows)) {
                    Some(index) => pipeline.run_keys(index, rows.len(), &mut context),
                    None => pipeline.run(rows, &mut context),
                };
            }
            self.errors.add(rule.id, failures);
            derivation.rules.push((of_rule[0].rule, own));
        }
        self.release(&derivation.pending);
        derivation
    }

    /// The relation whose changes a pipeline starts with.
    fn begins_with(&self, at: PipelineAt) -> Option<usize> {
        let part = &self.rules[at.rule].parts[at.part];
        part.pipelines[at.pipeline].atom.map(|atom| part.atoms[atom].0 as usize)
    }

    /// Frees the changes of relations that no pipeline and no caller needs any more. After a load they take much
    /// memory.
    fn release(&mut self, done: &[PipelineAt]) {
        for at in done {
            if let Some(relation) = self.begins_with(*at) {
                self.release_one(relation);
            }
        }
    }

    /// Notes that a pipeline or a hook has read the changes of a relation.
    pub(crate) fn release_one(&mut self, relation: usize) {
        let awaited = &mut self.agenda.awaited[relation];
        *awaited -= 1;
        if *awaited == 0 && !self.plan.relations[relation].wanted {
            self.relations[relation].delta.clear();
        }
    }

    /// Converts the results of pipelines to rows of the head.
    pub(crate) fn finish(&mut self, derivation: &mut Derivation) -> Result<Delta, Refusal> {
        let relation = derivation.relation;
        let head = &self.relations[relation];
        let attributed = head.split.attributed;
        let mut derived = Delta::new(head.derived_width());
        for (at, own) in std::mem::take(&mut derivation.rules) {
            let rule = &mut self.rules[at];
            let mut failures = Vec::new();
            let done = finish(rule, own, attributed, &self.symbols, &mut failures, &mut derived);
            derivation.too_many |= done.is_err();
            if rule.groups.is_some() {
                self.grouped.push(at);
            }
            self.errors.add(rule.id, failures);
        }
        let mut pending = std::mem::take(&mut derivation.pending);
        pending.clear();
        self.agenda.pending[relation] = pending;
        // Counted rows are summed later. In other relations no row is derived twice, so rows cancel only if there are
        // both insertions and deletions.
        let settled = head.keeps_rows() || derived.is_one_way();
        if derivation.too_many || (!settled && derived.consolidate().is_err()) {
            return Err(Refusal::TooMany(RelationId(relation as u32)));
        }
        Ok(derived)
    }

    /// Takes the changes of relations, with the attribution of rows where the relation has one.
    pub(crate) fn take_changed(&mut self) -> Changed {
        let mut changed = Vec::new();
        for at in &self.reached {
            let relation = &mut self.relations[*at];
            let report = relation.split.attributed.then(|| std::mem::take(&mut relation.report));
            let reattributed = report.as_ref().is_some_and(|report| !report.reattributed.is_empty());
            if !relation.delta.is_empty() || reattributed {
                let width = relation.delta.width();
                let delta = std::mem::replace(&mut relation.delta, Delta::new(width));
                changed.push((relation.id, delta, report));
            }
            relation.report = Attributed::new(relation.columns);
        }
        changed
    }

    /// Ends a transaction: publishes or drops its staged changes.
    ///
    /// # Panics
    /// In debug builds, an accepted transaction has derived a row twice that the plan says is derived once.
    pub(crate) fn end(&mut self, accepted: bool) {
        if let Some(twice) = self.twice.take().filter(|_| accepted) {
            panic!("{twice}");
        }
        for (_, relation) in std::mem::take(&mut self.agenda.relations) {
            // Only a refused transaction ends before its agenda is empty.
            self.agenda.pending[relation].clear();
        }
        if !accepted && self.placement.peers > 1 {
            let parts = self.rules.iter_mut().flat_map(|rule| &mut rule.parts);
            parts.flat_map(|part| &mut part.pipelines).for_each(Pipeline::drop_parcels);
        }
        if self.placement.peers > 1 {
            self.filled.end();
        }
        if accepted {
            self.unmerged.extend(&self.reached);
            self.unmerged_groups.extend(&self.grouped);
        }
        for at in self.reached.drain(..) {
            self.agenda.awaited[at] = 0;
            self.relations[at].end(accepted);
            for index in &self.indexed[at] {
                let trace = &mut self.indexes[*index].trace;
                if accepted { trace.publish_if_touched() } else { trace.discard() }
            }
        }
        for rule in self.grouped.drain(..) {
            let Some(groups) = &mut self.rules[rule].groups else { continue };
            if accepted { groups.trace.publish_if_touched() } else { groups.trace.discard() }
        }
        self.errors = Errors::default();
        self.running = None;
    }

    /// Counts the rows of a watched relation from now on, between two transactions. Derives them again, which takes as long as it
    /// took to derive them first. `inputs` returns the rows of input tables. No accepted rows have too many derivations, so a
    /// failure is one of the engine.
    pub(crate) fn count_again(
        &mut self,
        id: RelationId,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<(), Refusal> {
        let at = id.0 as usize;
        let attributed = self.relations[at].split.attributed;
        let failed = Refusal::Uncounted(id);
        let derived = self.derived_rows(at, attributed, |_| true, inputs).map_err(|_| failed.clone())?;
        self.relations[at].count_again(derived, &self.symbols, &self.numbers).map_err(|_| failed)
    }

    /// Merges accepted changes with the rows before them. Meant for idle time.
    pub(crate) fn merge(&mut self) {
        for at in std::mem::take(&mut self.unmerged) {
            self.relations[at].counts.merge();
            self.relations[at].watch_counted(&self.symbols);
            self.indexed[at].iter().for_each(|index| self.indexes[*index].trace.merge());
        }
        for rule in std::mem::take(&mut self.unmerged_groups) {
            if let Some(groups) = &mut self.rules[rule].groups {
                groups.trace.merge();
            }
        }
    }

    /// The changes to report for derived tables. With `attribute`, a table with one rule names it.
    pub(crate) fn outputs(&self, changed: Changed, attribute: bool) -> Vec<Output> {
        let mut outputs = Vec::new();
        for (id, delta, report) in changed {
            let relation = &self.plan.relations[id.0 as usize];
            let Some(table) = relation.table.filter(|_| relation.wanted) else { continue };
            if self.is_derived(id) {
                let only = self.only_rule(table).filter(|_| attribute);
                outputs.push(Output::of_relation(table, delta, report, only));
            }
        }
        outputs
    }

    /// The rule that derives a table, if it is the only one.
    pub(super) fn only_rule(&self, table: TableId) -> Option<RuleId> {
        let mut rules = self.plan.program.rules_of(table).map(|(rule, _)| rule);
        match (rules.next(), rules.next()) {
            (Some(rule), None) => Some(rule),
            _ => None,
        }
    }

    /// Whether rules fill the relation.
    pub(crate) fn is_derived(&self, id: RelationId) -> bool {
        !self.plan.is_input(id)
    }

    /// The total work of all pipelines.
    pub(crate) fn load(&self) -> Load {
        let mut load = Load::default();
        let pipelines = self.rules.iter().flat_map(|rule| &rule.parts).flat_map(|part| &part.pipelines);
        for work in pipelines.map(|pipeline| &pipeline.work) {
            load.rows += work.rows;
            load.bindings += work.bindings;
            load.derived += work.derived;
            load.nanos += work.nanos;
        }
        load
    }

    /// Marks every symbol in use here, and clears the caches of expressions. Merges first: until then, rows that are
    /// gone hold their symbols.
    pub(crate) fn mark(&mut self, marks: &mut Marks) {
        self.merge();
        for index in &self.indexes {
            index.mark(marks);
        }
        for relation in &self.relations {
            relation.mark(marks);
        }
        for rule in &mut self.rules {
            if let Some(groups) = &mut rule.groups {
                groups.forget();
                groups.mark(marks);
            }
            for pipeline in rule.parts.iter_mut().flat_map(|part| &mut part.pipelines) {
                pipeline.forget();
                pipeline.constants(&mut |symbol| marks.symbol(symbol));
            }
        }
    }
}

/// Whether rows of the relation carry their rule: the relation is wanted and has several rules.
fn is_attributed(plan: &Plan, id: RelationId) -> bool {
    let relation = &plan.relations[id.0 as usize];
    relation.wanted && relation.table.is_some_and(|table| plan.program.rules_of(table).count() > 1)
}

/// The single row that pipelines without a starting atom begin with.
pub(crate) fn one_row() -> Delta {
    let mut one = Delta::new(0);
    one.push(&[], 1);
    one
}

#[cfg(test)]
mod tests {
    use nlog_plan::Keep;

    use super::*;
    use crate::symbol::Symbol;

    fn pass(table: RelationId, delta: Delta) -> Pass {
        Pass { changes: vec![(table, delta)], ..Pass::default() }
    }

    #[test]
    fn idle_time_merges_what_transactions_changed() {
        let text = "input table a(x: int, y: int); output table b(x: int); output table n(x: int, y: int);
            b(x) :- a(x, y), a(y, x); n(x, count(y)) :- a(x, y);";
        let sources = nlog::Sources::from_texts([("test.nlog", text)]);
        let program = nlog::compile(&sources).program.expect("it compiles");
        let a = RelationId(program.schema.find("a").expect("the test declares it").0);
        let wanted = program.schema.iter().map(|(id, _)| id).collect();
        let plan = Plan::new(program, &wanted, &nlog_plan::Settings::default());
        let mut state = State::new(Arc::new(plan), Arc::new(Symbols::new()), false);
        // The recent batches of counts, indexes and groups.
        let recent = |state: &State| {
            let counts = state.relations.iter().map(|relation| relation.counts.recent());
            let indexes = state.indexes.iter().map(|index| index.trace.recent());
            let groups = state.rules.iter().filter_map(|rule| rule.groups.as_ref());
            [counts.sum(), indexes.sum::<usize>(), groups.map(|groups| groups.trace.recent()).sum()]
        };
        for row in 1..4 {
            let mut delta = Delta::new(2);
            delta.push(&[row, row], 1);
            state.run(pass(a, delta), None).expect("nothing is refused");
            state.end(true);
        }
        assert!(recent(&state).iter().all(|batches| *batches > 0), "{:?}", recent(&state));
        state.merge();
        assert_eq!(recent(&state), [0, 0, 0]);
    }

    /// Runs transactions (rows of a table with two columns) through a rule that derives rows twice, as if the plan
    /// claimed the opposite.
    fn run_without_counts(transactions: &[&[[Symbol; 2]]]) {
        let text = "input table a(x: int, y: int); table b(x: int); output table c(x: int, z: int);
            b(x) :- a(x, y); c(x, z) :- b(x), b(z);";
        let sources = nlog::Sources::from_texts([("test.nlog", text)]);
        let program = nlog::compile(&sources).program.expect("it compiles");
        let find = |name| RelationId(program.schema.find(name).expect("the test declares it").0);
        let (a, b) = (find("a"), find("b"));
        let wanted = program.schema.iter().map(|(id, _)| id).collect();
        let mut plan = Plan::new(program, &wanted, &nlog_plan::Settings::default());
        assert_eq!(plan.relations[b.0 as usize].keep, Keep::Distinct);
        plan.relations[b.0 as usize].keep = Keep::AsIs;
        let mut state = State::new(Arc::new(plan), Arc::new(Symbols::new()), false);
        for rows in transactions {
            let mut delta = Delta::new(2);
            rows.iter().for_each(|row| delta.push(row, 1));
            state.run(pass(a, delta), None).expect("nothing is refused");
            state.end(true);
        }
    }

    #[test]
    #[should_panic(expected = "a row of b comes or goes twice at once")]
    fn a_row_that_is_not_counted_and_comes_twice_at_once_is_noticed() {
        run_without_counts(&[&[[1, 1], [1, 2]]]);
    }

    #[test]
    #[should_panic(expected = "a row of b is there twice")]
    fn a_row_that_is_not_counted_and_comes_again_is_noticed() {
        run_without_counts(&[&[[1, 1]], &[[1, 2]]]);
    }
}
