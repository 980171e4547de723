//! The rules that run, in the one place where all read them who do not wait for the engine thread.

use std::sync::{Arc, PoisonError, RwLock};

use weft_core::rules::Rules;

/// The rules that run. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RunningRules(Arc<RwLock<Arc<Rules>>>);

impl RunningRules {
    /// These, until there are others.
    pub(crate) fn new(rules: Arc<Rules>) -> Self {
        RunningRules(Arc::new(RwLock::new(rules)))
    }

    /// Those of this moment.
    pub(crate) fn get(&self) -> Arc<Rules> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These run from now on. Returns whether they are others than before.
    pub(crate) fn set(&self, rules: &Arc<Rules>) -> bool {
        let are_others = !Arc::ptr_eq(&self.get(), rules);
        if are_others {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules.clone();
        }
        are_others
    }
}
