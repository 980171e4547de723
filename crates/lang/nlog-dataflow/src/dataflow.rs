//! The public interface of the engine: transactions in, deltas out.

use std::collections::HashSet;
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Memories, Row,
    Schema, Scrubbed, StoredRows, TableId, Tables, Transaction, TransactionError, Value,
};
use nlog_plan::Settings;
use nlog_plan::query::Plan;

use crate::carrier::{self, Carrier, Processes};
use crate::fused::core::{self, Core};
use crate::fused::workers::{Member, Message, Workers};
use crate::fused::{self, ChangeError, Load, Profile, Proposal, RawDelta};
use crate::panic::now;
use crate::symbol::Symbols;
use crate::wire::SymbolCodec;

/// The options of an engine. They do not affect the contents of tables.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of threads that share the work, at least 1. One thread has the least latency; more threads load
    /// large states faster if CPU cores are free.
    pub workers: usize,
    /// Whether a single worker is one of timely's too. Several always are.
    pub timely: bool,
    /// The tables whose changes are reported.
    pub observe: Tables,
    /// Whether each inserted row names its rule, as in [`TableDelta::rules`](nlog_data::TableDelta::rules).
    pub attribute: bool,
    /// Whether [`Evaluator::commit`](nlog_data::Evaluator::commit) reports rows in ascending order. Sorting many matches costs
    /// about as much time as their derivation. Without it, the engine reports rows in an order of its own, which
    /// differs from run to run.
    pub ascending: bool,
    /// The settings of the planner.
    pub planning: Settings,
    /// Plan for a transaction of at least this many rows before it runs, if it inserts most of the rows that the engine
    /// will then hold. Later, the engine re-plans when its plan no longer fits the rows present. Both apply only if
    /// [`Options::planning`] has neither statistics nor a pinned plan. With `usize::MAX` the engine never re-plans by
    /// itself.
    pub plan_anew_from: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 1,
            timely: false,
            observe: Tables::Outputs,
            attribute: false,
            ascending: true,
            planning: Settings::default(),
            plan_anew_from: fused::WORTH_PLANNING,
        }
    }
}

/// The reason why an engine does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// [`Options::workers`] is 0.
    #[error("the engine needs at least one worker")]
    NoWorkers,
    /// Workers cannot be started, or other processes not be reached.
    #[error(transparent)]
    Carrier(#[from] carrier::StartError),
    /// Another worker or process was lost.
    #[error("{0}; restart all processes")]
    Lost(String),
    /// The threads, or their dataflows, cannot be started.
    #[error("cannot start the workers of the engine: {0}")]
    Workers(String),
}

/// A running engine for one program. It must stay in the thread that created it. The other workers, if there are any, are
/// timely's: threads of this process, and of others.
pub struct Dataflow {
    pub(crate) core: Core,
    /// Worker 0, which is the caller's thread.
    carrier: Option<Carrier<Message>>,
}

impl Dataflow {
    /// Plans the program and starts its workers.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, StartError> {
        match options.workers {
            0 => Err(StartError::NoWorkers),
            1 if !options.timely => {
                let core = Core::new(program, &options, Arc::new(Symbols::new()), None);
                Ok(Dataflow { core, carrier: None })
            }
            _ => Dataflow::with(program, &options, None),
        }
    }

    /// Plans the program and shares its work with other processes, each of which runs [`serve`](crate::serve) with the same program and options.
    /// This is process 0. Waits for the others to connect.
    pub fn across(program: Arc<Program>, options: Options, processes: Processes) -> Result<Self, StartError> {
        Dataflow::with(program, &options, Some(processes))
    }

    fn with(
        program: Arc<Program>,
        options: &Options,
        processes: Option<Processes>,
    ) -> Result<Self, StartError> {
        let symbols =
            Arc::new(if processes.is_some() { Symbols::of_several_processes() } else { Symbols::new() });
        let carrier = start(&program, options, processes, &symbols)?;
        let several = carrier.port().peers() > 1;
        let workers = several.then(|| Workers::new(carrier.port().clone(), false));
        let mut engine =
            Dataflow { core: Core::new(program, options, symbols, workers), carrier: Some(carrier) };
        let shared = engine.wait(async |core| core.share_work_again().await);
        shared.map_err(|error| StartError::Workers(error.to_string()))?;
        Ok(engine)
    }

    /// Runs work that may wait for other workers.
    fn wait<T>(&mut self, work: impl AsyncFnOnce(&mut Core) -> T) -> T {
        match &mut self.carrier {
            None => now(work(&mut self.core)),
            Some(carrier) => carrier.block_on(work(&mut self.core)),
        }
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        self.core.plan()
    }

    /// The program in use.
    pub fn program(&self) -> &Arc<Program> {
        self.core.program()
    }

    /// Whether it has several workers.
    pub fn is_shared(&self) -> bool {
        self.core.workers.is_some()
    }

    /// The work of the engine since it was started, and its present contents.
    pub fn profile(&mut self) -> Result<Profile, CommitError> {
        self.wait(async |core| core.profile().await)
    }

    /// The work of each worker since the engine was started.
    pub fn loads(&mut self) -> Result<Vec<Load>, CommitError> {
        self.wait(async |core| core.loads().await)
    }

    /// Commits a transaction and returns its delta as symbols, without converting them to values. For callers that
    /// process many rows: see [`RawDelta`].
    pub fn commit_words(&mut self, transaction: &ColumnTransaction) -> Result<RawDelta<'_>, CommitError> {
        match &mut self.carrier {
            None => now(self.core.commit_words(transaction)),
            Some(carrier) => carrier.block_on(self.core.commit_words(transaction)),
        }
    }

    /// Merges what transactions changed; re-plans and collects unused symbols, if that is due. The caller has time to spare:
    /// no transaction waits. Returns whether the engine switched to another plan.
    pub fn maintain(&mut self) -> Result<bool, CommitError> {
        self.wait(async |core| core.idle().await)
    }

    /// Plans the program with these settings and switches to the new plan. Returns whether the engine switched.
    ///
    /// Results do not change. The engine keeps its plan if the new one would run identically or cannot be run.
    pub fn replan(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.wait(async |core| core.replan(planning).await)
    }

    /// Derives the effect of changing to another program, without making the change permanent. Rules, tables and hooks may be
    /// added, removed or changed.
    ///
    /// Input tables keep their rows by name. Accepting the proposal deletes the rows of input tables that the new
    /// program lacks. Only the effects of the edit are computed, from the existing traces. The delta covers the new
    /// program's tables that `options` observe. It reports all rows of a new table as inserted. A hook goes on with what it
    /// remembers if it reads and fills the same tables.
    ///
    /// Several workers first load all rows into one. They share the work again after idle time. An edit that exceeds the
    /// [bound](Evaluator::bound) of the next transaction changes nothing.
    pub fn propose(&mut self, program: Arc<Program>, options: &Options) -> Result<Proposal<'_>, ChangeError> {
        match &mut self.carrier {
            None => now(self.core.propose(program, options)),
            Some(carrier) => carrier.block_on(self.core.propose(program, options)),
        }
    }
}

/// Starts the workers of this process.
pub(crate) fn start(
    program: &Arc<Program>,
    options: &Options,
    processes: Option<Processes>,
    symbols: &Arc<Symbols>,
) -> Result<Carrier<Message>, StartError> {
    let codec = Arc::new(SymbolCodec::new(Arc::clone(symbols)));
    let processes = processes.map(|processes| processes.alike(identity(program, options)));
    let (program, symbols, attribute) = (Arc::clone(program), Arc::clone(symbols), options.attribute);
    let serve = move |port| {
        let (program, symbols) = (Arc::clone(&program), Arc::clone(&symbols));
        Member { program, symbols, attribute, emit: None }.serve(port)
    };
    Ok(carrier::start(options.workers, processes, codec, serve)?)
}

/// What all processes must have in common.
fn identity(program: &Arc<Program>, options: &Options) -> Vec<(String, String)> {
    let wanted = core::wanted(program, options);
    let plan = Plan::new(Arc::clone(program), &wanted, &Settings::default());
    let digest = format!("{:016x}", fused::digest_of(&plan));
    vec![("release".to_owned(), env!("CARGO_PKG_VERSION").to_owned()), ("program".to_owned(), digest)]
}

/// Takes part in the work of process 0, with as many workers, until process 0 ends.
pub fn serve(program: &Arc<Program>, options: &Options, processes: Processes) -> Result<(), StartError> {
    let symbols = Arc::new(Symbols::of_several_processes());
    let mut carrier = start(program, options, Some(processes), &symbols)?;
    let port = carrier.port().clone();
    let member = Member { program: Arc::clone(program), symbols, attribute: options.attribute, emit: None };
    carrier.block_on(member.serve(port.clone())).map_err(|_| StartError::Lost(port.why()))
}

impl Evaluator for Dataflow {
    fn schema(&self) -> &Schema {
        &self.program().schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.core.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.wait(async |core| core.commit(transaction).await)
    }

    fn stored(&mut self) -> Result<StoredRows, CommitError> {
        Ok(self.core.stored())
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.wait(async |core| core.contents(table).await)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.wait(async |core| core.commit_columns(transaction).await)
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.wait(async |core| core.contents_columns(table).await)
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        self.core.rows_with(tables, values)
    }

    fn bound(&mut self, bound: Bound) {
        self.core.bound(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        self.maintain().map(drop)
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        self.wait(async |core| core.scrub().await)
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.wait(async |core| core.derive_anew().await)
    }

    fn present_rows(&mut self, wanted: &dyn Fn(TableId) -> bool) -> Result<Committed, CommitError> {
        self.wait(async |core| core.present_rows(wanted).await)
    }

    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        self.wait(async |core| core.tick(now_ms).await)
    }

    fn memories(&self) -> Memories {
        self.core.memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.core.restore(memories)
    }

    fn checkpoint(&mut self) {
        self.core.checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.wait(async |core| core.undo(transaction).await)
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.core.save(to).map_err(|error| error.to_string())
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        self.core.restore_rows(from).map_err(|error| error.to_string())
    }
}
