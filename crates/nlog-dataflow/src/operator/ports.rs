//! The outputs of a program's operator.

use std::collections::{BTreeMap, BTreeSet};

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

/// A stream of updates of rows.
type Rows<'s, I> = Stream<'s, I, Vec<(Row, I, isize)>>;

/// The outputs: the observed tables, then refusals, then messages.
pub(super) struct Ports<I: Timestamp> {
    tables: BTreeMap<TableId, (usize, Port<I, (Row, I, isize)>)>,
    refused: Port<I, CommitError>,
    messages: Option<Port<I, Local<Message>>>,
}

impl<I: Timestamp> Ports<I> {
    /// Adds the outputs to an operator. Returns their streams, those of tables in ascending order.
    #[allow(clippy::type_complexity, reason = "three streams, each named where it is bound")]
    pub(super) fn new<'s>(
        builder: &mut OperatorBuilder<'s, I>,
        observed: &BTreeSet<TableId>,
        with_messages: bool,
    ) -> (Self, Vec<Rows<'s, I>>, Stream<'s, I, Vec<CommitError>>, Option<Stream<'s, I, Vec<Local<Message>>>>)
    {
        let (mut tables, mut streams) = (BTreeMap::new(), Vec::new());
        for (port, table) in observed.iter().enumerate() {
            let (output, stream) = builder.new_output();
            tables.insert(*table, (port, OutputBuilder::from(output)));
            streams.push(stream);
        }
        let (refused, of_refused) = builder.new_output();
        let (messages, of_messages) = with_messages.then(|| builder.new_output()).unzip();
        let messages = messages.map(OutputBuilder::from);
        (Ports { tables, refused: OutputBuilder::from(refused), messages }, streams, of_refused, of_messages)
    }

    pub(super) fn count(&self) -> usize {
        self.tables.len() + 1 + usize::from(self.messages.is_some())
    }

    /// Sends effects at a time. `capability` gives the right to send at an output.
    pub(super) fn send(&mut self, time: &I, capability: &dyn Fn(usize) -> Capability<I>, effects: Effects) {
        let Effects { rows, refused, messages } = effects;
        let after_tables = self.tables.len();
        for (table, delta) in rows {
            let Some((port, output)) = self.tables.get_mut(&table) else { continue };
            let mut output = output.activate();
            let right = capability(*port);
            let mut session = output.session(&right);
            let changes = delta.insert.into_iter().map(|row| (row, 1));
            for (row, diff) in changes.chain(delta.delete.into_iter().map(|row| (row, -1))) {
                session.give((row, time.clone(), diff));
            }
        }
        if let Some(error) = refused {
            self.refused.activate().session(&capability(after_tables)).give(error);
        }
        if let (Some(output), false) = (&mut self.messages, messages.is_empty()) {
            let mut output = output.activate();
            let right = capability(after_tables + 1);
            output.session(&right).give_iterator(messages.into_iter().map(Local));
        }
    }
}
