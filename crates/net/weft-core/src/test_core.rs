//! A core for tests: the rules are a text, and the reference evaluates them.

use std::sync::Arc;
use std::time::SystemTime;

use nlog::Sources;
use nlog_data::Tables;
use nlog_reference::Hooked;
use objects::{Batch, Cancel};

use crate::core::{Core, History};
use crate::record::Record;
use crate::rules::Rules;

/// The rules of a text.
pub(crate) fn rules(text: &str) -> Arc<Rules> {
    let compilation = nlog::compile(&Sources::from_texts([("test.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    Arc::new(Rules::new(program).unwrap())
}

/// The state that these records of a journal add up to, with the rules that wrote them.
pub(crate) fn core<'a>(
    rules: &Arc<Rules>,
    records: impl IntoIterator<Item = &'a Record>,
    now: SystemTime,
) -> Core {
    let mut history = History::new(rules);
    for record in records {
        history.add(record).unwrap();
    }
    let observe = Tables::These(rules.observed());
    let evaluator = Box::new(Hooked::reference(rules.program(), observe, true));
    let (core, correction) = Core::restore(evaluator, rules.clone(), history, now).unwrap();
    assert_eq!(correction, None);
    core
}

/// Applies an object, or deletes it.
pub(crate) fn apply(core: &mut Core, object: &str, now: SystemTime) {
    let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
    batch.add_json("test", object);
    core.apply(batch, "test", now).unwrap();
}
