//! The routes of routers as they take effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Committed, Row, Value};

use crate::rules::Rules;

/// The rows of the rules' table.
#[derive(Debug, Default)]
pub(crate) struct EffectiveRoutes {
    pub(crate) routers: BTreeMap<Arc<str>, BTreeSet<Row>>,
}

impl EffectiveRoutes {
    /// Applies the changes of the rules' table.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let Some(delta) = rules.effective_routes.and_then(|table| committed.delta.tables.get(&table)) else {
            return;
        };
        let router = |row: &Row| match row.first() {
            Some(Value::String(router)) => Some(router.clone()),
            _ => None,
        };
        for row in &delta.delete {
            if let Some(router) = router(row)
                && let Some(rows) = self.routers.get_mut(&router)
            {
                rows.remove(row);
                if rows.is_empty() {
                    self.routers.remove(&router);
                }
            }
        }
        for row in &delta.insert {
            if let Some(router) = router(row) {
                self.routers.entry(router).or_default().insert(row.clone());
            }
        }
    }
}
