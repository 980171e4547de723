//! What goes into an operator: transactions, or updates of rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use differential_dataflow::consolidation::consolidate;
use nlog_data::state::{read_value, write_value};
use nlog_data::{ColumnTransaction, Columns, Row, TableId, Transaction, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::Operator as _;
use timely::progress::Timestamp;

/// A row of a table, and the change of its count.
type Update = ((TableId, Row), isize);

/// A change of the count of a row at a time.
type Timed<T> = ((TableId, Row), T, isize);

/// A transaction, or a part of the one at its time.
#[derive(Debug, Clone)]
pub struct Request(Content);

#[derive(Debug, Clone)]
enum Content {
    Columns(Arc<ColumnTransaction>),
    Updates(Vec<Update>),
}

impl From<ColumnTransaction> for Request {
    fn from(transaction: ColumnTransaction) -> Self {
        Request(Content::Columns(Arc::new(transaction)))
    }
}

impl From<Arc<ColumnTransaction>> for Request {
    fn from(transaction: Arc<ColumnTransaction>) -> Self {
        Request(Content::Columns(transaction))
    }
}

impl Request {
    /// The updates, in which rows that are deleted and inserted cancel.
    fn updates(self) -> Vec<Update> {
        match self.0 {
            Content::Updates(updates) => updates,
            Content::Columns(columns) => {
                let updates = |tables: &BTreeMap<TableId, Columns>, diff: isize| -> Vec<Update> {
                    let rows = tables.iter().flat_map(|(table, columns)| {
                        columns.to_rows().into_iter().map(move |row| ((*table, row), diff))
                    });
                    rows.collect()
                };
                [updates(&columns.delete, -1), updates(&columns.insert, 1)].concat()
            }
        }
    }
}

/// The requests of one time as one transaction.
pub(super) fn transaction(mut requests: Vec<Request>) -> Arc<ColumnTransaction> {
    if let [Request(Content::Columns(_))] = &requests[..]
        && let Some(Request(Content::Columns(columns))) = requests.pop()
    {
        return columns;
    }
    let mut updates: Vec<Update> = requests.into_iter().flat_map(Request::updates).collect();
    consolidate(&mut updates);
    let mut transaction = Transaction::default();
    for ((table, row), diff) in updates {
        let changes = if diff > 0 { &mut transaction.insert } else { &mut transaction.delete };
        changes.entry(table).or_default().push(row);
    }
    Arc::new(columns_of(&transaction))
}

/// The transaction by columns. Rows of different widths cannot be of one table, and are refused one table at a time.
fn columns_of(transaction: &Transaction) -> ColumnTransaction {
    let columns = |tables: &BTreeMap<TableId, Vec<Row>>| {
        let columns = tables.iter().map(|(table, rows)| {
            // The engine refuses a row without columns with the place and the reason.
            (
                *table,
                Columns::from_rows(rows).or_else(|_| Columns::from_rows(&[Row::new()])).unwrap_or_default(),
            )
        });
        columns.collect()
    };
    ColumnTransaction { insert: columns(&transaction.insert), delete: columns(&transaction.delete) }
}

/// Collects the updates of rows of each time.
pub(super) fn of_rows<T: Timestamp>(rows: Stream<'_, T, Vec<Timed<T>>>) -> Stream<'_, T, Vec<Request>> {
    rows.unary::<CapacityContainerBuilder<Vec<Request>>, _, _, _>(Pipeline, "nlog requests", |_, _| {
        |input, output| {
            input.for_each(|capability, updates| {
                let mut of_times: BTreeMap<T, Vec<Update>> = BTreeMap::new();
                for (row, time, diff) in updates.drain(..) {
                    of_times.entry(time).or_default().push((row, diff));
                }
                for (time, updates) in of_times {
                    let at = capability.delayed(&time, 0);
                    output.session(&at).give(Request(Content::Updates(updates)));
                }
            });
        }
    })
}

/// A request on its way to another process: by update, the table, the difference, the width, and the values in the format of
/// [`write_value`].
impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let updates = self.clone().updates().into_iter().map(|((table, row), diff)| {
            let mut values = Vec::new();
            for value in &row {
                write_value(value, &mut values);
            }
            (table.0, diff, row.len(), values)
        });
        updates.collect::<Vec<(u32, isize, usize, Vec<u8>)>>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Vec::<(u32, isize, usize, Vec<u8>)>::deserialize(deserializer)?;
        let updates = written.into_iter().map(|(table, diff, width, values)| {
            let mut rest = values.as_slice();
            let row = (0..width).map(|_| read_value(&mut rest)).collect::<Result<Vec<Value>, _>>();
            let row = row.map_err(|_| serde::de::Error::custom("it contains an invalid value"))?;
            Ok(((TableId(table), row), diff))
        });
        Ok(Request(Content::Updates(updates.collect::<Result<_, D::Error>>()?)))
    }
}
