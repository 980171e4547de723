//! The engines of a controller: how they are made, and edited to other rules.

use std::any::Any;
use std::sync::Arc;

use nlog_data::{Committed, Evaluator, Tables};
use nlog_dataflow::fused::ChangeError;
use nlog_dataflow::{Dataflow, Options};
use weft_core::core::{MakeEvaluator, NotEdited};
use weft_core::rules::Rules;

use crate::config::{Config, EngineKind};

/// Makes engines.
pub(crate) fn dataflow(config: &Config) -> MakeEvaluator {
    let (workers, timely) = (config.workers.get(), config.engine == EngineKind::Timely);
    Arc::new(move |rules| engine(rules, workers, timely))
}

/// The engine of the rules.
pub fn evaluator(rules: &Rules, workers: usize) -> Result<Box<dyn Evaluator>, String> {
    engine(rules, workers, false)
}

fn engine(rules: &Rules, workers: usize, timely: bool) -> Result<Box<dyn Evaluator>, String> {
    let options = Options { workers, timely, ..options(rules) };
    let engine = Dataflow::new(Arc::clone(rules.program()), options).map_err(|error| error.to_string())?;
    Ok(Box::new(engine))
}

fn options(rules: &Rules) -> Options {
    let observe = Tables::These(rules.observed());
    Options { observe, attribute: true, ascending: false, ..Options::default() }
}

/// Edits an engine of a controller to other rules. Several workers would first load all rows into one, so theirs is replaced.
pub fn edit(evaluator: &mut dyn Evaluator, rules: &Rules) -> Result<Committed, NotEdited> {
    let engine = (evaluator as &mut dyn Any).downcast_mut::<Dataflow>();
    let engine = engine.ok_or_else(|| NotEdited::Unfit("it is no dataflow".to_owned()))?;
    if engine.is_shared() {
        return Err(NotEdited::Unfit("several workers share the work".to_owned()));
    }
    let proposal =
        engine.propose(Arc::clone(rules.program()), &options(rules)).map_err(|error| match error {
            ChangeError::Commit(error) => NotEdited::Commit(error),
            error => NotEdited::Unfit(error.to_string()),
        })?;
    let committed = proposal.rows();
    proposal.accept();
    Ok(committed)
}
