//! The indexes of a plan, and traces of either width.
//!
//! An index maps key columns of a relation to value columns, for the rows that satisfy its conditions ([`Fit`]). Probes
//! look bindings up in it by key. It counts how many rows agree on all its columns, so it can drop columns that no
//! probe reads. If keys and values have few columns ([`NARROW`]), the trace stores them as narrow rows, otherwise as
//! wide ones.

use nlog_plan::query::{Index as IndexPlan, RelationId};
use nlog_plan::{NARROW, Operand, Selection};

use super::delta::{Delta, Diff, TooMany};
use super::sorted::{Entry, MOST_COLUMNS, Sorted, Use, sort};
use super::trace::{Count, Rows, Trace, Update, View};
use crate::row::{Narrow, Row, Wide};
use crate::symbol::{Marks, Symbol, Symbols};

/// A trace whose keys and values have the same width.
pub(crate) enum AnyTrace<C: Count> {
    Narrow(Trace<Narrow, Narrow, C>),
    Wide(Trace<Wide, Wide, C>),
}

/// Evaluates the same expression for a trace of either width.
macro_rules! each_width {
    ($any:expr, $trace:ident => $what:expr) => {
        match $any {
            $crate::fused::index::AnyTrace::Narrow($trace) => $what,
            $crate::fused::index::AnyTrace::Wide($trace) => $what,
        }
    };
}
pub(crate) use each_width;

impl<C: Count> AnyTrace<C> {
    /// A trace for keys and values with these numbers of columns.
    pub(crate) fn new(key: usize, value: usize) -> Self {
        if key.max(value) <= NARROW { AnyTrace::Narrow(Trace::new()) } else { AnyTrace::Wide(Trace::new()) }
    }

    pub(crate) fn is_empty(&self, view: View) -> bool {
        each_width!(self, trace => trace.is_empty(view))
    }

    pub(crate) fn publish_if_touched(&mut self) {
        each_width!(self, trace => if trace.is_touched() { trace.publish() });
    }

    /// The number of published batches that are not merged yet.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> usize {
        each_width!(self, trace => trace.recent())
    }

    /// Merges published changes with those before.
    pub(crate) fn merge(&mut self) {
        each_width!(self, trace => trace.merge());
    }

    pub(crate) fn discard(&mut self) {
        each_width!(self, trace => trace.discard());
    }

    pub(crate) fn updates(&self) -> usize {
        each_width!(self, trace => trace.updates())
    }

    pub(crate) fn bytes(&self) -> usize {
        each_width!(self, trace => trace.bytes())
    }
}

/// The conditions on the rows of a relation.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    /// Columns that must equal a constant.
    constants: Vec<(usize, Symbol)>,
    /// Columns that must equal another column.
    equalities: Vec<(usize, usize)>,
}

impl Fit {
    pub(crate) fn new(select: &[Selection], symbols: &Symbols) -> Self {
        let mut fit = Fit::default();
        for Selection { column, equals } in select {
            match equals {
                Operand::Column(other) => fit.equalities.push((*column, *other)),
                Operand::Constant(value) => fit.constants.push((*column, symbols.intern(value))),
            }
        }
        fit
    }

    #[inline]
    pub(crate) fn fits(&self, row: &[Symbol]) -> bool {
        self.constants.iter().all(|(column, word)| row[*column] == *word)
            && self.equalities.iter().all(|(column, other)| row[*column] == row[*other])
    }

    /// Whether there are no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.constants.is_empty() && self.equalities.is_empty()
    }

    /// The constant that a column must equal.
    fn constant(&self, column: usize) -> Option<Symbol> {
        self.constants.iter().find(|(of, _)| *of == column).map(|(_, word)| *word)
    }

    /// The constants in the conditions.
    pub(crate) fn constants(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.constants.iter().map(|(_, word)| *word)
    }
}

/// An index of a plan, with its contents.
pub(crate) struct Index {
    pub(crate) relation: RelationId,
    /// The conditions on its rows.
    pub(crate) fit: Fit,
    key: Vec<usize>,
    value: Vec<usize>,
    /// The number of columns of the relation.
    columns: usize,
    pub(crate) trace: AnyTrace<Rows>,
}

impl Index {
    pub(crate) fn new(plan: &IndexPlan, columns: usize, symbols: &Symbols) -> Self {
        Index {
            relation: plan.relation,
            fit: Fit::new(&plan.select, symbols),
            key: plan.key.clone(),
            value: plan.value.clone(),
            columns,
            trace: AnyTrace::new(plan.key.len(), plan.value.len()),
        }
    }

    /// The number of columns of a value.
    pub(crate) fn values(&self) -> usize {
        self.value.len()
    }

    /// Marks every symbol in the index.
    pub(crate) fn mark(&self, marks: &mut Marks, symbols: &Symbols) {
        self.fit.constants().for_each(|symbol| marks.symbol(symbol));
        each_width!(&self.trace, trace => trace.mark(self.key.len(), self.value.len(), marks, symbols));
    }

    /// Whether the index has all rows of its relation, with all their columns.
    fn is_whole(&self) -> bool {
        let mut places: Vec<usize> = self.key.iter().chain(&self.value).copied().collect();
        places.sort_unstable();
        self.fit.is_empty() && places.into_iter().eq(0..self.columns)
    }

    /// The rows of its relation, if the index has all of them with all columns.
    pub(crate) fn rows(&self, view: View, symbols: &Symbols) -> Option<Delta> {
        let mut rows = Delta::new(self.columns);
        let mut parts = Vec::with_capacity(self.columns);
        self.is_whole().then(|| {
            each_width!(&self.trace, trace => trace.for_each(view, |key, value, count| {
                self.put_row(key, value, count, symbols, &mut parts, &mut rows);
            }));
            rows
        })
    }

    /// The rows of its relation whose key columns equal the constants in `fit`. `None` if `fit` does not determine the
    /// key, or if the index lacks rows or columns.
    pub(crate) fn rows_that_fit(&self, view: View, fit: &Fit, symbols: &Symbols) -> Option<Delta> {
        let key: Option<Vec<Symbol>> = self.key.iter().map(|column| fit.constant(*column)).collect();
        let key = key.filter(|key| !key.is_empty() && self.is_whole())?;
        let mut rows = Delta::new(self.columns);
        let mut parts = Vec::with_capacity(self.columns);
        each_width!(&self.trace, trace => {
            let key = Row::pack(key.iter().copied(), symbols);
            for (value, count) in trace.probe(view).find(&key) {
                self.put_row(&key, value, *count, symbols, &mut parts, &mut rows);
            }
        });
        Some(rows)
    }

    /// Whether the index contains each of these rows at most once. Always true for an index that lacks rows or columns,
    /// because it cannot tell all rows apart.
    pub(crate) fn has_once(&self, rows: &Delta, symbols: &Symbols) -> bool {
        let fit = rows.rows().filter(|(row, _)| self.fit.fits(row));
        let keys = fit.map(|(row, _)| self.key.iter().map(|column| row[*column]).collect());
        let keys: Vec<Vec<Symbol>> = keys.collect();
        !self.is_whole()
            || each_width!(&self.trace, trace => {
                let mut keys: Vec<_> = keys.iter().map(|key| Row::pack(key.iter().copied(), symbols)).collect();
                keys.sort_unstable();
                let mut probe = trace.probe(View::After);
                keys.iter().all(|key| probe.find(key).iter().all(|(_, count)| *count == 1))
            })
    }

    /// Assembles a row from key and value.
    fn put_row<P: Row>(
        &self,
        key: &P,
        value: &P,
        count: Diff,
        symbols: &Symbols,
        parts: &mut Vec<Symbol>,
        rows: &mut Delta,
    ) {
        parts.clear();
        key.unpack(self.key.len(), symbols, parts);
        value.unpack(self.value.len(), symbols, parts);
        let columns = || self.key.iter().chain(&self.value);
        let word = |column: usize| columns().position(|of| *of == column).map_or(0, |at| parts[at]);
        rows.push_words((0..self.columns).map(word), count);
    }

    /// Stages changes of its relation.
    pub(crate) fn stage(&mut self, delta: &Delta, symbols: &Symbols) -> Result<(), TooMany> {
        let (key, value) = (self.key.len(), self.value.len());
        let columns: Vec<usize> = self.key.iter().chain(&self.value).copied().collect();
        if columns.len() <= MOST_COLUMNS {
            return each_width!(&mut self.trace, trace => {
                sort(delta, &self.fit, &columns, Stage { trace, key, value })
            });
        }
        match &mut self.trace {
            // A narrow index has at most eight columns.
            AnyTrace::Narrow(_) => {}
            AnyTrace::Wide(trace) => {
                trace.stage(pairs(delta, &self.fit, &self.key, &self.value, symbols)?)?;
            }
        }
        Ok(())
    }
}

/// Adds sorted rows to a trace.
struct Stage<'a, K: Row, V: Row> {
    trace: &'a mut Trace<K, V, Rows>,
    key: usize,
    value: usize,
}

impl<K: Row, V: Row> Use for Stage<'_, K, V> {
    type Done = Result<(), TooMany>;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done {
        self.trace.stage_rows(rows, self.key, self.value)
    }
}

/// The rows that satisfy the conditions, as pairs.
fn pairs<P: Row>(
    delta: &Delta,
    fit: &Fit,
    key: &[usize],
    value: &[usize],
    symbols: &Symbols,
) -> Result<Vec<Update<P, P, Rows>>, TooMany> {
    let mut updates = Vec::with_capacity(delta.len());
    for (row, diff) in delta.rows() {
        if fit.fits(row) {
            let key = P::pack(key.iter().map(|column| row[*column]), symbols);
            let value = P::pack(value.iter().map(|column| row[*column]), symbols);
            updates.push(((key, value), Rows::of(diff)?));
        }
    }
    Ok(updates)
}
