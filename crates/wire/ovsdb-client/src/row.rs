//! Rows: columns by name, which convert to Rust types. Errors name the table and the column.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::schema::Schema;
use crate::text::members;
use crate::value::{Datum, FromDatum, ValueError, shorten};

/// The longest text of a row, in bytes. That of an interface has about 700.
pub(crate) const ROW_BYTES_MAX: usize = 64 << 10;
/// The most columns of a row.
pub(crate) const COLUMNS_MAX: usize = 1000;

/// A row of a table, or some of its columns. Clones are cheap, since they share the columns.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    table: Arc<str>,
    /// By name, in order. Tables have a dozen columns, and a process has rows by the hundred thousand.
    columns: Arc<Vec<(Arc<str>, Datum)>>,
}

/// A column does not have the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table}.{column}: wanted {wanted}, got {got}")]
pub struct ColumnError {
    /// The row's table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The expected type.
    pub wanted: String,
    /// The value found, as shortened JSON, or a note that the row lacks the column.
    pub got: String,
}

impl ColumnError {
    pub(crate) fn new(table: &str, column: &str, problem: ValueError) -> Self {
        ColumnError {
            table: table.to_owned(),
            column: column.to_owned(),
            wanted: problem.wanted,
            got: problem.got,
        }
    }
}

impl Row {
    /// A row without columns.
    pub fn new(table: impl Into<Arc<str>>) -> Self {
        Row { table: table.into(), columns: Arc::default() }
    }

    /// A row with these columns, which are in the order of their names.
    pub(crate) fn sorted(table: Arc<str>, columns: Vec<(Arc<str>, Datum)>) -> Self {
        Row { table, columns: Arc::new(columns) }
    }

    /// Sets a column.
    pub fn with(mut self, column: impl Into<Arc<str>>, value: impl Into<Datum>) -> Self {
        self.set(column.into(), value.into());
        self
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The columns, sorted by name.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Datum)> {
        self.columns.iter().map(|(column, datum)| (&**column, datum))
    }

    /// Whether the row has no columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The value of a column, if the row has it.
    pub fn datum(&self, column: &str) -> Option<&Datum> {
        let place = self.columns.binary_search_by(|(name, _)| (**name).cmp(column)).ok()?;
        self.columns.get(place).map(|(_, datum)| datum)
    }

    /// The value of a column as a Rust type: see [`FromDatum`].
    pub fn get<T: FromDatum>(&self, column: &str) -> Result<T, ColumnError> {
        let error = |got: String| ColumnError {
            table: self.table.to_string(),
            column: column.to_owned(),
            wanted: T::wanted(),
            got,
        };
        let datum = self.datum(column).ok_or_else(|| error("a row without this column".to_owned()))?;
        T::from_datum(datum).ok_or_else(|| error(shorten(&datum.to_json().to_string())))
    }

    /// The column `_uuid`, which a select returns if it names this column or no columns.
    pub fn uuid(&self) -> Result<Uuid, ColumnError> {
        self.get("_uuid")
    }

    pub(crate) fn set(&mut self, column: Arc<str>, datum: Datum) {
        let columns = Arc::make_mut(&mut self.columns);
        match columns.binary_search_by(|(name, _)| name.cmp(&column)) {
            Ok(place) => {
                if let Some(there) = columns.get_mut(place) {
                    there.1 = datum;
                }
            }
            Err(place) => columns.insert(place, (column, datum)),
        }
    }

    /// The columns as a JSON object.
    pub fn to_json(&self) -> Value {
        Value::Object(
            self.columns
                .iter()
                .map(|(column, datum)| (column.to_string(), datum.to_json()))
                .collect::<Map<_, _>>(),
        )
    }

    /// About the memory that it takes, in bytes, if nobody shares it.
    pub(crate) fn memory(&self) -> usize {
        // The allocations of the row, and of each value.
        const ROW: usize = 160;
        const COLUMN: usize = size_of::<(Arc<str>, Datum)>() + 16;
        self.columns.iter().map(|(_, datum)| COLUMN + datum.memory()).sum::<usize>() + ROW
    }

    /// Parses a row in the result of a select.
    pub(crate) fn from_text(table: &str, text: &str, schema: &Schema) -> Result<Self, ColumnError> {
        let wrong = |wanted: &str| ColumnError::new(table, "(row)", ValueError::of_text(wanted, text));
        if text.len() > ROW_BYTES_MAX {
            return Err(wrong(&format!("at most {ROW_BYTES_MAX} bytes")));
        }
        let mut row = Row::new(table);
        for (column, notation) in members(text, COLUMNS_MAX).map_err(|_| wrong("an object"))? {
            let column_type = schema.column(table, &column).ok_or_else(|| {
                ColumnError::new(table, &column, ValueError::of_text("a column of the schema", notation))
            })?;
            let datum = column_type
                .decode_text(notation)
                .map_err(|problem| ColumnError::new(table, &column, problem))?;
            row.set(Arc::from(column), datum);
        }
        Ok(row)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn errors_name_table_column_wanted_and_got() {
        let row =
            Row::new("Interface").with("ofport", "seven").with("options", Datum::map([("key", "flow")]));
        assert_eq!(
            row.get::<Option<i64>>("ofport").expect_err("a string").to_string(),
            "Interface.ofport: wanted at most one integer, got \"seven\""
        );
        assert_eq!(
            row.get::<String>("name").expect_err("absent").to_string(),
            "Interface.name: wanted one string, got a row without this column"
        );
        let options: BTreeMap<String, String> = row.get("options").expect("a map");
        assert_eq!(options["key"], "flow");
    }

    #[test]
    fn a_clone_is_not_changed_with_its_origin() {
        let row = Row::new("T").with("a", 1);
        let other = row.clone().with("a", 2);
        assert_eq!((row.get("a"), other.get("a")), (Ok(1), Ok(2)));
    }
}
