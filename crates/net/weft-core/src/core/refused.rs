//! Requests that the rules refuse, and in which words.

use std::collections::HashMap;

use nlog_data::{
    Bound, Cancel, CommitError, KeyConflict, Most, Row, TableId, Transaction, TransactionError, Value,
};
use nlog_explain::conflict::{self, Source};
use objects::{ChangeSet, Faulty, ObjectKey, Place, Rows};

use super::{Core, CoreError, Refusal, most_of};
use crate::derived::RulesOutput;
use crate::neighbourhood::{Search, WHOLE_MAX};

impl Core {
    /// Runs the transaction of a request, which may be too much work. What deletes only is not: the rows that it takes away
    /// were accepted, and a network that has become too large must be able to shrink. What rules refuse about objects becomes
    /// faults of these.
    pub(super) fn run_objects(
        &mut self,
        transaction: &Transaction,
        unwanted: &Cancel,
        objects: &ChangeSet,
    ) -> Result<RulesOutput, CoreError> {
        let only_deletes = transaction.insert.values().all(Vec::is_empty);
        let most = if only_deletes { Most::ANY } else { most_of(self.rule_rows, transaction.values()) };
        let result = self.run_within(transaction, most, unwanted.clone());
        result.map_err(|error| match error {
            CoreError::Refused(Refusal::Rules(error)) => {
                CoreError::Refused(self.refusal(error, transaction, objects))
            }
            other => other,
        })
    }

    /// All faults of a request with faulty objects: also what rules refuse of the others. Nothing changes.
    pub(super) fn all_faults(&mut self, mut faulty: Faulty) -> Result<Refusal, CoreError> {
        let unwanted = std::mem::take(&mut self.unwanted);
        if let Some(rest) = faulty.rest() {
            let transaction = self.transaction(rest, &Rows::default());
            let most = most_of(self.rule_rows, transaction.values());
            self.evaluator.bound(Bound { most, cancel: unwanted, progress: self.progress.clone() });
            let refusals = match self.evaluator.commit(&transaction) {
                Ok(_) => {
                    let undone = self.evaluator.undo(&transaction);
                    undone.map_err(|why| CoreError::Failed(format!("cannot undo a transaction: {why}")))?;
                    None
                }
                Err(CommitError::Refused(error)) => rest.refused_by(&error),
                // The request is refused anyway.
                Err(CommitError::Stopped(_)) => None,
                Err(CommitError::Engine(why)) => return Err(CoreError::Failed(why)),
            };
            faulty.refuse(refusals.unwrap_or_default());
        }
        Ok(Refusal::Objects { faults: faulty.into_faults() })
    }

    /// The refusal of a change of objects.
    fn refusal(
        &mut self,
        error: TransactionError,
        transaction: &Transaction,
        objects: &ChangeSet,
    ) -> Refusal {
        if let Some(faults) = objects.refused_by(&error) {
            return Refusal::Objects { faults };
        }
        let mut error = error.forbidden_first();
        if let Some(conflict) = error.conflict.take() {
            let sources = self.sources(&conflict, transaction, objects);
            error.message = self.of_conflict(&error.message, &sources, objects);
            error.conflict = Some(conflict);
        }
        Refusal::Rules(error)
    }

    /// The sources of two rows with one key. Nothing has changed yet.
    fn sources(
        &mut self,
        conflict: &KeyConflict,
        transaction: &Transaction,
        objects: &ChangeSet,
    ) -> [Option<Source>; 2] {
        let mut ids: Vec<String> = Vec::new();
        for object in objects.effective().filter_map(|change| change.after.as_ref()) {
            ids.push(object.id().to_string());
            ids.extend(self.objects.references(object).into_iter().map(|key| key.id.to_string()));
        }
        let Core { rules, objects: store, reports, evaluator, .. } = self;
        let search =
            Search { rules, objects: store, reports, evaluator: &mut **evaluator, whole_max: WHOLE_MAX };
        // If the engine fails, the next transaction says so.
        let before = search.around(&ids).unwrap_or_default();
        conflict::sources(rules.program(), before.rows, transaction, conflict)
    }

    /// The message about two rows with one key, with their rules and the objects of the request behind them.
    fn of_conflict(&self, message: &str, sources: &[Option<Source>; 2], objects: &ChangeSet) -> String {
        let program = self.rules.program();
        let places: HashMap<&ObjectKey, &Place> =
            objects.effective().filter_map(|change| Some((&change.key, change.place.as_ref()?))).collect();
        let key = |table: TableId, row: &Row| -> Option<ObjectKey> {
            let kind = self.rules.kinds().get(&program.schema.table(table).name)?;
            let Value::String(id) = row.first()? else { return None };
            Some(ObjectKey::new(kind.shared_name().clone(), id.clone()))
        };
        let mut behind = sources.iter().flatten().flat_map(|source| &source.inputs);
        let first = behind.find_map(|(table, row)| {
            let key = key(*table, row)?;
            Some((*places.get(&key)?, key))
        });
        let named = |table: TableId, row: &Row| {
            let key = key(table, row)?;
            Some(places.get(&key).map_or_else(|| key.to_string(), |place| format!("{key} ({place})")))
        };
        let mut lines = match first {
            Some((place, key)) => vec![format!("{place}: {key}: {message}")],
            None => vec![message.to_owned()],
        };
        lines.extend(conflict::lines(program, sources, named));
        lines.join("\n")
    }
}
