//! Tables: names, roles, columns, keys.

use std::collections::BTreeMap;

use crate::json::quote;
use crate::{Type, Value};

/// The number of a table in its [`Schema`]; tables are numbered in name order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// Who fills a table, and who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Filled by transactions.
    Input,
    /// Filled and read by rules alone.
    Internal,
    /// Made by the compiler and shown to nobody: filled and read by rules that it made. Its name begins with that of
    /// the table that it was made for, and a dot.
    Hidden,
    /// Filled by rules; its changes are the program's result.
    Output,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: String,
    /// What its values are.
    pub ty: Type,
}

/// A declared table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name, unique in the program.
    pub name: String,
    /// Who fills it.
    pub role: Role,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The columns that name a row, as indices: no two rows agree on all of them. `None`: the whole row does.
    pub key: Option<Vec<usize>>,
    /// The text of its `##` comment.
    pub doc: String,
}

impl Table {
    /// The values of a row's key, or none if the whole row is the key.
    pub fn key_of(&self, row: &[Value]) -> Option<Vec<Value>> {
        let key = self.key.as_ref()?;
        Some(key.iter().filter_map(|column| row.get(*column).cloned()).collect())
    }

    /// The key of a row for messages: `key (port: "p1", ip: "10.0.0.1")`.
    pub(crate) fn quote_key(&self, row: &[Value]) -> String {
        let parts: Vec<String> = (self.key.iter().flatten())
            .filter_map(|at| Some((self.columns.get(*at)?, row.get(*at)?)))
            .map(|(column, value)| format!("{}: {}", column.name, quote(value)))
            .collect();
        format!("key ({})", parts.join(", "))
    }
}

/// The tables of a program, in name order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<Table>,
    by_name: BTreeMap<String, TableId>,
}

impl Schema {
    /// A schema of these tables, whose names differ. Numbers them in name order.
    pub fn new(mut tables: Vec<Table>) -> Self {
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let named = tables.iter().zip(0..).filter(|(table, _)| table.role != Role::Hidden);
        let by_name = named.map(|(table, id)| (table.name.clone(), TableId(id))).collect();
        Schema { tables, by_name }
    }

    /// The table of this number.
    ///
    /// # Panics
    /// If the number is of another schema.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0 as usize]
    }

    /// The table of this number, if the number is of this schema.
    pub fn get(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.0 as usize)
    }

    /// The number of the table with this name; hidden ones have no name for others.
    pub fn find(&self, name: &str) -> Option<TableId> {
        self.by_name.get(name).copied()
    }

    /// The table that people know: of a hidden one that which it was made for, else the table itself.
    pub fn shown(&self, id: TableId) -> TableId {
        let Some(Table { name, role: Role::Hidden, .. }) = self.get(id) else { return id };
        name.split_once('.').and_then(|(shown, _)| self.find(shown)).unwrap_or(id)
    }

    /// All tables, hidden ones among them, in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(id, table)| (TableId(id as u32), table))
    }

    /// How many tables there are.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}
