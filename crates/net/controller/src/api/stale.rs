//! What the refusal of a stale write says besides: who changed the object, and what.

use std::time::Duration;

use objects::{FaultCode, ObjectKey};
use tracing::debug;
use weft_core::core::Refusal;

use super::Api;
use weft_client::pb;

use crate::history::stale::{self, Found, Stale};
use crate::listener::Account;

/// The code of the faults of stale writes.
const STALE: &str = FaultCode::Stale.name();
/// The most objects of which it is said.
const OBJECTS_MAX: usize = 20;
/// A refusal waits no longer for it. Beyond a busy machine, the bound on what is read comes first.
const WAIT_MAX: Duration = Duration::from_secs(5);

impl Api {
    /// What has become of the objects that have another revision than a request expects.
    pub(super) async fn changed_since(&self, refusal: &Refusal, account: &Account) -> Vec<Found> {
        let Refusal::Objects { faults } = refusal else { return Vec::new() };
        let stale: Vec<Stale> = (faults.iter())
            .filter_map(|fault| {
                let key = ObjectKey::new(fault.kind.as_deref()?, fault.id.as_deref()?);
                let expected = fault.expected?;
                let now = self.engine.object(&key.kind, &key.id).ok()?;
                let revision = now.map_or(0, |(seen, _)| seen.object().revision().changed);
                Some(Stale { key, expected, revision })
            })
            .take(OBJECTS_MAX)
            .collect();
        if stale.is_empty() {
            return Vec::new();
        }
        let (journal, of_journal) = (self.journal.clone(), stale.clone());
        let read = async {
            let place = self.reading.place(account).await?;
            place.work(move |cancel| stale::find(&journal, of_journal, cancel)).await
        };
        match tokio::time::timeout(WAIT_MAX, read).await {
            Ok(Ok(found)) => found,
            // The refusal stands without it.
            Ok(Err(error)) => {
                debug!(%error, "what changed in an object is not said");
                stale::unread(stale)
            }
            Err(_) => stale::unread(stale),
        }
    }
}

/// Adds to a refusal what has become of objects, in its texts too.
pub(super) fn add_to(refusal: &mut pb::Refusal, found: Vec<Found>) {
    let is_single = refusal.faults.len() == 1;
    for (key, changed) in found {
        let object = Some(pb::ObjectRef { kind: key.kind.to_string(), id: key.id.to_string() });
        let is_of_it = |fault: &&mut pb::ObjectFault| fault.code == STALE && fault.object == object;
        let Some(fault) = refusal.faults.iter_mut().find(is_of_it) else { continue };
        if let Some(text) = stale::text(&changed) {
            for message in [&mut fault.message, &mut fault.text] {
                *message += &format!(". {text}");
            }
        }
        fault.changed = Some(Box::new(changed));
        if is_single {
            refusal.message.clone_from(&fault.text);
        }
    }
}
