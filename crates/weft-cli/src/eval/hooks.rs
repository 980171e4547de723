//! Hooks of `weft eval`, and the ticks for timed hooks.

use std::sync::Arc;

use clap::Args;
use nlog::Program;
use nlog_data::json::ColumnLine;
use nlog_data::{ErrorCode, Evaluator, Tables, TransactionError};
use nlog_hooks::{Hooked, Wired, Wiring};

use crate::exit::Failure;

/// The hooks of a run.
#[derive(Args)]
pub(super) struct Hooks {
    /// Fill the input table TO from the output table FROM with a hook: `connected_components:FROM:TO`, or
    /// `hysteresis:FROM:TO:rise=MS,fall=MS`, which takes the time from lines `{"tick": MS}` among the transactions. Can be
    /// repeated
    #[arg(long = "hook", value_name = "HOOK:FROM:TO", conflicts_with_all = ["state", "save_state"])]
    wirings: Vec<Wiring>,
}

impl Hooks {
    /// Whether no hooks are wired.
    pub(super) fn is_none(&self) -> bool {
        self.wirings.is_empty()
    }

    /// The program's evaluator, with hooks if there are any. `start` makes evaluators of the program and of the parts that
    /// hooks need.
    pub(super) fn around(
        &self,
        program: &Arc<Program>,
        observe: Tables,
        start: impl Fn(Arc<Program>, Tables) -> Result<Box<dyn Evaluator>, String> + Send + 'static,
    ) -> Result<Box<dyn Evaluator>, Failure> {
        let wired = Wired::new(program, &self.wirings).map_err(|error| Failure::Usage(error.to_string()))?;
        let evaluator = start(Arc::clone(program), observe).map_err(Failure::Outside)?;
        if wired.is_empty() {
            return Ok(evaluator);
        }
        Ok(Box::new(Hooked::new(wired, evaluator, start).map_err(Failure::Outside)?))
    }
}

/// The time of a line in milliseconds, if the line is a tick: `{"tick": 1500}`. A tick has no rows, but may have
/// members that describe its origin.
pub(super) fn tick(line: &ColumnLine, number: u64) -> Result<Option<u64>, TransactionError> {
    let refuse =
        |why: &str| TransactionError::new(ErrorCode::BadJson, format!("line {number}, column 1: {why}"));
    // A line with an error is an empty transaction, no matter what else it contains.
    let Some(tick) = line.origin.get("tick").filter(|_| !line.origin.contains_key("error")) else {
        return Ok(None);
    };
    if !line.transaction.insert.is_empty() || !line.transaction.delete.is_empty() {
        return Err(refuse("a tick cannot have rows; put them on another line"));
    }
    match tick.as_u64() {
        Some(now) => Ok(Some(now)),
        None => Err(refuse("tick must be a whole number of milliseconds, at least 0")),
    }
}
