//! The evaluation of a program by the only worker of a dataflow.

use std::sync::Arc;

use nlog_data::{Evaluator as _, Transaction};

use super::Shared;
use super::ports::Effects;
use crate::dataflow::{Options, StartError};
use crate::fused::Engine;

/// An engine inside an operator.
pub(super) struct Alone {
    engine: Engine,
}

impl Alone {
    pub(super) fn new(shared: &Shared) -> Result<Self, StartError> {
        let options = Options {
            observe: shared.observe.clone(),
            planning: shared.planning.clone(),
            plan_anew_from: shared.plan_anew_from,
            ascending: false,
            ..Options::default()
        };
        Ok(Alone { engine: Engine::new(Arc::clone(&shared.program), &options)? })
    }

    pub(super) fn run(&mut self, transaction: &Transaction) -> Effects {
        match self.engine.commit(transaction) {
            Ok(committed) => {
                Effects { rows: committed.delta.tables.into_iter().collect(), ..Effects::default() }
            }
            Err(error) => Effects { refused: Some(error), ..Effects::default() },
        }
    }
}
