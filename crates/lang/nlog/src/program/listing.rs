//! Listings and tables of counters: questions about objects that the program declares and the controller answers.

use nlog_data::{Schema, TableId};

/// A `listing table` or a `counter table`. Its first column is a reference to the object that a row is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The table.
    pub table: TableId,
    /// The counters that hosts are asked for. Without any, the rows are the answer.
    pub reads: Option<Reading>,
    /// The text in place of an answer without rows; empty if the declaration has none.
    pub otherwise: String,
}

/// The counters that a row names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The column with the host that counts. Without one, the answer has a column `host`.
    pub host: Option<usize>,
    /// What counts there.
    pub counter: Counter,
    /// The table of the hosts to ask: its columns are a host and an object. Without it and without `host`, all hosts that should
    /// have the flow are asked.
    pub on: Option<TableId>,
    /// The columns of the answer after those of the table.
    pub counts: Vec<Count>,
}

/// The columns that name a counter. Answers do not have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// A meter.
    Meter {
        /// Its number.
        meter: usize,
    },
    /// A flow.
    Flow {
        /// Its table.
        table: usize,
        /// Its priority.
        priority: usize,
        /// Its match.
        matching: usize,
    },
    /// The flows that a switch has learned in a table and that a match covers.
    Learned {
        /// The table.
        table: usize,
        /// The match.
        matching: usize,
        /// The cookie.
        cookie: usize,
    },
}

impl Counter {
    /// Whether this column names the counter.
    pub fn has(self, column: usize) -> bool {
        match self {
            Counter::Meter { meter } => column == meter,
            Counter::Flow { table, priority, matching } => [table, priority, matching].contains(&column),
            Counter::Learned { table, matching, cookie } => [table, matching, cookie].contains(&column),
        }
    }
}

/// A column of an answer that hosts fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Its name.
    pub name: String,
    /// What it has.
    pub counted: Counted,
    /// The column with the greatest value of the count.
    pub limit: Option<usize>,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Packets that came to a flow or a meter.
    Packets,
    /// Their bytes.
    Bytes,
    /// Packets that a meter has dropped.
    Dropped,
    /// Learned flows.
    Entries,
    /// The addresses that learned flows match as `eth_dst`: a list, for those who ask for it.
    EthDst,
}

impl Listing {
    /// The name by which users ask for it: that of the table, with `-` for `_`.
    pub fn name(&self, schema: &Schema) -> String {
        schema.table(self.table).name.replace('_', "-")
    }

    /// The kinds of the objects that it is about.
    pub fn kinds<'a>(&self, schema: &'a Schema) -> &'a [String] {
        schema.table(self.table).columns.first().and_then(|owner| owner.ty.kinds()).unwrap_or_default()
    }
}
