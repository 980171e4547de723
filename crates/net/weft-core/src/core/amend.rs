//! Changes of some fields of an object.

use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::quotation::cut;
use objects::{Amendment, Batch, Cancel, FaultCode, Object, ObjectError, ObjectKey};

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
        let by = by.into();
        let object = self.present(key, &by)?;
        if amendments.len() > FIELDS_MAX {
            let message =
                format!("{} fields are to change; change at most {FIELDS_MAX} at a time", amendments.len());
            return Err(refused(key, FaultCode::BadValue, message));
        }
        let is_deep = |field: &str| field.split('.').count() > PARTS_MAX && !field.starts_with("labels.");
        if let Some(deep) = amendments.iter().find(|amendment| is_deep(&amendment.field)) {
            let message =
                format!("{}: has more than {PARTS_MAX} parts, deeper than any field", cut(&deep.field));
            return Err(refused(key, FaultCode::UnknownField, message));
        }
        let mut batch = Batch::new(self.rules.kinds(), Cancel::default());
        batch.amend(&object, amendments);
        self.apply_without_place(batch, expected, by, now)
    }

    /// Changes an object by a JSON merge patch, as it is now. A `revision` in the patch counts before the expected one.
    ///
    /// # Errors
    /// There is no such object, or the change is refused.
    pub fn merge(
        &mut self,
        key: &ObjectKey,
        patch: &str,
        expected: Option<u64>,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let by = by.into();
        let object = self.present(key, &by)?;
        let mut batch = Batch::new(self.rules.kinds(), Cancel::default());
        batch.merge(&object, patch);
        self.apply_without_place(batch, expected, by, now)
    }

    /// The object that is to change. To a tenant, what belongs to others does not exist.
    fn present(&self, key: &ObjectKey, by: &Origin) -> Result<Arc<Object>, CoreError> {
        let message = || "does not exist; `weft apply` creates it".to_owned();
        let is_known = |object: &&Arc<Object>| {
            by.tenant.as_deref().is_none_or(|tenant| self.is_of_tenant(object, tenant))
        };
        self.objects
            .get(key)
            .filter(is_known)
            .cloned()
            .ok_or_else(|| refused(key, FaultCode::NoSuchObject, message()))
    }

    /// Applies objects that no document has.
    fn apply_without_place(
        &mut self,
        mut batch: Batch,
        expected: Option<u64>,
        by: Origin,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        if let Some(revision) = expected {
            batch.expect(revision);
        }
        self.apply(batch, by, now).map_err(|error| match error {
            CoreError::Refused(Refusal::Objects { mut faults }) => {
                for fault in &mut faults {
                    fault.place = None;
                }
                CoreError::Refused(Refusal::Objects { faults })
            }
            error => error,
        })
    }
}

/// The refusal of a change of an object, for one fault.
fn refused(key: &ObjectKey, code: FaultCode, message: String) -> CoreError {
    Refusal::Objects { faults: vec![ObjectError::of_object(code, key, message)] }.into()
}
