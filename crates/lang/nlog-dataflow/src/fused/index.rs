//! The indexes of a plan.
//!
//! An index maps key columns of a relation to value columns, for the rows that satisfy its conditions ([`Fit`]). Probes
//! look bindings up in it by key. It counts how many rows agree on all its columns, so it can drop columns that no
//! probe reads.

use nlog_plan::query::{Index as IndexPlan, RelationId};
use nlog_plan::{Operand, Selection};

use super::delta::{Delta, Diff, TooMany};
use super::sorted::sort;
use super::trace::{Trace, View};
use crate::symbol::{Marks, Symbol, Symbols};

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
    /// The columns of the key, then those of the value.
    places: Vec<usize>,
    /// The number of columns of the key.
    key: usize,
    /// The number of columns of the relation.
    columns: usize,
    pub(crate) trace: Trace,
}

impl Index {
    pub(crate) fn new(plan: &IndexPlan, columns: usize, symbols: &Symbols) -> Self {
        Index {
            relation: plan.relation,
            fit: Fit::new(&plan.select, symbols),
            places: plan.key.iter().chain(&plan.value).copied().collect(),
            key: plan.key.len(),
            columns,
            trace: Trace::new(plan.key.len(), plan.value.len()),
        }
    }

    /// Marks every symbol in the index.
    pub(crate) fn mark(&self, marks: &mut Marks) {
        self.fit.constants().for_each(|symbol| marks.symbol(symbol));
        self.trace.mark(marks);
    }

    /// Whether the index has all rows of its relation, by a key of these columns.
    pub(crate) fn key_is(&self, columns: &[usize]) -> bool {
        self.fit.is_empty() && self.places[..self.key] == *columns
    }

    /// Whether the index has all rows of its relation, with all their columns.
    pub(crate) fn is_whole(&self) -> bool {
        let mut places = self.places.clone();
        places.sort_unstable();
        self.fit.is_empty() && places.into_iter().eq(0..self.columns)
    }

    /// The columns of the key, then those of the value.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The rows of its relation, if the index has all of them with all columns.
    pub(crate) fn rows(&self, view: View) -> Option<Delta> {
        let mut rows = Delta::new(self.columns);
        self.is_whole().then(|| {
            self.trace.for_each(view, |key, value, count| self.put_row(key, value, count, &mut rows));
            rows
        })
    }

    /// The rows of its relation whose key columns equal the constants in `fit`. `None` if `fit` does not determine the
    /// key, or if the index lacks rows or columns.
    pub(crate) fn rows_that_fit(&self, view: View, fit: &Fit) -> Option<Delta> {
        let key: Option<Vec<Symbol>> =
            self.places[..self.key].iter().map(|column| fit.constant(*column)).collect();
        let key = key.filter(|key| !key.is_empty() && self.is_whole())?;
        let mut rows = Delta::new(self.columns);
        for (value, count) in self.trace.probe(view).find(&key).iter() {
            self.put_row(&key, value, count, &mut rows);
        }
        Some(rows)
    }

    /// Whether the index contains each of these rows at most once. Always true for an index that lacks rows or columns,
    /// because it cannot tell all rows apart.
    pub(crate) fn has_once(&self, rows: &Delta) -> bool {
        let fit = rows.rows().filter(|(row, _)| self.fit.fits(row));
        let keys = fit.map(|(row, _)| self.places[..self.key].iter().map(|column| row[*column]).collect());
        let mut keys: Vec<Vec<Symbol>> = keys.collect();
        keys.sort_unstable();
        let mut probe = self.trace.probe(View::After);
        !self.is_whole() || keys.iter().all(|key| probe.find(key).iter().all(|(_, count)| count == 1))
    }

    /// Adds the row of a key and a value.
    fn put_row(&self, key: &[Symbol], value: &[Symbol], count: Diff, rows: &mut Delta) {
        let parts = || key.iter().chain(value).zip(&self.places);
        let word = |column: usize| parts().find(|(_, of)| **of == column).map_or(0, |(word, _)| *word);
        rows.push_words((0..self.columns).map(word), count);
    }

    /// Stages changes of its relation.
    pub(crate) fn stage(&mut self, delta: &Delta) -> Result<(), TooMany> {
        sort(delta, &self.fit, &self.places, &mut self.trace)
    }
}
