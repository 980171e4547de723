//! Planning anew: a plan for the rows that are there takes the place of one that was made before they came.
//!
//! An engine starts with estimates. It plans anew before a transaction that has most of the rows to come, and later
//! when the rows that pipelines touched have paid for it and the plan does not fit any more: an input table has
//! outgrown (or lost) the number of rows that it had when it was counted, or joins found several times as many
//! bindings as was estimated. While one of its tables is empty, a rule touches nothing, however many rows the others
//! get. So the engine also plans anew before a transaction that brings the first rows of a table that the plan knows
//! nothing of, if many rows are behind the rules that can derive rows from then on.
//!
//! To plan anew, input tables are counted again, with the changes of the transaction, and the engine goes over to the
//! new plan as it goes over to edited rules (`live`), which keeps every trace that both plans have. With several threads
//! all inputs are loaded into a second set of workers. Processes keep the plan that they met with.
//!
//! Everything here is counted, nothing is timed, so that a replay plans anew at the same transactions. Results never
//! depend on the plan.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog_data::{ColumnTransaction, Columns, CommitError, Role, Row, Schema, TableId, Transaction};
use nlog_plan::query::{Pipeline as PipelinePlan, Plan, RelationId, RulePlan, Step};
use nlog_plan::{Counter, Settings, Statistics, TableStatistics};

use super::delta::Delta;
use super::engine::State;
use super::fault::{Fault, inject};
use super::inputs::Changes;
use super::pipeline::Work;
use super::workers::{Load, Workers};
use super::{Engine, live, output, start_plan, wanted};

/// From so many rows on a transaction is worth a plan before it runs: below, any plan will do.
pub(crate) const WORTH_PLANNING: usize = 10_000;

/// A transaction is planned for if it has so many times the rows that are there.
const MOST_OF_ALL: usize = 4;

/// Planning a rule takes about as long as touching so many rows (measured: 50 to 200 µs, and 0.1 µs for a row). At most
/// as many as are worth a plan by the engine's options, so that tests can have engines that plan at every turn.
const ROWS_PER_RULE: u64 = 1_000;

/// What part of its price the work since the last plan has to come to before a new one is made in idle time.
const IDLE: u64 = 16;

/// The same before a transaction: an idle engine comes first.
pub(super) const BUSY: u64 = 4;

/// What part of its price the rows behind rules that awaken have to come to: nothing of them was touched while a table
/// was empty, and now they are joined at once.
const AWOKEN: u64 = 16;

/// A table is counted anew when it has so many times the rows that were counted, or so many times fewer.
const OUTGROWN: u64 = 2;

/// Tables of up to so many rows are too small to outgrow anything.
const FEW: u64 = 16;

/// Joins are misjudged when they find so many times the bindings that were estimated.
const MISJUDGED: f64 = 4.0;

/// When, and by what, an engine plans anew.
#[derive(Debug, Default)]
pub(super) struct Planning {
    /// The figures of the plan that is run, if the engine counted them.
    pub(super) learned: Option<Statistics>,
    /// The price from a part of which on it is worth looking whether the plan still fits.
    look_at: u64,
    /// How many times in a row the same plan came out, as a power of two.
    same: u32,
    /// What workers did under earlier plans and no pipeline of this plan counts.
    pub(super) done: Vec<Load>,
}

impl Engine {
    /// Uses time in which no transaction waits: plans anew if that is due; whether the engine went over to another
    /// plan.
    pub fn idle(&mut self) -> Result<bool, CommitError> {
        self.guarded(|engine| engine.plan_if_due(IDLE, None))
    }

    /// Plans the program anew by these settings and goes over to the plan; whether it differs from the one before.
    ///
    /// Results do not change, and if the other plan cannot be run the engine keeps the one that it has. An engine that
    /// shares its work with other processes always does.
    pub fn replan(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.guarded(|engine| engine.plan_by(planning))
    }

    fn plan_by(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.phase = "planning anew";
        if self.workers.as_ref().is_some_and(Workers::have_own_symbols) {
            return Ok(false);
        }
        let program = Arc::clone(self.program());
        let plan = Arc::new(Plan::new(Arc::clone(&program), &wanted(&program, &self.options), planning));
        inject(Fault::Planning);
        if plan.is_run_like(&self.state.plan) {
            // Only its estimates are others.
            self.state.plan = plan;
            self.state.begin_measuring();
            return Ok(false);
        }
        let loads = self.loads()?;
        // What fails beside the state that is there costs nothing but the other plan.
        let gone_over = if self.workers.is_some() || !self.facts {
            catch_unwind(AssertUnwindSafe(|| self.load_into(&plan))).unwrap_or(false)
        } else {
            self.go_over_to(&plan)
        };
        if gone_over {
            self.gone = true;
            self.state.begin_measuring();
            self.keep_loads(loads)?;
        }
        Ok(gone_over)
    }

    /// Goes over to another plan of the same program in place.
    fn go_over_to(&mut self, plan: &Arc<Plan>) -> bool {
        let empty = State::new(Arc::clone(plan), Arc::clone(&self.state.symbols), false);
        let old = std::mem::replace(&mut self.state, empty);
        let inputs = &self.inputs;
        let rows = |table: TableId| inputs.rows(table);
        let (mut new, former, result) =
            live::change(old, Arc::clone(plan), self.options.attribute, self.facts, &rows, &rows);
        // Another plan derives the same tables. If it did not, the engine would rather keep what it has.
        let mut reported = new.take_changed();
        reported.retain(|(id, _, _)| plan.relations[id.0 as usize].wanted);
        let is_same = result.is_ok() && reported.is_empty();
        debug_assert!(result.is_err() || is_same, "another plan derives other rows");
        new.end(is_same);
        self.state = if is_same { former.accept(new) } else { former.restore(new) };
        is_same
    }

    /// Goes over to another plan by loading all inputs into workers of its own.
    fn load_into(&mut self, plan: &Arc<Plan>) -> bool {
        let symbols = Arc::clone(&self.state.symbols);
        let Ok((mut state, mut workers)) = start_plan(Arc::clone(plan), symbols, &self.options) else {
            return false;
        };
        if self.facts {
            let inputs = self.schema_inputs();
            let needed = inputs.into_iter().filter(|table| plan.relations[table.0 as usize].needed);
            let rows = needed.map(|table| (RelationId(table.0), self.inputs.rows(table)));
            let rows: Vec<(RelationId, Delta)> = rows.filter(|(_, rows)| !rows.is_empty()).collect();
            let ran = match &mut workers {
                None => Ok(state.run(rows, true)),
                Some(workers) => workers.run(&mut state, rows, true),
            };
            if !matches!(ran, Ok(Ok(_))) {
                return false;
            }
            state.end(true);
            if workers.as_mut().is_some_and(|workers| workers.end(true).is_err()) {
                return false;
            }
        }
        (self.state, self.workers) = (state, workers);
        true
    }

    fn schema_inputs(&self) -> Vec<TableId> {
        let schema = &self.state.plan.program.schema;
        schema.iter().filter(|(_, table)| table.role == Role::Input).map(|(id, _)| id).collect()
    }

    /// What was done before counts further.
    fn keep_loads(&mut self, before: Vec<Load>) -> Result<(), CommitError> {
        self.planning.done.clear();
        let now = self.loads()?;
        let rest = before.into_iter().zip(now).map(|(before, now)| Load {
            rows: before.rows.saturating_sub(now.rows),
            bindings: before.bindings.saturating_sub(now.bindings),
            derived: before.derived.saturating_sub(now.derived),
            nanos: before.nanos.saturating_sub(now.nanos),
        });
        self.planning.done = rest.collect();
        Ok(())
    }

    /// Whether the engine may choose its plan: nobody told it figures or a plan.
    fn plans_by_itself(&self) -> bool {
        let planning = &self.options.planning;
        self.options.plan_anew_from < usize::MAX
            && planning.statistics.is_none()
            && planning.pinned.is_none()
            // Other processes have made the plan that they met with.
            && !self.workers.as_ref().is_some_and(Workers::have_own_symbols)
    }

    fn replan_by(&mut self, statistics: Statistics) -> Result<bool, CommitError> {
        let settings = Settings { statistics: Some(statistics.clone()), ..self.options.planning.clone() };
        let differs = self.replan(&settings)?;
        self.planning.learned = Some(statistics);
        self.planning.look_at = 0;
        Ok(differs)
    }

    /// Plans for a transaction if it has most of the rows that there will be. `count` gives the figures of the rows that
    /// it inserts.
    fn plan_before(
        &mut self,
        rows: usize,
        count: impl FnOnce(&Counter, &Schema) -> Vec<(TableId, TableStatistics)>,
    ) -> Result<(), CommitError> {
        if rows < self.options.plan_anew_from
            || !self.plans_by_itself()
            || self.inputs.total() * MOST_OF_ALL > rows
        {
            return Ok(());
        }
        let counted = count(&Counter::new(self.program()), self.state.plan.program.schema.as_ref());
        // Of tables that are missing nothing is said: they may get their rows later.
        let mut statistics = self.statistics();
        let schema = &self.state.plan.program.schema;
        statistics
            .tables
            .extend(counted.into_iter().map(|(table, counted)| (schema.table(table).name.clone(), counted)));
        self.replan_by(statistics).map(drop)
    }

    /// The same for rows.
    pub(super) fn plan_for(&mut self, transactions: &[Transaction]) -> Result<(), CommitError> {
        let all = || transactions.iter().flat_map(|transaction| &transaction.insert);
        let rows = all().map(|(_, rows)| rows.len()).sum();
        self.plan_before(rows, |counter, schema| {
            let mut parts: BTreeMap<TableId, Vec<&[Row]>> = BTreeMap::new();
            for (table, rows) in all().filter(|(table, _)| schema.get(**table).is_some()) {
                parts.entry(*table).or_default().push(rows);
            }
            let counted = parts.into_iter().filter_map(|(table, parts)| {
                let columns = match parts[..] {
                    [rows] => Columns::from_rows(rows),
                    _ => Columns::from_rows(&parts.concat()),
                };
                // Rows that do not fit are refused later.
                Some((table, counter.count(table, &columns.ok()?)))
            });
            counted.collect()
        })
    }

    /// The same for columns.
    pub(super) fn plan_for_columns(&mut self, transaction: &ColumnTransaction) -> Result<(), CommitError> {
        let rows = transaction.insert.values().map(Columns::len).sum();
        self.plan_before(rows, |counter, schema| {
            let fit = transaction.insert.iter().filter(|(table, _)| schema.get(**table).is_some());
            fit.map(|(table, rows)| (*table, counter.count(*table, rows))).collect()
        })
    }

    /// The figures of input tables that have rows.
    fn statistics(&self) -> Statistics {
        let counter = Counter::new(self.program());
        let schema = &self.state.plan.program.schema;
        let filled = self.schema_inputs().into_iter().filter(|table| self.inputs.len(*table) > 0);
        let counted = filled.map(|table| {
            let rows = output::columns_of(&self.inputs.rows(table), &self.state.symbols);
            (schema.table(table).name.clone(), counter.count(table, &rows))
        });
        Statistics { tables: counted.collect() }
    }

    /// Plans anew, by the rows of inputs, if that is due. `running`: changes that inputs have taken and rules have not.
    pub(super) fn plan_if_due(&mut self, part: u64, running: Option<&Changes>) -> Result<bool, CommitError> {
        if !self.plans_by_itself() || !self.is_due(part, running) {
            return Ok(false);
        }
        let statistics = self.statistics();
        // Going over to another plan reads the rows that rules have seen.
        if let Some(changes) = running {
            self.inputs.undo(changes);
        }
        let differs = self.replan_by(statistics)?;
        if let Some(changes) = running {
            self.inputs.redo(changes);
        }
        self.planning.same = if differs { 0 } else { self.planning.same + 1 };
        Ok(differs)
    }

    /// Whether the work since the last plan is a `part` of what a plan costs, and the plan does not fit any more; or the
    /// running changes awaken rules for which nobody planned.
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

    /// The rows of inputs behind rules that can derive rows from now on, since tables of which the plan knows nothing
    /// get their first rows.
    fn awoken(&self, changes: &Changes) -> u64 {
        let plan = &self.state.plan;
        let learned = self.planning.learned.as_ref();
        let is_new = |table: TableId| {
            let change = changes.tables.get(&table);
            let is_first =
                change.is_some_and(|delta| delta.len() == self.inputs.len(table) && !delta.has_gone());
            let name = &plan.program.schema.table(table).name;
            is_first && !learned.is_some_and(|learned| learned.tables.contains_key(name))
        };
        if !changes.tables.keys().any(|table| is_new(*table)) {
            return 0;
        }
        // Of a table that rules fill, the most rows of an input behind it stand for its own.
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

    /// Whether an input table has far more or far fewer rows than when it was counted.
    fn is_outgrown(&self) -> bool {
        let schema = &self.state.plan.program.schema;
        self.schema_inputs().into_iter().any(|table| {
            let learned = self.planning.learned.as_ref();
            let counted = learned.and_then(|learned| learned.tables.get(&schema.table(table).name));
            let (now, then) = (self.inputs.len(table) as u64, counted.map_or(0, |counted| counted.rows));
            now.max(then) > FEW && now.max(then) >= OUTGROWN * now.min(then)
        })
    }
}

impl State {
    /// What pipelines do is compared with the plan's estimates from now on.
    fn begin_measuring(&mut self) {
        self.touched = 0;
        for pipeline in
            self.rules.iter_mut().flat_map(|rule| &mut rule.parts).flat_map(|part| &mut part.pipelines)
        {
            pipeline.measured_from = pipeline.work;
        }
    }

    /// Whether joins have found far more bindings than was estimated.
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

/// How many bindings a pipeline's probes are thought to find for each row that it begins with.
fn bindings_of(pipeline: &PipelinePlan) -> f64 {
    let probes = pipeline.steps.iter().filter_map(|step| match step {
        Step::Probe(probe) => Some(probe.bindings),
        _ => None,
    });
    probes.sum()
}
