//! The operations of hooks on transactions by rows and by columns.

use std::borrow::Cow;
use std::collections::BTreeSet;

use nlog_data::{ColumnTransaction, Columns, CommitError, TableId, Transaction};

/// A form of transactions.
pub(crate) trait Form: Sized {
    /// The transaction by rows.
    fn rows(&self) -> Cow<'_, Transaction>;

    /// Its rows of these tables alone.
    fn part(&self, tables: &BTreeSet<TableId>) -> Transaction;

    /// Whether it changes the table.
    fn touches(&self, table: TableId) -> bool;

    /// The transaction together with changes of tables that it does not touch.
    fn with(&self, changes: &Transaction) -> Result<Self, CommitError>;
}

impl Form for Transaction {
    fn rows(&self) -> Cow<'_, Transaction> {
        Cow::Borrowed(self)
    }

    fn part(&self, tables: &BTreeSet<TableId>) -> Transaction {
        let mut part = Transaction::default();
        for table in tables {
            part.insert.extend(self.insert.get(table).map(|rows| (*table, rows.clone())));
            part.delete.extend(self.delete.get(table).map(|rows| (*table, rows.clone())));
        }
        part
    }

    fn touches(&self, table: TableId) -> bool {
        self.insert.contains_key(&table) || self.delete.contains_key(&table)
    }

    fn with(&self, changes: &Transaction) -> Result<Self, CommitError> {
        let mut all = self.clone();
        all.insert.extend(changes.insert.iter().map(|(table, rows)| (*table, rows.clone())));
        all.delete.extend(changes.delete.iter().map(|(table, rows)| (*table, rows.clone())));
        Ok(all)
    }
}

impl Form for ColumnTransaction {
    fn rows(&self) -> Cow<'_, Transaction> {
        Cow::Owned(self.to_rows())
    }

    fn part(&self, tables: &BTreeSet<TableId>) -> Transaction {
        let rows = |(table, columns): (&TableId, &Columns)| (*table, columns.to_rows());
        let mut part = Transaction::default();
        for table in tables {
            part.insert.extend(self.insert.get_key_value(table).map(rows));
            part.delete.extend(self.delete.get_key_value(table).map(rows));
        }
        part
    }

    fn touches(&self, table: TableId) -> bool {
        self.insert.contains_key(&table) || self.delete.contains_key(&table)
    }

    fn with(&self, changes: &Transaction) -> Result<Self, CommitError> {
        let changes = ColumnTransaction::from_rows(changes)
            .map_err(|error| CommitError::Engine(format!("what the hooks change is no table: {error}")))?;
        let mut all = self.clone();
        all.insert.extend(changes.insert);
        all.delete.extend(changes.delete);
        Ok(all)
    }
}
