//! Loads all inputs into a second set of workers: with several threads, for another plan, for counts that became necessary, and
//! for the rows of tables that are not stored.
//!
//! One worker does all of that in place, from the rows it has. With several, the rows that a rule reads are at different
//! workers, so the rules run once more from the inputs, as in a first load. For that moment, memory doubles. The first set
//! of workers stays as it is, so a failure costs nothing else.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog_data::CommitError;
use nlog_plan::query::{Plan, RelationId};

use super::delta::Delta;
use super::engine::State;
use super::relation::Watching;
use super::workers::{Changed, Workers};
use super::{Engine, start};

/// A second set of workers that has run all inputs, and the rows of the observed tables.
struct Loaded {
    state: State,
    workers: Option<Workers>,
    rows: Changed,
}

impl Engine {
    /// Goes over to another plan by loading all inputs into new workers. Returns whether that succeeded.
    pub(super) fn go_over_by_loading(&mut self, plan: &Arc<Plan>) -> Result<bool, CommitError> {
        let loads = self.loads()?;
        let Some(loaded) = self.load_again(plan) else { return Ok(false) };
        (self.state, self.workers) = (loaded.state, loaded.workers);
        self.adopt(loads)?;
        Ok(true)
    }

    /// Counts the rows of a relation that were watched. A failure breaks the engine.
    pub(super) fn count_rows_of_threads(&mut self, relation: RelationId) -> Result<(), CommitError> {
        let plan = Arc::clone(&self.state.plan);
        let name = &plan.relations[relation.0 as usize].name;
        let mut counted = match &self.watching {
            Watching::AllBut(counted) => counted.clone(),
            Watching::None => BTreeSet::new(),
        };
        counted.insert(name.clone());
        self.watching = Watching::AllBut(counted);
        if self.go_over_by_loading(&plan)? {
            Ok(())
        } else {
            Err(CommitError::Engine(format!("the rows of {name} could not be counted")))
        }
    }

    /// The rows of a relation that are stored at no worker, or at several. Kept until the next transaction, because who
    /// reads one table may read others.
    pub(super) fn rows_of_threads(&mut self, id: RelationId) -> Result<Delta, CommitError> {
        if self.read.is_none() {
            let plan = Arc::clone(&self.state.plan);
            let loaded = self.load_again(&plan);
            let rows = loaded
                .map(|loaded| loaded.rows)
                .ok_or_else(|| CommitError::Engine("the rows could not be derived again".to_owned()))?;
            self.read = Some(rows.into_iter().map(|(id, rows, _)| (id, rows)).collect());
            self.gone = true;
        }
        let found = self.read.iter().flatten().find(|(of, _)| *of == id);
        let columns = self.state.relations[id.0 as usize].columns;
        Ok(found.map_or_else(|| Delta::new(columns), |(_, rows)| rows.clone()))
    }

    /// Loads all inputs into new workers with this plan. `None` if that fails, for example because a row would have too many
    /// derivations.
    fn load_again(&self, plan: &Arc<Plan>) -> Option<Loaded> {
        catch_unwind(AssertUnwindSafe(|| self.load_into_new(plan))).ok().flatten()
    }

    fn load_into_new(&self, plan: &Arc<Plan>) -> Option<Loaded> {
        let symbols = Arc::clone(&self.state.symbols);
        let (mut state, mut workers) =
            start(Arc::clone(plan), symbols, &self.options, &self.watching).ok()?;
        if !self.facts {
            return Some(Loaded { state, workers, rows: Vec::new() });
        }
        let inputs = self.schema_inputs();
        let needed = inputs.into_iter().filter(|table| plan.relations[table.0 as usize].needed);
        let rows = needed.map(|table| (RelationId(table.0), self.inputs.rows(table)));
        let rows: Vec<(RelationId, Delta)> = rows.filter(|(_, rows)| !rows.is_empty()).collect();
        let rows = match &mut workers {
            None => state.run(rows, true).ok()?,
            Some(workers) => workers.run(&mut state, rows, true).ok()?.ok()?,
        };
        state.end(true);
        if let Some(workers) = &mut workers {
            workers.end(true).ok()?;
        }
        Some(Loaded { state, workers, rows })
    }
}
