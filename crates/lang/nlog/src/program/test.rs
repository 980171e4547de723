//! Unit tests of rules, in the form in which a test runner executes them.

use std::sync::Arc;

use nlog_data::{ErrorCode, Row, TableId, Transaction, Value};
use openflow_rs::Match;

use super::Place;

/// `test "name" { … }`: transactions and the expectations after each, run in a separate evaluator.
///
/// The program's facts hold from the start. A transaction that is refused changes nothing, and is a failure unless an
/// expectation of its error follows before the next transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its name, unique in its file.
    pub name: Arc<str>,
    /// Its place.
    pub place: Place,
    /// Its steps, in order.
    pub steps: Vec<TestStep>,
}

/// A step of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStep {
    /// Its place.
    pub place: Place,
    /// Its kind.
    pub kind: TestStepKind,
}

/// The kinds of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestStepKind {
    /// Changes of input tables, applied atomically.
    Transaction(Transaction),
    /// The objects of a file, applied atomically to those that are there.
    Objects(ObjectsFile),
    /// A host reports the interface of a port, and from then on every host makes and reports the ports that the rules ask
    /// it for.
    Port {
        /// The port.
        port: Arc<str>,
        /// The host.
        host: Arc<str>,
    },
    /// A row like this is there.
    Holds(Pattern),
    /// No row matches the pattern.
    Lacks(Pattern),
    /// Each of the tables contains exactly these rows.
    Exactly(Vec<ExpectedRow>),
    /// The last transaction made exactly these changes to each of the tables.
    Delta {
        /// The rows added.
        insert: Vec<ExpectedRow>,
        /// The rows removed.
        delete: Vec<ExpectedRow>,
    },
    /// The last transaction was refused with this error.
    Error(ErrorCode),
    /// A packet goes to exactly these ports.
    Packet(Packet),
}

impl TestStepKind {
    /// Whether it is a transaction, and no expectation.
    pub fn is_transaction(&self) -> bool {
        matches!(self, TestStepKind::Transaction(_) | TestStepKind::Objects(_) | TestStepKind::Port { .. })
    }
}

/// A packet that a test sends through the flow tables of all hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The port that sends it.
    pub from: Arc<str>,
    /// Its fields: all are fields of a frame, and all but those of a VLAN tag are given in full.
    pub fields: Match,
    /// The ports that receive it; none if it goes nowhere.
    pub at: Vec<Arc<str>>,
}

/// A file of network objects that a test gives, in YAML or JSON. Whether they fit the kinds of the program is found when
/// the test runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectsFile {
    /// Its name: the path as the test gives it, after the folder of the test file.
    pub name: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}

/// A pattern for rows of a table, by the values of some of their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The table.
    pub table: TableId,
    /// For each column its value, or none if any value matches.
    pub columns: Vec<Option<Value>>,
}

impl Pattern {
    /// Whether the row matches.
    pub fn admits(&self, row: &[Value]) -> bool {
        let mut columns = self.columns.iter().zip(row);
        columns.all(|(wanted, value)| wanted.as_ref().is_none_or(|wanted| wanted == value))
    }

    /// This row alone.
    pub fn of_row(table: TableId, row: &[Value]) -> Self {
        Pattern { table, columns: row.iter().cloned().map(Some).collect() }
    }
}

/// A complete row in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRow {
    /// Its table.
    pub table: TableId,
    /// Its values.
    pub row: Row,
    /// Its place.
    pub place: Place,
}
