//! What comes out of an operator: the changes of tables as words, and refusals.

use std::sync::Arc;

use nlog_data::{ColumnDelta, CommitError, Row, TableId};
use timely::dataflow::Stream;
use timely::dataflow::operators::vec::{Map, Partition};
use timely::progress::Timestamp;

use crate::fused::RawDelta;
use crate::fused::output::Output;
use crate::symbol::{Pin, Symbols};

/// The outcome of a transaction at a worker.
#[derive(Clone)]
pub enum Outcome {
    /// Changes of observed tables.
    Changed(Block),
    /// The transaction was refused.
    Refused(CommitError),
}

/// Changes of tables at a worker, in the engine's own words. Clones share them.
#[derive(Clone)]
pub struct Block {
    outputs: Arc<[Output]>,
    symbols: Arc<Symbols>,
    /// As long as there are blocks, their words keep their meaning.
    _pin: Pin,
}

impl Block {
    pub(super) fn new(outputs: Vec<Output>, symbols: &Arc<Symbols>) -> Self {
        Block { outputs: outputs.into(), symbols: Arc::clone(symbols), _pin: symbols.pin() }
    }

    /// The changes as words. While blocks are kept, the operator forgets no value, so its memory grows.
    pub fn words(&self) -> RawDelta<'_> {
        RawDelta::new(&self.outputs[..], &self.symbols)
    }

    /// The changes as values, by columns.
    pub fn to_columns(&self) -> ColumnDelta {
        self.words().to_columns()
    }

    /// The changed rows, with the differences of their counts.
    pub(super) fn rows(&self) -> impl Iterator<Item = ((TableId, Row), isize)> {
        self.outputs.iter().flat_map(|output| {
            output.rows().rows().map(|(words, diff)| {
                let row = words.iter().map(|word| self.symbols.value(*word)).collect();
                ((output.table, row), diff as isize)
            })
        })
    }
}

/// Divides outcomes into changes and refusals.
#[allow(clippy::type_complexity, reason = "a pair of which each part is named")]
pub(super) fn split<T: Timestamp>(
    outcomes: Stream<'_, T, Vec<Outcome>>,
) -> (Stream<'_, T, Vec<Block>>, Stream<'_, T, Vec<CommitError>>) {
    let mut parts = outcomes
        .partition(2, |outcome| (u64::from(matches!(outcome, Outcome::Refused(_))), outcome))
        .into_iter();
    let (Some(changed), Some(refused)) = (parts.next(), parts.next()) else {
        unreachable!("two parts were asked for")
    };
    let block = |outcome| if let Outcome::Changed(block) = outcome { Some(block) } else { None };
    let error = |outcome| if let Outcome::Refused(error) = outcome { Some(error) } else { None };
    (changed.flat_map(block), refused.flat_map(error))
}
