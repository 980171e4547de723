//! From a plan to a dataflow of one worker: every worker builds the same one.
//!
//! Nothing but differential's operators: `arrange`, `join_traces`, `threshold_total`, `reduce`, and maps around them.
//! Failures and broken keys leave by the side: they end the transaction, so nothing in the dataflow needs them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use differential_dataflow::consolidation::ConsolidatingContainerBuilder;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::ThresholdTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::operators::join::join_traces;
use differential_dataflow::trace::implementations::{ValBuilder, ValSpine};
use differential_dataflow::{AsCollection, ExchangeData, VecCollection};
use nlog_data::{Role, TableId};
use nlog_plan::{Arrangement, ArrangementId, Chain, Keep, Operand, Output, RulePlan, Selection, Source};
use timely::container::PushInto;
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::Operator;

use crate::aggregate::Groups;
use crate::expression::{Binding, Steps};
use crate::head::{self, End, Finish};
use crate::layout::{Form, Layout, Width};
use crate::row::{Narrow, Row, Wide};
use crate::symbol::{NO_FAILURE, Symbol, Symbols};
use crate::trouble::Troubles;

/// The number of a transaction, or of an attempt at one. Half the bytes of 64 bits in every index; the coordinator
/// stops before it wraps.
pub(crate) type Time = u32;

/// How often a row is there. Projections make counts, and counts multiply in joins: 32 bits can be too few.
pub(crate) type Diff = i64;

/// Which rule a change is attributed to, where that is not asked.
pub(crate) const NO_RULE: u32 = u32::MAX;

type Collection<'s, D> = VecCollection<'s, Time, D, Diff>;
type Index<'s, R> = Arranged<'s, TraceAgent<ValSpine<R, R, Time, Diff>>>;

/// The same thing for either width of rows.
#[derive(Debug, Clone)]
pub(crate) enum ByWidth<N, W> {
    Narrow(N),
    Wide(W),
}

/// Where rows go in.
pub(crate) type InputHandle = ByWidth<InputSession<Time, Narrow, Diff>, InputSession<Time, Wide, Diff>>;

/// Changes of a table: row, rule, how often.
pub(crate) type Changes = ByWidth<Vec<(Narrow, u32, Diff)>, Vec<(Wide, u32, Diff)>>;

/// What a worker keeps of its dataflow.
pub(crate) struct Graph {
    /// By table number: the needed input tables.
    pub(crate) inputs: Vec<Option<InputHandle>>,
    /// Once a row is in here, facts are true.
    pub(crate) facts: InputSession<Time, Narrow, Diff>,
    /// By table number: the changes of wanted tables since they were last taken.
    pub(crate) changes: Vec<Option<Rc<RefCell<Changes>>>>,
    /// What went wrong since it was last taken.
    pub(crate) troubles: Rc<RefCell<Troubles>>,
    /// For each place where the dataflow ends the least time that can still come; none if none can.
    pub(crate) frontiers: Vec<Rc<Cell<Option<Time>>>>,
}

type Rows<'s> = ByWidth<Collection<'s, Narrow>, Collection<'s, Wide>>;
/// The rows of a derived table, and with their rules where these are asked for.
struct Derived<'s, R: Row> {
    rows: Collection<'s, R>,
    with_rules: Option<Collection<'s, (R, u32)>>,
}

/// Makes the last step of a table's rule of this number.
type Finisher<'f, O> = &'f dyn Fn(&Layout, &Arc<Symbols>, u32) -> Finish<O>;

type AnyIndex<'s> = ByWidth<Index<'s, Narrow>, Index<'s, Wide>>;

struct Builder<'s, 'p> {
    scope: Scope<'s, Time>,
    layout: &'p Layout,
    symbols: Arc<Symbols>,
    troubles: Rc<RefCell<Troubles>>,
    facts: Collection<'s, Narrow>,
    tables: Vec<Option<Rows<'s>>>,
    indexes: Vec<Option<AnyIndex<'s>>>,
    changes: Vec<Option<Rc<RefCell<Changes>>>>,
    frontiers: Vec<Rc<Cell<Option<Time>>>>,
}

/// Builds the dataflow of a plan.
pub(crate) fn build(scope: Scope<'_, Time>, layout: &Layout, symbols: &Arc<Symbols>) -> Graph {
    let plan = &layout.plan;
    let schema = &plan.program.schema;
    let (facts, unit) = scope.new_collection();
    let mut builder = Builder {
        scope,
        layout,
        symbols: Arc::clone(symbols),
        troubles: Rc::default(),
        facts: unit,
        tables: vec![None; schema.len()],
        indexes: vec![None; plan.arrangements.len()],
        changes: vec![None; schema.len()],
        frontiers: Vec::new(),
    };
    let mut inputs: Vec<Option<InputHandle>> = Vec::new();
    for (id, table) in schema.iter() {
        let needed = plan.tables[id.0 as usize].needed && table.role == Role::Input;
        inputs.push(needed.then(|| builder.input(id)));
    }
    for id in &plan.program.order {
        if plan.tables[id.0 as usize].needed && schema.table(*id).role != Role::Input {
            builder.table(*id);
        }
    }
    let Builder { changes, frontiers, troubles, .. } = builder;
    Graph { inputs, facts, changes, troubles, frontiers }
}

impl<'s> Builder<'s, '_> {
    fn input(&mut self, id: TableId) -> InputHandle {
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
        self.tables[id.0 as usize] = Some(rows);
        handle
    }

    /// A derived table: what its rules derive, as a set.
    fn table(&mut self, id: TableId) {
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
        self.tables[id.0 as usize] = Some(rows);
    }

    /// The rows of a table as a set.
    fn derived<R: Row>(&mut self, id: TableId) -> Derived<'s, R> {
        match self.layout.form(id) {
            Form::Rows => {
                let rows = self.derive(id, &|layout, symbols, _| head::row(layout.arity(id), symbols));
                let rows = match self.layout.plan.tables[id.0 as usize].keep {
                    Keep::AsIs => rows,
                    Keep::Distinct | Keep::Key(_) => distinct(rows),
                };
                Derived { rows, with_rules: None }
            }
            Form::Keyed(Width::Narrow) => self.keyed::<Narrow, R>(id),
            Form::Keyed(Width::Wide) => self.keyed::<Wide, R>(id),
        }
    }

    /// The rows of a table whose rules or keys have to be looked at row by row.
    fn keyed<P: Row, R: Row>(&mut self, id: TableId) -> Derived<'s, R> {
        let keyed = self.layout.keyed(id);
        let pairs: Collection<'s, (P, P)> = {
            let keyed = keyed.clone();
            self.derive(id, &move |_, symbols, rule| head::pair(keyed.clone(), rule, symbols))
        };
        let mut keep = head::Keep::<P>::new(keyed.clone(), &self.symbols, &self.troubles);
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

    /// What all rules of a table derive.
    fn derive<O: ExchangeData>(&mut self, id: TableId, finisher: Finisher<'_, O>) -> Collection<'s, O> {
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
        for chain in &rule.failures {
            let end = head::failed(rule.rule.0, &self.symbols, &self.troubles);
            let failures: Collection<'s, Narrow> = self.chain(chain, end);
            self.watch(&failures);
        }
        match &rule.output {
            Output::Rows(columns) => {
                let end = head::rows(columns, rule.rule.0, &self.symbols, &self.troubles, finish);
                self.chain(&rule.chain, end)
            }
            Output::Groups { wide: false, .. } => self.groups::<Narrow, O>(rule, finish),
            Output::Groups { wide: true, .. } => self.groups::<Wide, O>(rule, finish),
        }
    }

    /// A rule with aggregates.
    fn groups<G: Row, O: ExchangeData>(
        &mut self,
        rule: &RulePlan,
        mut finish: Finish<O>,
    ) -> Collection<'s, O> {
        let Output::Groups { group, tuple, check, aggregates, columns, .. } = &rule.output else {
            unreachable!("only rules with aggregates come here")
        };
        let end = head::group::<G>(group, tuple, check, rule.rule.0, &self.symbols, &self.troubles);
        let pairs = self.chain(&rule.chain, end);
        let mut groups =
            Groups::new(aggregates, (group.len(), tuple.len()), rule.rule.0, &self.symbols, &self.troubles);
        let logic = move |key: &G, tuples: &[(&G, Diff)], output: &mut Vec<(G, Diff)>| {
            output.extend(groups.row(key, tuples).map(|row| (row, 1)));
        };
        let reduced = reduce("Aggregate", pairs, Box::new(logic));
        let symbols = Arc::clone(&self.symbols);
        let (columns, groups, aggregates) = (columns.clone(), group.len(), aggregates.len());
        let (mut parts, mut row) = (Vec::new(), Vec::new());
        reduced.as_collection(move |key, value| {
            parts.clear();
            key.unpack(groups, &symbols, &mut parts);
            value.unpack(aggregates, &symbols, &mut parts);
            row.clear();
            row.extend(columns.iter().map(|column| match column {
                nlog_plan::GroupColumn::Group(at) => parts[*at],
                nlog_plan::GroupColumn::Aggregate(at) => parts[groups + at],
            }));
            finish(&row)
        })
    }

    /// The bindings of a chain, each as what its end makes of it.
    fn chain<O: ExchangeData>(&mut self, chain: &Chain, end: End<O>) -> Collection<'s, O> {
        let steps = Steps::new(&chain.steps, &self.symbols);
        match &chain.source {
            Source::Unit => scan(self.facts.clone(), Scan::unit(&self.symbols), steps, end),
            Source::Table { table, select, columns } => {
                let scan_of = Scan::new(select, columns, self.layout.arity(*table), &self.symbols);
                let rows = self.tables[table.0 as usize].clone();
                match rows.expect("tables come in an order in which bodies are before heads") {
                    ByWidth::Narrow(rows) => scan(rows, scan_of, steps, end),
                    ByWidth::Wide(rows) => scan(rows, scan_of, steps, end),
                }
            }
            Source::Join { left, right } => {
                let sides = Sides::new(self.arrangement(*left), self.arrangement(*right), &self.symbols);
                match (self.index(*left), self.index(*right)) {
                    (ByWidth::Narrow(left), ByWidth::Narrow(right)) => join(left, right, sides, steps, end),
                    (ByWidth::Wide(left), ByWidth::Wide(right)) => join(left, right, sides, steps, end),
                    _ => unreachable!("both sides of a join have one width"),
                }
            }
        }
    }

    fn arrangement(&self, id: ArrangementId) -> &Arrangement {
        &self.layout.plan.arrangements[id.0 as usize]
    }

    /// An arrangement's index, built when it is first asked for.
    fn index(&mut self, id: ArrangementId) -> AnyIndex<'s> {
        if let Some(index) = &self.indexes[id.0 as usize] {
            return index.clone();
        }
        let layout = self.layout;
        let arrangement = &layout.plan.arrangements[id.0 as usize];
        let index = if arrangement.wide {
            ByWidth::Wide(self.arrange(arrangement))
        } else {
            ByWidth::Narrow(self.arrange(arrangement))
        };
        self.indexes[id.0 as usize] = Some(index.clone());
        index
    }

    fn arrange<R: Row>(&mut self, arrangement: &Arrangement) -> Index<'s, R> {
        let pairs: Collection<'s, (R, R)> =
            self.chain(&arrangement.chain, head::arranged(arrangement, &self.symbols));
        let pairs = if arrangement.distinct { distinct(pairs) } else { pairs };
        pairs.arrange_by_key()
    }

    /// Captures a table's changes if they are wanted, and watches it if nothing behind it is watched.
    fn end<R: Row>(&mut self, id: TableId, derived: &Derived<'s, R>)
    where
        Changes: Capture<R>,
    {
        if self.layout.is_wanted(id) {
            let changes = Rc::new(RefCell::new(Changes::empty()));
            self.changes[id.0 as usize] = Some(Rc::clone(&changes));
            match &derived.with_rules {
                Some(with_rules) => self.capture(with_rules, move |(row, rule), diff| {
                    changes.borrow_mut().push(row, rule, diff);
                }),
                None => self
                    .capture(&derived.rows, move |row, diff| changes.borrow_mut().push(row, NO_RULE, diff)),
            }
        } else if !self.layout.is_read(id) {
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
pub(crate) trait Capture<R> {
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

/// What becomes of all values under a key. Boxed, so that differential's operator is compiled once for each width.
type Reduction<P> = Box<dyn FnMut(&P, &[(&P, Diff)], &mut Vec<(P, Diff)>)>;

fn reduce<'s, P: Row>(name: &str, pairs: Collection<'s, (P, P)>, logic: Reduction<P>) -> Index<'s, P> {
    pairs.reduce_abelian::<_, ValBuilder<P, P, Time, Diff>, ValSpine<P, P, Time, Diff>>(name, logic)
}

/// Each row once. (`distinct_total` of differential 0.25.1 never takes a row back.)
fn distinct<D>(rows: Collection<'_, D>) -> Collection<'_, D>
where
    D: ExchangeData + std::hash::Hash,
{
    rows.threshold_total(|_, count| Diff::from(*count > 0))
}

/// How a table's rows become bindings.
struct Scan {
    symbols: Arc<Symbols>,
    /// Columns that have to equal a word.
    constants: Vec<(usize, Symbol)>,
    /// Columns that have to equal another one.
    equalities: Vec<(usize, usize)>,
    columns: Vec<usize>,
    arity: usize,
}

impl Scan {
    fn unit(symbols: &Arc<Symbols>) -> Self {
        Scan::new(&[], &[], 0, symbols)
    }

    fn new(select: &[Selection], columns: &[usize], arity: usize, symbols: &Arc<Symbols>) -> Self {
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

    /// Fills a binding; false if the row does not fit.
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

fn scan<R: Row, O: ExchangeData>(
    rows: Collection<'_, R>,
    scan: Scan,
    mut steps: Steps,
    mut end: End<O>,
) -> Collection<'_, O> {
    let (mut whole, mut binding) = (Vec::new(), Binding::default());
    rows.inner
        .unary::<ConsolidatingContainerBuilder<Vec<(O, Time, Diff)>>, _, _, _>(Pipeline, "Scan", |_, _| {
            move |input, output| {
                input.for_each(|capability, updates| {
                    let mut session = output.session_with_builder(&capability);
                    for (row, time, diff) in updates.drain(..) {
                        if scan.load(&row, &mut whole, &mut binding) {
                            steps.run(&mut binding, &mut |binding| {
                                if let Some(out) = end(binding, diff) {
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

/// How the two sides of a join become bindings.
struct Sides {
    symbols: Arc<Symbols>,
    key: usize,
    left: Side,
    right: Side,
}

struct Side {
    columns: usize,
    /// Whether the last column is a failure.
    failure: bool,
}

impl Side {
    fn new(arrangement: &Arrangement) -> Self {
        let failure = arrangement.failure;
        Side { columns: arrangement.value.len() + usize::from(failure), failure }
    }

    #[inline]
    fn load<R: Row>(&self, row: &R, binding: &mut Binding, symbols: &Symbols) {
        row.unpack(self.columns, symbols, &mut binding.slots);
        if self.failure {
            let failure = binding.slots.pop().unwrap_or(NO_FAILURE);
            binding.failure = symbols.least_failure(binding.failure, failure);
        }
    }
}

impl Sides {
    fn new(left: &Arrangement, right: &Arrangement, symbols: &Arc<Symbols>) -> Self {
        Sides {
            symbols: Arc::clone(symbols),
            key: left.key.len(),
            left: Side::new(left),
            right: Side::new(right),
        }
    }

    #[inline]
    fn load<R: Row>(&self, key: &R, left: &R, right: &R, binding: &mut Binding) {
        binding.slots.clear();
        binding.failure = NO_FAILURE;
        key.unpack(self.key, &self.symbols, &mut binding.slots);
        self.left.load(left, binding, &self.symbols);
        self.right.load(right, binding, &self.symbols);
    }
}

fn join<'s, R: Row, O: ExchangeData>(
    left: Index<'s, R>,
    right: Index<'s, R>,
    sides: Sides,
    mut steps: Steps,
    mut end: End<O>,
) -> Collection<'s, O> {
    let mut binding = Binding::default();
    join_traces::<_, _, _, _, ConsolidatingContainerBuilder<Vec<(O, Time, Diff)>>>(
        left,
        right,
        move |key: &R, left: &R, right: &R, time, left_count, right_count, out| {
            let diff = left_count
                .checked_mul(*right_count)
                .expect("a row is derived more often than can be counted");
            sides.load(key, left, right, &mut binding);
            steps.run(&mut binding, &mut |binding| {
                if let Some(made) = end(binding, diff) {
                    out.push_into((made, time, diff));
                }
            });
        },
    )
    .as_collection()
}
