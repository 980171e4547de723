//! Rows of plain values, the only data that the operators exchange.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

use nlog_data::{Failure, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// A value, or the failure that stands in its place.
pub(crate) type Cell = Result<Value, Failure>;

/// A row of a relation, or a part of a binding. Rows are ordered by their cells, as the rows of a delta are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Row(Arc<[Cell]>);

impl Row {
    /// The failure that the row stands for instead of values.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.first().and_then(|cell| cell.as_ref().err())
    }

    /// The cells of this row, then those of the other.
    pub(crate) fn and(&self, other: &Row) -> Row {
        self.iter().chain(other.iter()).cloned().collect()
    }
}

impl Deref for Row {
    type Target = [Cell];

    fn deref(&self) -> &[Cell] {
        &self.0
    }
}

impl Borrow<[Cell]> for Row {
    fn borrow(&self) -> &[Cell] {
        &self.0
    }
}

impl FromIterator<Cell> for Row {
    fn from_iter<I: IntoIterator<Item = Cell>>(cells: I) -> Self {
        Row(cells.into_iter().collect())
    }
}

/// The values of cells that have not failed.
pub(crate) fn values(cells: &[Cell]) -> Vec<Value> {
    cells.iter().map(|cell| cell.clone().expect("a derived row has values only")).collect()
}

// Timely asks for both of these, but the workers are threads of one process, which pass rows on as they are.

const STAYS: &str = "a row of the composed engine does not leave its process";

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom(STAYS))
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(de::Error::custom(STAYS))
    }
}
