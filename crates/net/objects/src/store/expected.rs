//! Writes that take effect only if an object is still as the writer has read it.

use crate::{ObjectKey, Revision};

/// An object that a request deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The object.
    pub key: ObjectKey,
    /// The transaction that changed it last, as the requester knows it; `None` deletes it whoever changed it.
    pub expected: Option<u64>,
}

/// Deletes the object whoever changed it.
impl From<ObjectKey> for Deletion {
    fn from(key: ObjectKey) -> Self {
        Deletion { key, expected: None }
    }
}

impl From<&ObjectKey> for Deletion {
    fn from(key: &ObjectKey) -> Self {
        key.clone().into()
    }
}

impl From<&Deletion> for Deletion {
    fn from(deletion: &Deletion) -> Self {
        deletion.clone()
    }
}

/// Why an object is not as expected; `None` if it is. It has this revision, or does not exist.
pub(super) fn stale(expected: Option<u64>, present: Option<Revision>) -> Option<String> {
    let expected = expected?;
    let Some(Revision { created, changed }) = present else {
        let message = format!(
            "is {expected}, but the object does not exist any more; leave `revision` out if the change is meant all the same"
        );
        return (expected != 0).then_some(message);
    };
    let message = match expected {
        0 => format!(
            "is 0, which asks for a new object, but it exists since transaction {created}; read it, and repeat the change with its \
             revision"
        ),
        _ if expected == changed => return None,
        _ if expected < changed => {
            format!(
                "is {expected}, but transaction {changed} has changed the object since; read it again and repeat the change"
            )
        }
        _ => {
            format!(
                "is {expected}, but the last transaction that changed the object is {changed}; read it again and repeat the change"
            )
        }
    };
    Some(message)
}
