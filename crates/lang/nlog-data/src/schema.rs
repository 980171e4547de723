//! Tables: names, roles, columns, keys.

use std::collections::BTreeMap;

use crate::json::write_value;
use crate::quotation::{cut, quote};
use crate::{Type, Value};

/// The number of a table in its [`Schema`]; tables are numbered in name order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// The role of a table: which side fills it and which side reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Filled by transactions.
    Input,
    /// Filled and read by rules alone.
    Internal,
    /// Created by the compiler and not shown to users: only compiler-generated rules fill and read it. Its name
    /// begins with the name of the table that it serves, and a dot.
    Hidden,
    /// Filled by rules; its changes are the program's result.
    Output,
    /// Filled by rules and read by nothing: a transaction after which it has a row is refused. So it is empty after
    /// every accepted transaction.
    Forbid,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: String,
    /// The type of its values.
    pub ty: Type,
}

/// A declared table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name, unique in the program.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The key columns, as indices: no two rows agree on all of them. `None`: the whole row is the key.
    pub key: Option<Vec<usize>>,
    /// What else no two rows agree on: for each `unique(…)` its columns, ascending, in ascending order.
    pub uniques: Vec<Vec<usize>>,
    /// The text of its `##` comment.
    pub doc: String,
}

impl Table {
    /// The key values of a row; `None` if the whole row is the key.
    pub fn key_of(&self, row: &[Value]) -> Option<Vec<Value>> {
        let key = self.key.as_ref()?;
        Some(key.iter().filter_map(|column| row.get(*column).cloned()).collect())
    }

    /// The sets of columns that each identify a row: the key, if one is declared, then the [uniques](Table::uniques).
    pub fn keys(&self) -> impl Iterator<Item = &[usize]> {
        self.key.iter().chain(&self.uniques).map(Vec::as_slice)
    }

    /// What rows share, for messages: `key (port: "p1", ip: "10.0.0.1")` or `unique columns (mac: "02:00:00:00:00:01")`.
    pub(crate) fn quote_shared(&self, unique: Option<&[usize]>, row: &[Value]) -> String {
        let columns = unique.or(self.key.as_deref()).unwrap_or_default();
        let parts: Vec<String> = (columns.iter())
            .filter_map(|at| Some((self.columns.get(*at)?, row.get(*at)?)))
            .map(|(column, value)| format!("{}: {}", column.name, quote(value)))
            .collect();
        let what = if unique.is_some() { "unique columns" } else { "key" };
        format!("{what} ({})", parts.join(", "))
    }

    /// A row with the names of its columns, for messages: `owner(ip: "10.0.0.1", port: "p1")`.
    pub(crate) fn quote_named(&self, row: &[Value]) -> String {
        let mut parts = Vec::new();
        for (column, value) in self.columns.iter().zip(row) {
            let mut json = Vec::new();
            write_value(&mut json, value);
            parts.push(format!("{}: {}", column.name, String::from_utf8_lossy(&json)));
        }
        cut(&format!("{}({})", self.name, parts.join(", "))).into_owned()
    }

    /// The first sentence of the documentation, on one line and without its full stop. Empty if there is none.
    pub(crate) fn first_sentence(&self) -> String {
        let paragraph = self.doc.trim().split("\n\n").next().unwrap_or_default();
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = line.split_once(". ").map_or(&*line, |(first, _)| first);
        cut(sentence.strip_suffix('.').unwrap_or(sentence)).into_owned()
    }
}

/// The tables of a program, in name order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<Table>,
    by_name: BTreeMap<String, TableId>,
}

impl Schema {
    /// Creates a schema of tables with distinct names, and numbers them in name order.
    pub fn new(mut tables: Vec<Table>) -> Self {
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let named = tables.iter().zip(0..).filter(|(table, _)| table.role != Role::Hidden);
        let by_name = named.map(|(table, id)| (table.name.clone(), TableId(id))).collect();
        Schema { tables, by_name }
    }

    /// The table of this number.
    ///
    /// # Panics
    /// If the number belongs to another schema.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0 as usize]
    }

    /// The table with this number, if the schema has one.
    pub fn get(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.0 as usize)
    }

    /// The number of the table with this name. Hidden tables are not found.
    pub fn find(&self, name: &str) -> Option<TableId> {
        self.by_name.get(name).copied()
    }

    /// The table to show to users: for a hidden table the table that it serves, otherwise the table itself.
    pub fn shown(&self, id: TableId) -> TableId {
        let Some(Table { name, role: Role::Hidden, .. }) = self.get(id) else { return id };
        name.split_once('.').and_then(|(shown, _)| self.find(shown)).unwrap_or(id)
    }

    /// For a hidden table that checks a `unique(…)` of the table that it serves: these columns. It has the rows of that
    /// table, and the unique columns as its key.
    pub fn checks(&self, id: TableId) -> Option<&[usize]> {
        let table = self.get(id).filter(|table| table.role == Role::Hidden)?;
        let (_, part) = table.name.split_once('.')?;
        table.key.as_deref().filter(|_| part.starts_with("unique."))
    }

    /// All tables, including hidden ones, in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(id, table)| (TableId(id as u32), table))
    }

    /// The number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}
