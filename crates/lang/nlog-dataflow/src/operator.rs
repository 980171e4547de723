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
//! facts are there. Hooks run as in any engine.
//!
//! **Workers.** Each worker of the dataflow has its part of the derived rows, and the workers exchange bindings and rows over
//! channels of timely. Worker 0 checks the inputs and stores them, and runs the hooks; a derived row leaves the operator at the worker that derives
//! it. With several processes, [`Operator::threads`] says how many workers each has.
//!
//! **Blocks.** [`Operator::connect_blocks`] is the operator itself: a transaction comes as columns and leaves as words, at
//! no cost beside the engine's own. Collections of rows cost more: each row becomes values, with a time and a difference
//! (`benches/RESULTS.md`). Connect them where other operators work on rows anyway.
//!
//! Modules: `request` (what goes in), `changes` (what comes out).

mod changes;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use differential_dataflow::{AsCollection, VecCollection};
use nlog::Program;
use nlog_data::{CommitError, Role, Row, TableId, Tables};
use nlog_plan::Settings;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Concatenate;
use timely::dataflow::operators::generic::Operator as _;
use timely::dataflow::operators::vec::{Map, Partition};
use timely::dataflow::{Scope, Stream};
use timely::order::TotalOrder;
use timely::progress::Timestamp;

pub use self::changes::{Block, Outcome};
pub use self::request::Request;
use crate::carrier::{self, Desk};
use crate::dataflow::Options;
use crate::fused::WORTH_PLANNING;
use crate::fused::core::Core;
use crate::fused::workers::{Member, Message, Port, Workers};
use crate::symbol::Symbols;
use crate::wire::SymbolCodec;

/// A program that can become an operator of a dataflow, once in each worker of a process. Clones are the same operator.
#[derive(Clone)]
pub struct Operator {
    program: Arc<Program>,
    options: Options,
    symbols: Arc<Symbols>,
    /// The number of workers in each process, if there are several processes.
    threads: Option<usize>,
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
    /// A collection is for a table that a hook fills.
    #[error("table {0} is filled by a hook; connect the inputs that the hook's rows are derived from")]
    Filled(String),
    /// Two collections are for one table.
    #[error("two collections are connected to table {0}; concatenate them")]
    Twice(String),
}

/// The rows of several tables.
pub type Rows<'s, T> = VecCollection<'s, T, (TableId, Row), isize>;

impl Operator {
    /// An operator that reports the changes of output tables.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Operator::with(program, Tables::Outputs, Settings::default())
    }

    /// An operator that reports the changes of `observe`, and is planned with these settings. If they have neither
    /// statistics nor a pinned plan, the operator plans for its rows as
    /// [`Options::plan_anew_from`](crate::Options::plan_anew_from) describes.
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
        let options = Options { observe, planning, plan_anew_from, ascending: false, ..Options::default() };
        Operator { program, options, symbols: Arc::new(Symbols::new()), threads: None }
    }

    /// The same operator for a dataflow of several processes, each of which has this many workers.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Operator { symbols: Arc::new(Symbols::of_several_processes()), threads: Some(threads), ..self }
    }

    /// Builds the operator in a dataflow. Every worker must call this with the same tables. An input
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
        let (rows, refused) = self.connect_rows(scope, rows);
        let observed = self.observed();
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
    /// another. Each edge of a dataflow costs each transaction a little, so this is the form for many tables. Rows of tables that are no inputs
    /// are refused with their transaction.
    #[allow(clippy::type_complexity, reason = "a pair of which each part is named")]
    pub fn connect_rows<'s, T: Timestamp + TotalOrder>(
        &self,
        scope: Scope<'s, T>,
        rows: Rows<'s, T>,
    ) -> (Rows<'s, T>, Stream<'s, T, Vec<CommitError>>) {
        let requests = request::of_rows(rows.inner);
        let (outcomes, refused) = changes::split(self.connect_blocks(scope, requests));
        let rows =
            outcomes.unary::<CapacityContainerBuilder<Vec<_>>, _, _, _>(Pipeline, "nlog rows", |_, _| {
                |input, output| {
                    input.for_each(|capability, blocks| {
                        let mut session = output.session(&capability);
                        for block in blocks.drain(..) {
                            let time = capability.time();
                            block.rows().for_each(|(row, diff)| session.give((row, time.clone(), diff)));
                        }
                    });
                }
            });
        (rows.as_collection(), refused)
    }

    /// The operator itself: transactions in, changes and refusals out. All requests with one time are one transaction. Each worker
    /// emits the changes of the rows that it derives, and worker 0 those of input tables and the refusals.
    pub fn connect_blocks<'s, T: Timestamp + TotalOrder>(
        &self,
        scope: Scope<'s, T>,
        requests: Stream<'s, T, Vec<Request>>,
    ) -> Stream<'s, T, Vec<Outcome>> {
        let codec = Arc::new(SymbolCodec::new(Arc::clone(&self.symbols)));
        let (me, peers) = (scope.index(), scope.peers());
        let threads = self.threads.unwrap_or(peers).max(1);
        let local = me / threads * threads..(me / threads + 1) * threads;
        let operator = self.clone();
        let work = move |port: Port, desk: Desk<T, Request, Outcome>| async move {
            if me == 0 { operator.lead(port, &desk).await } else { operator.follow(port, desk).await }
        };
        let refuse = |why: &str| Outcome::Refused(CommitError::Engine(why.to_owned()));
        carrier::operator::<_, _, _, Message, _>(scope, "nlog", requests, codec, local, work, refuse)
    }

    /// Runs the transactions, at worker 0.
    async fn lead<T: Timestamp + TotalOrder>(&self, port: Port, desk: &Desk<T, Request, Outcome>) {
        let workers = (port.peers() > 1).then(|| Workers::new(port.clone(), true));
        let program = Arc::clone(&self.program);
        let mut core = Core::new(program, &self.options, Arc::clone(&self.symbols), workers);
        // A failure is that of every transaction.
        let _ = core.share_work_again().await;
        while let Some((_, requests)) = desk.next(&port).await {
            match core.commit_raw(&request::transaction(requests)).await {
                Ok(outputs) if outputs.is_empty() => {}
                Ok(outputs) => desk.emit(Outcome::Changed(Block::new(outputs, &self.symbols))),
                Err(error) => desk.emit(Outcome::Refused(error)),
            }
        }
    }

    /// Serves worker 0.
    async fn follow<T: Timestamp + TotalOrder>(&self, port: Port, desk: Desk<T, Request, Outcome>) {
        let symbols = Arc::clone(&self.symbols);
        let emit = move |outputs: Vec<_>| {
            if !outputs.is_empty() {
                desk.emit(Outcome::Changed(Block::new(outputs, &symbols)));
            }
        };
        let member = Member {
            program: Arc::clone(&self.program),
            symbols: Arc::clone(&self.symbols),
            attribute: false,
            emit: Some(Box::new(emit)),
        };
        // Worker 0 reports what is lost.
        let _ = member.serve(port).await;
    }

    fn check(&self, inputs: impl Iterator<Item = TableId>) -> Result<(), ConnectError> {
        let (schema, mut seen) = (&self.program.schema, BTreeSet::new());
        for id in inputs {
            let Some(table) = schema.get(id) else {
                return Err(ConnectError::NotAnInput(format!("number {}", id.0)));
            };
            if table.role != Role::Input {
                return Err(ConnectError::NotAnInput(table.name.clone()));
            }
            if self.program.hook_of(id).is_some() {
                return Err(ConnectError::Filled(table.name.clone()));
            }
            if !seen.insert(id) {
                return Err(ConnectError::Twice(table.name.clone()));
            }
        }
        Ok(())
    }

    /// The tables whose changes leave the operator, ascending.
    fn observed(&self) -> BTreeSet<TableId> {
        let ids = self.program.schema.iter().map(|(id, _)| id);
        ids.filter(|id| self.options.observe.include(&self.program.schema, *id)).collect()
    }
}
