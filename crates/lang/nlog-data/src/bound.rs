//! Bounds on work: how much a transaction may make of what it gives, and whether anybody still wants the result.
//!
//! Rules can multiply: from a few rows that fit together they derive a row for each pair. A bound counts the rows of each rule
//! while they are derived, so it costs memory and time in proportion to what it allows. Time itself is no part of it: the
//! same transaction is accepted on a slow machine too.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::quotation::grouped;
use crate::{Transaction, Value};

/// Tells work that nobody wants its result any more. All clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the work, which ends soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The most that rules may make of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// The rows that one rule derives. A rule may find [`STEPS`](Most::STEPS) times as many on its way to them.
    pub rows: u64,
    /// The bytes of all derived rows and values.
    pub bytes: u64,
}

impl Most {
    /// How many rows a rule may find, and then drop, for each row that it may derive.
    pub const STEPS: u64 = 8;
    /// No bound.
    pub const ANY: Most = Most { rows: u64::MAX, bytes: u64::MAX };
}

/// The bound of a transaction. Clones share the progress and the cancellation.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The most that rules may make of it.
    pub most: Most,
    /// Whether anybody waits for it.
    pub cancel: Cancel,
    /// How far it is.
    pub progress: Progress,
}

impl Bound {
    /// No bound but a cancellation.
    pub fn cancelled_by(cancel: Cancel) -> Bound {
        Bound { most: Most::ANY, cancel, progress: Progress::default() }
    }
}

/// How far a transaction is, for readers in other threads. All clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Default)]
struct Counters {
    /// The fingerprint of the rule, or 0.
    rule: AtomicU64,
    rows: AtomicU64,
    observer: OnceLock<Box<dyn Fn(Stage) + Send + Sync>>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("rule", &self.rule).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A stage of a transaction, for whoever measures how long each takes: nothing here reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The request is compared with the present state.
    Validate,
    /// Rules run.
    Derive,
    /// A hook runs, such as one that numbers things.
    Number,
    /// The derived rows take effect in memory.
    Follow,
}

impl Progress {
    /// Calls this whenever a stage begins, in the thread that runs the transaction. Only the first observer counts.
    pub fn observe(&self, observer: impl Fn(Stage) + Send + Sync + 'static) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// A stage begins.
    pub fn enter(&self, stage: Stage) {
        if let Some(observer) = self.0.observer.get() {
            observer(stage);
        }
    }

    /// A transaction begins.
    pub fn begin(&self) {
        self.0.rule.store(0, Ordering::Relaxed);
        self.0.rows.store(0, Ordering::Relaxed);
    }

    /// A rule with this fingerprint runs from now on.
    pub fn rule(&self, fingerprint: u64) {
        self.0.rule.store(fingerprint, Ordering::Relaxed);
    }

    /// Rules have derived this many rows more.
    pub fn add_rows(&self, rows: u64) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// The fingerprint of the rule that runs, if one does, and the number of rows derived so far.
    pub fn read(&self) -> (Option<u64>, u64) {
        let rule = self.0.rule.load(Ordering::Relaxed);
        (Some(rule).filter(|rule| *rule != 0), self.0.rows.load(Ordering::Relaxed))
    }
}

/// Why a transaction was stopped. Nothing changed, and the evaluator can continue. Without its bound the transaction
/// might be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Nobody waits for it any more.
    #[error("nobody waits for the transaction any more")]
    Cancelled,
    /// A rule makes too much of it.
    #[error("{0}")]
    TooMuch(Box<TooMuch>),
}

/// A rule that makes too much of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule at {place}, which fills table {table}, {}", measure.told(*counted, *most))]
pub struct TooMuch {
    /// The table that the rule fills.
    pub table: String,
    /// The file and line of the rule.
    pub place: String,
    /// What there is too much of.
    pub measure: Measure,
    /// How much there was when it was stopped.
    pub counted: u64,
    /// The most.
    pub most: u64,
}

/// What a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Rows that a rule derives.
    Rows,
    /// Rows that a rule finds on its way.
    Steps,
    /// Bytes of derived rows and values.
    Bytes,
}

impl Measure {
    fn told(self, counted: u64, most: u64) -> String {
        let grouped = |number: u64| grouped(usize::try_from(number).unwrap_or(usize::MAX));
        let (counted, most) = (grouped(counted), grouped(most));
        match self {
            Measure::Rows => format!("derives more than {most} rows ({counted} when it was stopped)"),
            Measure::Steps => format!("looks at more than {most} rows ({counted} when it was stopped)"),
            Measure::Bytes => {
                format!(
                    "brings the derived rows and values to more than {most} bytes ({counted} when it was stopped)"
                )
            }
        }
    }
}

impl Transaction {
    /// The number of values that it gives, those inside collections and records included: its size, for [`Most`].
    pub fn values(&self) -> u64 {
        let rows = self.insert.values().chain(self.delete.values()).flatten();
        rows.flatten().map(Value::leaves).sum()
    }
}

impl Value {
    /// The number of values that it consists of; of a value that is no collection and no record, 1.
    fn leaves(&self) -> u64 {
        match self {
            Value::Set(values) | Value::List(values) | Value::Record(values) => {
                1 + values.iter().map(Value::leaves).sum::<u64>()
            }
            _ => 1,
        }
    }

    /// About the bytes that it takes in memory, those of what it shares with others included.
    pub fn bytes(&self) -> u64 {
        let own = size_of::<Value>() as u64;
        own + match self {
            Value::String(text) => text.len() as u64,
            Value::Match(matching) => matching.bytes() as u64,
            Value::Actions(actions) => actions.bytes() as u64,
            Value::Set(values) | Value::List(values) | Value::Record(values) => {
                values.iter().map(Value::bytes).sum()
            }
            _ => 0,
        }
    }
}
