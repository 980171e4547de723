//! A program as one operator of a timely dataflow: collections of differential dataflow in, collections out.
//!
//! A program can thus be a part of a larger dataflow. This one counts the peers of each host with
//! differential's own operators, from a table that rules derive from a collection:
//!
//! ```
//! use differential_dataflow::input::Input;
//! use nlog_data::Value;
//! use nlog_dataflow::operator::Operator;
//! use timely::dataflow::operators::Inspect as _;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sources = nlog::Sources::from_texts([(
//!     "peers.nlog",
//!     "input table on(port: string, hv: string) key(port);
//!      output table peer(a: string, b: string);
//!      peer(a, b) :- on(p, a), on(q, b), a != b;",
//! )]);
//! let program = nlog::compile(&sources).program.ok_or("it compiles")?;
//! let (on, peer) = (program.schema.find("on").ok_or("declared")?, program.schema.find("peer").ok_or("declared")?);
//! // One for all workers of the process. They share the table of symbols.
//! let operator = Operator::new(program);
//!
//! timely::execute(timely::Config::process(2), move |worker| {
//!     let (mut rows, probe) = worker.dataflow::<u64, _, _>(|scope| {
//!         let (handle, collection) = scope.new_collection();
//!         let mut program = operator.connect(scope, [(on, collection)]).expect("the table is an input");
//!         let peers = program.tables.remove(&peer).expect("outputs are observed");
//!         program.refused.inspect(|error| panic!("{error}"));
//!         let counts = peers.map(|row| row[0].to_string()).count();
//!         (handle, counts.inspect(|((hv, peers), time, diff)| println!("{time}: {hv} {peers} {diff:+}")).probe().0)
//!     });
//!     let row = |port: &str, hv: &str| vec![Value::String(port.into()), Value::String(hv.into())];
//!     if worker.index() == 0 {
//!         rows.insert(row("p1", "hv1"));
//!         rows.insert(row("p2", "hv2"));
//!     }
//!     rows.advance_to(1);
//!     rows.flush();
//!     worker.step_while(|| probe.less_than(&1));
//! })?;
//! # Ok(()) }
//! ```
//!
//! All updates with one time are one transaction. The operator runs it once no further update with that time, or an
//! earlier one, can arrive, and its changes have the same time. A refused transaction changes nothing; its error leaves
//! through [`Connected::refused`], and later times build on the state before it. At the minimum time, the program's
//! facts are there.
//!
//! **Workers.** With one worker, the operator contains the engine that [`Dataflow`](crate::Dataflow) runs. With several,
//! each worker evaluates the rules on its part of the rows, as with [`Options::workers`](crate::Options::workers), and
//! the workers exchange bindings and rows over a feedback edge. Worker 0 checks the inputs and stores them; a derived
//! row leaves the operator at the worker that derives it. All workers must be in one process.
//!
//! **Cost.** Rows enter and leave as values. A caller whose data are few columns of numbers pays for that.
//! `benches/RESULTS.md` compares a transaction inside timely with the same one outside.
//!
//! Modules: `alone` (one worker), `team` (several), `ports` (what leaves), `local` (data that stay in a process).

mod alone;
mod local;
mod ports;
mod team;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use differential_dataflow::{AsCollection, VecCollection, consolidation};
use nlog::Program;
use nlog_data::{CommitError, Role, Row, TableId, Tables, Transaction};
use nlog_plan::Settings;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::vec::{Map, Partition};
use timely::dataflow::operators::{Capability, Concatenate, ConnectLoop, Feedback, Leave};
use timely::dataflow::{Scope, Stream};
use timely::order::{Product, TotalOrder};
use timely::progress::Timestamp;

use self::alone::Alone;
use self::local::Local;
use self::ports::{Effects, Ports};
use self::team::{Member, Message};
use crate::dataflow::StartError;
use crate::fused::WORTH_PLANNING;
use crate::symbol::Symbols;

/// A program that can become an operator of a dataflow, once in each worker of a process. Clones are the same operator.
#[derive(Clone)]
pub struct Operator {
    shared: Arc<Shared>,
}

/// What the workers of a process share.
struct Shared {
    program: Arc<Program>,
    observe: Tables,
    planning: Settings,
    plan_anew_from: usize,
    symbols: Arc<Symbols>,
    /// The number of workers that have built the operator.
    built: AtomicUsize,
}

/// The outputs of an operator.
pub struct Connected<'s, T: Timestamp> {
    /// By observed table, its rows. Each is a set.
    pub tables: BTreeMap<TableId, VecCollection<'s, T, Row, isize>>,
    /// Why transactions were refused, at their times. They leave at worker 0.
    pub refused: Stream<'s, T, Vec<CommitError>>,
}

/// Why a program cannot become an operator of a dataflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A collection is for a table that is not an input of the program.
    #[error("table {0} is not an input of the program; connect collections to input tables only")]
    NotAnInput(String),
    /// Two collections are for one table.
    #[error("two collections are connected to table {0}; concatenate them")]
    Twice(String),
    /// The engine does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The rows of several tables.
pub type Rows<'s, T> = VecCollection<'s, T, (TableId, Row), isize>;

/// The change of a row's count at a time.
type Update<I> = Local<((TableId, Row), I, isize)>;

/// What evaluates the rules at a worker.
enum Evaluation {
    Alone(Box<Alone>),
    Team(Box<Member>),
}

/// The updates of a time at which more can arrive, with the right to send at that time.
struct Pending<I: Timestamp> {
    /// By output.
    capabilities: Vec<Capability<I>>,
    updates: Vec<((TableId, Row), isize)>,
}

impl Operator {
    /// An operator that reports the changes of output tables.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Operator::with(program, Tables::Outputs, Settings::default())
    }

    /// An operator that reports the changes of `observe`, and is planned with these settings. If they have neither
    /// statistics nor a pinned plan, the operator plans for its rows as
    /// [`Options::plan_anew_from`](crate::Options::plan_anew_from) describes. Several workers do that only before a
    /// transaction that brings most of the rows.
    #[must_use]
    pub fn with(program: Arc<Program>, observe: Tables, planning: Settings) -> Self {
        Operator::planning_from(program, observe, planning, WORTH_PLANNING)
    }

    /// Like [`Operator::with`]. Plans for a transaction of at least `plan_anew_from` rows that brings most of the rows.
    #[must_use]
    pub fn planning_from(
        program: Arc<Program>,
        observe: Tables,
        planning: Settings,
        plan_anew_from: usize,
    ) -> Self {
        let (symbols, built) = (Arc::new(Symbols::new()), AtomicUsize::new(0));
        Operator { shared: Arc::new(Shared { program, observe, planning, plan_anew_from, symbols, built }) }
    }

    /// Builds the operator in a dataflow. Every worker of the process must call this with the same tables. An input
    /// table without a collection stays empty.
    ///
    /// Each collection must be a set, as a table is: where a row can occur more than once, apply `distinct` first.
    pub fn connect<'s, T: Timestamp + TotalOrder>(
        &self,
        scope: Scope<'s, T>,
        inputs: impl IntoIterator<Item = (TableId, VecCollection<'s, T, Row, isize>)>,
    ) -> Result<Connected<'s, T>, ConnectError> {
        let inputs: Vec<(TableId, VecCollection<'s, T, Row, isize>)> = inputs.into_iter().collect();
        self.check(inputs.iter().map(|(table, _)| *table))?;
        let named = |(table, rows): (TableId, VecCollection<'s, T, Row, isize>)| {
            rows.inner.map(move |(row, time, diff)| ((table, row), time, diff))
        };
        let rows = scope.concatenate(inputs.into_iter().map(named)).as_collection();
        let (rows, refused) = self.connect_rows(scope, rows)?;
        let observed = self.shared.observed();
        let places: BTreeMap<TableId, u64> = observed.iter().copied().zip(0..).collect();
        // Every row is of an observed table.
        let place = move |table: TableId| places.get(&table).copied().unwrap_or_default();
        let parts = rows.inner.partition(observed.len() as u64, move |((table, row), time, diff)| {
            (place(table), (row, time, diff))
        });
        let tables = observed.into_iter().zip(parts.into_iter().map(AsCollection::as_collection));
        Ok(Connected { tables: tables.collect(), refused })
    }

    /// Like [`Operator::connect`], with the rows of all tables in one collection, and those of all observed tables in
    /// another. Each edge of a dataflow costs each transaction a little, so this is the form for many tables.
    #[allow(clippy::type_complexity, reason = "a pair of which each part is named")]
    pub fn connect_rows<'s, T: Timestamp + TotalOrder>(
        &self,
        scope: Scope<'s, T>,
        rows: Rows<'s, T>,
    ) -> Result<(Rows<'s, T>, Stream<'s, T, Vec<CommitError>>), ConnectError> {
        self.shared.built.fetch_add(1, Ordering::AcqRel);
        let peers = scope.peers();
        if peers == 1 {
            let alone = Evaluation::Alone(Box::new(Alone::new(&self.shared)?));
            let Wired { rows, refused, .. } = wire(scope, rows, alone, None);
            return Ok((rows, refused));
        }
        let member = Member::new(Arc::clone(&self.shared), scope.index(), peers);
        let member = Evaluation::Team(Box::new(member));
        // The time counts the hops of messages: an edge that leads back must advance it.
        Ok(scope.scoped::<Product<T, u64>, _, _>("nlog", |inner| {
            let (handle, cycle) = inner.feedback(Product::new(T::Summary::default(), 1));
            let wired = wire(inner, rows.enter(inner), member, Some(cycle));
            if let Some(messages) = wired.messages {
                messages.connect_loop(handle);
            }
            (wired.rows.leave(scope), wired.refused.leave(scope))
        }))
    }

    fn check(&self, inputs: impl Iterator<Item = TableId>) -> Result<(), ConnectError> {
        let (schema, mut seen) = (&self.shared.program.schema, BTreeSet::new());
        for id in inputs {
            match schema.get(id) {
                Some(table) if table.role == Role::Input => {
                    if !seen.insert(id) {
                        return Err(ConnectError::Twice(table.name.clone()));
                    }
                }
                Some(table) => return Err(ConnectError::NotAnInput(table.name.clone())),
                None => return Err(ConnectError::NotAnInput(format!("number {}", id.0))),
            }
        }
        Ok(())
    }
}

impl Shared {
    /// The tables whose changes leave the operator, ascending.
    fn observed(&self) -> BTreeSet<TableId> {
        let ids = self.program.schema.iter().map(|(id, _)| id);
        ids.filter(|id| self.observe.include(&self.program.schema, *id)).collect()
    }
}

impl Evaluation {
    /// Whether a transaction is in progress, so that another one must wait.
    fn is_busy(&self) -> bool {
        match self {
            Evaluation::Alone(_) => false,
            Evaluation::Team(member) => member.is_busy(),
        }
    }

    fn begin(&mut self, transaction: &Transaction) -> Effects {
        match self {
            Evaluation::Alone(alone) => alone.run(transaction),
            Evaluation::Team(member) => member.begin(transaction),
        }
    }
}

/// The outputs of the operator itself.
struct Wired<'s, I: Timestamp> {
    rows: Rows<'s, I>,
    refused: Stream<'s, I, Vec<CommitError>>,
    messages: Option<Stream<'s, I, Vec<Local<Message>>>>,
}

/// Builds the operator. `cycle` brings the messages of all members of a team.
fn wire<'s, I: Timestamp>(
    scope: Scope<'s, I>,
    rows: Rows<'s, I>,
    mut evaluation: Evaluation,
    cycle: Option<Stream<'s, I, Vec<Local<Message>>>>,
) -> Wired<'s, I> {
    let mut builder = OperatorBuilder::new("nlog".to_owned(), scope);
    let updates = rows.inner.map(Local);
    let mut updates = builder.new_input(updates, Exchange::new(|_: &Update<I>| 0));
    let mut cycle = cycle.map(|messages| {
        builder.new_input(messages, Exchange::new(|message: &Local<Message>| message.0.to as u64))
    });
    let (mut ports, rows, refused, messages) = Ports::new(&mut builder, cycle.is_some());
    let is_first = scope.index() == 0;
    builder.build(move |capabilities| {
        let mut pending: BTreeMap<I, Pending<I>> = BTreeMap::new();
        if is_first {
            // The program's facts hold at the minimum time, whether or not there are rows.
            pending.insert(I::minimum(), Pending { capabilities, updates: Vec::new() });
        }
        move |frontiers| {
            updates.for_each(|capability, data| {
                for Local((row, time, diff)) in data.drain(..) {
                    let of_time = pending.entry(time).or_insert_with_key(|time| Pending {
                        capabilities: (0..ports.count()).map(|port| capability.delayed(time, port)).collect(),
                        updates: Vec::new(),
                    });
                    of_time.updates.push((row, diff));
                }
            });
            if let (Some(cycle), Evaluation::Team(member)) = (&mut cycle, &mut evaluation) {
                cycle.for_each(|capability, messages| {
                    for Local(message) in messages.drain(..) {
                        let effects = member.take(message);
                        ports.send(capability.time(), &|port| capability.retain(port), effects);
                    }
                });
            }
            while !evaluation.is_busy()
                && let Some(first) = pending.first_entry()
                && !frontiers[0].less_equal(first.key())
            {
                let (time, Pending { capabilities, updates }) = first.remove_entry();
                let effects = evaluation.begin(&transaction(updates));
                ports.send(&time, &|port| capabilities[port].clone(), effects);
            }
        }
    });
    Wired { rows: rows.as_collection(), refused, messages }
}

/// The transaction with these updates.
fn transaction(mut updates: Vec<((TableId, Row), isize)>) -> Transaction {
    consolidation::consolidate(&mut updates);
    let mut transaction = Transaction::default();
    for ((table, row), diff) in updates {
        let changes = if diff > 0 { &mut transaction.insert } else { &mut transaction.delete };
        changes.entry(table).or_default().push(row);
    }
    transaction
}
