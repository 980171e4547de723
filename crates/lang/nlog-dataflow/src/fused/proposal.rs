//! Proposals: a new program for a running engine, whose effect can be inspected before it is accepted.
//!
//! A proposal derives and stages the effect of the new program. Accepting it makes the staged state permanent. Dropping
//! it restores the previous program. A proposal borrows the engine, so no transaction can run in between.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{ColumnDelta, CommitError, Committed, Role, Schema, TableId};
use nlog_plan::query::{Plan, RelationId};

use super::bounded::Running;
use super::core::Core;
use super::delta::Delta;
use super::engine::State;
use super::errors::Refusal;
use super::fault::{Fault, inject};
use super::hooks::{Filling, Hooks, Moved};
use super::inputs::Inputs;
use super::live;
use super::output::Output;
use super::raw_delta::RawDelta;
use super::workers::Workers;
use crate::dataflow::Options;
use crate::panic::now;

/// A change of rules whose effect is derived but not yet accepted. Dropping it discards the change.
pub struct Proposal<'a> {
    engine: &'a mut Core,
    former: Option<Former>,
    outputs: Vec<Output>,
    options: Options,
}

/// What a change of rules leaves behind, and takes to be undone.
struct Former {
    state: live::Former,
    /// The rows of input tables that the new program lacks.
    inputs: Inputs,
    hooks: Hooks,
    moved: Moved,
}

/// Why an engine cannot change to another program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// An input table has rows, and the new program declares the table differently.
    #[error(
        "input table {table} has {rows} rows, and the new program changes its columns or its key; delete \
        the rows before changing the declaration"
    )]
    Input {
        /// The name of the table.
        table: String,
        /// The number of its rows.
        rows: usize,
    },
    /// An input table has rows, and the new program lets a hook fill it.
    #[error(
        "input table {table} has {rows} rows, and the new program lets a hook fill it; delete the rows before"
    )]
    Filled {
        /// The name of the table.
        table: String,
        /// The number of its rows.
        rows: usize,
    },
    /// Several processes share the work, and the others have the program with which they started.
    #[error(
        "rules cannot change while several processes share the work; start all with the new program, or one alone"
    )]
    Processes,
    /// The rows derived by the new rules cause an error, or the engine failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Why a change of rules did not take place.
enum NotChanged {
    /// This relation was watched and needs counts first.
    Uncounted(String),
    Commit(CommitError),
}

impl Core {
    /// Derives the effect of changing to another program, without making the change permanent. Rules and tables may be
    /// added, removed or changed.
    ///
    /// Input tables keep their rows by name. Accepting the proposal deletes the rows of input tables that the new
    /// program lacks. Only the effects of the edit are computed, from the existing traces. The delta covers the new
    /// program's tables that `options` observe. It reports all rows of a new table as inserted.
    ///
    /// Several threads first load all rows into one worker. They share the work again after idle time. The bound of the next
    /// transaction is the bound of the edit.
    pub(crate) async fn propose(
        &mut self,
        program: Arc<Program>,
        options: &Options,
    ) -> Result<Proposal<'_>, ChangeError> {
        self.is_sound()?;
        self.check_inputs(&program)?;
        if self.workers.as_ref().is_some_and(Workers::are_elsewhere) {
            return Err(ChangeError::Processes);
        }
        let changed = self
            .guarded(async |engine| {
                engine.work_alone().await?;
                loop {
                    match engine.change(&program, options) {
                        Err(NotChanged::Uncounted(name)) => engine.count_by_name(&name).await?,
                        Err(NotChanged::Commit(error)) => return Err(error),
                        Ok(changed) => return Ok(changed),
                    }
                }
            })
            .await;
        self.bound = None;
        let (former, outputs) = changed?;
        Ok(Proposal { engine: self, former: Some(former), outputs, options: options.clone() })
    }

    /// Switches to another program. The caller then accepts the change or takes it back.
    fn change(
        &mut self,
        program: &Arc<Program>,
        options: &Options,
    ) -> Result<(Former, Vec<Output>), NotChanged> {
        self.phase = "changing rules";
        let ids = program.schema.iter().map(|(id, _)| id);
        let wanted: BTreeSet<TableId> =
            ids.filter(|id| options.observe.include(&program.schema, *id)).collect();
        let mut planning = options.planning.clone();
        // Reuse the learned statistics, so that unchanged rules keep their plans.
        planning.statistics = planning.statistics.or_else(|| self.planning.learned.clone());
        let plan = Arc::new(Plan::new(Arc::clone(program), &wanted, &planning));
        let inputs = std::mem::replace(&mut self.inputs, Inputs::new(Arc::clone(&program.schema)));
        let former_program = Arc::clone(&self.state.plan.program);
        let rest = self.inputs.take_over(inputs);
        let continued = live::continued(&self.state.plan, &plan);
        let continues = |table: TableId| continued[table.0 as usize].map(|before| TableId(before as u32));
        let (hooks, moved) = self.hooks.change(program, &continues);
        let hooks = std::mem::replace(&mut self.hooks, hooks);
        let empty = State::new(Arc::clone(&plan), Arc::clone(&self.state.symbols), false);
        let old = std::mem::replace(&mut self.state, empty);
        let (symbols, inputs) = (Arc::clone(&old.symbols), RefCell::new(&mut self.inputs));
        let by_name = |table: TableId, schema: &Schema| -> Delta {
            let name = &schema.table(table).name;
            program.schema.find(name).map_or_else(|| rest.rows(table), |table| inputs.borrow().rows(table))
        };
        inject(Fault::Deriving);
        let [leaving, running] = [&former_program, program].map(|program| {
            self.bound.as_ref().map(|bound| Arc::new(Running::new(bound.clone(), program, &symbols)))
        });
        let (state, former, result) = live::change(
            old,
            (plan, leaving, running),
            self.options.attribute,
            self.facts,
            &|table| by_name(table, &former_program.schema),
            &|table| inputs.borrow().rows(table),
            Some(Filling { hooks: &mut self.hooks, inputs: &inputs, symbols: &symbols }),
        );
        self.state = state;
        let former = Former { state: former, inputs: rest, hooks, moved };
        let changed = result.and_then(|()| {
            let mut changed = self.state.take_changed();
            if self.options.attribute {
                let rows = |table| inputs.borrow().rows(table);
                self.state.attribute_anew(&former_program, &continues, &mut changed, &rows)?;
            }
            Ok(changed)
        });
        match changed {
            Ok(changed) => {
                let mut outputs = self.outputs(changed);
                let filled = self.hooks.changes().iter();
                let filled = filled.filter(|(table, _)| wanted.contains(table));
                outputs.extend(filled.map(|(table, rows)| Output::of_input(*table, rows.clone())));
                outputs.sort_unstable_by_key(|output| output.table);
                Ok((former, outputs))
            }
            Err(refusal) => {
                let plan = &self.state.plan;
                let why = match refusal {
                    Refusal::Uncounted(id) => {
                        NotChanged::Uncounted(plan.relations[id.0 as usize].name.clone())
                    }
                    refusal => NotChanged::Commit(refusal.into_error(plan)),
                };
                self.change_back(former);
                Err(why)
            }
        }
    }

    /// Counts the rows of a relation that the edit needs counts of. Both programs call it by the same name.
    async fn count_by_name(&mut self, name: &str) -> Result<(), CommitError> {
        let relations = self.state.relations.iter().zip(&self.state.plan.relations);
        let watched = relations.filter(|(relation, plan)| plan.name == name && relation.is_watched());
        let ids: Vec<RelationId> = watched.map(|(relation, _)| relation.id).collect();
        let [id] = ids[..] else {
            return Err(CommitError::Engine(format!("the rows of {name} were not counted")));
        };
        self.count_rows(id).await
    }

    /// Returns to the previous program and gives its input tables their rows back.
    fn change_back(&mut self, former: Former) {
        let Former { state, inputs: rest, hooks, moved } = former;
        self.phase = "dropping a change of rules";
        self.state.end(false);
        inject(Fault::Ending);
        let empty = State::new(Arc::clone(&self.state.plan), Arc::clone(&self.state.symbols), false);
        let new = std::mem::replace(&mut self.state, empty);
        self.state = state.restore(new);
        self.hooks.take_back(&mut self.inputs);
        let others = std::mem::replace(&mut self.hooks, hooks);
        self.hooks.change_back(others, moved);
        let empty = Inputs::new(Arc::clone(&self.state.plan.program.schema));
        let taken = std::mem::replace(&mut self.inputs, empty);
        self.inputs = rest;
        self.inputs.take_back(taken);
    }

    fn check_inputs(&self, program: &Program) -> Result<(), ChangeError> {
        let schema = &program.schema;
        for (id, table) in self.program().schema.iter().filter(|(_, table)| table.role == Role::Input) {
            let rows = self.inputs.len(id);
            let other = schema.find(&table.name).map(|id| schema.table(id));
            let differs = other.is_some_and(|other| {
                (other.role, &other.key, &other.uniques) != (table.role, &table.key, &table.uniques)
                    || !other
                        .columns
                        .iter()
                        .map(|column| &column.ty)
                        .eq(table.columns.iter().map(|column| &column.ty))
            });
            let table = &table.name;
            if rows > 0 && differs {
                return Err(ChangeError::Input { table: table.clone(), rows });
            }
            let is_filled = schema.find(table).is_some_and(|id| program.hook_of(id).is_some());
            if rows > 0 && is_filled && self.program().hook_of(id).is_none() {
                return Err(ChangeError::Filled { table: table.clone(), rows });
            }
        }
        Ok(())
    }
}

impl Proposal<'_> {
    /// The effect of the change on the observed tables.
    pub fn delta(&self) -> ColumnDelta {
        self.words().to_columns()
    }

    /// The same by rows, ascending if the engine's transactions are.
    pub fn rows(&self) -> Committed {
        let (symbols, ascending) = (&self.engine.state.symbols, self.options.ascending);
        let outputs = self.outputs.iter().cloned();
        let tables = outputs
            .filter_map(|output| Some((output.table, output.into_rows(symbols, ascending)?)))
            .collect();
        Committed { delta: nlog_data::Delta { tables }, ..Committed::default() }
    }

    /// The effect in the engine's own words.
    pub fn words(&self) -> RawDelta<'_> {
        RawDelta::new(&self.outputs, &self.engine.state.symbols)
    }

    /// Makes the change permanent. A failure breaks the engine, and the next transaction reports it.
    pub fn accept(mut self) {
        self.former = None;
        let options = self.options.clone();
        let ended = now(self.engine.guarded(async |engine| {
            engine.phase = "accepting a change of rules";
            engine.state.end(true);
            engine.hooks.end(true, &mut engine.inputs);
            inject(Fault::Ending);
            // Later plans must cover the tables that are now observed.
            engine.options.observe = options.observe;
            engine.options.planning = options.planning;
            Ok(())
        }));
        // The engine remembers the cause of a failure.
        drop(ended);
    }
}

impl Drop for Proposal<'_> {
    fn drop(&mut self) {
        let Some(former) = self.former.take() else { return };
        // The engine remembers the cause of a failure.
        drop(now(self.engine.guarded(async |engine| {
            engine.change_back(former);
            Ok(())
        })));
    }
}
