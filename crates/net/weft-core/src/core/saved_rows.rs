//! What the rules say of all input rows when a core starts: derived, or restored from rows that an engine has saved.
//!
//! Saved rows are those of some transaction. The input rows that have changed since are found by comparison with those that the objects and
//! reports of the journal have now, so a restored engine has the inputs of a derived one, whatever the records between say.

use std::io::{Read, Take, Write};

use hashbrown::HashSet;
use nlog_data::{CommitError, Evaluator, Memories, Role, Row, Transaction};
use tracing::{info, warn};

use super::{Core, CoreError, DesiredByNode, Refusal, RestoreError};
use crate::derived::{Derived, RulesOutput, decode_output, run};
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

impl Core {
    /// Writes all rows that the engine has, for [`Core::restore_from`]. All transactions are journalled.
    ///
    /// # Errors
    /// In plain words, why that is not possible.
    pub fn save_rows(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.evaluator.save_derived(to)
    }
}

/// The output of the rules for these input rows, from nothing, and the transaction of the saved rows that it began with. `memories` are
/// those of the last transaction.
pub(super) fn output_of_all(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    (memories, all): (&Memories, &Transaction),
    saved: Option<SavedRows<'_>>,
) -> Result<(RulesOutput, Option<u64>), RestoreError> {
    let mut from = None;
    let output = match saved.map(|saved| restore(evaluator, saved)) {
        Some(Ok(txn)) => {
            info!(saved = txn, "the engine starts from saved rows");
            from = Some(txn);
            catch_up(evaluator, rules, derived, (memories, all))
        }
        other => {
            if let Some(Err(why)) = other {
                warn!(why, "the saved rows are not used, so all rows are derived");
            }
            evaluator.restore(memories).map_err(RestoreError::Rules)?;
            evaluator.checkpoint();
            run(evaluator, rules, derived, &DesiredByNode::new(), all)
        }
    };
    let output = output.map_err(|error| match error {
        CoreError::Refused(Refusal::Rules(error)) => RestoreError::Rules(error),
        CoreError::Refused(refusal) => RestoreError::Objects(refusal),
        CoreError::Failed(why) => RestoreError::Failed(why),
    });
    Ok((output?, from))
}

/// Lets the evaluator go on from saved rows. After an error it is as before, but for what hooks remember. Returns their transaction.
pub(super) fn restore(evaluator: &mut dyn Evaluator, mut saved: SavedRows<'_>) -> Result<u64, String> {
    evaluator.restore(&saved.memories).map_err(|error| error.to_string())?;
    evaluator.restore_derived(&mut saved.rows)?;
    Ok(saved.txn)
}

/// Brings a restored evaluator to these inputs and memories, and reads all rows.
pub(super) fn catch_up(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    (memories, all): (&Memories, &Transaction),
) -> Result<RulesOutput, CoreError> {
    let failed = |error: CommitError| match error {
        CommitError::Refused(error) => CoreError::Refused(Refusal::Rules(error)),
        error => CoreError::Failed(error.to_string()),
    };
    let changed = difference(evaluator, rules, all).map_err(failed)?;
    if !changed.is_empty() || evaluator.memories() != *memories {
        evaluator.restore(memories).map_err(|error| failed(error.into()))?;
        evaluator.commit(&changed).map_err(failed)?;
    }
    let present = evaluator.present_rows().map_err(failed)?;
    decode_output(&present, rules, derived, &DesiredByNode::new())
        .map_err(|error| CoreError::Refused(Refusal::Rules(error)))
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
