//! Re-planning: replaces a plan that was made before the rows arrived by one that fits the rows present.
//!
//! An engine starts with estimates of how many rows each table will hold. It re-plans in three situations:
//!
//! - Before a transaction that inserts most of the rows that the engine will then hold.
//! - When the plan no longer fits, and pipelines have touched enough rows since the last plan to justify the cost of a
//!   new one. A plan no longer fits if an input table has at least doubled or halved in size since it was counted, or
//!   if joins found several times as many bindings as estimated.
//! - Before a transaction that brings the first rows of a table unknown to the plan, if this awakens rules with many
//!   rows behind them. A rule touches nothing while one of its tables is empty, however many rows the others get, so
//!   the touched rows alone would not show that the plan is wrong.
//!
//! The cost of a plan is measured in touched rows: those of all input tables, which must be counted, and a fixed number
//! for each rule. It doubles each time that a re-plan leads to the same plan again.
//!
//! To re-plan, the engine counts its input tables, including the changes of the transaction, and makes a plan from
//! these statistics. It switches to the plan as it switches to edited rules (`live`), and keeps every trace that both
//! plans have. With several threads, it loads all inputs into a second set of workers instead.
//!
//! All decisions depend on counts and never on time, so a replay that is idle between the same transactions re-plans
//! at the same ones. Results never depend on the plan.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{ColumnTransaction, Columns, CommitError, Role, Schema, TableId, Transaction};
use nlog_plan::query::{Pipeline as PipelinePlan, Plan, RelationId, RulePlan, Step};
use nlog_plan::{Counter, Settings, Statistics, TableStatistics};

use super::core::{COLLECT_IDLE, Core, wanted};
use super::delta::Delta;
use super::engine::{Pass, State};
use super::fault::{Fault, inject};
use super::inputs::{Changes, Inputs};
use super::pipeline::Work;
use super::workers::{Changed, Load, Workers};
use super::{live, output};
use crate::carrier::Lost;
use crate::symbol::Symbols;

/// Plan before running a transaction of at least this many rows. Below it, any plan is fast enough.
pub(crate) const WORTH_PLANNING: usize = 10_000;

/// Plan for a transaction if it inserts at least this many times the rows present.
const MOST_OF_ALL: usize = 4;

/// The cost of planning one rule, in touched rows. Measured: 50 to 200 µs to plan a rule, 0.1 µs to touch a row.
/// [`Options::plan_anew_from`](crate::Options::plan_anew_from) caps the cost, so that tests can make an engine re-plan
/// at every transaction.
const ROWS_PER_RULE: u64 = 1_000;

/// In idle time, consider re-planning once the work since the last plan reaches 1/16 of the cost of planning.
const IDLE: u64 = 16;

/// Before a transaction, wait until the work reaches 1/4 of the cost. Idle time comes first, because planning then
/// delays nobody.
pub(super) const BUSY: u64 = 4;

/// Re-plan at once if the rows behind awakened rules reach 1/16 of the cost of planning. These rows were not touched
/// while a table was empty, and now they are all joined at once.
const AWOKEN: u64 = 16;

/// An input table has outgrown its statistics if its number of rows has changed by at least this factor.
const OUTGROWN: u64 = 2;

/// A table of at most this many rows, now and when it was counted, never outgrows its statistics.
const FEW: u64 = 16;

/// Joins are misjudged if they touch more than this many times the rows that were estimated.
const MISJUDGED: f64 = 4.0;

/// The state from which an engine decides when to re-plan.
#[derive(Debug, Default)]
pub(super) struct Planning {
    /// The statistics behind the current plan, if the engine collected them itself.
    pub(super) learned: Option<Arc<Statistics>>,
    /// Skip the check of the plan while the touched rows are fewer than the required fraction of this cost.
    look_at: u64,
    /// The number of consecutive re-plans that produced the same plan. Each one doubles the cost of the next.
    same: u32,
    /// By worker, the work under earlier plans that the counters of the current pipelines do not include.
    pub(super) done: Vec<Load>,
}

impl Core {
    /// Merges what transactions changed; re-plans and collects unused symbols, if that is due. The caller has time to spare:
    /// no transaction waits. Returns whether the engine switched to another plan.
    pub(crate) async fn idle(&mut self) -> Result<bool, CommitError> {
        self.guarded(async |engine| {
            let differs = engine.plan_if_due(IDLE, None).await?;
            engine.share_work_again().await?;
            // The others merge while this worker does.
            if engine.sharing().is_some_and(|workers| workers.merge().is_err()) {
                return Err(engine.lost());
            }
            engine.state.merge();
            engine.collect_symbols(COLLECT_IDLE).await?;
            Ok(differs)
        })
        .await
    }

    /// Plans the program with these settings and switches to the new plan. Returns whether the engine switched.
    ///
    /// Results do not change. The engine keeps its plan if the new one would run identically or cannot be run.
    pub(crate) async fn replan(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.guarded(async |engine| engine.plan_by(planning).await).await
    }

    async fn plan_by(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.phase = "planning anew";
        let program = Arc::clone(self.program());
        let plan = Arc::new(Plan::new(Arc::clone(&program), &wanted(&program, &self.options), planning));
        inject(Fault::Planning);
        if plan.is_run_like(&self.state.plan) {
            // The new plan runs identically; only its estimates differ.
            self.state.plan = plan;
            self.state.begin_measuring();
            return Ok(false);
        }
        if self.shares || !self.facts {
            return self.load_anew(&plan, self.workers.is_some()).await;
        }
        let loads = self.loads().await?;
        let gone_over = self.go_over_to(&plan);
        if gone_over {
            self.adopt(loads).await?;
        }
        Ok(gone_over)
    }

    /// Goes over to one worker, since an edit of rules takes the state of one.
    pub(super) async fn work_alone(&mut self) -> Result<(), CommitError> {
        self.phase = "loading all rows into one worker";
        let plan = Arc::clone(&self.state.plan);
        if self.shares && !self.load_anew(&plan, false).await? {
            return Err(CommitError::Engine("all rows could not be loaded into one worker".to_owned()));
        }
        Ok(())
    }

    /// Lets the others have their parts of the rows, at first and after edits of rules.
    pub(crate) async fn share_work_again(&mut self) -> Result<(), CommitError> {
        if self.workers.is_some() && !self.shares {
            self.phase = "loading all rows into several workers";
            let plan = Arc::clone(&self.state.plan);
            self.load_anew(&plan, true).await?;
        }
        Ok(())
    }

    /// Loads all inputs into an empty state with this plan, of all workers or of worker 0 alone. Returns whether that succeeded; if
    /// not, nothing changed.
    async fn load_anew(&mut self, plan: &Arc<Plan>, share: bool) -> Result<bool, CommitError> {
        let loads = self.loads().await?;
        let loaded = self.load_into(plan, share).await?.is_some();
        if loaded {
            self.adopt(loads).await?;
        }
        Ok(loaded)
    }

    /// Begins to measure the work of new pipelines. `loads` is the work of all before.
    pub(super) async fn adopt(&mut self, loads: Vec<Load>) -> Result<(), CommitError> {
        self.gone = true;
        self.state.begin_measuring();
        self.keep_loads(loads).await
    }

    /// Switches to another plan of the same program in place. Returns whether that succeeded.
    fn go_over_to(&mut self, plan: &Arc<Plan>) -> bool {
        let empty = State::new(Arc::clone(plan), Arc::clone(&self.state.symbols), false);
        let old = std::mem::replace(&mut self.state, empty);
        let inputs = &self.inputs;
        let rows = |table: TableId| inputs.rows(table);
        let (mut new, former, result) = live::change(
            old,
            (Arc::clone(plan), None, None),
            self.options.attribute,
            self.facts,
            &rows,
            &rows,
            None,
        );
        // All plans of a program derive the same rows. If this one does not, keep the current state.
        let mut reported = new.take_changed();
        reported.retain(|(id, _, _)| plan.relations[id.0 as usize].wanted);
        let is_same = result.is_ok() && reported.is_empty();
        debug_assert!(result.is_err() || is_same, "another plan derives other rows");
        new.end(is_same);
        self.state = if is_same { former.accept(new) } else { former.restore(new) };
        is_same
    }

    /// Loads all inputs into an empty state, which replaces the present one once they have been loaded. Returns the rows
    /// that were derived, or `None` if they could not be, and nothing changed.
    pub(super) async fn load_into(
        &mut self,
        plan: &Arc<Plan>,
        share: bool,
    ) -> Result<Option<Changed>, CommitError> {
        let (symbols, attribute) = (Arc::clone(&self.state.symbols), self.options.attribute);
        let workers = self.workers.clone().filter(|_| share);
        let state = match &workers {
            None => Ok(State::new(Arc::clone(plan), symbols, attribute)),
            Some(workers) => workers.plan(plan, &symbols, attribute),
        };
        let Ok(mut state) = state else { return Err(self.lost()) };
        let loaded = self.load(&mut state, workers.as_ref()).await;
        let Ok(changed) = loaded else { return Err(self.lost()) };
        let told = match (&workers, self.sharing()) {
            (Some(workers), _) => workers.keep(changed.is_some()),
            (None, Some(others)) if changed.is_some() => others.rest(),
            _ => Ok(()),
        };
        if told.is_err() {
            return Err(self.lost());
        }
        if changed.is_some() {
            (self.state, self.shares) = (state, share);
        }
        Ok(changed)
    }

    /// Loads all inputs into an empty state. Returns the rows that were derived, or `None` if they could not be.
    async fn load(&self, state: &mut State, workers: Option<&Workers>) -> Result<Option<Changed>, Lost> {
        if !self.facts {
            return Ok(Some(Changed::new()));
        }
        let plan = Arc::clone(&state.plan);
        let needed = self.schema_inputs().into_iter().filter(|table| plan.relations[table.0 as usize].needed);
        let rows = needed.map(|table| (RelationId(table.0), self.inputs.rows(table)));
        let rows: Vec<(RelationId, Delta)> = rows.filter(|(_, rows)| !rows.is_empty()).collect();
        // The tables that hooks fill are among the inputs.
        let pass = Pass { changes: rows, facts: true, hooks: None };
        let ran = match workers {
            // A mistake of the new plan leaves the present state as it is.
            None => catch_unwind(AssertUnwindSafe(|| state.run(pass, None))).ok().transpose().ok().flatten(),
            Some(workers) => workers.run(state, pass, None).await?.ok(),
        };
        if ran.is_some() {
            state.end(true);
        }
        if let Some(workers) = workers {
            workers.end(ran.is_some())?;
        }
        Ok(ran)
    }

    pub(super) fn schema_inputs(&self) -> Vec<TableId> {
        let schema = &self.state.plan.program.schema;
        schema.iter().filter(|(_, table)| table.role == Role::Input).map(|(id, _)| id).collect()
    }

    /// Carries over the work under earlier plans, so that the loads of workers never decrease.
    async fn keep_loads(&mut self, before: Vec<Load>) -> Result<(), CommitError> {
        self.planning.done.clear();
        let now = self.loads().await?;
        let rest = before.into_iter().enumerate().map(|(worker, before)| {
            // Workers that are no longer there may come back.
            let now = now.get(worker).copied().unwrap_or_default();
            Load {
                rows: before.rows.saturating_sub(now.rows),
                bindings: before.bindings.saturating_sub(now.bindings),
                derived: before.derived.saturating_sub(now.derived),
                nanos: before.nanos.saturating_sub(now.nanos),
            }
        });
        self.planning.done = rest.collect();
        Ok(())
    }

    /// Whether the engine chooses its own plans: the caller gave it neither statistics nor a plan.
    fn plans_by_itself(&self) -> bool {
        let planning = &self.options.planning;
        self.options.plan_anew_from < usize::MAX && planning.statistics.is_none() && planning.pinned.is_none()
    }

    async fn replan_by(&mut self, statistics: Statistics) -> Result<bool, CommitError> {
        let statistics = Arc::new(statistics);
        let settings =
            Settings { statistics: Some(Arc::clone(&statistics)), ..self.options.planning.clone() };
        let differs = self.plan_by(&settings).await?;
        self.planning.learned = Some(statistics);
        self.planning.look_at = 0;
        Ok(differs)
    }

    /// Plans for a transaction if it inserts most of the rows that there will be. `count` computes the statistics of
    /// its inserted rows.
    async fn plan_before(
        &mut self,
        rows: usize,
        count: impl FnOnce(&Counter, &Schema) -> Vec<(TableId, TableStatistics)>,
    ) -> Result<(), CommitError> {
        if rows < self.options.plan_anew_from
            || !self.plans_by_itself()
            || !is_most_of_all(rows, self.inputs.total())
        {
            return Ok(());
        }
        let counted = count(&Counter::new(self.program()), self.state.plan.program.schema.as_ref());
        // Leave tables without rows out of the statistics: they may get rows later.
        let mut statistics = self.statistics();
        let schema = &self.state.plan.program.schema;
        statistics
            .tables
            .extend(counted.into_iter().map(|(table, counted)| (schema.table(table).name.clone(), counted)));
        self.replan_by(statistics).await.map(drop)
    }

    /// Calls [`Core::plan_before`] for a transaction given as rows.
    pub(super) async fn plan_for(&mut self, transaction: &Transaction) -> Result<(), CommitError> {
        let rows = transaction.insert.values().map(Vec::len).sum();
        self.plan_before(rows, |counter, schema| {
            let fit = transaction.insert.iter().filter(|(table, _)| schema.get(**table).is_some());
            // Ignore rows that do not fit their table; the commit refuses them.
            let columns = fit.filter_map(|(table, rows)| Some((*table, Columns::from_rows(rows).ok()?)));
            columns.map(|(table, columns)| (table, counter.count(table, &columns))).collect()
        })
        .await
    }

    /// Calls [`Core::plan_before`] for a transaction given as columns.
    pub(super) async fn plan_for_columns(
        &mut self,
        transaction: &ColumnTransaction,
    ) -> Result<(), CommitError> {
        let rows = transaction.insert.values().map(Columns::len).sum();
        self.plan_before(rows, |counter, schema| {
            let fit = transaction.insert.iter().filter(|(table, _)| schema.get(**table).is_some());
            fit.map(|(table, rows)| (*table, counter.count(*table, rows))).collect()
        })
        .await
    }

    fn statistics(&self) -> Statistics {
        statistics(self.program(), &self.inputs, &self.state.symbols)
    }

    /// Re-plans for the rows present if that is due. `running` has changes that inputs have stored and rules have not
    /// processed yet. Returns whether the engine switched to another plan.
    pub(super) async fn plan_if_due(
        &mut self,
        part: u64,
        running: Option<&Changes>,
    ) -> Result<bool, CommitError> {
        if !self.plans_by_itself() || !self.is_due(part, running) {
            return Ok(false);
        }
        let statistics = self.statistics();
        // The switch must read the rows that the rules have processed, without the running changes.
        if let Some(changes) = running {
            self.inputs.undo(changes);
        }
        let differs = self.replan_by(statistics).await?;
        if let Some(changes) = running {
            self.inputs.redo(changes);
        }
        self.planning.same = if differs { 0 } else { self.planning.same + 1 };
        Ok(differs)
    }

    /// Whether to re-plan: the work since the last plan has reached `1 / part` of the cost of planning and the plan no
    /// longer fits, or the running changes awaken rules for which the engine never planned.
    fn is_due(&mut self, part: u64, running: Option<&Changes>) -> bool {
        let awoken = running.map_or(0, |changes| self.awoken(changes));
        if awoken == 0 && self.state.touched < self.planning.look_at / part {
            return false;
        }
        let rules = self.state.plan.rules.len() as u64;
        let per_rule = ROWS_PER_RULE.min(self.options.plan_anew_from as u64);
        let price = (self.inputs.total() as u64 + per_rule * rules) << self.planning.same.min(32);
        if awoken > 0 && awoken >= price / AWOKEN {
            return true;
        }
        if self.state.touched < price / part {
            self.planning.look_at = price;
            return false;
        }
        let fits = !self.is_outgrown() && !self.state.is_misjudged();
        if fits {
            self.planning.look_at = part * (self.state.touched + price / BUSY);
        }
        !fits
    }

    /// The number of rows behind rules that the changes awaken. A rule awakens if none of its tables is empty any more,
    /// and one of them either gets its first rows and is unknown to the plan, or is filled only by rules that awaken as
    /// well.
    fn awoken(&self, changes: &Changes) -> u64 {
        let plan = &self.state.plan;
        let learned = self.planning.learned.as_ref();
        let is_new = |table: TableId| {
            let change = changes.tables.get(&table);
            let is_first =
                change.is_some_and(|delta| delta.len() == self.inputs.len(table) && !delta.has_gone());
            let name = &plan.program.schema.table(table).name;
            // The plan expects rows of a table that a hook fills.
            let is_first = is_first && self.state.filled_by[table.0 as usize].is_none();
            is_first && !learned.is_some_and(|learned| learned.tables.contains_key(name))
        };
        if !changes.tables.keys().any(|table| is_new(*table)) {
            return 0;
        }
        // The size of a derived table is unknown. The largest input behind it stands in for it.
        let mut rows = vec![0; plan.relations.len()];
        let mut slept = vec![true; plan.relations.len()];
        for table in self.schema_inputs() {
            rows[table.0 as usize] = self.inputs.len(table) as u64;
            slept[table.0 as usize] = is_new(table);
        }
        let mut rules: Vec<&RulePlan> = plan.rules.iter().collect();
        rules.sort_by_key(|rule| plan.relations[rule.head.0 as usize].level);
        let mut awoken = 0;
        for rule in rules {
            let atoms = || rule.body.atoms.iter().map(|atom| atom.0 as usize);
            if atoms().any(|atom| rows[atom] == 0) {
                continue;
            }
            let head = rule.head.0 as usize;
            rows[head] = atoms().map(|atom| rows[atom]).fold(rows[head].max(1), u64::max);
            if atoms().any(|atom| slept[atom]) {
                awoken += atoms().map(|atom| rows[atom]).sum::<u64>();
            } else {
                slept[head] = false;
            }
        }
        awoken
    }

    /// Whether an input table has far more or far fewer rows than its statistics say.
    ///
    /// A table that a hook fills counts only if it was counted itself. The plan before estimated it from the hook's source, often from
    /// assumptions about tables that are still empty, and the rows behind it are those of other inputs.
    fn is_outgrown(&self) -> bool {
        let schema = &self.state.plan.program.schema;
        let tables = self.schema_inputs().into_iter();
        tables.map(|table| (table, &schema.table(table).name)).any(|(table, name)| {
            let counted = self.planning.learned.as_ref().and_then(|learned| learned.tables.get(name));
            if counted.is_none() && self.state.filled_by[table.0 as usize].is_some() {
                return false;
            }
            let (now, then) = (self.inputs.len(table) as u64, counted.map_or(0, |counted| counted.rows));
            now.max(then) > FEW && now.max(then) >= OUTGROWN * now.min(then)
        })
    }
}

/// Whether a transaction that inserts `rows` brings most of the rows that there will be.
pub(crate) fn is_most_of_all(rows: usize, before: usize) -> bool {
    before * MOST_OF_ALL <= rows
}

/// The statistics of all input tables that have rows.
pub(crate) fn statistics(program: &Arc<Program>, inputs: &Inputs, symbols: &Symbols) -> Statistics {
    let counter = Counter::new(program);
    let filled = program.schema.iter().filter(|(id, table)| table.role == Role::Input && inputs.len(*id) > 0);
    let counted = filled.map(|(id, table)| {
        let rows = output::columns_of(&inputs.rows(id), symbols);
        (table.name.clone(), counter.count(id, &rows))
    });
    Statistics { tables: counted.collect() }
}

impl State {
    /// Starts to compare the work of pipelines with the plan's estimates.
    fn begin_measuring(&mut self) {
        self.touched = 0;
        for pipeline in
            self.rules.iter_mut().flat_map(|rule| &mut rule.parts).flat_map(|part| &mut part.pipelines)
        {
            pipeline.measured_from = pipeline.work;
        }
    }

    /// Whether joins have found far more bindings than estimated.
    fn is_misjudged(&self) -> bool {
        let (mut found, mut expected) = (0.0, 0.0);
        for (rule, of_plan) in self.rules.iter().zip(&self.plan.rules) {
            let joins = std::iter::once(&of_plan.body).chain(&of_plan.failures);
            for (part, joins) in rule.parts.iter().zip(joins) {
                for (pipeline, of_plan) in part.pipelines.iter().zip(&joins.pipelines) {
                    let Work { rows, bindings, .. } = pipeline.measured_from;
                    let rows = (pipeline.work.rows - rows) as f64;
                    found += rows + (pipeline.work.bindings - bindings) as f64;
                    expected += rows * (1.0 + bindings_of(of_plan));
                }
            }
        }
        found * self.placement.peers as f64 > MISJUDGED * expected
    }
}

/// The estimated number of bindings that a pipeline's probes find for each row that it starts with.
fn bindings_of(pipeline: &PipelinePlan) -> f64 {
    let probes = pipeline.steps.iter().filter_map(|step| match step {
        Step::Probe(probe) => Some(probe.bindings),
        _ => None,
    });
    probes.sum()
}
