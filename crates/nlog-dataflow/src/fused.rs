//! The fused engine: all rules in their static order over traces in differential's spines. Timely carries messages between
//! its workers; [`operator`](crate::operator) runs it within a dataflow.
//!
//! A transaction costs only the rules that it touches, and an idle engine costs nothing. Differential's spine decides which batches
//! of a trace are merged and when. `docs/internals/rule-to-operators.md` explains the design and the
//! measurements behind it. The ideas come from delta joins (`half_join` in differential-dogs3) and from shared
//! arrangements ("Shared Arrangements", VLDB 2020).
//!
//! The modules, in reading order:
//!
//! - Storage: `trace` (pairs with counts, and the staged changes of a transaction), `batch` (the pairs, and how they are merged),
//!   `probe` (key lookup in batches), `delta` (inserted and deleted rows), `sorted` (rows in order), `index`.
//! - Rules: `pipeline` (from changed rows of one atom to rows of the head) with `probe_batch` (bindings that wait for a probe),
//!   `keys` (the sort keys of a batch), `replaced` (rows that run together) and `pipeline_end`; `groups` (aggregates), `relation` (from rows to sets), `rule`,
//!   `bounded` (how far a transaction may go), `watch` and `watched` (sets that need no counts so far), `errors`, `fault` (failures that tests inject).
//! - Transactions: `core` (the engine), `engine` (one transaction), `reading` (rows of relations), `inputs` (checks of transactions),
//!   `output` and `raw_delta` (from symbols to values), `profile`,
//!   `planning` (re-planning for the rows present), `saved` (an engine as bytes, and back), `scrub` (what is stored, compared with the inputs).
//! - Edits of rules: `edit` (the transaction), `live` (moving state from one program to the next), `proposal` (the
//!   interface).
//! - Several workers: `placement` (the worker of each row), `rounds` (a transaction on several workers), `again` (rows that are
//!   derived once more), `workers` (their protocol).

mod again;
mod batch;
mod bounded;
pub(crate) mod core;
pub(crate) mod delta;
mod edit;
pub(crate) mod engine;
pub(crate) mod errors;
pub(crate) mod fault;
mod groups;
mod hooks;
mod index;
pub(crate) mod inputs;
mod keys;
mod live;
pub(crate) mod output;
mod pipeline;
mod pipeline_end;
pub(crate) mod placement;
pub(crate) mod planning;
mod probe;
mod probe_batch;
mod profile;
mod proposal;
mod raw_delta;
mod reading;
pub(crate) mod relation;
mod replaced;
pub(crate) mod rounds;
mod rule;
mod saved;
mod scrub;
mod sorted;
mod trace;
mod watch;
mod watched;
pub(crate) mod workers;

use std::collections::HashSet;
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Memories,
    Row as ValueRow, Schema, Scrubbed, TableId, Transaction, TransactionError, Value,
};
use nlog_plan::Settings;
use nlog_plan::query::Plan;

use self::core::Core;
use self::workers::{Member, Message, Workers};
use crate::carrier::{self, Carrier, Processes};
use crate::dataflow::{Options, StartError};
use crate::panic::now;
use crate::symbol::Symbols;
use crate::wire::SymbolCodec;

pub(crate) use planning::WORTH_PLANNING;

pub use profile::{HookProfile, IndexProfile, PipelineProfile, Profile, RelationProfile, RuleProfile};
pub use proposal::{ChangeError, Proposal};
pub use raw_delta::{RawDelta, RawTableDelta};
pub use workers::Load;

/// A running engine for one program. The other workers, if there are any, are timely's: threads of this process, and of
/// others.
pub struct Engine {
    core: Core,
    /// Worker 0, which is the caller's thread.
    carrier: Option<Carrier<Message>>,
}

impl Engine {
    /// Plans the program and starts its workers.
    pub fn new(program: Arc<Program>, options: &Options) -> Result<Self, StartError> {
        if options.workers == 1 && !options.timely {
            let core = Core::new(program, options, Arc::new(Symbols::new()), None);
            return Ok(Engine { core, carrier: None });
        }
        Engine::with(program, options, None)
    }

    /// Plans the program and shares its work with other processes, each of which runs [`serve`] with the same program and options.
    /// This is process 0. Waits for the others to connect.
    pub fn across(
        program: Arc<Program>,
        options: &Options,
        processes: Processes,
    ) -> Result<Self, StartError> {
        Engine::with(program, options, Some(processes))
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
            Engine { core: Core::new(program, options, symbols, workers), carrier: Some(carrier) };
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
    /// Several workers first load all rows into one. They share the work again after idle time.
    pub fn propose(&mut self, program: Arc<Program>, options: &Options) -> Result<Proposal<'_>, ChangeError> {
        match &mut self.carrier {
            None => now(self.core.propose(program, options)),
            Some(carrier) => carrier.block_on(self.core.propose(program, options)),
        }
    }
}

/// Starts the workers of this process.
fn start(
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
    let wanted = self::core::wanted(program, options);
    let plan = Plan::new(Arc::clone(program), &wanted, &Settings::default());
    let digest = format!("{:016x}", saved::digest_of(&plan));
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

impl Evaluator for Engine {
    fn schema(&self) -> &Schema {
        &self.program().schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.core.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.wait(async |core| core.commit(transaction).await)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<ValueRow>, CommitError> {
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
    ) -> Result<Vec<(TableId, ValueRow)>, CommitError> {
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
        self.wait(async |core| core.save(to).await).map_err(|error| error.to_string())
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        self.core.restore_rows(from).map_err(|error| error.to_string())
    }
}
