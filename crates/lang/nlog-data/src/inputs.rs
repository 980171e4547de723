//! The contents of input tables, and the checks of transactions against them.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::hash_table::{Entry, OccupiedEntry};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::quotation::quote_row;
use crate::{
    Column, Columns, Delta, ErrorCode, Role, Row, Schema, Table, TableDelta, TableId, Transaction,
    TransactionError, Value,
};

/// The rows of every input table.
#[derive(Debug, Clone)]
pub struct Inputs {
    schema: Arc<Schema>,
    /// Contents by table number; only input tables have any.
    tables: Vec<Contents>,
}

/// The effect of a transaction: its net changes, and its inserts and deletes without effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The net change of each input table that changed.
    pub delta: Delta,
    /// The number of inserts of rows that were already present.
    pub redundant_inserts: u64,
    /// The number of deletes of rows that were not present.
    pub redundant_deletes: u64,
}

/// The rows of one table, hashed by their key, or by the whole row if the table has no key.
#[derive(Debug, Clone, Default)]
struct Contents {
    rows: HashTable<Row>,
    /// The rows once more for each `unique(…)`, by its columns.
    uniques: Vec<HashMap<Row, Row>>,
    hasher: DefaultHashBuilder,
}

impl Inputs {
    /// Empty tables.
    pub fn new(schema: Arc<Schema>) -> Self {
        let uniques = |table: &Table| vec![HashMap::new(); table.uniques.len()];
        let contents = |(_, table)| Contents { uniques: uniques(table), ..Contents::default() };
        let tables = schema.iter().map(contents).collect();
        Inputs { schema, tables }
    }

    /// Applies all changes of a transaction, or none of them if a row is refused.
    ///
    /// Deletes come before inserts. Inserting a present row or deleting an absent one changes nothing and is counted.
    /// A second row under a key, or with the same unique columns, is [`ErrorCode::DuplicateKey`]. Of several errors, the
    /// first is reported, by table name, then in the order of rows, which is also the order of insertion. What a row
    /// shares with others is reported of the key first.
    pub fn apply(&mut self, transaction: &Transaction) -> Result<Changes, TransactionError> {
        let mut changes = Changes::default();
        let touched: BTreeSet<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        for id in touched {
            let delete = transaction.delete.get(&id).map_or(&[][..], Vec::as_slice);
            let insert = transaction.insert.get(&id).map_or(&[][..], Vec::as_slice);
            if let Err(error) = self.apply_to_table(id, delete, insert, &mut changes) {
                self.undo(changes);
                return Err(error);
            }
        }
        Ok(changes)
    }

    /// Whether [`Inputs::apply`] would accept the transaction. Changes nothing.
    pub fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        let changes = self.apply(transaction)?;
        self.undo(changes);
        Ok(())
    }

    /// Undoes the most recently applied transaction that has not been undone.
    pub fn undo(&mut self, changes: Changes) {
        for (id, delta) in changes.delta.tables {
            let table = self.schema.table(id);
            let contents = &mut self.tables[id.0 as usize];
            for row in &delta.insert {
                contents.remove(table, row);
            }
            for row in delta.delete {
                let fits = contents.insert(table, &row).is_ok();
                debug_assert!(fits, "only the most recent changes can be undone");
            }
        }
    }

    /// The rows of a table, ascending.
    ///
    /// # Panics
    /// If the number belongs to another schema.
    pub fn contents(&self, table: TableId) -> Vec<Row> {
        let mut rows: Vec<Row> = self.tables[table.0 as usize].rows.iter().cloned().collect();
        rows.sort_unstable();
        rows
    }

    /// Whether the table has the row.
    ///
    /// # Panics
    /// If the number belongs to another schema.
    pub fn contains(&self, table: TableId, row: &[Value]) -> bool {
        self.tables[table.0 as usize].contains(self.schema.table(table), row)
    }

    /// Applies one table's part of a transaction. After an error, `changes` contains the changes made before it.
    fn apply_to_table(
        &mut self,
        id: TableId,
        delete: &[Row],
        insert: &[Row],
        changes: &mut Changes,
    ) -> Result<(), TransactionError> {
        let schema = self.schema.clone();
        let table = check_form(&schema, id, delete.iter().chain(insert))?;
        let contents = &mut self.tables[id.0 as usize];
        let mut deleted = BTreeSet::new();
        for row in delete {
            if contents.remove(table, row) {
                deleted.insert(row);
            } else {
                changes.redundant_deletes += 1;
            }
        }
        let mut order: Vec<&Row> = insert.iter().collect();
        order.sort_unstable();
        let mut inserted = Vec::new();
        let mut refused = None;
        for row in order {
            match contents.insert(table, row) {
                Ok(false) => changes.redundant_inserts += 1,
                Ok(true) if deleted.remove(row) => {}
                Ok(true) => inserted.push(row.clone()),
                Err(Taken { present, unique }) => {
                    refused = Some(duplicate_key(table, unique, row, &present));
                    break;
                }
            }
        }
        if !deleted.is_empty() || !inserted.is_empty() {
            let delete = deleted.into_iter().cloned().collect();
            changes.delta.tables.insert(id, TableDelta { insert: inserted, delete, ..TableDelta::default() });
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Contents {
    fn contains(&self, table: &Table, row: &[Value]) -> bool {
        self.rows.find(hash(&self.hasher, table, row), |present| present == row).is_some()
    }

    /// Deletes a row. Returns whether it was present.
    fn remove(&mut self, table: &Table, row: &[Value]) -> bool {
        let found = self.rows.find_entry(hash(&self.hasher, table, row), |present| present == row);
        let was_there = found.map(OccupiedEntry::remove).is_ok();
        for (columns, rows) in table.uniques.iter().zip(&mut self.uniques).filter(|_| was_there) {
            rows.remove(&values(columns, row));
        }
        was_there
    }

    /// Inserts a row. Returns whether it is new.
    fn insert<'t>(&mut self, table: &'t Table, row: &Row) -> Result<bool, Taken<'t>> {
        let Contents { rows, uniques, hasher } = self;
        let rehash = |row: &Row| hash(hasher, table, row);
        match rows.entry(hash(hasher, table, row), |present| same_key(table, present, row), rehash) {
            Entry::Occupied(present) if present.get() == row => Ok(false),
            Entry::Occupied(present) => Err(Taken { present: present.get().clone(), unique: None }),
            Entry::Vacant(free) => {
                for (columns, rows) in table.uniques.iter().zip(&*uniques) {
                    if let Some(present) = rows.get(&values(columns, row)) {
                        return Err(Taken { present: present.clone(), unique: Some(columns) });
                    }
                }
                for (columns, rows) in table.uniques.iter().zip(uniques) {
                    rows.insert(values(columns, row), row.clone());
                }
                free.insert(row.clone());
                Ok(true)
            }
        }
    }
}

/// Another row has the same key, or the same unique columns.
struct Taken<'t> {
    present: Row,
    /// The unique columns; `None` for the key.
    unique: Option<&'t [usize]>,
}

/// The values of a row in some columns.
fn values(columns: &[usize], row: &[Value]) -> Row {
    columns.iter().filter_map(|column| row.get(*column).cloned()).collect()
}

/// The hash of a row's key, or of the whole row if the table has none.
fn hash(hasher: &DefaultHashBuilder, table: &Table, row: &[Value]) -> u64 {
    match &table.key {
        None => hasher.hash_one(row),
        Some(key) => {
            let mut state = hasher.build_hasher();
            for column in key {
                row.get(*column).hash(&mut state);
            }
            state.finish()
        }
    }
}

fn same_key(table: &Table, a: &[Value], b: &[Value]) -> bool {
    match &table.key {
        None => a == b,
        Some(key) => key.iter().all(|column| a.get(*column) == b.get(*column)),
    }
}

/// Checks that the table is an input table, that rows have its number of columns, and that their values satisfy the
/// constraints of its types. Callers must ensure the rest of their types.
pub fn check_form<'a>(
    schema: &Schema,
    id: TableId,
    rows: impl Iterator<Item = &'a Row> + Clone,
) -> Result<&Table, TransactionError> {
    let Some(table) = schema.get(id) else {
        return Err(TransactionError::new(ErrorCode::UnknownTable, format!("unknown table number {}", id.0)));
    };
    if table.role != Role::Input {
        let message = format!("table {} is derived by rules; only input tables can be changed", table.name);
        return Err(TransactionError::new(ErrorCode::NotAnInput, message));
    }
    if let Some(row) = rows.clone().filter(|row| row.len() != table.columns.len()).min() {
        let (row, columns) = (quote_row(row), table.columns.len());
        let message = format!("table {}: row {row} must have {columns} columns", table.name);
        return Err(TransactionError::new(ErrorCode::Arity, message));
    }
    let constrained: Vec<usize> =
        (0..table.columns.len()).filter(|at| table.columns[*at].ty.is_constrained()).collect();
    if constrained.is_empty() {
        return Ok(table);
    }
    let violation = |row: &Row| {
        constrained.iter().find_map(|at| {
            let column = &table.columns[*at];
            Some(format!("column {}: {}", column.name, column.ty.violation(&row[*at])?))
        })
    };
    let Some((row, violation)) = rows.filter_map(|row| Some((row, violation(row)?))).min() else {
        return Ok(table);
    };
    let message = format!("table {}: row {}, {violation}", table.name, quote_row(row));
    Err(TransactionError::new(ErrorCode::Range, message))
}

/// Whether rows by columns would pass [`check_form`].
pub fn has_form(schema: &Schema, id: TableId, rows: &Columns) -> bool {
    let Some(table) = schema.get(id).filter(|table| table.role == Role::Input) else { return false };
    let mut columns = table.columns.iter().zip(rows.dictionaries());
    let conforms = |column: &Column, values: &[Value]| {
        !column.ty.is_constrained() || values.iter().all(|value| column.ty.violation(value).is_none())
    };
    rows.is_empty()
        || rows.width() == table.columns.len() && columns.all(|(column, values)| conforms(column, values))
}

/// The error for a row whose key belongs to another row, or whose unique columns do.
pub fn duplicate_key(
    table: &Table,
    unique: Option<&[usize]>,
    row: &[Value],
    present: &[Value],
) -> TransactionError {
    let message = format!(
        "table {}: row {} has the same {} as row {}; to replace a row, delete it in the same transaction",
        table.name,
        quote_row(row),
        table.quote_shared(unique, row),
        quote_row(present)
    );
    TransactionError::new(ErrorCode::DuplicateKey, message)
}
