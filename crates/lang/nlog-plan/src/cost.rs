//! The estimated cost of evaluating rules, in rows touched, to compare different forms of the same
//! rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::analysis::variables_of;
use crate::body::Body;
use crate::dependency::Variables;
use crate::draft::{Aim, Draft, Op};
use crate::estimate::{Estimate, Estimates};
use crate::order::{Search, cheapest};
use crate::query::RelationId;
use crate::spread::Spread;
use crate::statistics::sampled_hash;
use nlog::program::{Aggregate, Expr, HeadTerm, VariableId};

/// The cost of a row in an index: it is sorted, stored and merged.
pub(crate) const INDEXED: f64 = 3.0;

/// The treatment of duplicate rows of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// Duplicates do not matter.
    Ignored,
    /// Rows are counted if duplicates are possible.
    Counted,
    /// Rows are counted in any case.
    AlwaysCounted,
}

/// The cost of a body.
#[derive(Debug, Clone)]
pub(crate) struct Cost {
    /// Rows touched to find all bindings and to make the head's rows distinct.
    work: f64,
    /// The indexes probed, with their numbers of rows.
    indexes: BTreeMap<(RelationId, String, Vec<usize>), f64>,
}

impl Cost {
    /// The cost of a body over relations with these estimates.
    pub(crate) fn new(body: &Body, duplicates: Duplicates, estimates: Estimates<'_>) -> Self {
        let search = Search::new(body, Aim::Main, estimates);
        let orders = search.all();
        let (mut work, count) = match orders.get(cheapest(&orders)) {
            Some(order) => (order.cost, order.count),
            None => (1.0, 1.0),
        };
        let counted = match duplicates {
            Duplicates::Ignored => false,
            Duplicates::Counted => !body.is_unique(),
            Duplicates::AlwaysCounted => true,
        };
        if counted {
            work += count + INDEXED * estimate(&search, body).rows;
        }
        let mut indexes = BTreeMap::new();
        for order in &orders {
            for op in Draft::new(body, Aim::Main, &order.atoms).ops {
                if let Op::Probe { atom, key } = op {
                    let columns = key.into_iter().map(|(column, _)| column).collect();
                    let select = format!("{:?}", body.atoms[atom].select);
                    let rows = search.model.atoms[atom].selected;
                    indexes.insert((body.atoms[atom].relation, select, columns), rows);
                }
            }
        }
        Cost { work, indexes }
    }

    /// The cost of several bodies that share their indexes.
    pub(crate) fn total<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> f64 {
        let mut work = 0.0;
        let mut indexes = BTreeMap::new();
        for cost in costs {
            work += cost.work;
            indexes.extend(cost.indexes.iter());
        }
        work + INDEXED * indexes.into_values().sum::<f64>()
    }
}

/// The estimate of the rows that a body derives.
pub(crate) fn estimate(search: &Search, body: &Body) -> Estimate {
    let count = search.bindings();
    let different = |variables: Variables| {
        let variables: Vec<VariableId> = variables.into_iter().collect();
        search.model.different(body, &variables, count)
    };
    let grouped = body.is_grouped();
    let rows = if !grouped && body.is_unique() { count } else { different(body.determining()) };
    let distinct = body.terms.iter().map(|term| match chosen(term) {
        Some(expr) => different(variables_of(expr)),
        None => rows,
    });
    let counted = search.model.atoms.iter().all(|atom| atom.counted);
    let mut estimate = Estimate::even(rows, distinct.collect(), counted).bounded();
    // A projection to a few of the variables has fewer rows, but almost the same values.
    for ((spread, distinct), term) in estimate.spreads.iter_mut().zip(&estimate.distinct).zip(&body.terms) {
        let of_term = match chosen(term) {
            Some(Expr::Variable(variable)) => search.model.spread_of(body, *variable),
            Some(Expr::Constant(value)) => Some(Arc::new(Spread::of_values(vec![sampled_hash(value)]))),
            _ => None,
        };
        *spread = of_term.map(|of_term| Arc::new(of_term.scaled(estimate.rows, *distinct)));
    }
    estimate
}

/// The expression whose values become the column's values; `None` if there is no such expression.
fn chosen(term: &HeadTerm) -> Option<&Expr> {
    match term {
        HeadTerm::Value(expr) => Some(expr),
        HeadTerm::Aggregate { aggregate: Aggregate::Min | Aggregate::Max, arguments } => arguments.first(),
        HeadTerm::Aggregate { aggregate: Aggregate::ArgMin | Aggregate::ArgMax, arguments } => {
            arguments.get(1)
        }
        HeadTerm::Aggregate { .. } => None,
    }
}
