//! The outputs of a program's operator.

use nlog_data::{CommitError, Row, TableDelta, TableId};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::progress::Timestamp;

use super::local::Local;
use super::team::Message;

/// What a step of the evaluation sends.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The changes of observed tables.
    pub(super) rows: Vec<(TableId, TableDelta)>,
    /// Why the transaction was refused.
    pub(super) refused: Option<CommitError>,
    /// Messages to the members of the team.
    pub(super) messages: Vec<Message>,
}

impl Effects {
    /// The operator does not go on.
    pub(super) fn engine_failed(why: String) -> Self {
        Effects { refused: Some(CommitError::Engine(why)), ..Effects::default() }
    }
}

/// An output of data of one type.
type Port<I, D> = OutputBuilder<I, CapacityContainerBuilder<Vec<D>>>;

/// A row of a table.
type Named = (TableId, Row);

/// A stream of data.
type Data<'s, I, D> = Stream<'s, I, Vec<D>>;

/// The outputs: rows, refusals and messages, in this order.
pub(super) struct Ports<I: Timestamp> {
    rows: Port<I, (Named, I, isize)>,
    refused: Port<I, CommitError>,
    messages: Option<Port<I, Local<Message>>>,
}

const ROWS: usize = 0;
const REFUSED: usize = 1;
const MESSAGES: usize = 2;

impl<I: Timestamp> Ports<I> {
    /// Adds the outputs to an operator. Returns their streams.
    #[allow(clippy::type_complexity, reason = "three streams, each named where it is bound")]
    pub(super) fn new<'s>(
        builder: &mut OperatorBuilder<'s, I>,
        with_messages: bool,
    ) -> (Self, Data<'s, I, (Named, I, isize)>, Data<'s, I, CommitError>, Option<Data<'s, I, Local<Message>>>)
    {
        let (rows, of_rows) = builder.new_output();
        let (refused, of_refused) = builder.new_output();
        let (messages, of_messages) = with_messages.then(|| builder.new_output()).unzip();
        let messages = messages.map(OutputBuilder::from);
        let ports =
            Ports { rows: OutputBuilder::from(rows), refused: OutputBuilder::from(refused), messages };
        (ports, of_rows, of_refused, of_messages)
    }

    pub(super) fn count(&self) -> usize {
        MESSAGES + usize::from(self.messages.is_some())
    }

    /// Sends effects at a time. `capability` gives the right to send at an output.
    pub(super) fn send(&mut self, time: &I, capability: &dyn Fn(usize) -> Capability<I>, effects: Effects) {
        let Effects { rows, refused, messages } = effects;
        if !rows.is_empty() {
            let mut output = self.rows.activate();
            let right = capability(ROWS);
            let mut session = output.session(&right);
            for (table, delta) in rows {
                let inserted = delta.insert.into_iter().map(|row| (row, 1));
                for (row, diff) in inserted.chain(delta.delete.into_iter().map(|row| (row, -1))) {
                    session.give(((table, row), time.clone(), diff));
                }
            }
        }
        if let Some(error) = refused {
            self.refused.activate().session(&capability(REFUSED)).give(error);
        }
        if let (Some(output), false) = (&mut self.messages, messages.is_empty()) {
            let mut output = output.activate();
            let right = capability(MESSAGES);
            output.session(&right).give_iterator(messages.into_iter().map(Local));
        }
    }
}
