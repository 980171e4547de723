//! Changes of some fields of an object.

use std::time::SystemTime;

use nlog_data::quotation::cut;
use objects::{Amendment, Batch, Cancel, FaultCode, ObjectError, ObjectKey};

use super::{Accepted, Core, CoreError, Refusal};
use crate::peer::Origin;

/// The most fields that a request changes, and the most parts of a path of one: they are read while the engine waits.
const FIELDS_MAX: usize = 256;
const PARTS_MAX: usize = 16;

impl Core {
    /// Changes some fields of an object. The others stay as they are now, whoever has set them; with an expected revision, nobody
    /// may have changed the object since.
    ///
    /// # Errors
    /// There is no such object, or the change is refused.
    pub fn set(
        &mut self,
        key: &ObjectKey,
        amendments: &[Amendment],
        expected: Option<u64>,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let refused = |code, message: String| {
            let (kind, id, path) = (Some(key.kind.to_string()), Some(key.id.to_string()), String::new());
            Refusal::Objects { faults: vec![ObjectError { code, place: None, kind, id, path, message }] }
        };
        let Some(object) = self.objects.get(key).cloned() else {
            let message = "does not exist; `weft apply` creates it".to_owned();
            return Err(refused(FaultCode::NoSuchObject, message).into());
        };
        if amendments.len() > FIELDS_MAX {
            let message =
                format!("{} fields are to change; change at most {FIELDS_MAX} at a time", amendments.len());
            return Err(refused(FaultCode::BadValue, message).into());
        }
        let is_deep = |field: &str| field.split('.').count() > PARTS_MAX && !field.starts_with("labels.");
        if let Some(deep) = amendments.iter().find(|amendment| is_deep(&amendment.field)) {
            let message =
                format!("{}: has more than {PARTS_MAX} parts, deeper than any field", cut(&deep.field));
            return Err(refused(FaultCode::UnknownField, message).into());
        }
        let mut batch = Batch::new(self.rules.kinds(), Cancel::default());
        batch.amend(&object, amendments);
        if let Some(revision) = expected {
            batch.expect(revision);
        }
        self.apply(batch, by, now).map_err(|error| match error {
            CoreError::Refused(Refusal::Objects { mut faults }) => {
                // No document has the object.
                for fault in &mut faults {
                    fault.place = None;
                }
                CoreError::Refused(Refusal::Objects { faults })
            }
            error => error,
        })
    }
}
