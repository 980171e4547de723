//! A change of objects that a trace tries out.

use std::path::PathBuf;
use std::sync::Arc;

use network::{Batch, Cancel, ChangeSet, Kinds, ObjectError, ObjectKey, ObjectStore};
use nlog::Program;
use nlog_data::{ColumnTransaction, CommitError, Row, TableId};

use packet_trace::Origins;

use crate::client::read_document;
use crate::eval::{Begin, Source};
use crate::exit::Failure;
use crate::explain::{Inputs, follow};

/// What changes.
pub(super) struct Change<'a> {
    /// A file of objects that are created or replaced.
    pub(super) file: Option<&'a PathBuf>,
    /// Objects that are deleted: kind and id.
    pub(super) without: &'a [ObjectKey],
}

/// Reads `KIND/ID`.
pub(super) fn key(text: &str) -> Result<ObjectKey, String> {
    let (kind, id) =
        text.split_once('/').ok_or("write the kind and the id of an object, as in acl/no-ssh")?;
    Ok(ObjectKey::new(kind, id))
}

impl Change<'_> {
    /// The rows of the inputs before and after the change. The change is a transaction of its own, after all others.
    pub(super) fn rows(
        &self,
        begin: Option<Begin>,
        program: &Arc<Program>,
        source: &Source,
        until: Option<u64>,
    ) -> Result<([Origins; 2], Result<(), Failure>), Failure> {
        let Inputs { run, mut running, origins: before } = Inputs::read(begin, program, source, until)?;
        let mut after = before.clone();
        let number = before.values().max().map_or(1, |last| last + 1);
        for changes in self.plans(program, &before)? {
            let rows = changes.rows().transaction(&program.schema);
            let rows =
                ColumnTransaction::from_rows(&rows).map_err(|why| Failure::Outside(why.to_string()))?;
            let committed = running.evaluator().commit_columns(&rows).map_err(|error| match &error {
                CommitError::Refused(refused) => match changes.refused_by(refused) {
                    Some(faults) => refusal(&faults),
                    None => Failure::Rejected(format!("the rules refuse the change: {refused}")),
                },
                CommitError::Engine(_) => Failure::Outside(error.to_string()),
            })?;
            follow(&mut after, number, &committed.delta);
        }
        Ok(([before, after], run.finish()))
    }

    /// The changes of objects: what the file says, and what is deleted after that.
    fn plans(&self, program: &Program, before: &Origins) -> Result<Vec<ChangeSet>, Failure> {
        let kinds = Kinds::new(program.objects.clone());
        let of = |table: TableId| -> Result<Vec<Row>, Failure> {
            let rows = before.keys().filter(|(own, _)| *own == table);
            Ok(rows.map(|(_, row)| row.clone()).collect())
        };
        let mut store = ObjectStore::of_rows(&kinds, &program.schema, of)?;
        let mut plans = Vec::new();
        if let Some(file) = self.file {
            let (name, text) = read_document(file)?;
            let mut batch = Batch::new(&kinds, Cancel::default());
            batch.add_document(&name, &text);
            let changes = store.plan(batch).map_err(|faults| refusal(&faults))?;
            store.commit(&changes);
            plans.push(changes);
        }
        if !self.without.is_empty() {
            plans.push(store.plan_delete(self.without).map_err(|faults| refusal(&faults))?);
        }
        Ok(plans)
    }
}

fn refusal(faults: &[ObjectError]) -> Failure {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Failure::Rejected(format!("the change is refused:\n{}", faults.join("\n")))
}
