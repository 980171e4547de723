//! A program of the size of NVP's, made from a seed.
//!
//! The literature gives the size (NSDI 2014, section 4.3): 123 types of inputs, 81 of outputs, 889 tables in all, 1,224
//! rules, 27,000 lines. The shape is our own and follows from the purpose of such rules: configuration, reports and
//! allocated numbers come in; the logical half of the rules works on datapaths and ports alone, makes matches and
//! actions of them and collects these in tables of universal flows; the physical half places them on transport nodes;
//! tables for OpenFlow, OVSDB, status and statistics go out. Most rules look something up by its key for each row of a
//! first table; others project, aggregate, pair two rows of a table, distinguish cases or unite alternatives.
//!
//! In reading order: [`random`], [`vocabulary`] (the words), this file (the program as data), [`draft`] (one rule),
//! [`generate`], [`text`] (files, with documentation and comments), [`data`] (a transaction that fills the inputs).

mod data;
mod draft;
mod generate;
pub(crate) mod random;
#[cfg(test)]
mod tests;
mod text;
mod vocabulary;

pub(crate) use text::{Edit, Text};

/// Tables that transactions fill.
pub(crate) const INPUTS: usize = 123;
/// Tables whose changes are the result.
pub(crate) const OUTPUTS: usize = 81;
/// All tables.
pub(crate) const TABLES: usize = 889;
/// All rules.
pub(crate) const RULES: usize = 1224;
/// Lines, documentation and comments included.
pub(crate) const LINES: usize = 27_000;

/// The seed that figures are reported for.
pub(crate) const SEED: u64 = 2014;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Internal,
    Output,
}

/// A column.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    /// Of [`vocabulary::KINDS`].
    kind: usize,
    /// For a match, its fields as bits; for actions, their number.
    detail: u32,
}

/// A table.
#[derive(Debug, Clone)]
struct Table {
    name: String,
    role: Role,
    columns: Vec<Column>,
    /// The columns that identify a row, if not all are needed.
    unique: Option<Vec<usize>>,
    /// Whether that is declared.
    keyed: bool,
    /// The maximum number of its rows.
    rows: usize,
    /// The number of tables between it and the inputs.
    depth: usize,
    /// The file that declares it.
    file: usize,
    /// The first file whose rules may read it.
    readable: usize,
    read: bool,
}

/// A rule.
#[derive(Debug, Clone)]
struct Rule {
    table: usize,
    file: usize,
    head: Vec<String>,
    body: draft::Draft,
}

/// A file.
#[derive(Debug, Clone)]
struct File {
    /// Relative to the program's folder.
    path: String,
    /// What it is about.
    subject: &'static str,
}

/// A program, not yet written.
#[derive(Debug)]
pub(crate) struct Program {
    seed: u64,
    files: Vec<File>,
    tables: Vec<Table>,
    rules: Vec<Rule>,
}
