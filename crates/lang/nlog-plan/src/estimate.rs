//! Estimates of the rows of a relation and of the distinct values of its columns.

use std::sync::Arc;

use nlog::program::{Expr, HeadTerm};
use nlog_data::{Table, Type};

use crate::body::Body;
use crate::query::RelationId;
use crate::spread::Spread;
use crate::statistics::{Statistics, TableStatistics, sampled_hash};

/// The assumed number of rows of an input table without statistics.
const ROWS: f64 = 1000.0;

/// The assumed fraction of distinct values in a column without statistics.
const DIFFERENT: f64 = 0.1;

/// The estimate of a relation.
#[derive(Debug, Clone)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    /// The number of distinct values, by column.
    pub(crate) distinct: Vec<f64>,
    /// The distribution of values, by column, if it is known.
    pub(crate) spreads: Vec<Option<Arc<Spread>>>,
    /// Joint estimates of several columns.
    pub(crate) joint: Vec<JointEstimate>,
    /// Whether the number was counted or follows from counted numbers.
    pub(crate) counted: bool,
}

/// The joint estimate of several columns.
#[derive(Debug, Clone)]
pub(crate) struct JointEstimate {
    pub(crate) columns: Vec<usize>,
    pub(crate) distinct: f64,
    pub(crate) spread: Option<Arc<Spread>>,
}

/// The estimates of relations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimates<'a> {
    all: &'a [Estimate],
    /// The estimate of the next relation.
    next: Option<&'a Estimate>,
}

impl<'a> Estimates<'a> {
    pub(crate) fn new(all: &'a [Estimate]) -> Self {
        Estimates { all, next: None }
    }

    /// These estimates and that of one more relation.
    pub(crate) fn with(all: Estimates<'a>, next: &'a Estimate) -> Self {
        Estimates { all: all.all, next: Some(next) }
    }

    pub(crate) fn of(&self, relation: RelationId) -> &'a Estimate {
        let at = relation.0 as usize;
        self.next.filter(|_| at == self.all.len()).unwrap_or_else(|| &self.all[at])
    }

    /// The number of the first relation without an estimate.
    pub(crate) fn next(&self) -> RelationId {
        RelationId(self.all.len() as u32)
    }
}

impl Estimate {
    /// An estimate with uniform and independent columns.
    pub(crate) fn even(rows: f64, distinct: Vec<f64>, counted: bool) -> Self {
        let spreads = vec![None; distinct.len()];
        Estimate { rows, distinct, spreads, joint: Vec::new(), counted }
    }

    /// The estimate of an input table, from its statistics or else from its declaration: a column that is a key by
    /// itself has as many distinct values as the table has rows.
    pub(crate) fn of_input(table: &Table, known: Option<&Statistics>) -> Self {
        let is_key = |column: usize| table.keys().any(|key| *key == [column]) || table.columns.len() == 1;
        let thought = |column| if is_key(column) { ROWS } else { ROWS * DIFFERENT };
        let distinct = (0..table.columns.len()).map(thought).collect();
        Estimate::even(ROWS, distinct, false).corrected(table, known)
    }

    /// The estimate of a table that a hook fills from rows with this estimate: about as many rows, and the columns that
    /// both have in front.
    pub(crate) fn of_hook(&self, table: &Table) -> Self {
        let known = self.distinct.iter().copied().map(Some).chain(std::iter::repeat(None));
        let distinct = (0..table.columns.len()).zip(known);
        let distinct = distinct.map(|(_, known)| known.unwrap_or(self.rows)).collect();
        Estimate::even(self.rows, distinct, false).bounded()
    }

    /// The estimate, corrected by the statistics of the table.
    pub(crate) fn corrected(mut self, table: &Table, known: Option<&Statistics>) -> Self {
        let Some(known) = known.and_then(|known| known.tables.get(&table.name)) else { return self };
        let thought_rows = self.rows.max(1.0);
        self.rows = known.rows as f64;
        self.counted = true;
        for (column, distinct) in self.distinct.iter_mut().enumerate() {
            *distinct = match known.distinct.get(column) {
                Some(known) => *known as f64,
                None => *distinct * self.rows / thought_rows,
            };
        }
        self.sampled(known).bounded()
    }

    /// Adds the information of samples.
    fn sampled(mut self, known: &TableStatistics) -> Self {
        let rows = self.rows;
        let samples = known.samples.iter().map(Some).chain(std::iter::repeat(None));
        let columns = self.spreads.iter_mut().zip(&self.distinct).zip(samples);
        for ((spread, distinct), sample) in columns {
            *spread = sample.and_then(|sample| Spread::new(sample, rows, *distinct)).map(Arc::new);
        }
        let joint = known.joint.iter().map(|joint| {
            let distinct = (joint.distinct as f64).min(rows).max(1.0);
            let sample = joint.sample.as_ref();
            let spread = sample.and_then(|sample| Spread::new(sample, rows, distinct)).map(Arc::new);
            JointEstimate { columns: joint.columns.clone(), distinct, spread }
        });
        self.joint = joint.collect();
        self
    }

    /// Limits the values of each column to those that its type has, if these are few. Nothing is known of the results of
    /// functions, which otherwise count as all different.
    pub(crate) fn of_types(mut self, table: &Table) -> Self {
        for (distinct, column) in self.distinct.iter_mut().zip(&table.columns) {
            let values = match column.ty.base() {
                Type::Bool => 2,
                Type::Enum(of) => of.members.len(),
                _ => continue,
            };
            *distinct = distinct.min(values as f64).max(1.0);
        }
        self
    }

    /// Limits the values of each column to at least one and at most the number of rows.
    pub(crate) fn bounded(mut self) -> Self {
        for distinct in &mut self.distinct {
            *distinct = distinct.min(self.rows).max(1.0);
        }
        self
    }

    /// The estimate of the union of several rules' rows; `None` without rules. Estimates of similar size are united
    /// first, so that many rules take little more than linear time.
    pub(crate) fn of_all(mut estimates: Vec<Estimate>) -> Option<Self> {
        while estimates.len() > 1 {
            let mut left = estimates.into_iter();
            let mut pairs = Vec::with_capacity(left.len().div_ceil(2));
            while let Some(one) = left.next() {
                pairs.push(match left.next() {
                    Some(other) => one.or(&other),
                    None => one,
                });
            }
            estimates = pairs;
        }
        estimates.pop()
    }

    /// The estimate of the union with the rows of another rule.
    pub(crate) fn or(mut self, other: &Estimate) -> Self {
        self.rows += other.rows;
        self.joint.clear();
        self.counted &= other.counted;
        for (distinct, other) in self.distinct.iter_mut().zip(&other.distinct) {
            *distinct = distinct.max(*other);
        }
        let columns = self.spreads.iter_mut().zip(&other.spreads).zip(&mut self.distinct);
        for ((spread, other), distinct) in columns {
            *spread = spread.as_ref().zip(other.as_ref()).map(|(one, other)| Arc::new(one.or(other)));
            if let Some(spread) = spread {
                *distinct = spread.distinct;
            }
        }
        self
    }
}

/// The facts of a table.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    count: usize,
    /// The hashes of the values, by column.
    columns: Vec<Vec<u32>>,
}

impl Facts {
    /// Adds a rule if it is a fact. Returns whether it is one.
    pub(crate) fn add(&mut self, body: &Body) -> bool {
        let is_constant = |term: &HeadTerm| matches!(term, HeadTerm::Value(Expr::Constant(_)));
        if !body.atoms.is_empty() || !body.items.is_empty() || !body.terms.iter().all(is_constant) {
            return false;
        }
        self.count += 1;
        self.columns.resize_with(body.terms.len(), Vec::new);
        for (hashes, term) in self.columns.iter_mut().zip(&body.terms) {
            if let HeadTerm::Value(Expr::Constant(value)) = term {
                hashes.push(sampled_hash(value));
            }
        }
        true
    }

    /// The estimate of all facts together; `None` without facts.
    pub(crate) fn estimate(self) -> Option<Estimate> {
        let Facts { count, columns } = self;
        if count == 0 {
            return None;
        }
        let spreads: Vec<Spread> = columns.into_iter().map(Spread::of_values).collect();
        let distinct = spreads.iter().map(|spread| spread.distinct).collect();
        let spreads = spreads.into_iter().map(|spread| Some(Arc::new(spread))).collect();
        Some(Estimate { spreads, ..Estimate::even(count as f64, distinct, true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_no_more_values_than_its_type() {
        let text = "type color = enum {red, green, blue}; input table t(c: color, b: bool, s: string);";
        let program = nlog::compile(&nlog::Sources::from_texts([("types.nlog", text)])).program.unwrap();
        let table = program.schema.table(program.schema.find("t").unwrap());
        let of = |distinct: [f64; 3]| Estimate::even(9.0, distinct.to_vec(), true).of_types(table).distinct;
        assert_eq!(of([9.0, 9.0, 9.0]), [3.0, 2.0, 9.0]);
        assert_eq!(of([2.0, 1.0, 4.0]), [2.0, 1.0, 4.0]);
    }

    #[test]
    fn facts_are_estimated_together_as_one_by_one() {
        let text = r#"output table t(x: int, y: string); t(1, "a"); t(2, "a"); t(3, "b"); t(4, "a");"#;
        let sources = nlog::Sources::from_texts([("facts.nlog", text)]);
        let program = nlog::compile(&sources).program.expect("it compiles");
        let bodies: Vec<Body> = program.rules.iter().map(|rule| Body::new(rule, &program.schema)).collect();
        let of = |bodies: &[Body]| {
            let mut facts = Facts::default();
            assert!(bodies.iter().all(|body| facts.add(body)));
            facts.estimate().unwrap()
        };
        let together = of(&bodies);
        let one_by_one = bodies[1..]
            .iter()
            .fold(of(&bodies[..1]), |before, body| before.or(&of(std::slice::from_ref(body))));
        assert_eq!((together.rows, &together.distinct), (4.0, &vec![4.0, 2.0]));
        assert_eq!((one_by_one.rows, &one_by_one.distinct), (4.0, &vec![4.0, 2.0]));
        assert_eq!(together.spreads, one_by_one.spreads);
        let search = |body: &Body| {
            crate::cost::estimate(
                &crate::order::Search::new(body, crate::draft::Aim::Main, Estimates::new(&[])),
                body,
            )
        };
        let searched = search(&bodies[0]);
        let alone = of(&bodies[..1]);
        assert_eq!(
            (searched.rows, searched.distinct, searched.spreads),
            (alone.rows, alone.distinct, alone.spreads)
        );
    }
}
