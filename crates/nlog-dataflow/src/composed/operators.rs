//! The operators of the dataflow: differential's, with Weft's processing of rows as their logic.

use std::sync::Arc;

use differential_dataflow::consolidation::ConsolidatingContainerBuilder;
use differential_dataflow::operators::ThresholdTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::operators::join::join_traces;
use differential_dataflow::trace::implementations::{ValBuilder, ValSpine};
use differential_dataflow::{AsCollection, ExchangeData, VecCollection};
use nlog_plan::query::Probe;
use nlog_plan::{Operand, Selection};
use timely::container::PushInto;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::Operator;

use super::head::Made;
use super::layout::Arrival;
use super::{Diff, MOST_PRODUCT, NONE, ONCE, Time, is_there, is_too_many};
use crate::expression::Binding;
use crate::row::Row;
use crate::steps::Steps;
use crate::symbol::{NO_FAILURE, Symbol, Symbols};

pub(super) type Collection<'s, D> = VecCollection<'s, Time, D, Diff>;
pub(super) type Index<'s, R> = Arranged<'s, TraceAgent<ValSpine<R, R, Time, Diff>>>;

/// The reduction of all values under a key. Boxed, so that differential's operator is compiled once for each width.
pub(super) type Reduction<P> = Box<dyn FnMut(&P, &[(&P, Diff)], &mut Vec<(P, Diff)>)>;

/// Applies `logic` to the values of each key.
pub(super) fn reduce<'s, P: Row>(
    name: &str,
    pairs: Collection<'s, (P, P)>,
    logic: Reduction<P>,
) -> Index<'s, P> {
    pairs.reduce_abelian::<_, ValBuilder<P, P, Time, Diff>, ValSpine<P, P, Time, Diff>>(name, logic)
}

/// Reduces rows to a set. Calls `too_many` for a row with too many derivations. (`distinct_total` of differential
/// 0.25.1 never retracts a row.)
pub(super) fn distinct<D>(rows: Collection<'_, D>, too_many: impl Fn() + 'static) -> Collection<'_, D>
where
    D: ExchangeData + std::hash::Hash,
{
    rows.threshold_total(move |_, ways| {
        if is_too_many(*ways) {
            too_many();
        }
        if is_there(*ways) { ONCE } else { NONE }
    })
}

/// The conversion of a relation's rows to bindings.
pub(super) struct Scan {
    symbols: Arc<Symbols>,
    /// Columns that must equal a constant.
    constants: Vec<(usize, Symbol)>,
    /// Columns that must equal another column.
    equalities: Vec<(usize, usize)>,
    columns: Vec<usize>,
    arity: usize,
}

impl Scan {
    pub(super) fn unit(symbols: &Arc<Symbols>) -> Self {
        Scan::new(&[], &[], 0, symbols)
    }

    pub(super) fn new(select: &[Selection], columns: &[usize], arity: usize, symbols: &Arc<Symbols>) -> Self {
        let mut scan = Scan {
            symbols: Arc::clone(symbols),
            constants: Vec::new(),
            equalities: Vec::new(),
            columns: columns.to_vec(),
            arity,
        };
        for Selection { column, equals } in select {
            match equals {
                Operand::Column(other) => scan.equalities.push((*column, *other)),
                Operand::Constant(value) => scan.constants.push((*column, symbols.intern(value))),
            }
        }
        scan
    }

    /// Fills a binding. Returns whether the row satisfies the conditions.
    fn load<R: Row>(&self, row: &R, whole: &mut Vec<Symbol>, binding: &mut Binding) -> bool {
        let words = if self.arity <= R::WIDTH {
            row.words()
        } else {
            whole.clear();
            row.unpack(self.arity, &self.symbols, whole);
            whole
        };
        let fits = self.constants.iter().all(|(column, word)| words[*column] == *word)
            && self.equalities.iter().all(|(column, other)| words[*column] == words[*other]);
        if fits {
            binding.slots.clear();
            binding.slots.extend(self.columns.iter().map(|column| words[*column]));
            binding.failure = NO_FAILURE;
        }
        fits
    }
}

/// Converts rows to bindings, runs the steps on them, and converts the results with `made`.
pub(super) fn scan<R: Row, O: ExchangeData>(
    rows: Collection<'_, R>,
    scan: Scan,
    mut steps: Steps,
    mut made: Made<O>,
) -> Collection<'_, O> {
    let (mut whole, mut binding) = (Vec::new(), Binding::default());
    let symbols = Arc::clone(&scan.symbols);
    rows.inner
        .unary::<ConsolidatingContainerBuilder<Vec<(O, Time, Diff)>>, _, _, _>(Pipeline, "Scan", |_, _| {
            move |input, output| {
                input.for_each(|capability, updates| {
                    let mut session = output.session_with_builder(&capability);
                    for (row, time, diff) in updates.drain(..) {
                        if scan.load(&row, &mut whole, &mut binding) {
                            steps.run(&mut binding, &symbols, &mut |binding| {
                                if let Some(out) = made(binding, diff) {
                                    session.give((out, time, diff));
                                }
                            });
                        }
                    }
                });
            }
        })
        .as_collection()
}

/// The conversion of the two sides of a join to bindings.
pub(super) struct Sides {
    symbols: Arc<Symbols>,
    key_columns: usize,
    /// The number of columns of arriving bindings, without the failure.
    kept_columns: usize,
    /// Whether arriving bindings have a failure as their last column.
    failure: bool,
    value_columns: usize,
    /// The source of each slot, numbered consecutively: the key, the kept slots, the index's values.
    slots: Vec<usize>,
    parts: Vec<Symbol>,
}

impl Sides {
    pub(super) fn new(
        probe: &Probe,
        arrival: &Arrival,
        index: &nlog_plan::query::Index,
        symbols: &Arc<Symbols>,
    ) -> Self {
        let (key_columns, kept_columns) = (arrival.key.len(), arrival.value.len());
        let of_kept = |slot: &usize| {
            let in_key = arrival.key.iter().position(|key| key == slot);
            let in_value = || arrival.value.iter().position(|kept| kept == slot).map(|at| key_columns + at);
            in_key.or_else(in_value).expect("what is kept is in key or value")
        };
        let mut slots: Vec<usize> = probe.keep.iter().map(of_kept).collect();
        slots.extend(probe.take.iter().map(|at| key_columns + kept_columns + at));
        Sides {
            symbols: Arc::clone(symbols),
            key_columns,
            kept_columns,
            failure: arrival.failure,
            value_columns: index.value.len(),
            slots,
            parts: Vec::new(),
        }
    }

    #[inline]
    fn load<R: Row>(&mut self, key: &R, kept: &R, value: &R, binding: &mut Binding) {
        let Sides { symbols, parts, .. } = self;
        parts.clear();
        key.unpack(self.key_columns, symbols, parts);
        kept.unpack(self.kept_columns + usize::from(self.failure), symbols, parts);
        binding.failure = NO_FAILURE;
        if self.failure {
            binding.failure = parts.pop().unwrap_or(NO_FAILURE);
        }
        value.unpack(self.value_columns, symbols, parts);
        binding.slots.clear();
        binding.slots.extend(self.slots.iter().map(|at| parts[*at]));
    }
}

/// Joins arriving bindings to an index. Calls `too_many` for counts whose product could overflow.
pub(super) fn join<'s, R: Row, O: ExchangeData>(
    arriving: Collection<'s, (R, R)>,
    index: Index<'s, R>,
    mut sides: Sides,
    mut steps: Steps,
    mut made: Made<O>,
    too_many: impl Fn() + 'static,
) -> Collection<'s, O> {
    let mut binding = Binding::default();
    let symbols = Arc::clone(&sides.symbols);
    join_traces::<_, _, _, _, ConsolidatingContainerBuilder<Vec<(O, Time, Diff)>>>(
        arriving.arrange_by_key(),
        index,
        move |key: &R, kept: &R, value: &R, time, arrived, found, out| {
            let product = arrived.0.checked_mul(found.0);
            if product.is_none_or(|product| product.unsigned_abs() > MOST_PRODUCT.unsigned_abs()) {
                too_many();
            }
            let diff = *arrived * *found;
            sides.load(key, kept, value, &mut binding);
            steps.run(&mut binding, &symbols, &mut |binding| {
                if let Some(made) = made(binding, diff) {
                    out.push_into((made, time, diff));
                }
            });
        },
    )
    .as_collection()
}
