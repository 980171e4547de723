//! The bound of the running transaction: how many rows each rule has derived of it, for all workers.
//!
//! Pipelines count in batches, not rows: a [`Meter`] knows how far its pipeline may go before it has to look again. A worker
//! that is stopped, or sees that another one is, computes nothing more in this transaction. It still takes part in the rounds
//! that are left, because the others wait for its packets; those that come after a stop are never used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nlog::Program;
use nlog_data::{Bound, Measure, Most, RuleId, Stage, Stopped, TooMuch};

use crate::symbol::{Symbol, Symbols};

/// A pipeline looks at its bound after so many rows: often enough for a cancellation, seldom enough to cost nothing.
const STRIDE: u64 = if cfg!(debug_assertions) { 4 } else { 1 << 12 };

/// The bound of a transaction that runs.
#[derive(Debug)]
pub(crate) struct Running {
    bound: Bound,
    program: Arc<Program>,
    /// By rule.
    of_rules: Box<[OfRule]>,
    /// The bytes of derived rows.
    row_bytes: AtomicU64,
    /// Those of all values that the engine had made when the transaction began.
    values_before: u64,
    is_stopped: AtomicBool,
    /// Why: the first rule that one of the workers stopped at.
    why: Mutex<Option<Why>>,
}

#[derive(Debug, Default)]
struct OfRule {
    rows: AtomicU64,
    steps: AtomicU64,
}

/// Why a transaction is stopped.
#[derive(Debug, Clone)]
enum Why {
    Cancelled,
    TooMuch { rule: RuleId, measure: Measure, counted: u64, most: u64 },
}

impl Running {
    pub(crate) fn new(bound: Bound, program: &Arc<Program>, symbols: &Symbols) -> Self {
        Running {
            bound,
            of_rules: program.rules.iter().map(|_| OfRule::default()).collect(),
            program: Arc::clone(program),
            row_bytes: AtomicU64::new(0),
            values_before: symbols.bytes_made(),
            is_stopped: AtomicBool::new(false),
            why: Mutex::default(),
        }
    }

    /// A stage begins.
    pub(crate) fn enter(&self, stage: Stage) {
        self.bound.progress.enter(stage);
    }

    /// A rule begins at some worker.
    pub(crate) fn begin(&self, rule: RuleId) {
        if let Some(rule) = self.program.rules.get(rule.0 as usize) {
            self.bound.progress.rule(rule.fingerprint);
        }
    }

    /// Whether nothing more is to be computed. What another worker sent after it was stopped comes after this is true.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// The refusal, if the transaction is stopped.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        if !self.is_stopped() {
            return None;
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match why.as_ref() {
            None | Some(Why::Cancelled) => Stopped::Cancelled,
            Some(Why::TooMuch { rule, measure, counted, most }) => {
                let rule = self.program.rule(*rule);
                Stopped::TooMuch(Box::new(TooMuch {
                    table: self.program.schema.table(self.program.schema.shown(rule.head)).name.clone(),
                    place: format!("{}:{}", rule.place.file, rule.place.line),
                    measure: *measure,
                    counted: *counted,
                    most: *most,
                }))
            }
        })
    }

    /// Counts what a pipeline of a rule did since it last counted. Returns whether it is stopped.
    fn count(&self, rule: RuleId, (rows, width): (u64, usize), steps: u64, symbols: &Symbols) -> bool {
        self.bound.progress.add_rows(rows);
        let add = |to: &AtomicU64, more: u64| to.fetch_add(more, Ordering::Relaxed) + more;
        let of_rule = self.of_rules.get(rule.0 as usize);
        let (all_rows, all_steps) =
            of_rule.map_or((0, 0), |of_rule| (add(&of_rule.rows, rows), add(&of_rule.steps, steps)));
        let bytes = add(&self.row_bytes, rows * (width * size_of::<Symbol>()) as u64);
        let bytes = bytes + symbols.bytes_made().saturating_sub(self.values_before);
        let most = self.bound.most;
        let counts = [
            (Measure::Rows, all_rows, most.rows),
            (Measure::Steps, all_steps, most.rows.saturating_mul(Most::STEPS)),
            (Measure::Bytes, bytes, most.bytes),
        ];
        if self.bound.cancel.is_cancelled() {
            self.stop(Why::Cancelled);
        } else if let Some((measure, counted, most)) =
            counts.into_iter().find(|(_, counted, most)| counted > most)
        {
            self.stop(Why::TooMuch { rule, measure, counted, most });
        }
        self.is_stopped()
    }

    fn stop(&self, why: Why) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.is_stopped.store(true, Ordering::Release);
    }
}

/// What a run of a pipeline has done, and how far it may go before it counts.
pub(super) struct Meter<'a> {
    running: Option<&'a Running>,
    rule: RuleId,
    /// What is counted: rows of the result, and rows found.
    rows: u64,
    steps: u64,
    /// The sum of both at which it counts again.
    due: u64,
}

impl<'a> Meter<'a> {
    /// A run that begins with so many rows in its result.
    pub(super) fn new(running: Option<&'a Running>, rule: RuleId, rows: usize) -> Self {
        let rows = rows as u64;
        let due = if running.is_some() { rows + STRIDE } else { u64::MAX };
        Meter { running, rule, rows, steps: 0, due }
    }

    /// Whether the pipeline has to stop, after this many rows in its result, of this width, and this many found ones.
    #[inline]
    pub(super) fn stops(&mut self, (rows, width): (usize, usize), steps: u64, symbols: &Symbols) -> bool {
        rows as u64 + steps >= self.due && self.counts((rows, width), steps, symbols)
    }

    /// Counts what was done so far. Returns whether the pipeline has to stop.
    #[cold]
    pub(super) fn counts(&mut self, (rows, width): (usize, usize), steps: u64, symbols: &Symbols) -> bool {
        let Some(running) = self.running else { return false };
        let rows = rows as u64;
        if (rows, steps) == (self.rows, self.steps) {
            return running.is_stopped();
        }
        let stops = running.count(self.rule, (rows - self.rows, width), steps - self.steps, symbols);
        (self.rows, self.steps) = (rows, steps);
        // A run that is stopped looks at each further row.
        self.due = if stops { 0 } else { rows + steps + STRIDE };
        stops
    }
}
