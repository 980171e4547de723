//! A change of objects that a trace tries out: the rows after it, without applying it.

use std::sync::Arc;

use nlog::Program;
use nlog_data::{ColumnTransaction, CommitError, Evaluator, Row, TableId};
use objects::{Batch, Cancel, ChangeSet, Kinds, ObjectError, ObjectKey, ObjectStore, Rows};

use crate::{Origins, follow};

/// A change of objects.
#[derive(Debug, Default)]
pub struct Change {
    /// Documents of objects that are created or replaced: name and text.
    pub documents: Vec<(String, String)>,
    /// Objects that are deleted after that.
    pub without: Vec<ObjectKey>,
}

/// Why a change cannot be tried out.
#[derive(Debug)]
pub enum ChangeError {
    /// It is refused, as it would be if it was applied.
    Refused(String),
    /// The evaluator failed.
    Failed(String),
}

impl Change {
    /// Commits the change to an evaluator that observes the inputs: the documents in one transaction, then the deletions in another. Returns
    /// the rows of the inputs after it. `before` are those before it, and `number` is that of the transactions. `besides` gives the rows that a
    /// change of objects brings along.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn after(
        &self,
        program: &Arc<Program>,
        evaluator: &mut dyn Evaluator,
        before: &Origins,
        number: u64,
        besides: &dyn Fn(&ChangeSet) -> Rows,
    ) -> Result<Origins, ChangeError> {
        let mut after = before.clone();
        for changes in self.plans(program, before).map_err(|faults| refused(&faults))? {
            let mut rows = changes.rows();
            rows.add(besides(&changes));
            let rows = rows.transaction(&program.schema);
            let rows =
                ColumnTransaction::from_rows(&rows).map_err(|why| ChangeError::Failed(why.to_string()))?;
            let committed = evaluator.commit_columns(&rows).map_err(|error| match &error {
                CommitError::Refused(why) => match changes.refused_by(why) {
                    Some(faults) => refused(&faults),
                    None => ChangeError::Refused(format!("the rules refuse the change: {why}")),
                },
                CommitError::Stopped(_) | CommitError::Engine(_) => ChangeError::Failed(error.to_string()),
            })?;
            follow(&mut after, number, &committed.delta);
        }
        Ok(after)
    }

    /// The changes of objects: what the documents say, and what is deleted after that.
    fn plans(&self, program: &Program, before: &Origins) -> Result<Vec<ChangeSet>, Vec<ObjectError>> {
        let kinds = Kinds::new(program.objects.clone());
        let of = |table: TableId| -> Result<Vec<Row>, Vec<ObjectError>> {
            let rows = before.keys().filter(|(own, _)| *own == table);
            Ok(rows.map(|(_, row)| row.clone()).collect())
        };
        let mut store = ObjectStore::of_rows(&kinds, &program.schema, of)?;
        let mut plans = Vec::new();
        if !self.documents.is_empty() {
            let mut batch = Batch::new(&kinds, Cancel::default());
            for (name, text) in &self.documents {
                batch.add_document(name, text);
            }
            let changes = store.plan(batch)?;
            store.commit(&changes);
            plans.push(changes);
        }
        if !self.without.is_empty() {
            plans.push(store.plan_delete(&self.without)?);
        }
        Ok(plans)
    }
}

fn refused(faults: &[ObjectError]) -> ChangeError {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    ChangeError::Refused(format!("the change is refused:\n{}", faults.join("\n")))
}
