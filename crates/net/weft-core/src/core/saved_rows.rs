//! What the rules say of all input rows when a core starts: derived, or restored from rows that an engine has saved.
//!
//! Saved rows are those of some transaction. The input rows that have changed since are found by comparison with those that the objects and
//! reports of the journal have now, so a restored engine has the inputs of a derived one, whatever the records between say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Take, Write};
use std::sync::Arc;

use hashbrown::HashSet;
use nlog_data::{
    CommitError, Committed, Evaluator, Memories, Role, Row, TableId, Transaction, TransactionError,
};
use switch_model::{Changes, Desired, Pool, saved_states};
use tracing::{info, warn};

use super::{Core, CoreError, DesiredByNode, NodeDesired, Refusal, RestoreError, change_desired};
use crate::derived::{Derived, RulesOutput, changes_of_switches, decode_output, run};
use crate::rules::Rules;

/// Rows that [`Core::save_rows`] wrote after a transaction of the same journal, for the same rules.
pub struct SavedRows<'a> {
    /// The transaction.
    pub txn: u64,
    /// What hooks remembered after it.
    pub memories: Memories,
    /// The rows. The reader knows how many bytes are left.
    pub rows: Take<&'a mut dyn Read>,
}

/// What the rules say of all input rows.
pub(super) struct Present {
    /// What leads there from nothing, but for what was read of the states of switches.
    pub(super) changes: BTreeMap<String, Changes>,
    pub(super) desired: DesiredByNode,
    /// The transaction of the saved rows that it began with.
    pub(super) from: Option<u64>,
}

impl Core {
    /// Writes all rows that the engine has, and the states of switches, for [`Core::restore_from`]. All transactions are journalled.
    ///
    /// # Errors
    /// In plain words, why that is not possible.
    pub fn save_rows(&mut self, to: &mut dyn Write) -> Result<(), String> {
        save(&mut *self.evaluator, &self.desired, to)
    }
}

/// Writes the rows of an engine, and the flows and buckets that they lead to: the engine keeps hashes of these alone.
pub(super) fn save(
    evaluator: &mut dyn Evaluator,
    desired: &DesiredByNode,
    to: &mut dyn Write,
) -> Result<(), String> {
    let switches = desired.iter().map(|(node, desired)| (&**node, &*desired.state));
    saved_states::write(switches, to).map_err(|error| error.to_string())?;
    evaluator.save_derived(to)
}

/// What the rules make of these input rows, from saved rows or from nothing. `memories` are those of the last transaction.
pub(super) fn output_of_all(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    (memories, all): (&Memories, &Transaction),
    saved: Option<SavedRows<'_>>,
) -> Result<Present, RestoreError> {
    let present = match saved.map(|saved| restore(evaluator, saved, &mut derived.pool)) {
        Some(Ok(restored)) => {
            info!(saved = restored.txn, "the engine starts from saved rows");
            catch_up(evaluator, rules, derived, (memories, all), restored)
        }
        other => {
            if let Some(Err(why)) = other {
                warn!(why, "the saved rows are not used, so all rows are derived");
            }
            evaluator.restore(memories).map_err(RestoreError::Rules)?;
            evaluator.checkpoint();
            from_nothing(evaluator, rules, derived, all)
        }
    };
    present.map_err(|error| match error {
        CoreError::Refused(Refusal::Rules(error)) => RestoreError::Rules(error),
        CoreError::Refused(refusal) => RestoreError::Objects(refusal),
        CoreError::Failed(why) => RestoreError::Failed(why),
    })
}

/// Derives what the rules make of these input rows.
pub(super) fn from_nothing(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    all: &Transaction,
) -> Result<Present, CoreError> {
    let RulesOutput { changes, .. } = run(evaluator, rules, derived, &DesiredByNode::new(), all)?;
    let mut desired = DesiredByNode::new();
    change_desired(&mut desired, &changes);
    Ok(Present { changes, desired, from: None })
}

/// What was read of saved rows, besides those that the evaluator has.
pub(super) struct Restored {
    pub(super) txn: u64,
    /// The flows and buckets of switches.
    states: BTreeMap<String, Desired>,
}

/// Lets the evaluator go on from saved rows. After an error it is as before, but for what hooks remember.
pub(super) fn restore(
    evaluator: &mut dyn Evaluator,
    mut saved: SavedRows<'_>,
    pool: &mut Pool,
) -> Result<Restored, String> {
    let states = saved_states::read(&mut saved.rows, pool).map_err(|error| error.to_string())?;
    evaluator.restore(&saved.memories).map_err(|error| error.to_string())?;
    evaluator.restore_derived(&mut saved.rows)?;
    Ok(Restored { txn: saved.txn, states })
}

/// Brings a restored evaluator to these inputs and memories, and reads all rows besides those that were saved as states of switches.
pub(super) fn catch_up(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    (memories, all): (&Memories, &Transaction),
    restored: Restored,
) -> Result<Present, CoreError> {
    let failed = |error: CommitError| match error {
        CommitError::Refused(error) => CoreError::Refused(Refusal::Rules(error)),
        error => CoreError::Failed(error.to_string()),
    };
    let refused = |error: TransactionError| CoreError::Refused(Refusal::Rules(error));
    let changed = difference(evaluator, rules, all).map_err(failed)?;
    let mut caught_up = Committed::default();
    if !changed.is_empty() || evaluator.memories() != *memories {
        evaluator.restore(memories).map_err(refused)?;
        caught_up = evaluator.commit(&changed).map_err(failed)?;
    }
    let is_saved = |table: TableId| saved_states::has(table, &rules.switch);
    let present = evaluator.present_rows(&|table| !is_saved(table)).map_err(failed)?;
    let RulesOutput { changes, .. } =
        decode_output(&present, rules, derived, &DesiredByNode::new()).map_err(refused)?;
    let of_state = |state: Desired| {
        let groups: BTreeSet<u32> = state.buckets.keys().map(|(group, _)| *group).collect();
        NodeDesired { groups: groups.len(), state: Arc::new(state) }
    };
    let mut desired = restored.states.into_iter().map(|(node, state)| (node, of_state(state))).collect();
    caught_up.delta.tables.retain(|table, _| is_saved(*table));
    let since = changes_of_switches(&caught_up, rules, &mut derived.pool).map_err(refused)?;
    change_desired(&mut desired, &since);
    change_desired(&mut desired, &changes);
    Ok(Present { changes, desired, from: Some(restored.txn) })
}

/// The transaction that brings the input tables, but for those that hooks fill, to these rows.
fn difference(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    all: &Transaction,
) -> Result<Transaction, CommitError> {
    let program = rules.program();
    let mut changed = Transaction::default();
    for (table, declared) in program.schema.iter() {
        if declared.role != Role::Input || program.hook_of(table).is_some() {
            continue;
        }
        let mut gone: HashSet<Row> = evaluator.contents(table)?.into_iter().collect();
        let wanted = all.insert.get(&table).map_or(&[][..], Vec::as_slice);
        let new: Vec<Row> = wanted.iter().filter(|row| !gone.remove(*row)).cloned().collect();
        if !new.is_empty() {
            changed.insert.insert(table, new);
        }
        if !gone.is_empty() {
            changed.delete.insert(table, gone.into_iter().collect());
        }
    }
    Ok(changed)
}
