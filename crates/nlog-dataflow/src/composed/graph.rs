//! Builds the dataflow of one worker from a plan. Every worker builds the same dataflow.
//!
//! Each rule runs the pipeline that computes all its bindings at the least cost. It scans the starting rows. At each
//! probe it arranges the arriving bindings by the probe's key and joins them to the probed index. Failures, violated
//! keys and forbidden rows leave through side outputs: they end the transaction, so nothing in the dataflow needs them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::ExchangeData;
use differential_dataflow::input::{Input, InputSession};
use nlog_data::Role;
use nlog_plan::query::{End, IndexId, Output, RelationId, RulePlan, Start};
use nlog_plan::{GroupColumn, Keep};
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::Operator;

use super::errors::Errors;
use super::groups::Groups;
use super::head::{self, Finish, Made};
use super::layout::{Chain, Form, Layout, Width};
use super::operators::{Collection, Index, Scan, Sides, distinct, join, reduce, scan};
use super::{Diff, NO_RULE, ONCE, Time, is_too_many};
use crate::row::{Narrow, Row, Wide};
use crate::steps::Steps;
use crate::symbol::Symbols;

/// A pair of variants for the two widths of rows.
#[derive(Debug, Clone)]
pub(super) enum ByWidth<N, W> {
    Narrow(N),
    Wide(W),
}

/// The input of a table.
pub(super) type InputHandle = ByWidth<InputSession<Time, Narrow, Diff>, InputSession<Time, Wide, Diff>>;

/// Changes of a table: row, rule, change of the count.
pub(super) type Changes = ByWidth<Vec<(Narrow, u32, Diff)>, Vec<(Wide, u32, Diff)>>;

/// A worker's handles to its dataflow.
pub(super) struct Graph {
    /// By table number, the handles of the needed input tables.
    pub(super) inputs: Vec<Option<InputHandle>>,
    /// The input for the single row from which facts are derived.
    pub(super) facts: InputSession<Time, Narrow, Diff>,
    /// By table number, the changes of wanted tables since they were last taken.
    pub(super) changes: Vec<Option<Rc<RefCell<Changes>>>>,
    /// The errors since they were last taken.
    pub(super) errors: Rc<RefCell<Errors>>,
    /// For each end of the dataflow, the least time that can still arrive; `None` if none can.
    pub(super) frontiers: Vec<Rc<Cell<Option<Time>>>>,
}

type Rows<'s> = ByWidth<Collection<'s, Narrow>, Collection<'s, Wide>>;

/// The rows of a derived relation, and the rows with their rules if they are attributed.
struct Derived<'s, R: Row> {
    rows: Collection<'s, R>,
    with_rules: Option<Collection<'s, (R, u32)>>,
}

/// Builds the last step of a rule, given the rule's number.
type Finisher<'f, O> = &'f dyn Fn(&Layout, &Arc<Symbols>, u32) -> Finish<O>;

type AnyIndex<'s> = ByWidth<Index<'s, Narrow>, Index<'s, Wide>>;

struct Builder<'s, 'p> {
    scope: Scope<'s, Time>,
    layout: &'p Layout,
    symbols: Arc<Symbols>,
    errors: Rc<RefCell<Errors>>,
    facts: Collection<'s, Narrow>,
    relations: Vec<Option<Rows<'s>>>,
    indexes: Vec<Option<AnyIndex<'s>>>,
    changes: Vec<Option<Rc<RefCell<Changes>>>>,
    frontiers: Vec<Rc<Cell<Option<Time>>>>,
}

/// Builds the dataflow of a plan.
pub(super) fn build(scope: Scope<'_, Time>, layout: &Layout, symbols: &Arc<Symbols>) -> Graph {
    let plan = &layout.plan;
    let schema = &plan.program.schema;
    let (facts, unit) = scope.new_collection();
    let mut builder = Builder {
        scope,
        layout,
        symbols: Arc::clone(symbols),
        errors: Rc::default(),
        facts: unit,
        relations: vec![None; plan.relations.len()],
        indexes: vec![None; plan.indexes.len()],
        changes: vec![None; schema.len()],
        frontiers: Vec::new(),
    };
    let mut inputs: Vec<Option<InputHandle>> = (0..schema.len()).map(|_| None).collect();
    let mut ids: Vec<RelationId> = (0..).map(RelationId).take(plan.relations.len()).collect();
    ids.sort_by_key(|id| plan.relations[id.0 as usize].level);
    for id in ids {
        let relation = &plan.relations[id.0 as usize];
        match relation.table {
            _ if !relation.needed => {}
            Some(table) if schema.table(table).role == Role::Input => {
                inputs[table.0 as usize] = Some(builder.input(id));
            }
            _ => builder.relation(id),
        }
    }
    let Builder { changes, frontiers, errors, .. } = builder;
    Graph { inputs, facts, changes, errors, frontiers }
}

impl<'s> Builder<'s, '_> {
    fn input(&mut self, id: RelationId) -> InputHandle {
        let (handle, rows) = match self.layout.width(id) {
            Width::Narrow => {
                let (handle, rows) = self.scope.new_collection();
                (ByWidth::Narrow(handle), ByWidth::Narrow(rows))
            }
            Width::Wide => {
                let (handle, rows) = self.scope.new_collection();
                (ByWidth::Wide(handle), ByWidth::Wide(rows))
            }
        };
        self.relations[id.0 as usize] = Some(rows);
        handle
    }

    /// Builds a derived relation: the rows derived by its rules, as a set.
    fn relation(&mut self, id: RelationId) {
        let rows = match self.layout.width(id) {
            Width::Narrow => {
                let derived = self.derived::<Narrow>(id);
                self.end(id, &derived);
                ByWidth::Narrow(derived.rows)
            }
            Width::Wide => {
                let derived = self.derived::<Wide>(id);
                self.end(id, &derived);
                ByWidth::Wide(derived.rows)
            }
        };
        self.relations[id.0 as usize] = Some(rows);
    }

    /// The rows of a relation, as a set.
    fn derived<R: Row>(&mut self, id: RelationId) -> Derived<'s, R> {
        match self.layout.form(id) {
            Form::Rows => {
                let rows = self.derive(id, &|layout, symbols, _| head::row(layout.arity(id), symbols));
                let rows = match self.layout.plan.relations[id.0 as usize].keep {
                    Keep::AsIs => rows,
                    Keep::Distinct | Keep::Key(_) => distinct(rows, self.too_many(id)),
                };
                Derived { rows, with_rules: None }
            }
            Form::Keyed(Width::Narrow) => self.keyed::<Narrow, R>(id),
            Form::Keyed(Width::Wide) => self.keyed::<Wide, R>(id),
        }
    }

    /// The rows of a relation whose keys are checked or whose rows are attributed to rules.
    fn keyed<P: Row, R: Row>(&mut self, id: RelationId) -> Derived<'s, R> {
        let keyed = self.layout.keyed(id);
        let pairs: Collection<'s, (P, P)> = {
            let keyed = keyed.clone();
            self.derive(id, &move |_, symbols, rule| head::pair(keyed.clone(), rule, symbols))
        };
        let (symbols, errors) = (Arc::clone(&self.symbols), Rc::clone(&self.errors));
        let mut keep = head::Keep::<P>::new(keyed.clone(), symbols, errors, self.too_many(id));
        let logic = Box::new(move |key: &P, values: &[(&P, Diff)], output: &mut Vec<(P, Diff)>| {
            keep.reduce(key, values, output);
        });
        let kept = reduce("Keep", pairs, logic);
        let (symbols, mut columns) = (Arc::clone(&self.symbols), Vec::new());
        if keyed.attributed {
            let with_rules = kept.as_collection(move |key, value| {
                let rule = keyed.row(key, value, &symbols, &mut columns);
                (R::pack(columns.iter().copied(), &symbols), rule)
            });
            let rows = with_rules.clone().map(|(row, _)| row);
            return Derived { rows, with_rules: Some(with_rules) };
        }
        let rows = kept.as_collection(move |key, value| {
            keyed.row(key, value, &symbols, &mut columns);
            R::pack(columns.iter().copied(), &symbols)
        });
        Derived { rows, with_rules: None }
    }

    /// Records that a row of a relation, or a binding on the way to it, has too many derivations.
    fn too_many(&self, id: RelationId) -> Box<dyn Fn()> {
        let (table, errors) = (self.layout.plan.table_of(id), Rc::clone(&self.errors));
        Box::new(move || errors.borrow_mut().too_many.extend([table]))
    }

    /// The rows derived by all rules of a relation.
    fn derive<O: ExchangeData>(&mut self, id: RelationId, finisher: Finisher<'_, O>) -> Collection<'s, O> {
        let layout = self.layout;
        let mut parts = Vec::new();
        for rule in layout.plan.rules.iter().filter(|rule| rule.head == id) {
            let finish = finisher(layout, &self.symbols, rule.rule.0);
            parts.push(self.rule(rule, finish));
        }
        match (parts.pop(), parts) {
            (Some(only), rest) if rest.is_empty() => only,
            (last, rest) => {
                differential_dataflow::collection::concatenate(self.scope, rest.into_iter().chain(last))
            }
        }
    }

    fn rule<O: ExchangeData>(&mut self, rule: &RulePlan, finish: Finish<O>) -> Collection<'s, O> {
        for joins in &rule.failures {
            let made = head::failed(rule.rule.0, &self.symbols, &self.errors);
            let failures: Collection<'s, Narrow> = self.full_pipeline(Chain::new(joins, rule.head), made);
            self.watch(&failures);
        }
        let chain = Chain::new(&rule.body, rule.head);
        match (&rule.output, &chain.pipeline.end) {
            (Output::Rows, End::Row(columns)) => {
                let made = head::rows(columns, rule.rule.0, &self.symbols, &self.errors, finish);
                self.full_pipeline(chain, made)
            }
            (Output::Groups { group, tuple, aggregates, .. }, End::Group { .. }) => {
                if [*group, *tuple, aggregates.len()].iter().all(|columns| *columns <= Narrow::WIDTH) {
                    self.groups::<Narrow, O>(rule, chain, finish)
                } else {
                    self.groups::<Wide, O>(rule, chain, finish)
                }
            }
            (output, end) => unreachable!("a plan whose rule has {output:?} and ends with {end:?}"),
        }
    }

    /// The results of a rule with aggregates.
    fn groups<G: Row, O: ExchangeData>(
        &mut self,
        rule: &RulePlan,
        chain: Chain<'_>,
        mut finish: Finish<O>,
    ) -> Collection<'s, O> {
        let Output::Groups { group: groups, tuple: tuples, aggregates, columns } = &rule.output else {
            unreachable!("only rules with aggregates come here")
        };
        let End::Group { group, tuple, check } = &chain.pipeline.end else {
            unreachable!("only pipelines to groups come here")
        };
        let made = head::group::<G>(group, tuple, check, rule.rule.0, &self.symbols, &self.errors);
        let pairs = self.full_pipeline(chain, made);
        let mut reduction =
            Groups::new(aggregates, (*groups, *tuples), rule.rule.0, &self.symbols, &self.errors);
        let too_many = self.too_many(rule.head);
        let logic = move |key: &G, tuples: &[(&G, Diff)], output: &mut Vec<(G, Diff)>| {
            if tuples.iter().any(|(_, ways)| is_too_many(*ways)) {
                too_many();
            }
            output.extend(reduction.row(key, tuples).map(|row| (row, ONCE)));
        };
        let reduced = reduce("Aggregate", pairs, Box::new(logic));
        let symbols = Arc::clone(&self.symbols);
        let (columns, groups, aggregates) = (columns.clone(), *groups, aggregates.len());
        let (mut parts, mut row) = (Vec::new(), Vec::new());
        reduced.as_collection(move |key, value| {
            parts.clear();
            key.unpack(groups, &symbols, &mut parts);
            value.unpack(aggregates, &symbols, &mut parts);
            row.clear();
            row.extend(columns.iter().map(|column| match column {
                GroupColumn::Group(at) => parts[*at],
                GroupColumn::Aggregate(at) => parts[groups + at],
            }));
            finish(&row)
        })
    }

    /// The results of a pipeline's bindings at its end.
    fn full_pipeline<O: ExchangeData>(&mut self, chain: Chain<'_>, made: Made<O>) -> Collection<'s, O> {
        self.bindings(chain, chain.probes().count(), made)
    }

    /// The results of a pipeline's bindings just before the probe with this number, or at the end if no probe is
    /// left.
    fn bindings<O: ExchangeData>(
        &mut self,
        chain: Chain<'_>,
        before: usize,
        made: Made<O>,
    ) -> Collection<'s, O> {
        let steps = Steps::before_probe(chain.steps_before(before), &self.symbols);
        let last = before.checked_sub(1).and_then(|last| Some((last, chain.probe(last)?)));
        let Some((last, probe)) = last else { return self.start(chain, steps, made) };
        let index = &self.layout.plan.indexes[probe.index.0 as usize];
        let arrival = chain.arrival(last, probe);
        let sides = Sides::new(probe, &arrival, index, &self.symbols);
        let too_many = self.too_many(chain.head);
        match self.index(probe.index) {
            ByWidth::Narrow(index) => {
                let arriving = self.bindings(chain, last, head::arriving::<Narrow>(&arrival, &self.symbols));
                join(arriving, index, sides, steps, made, too_many)
            }
            ByWidth::Wide(index) => {
                let arriving = self.bindings(chain, last, head::arriving::<Wide>(&arrival, &self.symbols));
                join(arriving, index, sides, steps, made, too_many)
            }
        }
    }

    /// The first bindings of a pipeline.
    fn start<O: ExchangeData>(&mut self, chain: Chain<'_>, steps: Steps, made: Made<O>) -> Collection<'s, O> {
        match &chain.pipeline.start {
            Start::Once => scan(self.facts.clone(), Scan::unit(&self.symbols), steps, made),
            Start::Row { atom, select, columns, .. } => {
                let relation = chain.joins.atoms[*atom];
                let rows_of = Scan::new(select, columns, self.layout.arity(relation), &self.symbols);
                match self.rows(relation) {
                    ByWidth::Narrow(rows) => scan(rows, rows_of, steps, made),
                    ByWidth::Wide(rows) => scan(rows, rows_of, steps, made),
                }
            }
        }
    }

    fn rows(&self, id: RelationId) -> Rows<'s> {
        self.relations[id.0 as usize].clone().expect("a plan's levels have bodies before heads")
    }

    /// Returns an index, and builds it at the first request.
    fn index(&mut self, id: IndexId) -> AnyIndex<'s> {
        if let Some(index) = &self.indexes[id.0 as usize] {
            return index.clone();
        }
        let index = match self.layout.index_width(id) {
            Width::Narrow => ByWidth::Narrow(self.arrange(id)),
            Width::Wide => ByWidth::Wide(self.arrange(id)),
        };
        self.indexes[id.0 as usize] = Some(index.clone());
        index
    }

    fn arrange<R: Row>(&mut self, id: IndexId) -> Index<'s, R> {
        let index = &self.layout.plan.indexes[id.0 as usize];
        let columns: Vec<usize> = index.key.iter().chain(&index.value).copied().collect();
        let rows_of = Scan::new(&index.select, &columns, self.layout.arity(index.relation), &self.symbols);
        let pair = head::indexed(index.key.len(), &self.symbols);
        let nothing = Steps::default();
        let pairs = match self.rows(index.relation) {
            ByWidth::Narrow(rows) => scan(rows, rows_of, nothing, pair),
            ByWidth::Wide(rows) => scan(rows, rows_of, nothing, pair),
        };
        pairs.arrange_by_key()
    }

    /// Captures the changes of a relation that is wanted or forbids its rows. Otherwise watches the relation's frontier
    /// if no later operator is watched.
    fn end<R: Row>(&mut self, id: RelationId, derived: &Derived<'s, R>)
    where
        Changes: Capture<R>,
    {
        let forbidding = self.layout.plan.relations[id.0 as usize].table;
        let forbidding = forbidding.filter(|_| self.layout.plan.forbids(id));
        if let Some(table) = forbidding {
            let (errors, symbols) = (Rc::clone(&self.errors), Arc::clone(&self.symbols));
            let columns = self.layout.arity(id);
            self.capture(&derived.rows, move |row, diff| {
                let mut words = Vec::with_capacity(columns);
                row.unpack(columns, &symbols, &mut words);
                errors.borrow_mut().forbidden.push((table, words, diff));
            });
        }
        if let Some(table) = self.layout.wanted(id) {
            let changes = Rc::new(RefCell::new(Changes::empty()));
            self.changes[table.0 as usize] = Some(Rc::clone(&changes));
            match &derived.with_rules {
                Some(with_rules) => self.capture(with_rules, move |(row, rule), diff| {
                    changes.borrow_mut().push(row, rule, diff);
                }),
                None => self
                    .capture(&derived.rows, move |row, diff| changes.borrow_mut().push(row, NO_RULE, diff)),
            }
        } else if forbidding.is_none() && !self.layout.is_read(id) {
            self.watch(&derived.rows);
        }
    }

    fn watch<D: ExchangeData>(&mut self, rows: &Collection<'s, D>) {
        self.capture(rows, |_, _| {});
    }

    fn capture<D: ExchangeData>(
        &mut self,
        rows: &Collection<'s, D>,
        mut take: impl FnMut(D, Diff) + 'static,
    ) {
        let least = Rc::new(Cell::new(Some(0)));
        self.frontiers.push(Rc::clone(&least));
        rows.inner.clone().sink(Pipeline, "Capture", move |(input, frontier)| {
            input.for_each(|_, updates| {
                for (row, _, diff) in updates.drain(..) {
                    take(row, diff);
                }
            });
            least.set(frontier.frontier().first().copied());
        });
    }
}

/// Changes that can be pushed as rows of one width.
pub(super) trait Capture<R> {
    fn empty() -> Self;
    fn push(&mut self, row: R, rule: u32, diff: Diff);
}

impl Capture<Narrow> for Changes {
    fn empty() -> Self {
        ByWidth::Narrow(Vec::new())
    }

    fn push(&mut self, row: Narrow, rule: u32, diff: Diff) {
        if let ByWidth::Narrow(changes) = self {
            changes.push((row, rule, diff));
        }
    }
}

impl Capture<Wide> for Changes {
    fn empty() -> Self {
        ByWidth::Wide(Vec::new())
    }

    fn push(&mut self, row: Wide, rule: u32, diff: Diff) {
        if let ByWidth::Wide(changes) = self {
            changes.push((row, rule, diff));
        }
    }
}
